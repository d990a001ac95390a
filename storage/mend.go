package storage

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// mender completes a store made from damaged media: it notes what is missing, and removes rows without a record.
type mender struct {
	db     *pebble.DB
	b      *pebble.Batch
	reason string
	series map[uint32]*mendedSeries
	given  map[uint32]map[uint64]lostRow // the numbers that were given up
	facts  *facts

	latest, sound int64 // the latest change; the latest change before a missing one; Unix ns
	before        int64 // time of the previous link, of any series; Unix ns
}

type mendedSeries struct {
	name    string
	row     Reach    // the row according to the media
	end     Reach    // the row according to the end of the journal
	at      int64    // of the last link, Unix ns
	from    []uint64 // where its holes begin
	holes   []lostRow
	partial []partialRecord
}

// mend returns the series whose end is missing, and the time until which nothing is missing, in Unix ns: that of the
// latest change, or of the last change before the first missing change.
func mend(db *pebble.DB, told copyState, reason string) (known []knownSeries, until int64, err error) {
	h, err := readHoles(db)
	if err != nil {
		return nil, 0, err
	}
	m := &mender{db: db, b: db.NewBatch(), reason: reason, series: make(map[uint32]*mendedSeries), given: h.given,
		facts: newFacts(), sound: math.MaxInt64}
	m.facts.bare = true
	if known, err = m.mend(told); err == nil {
		err = m.b.Commit(pebble.NoSync)
	}
	return known, min(m.latest, m.sound), errors.Join(err, m.b.Close())
}

func (m *mender) mend(told copyState) ([]knownSeries, error) {
	series, err := readAllSeries(m.db)
	if err != nil {
		return nil, err
	}
	for sequence, p := range told.Series {
		m.series[sequence] = &mendedSeries{name: p.Name, row: p.Reach}
	}
	for name, row := range series {
		if s := m.series[row.Sequence]; s == nil || s.row.Position <= row.Position {
			m.series[row.Sequence] = &mendedSeries{name: name, row: row}
		} else {
			s.name, s.row.Last = name, max(s.row.Last, row.Last)
		}
	}
	if err := eachLink(m.db, m.link); err != nil {
		return nil, err
	}
	for _, t := range leadTables { // made again from the entries
		_ = m.b.DeleteRange([]byte{t}, []byte{t + 1}, nil) // memory
	}
	table := func(t byte, fn func(key, value []byte) error) {
		err = errors.Join(err, scan(m.db, []byte{t}, []byte{t + 1}, fn))
	}
	add := func(key, value []byte) error {
		m.facts.row(key, value)
		return nil
	}
	table(tableEntry, m.entry)
	table(tableJournal, add)
	table(tablePart, add)
	table(tableFeed, func(key, value []byte) error {
		if id, _, ok := parseFeed(value); ok && m.facts.of(id).revision > 1 {
			return nil
		}
		return m.b.Delete(key, nil)
	})
	bad := slices.DeleteFunc(m.facts.bad(), func(id uint64) bool { return id == 0 })
	m.facts.look(bad)
	for _, t := range []byte{tableEntry, tableJournal, tablePart} {
		table(t, add)
	}
	if err != nil {
		return nil, err
	}
	return m.note(bad), nil
}

// link follows a series' journal.
func (m *mender) link(key, value []byte, l *link) error {
	sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
	s := m.series[sequence]
	if s == nil {
		s = &mendedSeries{name: fmt.Sprintf("unknown series %d", sequence)}
		m.series[sequence] = s
	}
	lost := m.given[sequence][position]
	if l.Op == opSkip && lost.digest != l.Entry {
		return errors.Join(m.b.Delete(key, nil), m.b.Delete(lostKey(sequence, position), nil))
	}
	if position > s.end.Position+1 {
		s.from = append(s.from, s.end.Position+1)
		s.holes = append(s.holes, lostRow{To: position - 1, Hash: l.Previous, Reason: m.reason})
		if s.end.Position == 0 { // no link of the series is before it
			m.before = l.At
		}
		m.sound = min(m.sound, m.before)
	}
	m.before, s.at = l.At, l.At
	switch l.Op {
	case opAppend:
		s.reach(l.Number)
		s.end.Last = max(s.end.Last, l.Number)
	case opSkip:
		s.reach(lost.Numbers.From)
		s.end.Last = max(s.end.Last, lost.Numbers.To)
	}
	s.end.Sequence, s.end.Position, s.end.Hash = sequence, position, hashLink(key, value)
	return nil
}

// reach records that all numbers before the given number were spent; those without a link belong to the latest hole.
func (s *mendedSeries) reach(number uint64) {
	if number <= s.end.Last+1 || len(s.holes) == 0 {
		return
	}
	s.holes[len(s.holes)-1].Numbers = Span{s.end.Last + 1, number - 1}
	s.end.Last = number - 1
}

// entry adds a record to the facts, and the rows that lead to it to the batch.
func (m *mender) entry(key, value []byte) error {
	e, err := decodeEntry(be.Uint64(key[1:]), value)
	if err != nil {
		return err
	}
	if s := m.series[e.SequenceID]; s == nil || s.end.Position == 0 {
		return m.b.Delete(key, nil) // no link of its series is left
	}
	m.facts.entry(&e, value)
	e.leads(func(lead, to []byte) { set(m.b, lead, to) })
	return nil
}

// note writes the holes and incomplete records. bad are the ids of the incomplete records.
func (m *mender) note(bad []uint64) (known []knownSeries) {
	for _, id := range bad {
		d := m.facts.looked[id]
		if m.facts.of(id).revision == 0 { // parts that belong to no entry
			lower := partKey(id, "")
			_ = m.b.DeleteRange(lower, prefixEnd(lower), nil) // memory
		}
		if s := m.series[d.sequence]; s != nil && s.end.Position > 0 {
			s.partial = append(s.partial, partialRecord{id, d.number, d.code, m.facts.of(id).revision == 0})
			if d.began != 0 {
				m.sound = min(m.sound, d.began)
			}
		}
	}
	for _, sequence := range slices.Sorted(maps.Keys(m.series)) {
		s := m.series[sequence]
		m.latest = max(m.latest, s.at)
		if s.name == "" {
			s.name = fmt.Sprintf("unknown series %d", sequence)
		}
		if s.row.Position == s.end.Position {
			s.reach(s.row.Last + 1) // only changes of older records follow the hole
		}
		if s.row.Position > s.end.Position {
			behind := s.row.Position - s.end.Position
			known = append(known, knownSeries{Name: s.name, Last: max(s.row.Last, s.end.Last), Changes: behind})
			if s.row.Last == 0 { // the head has no numbers: at most one number for each change
				known[len(known)-1].Last = s.end.Last + behind
			}
		}
		if s.end.Position == 0 {
			_ = m.b.Delete(seriesKey(s.name), nil) // memory
			continue
		}
		set(m.b, seriesKey(s.name), s.end.encode())
		for i, hole := range s.holes {
			set(m.b, lostKey(sequence, s.from[i]), hole.encode())
		}
		if s.partial != nil {
			row := lostRow{Partial: s.partial}
			set(m.b, lostKey(sequence, 0), row.encode())
		}
	}
	return known
}
