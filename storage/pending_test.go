package storage

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestPending: every read of a record, and every change that follows from one, waits until the changes of that record
// under way are durable, and the reads of another record do not.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := fakeStore(t)
		other, e := put(t, s, "a", 1), put(t, s, "a", 2)
		note := put(t, s, "b", 3).Code
		change := func(c Code, origins ...Code) error {
			n := Change{To: fresh}
			for _, o := range origins {
				n.Counters = append(n.Counters, Counter{Origin: o, Line: 1, Value: 1})
			}
			_, err := s.Advance(ctx, c, fresh, n)
			return err
		}
		for name, read := range map[string]func(Entry) error{
			"Get":     func(e Entry) error { _, err := s.Get(e.Code); return err },
			"Part":    func(e Entry) error { _, err := s.Part(e.Code, "form"); return err },
			"Parts":   func(e Entry) error { _, err := s.Parts(e.Code); return err },
			"PartsOf": func(e Entry) error { _, err := s.PartsOf([]Entry{e}); return err },
			"Lookup":  func(e Entry) error { _, _, err := s.Lookup(idem(e.ID).Key); return err },
			"Counter": func(e Entry) error { _, err := s.Counter(e.Code, 1); return err },
			"Page":    func(e Entry) error { _, err := s.Page(e.ID-1, 1); return err },
			"ByID":    func(e Entry) error { _, err := s.ByID([]uint64{e.ID}); return err },
			"Day":     func(e Entry) error { _, err := s.Day(uint32(e.ID%3), e.ID-1, 1); return err },
			"Advance": func(e Entry) error { return change(e.Code) },
			"a draw":  func(e Entry) error { return change(note, e.Code) },
			"draws":   func(e Entry) error { return change(note, code(4), e.Code) },
		} {
			settle, ok := s.pending.begin(e.Code, nil)
			if !ok {
				t.Fatalf("%s: the record changes already", name)
			}
			if err := read(other); err != nil {
				t.Errorf("%s of another record: %v", name, err)
			}
			done := make(chan error, 1)
			go func() { done <- read(e) }()
			synctest.Wait()
			select {
			case err := <-done:
				t.Errorf("%s does not wait for the change under way: %v", name, err)
				settle()
			default:
				settle()
				if err := <-done; err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		sound(t, s)
	})
}

// TestMark_Awaited: while the mark is being written, a number waits until the mark has the number before it; the numbers
// that a series skips, and a mark for another store, wait for the mark itself.
func TestMark_Awaited(t *testing.T) {
	for name, step := range map[string]struct {
		fn    func(s *Store) error
		waits bool
	}{
		"the next number": {func(s *Store) error { put(t, s, "b", 2); return nil }, false},
		"the second":      {func(s *Store) error { put(t, s, "a", 3); return nil }, true},
		"skipped numbers": {func(s *Store) error { return s.SkipTo(ctx, "b", 9, "moved") }, true},
		"another store's": {func(s *Store) error {
			s.mark.renew(s.mark.store, s.mark.durable().Series)
			s.mark.note([]place{{Reach{Sequence: s.names.sequenceOf("a"), Last: 2}, "a"}})
			return nil
		}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, o, disk := fakeStore(t)
			put(t, s, "a", 1)
			synctest.Wait()
			hold := make(chan struct{})
			var held atomic.Bool
			disk.OnSync(func(path string) error {
				if path == o.MarkPath && !held.Swap(true) {
					<-hold
				}
				return nil
			})
			put(t, s, "a", 4) // number 2: the mark has 1
			synctest.Wait()   // and 2 is being written
			done := make(chan error, 1)
			go func() { done <- step.fn(s) }()
			synctest.Wait()
			if waits := len(done) == 0; waits != step.waits {
				t.Errorf("%s: it waits for the mark: %v", name, waits)
			}
			close(hold)
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			sound(t, s)
		})
	}
}
