package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The key table. A key is its table's byte and then binary fields; integers are big-endian, so that they sort. Records
// are keyed by their growing id, not by their random code: bulk data arrives in key order, and compactions move the
// data instead of rewriting it. This spares an appliance's flash.
//
//	table     key after the byte                        value
//	meta      name                                      "layout": u32 · "store": 16 random bytes · all others in JSON:
//	                                                    "former": [][16]byte · "beat", "unsure", "backup": time.Time ·
//	                                                    "feed": uint64, below all announcements of this identity ·
//	                                                    "segments": segmentsRow · "mark": markRow · "restored":
//	                                                    Restoration · "restorations": []Gap · "behind": []Witness ·
//	                                                    "scrub": Scrub · "read": Reading · "repairs": []RepairRecord ·
//	                                                    "settled": []Lead
//	series    name                                      Reach: sequence, last number, end of its journal
//	journal   sequence u32, position u64                link: one change, bound to the change before it
//	entry     id u64                                    entryRow: the record's current state
//	part      id u64, name                              the part's bytes
//	code      code [16]                                 id u64
//	idem      key [32]                                  id u64, digest [32]
//	due       len u8, queue, time i64 (sign flipped),   empty
//	          id u64
//	counter   origin [16], line u32                     value i64, revision u64: how often it was set
//	feed      sequence u64                              id u64, state u8: an announced change
//	lost      sequence u32, position u64                JSON, lostRow: what the series lacks there
//	day       day u32, id u64                           empty: a record belongs to that day
const (
	tableMeta    byte = 1
	tableSeries  byte = 2
	tableJournal byte = 3
	tableEntry   byte = 4
	tablePart    byte = 5
	tableCode    byte = 6
	tableIdem    byte = 7
	tableDue     byte = 8
	tableCounter byte = 9
	tableFeed    byte = 10
	tableLost    byte = 11
	tableDay     byte = 12
	tableEnd     byte = 13 // no table; the upper bound of the last table
)

// layout is the version of the key table and of the rows. dted 1.0.0 wrote version 1. Open refuses other layouts.
const layout uint32 = 2

var (
	keyLayout   = append([]byte{tableMeta}, "layout"...)
	keyStore    = append([]byte{tableMeta}, "store"...)
	keyRestored = append([]byte{tableMeta}, "restored"...)
	keyGaps     = append([]byte{tableMeta}, "restorations"...)
	keyBeat     = append([]byte{tableMeta}, "beat"...)
	keyUnsure   = append([]byte{tableMeta}, "unsure"...)
	keyBehind   = append([]byte{tableMeta}, "behind"...)
	keyFormer   = append([]byte{tableMeta}, "former"...)
	keyScrub    = append([]byte{tableMeta}, "scrub"...)
	keyBackup   = append([]byte{tableMeta}, "backup"...)
	keyRead     = append([]byte{tableMeta}, "read"...)
	keySettled  = append([]byte{tableMeta}, "settled"...)
	keyRepairs  = append([]byte{tableMeta}, "repairs"...)
	keyMark     = append([]byte{tableMeta}, "mark"...)
	keyFeed     = append([]byte{tableMeta}, "feed"...)
	keySegments = append([]byte{tableMeta}, "segments"...)
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian // the byte order of Pebble's logs and tables
)

func seriesKey(name string) []byte { return append([]byte{tableSeries}, name...) }

func journalKey(sequence uint32, position uint64) []byte {
	return be.AppendUint64(be.AppendUint32(append(make([]byte, 0, 13), tableJournal), sequence), position)
}

func lostKey(sequence uint32, position uint64) []byte {
	key := journalKey(sequence, position)
	key[0] = tableLost
	return key
}

func entryKey(id uint64) []byte { return be.AppendUint64(append(make([]byte, 0, 9), tableEntry), id) }

func partKey(id uint64, name string) []byte {
	return append(be.AppendUint64(append(make([]byte, 0, 9+len(name)), tablePart), id), name...)
}

func codeKey(code Code) []byte { return append(append(make([]byte, 0, 17), tableCode), code[:]...) }

func idemKey(key [32]byte) []byte { return append(append(make([]byte, 0, 33), tableIdem), key[:]...) }

func duePrefix(queue string) []byte {
	return append(append(make([]byte, 0, 18+len(queue)), tableDue, byte(len(queue))), queue...)
}

// dueKey sorts by time: flipping the sign bit puts the years before 1970 first.
func dueKey(queue string, unixNano int64, id uint64) []byte {
	return be.AppendUint64(be.AppendUint64(duePrefix(queue), uint64(unixNano)^1<<63), id)
}

// parseDueKey takes a due key apart; ok is false if dueKey cannot have made it.
func parseDueKey(key []byte) (queue string, unixNano int64, id uint64, ok bool) {
	if len(key) < 2 || len(key) != 18+int(key[1]) {
		return "", 0, 0, false
	}
	rest := key[2+int(key[1]):]
	return string(key[2 : 2+int(key[1])]), int64(be.Uint64(rest) ^ 1<<63), be.Uint64(rest[8:]), true
}

func counterKey(origin Code, line uint32) []byte {
	return be.AppendUint32(append(append(make([]byte, 0, 21), tableCounter), origin[:]...), line)
}

func feedKey(sequence uint64) []byte {
	return be.AppendUint64(append(make([]byte, 0, 9), tableFeed), sequence)
}

func dayKey(day uint32, id uint64) []byte {
	return be.AppendUint64(be.AppendUint32(append(make([]byte, 0, 13), tableDay), day), id)
}

// leadTables are the tables whose rows only lead to a record: see entryRow.leads.
var leadTables = []byte{tableCode, tableIdem, tableDue, tableDay}

// leadsTo returns the id of the record that a row of leadTables leads to; ok is false if entryRow.leads cannot have
// made the row.
func leadsTo(key, value []byte) (id uint64, ok bool) {
	switch {
	case key[0] == tableCode && len(key) == 17 && len(value) == 8, key[0] == tableIdem && len(key) == 33 &&
		len(value) == 40:
		return be.Uint64(value), true
	case key[0] == tableDay && len(key) == 13 && len(value) == 0:
		return be.Uint64(key[5:]), true
	case key[0] == tableDue && len(value) == 0:
		_, _, id, ok = parseDueKey(key)
		return id, ok
	}
	return 0, false
}

// entryRow is a record in its current state:
//
//	version u8 · code [16] · number u64 · sequence u32 · state u8 · revision u32 · appended u64 · changed u64 ·
//	parts u32 · flags u8 · [due: time i64, len u8, queue] · [idempotency: key, digest] · [days: n u8, n × u32] · head
//
// The journal holds the digest of the whole row.
type entryRow struct {
	Entry
	Appended, Changed uint64 // positions of the record's first and latest link in the journal
	Parts             uint32 // how many
	Idempotency       *Idempotency
}

const (
	rowVersion  = 1
	flagDue     = 1
	flagIdem    = 2
	flagDays    = 4
	counterSize = 16 // value, revision
)

func (r *Reach) encode() []byte {
	b := make([]byte, 0, 53)
	b = be.AppendUint32(append(b, rowVersion), r.Sequence)
	b = be.AppendUint64(be.AppendUint64(b, r.Last), r.Position)
	return append(b, r.Hash[:]...)
}

func decodeSeries(b []byte) (r Reach, err error) {
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
	if len(r.Days) > 0 {
		flags |= flagDays
	}
	b = append(b, flags)
	if r.Due != nil {
		b = be.AppendUint64(b, uint64(r.Due.At.UnixNano()))
		b = append(append(b, byte(len(r.Due.Queue))), r.Due.Queue...)
	}
	if r.Idempotency != nil {
		b = append(append(b, r.Idempotency.Key[:]...), r.Idempotency.Digest[:]...)
	}
	if len(r.Days) > 0 {
		b = append(b, byte(len(r.Days)))
		for _, day := range r.Days {
			b = be.AppendUint32(b, day)
		}
	}
	return append(b, r.Head...)
}

// decodeEntry leaves Series empty: the row contains only the series' sequence.
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
	if flags&flagDays != 0 {
		r.Days = make([]uint32, c.u8())
		for i := range r.Days {
			r.Days[i] = c.u32()
		}
	}
	if flags > flagDue|flagIdem|flagDays {
		c.bad = true
	}
	r.Head = append([]byte{}, c.b...)
	c.b = nil
	return r, c.end("entry row")
}

// leads calls fn with every row that leads to the record: by its code, its idempotency key, its queue, its days.
// leadTables have no other rows of the record.
func (r *entryRow) leads(fn func(key, value []byte)) {
	fn(codeKey(r.Code), be.AppendUint64(nil, r.ID))
	if k := r.Idempotency; k != nil {
		fn(idemKey(k.Key), append(be.AppendUint64(make([]byte, 0, 40), r.ID), k.Digest[:]...))
	}
	if due := r.due(); due != nil {
		fn(due, nil)
	}
	for _, day := range r.Days {
		fn(dayKey(day, r.ID), nil)
	}
}

// led reports whether a row of leadTables belongs to the record.
func (r *entryRow) led(key, value []byte) (found bool) {
	r.leads(func(k, v []byte) { found = found || bytes.Equal(k, key) && bytes.Equal(v, value) })
	return found
}

// due returns the record's key in the due table, nil if the record is in no queue.
func (r *entryRow) due() []byte {
	if r.Due == nil {
		return nil
	}
	return dueKey(r.Due.Queue, r.Due.At.UnixNano(), r.ID)
}

// cursor reads a row from its start. After a short row or a strange version, it returns zeros, and end returns an
// error.
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
	Entry       [32]byte // digest of the entry row as this change wrote it
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

// eachLink calls fn with every link of every series' journal, in order. It stops at a link that does not decode.
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

// setCounter writes a counter's row, unless the row of the same or of a later change is there already.
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
