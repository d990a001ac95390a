package storage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markFile is the mark on the disk: two slots of equal size, written in turn, so that a torn write leaves the other
// one. The file never changes its length, which makes a sync cheap: no metadata. A slot:
//
//	"DTEMARK1" · generation u64 · store [16] · count u32 · count × number u64 · CRC-32C of all of it u32
//
// The numbers stand in the order of the sequence ids, from 1. The slot with the higher generation counts.
type markFile struct {
	fs    vfs.FS
	path  string
	store [16]byte

	mu         sync.Mutex
	f          vfs.File
	slot       int // bytes
	generation uint64
	torn       bool // the other slot is damaged: it may have held the newer generation
	buf        []byte
}

const (
	markMagic   = "DTEMARK1"
	markHeader  = len(markMagic) + 8 + 16 + 4
	firstSlot   = 64 << 10 // 8,183 series
	largestSlot = 64 << 20
)

var (
	errNoMark  = errors.New("no mark")
	errBadMark = errors.New("mark is unreadable")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// slotFor is the size of a slot that holds so many numbers.
func slotFor(numbers int) int {
	slot := firstSlot
	for markHeader+8*numbers+4 > slot {
		slot *= 2
	}
	return slot
}

// writeNewMark makes a mark aside and renames it. generation is at least 1; see markRow.
func writeNewMark(fs vfs.FS, path string, store [16]byte, numbers []uint64, slot int, generation uint64) error {
	aside := path + ".new"
	f, err := fs.Create(aside, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating mark: %w", err)
	}
	content := make([]byte, 2*slot)
	copy(content[slotAt(slot, generation):], encodeMark(nil, generation, store, numbers))
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("creating mark: %w", err)
	}
	if err := fs.Rename(aside, path); err != nil {
		return fmt.Errorf("creating mark: %w", err)
	}
	return syncDir(fs, fs.PathDir(path))
}

// slotAt is where in the file the slot of a generation begins.
func slotAt(slot int, generation uint64) int64 { return int64(slot) * int64((generation+1)%2) }

func openMarkFile(fs vfs.FS, path string) (*markFile, []uint64, error) {
	return openMarkFileBy(fs, path, func() (vfs.File, error) { return fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified) })
}

func openMarkFileBy(fs vfs.FS, path string, open func() (vfs.File, error)) (*markFile, []uint64, error) {
	if _, err := fs.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, nil, errNoMark // asked first: opening for writing would make one
	} else if err != nil {
		return nil, nil, err
	}
	f, err := open()
	if err != nil {
		return nil, nil, err
	}
	m := &markFile{fs: fs, path: path, f: f}
	numbers, store, err := m.read()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	m.store = store
	return m, numbers, nil
}

// read returns the newer of the two slots.
func (m *markFile) read() (numbers []uint64, store [16]byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info, err := m.f.Stat()
	if err != nil {
		return nil, store, err
	}
	size := int(info.Size())
	if size%2 != 0 || size < 2*firstSlot || size > 2*largestSlot {
		return nil, store, fmt.Errorf("%w: %d bytes", errBadMark, size)
	}
	content := make([]byte, size)
	if n, err := m.f.ReadAt(content, 0); n < size {
		return nil, store, errors.Join(io.ErrUnexpectedEOF, err)
	}
	m.slot, m.generation, m.torn = size/2, 0, false
	for i := range 2 {
		slot := content[i*m.slot : (i+1)*m.slot]
		generation, of, n, ok := decodeMark(slot)
		if !ok && slices.ContainsFunc(slot, func(b byte) bool { return b != 0 }) {
			m.torn = true
		}
		if ok && generation > m.generation {
			m.generation, store, numbers = generation, of, n
		}
	}
	if m.generation == 0 {
		return nil, store, errBadMark
	}
	return numbers, store, nil
}

// write returns when the disk says these numbers.
func (m *markFile) write(numbers []uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(numbers)
}

// rewrite is write in another store's name.
func (m *markFile) rewrite(store [16]byte, numbers []uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store = store
	return m.put(numbers)
}

func (m *markFile) put(numbers []uint64) error {
	if markHeader+8*len(numbers)+4 > m.slot {
		return m.grow(numbers)
	}
	m.generation++
	m.buf = encodeMark(m.buf[:0], m.generation, m.store, numbers)
	if _, err := m.f.WriteAt(m.buf, slotAt(m.slot, m.generation)); err != nil {
		return err
	}
	return m.f.SyncData()
}

// grow writes a file with slots twice as large in the place of this one.
func (m *markFile) grow(numbers []uint64) error {
	slot := m.slot * 2
	if err := writeNewMark(m.fs, m.path, m.store, numbers, slot, m.generation+1); err != nil {
		return err
	}
	f, err := m.fs.OpenReadWrite(m.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	old := m.f
	m.f, m.slot, m.generation = f, slot, m.generation+1
	return old.Close()
}

// durable is the generation that the disk has.
func (m *markFile) durable() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.generation
}

func (m *markFile) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.f.Close()
}

func encodeMark(b []byte, generation uint64, store [16]byte, numbers []uint64) []byte {
	b = append(be.AppendUint64(append(b, markMagic...), generation), store[:]...)
	b = be.AppendUint32(b, uint32(len(numbers)))
	for _, n := range numbers {
		b = be.AppendUint64(b, n)
	}
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeMark(b []byte) (generation uint64, store [16]byte, numbers []uint64, ok bool) {
	if string(b[:len(markMagic)]) != markMagic {
		return 0, store, nil, false
	}
	c := cursor{b: b[len(markMagic):]}
	generation = c.u64()
	copy(store[:], c.take(16))
	count := int(c.u32())
	end := markHeader + 8*count
	if count > largestSlot/8 || end+4 > len(b) || crc32.Checksum(b[:end], castagnoli) != be.Uint32(b[end:]) {
		return 0, store, nil, false
	}
	for range count {
		numbers = append(numbers, c.u64())
	}
	return generation, store, numbers, true
}
