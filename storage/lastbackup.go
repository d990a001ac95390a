package storage

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// noteBackup keeps in the store when its latest backup was taken, so that its age is known after a restart. A store that is
// open to read keeps nothing; the backup is good all the same.
func (s *Store) noteBackup(taken time.Time) {
	if s.o.readOnly || s.enter() != nil {
		return
	}
	defer s.leave()
	if err := s.db.Set(keyBackup, be.AppendUint64(nil, uint64(taken.UnixNano())), pebble.Sync); err != nil {
		s.o.die("noting a backup: %v", err)
	}
}

// LastBackup is when the latest backup of this store was taken that was checked to its last row. Zero: there was none, for
// example in a store that was itself rebuilt, or restored from an older backup.
func (s *Store) LastBackup() (time.Time, error) {
	if err := s.enter(); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	return lastBackup(s.db)
}

func lastBackup(r pebble.Reader) (time.Time, error) {
	row, err := get(r, keyBackup)
	if errors.Is(err, ErrNotFound) {
		return time.Time{}, nil
	}
	if err != nil || len(row) != 8 {
		return time.Time{}, errors.Join(ErrCorrupt, err)
	}
	return time.Unix(0, int64(be.Uint64(row))).UTC(), nil
}
