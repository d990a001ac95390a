package storage

import (
	"errors"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// A Head is the common form for how far the series of a store got, for every medium. Only Relate compares two heads,
// and only Plan decides where a series continues.

// Head is how far each series of a store got, as one medium knows it.
type Head struct {
	Store  [16]byte         // zero: the medium names no store
	Series map[string]Reach // by name
	// Numbers: the medium knows numbers only, like the mark, a status of the box, MH and the archive. It may lag behind
	// the store.
	Numbers bool
	// Slack is how many numbers may have been given after the last number that the medium knows.
	Slack uint64

	// links returns the hashes of this medium's links at the positions of another medium's ends, as far as they can be
	// read.
	links func(ends map[string]Reach) (map[string][32]byte, error)
}

// Reach is how far one series got. It is also the row of a series in the store.
type Reach struct {
	Sequence uint32   // of the journal; Sequence, Position and Hash are 0 in a Head of numbers
	Last     uint64   // the highest number
	Position uint64   // of the last link in the journal
	Hash     [32]byte // of that link
}

// Relation is the result of comparing two Heads.
type Relation int

// The relations of a to b.
const (
	Same     Relation = iota
	Behind            // b continues where a ends
	Ahead             // a continues where b ends
	Diverged          // each has something that the other lacks, or they contradict each other
	Foreign           // they are of different stores
)

// numbersHead returns the head of a medium that knows numbers only.
func numbersHead(store [16]byte, last map[string]uint64, slack uint64) *Head {
	h := &Head{Store: store, Series: make(map[string]Reach), Numbers: true, Slack: slack}
	for name, n := range last {
		h.Series[name] = Reach{Last: n}
	}
	return h
}

// storeHead returns the head of a store.
func storeHead(id [16]byte, r pebble.Reader, series map[string]Reach) *Head {
	return &Head{Store: id, Series: series, links: func(ends map[string]Reach) (map[string][32]byte,
		error) {
		found := make(map[string][32]byte)
		for name, end := range ends {
			key := journalKey(end.Sequence, end.Position)
			value, err := get(r, key)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return nil, err
			}
			found[name] = hashLink(key, value) // in a hole, this hash matches no link
		}
		return found, nil
	}}
}

// Relate compares a with b. It lists the series that go further in b or differ from a, with their ends in a (Here) and
// in b (There). A link that a medium cannot read in its own journal does not prove divergence.
func Relate(a, b *Head) (Relation, []Lead, error) {
	if none := [16]byte{}; a.Store != none && b.Store != none && !sameFamily(a.Store, b.Store) {
		return Foreign, nil, nil
	}
	var behind, ahead, diverged []string
	inA, inB := make(map[string]Reach), make(map[string]Reach) // the ends to look up in a and in b
	union := maps.Clone(b.Series)
	maps.Copy(union, a.Series)
	names := slices.Sorted(maps.Keys(union))
	for _, name := range names {
		x, y := a.Series[name], b.Series[name]
		switch numbers := a.Numbers || b.Numbers; {
		case numbers && x.Last < y.Last, !numbers && x.Position < y.Position:
			behind = append(behind, name)
		case numbers && x.Last > y.Last, !numbers && x.Position > y.Position:
			ahead = append(ahead, name)
		case !numbers && (x.Hash != y.Hash || x.Sequence != y.Sequence):
			diverged = append(diverged, name)
		}
		if a.Numbers || b.Numbers || x.Position == 0 || y.Position == 0 {
			continue
		}
		if x.Position < y.Position {
			inB[name] = x
		} else if x.Position > y.Position {
			inA[name] = y
		}
	}
	for _, side := range []struct {
		of   *Head
		ends map[string]Reach
	}{{a, inA}, {b, inB}} {
		if side.of.links == nil || len(side.ends) == 0 {
			continue
		}
		hashes, err := side.of.links(side.ends)
		if err != nil {
			return Diverged, nil, err
		}
		for name, end := range side.ends {
			if hash, read := hashes[name]; read && hash != end.Hash && !slices.Contains(diverged, name) {
				diverged = append(diverged, name)
			}
		}
	}
	relation := Same
	switch mixed := len(behind) > 0 && len(ahead) > 0; {
	case len(diverged) > 0:
		relation = Diverged
	case mixed && a.Numbers == b.Numbers:
		relation, diverged = Diverged, append(diverged, ahead...)
	case len(behind) > 0 && (!mixed || b.Numbers): // a medium of numbers lags in some series and knows more of others
		relation = Behind
	case len(ahead) > 0:
		relation = Ahead
	}
	var list []Lead
	for _, name := range names {
		x, y := a.Series[name], b.Series[name]
		if slices.Contains(behind, name) || slices.Contains(diverged, name) {
			list = append(list, Lead{Series: name, Here: x.Last, There: y.Last, Changes: y.Position - min(x.Position,
				y.Position)})
		}
	}
	return relation, list, nil
}

// Plan returns the highest number of each series that any head knows, and the slack: how many more numbers may have
// been given. The series continues after known + slack, with a number that was never given. possible lists series that
// may have begun although no medium knows them.
func Plan(possible []string, heads ...*Head) (known map[string]uint64, slack uint64) {
	known = make(map[string]uint64)
	for _, name := range possible {
		known[name] = 0
	}
	for _, h := range heads {
		slack = max(slack, h.Slack)
		for name, reach := range h.Series {
			known[name] = max(known[name], reach.Last)
		}
	}
	return known, slack
}
