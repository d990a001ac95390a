package storage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markFile is the mark on the disk: two slots of equal size, written in turn; after a torn write the other slot is
// intact. The file's length never changes; therefore a sync writes no metadata and is cheap. The slot with the higher
// generation counts. The layout of a slot:
//
//	"DTEMARK1" · generation u64 · store [16] · count u32 · count × (sequence u32, number u64, length u8, name) ·
//	CRC-32C of all before it u32
type markFile struct {
	fs   vfs.FS
	path string
	said *Head // what was read

	f          vfs.File
	slot       int           // bytes
	generation atomic.Uint64 // on the disk; the other fields belong to the goroutine that writes
	torn       bool          // the other slot is damaged: it may have held the newer generation
	buf        []byte
}

const (
	markMagic   = "DTEMARK1"
	firstSlot   = 64 << 10 // 2,200 series with names of 20 bytes
	largestSlot = 64 << 20
)

var (
	errNoMark  = errors.New("no mark")
	errBadMark = errors.New("mark is unreadable")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// markHead returns the content of a mark: the sequence and last number of each series. One number above the mark may
// have been given, because number n is acknowledged once the mark is at n-1.
func markHead(store [16]byte, series map[string]Reach) *Head {
	return &Head{Store: store, Series: series, Numbers: true, Slack: 1}
}

// slotAt returns the offset of a generation's slot in the file.
func slotAt(slot int, generation uint64) int64 { return int64(slot) * int64((generation+1)%2) }

func encodeMark(b []byte, generation uint64, h *Head) []byte {
	b = append(be.AppendUint64(append(b, markMagic...), generation), h.Store[:]...)
	b = be.AppendUint32(b, uint32(len(h.Series)))
	for _, name := range h.bySequence() {
		row := h.Series[name]
		b = be.AppendUint64(be.AppendUint32(b, row.Sequence), row.Last)
		b = append(append(b, byte(len(name))), name...)
	}
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeMark(slot []byte) (generation uint64, said *Head, ok bool) {
	said = markHead([16]byte{}, make(map[string]Reach))
	c := cursor{b: slot}
	c.bad = string(c.take(len(markMagic))) != markMagic
	generation = c.u64()
	copy(said.Store[:], c.take(16))
	for n := c.u32(); n > 0 && !c.bad; n-- {
		row := Reach{Sequence: c.u32(), Last: c.u64()}
		said.Series[string(c.take(int(c.u8())))] = row
	}
	sum := crc32.Checksum(slot[:len(slot)-len(c.b)], castagnoli)
	return generation, said, c.u32() == sum && !c.bad
}

// writeNewMark writes a mark under another name and renames it. generation is at least 1; see markRow.
func writeNewMark(fs vfs.FS, path string, h *Head, slot int, generation uint64) (err error) {
	defer wrap(&err, "creating mark")
	b := encodeMark(nil, generation, h)
	for slot < len(b) {
		slot *= 2
	}
	content := make([]byte, 2*slot)
	copy(content[slotAt(slot, generation):], b)
	aside := path + ".new"
	if err := writeSynced(fs, aside, content); err != nil {
		return err
	}
	return renameSynced(fs, aside, path)
}

// openMarkFile opens and reads a mark; if write is set, it opens the mark for writing too.
func openMarkFile(fs vfs.FS, path string, write bool) (*markFile, error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoMark
	}
	if err == nil && write { // in two steps: opening for writing would make a file
		if err = f.Close(); err == nil {
			f, err = fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
		}
	}
	if err != nil {
		return nil, err
	}
	m := &markFile{fs: fs, path: path, f: f}
	if err := m.read(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

// readMark returns the content of the file at path. errNoMark when there is no file. If write is set, the file must be
// writable.
func readMark(fs vfs.FS, path string, write bool) (*Head, error) {
	file, err := openMarkFile(fs, path, write)
	if err != nil {
		return nil, err
	}
	return file.said, file.close()
}

func (m *markFile) read() error {
	info, err := m.f.Stat()
	if err != nil {
		return err
	}
	size := int(info.Size())
	if size%2 != 0 || size < 2*firstSlot || size > 2*largestSlot {
		return fmt.Errorf("%w: %d bytes", errBadMark, size)
	}
	content := make([]byte, size)
	if n, err := m.f.ReadAt(content, 0); n < size {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	m.slot, m.torn = size/2, false
	for slot := range slices.Chunk(content, m.slot) {
		generation, said, ok := decodeMark(slot)
		m.torn = m.torn || !ok && slices.ContainsFunc(slot, func(b byte) bool { return b != 0 })
		if ok && generation > m.generation.Load() {
			m.generation.Store(generation)
			m.said = said
		}
	}
	return onlyIf(m.said == nil, errBadMark)
}

// write writes the next slot, and returns when the disk has it.
func (m *markFile) write(h *Head) error {
	generation := m.generation.Load() + 1
	var err error
	if m.buf = encodeMark(m.buf[:0], generation, h); len(m.buf) > m.slot {
		err = m.grow(h, generation)
	} else if _, err = m.f.WriteAt(m.buf, slotAt(m.slot, generation)); err == nil {
		err = m.f.SyncData()
	}
	if err == nil {
		m.generation.Store(generation)
	}
	return err
}

// grow replaces this file with a file with larger slots.
func (m *markFile) grow(h *Head, generation uint64) error {
	if err := writeNewMark(m.fs, m.path, h, m.slot, generation); err != nil {
		return err
	}
	next, err := openMarkFile(m.fs, m.path, true)
	if err != nil {
		return err
	}
	old := m.f
	m.f, m.slot = next.f, next.slot
	return old.Close()
}

func (m *markFile) close() error { return m.f.Close() }
