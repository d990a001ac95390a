package storage

import (
	"context"
	"crypto/sha256"

	"github.com/cockroachdb/pebble/v2"
)

// quickFsck reads every table once, from its begin to its end, and looks nothing up: what two tables say of each other
// is hashed and added on the one side, taken off on the other, and must come to nothing. It tells whether a store is
// sound, and not what is wrong with one that is not. On a million documents it takes a quarter of the time of looking
// everything up, and reads a slow medium in order.
func quickFsck(ctx context.Context, r pebble.Reader, marked reached, markErr error, progress Progress) (*Report, bool,
	error) {
	c := newChecker(ctx, r)
	j := &journalCheck{checker: c, progress: progress}
	q := &quick{j: j, revisions: make(map[uint64]*[4096]uint32)}
	j.compare = q.link
	for _, step := range []struct {
		table byte
		row   func(key, value []byte) error
	}{
		{tableMeta, c.metaRow},
		{tableSeries, j.seriesRow},
		{tableEntry, q.entry}, // before the journal: tells which link is an entry's latest
		{tableJournal, j.journalRow},
		{tablePart, q.part},
		{tableCode, q.lead},
		{tableIdem, q.lead},
		{tableDue, q.lead},
		{tableDay, q.lead},
		{tableCounter, j.counterRow},
		{tableFeed, q.feed},
		{tableLost, c.lostRow},
	} {
		if err := scan(r, []byte{step.table}, []byte{step.table + 1}, c.watchRows(step.row)); err != nil {
			return nil, false, err
		}
	}
	if err := j.journalEnd(); err != nil {
		return nil, false, err
	}
	if err := c.strangeRows(); err != nil {
		return nil, false, err
	}
	c.checkMark(marked, markErr)
	sound := len(c.report.Problems) == 0 && !q.bad && q.sum == [4]uint64{} && (j.countersSet == 0 ||
		j.countersSet < 0 && len(c.holes.at) > 0)
	return c.report, sound, nil
}

// quick adds up what the tables say.
type quick struct {
	j         *journalCheck
	sum       [4]uint64
	bad       bool                     // something that no other row need be asked about
	revisions map[uint64]*[4096]uint32 // of the entries, by id / 4096
	buf       []byte
}

// What is said; two different things never have the same bytes.
const (
	saysAppended byte = iota // an entry and its first link
	saysLatest               // an entry and its latest link
	saysRevision             // an entry has this revision
	saysPart                 // a link and a part
	saysParts                // an entry has a part
	saysLead                 // a row leads to an entry
)

func (q *quick) say(what byte, id uint64) *quick {
	q.buf = be.AppendUint64(append(q.buf[:0], what), id)
	return q
}

func (q *quick) with(b ...byte) *quick {
	q.buf = append(q.buf, b...)
	return q
}

func (q *quick) number(n uint64) *quick {
	q.buf = be.AppendUint64(q.buf, n)
	return q
}

// times adds what was said so often; all of it wraps around.
func (q *quick) times(n uint64) {
	h := sha256.Sum256(q.buf)
	for i := range q.sum {
		q.sum[i] += n * be.Uint64(h[8*i:])
	}
}

const minusOne = ^uint64(0)

func (q *quick) entry(key, value []byte) error {
	q.j.report.Documents++
	if len(key) != 9 {
		q.bad = true
		return nil
	}
	id := be.Uint64(key[1:])
	e, err := decodeEntry(id, value)
	if err != nil || e.Revision == 0 {
		q.bad = true
		return nil
	}
	chunk := q.revisions[id/4096]
	if chunk == nil {
		chunk = new([4096]uint32)
		q.revisions[id/4096] = chunk
	}
	chunk[id%4096] = e.Revision
	digest := sha256.Sum256(value)
	if q.j.holes.partial[id] {
		q.found(id, &e)
		return nil
	}
	q.appended(id, e.SequenceID, e.Appended, e.Number, e.Code).times(minusOne)
	q.latest(id, e.SequenceID, e.Changed, e.Revision, e.State, digest).times(minusOne)
	for r := range e.Revision {
		q.say(saysRevision, id).number(uint64(r) + 1).times(minusOne)
	}
	q.say(saysParts, id).times(-uint64(e.Parts))
	q.found(id, &e)
	return nil
}

// found says which rows lead to an entry.
func (q *quick) found(id uint64, e *entryRow) {
	e.leads(func(key, value []byte) { q.say(saysLead, id).with(key...).with(value...).times(1) })
}

func (q *quick) appended(id uint64, sequence uint32, position, number uint64, code Code) *quick {
	return q.say(saysAppended, id).number(uint64(sequence)).number(position).number(number).with(code[:]...)
}

func (q *quick) latest(id uint64, sequence uint32, position uint64, revision uint32, state State,
	digest [32]byte) *quick {
	return q.say(saysLatest, id).number(uint64(sequence)).number(position).number(uint64(revision)).with(
		byte(state)).with(digest[:]...)
}

func (q *quick) link(key []byte, l *link) error {
	sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
	if q.j.holes.partial[l.ID] {
		return q.j.compareCounters(key, l)
	}
	switch {
	case l.Op == opAppend && l.Revision == 1:
		q.appended(l.ID, sequence, position, l.Number, l.Code).times(1)
	case l.Op == opAdvance && l.Revision > 1:
	default:
		q.bad = true
	}
	q.say(saysRevision, l.ID).number(uint64(l.Revision)).times(1)
	if l.Revision == q.revision(l.ID) {
		q.latest(l.ID, sequence, position, l.Revision, l.State, l.Entry).times(1)
	}
	for _, p := range l.Parts {
		q.say(saysPart, l.ID).with(p.Digest[:]...).with([]byte(p.Name)...).times(1)
	}
	return q.j.compareCounters(key, l)
}

func (q *quick) revision(id uint64) uint32 {
	if chunk := q.revisions[id/4096]; chunk != nil {
		return chunk[id%4096]
	}
	return 0
}

func (q *quick) part(key, value []byte) error {
	if len(key) < 10 {
		q.bad = true
		return nil
	}
	id := be.Uint64(key[1:])
	if q.j.holes.partial[id] {
		return nil
	}
	digest := sha256.Sum256(value)
	q.say(saysPart, id).with(digest[:]...).with(key[9:]...).times(minusOne)
	q.say(saysParts, id).times(1)
	return nil
}

func (q *quick) lead(key, value []byte) error {
	id, ok := leadsTo(key, value)
	if q.bad = q.bad || !ok; ok {
		q.say(saysLead, id).with(key...).with(value...).times(minusOne)
	}
	return nil
}

func (q *quick) feed(key, value []byte) error {
	id, _, ok := parseFeed(value)
	q.bad = q.bad || len(key) != 9 || !ok || q.revision(id) < 2
	return nil
}
