package ship_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
	"dtegate/storage"
	"dtegate/storage/storetest"
)

func signer(id string, seed byte) fleetproto.Signer {
	return fleetproto.Signer{ID: id, Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}
}

var chain = fleetproto.Chain{Name: "super", Ambiente: "00"}

var director, box, other = signer("director", 1), signer("centro", 3), signer("centro", 4)

// world is a box with a second copy, and the chain's store.
type world struct {
	t      *testing.T
	dir    string
	store  *fleettest.Store
	disk   *fleettest.File
	ship   *ship.Shipper
	cloned int
	taken  []byte       // an object that a test puts back
	clock  atomic.Int64 // how far the box's clock is behind the store's, in ns; the box's goroutines read it
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), store: fleettest.New(time.Now), disk: &fleettest.File{}}
	w.enrol(box, 1)
	w.enrol(other, 2)
	w.start(box, 1)
	return w
}

// always is ship.Options.Live of a copy that has every change.
func always() bool { return true }

// has is ship.Options.Has of a box that is no old image.
func has([]byte) (bool, error) { return true, nil }

// segment is ship.Options.Segment of a copy whose files the box wrote, and which begins again with each file.
func segment(_ string, r io.ReaderAt) (id, after string, end int64, err error) {
	head := make([]byte, 4)
	n, _ := r.ReadAt(head, 0)
	return string(head[:n]), "", 0, nil
}

func (w *world) start(key fleetproto.Signer, epoch int64) {
	w.t.Helper()
	var err error
	w.ship, err = ship.New(ship.Options{Store: w.store, Chain: chain, Branch: "centro", Box: key, Folder: w.dir,
		Epoch: func() int64 { return epoch }, State: w.disk, Live: always, Restart: func(string) {}, Segment: segment,
		Has: has, Cloned: func() { w.cloned++ }, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(time.Duration(w.clock.Load())) }})
	if err != nil {
		w.t.Fatal(err)
	}
}

// grow appends to a file of the copy.
func (w *world) grow(file, text string) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// steps looks twice, because new bytes are shipped at the next look; errors are the store's.
func (w *world) steps() {
	for range 4 {
		_ = w.ship.Step(context.Background())
	}
}

func (w *world) fetch() (string, ship.Fetched, error) {
	w.t.Helper()
	dir := w.t.TempDir()
	got, err := ship.Fetch(context.Background(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)},
		"centro", 0, dir, nil)
	return contents(w.t, dir), got, err
}

func contents(t *testing.T, dir string) (text string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s: %q\n", e.Name(), b)
	}
	return text
}

// TestShip_Faults: whatever fails with one request, and wherever the box starts again, the store ends with the copy,
// once.
func TestShip_Faults(t *testing.T) {
	play := func(fault func(fleettest.Request) fleettest.Fault, restart int) *world {
		w := newWorld(t)
		w.store.Fault = fault
		n := 0
		w.store.Seen = func(fleettest.Request, error) { n++ }
		for i, piece := range [][2]string{{"0000000001.copy", "head"}, {"0000000001.copy", "-one"}, {"0000000001.copy",
			"-two"}, {"0000000002.copy", "next"}, {"0000000002.copy", "-more"}} {
			w.grow(piece[0], piece[1])
			if i == restart {
				w.disk = &fleettest.File{} // and its memory is lost
			}
			w.start(box, 1)
			w.steps()
		}
		w.store.Fault = nil
		w.steps()
		return w
	}
	clean := play(nil, -1)
	if got, f, err := clean.fetch(); err != nil || got != contents(t, clean.dir) || f.Epoch != 1 || f.Pieces != 5 {
		t.Fatalf("%s %+v %v", got, f, err)
	}
	for n := 3; n <= clean.store.Requests(); n++ {
		for _, fault := range fleettest.Faults {
			for restart := -1; restart < 5; restart += 2 {
				w := play(func(r fleettest.Request) fleettest.Fault {
					if r.Number == n {
						return fault
					}
					return fleettest.None
				}, restart)
				if got, _, err := w.fetch(); err != nil || got != contents(t, w.dir) || w.cloned != 0 || !w.whole(1) {
					t.Errorf("request %d %s, restart at %d: %s %v, cloned %d", n, fault, restart, got, err, w.cloned)
				}
			}
		}
	}
}

// A start writes the end of the copy again, in another file. An earlier piece whose answer was lost is recognised as
// the box's own nevertheless.
func TestShip_Voided(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	w.grow("0000000001.copy", "-sold")
	happens := false
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "create" && !happens {
			happens = true
			return fleettest.Happened
		}
		return fleettest.Lost
	}
	w.steps()
	if !happens {
		t.Fatal("no piece was lost")
	}
	for _, file := range []string{"0000000002.copy", "0000000003.copy"} { // and the next start is cut short too
		w.grow(file, "head-sold")
		if err := os.Remove(filepath.Join(w.dir, "0000000001.copy")); err != nil && file == "0000000002.copy" {
			t.Fatal(err)
		}
		w.start(box, 1)
		w.steps()
	}
	if err := os.Remove(filepath.Join(w.dir, "0000000002.copy")); err != nil {
		t.Fatal(err)
	}
	w.store.Fault = nil
	w.start(box, 1)
	w.steps()
	got, f, err := w.fetch()
	if want := "0000000001.copy: \"head-sold\"\n0000000003.copy: \"head-sold\"\n"; err != nil || got != want ||
		w.cloned != 0 {
		t.Errorf("%s %+v %v, cloned %d", got, f, err, w.cloned)
	}
}

// copied returns a box with the same store of the chain, and with the state that this box has now.
func (w *world) copied(t *testing.T) *world {
	t.Helper()
	image, err := w.disk.Load()
	clone := newWorld(t)
	if err := errors.Join(err, clone.disk.Save(image)); err != nil {
		t.Fatal(err)
	}
	clone.store = w.store
	return clone
}

// A second copy of the box that also runs finds other bytes under its own name, and gives no more numbers, even after a
// start.
func TestShip_Cloned(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	clone := w.copied(t)
	w.grow("0000000001.copy", "-sold here")
	w.steps()
	clone.start(box, 1)
	clone.grow("0000000001.copy", "head-sold there")
	_ = clone.ship.Step(t.Context())
	if err := clone.ship.Step(t.Context()); !errors.Is(err, ship.ErrCloned) || clone.cloned != 1 {
		t.Errorf("%v, told %d times", err, clone.cloned)
	}
	clone.start(box, 1)
	if clone.cloned != 2 {
		t.Error("the next start has forgotten it")
	}
	// A piece of the same bytes that follows another piece is the other copy's too.
	behind := newWorld(t)
	behind.grow("0000000001.copy", "head")
	behind.steps()
	piece, err := chain.SealPiece(fleetproto.Piece{Branch: "centro", Epoch: 1, Number: 2, File: "0000000001.copy",
		Offset: 4, Previous: fleetproto.Digest([]byte("another piece"))}, []byte("-sold"), box)
	if err == nil {
		err = behind.store.Create(t.Context(), fleetproto.SegmentKey("centro", 1, 2), piece)
	}
	if err != nil {
		t.Fatal(err)
	}
	behind.grow("0000000001.copy", "-sold")
	_ = behind.ship.Step(t.Context())
	if err := behind.ship.Step(t.Context()); !errors.Is(err, ship.ErrCloned) || behind.cloned != 1 {
		t.Errorf("%v, told %d times", err, behind.cloned)
	}
	// Under a key of its own and enrolled again, the copy of the disk is another box.
	clone.start(other, 2)
	if clone.steps(); clone.cloned != 2 || w.store.Held(fleetproto.SegmentKey("centro", 2, 1)) == nil {
		t.Errorf("the box with another key is stopped for good: told %d times", clone.cloned)
	}
}

// TestShip_ClonedBehind: the chain's store was put back, and a copy of the box ships under the lost numbers. The copy
// never meets an existing piece, therefore the box finds at its check what the copy shipped with the box's key. It
// stops, and does not overwrite the proof.
func TestShip_ClonedBehind(t *testing.T) {
	for name, more := range map[string]string{"shipped on": "-and more", "waits": ""} {
		w := newWorld(t)
		w.grow("0000000001.copy", "head")
		w.steps()
		clone := w.copied(t)
		w.grow("0000000001.copy", "-sold here")
		w.steps()
		w.store.Lose(fleetproto.SegmentKey("centro", 1, 2))
		clone.start(box, 1)
		clone.grow("0000000001.copy", "head-sold there")
		clone.steps()
		if w.store.Held(fleetproto.SegmentKey("centro", 1, 2)) == nil || clone.cloned > 0 {
			t.Fatal("the copy did not ship")
		}
		w.grow("0000000001.copy", more)
		w.steps()
		err := w.ship.Check(t.Context())
		if !errors.Is(err, ship.ErrCloned) || w.cloned != 1 || len(w.store.Keys(fleetproto.PartsFolder("centro", 1))) > 0 {
			t.Errorf("%s: %v, told %d times", name, err, w.cloned)
		}
		if err := w.ship.Step(t.Context()); !errors.Is(err, ship.ErrCloned) {
			t.Errorf("%s: it ships on: %v", name, err)
		}
	}
}

// A piece under the box's name that another key signed does not count as its own: the box reports it, and ships nothing
// after it.
func TestShip_Forged(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	key := fleetproto.SegmentKey("centro", 1, 2)
	forged, err := chain.SealPiece(fleetproto.Piece{Branch: "centro", Epoch: 1, Number: 2,
		Previous: fleetproto.Digest(w.store.Held(fleetproto.SegmentKey("centro", 1, 1))),
		File:     "0000000001.copy", Offset: 4}, []byte("-more"), other)
	if err == nil {
		err = w.store.Overwrite(t.Context(), key, forged)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.grow("0000000001.copy", "-more")
	failed := 0
	for range 4 {
		if err := w.ship.Step(t.Context()); err != nil && strings.Contains(err.Error(), "somebody else's") {
			failed++
		}
	}
	if failed == 0 || w.cloned != 0 || !bytes.Equal(w.store.Held(key), forged) ||
		w.store.Held(fleetproto.SegmentKey("centro", 1, 3)) != nil {
		t.Errorf("said %d times, cloned %d", failed, w.cloned)
	}
}

// A piece that was altered, exchanged, lost by the store, or written by somebody else is missing: it is named, a gap is
// in its place, and later pieces are used.
func TestFetch_Altered(t *testing.T) {
	for name, harm := range map[string]func(w *world, key func(int64) string){
		"altered": func(w *world, key func(int64) string) {
			b := w.store.Held(key(2))
			b[len(b)-1] ^= 1
			_ = w.store.Overwrite(t.Context(), key(2), b)
		},
		"exchanged": func(w *world, key func(int64) string) {
			_ = w.store.Overwrite(t.Context(), key(2),
				w.store.Held(key(3)))
		},
		"lost": func(w *world, key func(int64) string) { w.store.Lose(key(2)) },
		"forged": func(w *world, key func(int64) string) {
			b, err := chain.SealPiece(fleetproto.Piece{Branch: "centro", Epoch: 1, Number: 2,
				Previous: fleetproto.Digest(w.store.Held(key(1))), File: "0000000001.copy", Offset: 4},
				[]byte("forged"), other)
			if err != nil {
				t.Fatal(err)
			}
			_ = w.store.Overwrite(t.Context(), key(2), b)
		},
	} {
		w := newWorld(t)
		for _, text := range []string{"head", "-one", "-two"} {
			w.grow("0000000001.copy", text)
			w.steps()
		}
		harm(w, func(n int64) string { return fleetproto.SegmentKey("centro", 1, n) })
		if got, f, err := w.fetch(); err != nil || f.Pieces != 2 || !slices.Equal(f.Missing,
			[]ship.Span{{From: 2, To: 2}}) || !strings.Contains(f.Lacks(), "altered piece 2 of the copy") ||
			got != "0000000001.copy: \"head\\x00\\x00\\x00\\x00-two\"\n" {
			t.Errorf("%s: %s %+v %v", name, got, f, err)
		}
	}
	w := newWorld(t)
	if _, _, err := w.fetch(); !errors.Is(err, ship.ErrNothing) {
		t.Error(err)
	}
}

// TestShip_Store: a store whose box and media are lost is made again from the shipped data, with every number.
func TestShip_Store(t *testing.T) {
	dir := t.TempDir()
	o := storage.Options{Dir: filepath.Join(dir, "data"), MarkPath: filepath.Join(dir, "mark"), Now: time.Now,
		Logger: slog.New(slog.DiscardHandler)}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	o.SecondCopy = w.dir
	s, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	const series, records = "00/01/M001/P001/2026", 40
	for i := range records {
		a, err := s.Begin(t.Context(), storage.Keys{Series: series})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Number(); err != nil {
			t.Fatal(err)
		}
		var code storage.Code
		_, _ = rand.Read(code[:])
		if _, err := a.Append(storage.Draft{Code: code, State: 1, Head: []byte(`{"a":1}`)}); err != nil {
			t.Fatal(err)
		}
		a.Release()
		_ = w.ship.Step(t.Context())
		if i == records/2 { // and half of it comes back from a base
			w.clock.Add(int64(31 * 24 * time.Hour))
			w.check()
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w.steps()
	folder := t.TempDir()
	got, err := ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro", 0,
		folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := storage.Options{Dir: filepath.Join(dir, "again"), MarkPath: filepath.Join(dir, "again.mark"),
		Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	b, err := storage.Assemble(t.Context(), storage.Sources{Copy: folder}, again, nil)
	if err != nil || len(storetest.Missing(b)) > 0 || b.Last[series] != records || got.Parts == 0 || got.Doubt != nil {
		t.Errorf("%+v, %v; %+v", b, err, got)
	}
}

// TestShip_OneLookBehind: from the growing file, only the bytes of the previous look are shipped: later bytes may not
// be on the medium yet. A file with a later file beside it is complete.
func TestShip_OneLookBehind(t *testing.T) {
	w := newWorld(t)
	shipped := func(want string) {
		t.Helper()
		if err := w.ship.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, _, err := w.fetch()
		if want == "" && !errors.Is(err, ship.ErrNothing) || want != "" && (err != nil || got != want) {
			t.Errorf("shipped %q, %v, want %q", got, err, want)
		}
	}
	w.grow("0000000001.copy", "head")
	shipped("")
	w.grow("0000000001.copy", "-one")
	shipped("0000000001.copy: \"head\"\n")
	w.grow("0000000001.copy", "-two")
	w.ship.Carry("0000000001.copy", 12) // says nothing about the next file
	w.grow("0000000002.copy", "next")
	shipped("0000000001.copy: \"head-one-two\"\n")
	w.grow("0000000002.copy", "-more")
	shipped("0000000001.copy: \"head-one-two\"\n0000000002.copy: \"next\"\n")
}

// TestFetch_Links: somebody who can write beside or in the folder cannot make a fetch write into another file.
func TestFetch_Links(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	for _, link := range []string{"copy/0000000001.copy", "copy.fetched.new"} {
		dir := t.TempDir()
		folder, other := filepath.Join(dir, "copy"), filepath.Join(dir, "mark")
		note := `{"branch":"centro","epoch":1,"piece":0,"files":{}}` // keeps the folder's content
		err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(other, []byte("mark"), 0o600),
			os.WriteFile(folder+".fetched", []byte(note), 0o600), os.Symlink(other, filepath.Join(dir, link)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro", 0,
			folder, nil)
		if b, bad := os.ReadFile(other); bad != nil || string(b) != "mark" || err == nil {
			t.Errorf("%s: %v, the other file holds %q", link, err, b)
		}
	}
}

// TestShip_WithoutState: a box that has lost its state goes on behind the last piece in the store only if its own store
// has that piece's changes; else it is an old image of itself.
func TestShip_WithoutState(t *testing.T) {
	unread := errors.New("the box's store cannot be read")
	for name, c := range map[string]struct {
		has    bool
		err    error
		cloned int
	}{"it has them": {has: true}, "it lacks them": {cloned: 1}, "it does not know": {err: unread}} {
		w := newWorld(t)
		w.grow("0000000001.copy", "head")
		w.steps()
		w.grow("0000000001.copy", "-sold")
		s, err := ship.New(ship.Options{Store: w.store, Chain: chain, Branch: "centro", Box: box, Folder: w.dir,
			Epoch: func() int64 { return 1 }, State: &fleettest.File{}, Live: always, Restart: func(string) {},
			Segment: segment, Has: func(b []byte) (bool, error) {
				if string(b) != "head" {
					t.Errorf("%s: asked about %q", name, b)
				}
				return c.has, c.err
			}, Cloned: func() { w.cloned++ }, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
		if err == nil {
			_, err = s.Step(t.Context()), s.Step(t.Context())
		}
		if errors.Is(err, ship.ErrCloned) != (c.cloned > 0) || errors.Is(err, unread) != (c.err != nil) ||
			w.cloned != c.cloned || (w.store.Held(fleetproto.SegmentKey("centro", 1, 2)) != nil) != c.has {
			t.Errorf("%s: %v, told %d times", name, err, w.cloned)
		}
	}
}

// TestShip_Compared: no sale is let go on before the store has answered that it has no later piece of this box; an old
// image of the box, with its state, finds the later piece.
func TestShip_Compared(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	image, err := w.disk.Load()
	if err != nil {
		t.Fatal(err)
	}
	compared := func() bool {
		select {
		case <-w.ship.Compared(1):
			return true
		default:
			return false
		}
	}
	w.start(box, 1)
	w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Failed }
	if err := w.ship.Step(t.Context()); err == nil || compared() {
		t.Errorf("a store that does not answer knows no later piece: %v", err)
	}
	w.store.Fault = nil
	if err := w.ship.Step(t.Context()); err != nil || !compared() {
		t.Errorf("a store that answers: %v", err)
	}
	w.grow("0000000001.copy", "-sold")
	w.steps()
	if err := errors.Join(w.disk.Save(image), os.WriteFile(filepath.Join(w.dir, "0000000001.copy"), []byte("head"),
		0o600)); err != nil {
		t.Fatal(err)
	}
	w.start(box, 1)
	if err := w.ship.Step(t.Context()); !errors.Is(err, ship.ErrCloned) || w.cloned != 1 || compared() {
		t.Errorf("an old image: %v, told %d times", err, w.cloned)
	}
}
