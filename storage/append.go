package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Append stores a record whose content depends neither on its number nor on anything read under locks. It returns when
// the record is on the disk: from then on no crash loses the record. A crash before that leaves the whole record or
// nothing. Errors: those of Begin, Number and Appending.Append.
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
//	a, err := s.Begin(ctx, keys) // the keys and origins are locked: the record may still be refused
//	defer a.Release()
//	slot, err := a.Number()      // the number is taken: make the record
//	entry, err := a.Append(d)    // durable
//
// Before Append the owner may read the store and must not write to it. If the record is not appended, its number is not
// spent.
type Appending struct {
	s     *Store
	keys  Keys
	began time.Time
	held  *held
	turn  *turn // nil before Number
	id    uint64
	over  bool // number and locks are released
	ok    bool // the record is in the log
}

// Begin locks the idempotency key and the origins, waiting for callers that hold them. Errors: ErrKeyTaken (a repeated
// request first waits for the first request), ErrReadOnly, ErrRestored, ErrBehind, ErrCorrupt, ErrClosed, and ctx's
// error while Begin waits. ctx has no effect after Begin.
func (s *Store) Begin(ctx context.Context, keys Keys) (*Appending, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("appending: %w", err)
	}
	a := &Appending{s: s, keys: keys, began: s.o.Now()}
	if err := a.lock(ctx); err != nil {
		a.Release()
		return nil, a.failed(err)
	}
	return a, nil
}

// failed adds the series to err, and notes damage if the medium caused err.
func (a *Appending) failed(err error) error {
	a.s.suspect(err)
	return fmt.Errorf("appending to series %q: %w", a.keys.Series, err)
}

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
	s.writing.Add(1)
	for _, o := range keys.Origins {
		s.pending.wait(o)
	}
	if keys.Idempotency != nil {
		if taken, err := has(s.db, idemKey(keys.Idempotency.Key)); err != nil || taken {
			return errors.Join(err, onlyIf(taken, ErrKeyTaken))
		}
	}
	return nil
}

// Number takes the next number of the series. Records with later numbers queue behind this record: if this record is
// not appended, those records fail too, with ErrTurn. Therefore refuse a record before Number.
func (a *Appending) Number() (Slot, error) {
	turn, err := a.s.turns.take(a.keys.Series, a.s.series)
	if err != nil {
		return Slot{}, a.failed(err)
	}
	a.turn, a.id = turn, a.s.ids.take()
	return Slot{Number: turn.number, ID: a.id, SequenceID: turn.sequence}, nil
}

// Append stores the record, in the order of the numbers, and releases everything. It returns when the record is on the
// disk. Errors: ErrTurn, ErrCodeTaken, ErrPartExists, ErrCorrupt.
func (a *Appending) Append(d Draft) (Entry, error) {
	defer a.Release()
	if a.turn == nil || a.over {
		return Entry{}, a.failed(errors.New("the record has no number"))
	}
	e, err := a.store(&d)
	if err != nil {
		return Entry{}, a.failed(err)
	}
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
	}
	if a.turn != nil && !a.ok {
		a.turn.wait()
		s.turns.end(a.turn, false)
	}
	if a.held != nil {
		a.held.release()
		s.writing.Add(-1)
	}
	if !a.ok {
		s.metrics.refused.Inc()
	}
	s.users.Done()
}

func (a *Appending) store(draft *Draft) (Entry, error) {
	s, keys, turn := a.s, &a.keys, a.turn
	if err := draft.check(keys.Origins); err != nil {
		return Entry{}, err
	}

	// 1. When wait returns, the records with lower numbers are in the log, or have failed. The series' row decides
	// whether this number is the next.
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
			State: draft.State, Revision: 1, Head: draft.Head, Due: draft.Due, Days: draft.Days},
		Appended: row.Position + 1, Idempotency: keys.Idempotency,
	}
	b := s.newBatch(draft.Parts)
	counters, err := s.count(b, draft.Counters, false)
	if err != nil {
		settle()
		return Entry{}, err
	}
	s.change(b, keys.Series, &row, nil, &e, &link{Op: opAppend, Counters: counters}, draft.Parts)

	// 2. Write the batch, durably. The next record of the series may be written as soon as this record is in the log: a
	// crash that keeps the next record also keeps this record.
	s.commit(b, &row, 0, func() {
		s.queueStarts.join(e.Due)
		a.held.drop(series)
		s.turns.end(turn, true)
		a.ok = true
	})
	settle()

	// 3. Wait until the mark has the previous number. The mark may trail by one number, because a single record would
	// otherwise wait for two syncs. A damaged end of the log can therefore lose a series' last number unnoticed.
	s.mark.wait(keys.Series, e.Number-1)
	return e.Entry, nil
}

// series returns the row of a series, from memory once commit has written it. The caller holds the series' lock.
func (s *Store) series(name string) (Reach, error) {
	if row, known := s.rows.Load(name); known {
		return row.(Reach), nil
	}
	b, err := get(s.db, seriesKey(name))
	if errors.Is(err, ErrNotFound) {
		return Reach{Sequence: s.names.sequenceOf(name)}, nil
	}
	if err != nil {
		return Reach{}, err
	}
	return decodeSeries(b)
}

// change adds the rows of one change to the batch: the new entry e, its parts, the index rows that lead to e, the
// journal's link and the series' row. was is the entry before the change, nil for a new record.
func (s *Store) change(b *pebble.Batch, series string, row *Reach, was, e *entryRow, l *link, parts []Part) {
	if e.Due != nil {
		e.Due = &Due{Queue: e.Due.Queue, At: e.Due.At.UTC().Round(0)} // a copy, in the form that a later read returns
	}
	if was != nil && was.Due != nil {
		_ = b.Delete(was.due(), nil) // cannot fail: the batch is in memory
	}
	e.leads(func(key, value []byte) {
		if was == nil || key[0] == tableDue || !was.led(key, value) {
			set(b, key, value)
		}
	})
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
func (s *Store) link(b *pebble.Batch, series string, row *Reach, l *link) {
	row.Position++
	l.Previous, l.At = row.Hash, s.o.Now().UnixNano()
	key, value := journalKey(row.Sequence, row.Position), l.encode()
	set(b, key, value)
	row.Hash = hashLink(key, value)
	set(b, seriesKey(series), row.encode())
}

// turns lets the records of a series be made in parallel and stored in the order of their numbers. It keeps only the
// order: when a record is stored, the series' row decides whether its number is the next one.
type turns struct {
	mu   sync.Mutex
	last map[string]*turn // by series: the last record that has a number and is not stored yet
}

// turn is the place of one record in its series' line: the records that have a number and are not stored yet, in the
// order of their numbers.
type turn struct {
	series   string
	sequence uint32 // the series' id
	first    *turn  // the first turn of its line
	number   uint64
	before   <-chan struct{} // closed when the turn before has ended; nil: no turn before
	over     chan struct{}   // closed when this record is stored or has failed
}

// take assigns the series' next number: one more than the last number of its line or, in a new line, one more than the
// last number in the row that the function read returns.
func (t *turns) take(series string, read func(series string) (Reach, error)) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &turn{series: series, over: make(chan struct{})}
	if l := t.last[series]; l != nil {
		n.first, n.sequence, n.number, n.before = l.first, l.sequence, l.number+1, l.over
	} else {
		row, err := read(series)
		if err != nil {
			return nil, err
		}
		n.first, n.sequence, n.number = n, row.Sequence, row.Last+1
	}
	t.last[series] = n
	return n, nil
}

// wait returns when the records before this turn are stored or have failed.
func (n *turn) wait() {
	if n.before != nil {
		<-n.before
	}
}

// end ends a turn; each turn ends once. If the turn's record was not stored, the later turns of its line have wrong
// numbers, and later records begin a new line.
func (t *turns) end(n *turn, stored bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.last[n.series]; last == n || last != nil && last.first == n.first && !stored {
		delete(t.last, n.series)
	}
	close(n.over)
}

// pending knows which records have a change in the log that is not on the disk yet. Pebble shows a write before it is
// durable; readers wait here so that nobody acts on a change that a crash would undo.
type pending struct {
	mu      sync.Mutex
	records map[Code][]chan struct{}
}

// begin registers a change before it is applied. Call settle when the change is durable. ok is false while another
// change of the record, or a change with the record as origin, is under way. Any number of changes may share an origin.
func (p *pending) begin(code Code, origins []Code) (settle func(), ok bool) {
	done := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.records[code]) > 0 {
		return nil, false
	}
	p.records[code] = append(p.records[code], done)
	for _, o := range origins {
		p.records[o] = append(p.records[o], done)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.remove(code, done)
		for _, o := range origins {
			p.remove(o, done)
		}
		close(done)
	}, true
}

func (p *pending) remove(code Code, done chan struct{}) {
	p.records[code] = slices.DeleteFunc(p.records[code], func(c chan struct{}) bool { return c == done })
	if len(p.records[code]) == 0 {
		delete(p.records, code)
	}
}

// wait returns when the record's changes under way are durable. Called after a read, it makes sure that the data read
// is durable.
func (p *pending) wait(code Code) {
	for {
		p.mu.Lock()
		list := p.records[code]
		if len(list) == 0 {
			p.mu.Unlock()
			return
		}
		done := list[len(list)-1]
		p.mu.Unlock()
		<-done
	}
}

// ids assigns record ids and knows the lowest id whose record may still appear.
type ids struct {
	mu   sync.Mutex
	next uint64
	busy map[uint64]struct{}
}

func (i *ids) take() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.busy == nil {
		i.busy = make(map[uint64]struct{})
	}
	id := i.next
	i.next++
	i.busy[id] = struct{}{}
	return id
}

func (i *ids) drop(id uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.busy, id)
}

// floor returns the lowest id in use or, if none is in use, the next id. Every record with a lower id is durable, or
// will never be stored.
func (i *ids) floor() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	floor := i.next
	for id := range i.busy {
		floor = min(floor, id)
	}
	return floor
}
