package storage

import (
	"fmt"
	"time"
)

// seriesRow is a series as its last change left it: 2 + 4 + 8 + 8 + 32 bytes.
type seriesRow struct {
	Sequence uint32
	Last     uint64   // last number
	Position uint64   // of the last link in the journal
	Hash     [32]byte // of that link
}

// entryRow is a record as it stands:
//
//	version u8 · code [16] · number u64 · sequence u32 · state u8 · revision u32 · appended u64 · changed u64 ·
//	parts u32 · flags u8 · [due: time i64, len u8, queue] · [idempotency: key, digest] · head
//
// The journal holds the digest of the whole row.
type entryRow struct {
	Entry
	Appended, Changed uint64 // positions in the journal of its first and its latest link
	Parts             uint32 // how many
	Idempotency       *Idempotency
}

const (
	rowVersion  = 1
	flagDue     = 1
	flagIdem    = 2
	counterSize = 16 // value, revision
)

func (r *seriesRow) encode() []byte {
	b := make([]byte, 0, 53)
	b = be.AppendUint32(append(b, rowVersion), r.Sequence)
	b = be.AppendUint64(be.AppendUint64(b, r.Last), r.Position)
	return append(b, r.Hash[:]...)
}

func decodeSeries(b []byte) (r seriesRow, err error) {
	c := cursor{b: b}
	c.version()
	r.Sequence, r.Last, r.Position = c.u32(), c.u64(), c.u64()
	copy(r.Hash[:], c.take(32))
	return r, c.end("series row")
}

func (r *entryRow) encode() []byte {
	b := make([]byte, 0, 160+len(r.Head))
	b = append(append(b, rowVersion), r.Code[:]...)
	b = be.AppendUint32(be.AppendUint64(b, r.Number), r.SequenceID)
	b = be.AppendUint32(append(b, byte(r.State)), r.Revision)
	b = be.AppendUint64(be.AppendUint64(b, r.Appended), r.Changed)
	b = be.AppendUint32(b, r.Parts)
	var flags byte
	if r.Due != nil {
		flags |= flagDue
	}
	if r.Idempotency != nil {
		flags |= flagIdem
	}
	b = append(b, flags)
	if r.Due != nil {
		b = be.AppendUint64(b, uint64(r.Due.At.UnixNano()))
		b = append(append(b, byte(len(r.Due.Queue))), r.Due.Queue...)
	}
	if r.Idempotency != nil {
		b = append(append(b, r.Idempotency.Key[:]...), r.Idempotency.Digest[:]...)
	}
	return append(b, r.Head...)
}

// decodeEntry leaves Series empty: the row knows its sequence only.
func decodeEntry(id uint64, b []byte) (r entryRow, err error) {
	c := cursor{b: b}
	c.version()
	r.ID = id
	copy(r.Code[:], c.take(16))
	r.Number, r.SequenceID = c.u64(), c.u32()
	r.State, r.Revision = State(c.u8()), c.u32()
	r.Appended, r.Changed, r.Parts = c.u64(), c.u64(), c.u32()
	flags := c.u8()
	if flags&flagDue != 0 {
		at := time.Unix(0, int64(c.u64())).UTC()
		r.Due = &Due{Queue: string(c.take(int(c.u8()))), At: at}
	}
	if flags&flagIdem != 0 {
		r.Idempotency = new(Idempotency)
		copy(r.Idempotency.Key[:], c.take(32))
		copy(r.Idempotency.Digest[:], c.take(32))
	}
	if flags > flagDue|flagIdem {
		c.bad = true
	}
	r.Head = append([]byte{}, c.b...)
	c.b = nil
	return r, c.end("entry row")
}

// due is the row's key in the due table, nil when it is in no queue.
func (r *entryRow) due() []byte {
	if r.Due == nil {
		return nil
	}
	return dueKey(r.Due.Queue, r.Due.At.UnixNano(), r.ID)
}

// cursor reads a row from its front. Once it ran dry or saw a strange version every read gives zero, and end an error.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || len(c.b) < n {
		c.bad = true
		return make([]byte, n)
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) u8() byte    { return c.take(1)[0] }
func (c *cursor) u16() uint16 { return be.Uint16(c.take(2)) }
func (c *cursor) u32() uint32 { return be.Uint32(c.take(4)) }
func (c *cursor) u64() uint64 { return be.Uint64(c.take(8)) }

func (c *cursor) version() {
	if c.u8() != rowVersion {
		c.bad = true
	}
}

func (c *cursor) end(what string) error {
	if c.bad || len(c.b) != 0 {
		return fmt.Errorf("reading %s: %w", what, ErrCorrupt)
	}
	return nil
}
