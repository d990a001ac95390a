package storage

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// making is a record whose build waits for the test.
type making struct {
	number uint64 // the number that it got
	err    chan error
	ends   chan error // what the build returns
}

func (m *making) end(err error) { m.ends <- err }

// begin lets a record of series a be made, as far as its build. The caller is in a synctest bubble.
func begin(s *Store, n uint64) *making {
	m := &making{err: make(chan error, 1), ends: make(chan error)}
	go func() {
		_, err := s.build(ctx, Keys{Series: "a", Idempotency: idem(n)}, func(slot Slot) (Draft, error) {
			m.number = slot.Number
			return draft(code(n), slot), <-m.ends
		})
		m.err <- err
	}()
	synctest.Wait()
	return m
}

// ended is the error with which a record's Append returned, errStop while it has not.
func (m *making) ended() error {
	time.Sleep(time.Second) // the log rests between syncs
	synctest.Wait()
	select {
	case err := <-m.err:
		return err
	default:
		return errStop
	}
}

// Records of a series are made side by side, and stored in the order of their numbers.
func TestTurns_InOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fs := newStore(t)
		put(t, s, "a", 100)
		var all []*making
		for n := range uint64(4) {
			all = append(all, begin(s, n))
			if all[n].number != n+2 {
				t.Errorf("record %d got number %d", n, all[n].number)
			}
		}
		if _, err := s.Advance(ctx, code(100), fresh, Change{To: done}); err != nil { // in the same journal meanwhile
			t.Error(err)
		}
		for _, m := range slices.Backward(all[1:]) {
			m.end(nil)
			if err := m.ended(); !errors.Is(err, errStop) {
				t.Fatalf("number %d did not wait for those in front: %v", m.number, err)
			}
		}
		after := openStore(t, copyOf(fs)) // a crash
		if row, err := after.series("a"); err != nil || row.Last != 1 {
			t.Errorf("number %d is stored before those in front of it, %v", row.Last, err)
		}
		sound(t, after)
		all[0].end(nil)
		for _, m := range all {
			if err := m.ended(); err != nil {
				t.Errorf("number %d: %v", m.number, err)
			}
		}
		if len(s.turns.last) != 0 || len(s.locks.named) != 0 {
			t.Errorf("%d lines and %d locks are left", len(s.turns.last), len(s.locks.named))
		}
		if e, err := s.Get(code(3)); err != nil || e.Number != 5 || string(e.Head) != string(head(e.Code, 5)) {
			t.Errorf("%+v %v", e, err)
		}
		sound(t, s)
	})
}

// A record that is not made takes with it those behind it, ready or not, and none that come later.
func TestTurns_Failure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newStore(t)
		first, second, third, fourth := begin(s, 1), begin(s, 2), begin(s, 3), begin(s, 4)
		third.end(nil)
		second.end(errRefused)
		if err := second.ended(); !errors.Is(err, errStop) {
			t.Fatalf("failed before the one in front was stored: %v", err)
		}
		first.end(nil)
		for m, want := range map[*making]error{first: nil, second: errRefused, third: ErrTurn} {
			if err := m.ended(); !errors.Is(err, want) {
				t.Errorf("number %d: %v, want %v", m.number, err, want)
			}
		}
		fifth, sixth := begin(s, 5), begin(s, 6)
		if fifth.number != 2 || sixth.number != 3 {
			t.Errorf("the next ones got the numbers %d and %d", fifth.number, sixth.number)
		}
		fourth.end(nil)
		if err := fourth.ended(); !errors.Is(err, ErrTurn) {
			t.Errorf("number 4: %v", err)
		}
		seventh := begin(s, 7) // the end of number 4, of the line before, does not end the line of those two
		if seventh.number != 4 {
			t.Errorf("the next one got the number %d", seventh.number)
		}
		seventh.end(nil)
		sixth.end(nil)
		fifth.end(nil)
		if err := errors.Join(fifth.ended(), sixth.ended(), seventh.ended()); err != nil {
			t.Error(err)
		}
		for n, want := range map[uint64]uint64{1: 1, 5: 2, 6: 3, 7: 4} {
			if e, err := s.Get(code(n)); err != nil || e.Number != want {
				t.Errorf("record %d: %+v %v", n, e, err)
			}
		}
		if row, err := s.series("a"); len(s.turns.last) != 0 || row.Last != 4 {
			t.Errorf("%d lines are left, and the series ends at %d, %v", len(s.turns.last), row.Last, err)
		}
		sound(t, s)
	})
}

// A caller that has a number keeps it when its context ends, and a build that panics does not hold up its series.
func TestTurns_LeaveNobodyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newStore(t)
		first := begin(s, 1)
		cancelled, cancel := context.WithCancel(ctx)
		second := make(chan error, 1)
		go func() {
			_, err := s.build(cancelled, Keys{Series: "a"}, func(slot Slot) (Draft, error) {
				cancel()
				return draft(code(2), slot), nil
			})
			second <- err
		}()
		synctest.Wait()
		go func() {
			defer func() { _ = recover() }()
			_, _ = s.build(ctx, Keys{Series: "a"}, func(Slot) (Draft, error) { panic("a build") })
		}()
		synctest.Wait()
		first.end(nil)
		if err := errors.Join(first.ended(), <-second); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if e := put(t, s, "a", 3); e.Number != 3 {
			t.Errorf("number %d", e.Number)
		}
		sound(t, s)
	})
}
