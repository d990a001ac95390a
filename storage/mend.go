package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// mender makes a store of what a damaged copy told: it notes what is missing, and takes out what leads nowhere.
type mender struct {
	db      *pebble.DB
	b       *pebble.Batch
	reason  string
	series  map[uint32]*mendedSeries
	records map[uint64]*mendedRecord
}

type mendedSeries struct {
	name    string
	row     seriesRow // as the copy says
	end     seriesRow // as the journal ends
	holes   []holeRow
	partial partialRow
}

type mendedRecord struct {
	sequence uint32
	number   uint64
	links    uint32   // how many
	revision uint32   // of the latest
	entry    [32]byte // its digest then
	parts    uint32   // how many are there
	bad      bool
	there    bool // it has an entry
}

// mend returns the series whose end is missing.
func mend(db *pebble.DB, told copyState, reason string) ([]knownSeries, error) {
	m := &mender{db: db, b: db.NewBatch(), reason: reason, series: make(map[uint32]*mendedSeries),
		records: make(map[uint64]*mendedRecord)}
	known, err := m.mend(told)
	if err == nil {
		err = m.b.Commit(pebble.NoSync)
	}
	return known, errors.Join(err, m.b.Close())
}

func (m *mender) mend(told copyState) ([]knownSeries, error) {
	series, err := readAllSeries(m.db)
	if err != nil {
		return nil, err
	}
	for sequence, p := range told.Series {
		m.series[sequence] = &mendedSeries{name: p.Name, row: seriesRow{sequence, p.Last, p.Position, p.Hash}}
	}
	for name, row := range series {
		if s := m.series[row.Sequence]; s == nil || s.row.Position <= row.Position {
			m.series[row.Sequence] = &mendedSeries{name: name, row: row}
		} else {
			s.name, s.row.Last = name, max(s.row.Last, row.Last)
		}
	}
	table := func(t byte, fn func(key, value []byte) error) {
		if err == nil {
			err = scan(m.db, []byte{t}, []byte{t + 1}, fn)
		}
	}
	err = eachLink(m.db, m.link)
	table(tablePart, m.part)
	for _, t := range leadTables { // made anew, of the entries
		_ = m.b.DeleteRange([]byte{t}, []byte{t + 1}, nil) // memory
	}
	table(tableEntry, m.entry)
	table(tableFeed, func(key, value []byte) error {
		if id, _, ok := parseFeed(value); ok && m.has(id) && m.records[id].revision > 1 {
			return nil
		}
		return m.b.Delete(key, nil)
	})
	if err != nil {
		return nil, err
	}
	return m.note(), nil
}

// link follows a series' journal.
func (m *mender) link(key, value []byte, l *link) error {
	sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
	s := m.series[sequence]
	if s == nil {
		s = &mendedSeries{name: fmt.Sprintf("unknown series %d", sequence)}
		m.series[sequence] = s
	}
	var lost lostRow
	if l.Op == opSkip {
		row, err := get(m.db, lostKey(sequence, position))
		if err == nil {
			lost, err = decodeLost(row)
		}
		if err != nil || sha256.Sum256(row) != l.Entry {
			return errors.Join(m.b.Delete(key, nil), m.b.Delete(lostKey(sequence, position), nil))
		}
	}
	if position > s.end.Position+1 {
		s.holes = append(s.holes, holeRow{From: s.end.Position + 1, To: position - 1, Hash: l.Previous,
			Reason: m.reason})
	}
	switch l.Op {
	case opAppend:
		s.reach(l.Number)
		s.end.Last = max(s.end.Last, l.Number)
	case opSkip:
		s.reach(lost.From)
		s.end.Last = max(s.end.Last, lost.To)
	}
	s.end.Sequence, s.end.Position, s.end.Hash = sequence, position, hashLink(key, value)
	if l.Op == opSkip {
		return nil
	}
	r := m.records[l.ID]
	if r == nil {
		r = &mendedRecord{sequence: sequence, number: l.Number}
		m.records[l.ID] = r
	}
	r.links++
	if l.Revision > r.revision {
		r.revision, r.entry = l.Revision, l.Entry
	}
	for _, p := range l.Parts {
		data, err := get(m.db, partKey(l.ID, p.Name))
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		r.bad = r.bad || err != nil || sha256.Sum256(data) != p.Digest
	}
	return nil
}

// reach says that the numbers before one were spent; those that no link made are in the latest hole.
func (s *mendedSeries) reach(number uint64) {
	if number <= s.end.Last+1 || len(s.holes) == 0 {
		return
	}
	s.holes[len(s.holes)-1].Numbers = Span{s.end.Last + 1, number - 1}
	s.end.Last = number - 1
}

func (m *mender) part(key, _ []byte) error {
	r := m.records[be.Uint64(key[1:])]
	if r == nil {
		r = new(mendedRecord)
		m.records[be.Uint64(key[1:])] = r
	}
	r.parts++
	return nil
}

// entry compares a record with its links and parts, and adds the rows that lead to it.
func (m *mender) entry(key, value []byte) error {
	id := be.Uint64(key[1:])
	e, err := decodeEntry(id, value)
	if err != nil {
		return err
	}
	if s := m.series[e.SequenceID]; s == nil || s.end.Position == 0 {
		return m.b.Delete(key, nil) // of a series of which nothing else is left
	}
	r := m.records[id]
	if r == nil {
		r = new(mendedRecord)
		m.records[id] = r
	}
	r.there, r.sequence, r.number = true, e.SequenceID, e.Number
	r.bad = r.bad || r.links != e.Revision || r.entry != sha256.Sum256(value) || r.parts != e.Parts
	r.revision = e.Revision
	e.leads(func(lead, to []byte) { set(m.b, lead, to) })
	return nil
}

func (m *mender) has(id uint64) bool {
	r := m.records[id]
	return r != nil && r.there
}

// note writes what is missing.
func (m *mender) note() (known []knownSeries) {
	for id, r := range m.records {
		s := m.series[r.sequence]
		switch {
		case s == nil: // parts alone
			m.drop(id)
		case !r.there:
			m.drop(id)
			s.partial = append(s.partial, partialRecord{id, r.number})
		case r.bad:
			s.partial = append(s.partial, partialRecord{id, r.number})
		}
	}
	for _, sequence := range slices.Sorted(maps.Keys(m.series)) {
		s := m.series[sequence]
		if s.name == "" {
			s.name = fmt.Sprintf("unknown series %d", sequence)
		}
		if s.row.Position == s.end.Position {
			s.reach(s.row.Last + 1) // only changes of older records follow the hole
		}
		if s.row.Position > s.end.Position {
			behind := s.row.Position - s.end.Position
			known = append(known, knownSeries{Name: s.name, Last: max(s.row.Last, s.end.Last), Changes: behind})
			if s.row.Last == 0 { // of a head without numbers: no more than there are changes
				known[len(known)-1].Last = s.end.Last + behind
			}
		}
		if s.end.Position == 0 {
			_ = m.b.Delete(seriesKey(s.name), nil) // memory
			continue
		}
		set(m.b, seriesKey(s.name), s.end.encode())
		for _, g := range s.holes {
			set(m.b, lostKey(sequence, g.From), g.encode())
		}
		if s.partial != nil {
			slices.SortFunc(s.partial, func(a, b partialRecord) int { return int(a.ID) - int(b.ID) })
			set(m.b, lostKey(sequence, 0), s.partial.encode())
		}
	}
	return known
}

// drop takes the parts of a record out that has no entry.
func (m *mender) drop(id uint64) {
	lower := partKey(id, "")
	_ = m.b.DeleteRange(lower, prefixEnd(lower), nil) // memory
}
