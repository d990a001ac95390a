package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestChanges: records change from many goroutines while a reader follows, and goes on after a crash. It learns of
// every change once, and of a record's changes in their order.
func TestChanges(t *testing.T) {
	s, fs := newStore(t)
	const records, changes = 40, 6
	code := func(i int) (c Code) {
		binary.BigEndian.PutUint32(c[:], uint32(i+1))
		return c
	}
	for i := range records {
		if _, err := s.build(ctx, Keys{Series: "s"}, func(Slot) (Draft, error) {
			return Draft{Code: code(i), State: 0},
				nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[Code]State)
	last := uint64(0)
	follow := func() {
		list, err := s.Changes(last, 7)
		if err != nil {
			t.Error(err)
		}
		for _, a := range list {
			if a.Sequence <= last {
				t.Errorf("%d comes behind %d", a.Sequence, last)
			}
			if a.State != seen[a.Code]+1 {
				t.Errorf("record %X: state %d behind %d", a.Code, a.State, seen[a.Code])
			}
			seen[a.Code], last = a.State, a.Sequence
		}
	}
	for round := range changes {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for i := range records {
			wg.Go(func() {
				if _, err := s.Advance(ctx, code(i), State(round), Change{To: State(round + 1),
					Announce: true}); err != nil {
					t.Error(err)
				}
			})
		}
		go func() { wg.Wait(); close(stop) }()
		for running := true; running; {
			rung := s.Announced()
			follow()
			select {
			case <-rung:
			case <-stop:
				running = false
			}
		}
		if round%2 == 1 {
			crashed := fs.Crash(50, rand.New(rand.NewPCG(1, uint64(round))))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			fs = crashed
			s = openStore(t, fs)
		}
	}
	for before := uint64(1); before != last; {
		before = last
		follow()
	}
	for i := range records {
		if seen[code(i)] != changes {
			t.Errorf("record %d: the last that was seen is %d", i, seen[code(i)])
		}
	}
	sound(t, s)
}

// A change that comes to the disk before one with a lower number is not shown before it.
func TestChanges_InOrder(t *testing.T) {
	s, _ := newStore(t)
	defer sound(t, s)
	if _, err := s.build(ctx, Keys{Series: "s"}, func(Slot) (Draft, error) {
		return Draft{Code: Code{1}},
			nil
	}); err != nil {
		t.Fatal(err)
	}
	slow := s.feed.take()
	if _, err := s.Advance(ctx, Code{1}, 0, Change{To: 1, Announce: true}); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Changes(0, 10); err != nil || len(list) != 0 {
		t.Errorf("shown before an earlier one is decided: %+v %v", list, err)
	}
	s.feed.ring(slow)
	if list, err := s.Changes(0, 10); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
}

// TestChanges_AnotherHistory: a store comes back from a backup or from its second copy and loses announcements. A
// cursor of an announcement that it has is served, with all that came after; a cursor of a lost one is refused, however
// many announcements follow. The store remembers earlier losses when it is rebuilt.
func TestChanges_AnotherHistory(t *testing.T) {
	s, fs := newStore(t)
	next := uint64(1)
	announce := func(n int) {
		for range n {
			put(t, s, "a", next)
			if _, err := s.Advance(ctx, code(next), fresh, Change{To: done, Announce: true}); err != nil {
				t.Fatal(err)
			}
			next++
		}
	}
	cursors := func() (list []uint64) {
		changes, err := s.Changes(0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			list = append(list, c.Sequence)
		}
		return list
	}
	var lost []uint64
	for round := range 4 {
		announce(2)
		dir := fmt.Sprint("usb/", round)
		if _, err := s.Backup(ctx, dir, nil); err != nil {
			t.Fatal(err)
		}
		kept := cursors()
		announce(3)
		lost = append(lost, cursors()[len(kept):]...)
		lose(t, s, fs)
		s = restored(t, fs, dir)
		trust(t, s)
		gaps, err := s.Gaps()
		if err != nil || len(gaps) < round+1 {
			t.Fatal(gaps, err)
		}
		if round%2 == 1 { // and then the box is destroyed
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = live(t, fs)
			announce(1)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			fs = onlyCard(t, fs)
			s = rebuilt(t, fs)
			trustCopy(t, s)
			if again, err := s.Gaps(); err != nil || !slices.Equal(again[:len(gaps)], gaps) {
				t.Errorf("round %d: rebuilt with gaps %v of %v, %v", round, again, gaps, err)
			}
			kept = cursors()
		}
		announce(9)
		all := cursors()
		for i, at := range kept {
			if list, err := s.Changes(at, 1000); err != nil || len(list) != len(all)-1-i {
				t.Errorf("round %d: %d changes behind cursor %d, %v", round, len(list), at, err)
			}
		}
		for _, at := range lost {
			if list, err := s.Changes(at, 1000); !errors.Is(err, ErrCursor) {
				t.Errorf("round %d: cursor %d of a lost history gets %d changes, %v", round, at, len(list), err)
			}
		}
	}
	sound(t, s)
}
