package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markFile is the mark on the disk: two slots of equal size, written in turn, so that a torn write leaves the other
// one. The file never changes its length, which makes a sync cheap: no metadata. The slot with the higher generation counts.
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
	names := newNameSection(r.allNames())
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
	return openMarkFileBy(fs, path, func() (vfs.File, error) { return fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified) })
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
		m.names = newNameSection(r.allNames())
	}
	if markHeader+8*len(r.numbers)+slotChecksum+len(m.names.bytes) > m.slot {
		return m.grow(r)
	}
	m.generation++
	at := slotAt(m.slot, m.generation)
	if named := &m.named[slotOf(m.generation)]; *named != m.names.count {
		// If we crash between the two writes, the sum of the names is not what the slot says, and the other slot counts.
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
