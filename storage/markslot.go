package storage

import (
	"hash/crc32"
)

// A slot of the mark's file, as it is written:
//
//	"DTEMARK2" · generation u64 · store [16] · count u32 · bytes of the names u32 · CRC-32C of the names u32 ·
//	count × number u64 · CRC-32C of all before it u32
//
// and the names, count × (length u8 · name), at the very end of the slot. A series keeps its place in the mark for as long as the
// process runs. Names are therefore written when a series begins, and the write behind a sale has the numbers alone.
//
// The first format is "DTEMARK1" · generation u64 · store [16] · count u32 · count × number u64 · CRC-32C: its numbers stand in the
// order of the series' sequence ids, from 1, and only the store of that identity knows which series that are.
const (
	markMagic    = "DTEMARK2"
	firstMagic   = "DTEMARK1"
	firstHeader  = len(firstMagic) + 8 + 16 + 4
	markHeader   = firstHeader + 4 + 4
	firstSlot    = 64 << 10 // 2,200 series with names of 20 bytes
	largestSlot  = 64 << 20
	slotChecksum = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// reached is how far each series got: number i is of series name i. A name is empty when nobody knows it.
type reached struct {
	names   []string // nil, of a mark of the first format; otherwise as many as numbers
	numbers []uint64
}

// name returns the name of the series at a place, "" when it is not known.
func (r reached) name(place int) string {
	if place < len(r.names) {
		return r.names[place]
	}
	return ""
}

// allNames returns as many names as there are numbers.
func (r reached) allNames() []string {
	if len(r.names) == len(r.numbers) {
		return r.names
	}
	return make([]string, len(r.numbers))
}

// byName returns the furthest number of each name; under "", that of all series whose names are not known. 0 is left out.
func (r reached) byName() map[string]uint64 {
	m := make(map[string]uint64, len(r.numbers))
	for i, n := range r.numbers {
		if n > 0 {
			m[r.name(i)] = max(m[r.name(i)], n)
		}
	}
	return m
}

// slotFor is the size of a slot that holds so many numbers, and so many bytes of names.
func slotFor(numbers, names int) int {
	slot := firstSlot
	for markHeader+8*numbers+slotChecksum+names > slot {
		slot *= 2
	}
	return slot
}

// slotAt is where in the file the slot of a generation begins.
func slotAt(slot int, generation uint64) int64 { return int64(slot) * int64(slotOf(generation)) }

// slotOf is which of the two slots has a generation.
func slotOf(generation uint64) int { return int((generation + 1) % 2) }

func encodeNames(names []string) []byte {
	var b []byte
	for _, name := range names {
		b = append(append(b, byte(len(name))), name...)
	}
	return b
}

// encodeMark is the front of a slot; names are what stands at its end.
func encodeMark(b []byte, generation uint64, store [16]byte, numbers []uint64, names nameSection) []byte {
	b = append(be.AppendUint64(append(b, markMagic...), generation), store[:]...)
	b = be.AppendUint32(b, uint32(len(numbers)))
	b = be.AppendUint32(be.AppendUint32(b, uint32(len(names.bytes))), names.sum)
	for _, n := range numbers {
		b = be.AppendUint64(b, n)
	}
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// nameSection is the end of a slot, ready to be written.
type nameSection struct {
	count int
	bytes []byte
	sum   uint32
}

func newNameSection(names []string) nameSection {
	b := encodeNames(names)
	return nameSection{len(names), b, crc32.Checksum(b, castagnoli)}
}

// decodeMark reads a whole slot, of either format.
func decodeMark(slot []byte) (generation uint64, store [16]byte, said reached, ok bool) {
	magic := string(slot[:len(markMagic)])
	if magic != markMagic && magic != firstMagic {
		return 0, store, said, false
	}
	c := cursor{b: slot[len(markMagic):]}
	generation = c.u64()
	copy(store[:], c.take(16))
	count, header, length, sum := int(c.u32()), firstHeader, 0, uint32(0)
	if magic == markMagic {
		header, length, sum = markHeader, int(c.u32()), c.u32()
	}
	end := header + 8*count
	if count > largestSlot/8 || length > largestSlot || end+slotChecksum+length > len(slot) ||
		crc32.Checksum(slot[:end], castagnoli) != be.Uint32(slot[end:]) {
		return 0, store, said, false
	}
	for range count {
		said.numbers = append(said.numbers, c.u64())
	}
	if magic == firstMagic {
		return generation, store, said, true
	}
	section := slot[len(slot)-length:]
	if crc32.Checksum(section, castagnoli) != sum {
		return 0, store, reached{}, false
	}
	n := cursor{b: section}
	for range count {
		said.names = append(said.names, string(n.take(int(n.u8()))))
	}
	return generation, store, said, n.end("names") == nil
}
