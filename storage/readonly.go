package storage

import (
	"errors"
	"fmt"
	"time"
)

// OpenReadOnly opens a store that nobody has open, also one that Open refuses, to read it: nothing of it is altered.
// ErrNoStore, ErrInUse, ErrCorrupt.
func OpenReadOnly(o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		return nil, errors.New("storage: Options.Now is not set")
	}
	o.readOnly = true
	s, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("opening store %s to read: %w", o.Dir, err)
	}
	return s, nil
}

// OpenBackup opens the store inside a backup to read it. Of o it takes FS, Logger and Now.
func OpenBackup(dir string, o Options) (*Store, error) {
	o.Dir = dir
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	o.Dir, o.FS = o.FS.PathJoin(dir, backupStore), unlocked{o.FS}
	return OpenReadOnly(o)
}

// CheckMark compares the store with the mark's file: ErrMark.
func (s *Store) CheckMark() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	id, err := get(s.db, keyStore)
	if err != nil || len(id) != 16 {
		return fmt.Errorf("reading the store's identity: %w", errors.Join(ErrCorrupt, err))
	}
	said, of, err := readMark(s.o.FS, s.o.MarkPath)
	if err != nil {
		return fmt.Errorf("mark %s: %w", s.o.MarkPath, errors.Join(ErrMark, err))
	}
	series, err := readAllSeries(s.db)
	if err != nil {
		return err
	}
	return compareMark(of, [16]byte(id), said, s.lastNumbers(series))
}

// LastChange is when the latest change of any record was written, by the clock of then; zero in an empty store.
func (s *Store) LastChange() (time.Time, error) {
	if err := s.enter(); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	series, err := readAllSeries(s.db)
	if err != nil {
		return time.Time{}, err
	}
	var latest int64
	for name, row := range series {
		l, err := lastLink(s.db, name, row)
		if err != nil {
			return time.Time{}, err
		}
		latest = max(latest, l.At)
	}
	if latest == 0 {
		return time.Time{}, nil
	}
	return time.Unix(0, latest).UTC(), nil
}
