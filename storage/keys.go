package storage

import (
	"encoding/binary"
)

// The key table. A key is its table's byte and then binary fields; integers are big-endian, so that they sort.
// Records are keyed by their growing id, not by their random code: bulk data then arrives in key order and
// compactions move it instead of rewriting it, which spares an appliance's flash.
//
//	table     key after the byte                        value
//	meta      name                                      "layout": u32 · "store": 16 random bytes · "restored": restoredRow · "restorations": gaps · "beat": i64 ·
//	                                                    "behind": JSON, []Witness · "former": n × 16 bytes · "scrub": scrubRow · "backup": i64 ·
//	                                                    "repairs": JSON, []RepairRecord · "read": i64, damaged tables u64 · "mark": markRow
//	series    name                                      seriesRow: sequence, last number, end of its journal
//	journal   sequence u32, position u64                link: one change, bound to the one before it
//	entry     id u64                                    entryRow: the record as it stands
//	part      id u64, name                              the part's bytes
//	code      code [16]                                 id u64
//	idem      key [32]                                  id u64, digest [32]
//	due       len u8, queue, time i64 (sign flipped),   empty
//	          id u64
//	counter   origin [16], line u32                     value i64, revision u64: how often it was set
//	feed      sequence u64                              id u64, state u8: a change that readers learn of
//	lost      sequence u32, position u64                lostRow: numbers that the journal skips there
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
	tableEnd     byte = 12 // no table; the bound of the last
)

// layout is the version of this table and of the rows. A store of another layout is not opened.
const layout uint32 = 1

var (
	keyLayout   = append([]byte{tableMeta}, "layout"...)
	keyStore    = append([]byte{tableMeta}, "store"...)
	keyRestored = append([]byte{tableMeta}, "restored"...)
	keyGaps     = append([]byte{tableMeta}, "restorations"...)
	keyBeat     = append([]byte{tableMeta}, "beat"...)
	keyBehind   = append([]byte{tableMeta}, "behind"...)
	keyFormer   = append([]byte{tableMeta}, "former"...)
	keyScrub    = append([]byte{tableMeta}, "scrub"...)
	keyBackup   = append([]byte{tableMeta}, "backup"...)
	keyRead     = append([]byte{tableMeta}, "read"...)
	keyRepairs  = append([]byte{tableMeta}, "repairs"...)
	keyMark     = append([]byte{tableMeta}, "mark"...)
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian // of Pebble's log
)

func seriesKey(name string) []byte { return append([]byte{tableSeries}, name...) }

func journalKey(sequence uint32, position uint64) []byte {
	b := make([]byte, 0, 13)
	return be.AppendUint64(be.AppendUint32(append(b, tableJournal), sequence), position)
}

func lostKey(sequence uint32, position uint64) []byte {
	key := journalKey(sequence, position)
	key[0] = tableLost
	return key
}

func entryKey(id uint64) []byte {
	return be.AppendUint64(append(make([]byte, 0, 9), tableEntry), id)
}

func partKey(id uint64, name string) []byte {
	b := make([]byte, 0, 9+len(name))
	return append(be.AppendUint64(append(b, tablePart), id), name...)
}

func codeKey(code Code) []byte {
	return append(append(make([]byte, 0, 17), tableCode), code[:]...)
}

func idemKey(key [32]byte) []byte {
	return append(append(make([]byte, 0, 33), tableIdem), key[:]...)
}

func duePrefix(queue string) []byte {
	b := make([]byte, 0, 18+len(queue))
	return append(append(b, tableDue, byte(len(queue))), queue...)
}

// dueKey sorts by time: flipping the sign bit puts the years before 1970 first.
func dueKey(queue string, unixNano int64, id uint64) []byte {
	return be.AppendUint64(be.AppendUint64(duePrefix(queue), uint64(unixNano)^1<<63), id)
}

// parseDueKey takes a due key apart; ok is false for a key that dueKey cannot have made.
func parseDueKey(key []byte) (queue string, unixNano int64, id uint64, ok bool) {
	if len(key) < 2 || len(key) != 18+int(key[1]) {
		return "", 0, 0, false
	}
	rest := key[2+int(key[1]):]
	return string(key[2 : 2+int(key[1])]), int64(be.Uint64(rest) ^ 1<<63), be.Uint64(rest[8:]), true
}

func counterKey(origin Code, line uint32) []byte {
	b := make([]byte, 0, 21)
	return be.AppendUint32(append(append(b, tableCounter), origin[:]...), line)
}

func feedKey(sequence uint64) []byte {
	return be.AppendUint64(append(make([]byte, 0, 9), tableFeed), sequence)
}

// prefixEnd is the first key behind all keys that begin with prefix. No prefix ends in 0xff only: tables are below 12.
func prefixEnd(prefix []byte) []byte {
	b := append([]byte(nil), prefix...)
	for i := len(b) - 1; ; i-- {
		if b[i]++; b[i] != 0 {
			return b[:i+1]
		}
	}
}
