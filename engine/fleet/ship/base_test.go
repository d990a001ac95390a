package ship_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
	"dtegate/engine/fleet/wire"
)

// sellMonth grows the copy piece by piece, over the end of a file, and lets a month pass.
func (w *world) sellMonth(n, pieces int) {
	w.t.Helper()
	for i := range pieces {
		w.grow(fmt.Sprintf("%010d.copy", 1+n+2*i/pieces), fmt.Sprintf("month %d sale %d;", n, i))
		w.steps()
	}
	time.Sleep(31 * 24 * time.Hour)
}

// base makes one, if it is due.
func (w *world) base() {
	w.t.Helper()
	if _, err := w.ship.Base(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// read fetches, and returns which objects were read and how many bytes.
func (w *world) read() (keys map[string]int, bytes int) {
	w.t.Helper()
	keys = make(map[string]int)
	w.store.Seen = func(r fleettest.Request, err error) {
		if err == nil {
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

// TestBase: of a branch of two years a rebuild reads the bases, their parts and the pieces of the last month: a few objects, and the
// copy's bytes once.
func TestBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const months, pieces = 24, 60
		for n := range months {
			w.sellMonth(n, pieces)
			w.base()
			w.base() // not twice in a month
		}
		w.grow("0000000099.copy", "tail")
		w.steps()
		keys, bytes := w.read()
		size := 0
		for _, key := range w.store.Keys(wire.CopyFolder) {
			if strings.Contains(key, "/part/") {
				size += len(w.store.Held(key))
			}
		}
		pieceReads, parts, bases := 0, 0, 0
		for key := range keys {
			switch {
			case strings.Contains(key, "/part/"):
				parts++
			case strings.Contains(key, "/base/"):
				bases++
			case strings.HasPrefix(key, wire.CopyFolder) && key != wire.WholeKey("centro", 1):
				pieceReads++
			}
		}
		// The first piece says that there is a copy; the last one is the tail.
		if pieceReads != 2 || bases != months || parts < months || parts > 2*months {
			t.Errorf("%d pieces of %d, %d parts, %d bases", pieceReads, months*pieces, parts, bases)
		}
		if most := size + months*4096; bytes > most {
			t.Errorf("%d bytes, more than %d", bytes, most)
		}
		t.Logf("%d pieces shipped; a rebuild reads %d objects, %d bytes of a copy of %d", months*pieces+1, len(keys), bytes, size)
	})
}

// TestBase_Faults: whatever goes wrong with one request while a base is made, the next call makes it, once, and a rebuild uses it.
func TestBase_Faults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		play := func(fault func(fleettest.Request) fleettest.Fault) *world {
			w := newWorld(t)
			for n := range 2 {
				w.sellMonth(n, 4)
				w.store.Fault = fault
				_, _ = w.ship.Base(context.Background())
				w.store.Fault = nil
				w.start(box, 1) // and the box starts anew
				w.base()
			}
			if keys := w.store.Keys(wire.CopyFolder + "centro/1/base/"); len(keys) != 2 {
				t.Errorf("bases: %v", keys)
			}
			if keys, _ := w.read(); keys[wire.SegmentKey("centro", 1, 2)] > 0 {
				t.Errorf("the bases were not used: %v", keys)
			}
			return w
		}
		first, last := 0, 0
		play(func(r fleettest.Request) fleettest.Fault {
			if last = r.Number; first == 0 {
				first = last
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

// TestBase_Altered: a base that is altered, forged or lacks a part costs a rebuild nothing but time, for the pieces say the same. Where a
// piece is gone that a base holds, the base brings it.
func TestBase_Altered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, harm := range map[string]func(w *world, bases, parts []string){
			"base altered": func(w *world, bases, _ []string) {
				b := w.store.Held(bases[0])
				b[len(b)/2] ^= 1
				_ = w.store.Put(t.Context(), bases[0], b)
			},
			"base exchanged": func(w *world, bases, _ []string) { _ = w.store.Put(t.Context(), bases[0], w.store.Held(bases[1])) },
			"base forged": func(w *world, bases, parts []string) {
				b, err := wire.SealBase(wire.Base{Branch: "centro", Epoch: 1, Number: 1, At: time.Now(), Parts: []wire.Part{{File: "0000000001.copy",
					Size: 1, Digest: strings.Repeat("0", 64), Piece: 8, Last: strings.Repeat("0", 64)}}}, other)
				if err != nil {
					t.Fatal(err)
				}
				_ = w.store.Put(t.Context(), bases[0], b)
			},
			"part altered": func(w *world, _, parts []string) {
				b := w.store.Held(parts[1])
				b[0] ^= 1
				_ = w.store.Put(t.Context(), parts[1], b)
			},
			"does not follow": func(w *world, bases, _ []string) {
				b, err := wire.OpenBase(w.store.Held(bases[1]), "centro", 1, 2, wire.Public(box))
				if err != nil {
					t.Fatal(err)
				}
				b.Previous = strings.Repeat("0", 64)
				data, err := wire.SealBase(*b, box)
				if err != nil {
					t.Fatal(err)
				}
				_ = w.store.Put(t.Context(), bases[1], data)
			},
			"part lost": func(w *world, _, parts []string) { w.store.Lose(parts[1]) },
		} {
			w := newWorld(t)
			for n := range 3 {
				w.sellMonth(n, 4)
				w.base()
			}
			harm(w, w.store.Keys(wire.CopyFolder+"centro/1/base/"), w.store.Keys(wire.CopyFolder+"centro/1/part/"))
			if got, f, err := w.fetch(); err != nil || f.Doubt == nil || f.Pieces != 12 || got != contents(t, w.dir) {
				t.Errorf("%s: %+v %v", name, f, err)
			}
		}
		w := newWorld(t)
		w.sellMonth(0, 4)
		w.base()
		w.grow("0000000007.copy", "tail")
		w.steps()
		w.store.Lose(wire.SegmentKey("centro", 1, 3))
		if got, f, err := w.fetch(); err != nil || got != contents(t, w.dir) {
			t.Errorf("a piece is lost: %+v %v", f, err)
		}
	})
}

// TestBase_Lost: a base is made of what the store holds, therefore a piece that it has lost is found while the box lives.
func TestBase_Lost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sellMonth(0, 4)
		w.store.Lose(wire.SegmentKey("centro", 1, 3))
		if _, err := w.ship.Base(t.Context()); !errors.Is(err, wire.ErrNotFound) {
			t.Error(err)
		}
	})
}

// TestBase_Monthly: a shipper that runs makes one base a month by itself, and asks for nothing in between.
func TestBase_Monthly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var err error
		w.ship, err = ship.New(ship.Options{Store: w.store, Branch: "centro", Box: box, Folder: w.dir, Epoch: func() int64 { return 1 }, State: w.disk,
			Cloned: func() {}, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Every: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.ship.Run(ctx) }()
		for n := range 4 {
			w.grow("0000000001.copy", fmt.Sprint("month ", n, ";"))
			time.Sleep(30 * 24 * time.Hour)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if bases := w.store.Keys(wire.CopyFolder + "centro/1/base/"); len(bases) != 3 || w.store.Requests() > 60 {
			t.Errorf("%d requests, %v", w.store.Requests(), bases)
		}
	})
}

// TestFetch_Rotated: the director's key was changed. A box that knows only the new one is told so, and not that there is no copy; with
// both, or once the box was enrolled again, the copy is found.
func TestFetch_Rotated(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	next := signer("director", 9)
	fetch := func(keys ...wire.Key) (string, error) {
		dir := t.TempDir()
		_, err := ship.Fetch(t.Context(), w.store, keys, "centro", 0, dir)
		return contents(t, dir), err
	}
	if _, err := fetch(wire.Public(next)); !errors.Is(err, ship.ErrNothing) || !errors.Is(err, wire.ErrSignature) || !strings.Contains(err.Error(), "fleet.director_key") {
		t.Error(err)
	}
	if got, err := fetch(wire.Public(next), wire.Public(director)); err != nil || got != contents(t, w.dir) {
		t.Error(got, err)
	}
	data, err := wire.SealEnrolment(wire.Enrolment{Branch: "centro", Epoch: 3, Key: wire.EncodeKey(wire.Public(box).Public), At: time.Now(), By: "ana"}, next)
	if err == nil {
		err = w.store.Create(t.Context(), wire.BoxKey("centro", 3), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	head := contents(t, w.dir)
	w.grow("0000000001.copy", "-more")
	w.start(box, 3)
	w.steps()
	dir := t.TempDir()
	f, err := ship.Fetch(t.Context(), w.store, []wire.Key{wire.Public(next), wire.Public(director)}, "centro", 1, dir)
	if err != nil || f.Epoch != 1 || contents(t, dir) != head {
		t.Errorf("of epoch 1: %+v %v", f, err)
	}
	f, err = ship.Fetch(t.Context(), w.store, []wire.Key{wire.Public(next), wire.Public(director)}, "centro", 0, t.TempDir())
	if err != nil || f.Epoch != 3 || len(f.Older) != 1 || f.Older[0] != 1 {
		t.Errorf("of the last epoch: %+v %v", f, err)
	}
	if _, err := ship.Fetch(t.Context(), w.store, []wire.Key{wire.Public(director)}, "centro", 2, t.TempDir()); !errors.Is(err, ship.ErrNothing) {
		t.Errorf("of a box that shipped nothing: %v", err)
	}
	if got, err := fetch(wire.Public(next)); err != nil || got != contents(t, w.dir) {
		t.Error(got, err)
	}
}

// TestFetch_CutShort: a fetch that any request ends goes on where it was: what it brought is not asked for again, but for the few objects
// behind its last note, and the folder ends as that of a fetch at one go.
func TestFetch_CutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 3 {
			w.sellMonth(n, 6)
			w.base()
		}
		for i := range 40 {
			w.grow("0000000099.copy", fmt.Sprintf("tail %d;", i))
			w.steps()
		}
		keys, _ := w.read()
		whole := contents(t, w.dir)
		fetch := func(dir string) (ship.Fetched, error) {
			return ship.Fetch(t.Context(), w.store, []wire.Key{wire.Public(director)}, "centro", 0, dir)
		}
		requests := 0
		for _, n := range keys {
			requests += n
		}
		for cut := 1; cut <= requests; cut++ {
			dir := t.TempDir()
			n, brought := 0, make(map[string]bool)
			w.store.Seen = func(r fleettest.Request, err error) {
				if err == nil && strings.HasPrefix(r.Key, wire.CopyFolder) {
					brought[r.Key] = true
				}
			}
			w.store.Fault = func(fleettest.Request) fleettest.Fault {
				if n++; n >= cut {
					return fleettest.Failed
				}
				return fleettest.None
			}
			if _, err := fetch(dir); err == nil {
				t.Fatalf("cut at %d: no error", cut)
			}
			again := 0
			w.store.Fault = nil
			w.store.Seen = func(r fleettest.Request, err error) {
				if err == nil && brought[r.Key] && !strings.Contains(r.Key, "/base/") {
					again++
				}
			}
			f, err := fetch(dir)
			w.store.Seen = nil
			if err != nil || contents(t, dir) != whole {
				t.Fatalf("cut at %d: %+v %v", cut, f, err)
			}
			if again > 2 { // the first piece says that there is a copy
				t.Errorf("cut at %d: %d objects were fetched again", cut, again)
			}
			if err := ship.Remove(dir); err != nil {
				t.Error(err)
			}
		}
		// A fetch of another box does not go on with this one's.
		dir := t.TempDir()
		if _, err := fetch(dir); err != nil {
			t.Fatal(err)
		}
		w.dir = t.TempDir()
		w.disk = &fleettest.File{}
		w.start(other, 2)
		w.grow("0000000001.copy", "another box")
		w.steps()
		if f, err := fetch(dir); err != nil || f.Epoch != 2 || f.Before != 0 || contents(t, dir) != contents(t, w.dir) {
			t.Errorf("%+v %v", f, err)
		}
	})
}

// TestFetch_Resumed: whatever a fetch could not read, and whatever the box shipped between one fetch and the next, the last one brings all.
func TestFetch_Resumed(t *testing.T) {
	seeds := uint64(25)
	if os.Getenv("DTE_SOAK") == "1" {
		seeds = 2000
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w, dir, dice := newWorld(t), t.TempDir(), rand.New(rand.NewPCG(seed, 24))
			fetch := func() (ship.Fetched, error) {
				return ship.Fetch(t.Context(), w.store, []wire.Key{wire.Public(director)}, "centro", 0, dir)
			}
			for n := range 2 + dice.IntN(4) {
				w.sellMonth(n, 1+dice.IntN(20))
				if dice.IntN(3) > 0 {
					w.base()
				}
				cut := 1 + dice.IntN(40)
				w.store.Fault = func(r fleettest.Request) fleettest.Fault {
					cut--
					switch of := strings.Contains(r.Key, "/part/") || strings.Contains(r.Key, "/base/"); {
					case cut == 0:
						return fleettest.Failed
					case of && dice.IntN(4) == 0:
						return fleettest.Stale // there is no such object, for now
					}
					return fleettest.None
				}
				_, _ = fetch()
				w.store.Fault = nil
			}
			if f, err := fetch(); err != nil || contents(t, dir) != contents(t, w.dir) {
				t.Fatalf("seed %d: %+v %v", seed, f, err)
			}
		})
	}
}
