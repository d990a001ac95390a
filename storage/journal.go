package storage

import (
	"crypto/sha256"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// link is one change of one record, as the journal of its series keeps it:
//
//	version u8 · previous [32] · op u8 · time i64 (Unix ns) · id u64 · code [16] · number u64 · from u8 · state u8 ·
//	revision u32 · entry [32] · parts u16 × (len u8, name, digest [32]) · counters u16 ×
//	(origin [16], line u32, value i64, revision u64)
//
// Digests are SHA-256. A link's hash covers its key (sequence and position) and its bytes. The next link contains this
// hash as previous; the series row contains the hash of the last link. To alter, remove or insert a change, one must
// rewrite all later links and the series row.
type link struct {
	Previous    [32]byte
	Op          byte
	At          int64
	ID          uint64
	Code        Code
	Number      uint64
	From, State State
	Revision    uint32
	Entry       [32]byte // of the entry row as this change wrote it
	Parts       []partDigest
	Counters    []count
}

type partDigest struct {
	Name   string
	Digest [32]byte
}

const (
	opAppend  byte = 1
	opAdvance byte = 2
	opSkip    byte = 3 // no record: Number is the series' new last number, Entry is the digest of the lost row
)

func (l *link) encode() []byte {
	b := make([]byte, 0, 130+len(l.Parts)*48+len(l.Counters)*36)
	b = append(append(b, rowVersion), l.Previous[:]...)
	b = be.AppendUint64(append(b, l.Op), uint64(l.At))
	b = append(be.AppendUint64(b, l.ID), l.Code[:]...)
	b = append(be.AppendUint64(b, l.Number), byte(l.From), byte(l.State))
	b = append(be.AppendUint32(b, l.Revision), l.Entry[:]...)
	b = be.AppendUint16(b, uint16(len(l.Parts)))
	for _, p := range l.Parts {
		b = append(append(b, byte(len(p.Name))), p.Name...)
		b = append(b, p.Digest[:]...)
	}
	b = be.AppendUint16(b, uint16(len(l.Counters)))
	for _, c := range l.Counters {
		b = be.AppendUint32(append(b, c.Origin[:]...), c.Line)
		b = be.AppendUint64(be.AppendUint64(b, uint64(c.Value)), c.Revision)
	}
	return b
}

func decodeLink(b []byte) (l link, err error) {
	c := cursor{b: b}
	c.version()
	copy(l.Previous[:], c.take(32))
	l.Op, l.At, l.ID = c.u8(), int64(c.u64()), c.u64()
	copy(l.Code[:], c.take(16))
	l.Number, l.From, l.State = c.u64(), State(c.u8()), State(c.u8())
	l.Revision = c.u32()
	copy(l.Entry[:], c.take(32))
	for n := c.u16(); n > 0 && !c.bad; n-- {
		p := partDigest{Name: string(c.take(int(c.u8())))}
		copy(p.Digest[:], c.take(32))
		l.Parts = append(l.Parts, p)
	}
	for n := c.u16(); n > 0 && !c.bad; n-- {
		var v count
		copy(v.Origin[:], c.take(16))
		v.Line, v.Value, v.Revision = c.u32(), int64(c.u64()), c.u64()
		l.Counters = append(l.Counters, v)
	}
	return l, c.end("journal link")
}

// eachLink calls fn with every link of every series' journal, in order. It stops at a link that it cannot decode.
func eachLink(r pebble.Reader, fn func(key, value []byte, l *link) error) error {
	return scan(r, []byte{tableJournal}, []byte{tableJournal + 1}, func(key, value []byte) error {
		l, err := decodeLink(value)
		if err != nil {
			return err
		}
		return fn(key, value, &l)
	})
}

func hashLink(key, value []byte) (sum [32]byte) {
	h := sha256.New()
	h.Write(key)
	h.Write(value)
	h.Sum(sum[:0])
	return sum
}

func digestParts(parts []Part) []partDigest {
	digests := make([]partDigest, len(parts))
	for i, p := range parts {
		digests[i] = partDigest{p.Name, sha256.Sum256(p.Data)}
	}
	return digests
}

func (c *count) row() []byte {
	return be.AppendUint64(be.AppendUint64(make([]byte, 0, counterSize), uint64(c.Value)), c.Revision)
}

// setCounter writes a counter's row, unless a later change has set the counter already.
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
