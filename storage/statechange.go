package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Advance moves a record from one state to another, in one durable batch. If the record is in another state than from,
// nothing changes and the error is a *ConflictError. The new state may be the same, for example to move the due time.
// Other errors: ErrNotFound, ErrPartExists, ErrCorrupt, ErrClosed; ctx's error while Advance waits for the locks.
func (s *Store) Advance(ctx context.Context, code Code, from State, c Change) (Entry, error) {
	return use(s, "advancing record", func() (Entry, error) {
		start := s.o.Now()
		e, err := s.advance(ctx, code, from, &c)
		if err != nil {
			s.suspect(err)
			return Entry{}, fmt.Errorf("%X: %w", code, err)
		}
		s.metrics.advances.Observe(s.secondsSince(start))
		return e, nil
	})
}

func (s *Store) advance(ctx context.Context, code Code, from State, c *Change) (Entry, error) {
	if err := errors.Join(s.writable(), c.check()); err != nil {
		return Entry{}, err
	}
	drawn := origins(c.Counters)
	names := []string{lockOfRecord(code)}
	for _, o := range drawn {
		names = append(names, lockOfRecord(o))
	}
	held, err := s.locks.acquire(ctx, names...)
	if err != nil {
		return Entry{}, err
	}
	defer held.release()
	s.pending.wait(code) // the record's Append may not be durable yet
	for _, o := range drawn {
		s.pending.wait(o)
	}
	e, err := s.inState(code, from, c.Parts)
	if err != nil {
		return Entry{}, err
	}

	// The change becomes a link of the series' journal: lock the series.
	series := lockOfSeries(e.Series)
	if err := held.add(ctx, series); err != nil {
		return Entry{}, err
	}
	row, err := s.series(e.Series)
	if err != nil {
		return Entry{}, err
	}
	b := s.newBatch(c.Parts)
	was := e
	e.State, e.Due = c.To, c.Due
	e.Revision++
	if c.Head != nil {
		e.Head = c.Head
	}
	e.Days = slices.Clone(e.Days)
	for _, day := range c.Days {
		if !slices.Contains(e.Days, day) {
			e.Days = append(e.Days, day)
		}
	}
	if err := checkDays(e.Days); err != nil {
		return Entry{}, err
	}
	counters, err := s.count(b, c.Counters, true)
	if err != nil {
		return Entry{}, err
	}
	settle, ok := s.pending.begin(code, drawn)
	if !ok {
		return Entry{}, fmt.Errorf("another change is under way: %w", &ConflictError{Have: from})
	}
	var sequence uint64
	if c.Announce {
		sequence = s.feed.take()
		defer s.feed.ring(sequence)
		set(b, feedKey(sequence), append(be.AppendUint64(nil, e.ID), byte(c.To)))
	}
	s.change(b, e.Series, &row, &was, &e, &link{Op: opAdvance, From: from, Counters: counters}, c.Parts)
	s.commit(b, &row, sequence, func() {
		s.queueStarts.join(e.Due)
		held.drop(series)
	})
	settle()
	return e.Entry, nil
}

// inState returns a record if it is in the given state and has none of the new parts.
func (s *Store) inState(code Code, from State, parts []Part) (entryRow, error) {
	e, err := s.entry(code)
	if err != nil {
		return e, err
	}
	if e.State != from {
		return e, &ConflictError{Have: e.State}
	}
	for _, p := range parts {
		if there, err := has(s.db, partKey(e.ID, p.Name)); err != nil {
			return e, err
		} else if there {
			return e, fmt.Errorf("%w: %q", ErrPartExists, p.Name)
		}
	}
	return e, nil
}

// Due returns the records of a queue whose due time is at or before the given time, earliest first, at most limit of
// them. The records stay in the queue until Advance removes or moves them. A record that is being moved may be missing.
func (s *Store) Due(queue string, before time.Time, limit int) ([]Entry, error) {
	return use(s, "reading a queue", func() ([]Entry, error) {
		entries, err := s.due(queue, before, limit)
		s.suspect(err)
		return entries, err
	})
}

func (s *Store) due(queue string, before time.Time, limit int) ([]Entry, error) {
	if err := checkName("queue", queue); err != nil {
		return nil, err
	}
	last := before.UnixNano()
	switch year := before.Year(); { // beyond the table's times
	case year < 1678:
		last = math.MinInt64
	case year > 2261:
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
	first := int64(math.MaxInt64) // the first time that is not due yet
	err := scan(s.db, duePrefix(queue), dueKey(queue, math.MaxInt64, math.MaxUint64), func(key, _ []byte) error {
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
		return nil, err
	}
	if len(found) == 0 && limit > 0 {
		s.queueStarts.noteFirst(queue, joined, first)
	}
	entries := make([]Entry, 0, len(found))
	for _, f := range found {
		e, err := s.entryByID(f.id)
		if err != nil {
			return nil, err
		}
		// A record may have left the queue since the scan.
		if e.Due != nil && e.Due.Queue == queue && e.Due.At.UnixNano() == f.at {
			s.pending.wait(e.Code)
			entries = append(entries, e.Entry)
		}
	}
	return entries, nil
}

// queueStarts remembers when the first record of each queue is due. Callers ask idle queues many times a minute; this
// saves reading the table.
type queueStarts struct {
	mu    sync.Mutex
	known map[string]queueStart
}

type queueStart struct {
	read   bool   // the table was read
	first  int64  // if read: no record of the queue is due before this time, Unix ns
	joined uint64 // records that have joined the queue since Open
}

// idle reports whether the queue is known to have no record due at a time, and how many records have joined the queue.
func (q *queueStarts) idle(queue string, at int64) (joined uint64, idle bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.known[queue]
	return k.joined, k.read && at < k.first
}

// noteFirst stores when the first record of the queue is due, as read from the table; MaxInt64 if the queue is empty.
// It does nothing if a record has joined the queue since idle returned joined.
func (q *queueStarts) noteFirst(queue string, joined uint64, first int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.known[queue]; k.joined == joined {
		q.known[queue] = queueStart{true, first, joined}
	}
}

// join must be called for each record that joins a queue, as soon as the tables show the record. A record that leaves a
// queue makes no other record due earlier.
func (q *queueStarts) join(due *Due) {
	if due == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.known[due.Queue]
	q.known[due.Queue] = queueStart{k.read, min(k.first, due.At.UnixNano()), k.joined + 1}
}

type count struct {
	Counter
	Revision uint64 // how often it has been set, this time included
}

// count adds counters to the batch and returns their new values. If relative is set, the new values are the sums with
// the stored values. The caller holds the locks of the counters' origins.
func (s *Store) count(b *pebble.Batch, counters []Counter, relative bool) ([]count, error) {
	var counts []count
	for _, c := range counters {
		n, err := s.counter(c.Origin, c.Line)
		if err != nil {
			return nil, err
		}
		if relative {
			sum := n.Value + c.Value
			if (c.Value > 0) != (sum > n.Value) && c.Value != 0 {
				return nil, fmt.Errorf("counter of %X line %d: %d and %d overflow", c.Origin, c.Line, n.Value, c.Value)
			}
			c.Value = sum
		}
		n.Counter = c
		n.Revision++
		counts = append(counts, n)
		set(b, counterKey(c.Origin, c.Line), n.row())
	}
	return counts, nil
}

// counter reads a counter's row; a counter that was never set is 0.
func (s *Store) counter(origin Code, line uint32) (count, error) {
	n := count{Counter: Counter{Origin: origin, Line: line}}
	row, err := get(s.db, counterKey(origin, line))
	switch {
	case errors.Is(err, ErrNotFound):
		return n, nil
	case err == nil && len(row) != counterSize:
		err = ErrCorrupt
	}
	if err != nil {
		return n, fmt.Errorf("reading counter of %X line %d: %w", origin, line, err)
	}
	n.Value, n.Revision = int64(be.Uint64(row)), be.Uint64(row[8:])
	return n, nil
}

// ErrCursor: the sequence number given to Changes is from a lost history. The reader must start again.
var ErrCursor = errors.New("the cursor is not of this store's history")

// feedJump limits the random step of the sequence numbers when the store gets a new identity.
const feedJump = 1 << 40

// newIdentity gives a new identity to a store that was restored or that gave up another medium's history. The sequence
// number of the next announcement is higher by a random step, because numbers of the lost history must not be used
// again.
func newIdentity(b *pebble.Batch, db *pebble.DB, id []byte) error {
	last, err := lastID(db, tableFeed)
	if err != nil {
		return err
	}
	var step [8]byte
	_, _ = rand.Read(id[8:]) // crypto/rand never fails since Go 1.24
	_, _ = rand.Read(step[:])
	set(b, keyStore, id)
	return setJSON(b, keyFeed, last+1+be.Uint64(step[:])%feedJump, nil)
}

// Announcement is an announced change of a record. A reader of Changes gets each announcement once, in order.
type Announcement struct {
	Sequence uint64 // from 1, growing; gaps are possible
	Code     Code
	State    State
}

// feed gives sequence numbers to announcements and wakes the readers that wait for them.
type feed struct {
	ids
	next chan struct{} // closed at the next announcement; guarded by ids.mu
}

// ring wakes the readers: the announcement with this sequence number is durable, or will never be written.
func (f *feed) ring(sequence uint64) {
	f.drop(sequence)
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.next)
	f.next = make(chan struct{})
}

// Announced returns a channel that is closed when there may be announcements that Changes does not return yet.
func (s *Store) Announced() <-chan struct{} {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	return s.feed.next
}

// Changes returns the announcements after a sequence number, in order, at most limit. They are durable, and no
// announcement will appear between them; a reader that remembers the last number sees each exactly once. 0 reads from
// the first. ErrCursor if no announcement of this store has the number.
func (s *Store) Changes(after uint64, limit int) ([]Announcement, error) {
	return use(s, "reading changes", func() ([]Announcement, error) {
		upper := s.feed.floor()
		if after > 0 {
			if _, err := get(s.db, feedKey(after)); errors.Is(err, ErrNotFound) || after >= upper {
				return nil, ErrCursor
			} else if err != nil {
				return nil, err
			}
		}
		var ids []uint64
		var found []Announcement
		err := scan(s.db, feedKey(after+1), feedKey(max(upper, after+1)), func(key, value []byte) error {
			if len(found) >= limit {
				return errStop
			}
			id, state, ok := parseFeed(value)
			if !ok {
				return fmt.Errorf("feed key %x: %w", key, ErrCorrupt)
			}
			ids = append(ids, id)
			found = append(found, Announcement{Sequence: be.Uint64(key[1:]), State: state})
			return nil
		})
		for i, id := range ids {
			if err == nil {
				var e entryRow
				e, err = s.entryByID(id)
				found[i].Code = e.Code
			}
		}
		return found, err
	})
}

func parseFeed(value []byte) (id uint64, state State, ok bool) {
	if len(value) != 9 {
		return 0, 0, false
	}
	return be.Uint64(value), State(value[8]), true
}
