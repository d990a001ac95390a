package storage

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Beat writes a row of its own and returns when the disk has it: the store still commits. A disk that hangs keeps it
// waiting. at is kept to the nanosecond, in years 1678-2262; see LastBeat.
//
// A damaged store beats too: it has stopped issuing by itself, and a process started anew would not know why.
// ErrReadOnly, ErrClosed.
func (s *Store) Beat(at time.Time) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("beating: %w", err)
	}
	defer s.leave()
	if s.o.readOnly {
		return fmt.Errorf("beating: %w", ErrReadOnly)
	}
	start := s.o.Now()
	b := s.db.NewBatch()
	set(b, keyBeat, be.AppendUint64(nil, uint64(at.UnixNano())))
	set(b, keyMark, s.mark.row().encode())
	if err := b.Commit(pebble.Sync); err != nil {
		s.o.die("writing heartbeat: %v", err)
	}
	s.metrics.sync.Observe(s.secondsSince(start))
	return nil
}

// LastBeat is what the latest Beat said; of a store that never beat, it is its last change. Zero: neither.
func (s *Store) LastBeat() (time.Time, error) {
	if err := s.enter(); err != nil {
		return time.Time{}, err
	}
	row, err := get(s.db, keyBeat)
	s.leave()
	if err != nil || len(row) != 8 {
		return s.LastChange()
	}
	return time.Unix(0, int64(be.Uint64(row))).UTC(), nil
}
