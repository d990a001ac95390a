// Package enginetest has worlds for tests of a branch: a branch and MH in real or in fake time, requests of tills, mail
// servers, buckets and the rules of a shelf.
//
// The module has five such worlds. What distinguishes each:
//
//   - World: the engine in the test's process, a clock that the test sets, MH over a socket.
//   - Box: the engine in fake time (testing/synctest), MH over pipes that can be refused, cut or emptied.
//   - gateway/tilltest.Branch: a World with the gateway before it; requests of tills over a socket.
//   - cmd/cmdtest/boxtest.Box: the folder of a branch as dted and dtectl read it, and its forty ways to be broken.
//   - engine/fleet/fleettest: the chain's store; its tests give it Boxes.
package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
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

const TestNIT = "06141804941035"

// Start is when every World begins: 2026-11-21 10:00 in El Salvador.
var Start = time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)

// clock is a clock that a test sets while the branch reads it.
type clock struct{ at atomic.Int64 }

func (c *clock) Set(t time.Time) { c.at.Store(t.UnixNano()) }
func (c *clock) now() time.Time  { return time.Unix(0, c.at.Load()) }

// shared is what all worlds have in common, made once: key, rules.
type shared struct {
	Key  *sign.Key
	Book *rulestore.Book
}

var (
	sharedOnce sync.Once
	sharedVal  shared
)

func Common(t testing.TB) shared {
	t.Helper()
	sharedOnce.Do(func() {
		key, err := sign.Generate(1024)
		if err != nil {
			t.Fatal(err)
		}
		plugintest.Rule(t, "dte01/v2", "interpreter") // plugintest keeps the rule: tests push it often
		sharedVal = shared{key, loadBook(t)}
	})
	if sharedVal.Book == nil {
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
	book, err := rulestore.NewBook(loaded, nil, catalogues, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// World is a branch and an authority: the real store on a filesystem that can crash, the real client over a socket.
type World struct {
	T      testing.TB
	Fs     *disktest.Disk
	Sim    *simulator.Simulator
	Server *httptest.Server
	Wire   *wire
	Store  *storage.Store
	Engine *engine.Engine
	Now    func() time.Time // default: reads Clock
	// ambiente is a code of CAT-001: "00" in all worlds but those of NewWorldIn.
	ambiente string
	Clock    clock
	Box      *recordmac.Key // of the shelf
	Pinned   []bundle.Key   // instead of plugintest.Key
	log      *slog.Logger   // of the shelf; quiet
	// Points and Returned are those of rulestore.Options.
	Points   int
	Returned func(rulestore.StepBack)
	// storeAt, if set, is where the store lies; else it is in memory.
	storeAt *storage.Options
	// Change, if set, changes the options of each engine.
	Change func(*engine.Options)
	mh     *authority.Client
}

// wire is the cable between the branch and the authority: it can be cut, and calls back around each request.
type wire struct {
	Under http.RoundTripper
	Mu    sync.Mutex
	cut   bool
	At    func(point string) // before and after every request
	heard func(date string)  // called with the header Date of each answer
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.call("before " + r.URL.Path)
	w.Mu.Lock()
	cut := w.cut
	w.Mu.Unlock()
	if cut {
		return nil, fmt.Errorf("the cable is cut")
	}
	resp, err := w.Under.RoundTrip(r)
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
	w.Mu.Lock()
	at := w.At
	w.Mu.Unlock()
	if at != nil {
		at(point)
	}
}

func (w *wire) Sever() { w.set(true) }
func (w *wire) Mend()  { w.set(false) }

func (w *wire) set(cut bool) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.cut = cut
}

var Quiet = slog.New(slog.DiscardHandler)

// NewWorld makes a branch with a fresh store, and an authority that knows the branch.
func NewWorld(t testing.TB) *World {
	t.Helper()
	return NewSim(t).create()
}

// NewWorldIn is NewWorld in an ambiente (CAT-001), with other settings of the engine and, if now is not nil, by another
// clock. In production it accepts simulated seals.
func NewWorldIn(t testing.TB, ambiente string, now func() time.Time, change func(*engine.Options)) *World {
	t.Helper()
	w := newSim(t, ambiente)
	w.Change = change
	if now != nil {
		w.Now = now
	}
	return w.create()
}

func (w *World) create() *World {
	w.T.Helper()
	w.Fs = disktest.New(disktest.Strict)
	if err := storage.Create(w.storeOptions(w.Fs)); err != nil {
		w.T.Fatal(err)
	}
	w.Open(w.Fs, w.Fs)
	return w
}

// NewWorldOnDisk is NewWorld with the store on this machine's disk.
func NewWorldOnDisk(t testing.TB) *World {
	t.Helper()
	w := NewSim(t)
	o := w.storeOptions(vfs.Default)
	o.Dir, o.MarkPath = t.TempDir()+"/data", t.TempDir()+"/mark"
	w.storeAt = &o
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	w.Open(nil, vfs.Default)
	return w
}

// NewSim makes a world that has only its authority yet.
func NewSim(t testing.TB) *World { return newSim(t, "00") }

func newSim(t testing.TB, ambiente string) *World {
	t.Helper()
	w := &World{T: t, ambiente: ambiente}
	w.Clock.Set(Start)
	w.Now = w.Clock.now
	w.Sim = simulator.New(simulator.Options{Seed: 1, Now: func() time.Time { return w.Now() }, Logger: Quiet,
		AllowProduction: ambiente == "01",
		Issuers:         []simulator.Issuer{{NIT: TestNIT, Password: "secreto-mh.2026", PublicKey: Common(t).Key.Public()}}})
	w.Server = httptest.NewServer(w.Sim.Protocol())
	return w
}

func (w *World) storeOptions(fs vfs.FS) storage.Options {
	if w.storeAt != nil {
		return *w.storeAt
	}
	return storage.Options{Dir: "/data", MarkPath: "/mark", FS: fs, Logger: Quiet,
		Now:   func() time.Time { return w.Now() },
		Fatal: func(m string) { panic("fatal: " + m) }}
}

// Open starts the branch on a filesystem. seen is the filesystem that the store uses: fs, or a layer over it.
func (w *World) Open(fs *disktest.Disk, seen vfs.FS) {
	w.T.Helper()
	w.Fs = fs
	if err := w.start(seen); err != nil {
		w.T.Fatal(err)
	}
}

// Reopen starts the branch anew on another filesystem, with a new cable.
func (w *World) Reopen(fs *disktest.Disk) error {
	w.Fs = fs
	return w.start(fs)
}

func (w *World) start(seen vfs.FS) (err error) {
	if w.Store, err = storage.Open(w.storeOptions(seen)); err != nil {
		return fmt.Errorf("opening store: %w", err)
	}
	return w.Client(new(http.Transport), w.Server.URL)
}

// Client starts the engine with a client of MH at url, over a transport (way).
func (w *World) Client(way http.RoundTripper, url string) (err error) {
	w.Wire = &wire{Under: way}
	w.mh = authority.New(authority.Options{BaseURL: url, NIT: TestNIT, Password: "secreto-mh.2026",
		Ambiente: w.ambiente, Rehearsal: w.ambiente == "01", UserAgent: "test",
		Now: func() time.Time { return w.Now() }, Transport: w.Wire, AnswerTimeout: 20 * time.Second})
	return w.remake(nil)
}

// remake makes another engine in the same process, with a shelf or, without one, the common rules.
func (w *World) remake(shelf *rulestore.Store) (err error) {
	w.Engine, err = engine.New(w.options(shelf))
	return err
}

func (w *World) options(shelf *rulestore.Store) engine.Options {
	o := engine.Options{
		Store:     w.Store,
		Signer:    sign.New(Common(w.T).Key),
		Authority: w.mh,
		Shelf:     shelf,
		Issuer:    TestIssuer(),
		Logger:    Quiet,
		Now:       func() time.Time { return w.Now() },
		Gate:      func(record.Point) error { return nil },
		Open:      func(string) bool { return true },
		Acted:     func(engine.Act) {},
	}
	o.Issuer.Ambiente = w.ambiente
	if shelf == nil {
		o.Shelf = Ruled(w.T, w.Store, Common(w.T).Book, w.ambiente, o.Now)
	}
	if w.Change != nil {
		w.Change(&o)
	}
	return o
}

// Close ends the branch and checks its store.
func (w *World) Close() {
	w.T.Helper()
	w.Fsck()
	if err := w.Store.Close(); err != nil {
		w.T.Errorf("closing store: %v", err)
	}
	w.Server.Close()
}

func (w *World) Fsck() *storage.Report {
	w.T.Helper()
	r, err := w.Store.Fsck(context.Background())
	if err != nil {
		w.T.Fatalf("fsck: %v", err)
	}
	for _, p := range r.Problems {
		w.T.Errorf("fsck: %v", p)
	}
	return r
}

func Member(name string, v dte.Value) dte.Member { return dte.Member{Name: name, Value: v} }

func TestIssuer() record.Issuer {
	return record.Issuer{ID: 1, Slug: "tienda", Ambiente: "00", Facts: dte.Obj(
		Member("nit", dte.Str(TestNIT)), Member("nrc", dte.Str("2390516")), Member("nombre",
			dte.Str("Abarrotes La Ceiba")),
		Member("codActividad", dte.Str("47111")), Member("descActividad", dte.Str("Venta en supermercados")),
		Member("nombreComercial", dte.Null()),
		Member("direccion", dte.Obj(Member("departamento", dte.Str("06")), Member("municipio", dte.Str("23")),
			Member("distrito", dte.Str("14")), Member("complemento", dte.Str("Calle Arce 1020")))),
		Member("telefono", dte.Str("22571234")), Member("correo", dte.Str("a@example.com")))}
}

func TestCaller(point int) record.Caller {
	return record.Caller{TokenID: 1, MailsOthers: true, Point: record.Point{ID: int64(point), BranchID: 1,
		Establishment: "M001", PointOfSale: fmt.Sprintf("P%03d", point)}}
}

// Sale is a consumer invoice of one line; its price makes it recognisable.
func Sale(key string, cents int) engine.Request {
	facts := dte.Obj(
		Member("receptor", dte.Null()),
		Member("cuerpoDocumento", dte.Arr(dte.Obj(Member("numItem", dte.Int(1)), Member("tipoItem", dte.Int(1)),
			Member("cantidad", dte.Int(1)),
			Member("uniMedida", dte.Int(59)), Member("descripcion", dte.Str("Café")), Member("precioUni",
				dte.Num(dte.Amount(cents)*dte.Scale/100))))),
		Member("resumen", dte.Obj(Member("condicionOperacion", dte.Int(1)), Member("pagos",
			dte.Arr(dte.Obj(Member("codigo", dte.Str("01"))))))))
	return engine.Request{Document: "01", Facts: facts, IdempotencyKey: key,
		Body: dte.Int(int64(cents)), Caller: TestCaller(1)}
}
