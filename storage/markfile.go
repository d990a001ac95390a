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
// one. The file never changes its length, which makes a sync cheap: no metadata. The slot with the higher generation
// counts.
type markFile struct {
	fs    vfs.FS
	path  string
	store [16]byte

	mu         sync.Mutex
	f          vfs.File
	slot       int // bytes
	generation uint64
	torn       bool // the other slot is damaged: it may have held the newer generation
	names      nameSection
	named      [2]int // how many of these names this process has written to each slot
	buf        []byte
}

var (
	errNoMark  = errors.New("no mark")
	errBadMark = errors.New("mark is unreadable")
)

// writeNewMark makes a mark aside and renames it. generation is at least 1; see markRow.
func writeNewMark(fs vfs.FS, path string, store [16]byte, r reached, slot int, generation uint64) error {
	names := newNameSection(r.names)
	slot = max(slot, slotFor(len(r.numbers), len(names.bytes)))
	content := make([]byte, 2*slot)
	at := slotAt(slot, generation)
	copy(content[at:], encodeMark(nil, generation, store, r.numbers, names))
	copy(content[int(at)+slot-len(names.bytes):], names.bytes)
	aside := path + ".new"
	f, err := fs.Create(aside, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating mark: %w", err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("creating mark: %w", err)
	}
	if err := fs.Rename(aside, path); err != nil {
		return fmt.Errorf("creating mark: %w", err)
	}
	return syncDir(fs, fs.PathDir(path))
}

func openMarkFile(fs vfs.FS, path string) (*markFile, reached, error) {
	return openMarkFileBy(fs, path, func() (vfs.File, error) {
		return fs.OpenReadWrite(path,
			vfs.WriteCategoryUnspecified)
	})
}

func openMarkFileBy(fs vfs.FS, path string, open func() (vfs.File, error)) (*markFile, reached, error) {
	if _, err := fs.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, reached{}, errNoMark // asked first: opening for writing would make one
	} else if err != nil {
		return nil, reached{}, err
	}
	f, err := open()
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

// read returns the newer of the two slots.
func (m *markFile) read() (said reached, store [16]byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	m.slot, m.generation, m.torn = size/2, 0, false
	for i := range 2 {
		slot := content[i*m.slot : (i+1)*m.slot]
		generation, of, r, ok := decodeMark(slot)
		if !ok && slices.ContainsFunc(slot, func(b byte) bool { return b != 0 }) {
			m.torn = true
		}
		if ok && generation > m.generation {
			m.generation, store, said = generation, of, r
		}
	}
	if m.generation == 0 {
		return said, store, errBadMark
	}
	return said, store, nil
}

// write returns when the disk says so. A series keeps its place from one write to the next.
func (m *markFile) write(r reached) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(r)
}

// rewrite is write in another store's name, with the series in other places.
func (m *markFile) rewrite(store [16]byte, r reached) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store, m.names, m.named = store, nameSection{}, [2]int{}
	return m.put(r)
}

func (m *markFile) put(r reached) error {
	if m.names.count != len(r.numbers) {
		m.names = newNameSection(r.names)
	}
	if markHeader+8*len(r.numbers)+slotChecksum+len(m.names.bytes) > m.slot {
		return m.grow(r)
	}
	m.generation++
	at := slotAt(m.slot, m.generation)
	if named := &m.named[slotOf(m.generation)]; *named != m.names.count {
		// If we crash between the two writes, the sum of the names is not what the slot says, and the other slot
		// counts.
		if _, err := m.f.WriteAt(slices.Clone(m.names.bytes), at+int64(m.slot-len(m.names.bytes))); err != nil {
			return err
		}
		*named = m.names.count
	}
	m.buf = encodeMark(m.buf[:0], m.generation, m.store, r.numbers, m.names)
	if _, err := m.f.WriteAt(m.buf, at); err != nil {
		return err
	}
	return m.f.SyncData()
}

// grow writes a file with larger slots in the place of this one.
func (m *markFile) grow(r reached) error {
	slot := max(m.slot*2, slotFor(len(r.numbers), len(m.names.bytes)))
	if err := writeNewMark(m.fs, m.path, m.store, r, slot, m.generation+1); err != nil {
		return err
	}
	f, err := m.fs.OpenReadWrite(m.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	old := m.f
	m.f, m.slot, m.generation, m.named = f, slot, m.generation+1, [2]int{}
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

// A slot of the mark's file, as it is written:
//
//	"DTEMARK1" · generation u64 · store [16] · count u32 · bytes of the names u32 · CRC-32C of the names u32 ·
//	count × number u64 · CRC-32C of all before it u32
//
// and the names, count × (length u8 · name), at the very end of the slot. A series keeps its place in the mark for as
// long as the process runs. Names are therefore written when a series begins, and the write behind a sale has the
// numbers alone.
const (
	markMagic    = "DTEMARK1"
	markHeader   = len(markMagic) + 8 + 16 + 4 + 4 + 4
	firstSlot    = 64 << 10 // 2,200 series with names of 20 bytes
	largestSlot  = 64 << 20
	slotChecksum = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// reached is how far each series got: number i is of series name i.
type reached struct {
	names   []string
	numbers []uint64
}

// head returns the same as a Head. Of what the mark says, one number more may have been given: number n is acknowledged
// once the mark says n-1.
func (r reached) head(store [16]byte) *Head {
	h := numbersHead(store, nil, 1)
	for i, n := range r.numbers {
		if n > 0 {
			h.Series[r.names[i]] = Reach{Last: n}
		}
	}
	return h
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

// decodeMark reads a whole slot.
func decodeMark(slot []byte) (generation uint64, store [16]byte, said reached, ok bool) {
	if string(slot[:len(markMagic)]) != markMagic {
		return 0, store, said, false
	}
	c := cursor{b: slot[len(markMagic):]}
	generation = c.u64()
	copy(store[:], c.take(16))
	count, length, sum := int(c.u32()), int(c.u32()), c.u32()
	end := markHeader + 8*count
	if count > largestSlot/8 || length > largestSlot || end+slotChecksum+length > len(slot) ||
		crc32.Checksum(slot[:end], castagnoli) != be.Uint32(slot[end:]) {
		return 0, store, said, false
	}
	for range count {
		said.numbers = append(said.numbers, c.u64())
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
