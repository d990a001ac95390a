package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Append stores a record that needs neither its number nor anything read under its locks. It returns when the record is on the
// disk: after that a crash loses nothing, and before that nothing has happened. Errors: those of Begin, Number and
// Appending.Append.
func (s *Store) Append(ctx context.Context, keys Keys, d Draft) (Entry, error) {
	a, err := s.Begin(ctx, keys)
	if err != nil {
		return Entry{}, err
	}
	defer a.Release()
	if _, err := a.Number(); err != nil {
		return Entry{}, err
	}
	return a.Append(d)
}

// Appending is a record that is being stored. Its owner, one goroutine, takes these steps in order:
//
//	a, err := s.Begin(ctx, keys) // the keys and origins are locked: check them, or refuse the record
//	defer a.Release()
//	slot, err := a.Number()      // other records have the next numbers: make the record
//	entry, err := a.Append(d)    // durable
//
// Before Append the owner may read the store and must not write to it. If the record is not appended, its number is not spent.
type Appending struct {
	s       *Store
	keys    Keys
	began   time.Time
	held    *held
	turn    *turn // nil before Number
	id      uint64
	counted bool // among the store's writing
	over    bool // everything is released
	ok      bool // the record is stored
}

// Begin locks the idempotency key and the origins, and waits while others hold them. Errors: ErrKeyTaken (for a repeated
// request, after it has waited for the first request), ErrReadOnly, ErrRestored, ErrBehind, ErrCorrupt, ErrClosed, and ctx's
// while it waits. ctx has no effect later.
func (s *Store) Begin(ctx context.Context, keys Keys) (*Appending, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("appending: %w", err)
	}
	a := &Appending{s: s, keys: keys, began: s.o.Now()}
	if err := a.lock(ctx); err != nil {
		a.Release()
		return nil, a.failed(err)
	}
	a.counted = true
	s.writing.Add(1)
	return a, nil
}

// failed wraps an error of the store's own.
func (a *Appending) failed(err error) error {
	a.s.suspect(err)
	return fmt.Errorf("appending to series %q: %w", a.keys.Series, err)
}

// lock makes everything that the record depends on stand still.
func (a *Appending) lock(ctx context.Context) (err error) {
	s, keys := a.s, &a.keys
	if err := errors.Join(keys.check(), s.writable()); err != nil {
		return err
	}
	var names []string
	if keys.Idempotency != nil {
		names = append(names, lockOfKey(keys.Idempotency.Key))
	}
	for _, o := range keys.Origins {
		names = append(names, lockOfRecord(o))
	}
	if a.held, err = s.locks.acquire(ctx, names...); err != nil {
		return err
	}
	for _, o := range keys.Origins {
		s.settled(o)
	}
	if keys.Idempotency != nil {
		if taken, err := has(s.db, idemKey(keys.Idempotency.Key)); err != nil || taken {
			return errors.Join(err, onlyIf(taken, ErrKeyTaken))
		}
	}
	return nil
}

// Number takes the next number of the series, after the numbers of the records that are being made. Once numbered, a record has
// later numbers queued behind it: if it is not appended, these records fail too, with ErrTurn. Therefore refuse a record before
// Number.
func (a *Appending) Number() (Slot, error) {
	turn, err := a.s.turns.take(a.keys.Series, a.s.series)
	if err != nil {
		return Slot{}, a.failed(err)
	}
	a.turn, a.id = turn, a.s.ids.take()
	return Slot{Number: turn.number, ID: a.id, SequenceID: turn.sequence}, nil
}

// Append stores the record, in the order of the numbers, and releases everything. It returns when the record is on the disk.
// Errors: ErrTurn, ErrCodeTaken, ErrPartExists, ErrCorrupt, ErrClosed.
func (a *Appending) Append(d Draft) (Entry, error) {
	defer a.Release()
	if a.turn == nil || a.over {
		return Entry{}, a.failed(errors.New("the record has no number"))
	}
	e, err := a.store(&d)
	if err != nil {
		return Entry{}, a.failed(err)
	}
	a.ok = true
	a.s.metrics.appends.Observe(a.s.secondsSince(a.began))
	return e, nil
}

// Release gives back the number, unless the record is stored, and releases the locks. It may be called again.
func (a *Appending) Release() {
	if a.over {
		return
	}
	a.over = true
	s := a.s
	if a.turn != nil {
		s.ids.drop(a.id)
		s.turns.leave(a.turn)
	}
	if a.held != nil {
		a.held.release()
	}
	if !a.ok {
		s.metrics.refused.Inc()
	}
	if a.counted {
		s.writing.Add(-1)
	}
	s.leave()
}

// store writes the record in one batch.
func (a *Appending) store(draft *Draft) (Entry, error) {
	s, keys, turn := a.s, &a.keys, a.turn
	if err := draft.check(keys.Origins); err != nil {
		return Entry{}, err
	}

	// 1. Those in front are in the log now, and one batch follows them. Whether the number is the next one, the row says.
	turn.wait()
	series := lockOfSeries(keys.Series)
	if err := a.held.add(context.Background(), series); err != nil {
		return Entry{}, err
	}
	row, err := s.series(keys.Series)
	if err != nil || row.Last+1 != turn.number {
		return Entry{}, errors.Join(err, onlyIf(err == nil, ErrTurn))
	}
	settle, ok := s.pending.begin(draft.Code, origins(draft.Counters))
	if !ok {
		return Entry{}, ErrCodeTaken
	}
	if taken, err := has(s.db, codeKey(draft.Code)); err != nil || taken {
		settle()
		return Entry{}, errors.Join(err, onlyIf(taken, ErrCodeTaken))
	}
	row.Last++
	e := entryRow{
		Entry: Entry{Code: draft.Code, ID: a.id, Number: row.Last, SequenceID: row.Sequence, Series: keys.Series,
			State: draft.State, Revision: 1, Head: draft.Head, Due: draft.Due},
		Appended: row.Position + 1, Idempotency: keys.Idempotency,
	}
	b := s.newBatch(draft.Parts)
	set(b, codeKey(e.Code), be.AppendUint64(nil, a.id))
	if k := keys.Idempotency; k != nil {
		set(b, idemKey(k.Key), append(be.AppendUint64(make([]byte, 0, 40), a.id), k.Digest[:]...))
	}
	counters, err := s.count(b, draft.Counters, false)
	if err != nil {
		settle()
		return Entry{}, err
	}
	s.change(b, keys.Series, &row, &e, &link{Op: opAppend, Counters: counters}, draft.Parts)

	// 2. Durable. The next number of the series may be taken as soon as this one is in the log: no crash keeps the
	// later one and loses the earlier.
	s.commit(b, &row, 0, func() {
		s.queueStarts.join(e.Due)
		a.held.drop(series)
		s.turns.endStored(turn)
	})
	settle()

	// 3. Written down outside of the store. The mark trails by one, so that one record at a time does not wait for a second
	// sync; the last number of a series is what a damaged end of the log could still take unseen.
	s.mark.wait(row.Sequence, e.Number-1)
	return e.Entry, nil
}

// series reads the row of a series, whose lock is held.
func (s *Store) series(name string) (seriesRow, error) {
	b, err := get(s.db, seriesKey(name))
	if errors.Is(err, ErrNotFound) {
		return seriesRow{Sequence: s.names.sequenceOf(name)}, nil
	}
	if err != nil {
		return seriesRow{}, err
	}
	return decodeSeries(b)
}

// change adds to the batch what every change has: the entry as it is now, its parts and due row, the journal's link
// and the series' row.
func (s *Store) change(b *pebble.Batch, series string, row *seriesRow, e *entryRow, l *link, parts []Part) {
	if e.Due != nil {
		e.Due = &Due{Queue: e.Due.Queue, At: e.Due.At.UTC().Round(0)} // as it will be read, and nobody else's
		set(b, e.due(), nil)
	}
	e.Changed = row.Position + 1
	e.Parts += uint32(len(parts))
	value := e.encode()
	set(b, entryKey(e.ID), value)
	for _, p := range parts {
		set(b, partKey(e.ID, p.Name), p.Data)
	}
	l.ID, l.Code, l.Number, l.State, l.Revision = e.ID, e.Code, e.Number, e.State, e.Revision
	l.Entry, l.Parts = sha256.Sum256(value), digestParts(parts)
	s.link(b, series, row, l)
}

// link adds to the batch the next link of a series' journal, and the series' row.
func (s *Store) link(b *pebble.Batch, series string, row *seriesRow, l *link) {
	row.Position++
	l.Previous, l.At = row.Hash, s.o.Now().UnixNano()
	key, value := journalKey(row.Sequence, row.Position), l.encode()
	set(b, key, value)
	row.Hash = hashLink(key, value)
	set(b, seriesKey(series), row.encode())
}
