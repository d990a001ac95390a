package storage

import (
	"crypto/sha256"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// proof is what a journal says of the rows that its changes made: which bytes these have. Memory grows by some 30 bytes a
// change and part.
type proof struct{ said map[uint64]struct{} }

func newProof() *proof { return &proof{make(map[uint64]struct{})} }

// What a link says; two different things never have the same bytes.
const (
	provesEntry byte = iota // these bytes are the record at this revision
	namesEntry              // there was such a revision
	provesPart
	namesPart
	provesLost
)

func (p *proof) key(what byte, id uint64, rest ...[]byte) uint64 {
	b := be.AppendUint64([]byte{what}, id)
	for _, r := range rest {
		b = append(be.AppendUint32(b, uint32(len(r))), r...)
	}
	sum := sha256.Sum256(b)
	return be.Uint64(sum[:])
}

func (p *proof) say(what byte, id uint64, rest ...[]byte) {
	p.said[p.key(what, id, rest...)] = struct{}{}
}

func (p *proof) has(what byte, id uint64, rest ...[]byte) bool {
	_, ok := p.said[p.key(what, id, rest...)]
	return ok
}

func revisionBytes(revision uint32) []byte { return be.AppendUint32(nil, revision) }

// link takes in what one link says.
func (p *proof) link(key []byte, l *link) {
	if l.Op == opSkip {
		p.say(provesLost, be.Uint64(key[5:]), key[1:5], l.Entry[:])
		return
	}
	p.say(provesEntry, l.ID, revisionBytes(l.Revision), l.Entry[:])
	p.say(namesEntry, l.ID, revisionBytes(l.Revision))
	for _, d := range l.Parts {
		p.say(provesPart, l.ID, []byte(d.Name), d.Digest[:])
		p.say(namesPart, l.ID, []byte(d.Name))
	}
}

// verdict is what the journal says of a row.
type verdict int

const (
	unproven  verdict = iota // the journal is silent: its link is missing
	proven                   // these are the bytes
	disproven                // it says others
)

func (p *proof) entry(e *entryRow, value []byte) verdict {
	sum := sha256.Sum256(value)
	return p.verdict(provesEntry, namesEntry, e.ID, revisionBytes(e.Revision), sum[:])
}

func (p *proof) part(id uint64, name string, value []byte) verdict {
	sum := sha256.Sum256(value)
	return p.verdict(provesPart, namesPart, id, []byte(name), sum[:])
}

func (p *proof) lost(key, value []byte) bool {
	sum := sha256.Sum256(value)
	return p.has(provesLost, be.Uint64(key[5:]), key[1:5], sum[:])
}

func (p *proof) verdict(proves, names byte, id uint64, name, sum []byte) verdict {
	switch {
	case p.has(proves, id, name, sum):
		return proven
	case p.has(names, id, name):
		return disproven
	}
	return unproven
}

// setCounters writes the counters that a link left, unless a later change is there already.
func setCounters(db *pebble.DB, l *link) error {
	for _, v := range l.Counters {
		row := be.AppendUint64(be.AppendUint64(nil, uint64(v.Value)), v.Revision)
		if err := setCounter(db, counterKey(v.Origin, v.Line), row); err != nil {
			return err
		}
	}
	return nil
}

func setCounter(db *pebble.DB, key, row []byte) error {
	old, err := get(db, key)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	case err == nil && len(old) == counterSize && be.Uint64(old[8:]) >= be.Uint64(row[8:]):
		return nil
	}
	return db.Set(key, row, pebble.NoSync)
}
