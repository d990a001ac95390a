package ship_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
)

// enrol gives the branch to a box.
func (w *world) enrol(key fleetproto.Signer, epoch int64) {
	w.t.Helper()
	data, err := chain.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: epoch,
		Key: fleetproto.EncodeKey(fleetproto.Public(key).Public), At: time.Now(), By: "ana"}, director)
	if err == nil {
		err = w.store.Overwrite(w.t.Context(), fleetproto.BoxKey("centro", epoch), data)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// whole reports whether the box of an epoch has declared that its whole copy is in the store.
func (w *world) whole(epoch int64) bool {
	return w.store.Held(fleetproto.WholeKey("centro", epoch)) != nil
}

// TestFetch_Whole: until a box has its whole copy in the store, whatever request ends its shipping, a rebuild uses the
// copy of the previous box, and reports that: for another box, and for the same box that was enrolled again and ships
// everything anew.
func TestFetch_Whole(t *testing.T) {
	for name, key := range map[string]fleetproto.Signer{"another box": other, "the same box": box} {
		for ends := 0; ends <= 9; ends++ {
			w := newWorld(t)
			w.grow("0000000001.copy", "head-sold")
			w.steps()
			old := contents(t, w.dir)
			w.enrol(key, 2)
			requests := 4 // the piece that must not be there, two pieces and the mark
			if key.Private.Equal(other.Private) {
				requests += 2 // without a state, two lists
				w.disk = &fleettest.File{}
				w.dir = t.TempDir()
				w.grow("0000000001.copy", "head-sold")
			}
			w.grow("0000000002.copy", "more")
			w.start(key, 2)
			n := 0
			w.store.Fault = func(fleettest.Request) fleettest.Fault {
				if n++; n > ends {
					return fleettest.Lost
				}
				return fleettest.None
			}
			w.steps()
			w.store.Fault = nil
			got, f, err := w.fetch()
			if err != nil || !f.Whole {
				t.Fatalf("%s, ends at %d: %+v %v", name, ends, f, err)
			}
			switch {
			case w.whole(2):
				if f.Epoch != 2 || got != contents(t, w.dir) || !slices.Equal(f.Older, []int64{1}) || f.Newer != nil {
					t.Errorf("%s is whole: %+v\n%s", name, f, got)
				}
			case f.Epoch != 1 || got != old || (f.Newer == nil) != (w.store.Held(fleetproto.SegmentKey("centro", 2,
				1)) == nil):
				t.Errorf("%s, ends at %d: %+v\n%s", name, ends, f, got)
			}
			if w.whole(2) != (ends >= requests) {
				t.Errorf("%s, ends at %d: whole %v", name, ends, w.whole(2))
			}
			w.steps()
			if got, f, err := w.fetch(); err != nil || f.Epoch != 2 || got != contents(t, w.dir) {
				t.Errorf("%s: %+v %v", name, f, err)
			}
		}
	}
}

// TestFetch_NotListed: a store whose lists leave out all that the last two boxes shipped, and their enrolments, is asked
// for them by name: nobody names what the last box shipped as lost.
func TestFetch_NotListed(t *testing.T) {
	w := newWorld(t)
	for epoch, key := range map[int64]fleetproto.Signer{1: box, 3: other} {
		w.enrol(key, epoch)
		w.disk, w.dir = &fleettest.File{}, t.TempDir()
		w.grow("0000000001.copy", fmt.Sprint("head-sold by ", epoch))
		w.start(key, epoch)
		w.steps()
		w.statusOf(key, epoch)
	}
	w.store.Hidden = func(key string) bool {
		return slices.ContainsFunc([]int64{2, 3}, func(epoch int64) bool {
			return key == fleetproto.BoxKey("centro", epoch) ||
				strings.HasPrefix(key, fleetproto.EpochFolder("centro", epoch))
		})
	}
	got, f, err := w.fetch()
	if err != nil || f.Epoch != 3 || f.Lacks() != "" || !strings.Contains(got, "head-sold by 3") {
		t.Errorf("%+v %v\n%s", f, err, got)
	}
	// Who asks for an earlier box's copy is told of the later one.
	f, err = ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro", 1,
		t.TempDir(), nil)
	if err != nil || f.Epoch != 1 || !strings.Contains(f.Lacks(), "the box of epoch 3 sold after this copy") {
		t.Errorf("of epoch 1: %+v %q %v", f, f.Lacks(), err)
	}
}

// A copy that the medium does not hold completely is never declared whole, however much of it is shipped.
func TestShip_NotLive(t *testing.T) {
	w := newWorld(t)
	live := false
	var err error
	w.ship, err = ship.New(ship.Options{Store: w.store, Chain: chain, Branch: "centro", Box: box, Folder: w.dir,
		Epoch: func() int64 { return 1 }, State: w.disk,
		Cloned: func() {}, Live: func() bool { return live }, Segment: segment, Has: has,
		Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	w.grow("0000000001.copy", "head")
	w.steps()
	if f, err := w.shippedWhole(); err != nil || f.Whole || w.whole(1) {
		t.Errorf("%+v %v", f, err)
	}
	live = true
	w.steps()
	if f, err := w.shippedWhole(); err != nil || !f.Whole {
		t.Errorf("%+v %v", f, err)
	}
}

func (w *world) shippedWhole() (ship.Fetched, error) {
	_, f, err := w.fetch()
	return f, err
}

// A declaration that a copy is whole counts only for its epoch and with its box's signature, and not if the store has
// lost a part of the copy.
func TestFetch_WholeForged(t *testing.T) {
	mark := func(t *testing.T, epoch int64, key fleetproto.Signer) []byte {
		data, err := chain.Seal(&fleetproto.WholeCopy{Branch: "centro", Epoch: epoch, Piece: 1, At: time.Now()},
			key)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, c := range map[string]struct {
		put  func(t *testing.T, w *world) []byte
		want error
	}{
		"of an earlier epoch": {func(_ *testing.T, w *world) []byte {
			return w.store.Held(fleetproto.WholeKey("centro",
				1))
		}, fleetproto.ErrOther},
		"of another key": {func(t *testing.T, _ *world) []byte { return mark(t, 2, other) },
			fleetproto.ErrSignature},
		"a piece": {func(_ *testing.T,
			w *world) []byte {
			return w.store.Held(fleetproto.SegmentKey("centro", 2, 1))
		}, fleetproto.ErrFormat},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.grow("0000000001.copy", "head-sold")
			w.steps()
			w.enrol(box, 2)
			w.start(box, 2)
			w.store.Fault = func(r fleettest.Request) fleettest.Fault {
				if strings.Contains(r.Key, "/2/whole") {
					return fleettest.Lost
				}
				return fleettest.None
			}
			w.steps()
			w.store.Fault = nil
			if err := w.store.Overwrite(t.Context(), fleetproto.WholeKey("centro", 2), c.put(t, w)); err != nil {
				t.Fatal(err)
			}
			if _, f, err := w.fetch(); !errors.Is(err, c.want) {
				t.Errorf("%+v %v", f, err)
			}
			f, err := ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro",
				2, t.TempDir(), nil)
			if err != nil || f.Whole || f.Epoch != 2 {
				t.Errorf("of epoch 2 all the same: %+v %v", f, err)
			}
			w.start(box, 2)
			if err := errors.Join(w.ship.Step(t.Context()), w.ship.Step(t.Context())); !errors.Is(err, c.want) {
				t.Errorf("the box takes it for its own: %v", err)
			}
		})
	}
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.grow("0000000002.copy", "more")
	w.steps()
	w.store.Lose(fleetproto.SegmentKey("centro", 1, 2))
	if _, f, err := w.fetch(); err != nil || !errors.Is(f.Why, archive.ErrNotFound) || !strings.Contains(f.Lacks(),
		"piece 2") {
		t.Errorf("%+v %v", f, err)
	}
}
