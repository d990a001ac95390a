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
// intact. The file never changes its length, which makes a sync cheap: no metadata. The slot with the higher generation
// counts:
//
//	"DTEMARK1" · generation u64 · store [16] · count u32 · count × (number u64, length u8, name) · CRC-32C of it u32
type markFile struct {
	fs    vfs.FS
	path  string
	store [16]byte

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

// reached is how far each series got: numbers[i] is the last number of series names[i].
type reached struct {
	names   []string
	numbers []uint64
}

// head returns r as a Head. One number more than the mark's may have been given: number n is acknowledged once the mark
// is at n-1.
func (r reached) head(store [16]byte) *Head {
	h := numbersHead(store, nil, 1)
	for i, n := range r.numbers {
		if n > 0 {
			h.Series[r.names[i]] = Reach{Last: n}
		}
	}
	return h
}

// slotAt returns the offset of a generation's slot in the file.
func slotAt(slot int, generation uint64) int64 { return int64(slot) * int64((generation+1)%2) }

func encodeMark(b []byte, generation uint64, store [16]byte, r reached) []byte {
	b = append(be.AppendUint64(append(b, markMagic...), generation), store[:]...)
	b = be.AppendUint32(b, uint32(len(r.numbers)))
	for i, n := range r.numbers {
		b = append(append(be.AppendUint64(b, n), byte(len(r.names[i]))), r.names[i]...)
	}
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeMark reads a whole slot.
func decodeMark(slot []byte) (generation uint64, store [16]byte, said reached, ok bool) {
	c := cursor{b: slot}
	c.bad = string(c.take(len(markMagic))) != markMagic
	generation = c.u64()
	copy(store[:], c.take(16))
	for n := c.u32(); n > 0 && !c.bad; n-- {
		said.numbers = append(said.numbers, c.u64())
		said.names = append(said.names, string(c.take(int(c.u8()))))
	}
	sum := crc32.Checksum(slot[:len(slot)-len(c.b)], castagnoli)
	return generation, store, said, c.u32() == sum && !c.bad
}

// writeNewMark writes a mark under another name and renames it. generation is at least 1; see markRow.
func writeNewMark(fs vfs.FS, path string, store [16]byte, r reached, slot int, generation uint64) error {
	b := encodeMark(nil, generation, store, r)
	for slot < len(b) {
		slot *= 2
	}
	content := make([]byte, 2*slot)
	copy(content[slotAt(slot, generation):], b)
	aside := path + ".new"
	if err := writeSynced(fs, aside, content); err != nil {
		return fmt.Errorf("creating mark: %w", err)
	}
	if err := fs.Rename(aside, path); err != nil {
		return fmt.Errorf("creating mark: %w", err)
	}
	return syncDir(fs, fs.PathDir(path))
}

// openMarkFile opens a mark, to read or also to write it, and returns its content.
func openMarkFile(fs vfs.FS, path string, write bool) (*markFile, reached, error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, reached{}, errNoMark
	}
	if err == nil && write { // in two steps: opening for writing would make a file
		if err = f.Close(); err == nil {
			f, err = fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
		}
	}
	if err != nil {
		return nil, reached{}, err
	}
	m := &markFile{fs: fs, path: path, f: f}
	said, store, err := m.read()
	if err != nil {
		return nil, reached{}, errors.Join(err, f.Close())
	}
	m.store = store
	return m, said, nil
}

// readMark returns the content of the file at path, and its store's identity. errNoMark when there is no file.
func readMark(fs vfs.FS, path string) (reached, [16]byte, error) {
	file, said, err := openMarkFile(fs, path, false)
	if err != nil {
		return reached{}, [16]byte{}, err
	}
	return said, file.store, file.close()
}

// read returns the newer of the two slots.
func (m *markFile) read() (said reached, store [16]byte, err error) {
	info, err := m.f.Stat()
	if err != nil {
		return said, store, err
	}
	size := int(info.Size())
	if size%2 != 0 || size < 2*firstSlot || size > 2*largestSlot {
		return said, store, fmt.Errorf("%w: %d bytes", errBadMark, size)
	}
	content := make([]byte, size)
	if n, err := m.f.ReadAt(content, 0); n < size {
		return said, store, errors.Join(io.ErrUnexpectedEOF, err)
	}
	m.slot, m.torn = size/2, false
	for slot := range slices.Chunk(content, m.slot) {
		generation, of, r, ok := decodeMark(slot)
		m.torn = m.torn || !ok && slices.ContainsFunc(slot, func(b byte) bool { return b != 0 })
		if ok && generation > m.generation.Load() {
			m.generation.Store(generation)
			store, said = of, r
		}
	}
	if m.generation.Load() == 0 {
		return said, store, errBadMark
	}
	return said, store, nil
}

// write writes the next slot, and returns when the disk has it.
func (m *markFile) write(r reached) error {
	generation := m.generation.Load() + 1
	var err error
	if m.buf = encodeMark(m.buf[:0], generation, m.store, r); len(m.buf) > m.slot {
		err = m.grow(r, generation)
	} else if _, err = m.f.WriteAt(m.buf, slotAt(m.slot, generation)); err == nil {
		err = m.f.SyncData()
	}
	if err == nil {
		m.generation.Store(generation)
	}
	return err
}

// grow replaces this file with a file with larger slots.
func (m *markFile) grow(r reached, generation uint64) error {
	if err := writeNewMark(m.fs, m.path, m.store, r, m.slot, generation); err != nil {
		return err
	}
	f, err := m.fs.OpenReadWrite(m.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	old := m.f
	m.f, m.slot = f, int(info.Size()/2)
	return old.Close()
}

func (m *markFile) close() error { return m.f.Close() }
