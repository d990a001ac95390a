package storage

import (
	"testing"
	"testing/synctest"

	"dtegate/storage/disktest"
)

// TestPending: every read of a record waits until the changes of that record under way are durable, and the reads of
// another record do not.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := disktest.New(disktest.Strict)
		o := options(disk)
		o.FakeTime = true
		if err := Create(o); err != nil {
			t.Fatal(err)
		}
		s := openStoreWith(t, o)
		other, e := put(t, s, "a", 1), put(t, s, "a", 2)
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
