package storage

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Beat writes a row of its own and returns when the disk has the row: this shows that the store still commits. If the disk
// hangs, Beat waits. at is stored in nanoseconds, for the years 1678-2262; see LastBeat.
//
// Beat also works in a damaged store: such a store has already stopped issuing, and a restarted process would not know the
// reason. ErrReadOnly, ErrClosed.
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

// LastBeat returns the time of the latest Beat. In a store without a Beat it returns the time of the last change; zero if there
// is no change either.
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
