package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/engine/rulestore"
	"dtegate/engine/sign"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/bundle"
	"dtegate/storage"
	"dtegate/storage/disktest"
)

const testNIT = "06141804941035"

// start is when every test begins: 2026-11-21 10:00 in El Salvador.
var start = time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)

// clock is a clock that a test sets while the branch reads it.
type clock struct{ at atomic.Int64 }

func (c *clock) set(t time.Time) { c.at.Store(t.UnixNano()) }
func (c *clock) now() time.Time  { return time.Unix(0, c.at.Load()) }

// shared is what all worlds have in common, made once: key, rules.
type shared struct {
	key  *sign.Key
	book *rulestore.Book
}

var (
	sharedOnce sync.Once
	sharedVal  shared
)

func common(t testing.TB) shared {
	t.Helper()
	sharedOnce.Do(func() {
		key, err := sign.Generate(1024)
		if err != nil {
			t.Fatal(err)
		}
		plugintest.Rule(t, "dte01/v2", "interpreter") // held, like those of the book: tests push it again and again
		sharedVal = shared{key, loadBook(t)}
	})
	if sharedVal.book == nil {
		t.Fatal("the common parts of the tests could not be made")
	}
	return sharedVal
}

func loadBook(t testing.TB) *rulestore.Book {
	t.Helper()
	var loaded []*rules.Rule
	for _, name := range plugins.Names {
		loaded = append(loaded, plugintest.Rule(t, name, "compiler"))
	}
	var catalogues *dte.Catalogues
	for _, r := range loaded {
		if r.Bundle.Manifest.Kind == "catalogue" {
			var err error
			if catalogues, err = dte.ParseCatalogues(r.Bundle.Parts["catalogues.json"]); err != nil {
				t.Fatal(err)
			}
		}
	}
	book, err := rulestore.NewBook(rules.NewGeneration(loaded...), nil, catalogues, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// world is a branch and an authority: the real store on a filesystem that can crash, the real client over a socket.
type world struct {
	t      testing.TB
	fs     *disktest.Disk
	sim    *simulator.Simulator
	server *httptest.Server
	wire   *wire
	store  *storage.Store
	engine *Engine
	now    func() time.Time // the clock's
	clock  clock
	box    *recordmac.Key // of the shelf
	pinned []bundle.Key   // instead of the tests' own
	log    *slog.Logger   // of the shelf; quiet
	// points and returned are shelf.Options' own.
	points   int
	returned func(rulestore.StepBack)
	// storeAt, if set, is where the store lies; else it is in memory.
	storeAt *storage.Options
	// change, if set, changes the options of each engine.
	change func(*Options)
	mh     *authority.Client
}

// wire is the cable between the branch and the authority: it can be cut, and calls back around each request.
type wire struct {
	under http.RoundTripper
	mu    sync.Mutex
	cut   bool
	at    func(point string) // before and after every request
	heard func(date string)  // told of each answer's date
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.call("before " + r.URL.Path)
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return nil, fmt.Errorf("the cable is cut")
	}
	resp, err := w.under.RoundTrip(r)
	if err == nil { // the whole answer is here before the world goes on
		b, readErr := io.ReadAll(resp.Body)
		resp.Body.Close()
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(b), errReader{readErr}))
	}
	if err == nil && w.heard != nil {
		w.heard(resp.Header.Get("Date"))
	}
	w.call("after " + r.URL.Path)
	return resp, err
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) {
	if e.err == nil {
		return 0, io.EOF
	}
	return 0, e.err
}

func (w *wire) call(point string) {
	w.mu.Lock()
	at := w.at
	w.mu.Unlock()
	if at != nil {
		at(point)
	}
}

func (w *wire) sever() { w.set(true) }
func (w *wire) mend()  { w.set(false) }

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

var quiet = slog.New(slog.DiscardHandler)

// newWorld makes a branch with a fresh store, and an authority that knows the branch.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := newSim(t)
	w.fs = disktest.New(disktest.Strict)
	if err := storage.Create(w.storeOptions(w.fs)); err != nil {
		t.Fatal(err)
	}
	w.open(w.fs, w.fs)
	return w
}

// newWorldOnDisk is newWorld with the store on this machine's disk.
func newWorldOnDisk(t testing.TB) *world {
	t.Helper()
	w := newSim(t)
	o := w.storeOptions(vfs.Default)
	o.Dir, o.MarkPath = t.TempDir()+"/data", t.TempDir()+"/mark"
	w.storeAt = &o
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	w.open(nil, vfs.Default)
	return w
}

// newSim makes a world that has only its authority yet.
func newSim(t testing.TB) *world {
	t.Helper()
	w := &world{t: t}
	w.clock.set(start)
	w.now = w.clock.now
	w.sim = simulator.New(simulator.Options{Seed: 1, Now: func() time.Time { return w.now() }, Logger: quiet,
		Issuers: []simulator.Issuer{{NIT: testNIT, Password: "secreto-mh.2026", PublicKey: common(t).key.Public()}}})
	w.server = httptest.NewServer(w.sim.Protocol())
	return w
}

func (w *world) storeOptions(fs vfs.FS) storage.Options {
	if w.storeAt != nil {
		return *w.storeAt
	}
	return storage.Options{Dir: "/data", MarkPath: "/mark", FS: fs, Logger: quiet,
		Now:   func() time.Time { return w.now() },
		Fatal: func(m string) { panic("fatal: " + m) }}
}

// open starts the branch on a filesystem; seen is what the store sees of it.
func (w *world) open(fs *disktest.Disk, seen vfs.FS) {
	w.t.Helper()
	w.fs = fs
	if err := w.start(seen); err != nil {
		w.t.Fatal(err)
	}
}

// reopen starts the branch anew on another filesystem, with a new cable.
func (w *world) reopen(fs *disktest.Disk) error {
	w.fs = fs
	return w.start(fs)
}

func (w *world) start(seen vfs.FS) (err error) {
	if w.store, err = storage.Open(w.storeOptions(seen)); err != nil {
		return fmt.Errorf("opening store: %w", err)
	}
	return w.client(new(http.Transport), w.server.URL)
}

// client starts the engine over a way to MH.
func (w *world) client(way http.RoundTripper, url string) (err error) {
	w.wire = &wire{under: way}
	w.mh = authority.New(authority.Options{BaseURL: url, NIT: testNIT, Password: "secreto-mh.2026", Ambiente: "00",
		UserAgent: "test",
		Now:       func() time.Time { return w.now() }, Transport: w.wire, AnswerTimeout: 5 * time.Second})
	return w.remake(nil)
}

// remake makes another engine in the same process, with a shelf or, without one, the common rules.
func (w *world) remake(shelf *rulestore.Store) (err error) {
	w.engine, err = New(w.options(shelf))
	return err
}

func (w *world) options(shelf *rulestore.Store) Options {
	o := Options{Store: w.store, Signer: sign.New(common(w.t).key), Authority: w.mh, Shelf: shelf, Issuer: testIssuer(),
		Logger: quiet, Now: func() time.Time { return w.now() }}
	if shelf == nil {
		o.Rules = common(w.t).book
	}
	if w.change != nil {
		w.change(&o)
	}
	return o
}

// close ends the branch and checks its store.
func (w *world) close() {
	w.t.Helper()
	w.fsck()
	if err := w.store.Close(); err != nil {
		w.t.Errorf("closing store: %v", err)
	}
	w.server.Close()
}

func (w *world) fsck() *storage.Report {
	w.t.Helper()
	r, err := w.store.Fsck(context.Background())
	if err != nil {
		w.t.Fatalf("fsck: %v", err)
	}
	for _, p := range r.Problems {
		w.t.Errorf("fsck: %v", p)
	}
	return r
}

func member(name string, v dte.Value) dte.Member { return dte.Member{Name: name, Value: v} }

func testIssuer() record.Issuer {
	return record.Issuer{ID: 1, Slug: "tienda", Ambiente: "00", Facts: dte.Obj(
		member("nit", dte.Str(testNIT)), member("nrc", dte.Str("2390516")), member("nombre",
			dte.Str("Abarrotes La Ceiba")),
		member("codActividad", dte.Str("47111")), member("descActividad", dte.Str("Venta en supermercados")),
		member("nombreComercial", dte.Null()),
		member("direccion", dte.Obj(member("departamento", dte.Str("06")), member("municipio", dte.Str("23")),
			member("distrito", dte.Str("14")), member("complemento", dte.Str("Calle Arce 1020")))),
		member("telefono", dte.Str("22571234")), member("correo", dte.Str("a@example.com")))}
}

func testCaller(point int) record.Caller {
	return record.Caller{TokenID: 1, MailsOthers: true, Point: record.Point{ID: int64(point), BranchID: 1,
		Establishment: "M001", PointOfSale: fmt.Sprintf("P%03d", point)}}
}

// sale is a consumer invoice of one line; its price makes it recognisable.
func sale(key string, cents int) Request {
	facts := dte.Obj(
		member("receptor", dte.Null()),
		member("cuerpoDocumento", dte.Arr(dte.Obj(member("numItem", dte.Int(1)), member("tipoItem", dte.Int(1)),
			member("cantidad", dte.Int(1)),
			member("uniMedida", dte.Int(59)), member("descripcion", dte.Str("Café")), member("precioUni",
				dte.Num(dte.Amount(cents)*dte.Scale/100))))),
		member("resumen", dte.Obj(member("condicionOperacion", dte.Int(1)), member("pagos",
			dte.Arr(dte.Obj(member("codigo", dte.Str("01"))))))))
	return Request{Document: "01", Facts: facts, IdempotencyKey: key,
		Digest: sha256.Sum256([]byte(strconv.Itoa(cents))), Caller: testCaller(1)}
}
