package storage

import (
	"fmt"
	"math"
	"time"
)

// Due returns the records of a queue whose time is at or before the given one, earliest first, at most limit of them.
// They stay in the queue: Advance takes them out or moves them. One that is being moved just now may be left out.
func (s *Store) Due(queue string, before time.Time, limit int) ([]Entry, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("reading queue %q: %w", queue, err)
	}
	defer s.leave()
	if err := checkName("queue", queue); err != nil {
		return nil, err
	}
	type reference struct {
		id uint64
		at int64
	}
	var found []reference
	lower := duePrefix(queue)
	upper := after(lower)
	if last, ok := unixNano(before); ok {
		upper = dueKey(queue, last, math.MaxUint64)
	}
	err := scan(s.db, lower, upper, func(key, _ []byte) error {
		if len(found) >= limit {
			return errStop
		}
		_, at, id, ok := parseDueKey(key)
		if !ok {
			return fmt.Errorf("due key %x: %w", key, ErrCorrupt)
		}
		found = append(found, reference{id, at})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading queue %q: %w", queue, err)
	}
	entries := make([]Entry, 0, len(found))
	for _, f := range found {
		e, err := s.entryByID(f.id)
		if err != nil {
			return nil, fmt.Errorf("reading queue %q: %w", queue, err)
		}
		// What was in the queue a moment ago may have moved since.
		if e.Due != nil && e.Due.Queue == queue && e.Due.At.UnixNano() == f.at {
			s.settled(e.Code)
			entries = append(entries, e.Entry)
		}
	}
	return entries, nil
}

// unixNano reports false for a time that is later than any that the table can hold. One that is earlier gives the
// lowest there is.
func unixNano(t time.Time) (int64, bool) {
	switch n := t.UnixNano(); {
	case time.Unix(0, n).Equal(t):
		return n, true
	case t.After(time.Unix(0, math.MaxInt64)):
		return 0, false
	default:
		return math.MinInt64, true
	}
}
