package storage

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// Missing lists what is missing in a series because no source had it. The series continues after the highest number
// that a source names. Therefore no number is used twice.
type Missing struct {
	Series  string
	Numbers []Span   // numbers without any record
	Partial []uint64 // numbers whose record lacks some parts or changes
	Changes uint64   // lost changes, including those of the numbers above
}

// Span is a range of numbers, both ends included.
type Span struct{ From, To uint64 }

func (m Missing) String() string {
	var lost, words []string
	for _, n := range m.Numbers {
		if n.From == n.To {
			lost = append(lost, fmt.Sprintf("number %d is missing", n.From))
			continue
		}
		lost = append(lost, fmt.Sprintf("numbers %d to %d are missing", n.From, n.To))
	}
	for _, n := range m.Partial {
		lost = append(lost, fmt.Sprintf("number %d is not whole", n))
	}
	if len(lost) > 0 {
		words = append(words, strings.Join(lost, ", "))
	}
	if m.Changes == 1 {
		words = append(words, "1 change lost")
	} else if m.Changes > 0 {
		words = append(words, fmt.Sprintf("%d changes lost", m.Changes))
	}
	return m.Series + ": " + strings.Join(words, "; ")
}

// lostRow, in the table of lost numbers, describes what a series lacks. It is JSON, of one of three kinds: numbers that
// the opSkip link at the row's position gave up (the link's Entry is the digest of the row); a hole, where links are
// missing from the row's position on; or, at position 0, the incomplete records.
type lostRow struct {
	Numbers Span     `json:"numbers,omitzero"` // numbers without a record; a hole may have no numbers
	Reason  string   `json:"reason,omitempty"`
	To      uint64   `json:"to,omitempty"`  // the last position of a hole
	Hash    [32]byte `json:"hash,omitzero"` // of the link at position To

	Partial []partialRecord `json:"partial,omitempty"`

	digest [32]byte // of the row's bytes in the table
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

// holes are all rows of the table; most stores have no such rows.
type holes struct {
	at      map[uint32]map[uint64]lostRow // the holes, by sequence and first position
	given   map[uint32]map[uint64]lostRow // numbers that were given up, by sequence and position
	partial map[uint64]bool               // records that are not whole, by id
	records map[uint32][]partialRecord    // the same, by sequence
}

// readHoles also returns the readable rows when it returns an error.
func readHoles(r pebble.Reader) (*holes, error) {
	g := &holes{at: make(map[uint32]map[uint64]lostRow), given: make(map[uint32]map[uint64]lostRow),
		partial: make(map[uint64]bool), records: make(map[uint32][]partialRecord)}
	var damage error
	err := scan(r, []byte{tableLost}, []byte{tableLost + 1}, func(key, value []byte) error {
		row := lostRow{digest: sha256.Sum256(value)}
		if len(key) != 13 || json.Unmarshal(value, &row) != nil {
			damage = fmt.Errorf("reading lost numbers: %w", ErrCorrupt)
			return nil
		}
		sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
		for _, p := range row.Partial {
			g.partial[p.ID] = true
			g.records[sequence] = append(g.records[sequence], p)
		}
		kind := g.given
		if row.To > 0 {
			kind = g.at
		}
		if kind[sequence] == nil {
			kind[sequence] = make(map[uint64]lostRow)
		}
		if position > 0 {
			kind[sequence][position] = row
		}
		return nil
	})
	return g, errors.Join(err, damage)
}

// none reports whether nothing is missing.
func (h *holes) none() bool { return len(h.at) == 0 && len(h.partial) == 0 }

// known reports whether a row of the table is a hole or a list of incomplete records.
func (h *holes) known(sequence uint32, position uint64) bool {
	_, ok := h.at[sequence][position]
	return ok || position == 0 && h.records[sequence] != nil
}

// numbers returns the numbers of a series' incomplete records.
func (h *holes) numbers(sequence uint32) (list []uint64) {
	for _, p := range h.records[sequence] {
		list = append(list, p.Number)
	}
	slices.Sort(list)
	return list
}

// lacking lists the incomplete records with known codes, at most MaxProblems.
func (h *holes) lacking(series map[string]Reach) (list []Affected) {
	for _, name := range slices.Sorted(maps.Keys(series)) {
		for _, p := range h.records[series[name].Sequence] {
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

// missing lists the holes by series. known has, for each series whose end is lost, the end that the copy names.
func (g *holes) missing(series map[string]Reach, known []knownSeries) (list []Missing) {
	ends := make(map[string]knownSeries)
	for _, k := range known {
		ends[k.Name] = k
	}
	names := slices.Sorted(maps.Keys(series))
	for _, k := range known {
		if _, ok := series[k.Name]; !ok {
			names = append(names, k.Name)
		}
	}
	for _, name := range names {
		row := series[name]
		m := Missing{Series: name, Partial: g.numbers(row.Sequence)}
		for _, from := range slices.Sorted(maps.Keys(g.at[row.Sequence])) {
			hole := g.at[row.Sequence][from]
			m.Changes += hole.To - from + 1
			m.Numbers = append(m.Numbers, hole.Numbers.without(m.Partial)...)
		}
		if k, ok := ends[name]; ok {
			m.Changes += k.Changes
			m.Numbers = append(m.Numbers, Span{row.Last + 1, k.Last}.without(m.Partial)...)
		}
		if m.Changes > 0 || len(m.Partial) > 0 {
			list = append(list, m)
		}
	}
	return list
}

// without returns the numbers of n without those in out, which is sorted.
func (n Span) without(out []uint64) (rest []Span) {
	if n.From == 0 {
		return nil
	}
	for _, o := range out {
		if o >= n.From && o <= n.To {
			if o > n.From {
				rest = append(rest, Span{n.From, o - 1})
			}
			n.From = o + 1
		}
	}
	if n.From <= n.To {
		rest = append(rest, n)
	}
	return rest
}

// knownSeries is a series whose end a copy lacks: its last number, and how many changes follow the copy's end.
type knownSeries struct {
	Name          string
	Last, Changes uint64
}
