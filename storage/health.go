package storage

import (
	"fmt"
	"sync/atomic"
)

// damage remembers the first sign that the disk does not return what was written: Pebble's word, a row of ours that does
// not decode, a read that fails. From then on nothing new is stored: "corruption stops issuing, loudly".
type damage struct {
	first  atomic.Pointer[string]
	blocks badBlocks
}

func (d *damage) err() error {
	if first := d.first.Load(); first != nil {
		return fmt.Errorf("%w: %s", ErrCorrupt, *first)
	}
	return nil
}

// note remembers a message, and says whether it is the first.
func (d *damage) note(message string) bool { return d.first.CompareAndSwap(nil, &message) }

// Health is nil while the store can take a new record: ErrCorrupt, ErrTables, ErrRestored, ErrReadOnly. It reads no disk and
// costs almost nothing: a probe may call it at any rate.
func (s *Store) Health() error {
	if err := s.writable(); err != nil {
		return err
	}
	if s.tables != nil {
		return s.tables.err()
	}
	return nil
}

// suspect looks at an error of a call: one that the medium made is remembered.
func (s *Store) suspect(err error) {
	if unreadable(err) && s.damage.note(err.Error()) {
		s.o.Logger.Error("store is damaged", "error", err.Error())
	}
}
