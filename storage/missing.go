package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// Missing is what no source had of a series. The series continues after the highest number that a source names.
// Therefore no number is used twice.
type Missing struct {
	Series  string
	Numbers []Span   // of which nothing is there
	Partial []uint64 // numbers whose record lacks some of its parts or of its changes
	Changes uint64   // changes that are lost, those that made the numbers above included
}

// Span are numbers from one to another, both included.
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

// holeRow says, in the table of lost numbers, that links of a series' journal are missing from its key's position on:
//
//	version 2 · to u64, position · hash [32] of that link · numbers from u64, to u64 (0: none) · reason
type holeRow struct {
	From, To uint64 // positions
	Hash     [32]byte
	Numbers  Span
	Reason   string
}

// partialRow says, at position 0, which records of a series are not whole: version 3 · n × (id u64, number u64).
type partialRow []partialRecord

type partialRecord struct{ ID, Number uint64 }

const (
	holeVersion    = 2
	partialVersion = 3
)

func (g *holeRow) encode() []byte {
	b := append(be.AppendUint64([]byte{holeVersion}, g.To), g.Hash[:]...)
	return append(be.AppendUint64(be.AppendUint64(b, g.Numbers.From), g.Numbers.To), g.Reason...)
}

func decodeHole(from uint64, b []byte) (g holeRow, err error) {
	c := cursor{b: b}
	c.bad = c.u8() != holeVersion
	g.From, g.To = from, c.u64()
	copy(g.Hash[:], c.take(32))
	g.Numbers = Span{c.u64(), c.u64()}
	g.Reason = string(c.b)
	c.b = nil
	return g, c.end("hole")
}

func (p partialRow) encode() []byte {
	b := []byte{partialVersion}
	for _, r := range p {
		b = be.AppendUint64(be.AppendUint64(b, r.ID), r.Number)
	}
	return b
}

func decodePartial(b []byte) (p partialRow, err error) {
	c := cursor{b: b}
	c.bad = c.u8() != partialVersion
	for len(c.b) > 0 && !c.bad {
		p = append(p, partialRecord{c.u64(), c.u64()})
	}
	return p, c.end("partial records")
}

// holes are all rows of both kinds in a store; none in one that was never rebuilt from a damaged copy.
type holes struct {
	at      map[uint32]map[uint64]holeRow // by sequence and first position
	partial map[uint64]bool               // records, by id
	numbers map[uint32][]uint64           // of these, by sequence
}

func readHoles(r pebble.Reader) (*holes, error) {
	g := &holes{at: make(map[uint32]map[uint64]holeRow), partial: make(map[uint64]bool),
		numbers: make(map[uint32][]uint64)}
	err := scan(r, []byte{tableLost}, []byte{tableLost + 1}, func(key, value []byte) error {
		if len(key) != 13 || len(value) == 0 || value[0] == rowVersion {
			return nil
		}
		sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
		if position == 0 {
			list, err := decodePartial(value)
			for _, p := range list {
				g.partial[p.ID] = true
				g.numbers[sequence] = append(g.numbers[sequence], p.Number)
			}
			return err
		}
		row, err := decodeHole(position, value)
		if g.at[sequence] == nil {
			g.at[sequence] = make(map[uint64]holeRow)
		}
		g.at[sequence][position] = row
		return err
	})
	return g, err
}

// known tells whether a row of the table is of these kinds.
func (h *holes) known(sequence uint32, position uint64) bool {
	_, ok := h.at[sequence][position]
	return ok || position == 0 && h.numbers[sequence] != nil
}

// missing tells it by series; known is how far the copy says that series got whose end is lost.
func (g *holes) missing(series map[string]seriesRow, known []knownSeries) (list []Missing) {
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
		m := Missing{Series: name, Partial: slices.Sorted(slices.Values(g.numbers[row.Sequence]))}
		for _, from := range slices.Sorted(maps.Keys(g.at[row.Sequence])) {
			hole := g.at[row.Sequence][from]
			m.Changes += hole.To - hole.From + 1
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

// without returns the rest of the numbers when some, in order, are taken out.
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

// knownSeries is a series whose end a copy lacks: its last number, and the changes behind the end that is there.
type knownSeries struct {
	Name          string
	Last, Changes uint64
}
