package storage

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// Due returns the records of a queue whose time is at or before the given one, earliest first, at most limit of them. They stay
// in the queue: Advance removes or moves them. A record that is being moved at this moment may be missing.
func (s *Store) Due(queue string, before time.Time, limit int) ([]Entry, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("reading queue %q: %w", queue, err)
	}
	defer s.leave()
	if err := checkName("queue", queue); err != nil {
		return nil, err
	}
	last, ok := unixNano(before)
	if !ok {
		last = math.MaxInt64
	}
	joined, idle := s.queueStarts.idle(queue, last)
	if idle {
		return nil, nil
	}
	type reference struct {
		id uint64
		at int64
	}
	var found []reference
	first := int64(math.MaxInt64) // of those that are not due
	prefix := duePrefix(queue)
	err := scan(s.db, prefix, prefixEnd(prefix), func(key, _ []byte) error {
		_, at, id, ok := parseDueKey(key)
		switch {
		case !ok:
			return fmt.Errorf("due key %x: %w", key, ErrCorrupt)
		case at > last:
			first = at
			return errStop
		case len(found) >= limit:
			return errStop
		}
		found = append(found, reference{id, at})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading queue %q: %w", queue, err)
	}
	if len(found) == 0 && limit > 0 {
		s.queueStarts.noteFirst(queue, joined, first)
	}
	entries := make([]Entry, 0, len(found))
	for _, f := range found {
		e, err := s.entryByID(f.id)
		if err != nil {
			s.suspect(err)
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

// queueStarts remembers of each queue until when nothing of it is due, so that whoever asks an idle queue, many times a
// minute, reads no table.
type queueStarts struct {
	mu    sync.Mutex
	known map[string]queueStart
}

type queueStart struct {
	read   bool   // the table was read
	first  int64  // if so, nothing of the queue is due before this, in Unix nanoseconds
	joined uint64 // records that have joined the queue since the store was opened
}

// idle tells whether nothing of the queue is due at a time, and how many records have joined it so far.
func (q *queueStarts) idle(queue string, at int64) (joined uint64, idle bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.known[queue]
	return k.joined, k.read && at < k.first
}

// noteFirst takes what the table said: the first record of the queue is due then, the greatest time when there is none. It
// means nothing when a record has joined since idle was asked.
func (q *queueStarts) noteFirst(queue string, joined uint64, first int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.known[queue]; k.joined == joined {
		q.known[queue] = queueStart{true, first, joined}
	}
}

// join is told of each record that has joined a queue, as soon as the tables show it. Those that leave one make nothing
// due earlier.
func (q *queueStarts) join(due *Due) {
	if due == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.known[due.Queue]
	q.known[due.Queue] = queueStart{k.read, min(k.first, due.At.UnixNano()), k.joined + 1}
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
