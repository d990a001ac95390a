package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Append gives build the next number of a series and stores what build makes of it. It returns when the record is on
// the disk: after that a crash is safe, before it nothing has happened.
//
// Records of one series are built side by side and stored in the order of their numbers. Build runs under the locks of
// the idempotency key and the origins. It may read the store and must not write it. Its error is returned as it is, and
// the number stays unspent, as it does with every other error: ErrKeyTaken (of a repetition, which has waited for the
// first one), ErrCodeTaken, ErrTurn, ErrCorrupt, ErrClosed, and ctx's while waiting for the locks; ctx is not looked at
// later. Those who have got the numbers behind it fail too, with ErrTurn: what can be refused, Keys.Allow refuses.
func (s *Store) Append(ctx context.Context, keys Keys, build func(Slot) (Draft, error)) (Entry, error) {
	if err := s.enter(); err != nil {
		return Entry{}, fmt.Errorf("appending: %w", err)
	}
	defer s.leave()
	s.writing.Add(1)
	defer s.writing.Add(-1)
	start := s.o.Now()
	var foreign error // what Allow or build said
	if allow := keys.Allow; allow != nil {
		keys.Allow = func() error {
			foreign = allow()
			return foreign
		}
	}
	e, err := s.append(ctx, &keys, func(slot Slot) (draft Draft, err error) {
		draft, err = build(slot)
		foreign = err
		return draft, err
	})
	switch {
	case foreign != nil:
		s.metrics.refused.Inc()
		return Entry{}, foreign
	case err != nil:
		s.metrics.refused.Inc()
		s.suspect(err)
		return Entry{}, fmt.Errorf("appending to series %q: %w", keys.Series, err)
	}
	s.metrics.appends.Observe(s.since(start))
	return e, nil
}

func (s *Store) append(ctx context.Context, keys *Keys, build func(Slot) (Draft, error)) (Entry, error) {
	if err := errors.Join(keys.check(), s.writable()); err != nil {
		return Entry{}, err
	}
	// 1. Everything that this record depends on stands still from here.
	var names []string
	if keys.Idempotency != nil && !s.o.bugs.openedKey {
		names = append(names, lockOfKey(keys.Idempotency.Key))
	}
	for _, o := range keys.Origins {
		names = append(names, lockOfRecord(o))
	}
	held, err := s.locks.acquire(ctx, names...)
	if err != nil {
		return Entry{}, err
	}
	defer held.release()
	for _, o := range keys.Origins {
		s.settled(o)
	}
	if keys.Idempotency != nil {
		if taken, err := has(s.db, idemKey(keys.Idempotency.Key)); err != nil || taken {
			return Entry{}, errors.Join(err, onlyIf(taken, ErrKeyTaken))
		}
	}
	if keys.Allow != nil {
		if err := keys.Allow(); err != nil {
			return Entry{}, err
		}
	}

	// 2. The number, behind those of the records that are being made, and the record.
	turn, err := s.turns.take(keys.Series, s.series)
	if err != nil {
		return Entry{}, err
	}
	defer s.turns.leave(turn)
	id := s.ids.take()
	defer s.ids.drop(id)
	draft, err := build(Slot{Number: turn.number, ID: id, SequenceID: turn.sequence})
	if err != nil {
		return Entry{}, err
	}
	if err := draft.check(keys.Origins); err != nil {
		return Entry{}, err
	}

	// 3. Those in front are in the log now, and one batch follows them. Whether the number is the next one, the row says.
	turn.wait()
	series := lockOfSeries(keys.Series)
	if err := held.add(context.WithoutCancel(ctx), series); err != nil {
		return Entry{}, err
	}
	row, err := s.series(keys.Series)
	if err != nil || row.Last+1 != turn.number && !s.o.bugs.blindTurn {
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
		Entry: Entry{Code: draft.Code, ID: id, Number: row.Last, SequenceID: row.Sequence, Series: keys.Series,
			State: draft.State, Revision: 1, Head: draft.Head, Due: draft.Due},
		Appended: row.Position + 1, Idempotency: keys.Idempotency,
	}
	b := s.newBatch(draft.Parts)
	set(b, codeKey(e.Code), be.AppendUint64(nil, id))
	if k := keys.Idempotency; k != nil {
		set(b, idemKey(k.Key), append(be.AppendUint64(make([]byte, 0, 40), id), k.Digest[:]...))
	}
	counters, err := s.count(b, draft.Counters, false)
	if err != nil {
		settle()
		return Entry{}, err
	}
	s.change(b, keys.Series, &row, &e, &link{Op: opAppend, Counters: counters}, draft.Parts)
	if s.o.bugs.markAhead {
		s.mark.note([]seriesRow{row})
		s.mark.wait(row.Sequence, e.Number)
	}

	// 4. Durable. The next number of the series may be taken as soon as this one is in the log: no crash keeps the
	// later one and loses the earlier.
	s.commit(b, &row, 0, func() {
		s.queueStarts.join(e.Due)
		held.drop(series)
		s.turns.stored(turn)
	})
	settle()

	// 5. Said outside of the store. The mark trails by one, so that one record at a time does not wait for a second
	// sync; the last one of a series is what a damaged end of the log could still take unseen.
	if !s.o.bugs.markBehind {
		s.mark.wait(row.Sequence, e.Number-1)
	}
	return e.Entry, nil
}

// series reads the row of a series, whose lock is held.
func (s *Store) series(name string) (seriesRow, error) {
	if row, ok := s.o.memory.Load(name); ok {
		return row.(seriesRow), nil
	}
	b, err := get(s.db, seriesKey(name))
	if errors.Is(err, ErrNotFound) {
		return seriesRow{Sequence: s.names.of(name)}, nil
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
	s.setSeries(b, series, row)
}

func (s *Store) setSeries(b *pebble.Batch, name string, row *seriesRow) {
	switch bugs := s.o.bugs; {
	case bugs.splitBatch:
		if err := s.db.Set(seriesKey(name), row.encode(), pebble.Sync); err != nil {
			s.o.die("writing series: %v", err)
		}
		return
	case bugs.numberInMemory:
		s.o.memory.Store(name, *row)
		if row.Position%4 != 1 {
			return
		}
	}
	set(b, seriesKey(name), row.encode())
}
