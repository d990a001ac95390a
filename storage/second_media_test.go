package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/storage/disktest"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// stage is a box with a card, and how its medium answers.
type stage struct {
	disk   *disktest.Disk
	injure errorfs.InjectorFunc
}

// TestSecondCopy_Media: what each state of the second medium means at a start, while the branch sells, to rebuild, to
// reconcile and to doctor. Sales wait for no medium except one that knows more.
func TestSecondCopy_Media(t *testing.T) {
	segment := func(s *stage, n int) string {
		numbers, err := segmentNumbers(s.disk, card)
		if err != nil {
			t.Fatal(err)
		}
		return segmentPath(s.disk, card, numbers[(n+len(numbers))%len(numbers)])
	}
	alter := func(n int, how func([]byte) []byte) func(*testing.T, *stage) {
		return func(t *testing.T, s *stage) {
			path := segment(s, n)
			writeFile(t, s.disk, path, how(readFile(t, s.disk, path)))
		}
	}
	fails := func(kind errorfs.OpReadWrite, err error) func(*testing.T, *stage) {
		return func(_ *testing.T, s *stage) {
			s.injure = func(op errorfs.Op) error {
				if strings.HasPrefix(op.Path, card+"/") && op.Kind.ReadOrWrite() == kind && op.Kind != errorfs.OpStat &&
					op.Kind != errorfs.OpList {
					return err
				}
				return nil
			}
		}
	}
	const live, away, heldBack = "live", "away", "held"
	for _, tt := range []struct {
		name    string
		harm    func(*testing.T, *stage)
		start   string // live, away, or held: nothing is numbered
		later   string // while it runs, an hour after the medium is well again
		rebuild string // whole, named, doubt: the end is uncertain; or the error
		take    string // nothing, taken, or the error
		doctor  string // ok, ahead, diverged, or the error
	}{
		{"well", func(*testing.T, *stage) {}, live, live, "whole", "nothing", "ok"},
		{"missing", func(t *testing.T, s *stage) { must(t, s.disk.RemoveAll(card)) }, live, live, "no store", "nothing",
			"does not exist"},
		{"old", old, live, live, "whole", "nothing", "ok"},
		{"ahead", ahead, heldBack, heldBack, "whole", "taken", "ahead"},
		{"diverged", func(t *testing.T, s *stage) { ahead(t, s); sellOn(t, s) }, heldBack, heldBack, "whole",
			"holds another", "diverged"},
		{"foreign", foreign, away, away, "foreign", "nothing", "no store"},
		{"torn tail", tornTail, live, live, "doubt", "nothing", "ok"},
		{"first bit", alter(0, flipAt(60)), live, live, "whole", "nothing", "ok"},
		{"bit in rows", alter(1, flipMiddle), live, live, "named", "nothing", "ok"},
		{"bit in a change", alter(-3, flipMiddle), live, live, "named", "nothing", "ok"},
		{"bit in the last head", alter(-1, flipAt(60)), live, live, "whole", "nothing", "ok"},
		{"too short", alter(1, func(b []byte) []byte { return b[:len(b)/2] }), live, live, "named", "nothing", "ok"},
		{"too long", alter(1, func(b []byte) []byte { return append(b, 1, 2, 3) }), live, live, "whole", "nothing",
			"ok"},
		{"unreadable", fails(errorfs.OpIsRead, syscall.EIO), away, live, "unreadable", "unreadable", "unreadable"},
		{"not listed", func(_ *testing.T, s *stage) {
			s.injure = func(op errorfs.Op) error {
				if op.Path == card && op.Kind == errorfs.OpList {
					return syscall.EIO
				}
				return nil
			}
		}, away, live, "unreadable", "unreadable", "unreadable"},
		{"first fill cut", firstFillCut, live, live, "no store", "nothing", "ok"},
		{"read-only", fails(errorfs.OpIsWrite, syscall.EROFS), away, live, "whole", "nothing", "ok"},
		{"full", fails(errorfs.OpIsWrite, syscall.ENOSPC), away, live, "whole", "nothing", "ok"},
		{"slow", func(_ *testing.T, s *stage) {
			s.injure = func(op errorfs.Op) error {
				if strings.HasPrefix(op.Path, card+"/") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					time.Sleep(time.Minute)
				}
				return nil
			}
		}, away, live, "whole", "nothing", "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stage{}
				var want reference
				s.disk, want = oldAndNew(t)
				tt.harm(t, s)
				var well atomic.Bool
				o := withCard(errorfs.Wrap(s.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if s.injure == nil || well.Load() {
						return nil
					}
					return s.injure(op)
				})))
				o.FakeTime, o.Now = true, time.Now

				// Rebuild, from the card alone.
				if got := s.rebuild(t, want, well.Load()); got != tt.rebuild {
					t.Errorf("rebuild: %s, not %s", got, tt.rebuild)
				}
				// Doctor.
				if got := s.doctor(t, o); !strings.Contains(got, tt.doctor) {
					t.Errorf("doctor: %s, not %s", got, tt.doctor)
				}
				// Reconcile, on a copy of the box.
				if got := s.take(); !strings.Contains(got, tt.take) {
					t.Errorf("reconcile: %s, not %s", got, tt.take)
				}
				// Start, and while it runs.
				store := openStoreWith(t, o)
				if got := state(store); got != tt.start {
					t.Errorf("start: %s (%+v), not %s", got, store.second.status, tt.start)
				}
				if tt.start != heldBack {
					put(t, store, "a", 5001)
				}
				time.Sleep(10 * time.Minute)
				well.Store(true)
				time.Sleep(retryLongest + 30*time.Minute)
				if got := state(store); got != tt.later {
					t.Errorf("later: %s (%+v), not %s", got, store.second.status, tt.later)
				}
				if tt.later == live {
					burn(t, "later", store, s.disk)
				} else if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func flipMiddle(b []byte) []byte { b[len(b)/2] ^= 2; return b }
func flipAt(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 2; return b }
}

// old is a card from before the last sales.
func old(t *testing.T, s *stage) {
	card := s.disk.Copy()
	store := openStore(t, s.disk)
	put(t, store, "a", 5002)
	sound(t, store)
	takeCard(t, card, s.disk)
}

// ahead puts store and mark back to before the last sales.
func ahead(t *testing.T, s *stage) {
	before := s.disk.Copy()
	store := live(t, s.disk)
	put(t, store, "a", 5002)
	sound(t, store)
	takeCard(t, s.disk, before)
	s.disk = before
}

func sellOn(t *testing.T, s *stage) {
	store := openStore(t, s.disk)
	put(t, store, "a", 5003)
	sound(t, store)
}

// firstFillCut is a card whose first fill did not end.
func firstFillCut(t *testing.T, s *stage) {
	must(t, s.disk.RemoveAll(card))
	writes := 0
	o := withCard(errorfs.Wrap(s.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasPrefix(op.Path, card+"/") && op.Kind == errorfs.OpFileWrite {
			if writes++; writes > 6 {
				return syscall.EIO
			}
		}
		return nil
	})))
	o.FakeTime = true
	must(t, openStoreWith(t, o).Close())
	if numbers, err := segmentNumbers(s.disk, card); err != nil || len(numbers) < 2 {
		t.Fatal(numbers, err)
	}
}

func foreign(t *testing.T, s *stage) {
	store, other := newStore(t)
	sound(t, store)
	store = live(t, other)
	put(t, store, "a", 1)
	sound(t, store)
	takeCard(t, other, s.disk)
}

// tornTail is a card whose box was killed, its last sale half there.
func tornTail(t *testing.T, s *stage) {
	store := live(t, s.disk)
	put(t, store, "a", 5002)
	killed := s.disk.Copy()
	sound(t, store)
	numbers, err := segmentNumbers(killed, card)
	must(t, err)
	path := segmentPath(killed, card, numbers[len(numbers)-1])
	b := readFile(t, killed, path)
	writeFile(t, killed, path, b[:len(b)-100])
	takeCard(t, killed, s.disk)
}

func state(s *Store) string {
	c, _ := s.SecondCopy()
	switch {
	case s.Behind() != nil:
		return "held"
	case c.Live:
		return "live"
	}
	return "away"
}

func (s *stage) rebuild(t *testing.T, want reference, well bool) string {
	o := options(errorfs.Wrap(onlyCard(t, s.disk), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if s.injure == nil || well || op.Kind.ReadOrWrite() != errorfs.OpIsRead {
			return nil
		}
		return s.injure(op)
	})))
	o.FakeTime = true
	made, err := Assemble(ctx, Sources{Copy: card}, o, nil)
	switch {
	case errors.Is(err, ErrNoStore):
		return "no store"
	case errors.Is(err, ErrUnreadable):
		return "unreadable"
	case errors.Is(err, ErrCorrupt):
		return "damaged"
	case err != nil:
		return err.Error()
	}
	store := openStoreWith(t, o)
	defer store.Close()
	doubt, missing := doubt(store), made.missing()
	switch err := want.honest(store, missing); {
	case err != nil && strings.Contains(err.Error(), "not named"):
		return "foreign"
	case err != nil:
		return err.Error()
	case len(missing) > 0:
		return "named"
	case doubt > 0:
		return "doubt"
	}
	return "whole"
}

func (s *stage) doctor(t *testing.T, o Options) string {
	o.SecondCopy = ""
	store, err := OpenReadOnly(o)
	must(t, err)
	defer store.Close()
	c, err := store.LookAtCopy(card)
	switch {
	case errors.Is(err, ErrUnreadable), errors.Is(err, syscall.EIO):
		return "unreadable"
	case errors.Is(err, ErrCorrupt):
		return "damaged"
	case err != nil:
		return err.Error()
	case c.Witness != nil && c.Witness.Diverged:
		return "diverged"
	case c.Witness != nil:
		return "ahead"
	}
	return "ok"
}

func (s *stage) take() string {
	o := options(errorfs.Wrap(s.disk.Copy(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if s.injure == nil || op.Kind.ReadOrWrite() != errorfs.OpIsRead {
			return nil
		}
		return s.injure(op)
	})))
	o.FakeTime = true
	w, err := Assemble(ctx, Sources{Copy: card}, o, nil)
	switch {
	case errors.Is(err, ErrUnreadable) && !errors.Is(err, ErrNoStore):
		return "unreadable"
	case errors.Is(err, ErrSound):
		return "nothing"
	case err != nil:
		return err.Error()
	}
	return fmt.Sprint("taken ", w.Last)
}
