package storage

import (
	"errors"
	"fmt"
	"time"
)

// OpenReadOnly opens a store for reading, also a store that Open refuses, and changes nothing in it. No other process may have
// it open. ErrNoStore, ErrInUse, ErrCorrupt.
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

// OpenBackup opens the store inside a backup for reading. It uses only FS, Logger and Now of o.
func OpenBackup(dir string, o Options) (*Store, error) {
	o.Dir = dir
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	o.Dir, o.FS = o.FS.PathJoin(dir, backupStore), unlocked{o.FS}
	return OpenReadOnly(o)
}

// CheckMark compares the store with the mark's file. ErrMark if they do not agree.
func (s *Store) CheckMark() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	j, err := newMarkJudge(s.db)
	if err != nil {
		return err
	}
	if state := j.look(s.o.FS, s.o.MarkPath); state.Kind != MarkSound {
		return j.refuse(&s.o, state)
	}
	return nil
}

// LastChange is when the latest change of any record was written, by the box's clock at that time; zero in an empty store.
func (s *Store) LastChange() (time.Time, error) {
	if err := s.enter(); err != nil {
		return time.Time{}, err
	}
	defer s.leave()
	return s.lastChange()
}

func (s *Store) lastChange() (time.Time, error) {
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

// CopyState is what doctor shows of a second copy: a Witness if the copy knows more than the store, and the result of the last
// scrub.
type CopyState struct {
	Witness *Witness
	Scrub   Scrub
	There   bool // there is a copy
}

// LookAtCopy reads the end of a second copy beside a store that is open for reading, and changes nothing. ErrNoStore if it is
// another store's copy; ErrCorrupt if its end cannot be read.
func (s *Store) LookAtCopy(dir string) (c CopyState, err error) {
	if err := s.enter(); err != nil {
		return c, err
	}
	defer s.leave()
	c.Scrub = readScrub(s.db)
	if _, err := s.o.FS.Stat(dir); err != nil {
		return c, fmt.Errorf("second copy: %w", err)
	}
	end, err := readEnd(s.o.FS, dir)
	if err != nil || end == nil {
		return c, err
	}
	id, err := get(s.db, keyStore)
	if err != nil {
		return c, err
	}
	if !sameFamily(end.store, [16]byte(id)) {
		return c, fmt.Errorf("%w: %w", ErrNoStore, errForeign)
	}
	c.There = true
	c.Witness, err = compareCopy(&s.o, s.db, dir, end)
	return c, err
}
