package storage

import (
	"context"
	"fmt"
)

// Advance moves a record from one state to another, in one durable batch. If the record is in another state than from, nothing
// happens and the error is a *ConflictError. from and to may be the same, for example to move the due time. Other errors:
// ErrNotFound, ErrPartExists, ErrCorrupt, ErrClosed; ctx's while it waits for the locks.
func (s *Store) Advance(ctx context.Context, code Code, from State, c Change) (Entry, error) {
	if err := s.enter(); err != nil {
		return Entry{}, fmt.Errorf("advancing: %w", err)
	}
	defer s.leave()
	start := s.o.Now()
	e, err := s.advance(ctx, code, from, &c)
	if err != nil {
		s.suspect(err)
		return Entry{}, fmt.Errorf("advancing record %X: %w", code, err)
	}
	s.metrics.advances.Observe(s.secondsSince(start))
	return e, nil
}

func (s *Store) advance(ctx context.Context, code Code, from State, c *Change) (Entry, error) {
	if err := s.writable(); err != nil {
		return Entry{}, err
	}
	if err := c.check(); err != nil {
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
	s.settled(code) // its Append may not be durable yet
	for _, o := range drawn {
		s.settled(o)
	}
	e, err := s.inState(code, from, c.Parts)
	if err != nil {
		return Entry{}, err
	}

	// The journal belongs to the series.
	series := lockOfSeries(e.Series)
	if err := held.add(ctx, series); err != nil {
		return Entry{}, err
	}
	row, err := s.series(e.Series)
	if err != nil {
		return Entry{}, err
	}
	b := s.newBatch(c.Parts)
	if old := e.due(); old != nil {
		if err := b.Delete(old, nil); err != nil {
			return Entry{}, err
		}
	}
	e.State, e.Due = c.To, c.Due
	e.Revision++
	if c.Head != nil {
		e.Head = c.Head
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
		set(b, feedKey(sequence), feedValue(e.ID, c.To))
	}
	s.change(b, e.Series, &row, &e, &link{Op: opAdvance, From: from, Counters: counters}, c.Parts)
	s.commit(b, &row, sequence, func() {
		s.queueStarts.join(e.Due)
		held.drop(series)
	})
	settle()
	return e.Entry, nil
}

// inState is a record that is in a state and has none of the parts that it is to be given.
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
