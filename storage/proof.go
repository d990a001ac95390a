package storage

import (
	"cmp"
	"crypto/sha256"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// Kinds of statements that rows make about a record. A statement is a hash of 8 bytes, so two rows are compared without
// a look-up. The comments up to saysLost name the two rows that make the same statement.
const (
	saysFirst   byte       = iota // an entry and its first link
	saysLatest                    // an entry and its latest link
	saysChanges                   // an entry and each of its links
	saysPart                      // a link and a part
	saysParts                     // an entry and each of its parts
	saysLead                      // an entry and a row that leads to it
	saysLost                      // a link and the row of its given-up numbers
	provesEntry                   // a link: the record has these bytes at this revision
	namesEntry                    // a link: the record has this revision
	namesPart                     // a link: the record has this part
	sayings     = iota - 3        // the number of kinds that facts uses
)

var sayingSeed = maphash.MakeSeed()

// saying returns the hash of a statement about a record. Different statements are always hashed from different bytes.
func saying(what byte, id uint64, rest ...[]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(sayingSeed)
	var n [8]byte
	_ = h.WriteByte(what) // never fails
	be.PutUint64(n[:], id)
	_, _ = h.Write(n[:])
	for _, r := range rest {
		be.PutUint64(n[:], uint64(len(r)))
		_, _ = h.Write(n[:])
		_, _ = h.Write(r)
	}
	return h.Sum64()
}

func numbers(list ...uint64) []byte {
	b := make([]byte, 0, 32)
	for _, n := range list {
		b = be.AppendUint64(b, n)
	}
	return b
}

// facts checks that the rows of each record agree. Two rows make each statement: one adds it to the record's sum, the
// other subtracts it. If the rows agree, the sum is 0. Memory grows by 16 bytes a record. Entries must come before the
// journal. Record 0 stands for the numbers that were given up.
type facts struct {
	chunks  map[uint64]*[4096]fact // by id / 4096
	partial map[uint64]bool        // records known to be incomplete: only their leads are added
	bare    bool                   // omit the rows that lead to a record
	looked  map[uint64]*detail     // the records of the second walk; nil: the first walk
}

type fact struct {
	sum      uint64
	revision uint32 // of the record's entry; 0: it has no entry
}

// detail is the result of a second walk for one record.
type detail struct {
	sums     [sayings]uint64
	sequence uint32 // of its series; 0: the record has neither an entry nor a link
	number   uint64
	code     Code
	began    int64 // the time of the first existing change, Unix ns
}

func newFacts() *facts { return &facts{chunks: make(map[uint64]*[4096]fact)} }

func (f *facts) of(id uint64) *fact {
	chunk := f.chunks[id/4096]
	if chunk == nil {
		chunk = new([4096]fact)
		f.chunks[id/4096] = chunk
	}
	return &chunk[id%4096]
}

// add adds a statement to the record's sum as often as times says; below 0, it subtracts. The sum wraps around.
func (f *facts) add(times int, what byte, id uint64, rest ...[]byte) {
	n := uint64(times) * saying(what, id, rest...)
	if f.looked == nil {
		f.of(id).sum += n
	} else if d := f.looked[id]; d != nil {
		d.sums[what] += n
	}
}

func (f *facts) bad() (ids []uint64) {
	for _, n := range slices.Sorted(maps.Keys(f.chunks)) {
		for i := range f.chunks[n] {
			if f.chunks[n][i].sum != 0 {
				ids = append(ids, n*4096+uint64(i))
			}
		}
	}
	return ids
}

// look prepares the second walk, which finds out which rows of these records do not agree.
func (f *facts) look(ids []uint64) {
	f.looked = make(map[uint64]*detail)
	for _, id := range ids {
		f.looked[id] = new(detail)
	}
}

// mismatch names a record's rows that do not agree.
func (d *detail) mismatch() string {
	var words []string
	for _, w := range []struct {
		of   []byte
		what string
	}{
		{[]byte{saysFirst, saysLatest, saysChanges}, "the record"},
		{[]byte{saysPart, saysParts}, "a part of it"},
		{[]byte{saysLead}, "a row that leads to it"},
	} {
		if slices.ContainsFunc(w.of, func(what byte) bool { return d.sums[what] != 0 }) {
			words = append(words, w.what)
		}
	}
	return strings.Join(words, ", ")
}

// recordTables are the tables whose rows describe records, entries first.
var recordTables = append([]byte{tableEntry, tableJournal, tablePart, tableLost}, leadTables...)

// row adds a row of recordTables to the sums; false if the row cannot be read.
func (f *facts) row(key, value []byte) bool {
	switch {
	case key[0] == tableEntry && len(key) == 9:
		e, err := decodeEntry(be.Uint64(key[1:]), value)
		if err == nil {
			f.entry(&e, value)
		}
		return err == nil && e.Revision > 0
	case key[0] == tableJournal && len(key) == 13:
		l, err := decodeLink(value)
		return err == nil && f.link(key, &l)
	case key[0] == tablePart && len(key) > 9:
		if id := be.Uint64(key[1:]); !f.partial[id] {
			sum := sha256.Sum256(value)
			f.add(-1, saysPart, id, key[9:], sum[:])
			f.add(1, saysParts, id)
		}
		return true
	case key[0] == tableLost && len(key) == 13:
		sum := sha256.Sum256(value)
		f.add(-1, saysLost, 0, key[1:], sum[:])
		return true
	case slices.Contains(leadTables, key[0]):
		id, ok := leadsTo(key, value)
		if ok {
			f.add(-1, saysLead, id, key, value)
		}
		return ok
	}
	return false
}

func (f *facts) entry(e *entryRow, value []byte) {
	if f.looked == nil {
		f.of(e.ID).revision = e.Revision
	}
	if d := f.looked[e.ID]; d != nil {
		d.sequence, d.number, d.code = e.SequenceID, e.Number, e.Code
	}
	if !f.bare {
		e.leads(func(key, value []byte) { f.add(1, saysLead, e.ID, key, value) })
	}
	if f.partial[e.ID] {
		return
	}
	sum := sha256.Sum256(value)
	f.add(-1, saysFirst, e.ID, numbers(uint64(e.SequenceID), e.Appended, e.Number), e.Code[:])
	f.add(-1, saysLatest, e.ID, numbers(uint64(e.SequenceID), e.Changed, e.Number, uint64(e.State)), e.Code[:], sum[:])
	f.add(-int(e.Revision), saysChanges, e.ID)
	f.add(-int(e.Parts), saysParts, e.ID)
}

// link adds a link to the sums; false for an unknown kind of link.
func (f *facts) link(key []byte, l *link) bool {
	if l.Op == opSkip {
		f.add(1, saysLost, 0, key[1:], l.Entry[:])
		return true
	}
	sequence, position := uint64(be.Uint32(key[1:])), be.Uint64(key[5:])
	if d := f.looked[l.ID]; d != nil {
		if d.sequence == 0 {
			d.sequence, d.number, d.code = uint32(sequence), l.Number, l.Code
		}
		d.began = cmp.Or(d.began, l.At)
	}
	if !f.partial[l.ID] {
		f.add(1, saysChanges, l.ID)
		if l.Op == opAppend {
			f.add(1, saysFirst, l.ID, numbers(sequence, position, l.Number), l.Code[:])
		}
		if l.Revision == f.of(l.ID).revision {
			f.add(1, saysLatest, l.ID, numbers(sequence, position, l.Number, uint64(l.State)), l.Code[:], l.Entry[:])
		}
		for _, p := range l.Parts {
			f.add(1, saysPart, l.ID, []byte(p.Name), p.Digest[:])
		}
	}
	return l.Op == opAppend && l.Revision == 1 || l.Op == opAdvance && l.Revision > 1
}

// proof has the journal's statement about the bytes of each row that a change wrote. Memory grows by some 30 bytes for
// each change and for each part.
type proof struct{ said map[uint64]struct{} }

func (p *proof) say(what byte, id uint64, rest ...[]byte) {
	p.said[saying(what, id, rest...)] = struct{}{}
}

func (p *proof) has(what byte, id uint64, rest ...[]byte) bool {
	_, ok := p.said[saying(what, id, rest...)]
	return ok
}

func (p *proof) link(key []byte, l *link) {
	if l.Op == opSkip {
		p.say(saysLost, 0, key[1:], l.Entry[:])
		return
	}
	p.say(provesEntry, l.ID, numbers(uint64(l.Revision)), l.Entry[:])
	p.say(namesEntry, l.ID, numbers(uint64(l.Revision)))
	for _, d := range l.Parts {
		p.say(saysPart, l.ID, []byte(d.Name), d.Digest[:])
		p.say(namesPart, l.ID, []byte(d.Name))
	}
}

type verdict int

const (
	unproven  verdict = iota // the journal has no statement: the link is missing
	proven                   // the row has the journal's bytes
	disproven                // the row has other bytes
)

func (p *proof) entry(e *entryRow, value []byte) verdict {
	return p.verdict(provesEntry, namesEntry, e.ID, numbers(uint64(e.Revision)), value)
}

func (p *proof) part(id uint64, name string, value []byte) verdict {
	return p.verdict(saysPart, namesPart, id, []byte(name), value)
}

func (p *proof) lost(key, value []byte) bool {
	sum := sha256.Sum256(value)
	return p.has(saysLost, 0, key[1:], sum[:])
}

func (p *proof) verdict(proves, names byte, id uint64, name, value []byte) verdict {
	sum := sha256.Sum256(value)
	switch {
	case p.has(proves, id, name, sum[:]):
		return proven
	case p.has(names, id, name):
		return disproven
	}
	return unproven
}
