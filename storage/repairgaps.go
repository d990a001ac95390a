package storage

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// mender completes a store made from damaged media: it notes what is missing, and removes rows without a record.
type mender struct {
	db     *pebble.DB
	b      *pebble.Batch
	reason string
	series map[uint32]*mendedSeries
	lost   *holes
	facts  *facts

	latest   int64  // time of the latest change; all times are Unix ns
	sound    int64  // time of the last change before the first missing change
	before   int64  // time of the previous link, of any series
	last     uint64 // the highest id of a record
	appended int64  // when the record with the highest id was appended
	furthest int64  // the latest time at which any record was appended
}

type mendedSeries struct {
	name    string
	row     Reach    // the row according to the media
	open    bool     // row.Last is not known: the copy that has the row names no number
	end     Reach    // the row according to the end of the journal
	at      int64    // of the last link, Unix ns
	from    []uint64 // positions at which its holes begin
	holes   []lostRow
	partial []partialRecord
}

// mend completes a store (see mender). It returns the series whose end is missing, and the time (Unix ns) until which
// nothing is missing: the time of the last change before the first missing change, or of the latest change.
func mend(db *pebble.DB, told copyState, reason string) (known []Lead, until int64, err error) {
	h, err := readHoles(db)
	if err != nil {
		return nil, 0, err
	}
	m := &mender{db: db, b: db.NewBatch(), reason: reason, series: make(map[uint32]*mendedSeries), lost: h,
		facts: newFacts(), sound: math.MaxInt64}
	m.facts.bare = true
	if known, err = m.mend(told); err == nil {
		err = m.b.Commit(pebble.NoSync)
	}
	if m.furthest-m.appended > int64(time.Minute) { // the clock was ahead, and was set back before the last record
		m.latest = m.appended
	}
	return known, min(m.latest, m.sound), errors.Join(err, m.b.Close())
}

func (m *mender) mend(told copyState) ([]Lead, error) {
	series, err := readAllSeries(m.db)
	if err != nil {
		return nil, err
	}
	for sequence, p := range told.Series {
		m.series[sequence] = &mendedSeries{name: p.Name, row: p.Reach, open: p.Last == 0}
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
		_ = m.b.DeleteRange([]byte{t}, []byte{t + 1}, nil) // cannot fail: the batch is in memory
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

// link checks the next link of a series' journal, and notes the hole before it, if any.
func (m *mender) link(key, value []byte, l *link) error {
	sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
	s := m.series[sequence] // assembly.name has named every series that has a link
	lost := m.lost.row(sequence, position)
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
		if m.furthest = max(m.furthest, l.At); l.ID > m.last {
			m.last, m.appended = l.ID, l.At
		}
		s.reach(l.Number)
		s.end.Last = max(s.end.Last, l.Number)
	case opSkip:
		s.reach(lost.Numbers.From)
		s.end.Last = max(s.end.Last, lost.Numbers.To)
	}
	s.end.Sequence, s.end.Position, s.end.Hash = sequence, position, hashLink(key, value)
	return nil
}

// reach adds to the latest hole the numbers that have no link: those after the series' last number and before the given
// number.
func (s *mendedSeries) reach(number uint64) {
	if number <= s.end.Last+1 || len(s.holes) == 0 {
		return
	}
	s.holes[len(s.holes)-1].Numbers = Span{s.end.Last + 1, number - 1}
	s.end.Last = number - 1
}

// entry adds a record to the facts, and to the batch the rows that lead to it.
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

// note writes the holes of each series, and the incomplete records, whose ids are in bad. It returns the series whose
// rows go further than their journals.
func (m *mender) note(bad []uint64) (known []Lead) {
	for _, id := range bad {
		d := m.facts.looked[id]
		if m.facts.of(id).revision == 0 { // parts that belong to no entry
			_ = m.b.DeleteRange(partKey(id, ""), partKey(id+1, ""), nil) // cannot fail: in memory
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
		if s.row.Position == s.end.Position {
			s.reach(s.row.Last + 1) // only changes of older records follow the hole
		}
		if s.row.Position > s.end.Position {
			behind := s.row.Position - s.end.Position
			there := max(s.row.Last, s.end.Last)
			if s.open { // at most one number for each change
				there = max(there, s.end.Last+behind)
			}
			known = append(known, Lead{Series: s.name, There: there, Changes: behind, End: s.row})
		}
		if s.end.Position == 0 {
			_ = m.b.Delete(seriesKey(s.name), nil) // cannot fail: in memory
			continue
		}
		set(m.b, seriesKey(s.name), s.end.encode())
		for i, hole := range s.holes {
			set(m.b, lostKey(sequence, s.from[i]), hole.encode())
		}
		if s.partial != nil {
			set(m.b, lostKey(sequence, 0), (&lostRow{Partial: s.partial}).encode())
		}
	}
	return known
}

// Missing lists what no source had of a series. The series continues after the highest number that any source names, so
// no number is used twice.
type Missing struct {
	Series  string
	Numbers []Span // numbers without any record
	Partial []Span // numbers whose record lacks parts or changes; a span is one number
	Changes uint64 // lost changes, including those of the numbers above
}

// Span is a range of numbers, both ends included.
type Span struct{ From, To uint64 }

func (m Missing) String() string {
	var lost []string
	for _, n := range m.Numbers {
		if n.From == n.To {
			lost = append(lost, fmt.Sprintf("number %d is missing", n.From))
			continue
		}
		lost = append(lost, fmt.Sprintf("numbers %d to %d are missing", n.From, n.To))
	}
	for _, n := range m.Partial {
		lost = append(lost, fmt.Sprintf("number %d is not whole", n.From))
	}
	if m.Changes > 0 {
		lost = append(lost, fmt.Sprintf("lost changes: %d", m.Changes))
	}
	return m.Series + ": " + strings.Join(lost, ", ")
}

// lostRow, in the table of lost numbers, describes what a series lacks. It is JSON, of one of three kinds: numbers that
// the opSkip link at the row's position gave up (the link's Entry is the row's digest); a hole, where links are missing
// from the row's position on; or, at position 0, the incomplete records.
type lostRow struct {
	Numbers Span            `json:"numbers,omitzero"` // numbers without a record; a hole may have no numbers
	Reason  string          `json:"reason,omitempty"`
	To      uint64          `json:"to,omitempty"`  // the last position of a hole
	Hash    [32]byte        `json:"hash,omitzero"` // of the link at position To
	Partial []partialRecord `json:"partial,omitempty"`

	sequence uint32 // sequence, position: the row's key
	position uint64
	digest   [32]byte // of the row's bytes in the table
}

// partialRecord is a record with missing parts or changes.
type partialRecord struct {
	ID, Number uint64
	Code       Code // zero: not known
	Gone       bool // the record itself is missing
}

func (r *lostRow) encode() []byte {
	b, _ := json.Marshal(r) // cannot fail: JSON can encode every field
	return b
}

// holes holds all rows of the table of lost numbers (tableLost), in order. In most stores it is empty.
type holes struct {
	rows    []lostRow
	partial map[uint64]bool // records that are not whole, by id
}

// readHoles returns the readable rows even with an error.
func readHoles(r pebble.Reader) (*holes, error) {
	g := &holes{partial: make(map[uint64]bool)}
	var damage error
	err := scan(r, []byte{tableLost}, []byte{tableLost + 1}, func(key, value []byte) error {
		row := lostRow{digest: sha256.Sum256(value)}
		if len(key) != 13 || json.Unmarshal(value, &row) != nil {
			damage = fmt.Errorf("reading lost numbers: %w", ErrCorrupt)
			return nil
		}
		row.sequence, row.position = be.Uint32(key[1:]), be.Uint64(key[5:])
		g.rows = append(g.rows, row)
		for _, p := range row.Partial {
			g.partial[p.ID] = true
		}
		return nil
	})
	return g, errors.Join(err, damage)
}

// row returns the row at a position, or an empty row.
func (h *holes) row(sequence uint32, position uint64) lostRow {
	i, found := slices.BinarySearchFunc(h.rows, position, func(r lostRow, position uint64) int {
		return cmp.Or(cmp.Compare(r.sequence, sequence), cmp.Compare(r.position, position))
	})
	if !found {
		return lostRow{}
	}
	return h.rows[i]
}

// has reports whether a number of a series was given up.
func (h *holes) has(sequence uint32, number uint64) bool {
	return slices.ContainsFunc(h.rows, func(r lostRow) bool {
		return r.sequence == sequence && r.Numbers.From <= number && number <= r.Numbers.To
	})
}

// unlinked reports whether links are missing.
func (h *holes) unlinked() bool {
	return slices.ContainsFunc(h.rows, func(r lostRow) bool { return r.To > 0 })
}

func (h *holes) none() bool { return !h.unlinked() && len(h.partial) == 0 }

// numbers returns the numbers of a series' incomplete records.
func (h *holes) numbers(sequence uint32) (list []Span) {
	for _, p := range h.row(sequence, 0).Partial {
		list = append(list, Span{p.Number, p.Number})
	}
	slices.SortFunc(list, Span.compare)
	return list
}

// lacking lists the incomplete records with known codes, at most MaxProblems.
func (h *holes) lacking(series map[string]Reach) (list []Affected) {
	for _, name := range slices.Sorted(maps.Keys(series)) {
		for _, p := range h.row(series[name].Sequence, 0).Partial {
			if p.Code == (Code{}) || len(list) >= MaxProblems {
				continue
			}
			what := "some of its parts or changes"
			if p.Gone {
				what = "the record"
			}
			list = append(list, Affected{Series: name, From: p.Number, To: p.Number, Code: p.Code, What: what})
		}
	}
	return list
}

// missing lists what each series lacks. known has, for each series whose end is lost, the end that a medium names.
func (g *holes) missing(series map[string]Reach, known []Lead) (list []Missing) {
	ends, all := make(map[string]Lead), maps.Clone(series)
	for _, k := range known {
		ends[k.Series], all[k.Series] = k, series[k.Series]
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		row := all[name]
		m := Missing{Series: name, Partial: g.numbers(row.Sequence)}
		for _, hole := range g.rows {
			if hole.sequence == row.Sequence && hole.To > 0 {
				m.Changes += hole.To - hole.position + 1
				m.Numbers = append(m.Numbers, hole.Numbers.without(m.Partial)...)
			}
		}
		if k, ok := ends[name]; ok {
			m.Changes += k.Changes
			m.Numbers = append(m.Numbers, Span{row.Last + 1, k.There}.without(m.Partial)...)
		}
		if m.Changes > 0 || len(m.Partial) > 0 {
			list = append(list, m)
		}
	}
	return list
}

func (n Span) compare(o Span) int { return cmp.Compare(n.From, o.From) }

// without returns the numbers of n that are not in a sorted list (out).
func (n Span) without(out []Span) (rest []Span) {
	if n.From == 0 {
		return nil
	}
	for _, o := range out {
		if o.To < n.From || o.From > n.To {
			continue
		}
		if o.From > n.From {
			rest = append(rest, Span{n.From, o.From - 1})
		}
		n.From = o.To + 1
	}
	if n.From <= n.To {
		rest = append(rest, n)
	}
	return rest
}
