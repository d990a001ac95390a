package ship_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
)

// sellDay makes the copy grow piece by piece, across the end of a file, and lets a day pass.
func (w *world) sellDay(n, pieces int) {
	w.t.Helper()
	for i := range pieces {
		w.grow(fmt.Sprintf("%010d.copy", 1+n+2*i/pieces), fmt.Sprintf("day %d sale %d;", n, i))
		w.steps()
	}
	time.Sleep(24 * time.Hour)
}

// check makes the box compare the store with what it shipped.
func (w *world) check() {
	w.t.Helper()
	if err := w.ship.Check(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// status writes the box's status, as the agent does.
func (w *world) status() {
	w.t.Helper()
	w.statusOf(box, 1)
}

func (w *world) statusOf(key fleetproto.Signer, epoch int64) {
	w.t.Helper()
	data, err := chain.Seal(&fleetproto.Status{Branch: "centro", Group: "norte", Epoch: epoch,
		Key: fleetproto.EncodeKey(fleetproto.Public(key).Public), Sequence: 1,
		At: time.Now(), Copy: w.ship.Shipped()}, key)
	if err == nil {
		err = w.store.Overwrite(context.Background(), fleetproto.StatusKey("centro", epoch), data)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// read fetches, and returns the objects that were read and the number of bytes.
func (w *world) read() (keys map[string]int, bytes int) {
	w.t.Helper()
	keys = make(map[string]int)
	var mu sync.Mutex // requests run in parallel
	w.store.Seen = func(r fleettest.Request, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil && r.Verb == "get" {
			keys[r.Key]++
			bytes += r.Bytes
		}
	}
	defer func() { w.store.Seen = nil }()
	if got, f, err := w.fetch(); err != nil || got != contents(w.t, w.dir) || f.Doubt != nil {
		w.t.Fatalf("%+v %v", f, err)
	}
	return keys, bytes
}

// TestParts: a rebuild of a branch of many days reads the parts and the pieces of the last day: a few objects, and the
// copy's bytes once.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const days, pieces = 12, 30
		for n := range days {
			w.sellDay(n, pieces)
			w.check()
			w.check() // not twice a day
		}
		w.grow("0000000099.copy", "tail")
		w.steps()
		keys, bytes := w.read()
		size := 0
		for _, key := range w.store.Keys(fleetproto.CopyFolder) {
			if strings.Contains(key, "/part/") {
				size += len(w.store.Held(key))
			}
		}
		pieceReads, parts := 0, 0
		for key := range keys {
			switch {
			case strings.Contains(key, "/part/"):
				parts++
			case strings.HasPrefix(key, fleetproto.CopyFolder) && key != fleetproto.WholeKey("centro", 1):
				pieceReads++
			}
		}
		if pieceReads != 1 || parts < days || parts > 2*days {
			t.Errorf("%d pieces of %d, %d parts", pieceReads, days*pieces, parts)
		}
		if most := size + days*4096; bytes > most {
			t.Errorf("%d bytes, more than %d", bytes, most)
		}
		t.Logf("%d pieces shipped; a rebuild reads %d objects, %d bytes of a copy of %d", days*pieces+1, len(keys),
			bytes, size)
	})
}

// TestParts_Faults: whatever fails with one request while a part is made, the next call makes the part, once, and a
// rebuild uses it.
func TestParts_Faults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		play := func(fault func(fleettest.Request) fleettest.Fault) *world {
			w := newWorld(t)
			for n := range 2 {
				w.sellDay(n, 4)
				w.store.Fault = fault
				_ = w.ship.Check(context.Background())
				w.store.Fault = nil
				w.start(box, 1) // and the box starts anew
				w.check()
			}
			if keys := w.store.Keys(fleetproto.PartsFolder("centro", 1)); len(keys) != 4 {
				t.Errorf("parts: %v", keys)
			}
			if keys, _ := w.read(); keys[fleetproto.SegmentKey("centro", 1, 2)] > 0 {
				t.Errorf("the parts were not used: %v", keys)
			}
			return w
		}
		first, last := 0, 0
		var mu sync.Mutex // requests come side by side
		play(func(r fleettest.Request) fleettest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if last = max(last, r.Number); first == 0 || r.Number < first {
				first = r.Number
			}
			return fleettest.None
		})
		for at := first; at <= last; at++ {
			for _, fault := range fleettest.Faults {
				play(func(r fleettest.Request) fleettest.Fault {
					if r.Number == at {
						return fault
					}
					return fleettest.None
				})
			}
		}
	})
}

// TestParts_Altered: an altered, exchanged, forged or lost part costs a rebuild only time, because the pieces have the
// same bytes. If a piece that a part contains is gone, the part provides it.
func TestParts_Altered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forge := func(w *world, first, last int64, key fleetproto.Signer) {
			b, err := chain.SealPiece(fleetproto.Piece{Branch: "centro", Epoch: 1, First: first, Number: last,
				File: "0000000001.copy"}, []byte("no sale"), key)
			if err == nil {
				err = w.store.Overwrite(t.Context(), fleetproto.PartKey("centro", 1, first, last), b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for name, harm := range map[string]func(w *world, parts []string){
			"exchanged": func(w *world, parts []string) {
				_ = w.store.Overwrite(t.Context(), parts[0], w.store.Held(parts[1]))
			},
			"forged":              func(w *world, _ []string) { forge(w, 1, 8, other) },
			"forged, without end": func(w *world, _ []string) { forge(w, 3, 1<<39, other) },
			"altered": func(w *world, parts []string) {
				b := w.store.Held(parts[1])
				b[len(b)-1] ^= 1
				_ = w.store.Overwrite(t.Context(), parts[1], b)
			},
			"lost": func(w *world, parts []string) { w.store.Lose(parts[1]) },
		} {
			w := newWorld(t)
			for n := range 3 {
				w.sellDay(n, 4)
				w.check()
			}
			harm(w, w.store.Keys(fleetproto.PartsFolder("centro", 1)))
			if got, f, err := w.fetch(); err != nil || (f.Doubt == nil) != (name == "lost") || f.Pieces != 12 ||
				got != contents(t, w.dir) {
				t.Errorf("%s: %+v %v", name, f, err)
			}
		}
		w := newWorld(t)
		w.sellDay(0, 4)
		w.check()
		w.grow("0000000007.copy", "tail")
		w.steps()
		w.store.Lose(fleetproto.SegmentKey("centro", 1, 3))
		if got, f, err := w.fetch(); err != nil || got != contents(t, w.dir) {
			t.Errorf("a piece is lost: %+v %v", f, err)
		}
		// A part of other bytes that the box's key signed, and that the store does not list, is replaced.
		w, twin := newWorld(t), newWorld(t)
		w.sellDay(0, 4)
		twin.sellDay(0, 4)
		twin.check()
		key := twin.store.Keys(fleetproto.PartsFolder("centro", 1))[0]
		last := int64(1)
		for fleetproto.PartKey("centro", 1, 1, last) != key {
			last++
		}
		forge(w, 1, last, box)
		w.store.Hidden = func(k string) bool { return k == key }
		w.check()
		if got := string(w.store.Held(key)); got != string(twin.store.Held(key)) {
			t.Errorf("the store holds %.300s", got)
		}
	})
}

// lost chooses objects that the store loses, and removes them.
func (w *world) lose(pieces ...int64) {
	for _, n := range pieces {
		w.store.Lose(fleetproto.SegmentKey("centro", 1, n))
	}
}

// TestCheck_Heals: whatever pieces and parts the store has lost or altered while the box lives, the box finds it within
// a day and ships them again from its second copy; then a rebuild reads everything.
func TestCheck_Heals(t *testing.T) {
	alter := func(t *testing.T, w *world, key string) {
		b := w.store.Held(key)
		b[len(b)-1] ^= 1
		if err := w.store.Overwrite(t.Context(), key, b); err != nil {
			t.Fatal(err)
		}
	}
	for name, harm := range map[string]func(t *testing.T, w *world, parts []string){
		"a piece":         func(_ *testing.T, w *world, _ []string) { w.lose(21) },
		"the first piece": func(_ *testing.T, w *world, _ []string) { w.lose(1) },
		"the last piece":  func(_ *testing.T, w *world, _ []string) { w.lose(24) },
		"pieces of files": func(_ *testing.T, w *world, _ []string) { w.lose(18, 19, 20, 21, 22, 24) },
		"all pieces":      func(_ *testing.T, w *world, _ []string) { w.lose(17, 18, 19, 20, 21, 22, 23, 24) },
		"an altered piece": func(t *testing.T, w *world, _ []string) {
			alter(t, w, fleetproto.SegmentKey("centro", 1,
				20))
		},
		"a swapped piece": func(t *testing.T, w *world, _ []string) {
			_ = w.store.Overwrite(t.Context(), fleetproto.SegmentKey("centro", 1, 20),
				w.store.Held(fleetproto.SegmentKey("centro", 1, 21)))
		},
		"a part":          func(_ *testing.T, w *world, parts []string) { w.store.Lose(parts[0]) },
		"an altered part": func(t *testing.T, w *world, parts []string) { alter(t, w, parts[1]) },
		"all parts": func(_ *testing.T, w *world, parts []string) {
			for _, key := range parts {
				w.store.Lose(key)
			}
		},
		"a part that is another": func(t *testing.T, w *world, parts []string) {
			_ = w.store.Overwrite(t.Context(), parts[0], w.store.Held(parts[1]))
		},
		"parts, pieces": func(t *testing.T, w *world, parts []string) {
			w.store.Lose(parts[0])
			alter(t, w, parts[1])
			w.lose(1, 2, 3, 4, 5, 20)
		},
		"the word that it is whole": func(_ *testing.T, w *world, _ []string) {
			w.store.Lose(fleetproto.WholeKey("centro", 1))
		},
		"everything": func(_ *testing.T, w *world, _ []string) {
			for _, key := range w.store.Keys(fleetproto.CopyFolder) {
				w.store.Lose(key)
			}
		},
	} {
		for _, restart := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for n := range 2 {
					w.sellDay(n, 8)
					w.check()
				}
				w.sellDay(2, 8)
				harm(t, w, w.store.Keys(fleetproto.PartsFolder("centro", 1)))
				if restart {
					w.start(box, 1)
				}
				w.check()
				w.status()
				if said := w.ship.Shipped(); said.Lacks != "" || said.Checked.IsZero() {
					t.Errorf("%s: %+v", name, said)
				}
				if got, f, err := w.fetch(); err != nil || got != contents(t, w.dir) || f.Lacks() != "" || !f.Whole {
					t.Errorf("%s: %s%+v %s %v", name, got, f, f.Lacks(), err)
				}
			})
		}
	}
}

// TestCheck_Lacks: pieces that both the store and the second copy have lost are named while the box lives, also after a
// start, and a rebuild names the same.
func TestCheck_Lacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sellDay(0, 8)
		if err := os.Remove(filepath.Join(w.dir, "0000000001.copy")); err != nil {
			t.Fatal(err)
		}
		w.lose(2, 3)
		for range 2 {
			w.check()
			w.status()
			if said := w.ship.Shipped().Lacks; said != "pieces 2 to 3" {
				t.Errorf("the box says %q", said)
			}
			if _, f, err := w.fetch(); err != nil || !strings.Contains(f.Lacks(), "pieces 2 to 3 of the copy") {
				t.Errorf("%+v %v", f, err)
			}
			time.Sleep(24 * time.Hour)
			w.start(box, 1)
		}
	})
}

// TestCheck_Shown: monitoring shows that a rebuild would not be complete, or that this could not be checked, and
// nothing of an earlier epoch.
func TestCheck_Shown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		epoch := int64(1)
		var err error
		w.ship, err = ship.New(ship.Options{Store: w.store, Chain: chain, Branch: "centro", Box: box, Folder: w.dir,
			Epoch: func() int64 { return epoch }, State: w.disk, Live: always, Restart: func(string) {},
			Segment: segment, Has: has, Cloned: func() {}, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		shows := func(what, lacks string, incomplete float64, checked bool) {
			t.Helper()
			got := metrictest.Value(t, w.ship, "dte_fleet_ship_incomplete")
			if said := w.ship.Shipped(); got != incomplete || said.Lacks != lacks || said.Checked.IsZero() == checked {
				t.Errorf("%s: incomplete %v, %+v", what, got, said)
			}
		}
		w.sellDay(0, 8)
		shows("not checked", "", 0, false)
		w.check()
		shows("checked", "", 0, true)
		w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Failed }
		if err := w.ship.Check(t.Context()); err == nil {
			t.Fatal("checked without a store")
		}
		shows("not checked again", "", 1, true)
		w.store.Fault = nil
		w.check()
		shows("checked again", "", 0, true)
		w.sellDay(1, 8)
		w.lose(10, 11)
		if err := os.Remove(filepath.Join(w.dir, "0000000002.copy")); err != nil {
			t.Fatal(err)
		}
		w.check()
		shows("lost", "pieces 10 to 11", 1, true)
		w.enrol(box, 3)
		epoch = 3
		w.steps()
		shows("another epoch", "", 0, false)
	})
}

// TestCheck_OnceADay: only the first check of a day joins the day's new pieces; the next day joins the others. A part
// that was joined too early would be one more object to read for ever.
func TestCheck_OnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sellDay(0, 8)
		parts := func() int { return len(w.store.Keys(fleetproto.PartsFolder("centro", 1))) }
		w.check()
		joined := parts()
		for n := range 3 {
			w.grow("0000000009.copy", fmt.Sprintf("sale %d;", n))
			w.steps()
			time.Sleep(time.Hour)
			w.check()
		}
		if parts() != joined || joined == 0 {
			t.Errorf("%d parts, then %d on one day", joined, parts())
		}
		time.Sleep(24 * time.Hour)
		w.check()
		if parts() != joined+1 {
			t.Errorf("%d parts, then %d on the next day", joined, parts())
		}
	})
}

// TestCheck_Daily: a running shipper joins a day's pieces once a day by itself, and makes few requests: they are
// counted for the runbook.
func TestCheck_Daily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var err error
		w.ship, err = ship.New(ship.Options{Store: w.store, Chain: chain, Branch: "centro", Box: box, Folder: w.dir,
			Epoch: func() int64 { return 1 }, State: w.disk, Live: always, Segment: segment, Has: has,
			Cloned: func() {}, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Every: 30 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		verbs := make(map[string]int)
		w.store.Seen = func(r fleettest.Request, _ error) { verbs[r.Verb]++ }
		go func() { done <- w.ship.Run(ctx) }()
		const days, sales = 10, 6
		for n := range days * sales {
			w.grow(fmt.Sprintf("%010d.copy", 1+n/20), fmt.Sprint("sale ", n, ";"))
			time.Sleep(24 * time.Hour / sales)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		parts := len(w.store.Keys(fleetproto.PartsFolder("centro", 1)))
		// Each piece is written once and read once; a day has one part or two (written, read), 2 lists, and one read of
		// the mark that the copy is whole.
		if parts < days-1 || parts > days+3 || verbs["create"] > sales*days+2*days || verbs["get"] > sales*days+4*days ||
			verbs["list"] > 3*days {
			t.Errorf("%d parts, %v", parts, verbs)
		}
		w.status()
		if _, f, err := w.fetch(); err != nil || f.Lacks() != "" || f.Parts != int64(parts) {
			t.Errorf("%+v %v", f, err)
		}
	})
}

// TestCheck_OtherBefore: the store was put back, and a copy of the box shipped one piece in the place of two. The box
// does not add its own bytes to the other's: it reports that a rebuild would not be complete.
func TestCheck_OtherBefore(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	clone := w.copied(t)
	w.grow("0000000001.copy", "-sold here")
	w.steps()
	w.grow("0000000001.copy", "-and here")
	w.steps()
	w.lose(2, 3)
	clone.start(box, 1)
	clone.grow("0000000001.copy", "head-there")
	clone.steps()
	if w.store.Held(fleetproto.SegmentKey("centro", 1, 2)) == nil {
		t.Fatal("the copy did not ship")
	}
	err := w.ship.Check(t.Context())
	if got, f, _ := w.fetch(); !errors.Is(err, ship.ErrCloned) && w.ship.Shipped().Lacks == "" && got != contents(t, w.dir) {
		t.Errorf("a rebuild would be %s, and the box says nothing: %+v %v", got, f, err)
	}
}

// greedy is a store that answers each read with as many bytes as the caller takes.
type greedy struct {
	*fleettest.Store
	open, most atomic.Int64
}

func (g *greedy) Fetch(ctx context.Context, key string, limit int64) (archive.Held, error) {
	g.most.Store(max(g.most.Load(), g.open.Add(limit)))
	defer g.open.Add(-limit)
	time.Sleep(time.Millisecond)
	return g.Store.Fetch(ctx, key, limit)
}

// TestCheck_Memory: whatever the store answers, a check takes no more than 80 MiB of it at a time.
func TestCheck_Memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 3 {
			w.sellDay(n, 40)
			w.check()
		}
		w.sellDay(3, 40)
		g := &greedy{Store: w.store}
		s, err := ship.New(ship.Options{Store: g, Chain: chain, Branch: "centro", Box: box, Folder: w.dir,
			Epoch: func() int64 { return 1 }, State: w.disk, Live: always, Segment: segment, Has: has, Cloned: func() {},
			Logger: slog.New(slog.DiscardHandler), Now: time.Now})
		if err == nil {
			err = s.Check(t.Context())
		}
		if most := g.most.Load(); err != nil || most > 80<<20 {
			t.Errorf("%d MiB at a time, %v", most>>20, err)
		}
	})
}

// said counts the messages of a log.
type said struct {
	mu sync.Mutex
	n  map[string]int
}

func (*said) Enabled(context.Context, slog.Level) bool { return true }
func (s *said) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s *said) WithGroup(string) slog.Handler          { return s }

func (s *said) Handle(_ context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[r.Message]++
	return nil
}

// of returns how often the log has a text.
func (s *said) of(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for message, times := range s.n {
		if strings.Contains(message, text) {
			n += times
		}
	}
	return n
}

// TestCheck_Repeated: a running shipper checks once a day; a check that failed, or that found a lack, it repeats every
// hour until it succeeds, and the log has each trouble once.
func TestCheck_Repeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := newWorld(t), &said{n: make(map[string]int)}
		s, err := ship.New(ship.Options{Store: w.store, Chain: chain, Branch: "centro", Box: box, Folder: w.dir,
			Epoch: func() int64 { return 1 }, State: w.disk, Live: always, Segment: segment, Has: has, Cloned: func() {},
			Logger: slog.New(log), Now: time.Now, Every: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		w.ship = s
		w.sellDay(0, 8)
		time.Sleep(time.Until(time.Now().Truncate(24 * time.Hour).Add(24*time.Hour + 30*time.Minute)))
		var checks atomic.Int32
		var away atomic.Bool
		w.store.Fault = func(r fleettest.Request) fleettest.Fault {
			if r.Key == fleetproto.PartsFolder("centro", 1) && r.Verb == "list" {
				if checks.Add(1); away.Load() {
					return fleettest.Failed
				}
			}
			return fleettest.None
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		hours := func(what string, n, least, most, unchecked, lost int) {
			t.Helper()
			before := checks.Load()
			time.Sleep(time.Duration(n) * time.Hour)
			synctest.Wait()
			if looks := int(checks.Load() - before); looks < least || looks > most || log.of("cannot be checked") != unchecked ||
				log.of("would not be complete") != lost {
				t.Errorf("%s: %d looks in %d hours, the log has %v", what, looks, n, log.n)
			}
		}
		away.Store(true)
		hours("the store is away", 3, 3, 3, 1, 0)
		away.Store(false)
		hours("it is back", 1, 1, 2, 1, 0) // a check that made parts looks twice
		hours("checked", 10, 0, 0, 1, 0)
		w.lose(1)
		for _, key := range w.store.Keys(fleetproto.PartsFolder("centro", 1)) {
			w.store.Lose(key)
		}
		if err := os.Remove(filepath.Join(w.dir, "0000000001.copy")); err != nil {
			t.Fatal(err)
		}
		hours("the next day something is lost", 14, 4, 14, 1, 1)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestFetch_Unread: one object that the store lists and does not return (its bytes are rotten, or in cold storage) does
// not keep a rebuild from the others: it is complete, or names what it lacks. The living box ships the bytes again.
func TestFetch_Unread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 3 {
			w.sellDay(n, 4)
			w.check()
		}
		w.grow("0000000099.copy", "tail")
		w.steps()
		w.status()
		keys, whole, complete := w.store.Keys(fleetproto.CopyFolder), contents(t, w.dir), 0
		for _, key := range append(keys, fleetproto.StatusKey("centro", 1)) {
			w.store.Fault = func(r fleettest.Request) fleettest.Fault {
				if r.Verb == "get" && r.Key == key {
					return fleettest.Unread
				}
				return fleettest.None
			}
			got, f, err := w.fetch()
			w.store.Fault = nil
			switch {
			case err != nil, f.Lacks() == "" && got != whole:
				t.Errorf("%s: %q %v", key, f.Lacks(), err)
			case f.Lacks() == "":
				complete++
			}
		}
		if complete < len(keys)-1 {
			t.Errorf("of %d, %d harm nothing", len(keys), complete)
		}
		part := w.store.Keys(fleetproto.PartsFolder("centro", 1))[0]
		w.disk = &fleettest.File{} // what the box has read before is read again
		w.start(box, 1)
		w.steps()
		w.store.Fault = func(r fleettest.Request) fleettest.Fault {
			if r.Verb == "put" && r.Key == part {
				w.store.Fault = nil
			}
			if r.Verb == "get" && r.Key == part {
				return fleettest.Unread
			}
			return fleettest.None
		}
		w.check()
		if w.store.Fault != nil || w.ship.Shipped().Lacks != "" {
			t.Errorf("%s was not written again: %+v", part, w.ship.Shipped())
		}
	})
}

// TestCheck_Denied: a box that may list, and read nothing, does not ask for each of its pieces, hour by hour.
func TestCheck_Denied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sellDay(0, 300)
		var asked atomic.Int64
		w.store.Fault = func(r fleettest.Request) fleettest.Fault {
			if r.Verb != "get" {
				return fleettest.None
			}
			asked.Add(1)
			return fleettest.Denied
		}
		if err := w.ship.Check(context.Background()); !errors.Is(err, archive.ErrSetup) {
			t.Error(err)
		}
		if n := asked.Load(); n > 130 {
			t.Errorf("it asked for %d objects", n)
		}
	})
}

// TestCheck_LostKey: the store has lost the key of a day's first pieces, and gives an error like that to an account
// without the right to read. They are shipped again: the box can read the later ones.
func TestCheck_LostKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sellDay(0, 300)
		w.store.Fault = func(r fleettest.Request) fleettest.Fault {
			if r.Verb == "get" && strings.HasPrefix(r.Key, fleetproto.PiecesPrefix("centro", 1)) &&
				r.Key <= fleetproto.SegmentKey("centro", 1, 150) {
				return fleettest.Denied
			}
			return fleettest.None
		}
		if err := w.ship.Check(context.Background()); err != nil || w.ship.Shipped().Lacks != "" {
			t.Error(err, w.ship.Shipped().Lacks)
		}
		w.status()
		if got, f, err := w.fetch(); err != nil || f.Lacks() != "" || got != contents(t, w.dir) {
			t.Error(f.Lacks(), err)
		}
	})
}
