package storage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mark is the high-water mark: the last durable number of every series, kept and synced outside of the store. A store
// that lost acknowledged records (damaged log, old backup, wrong disk) is behind its mark and gives no number.
//
// The mark is written in the background, after the store: it has a higher number only if the store has lost records.
// Number n is acknowledged once the mark is at n-1 or more.
//
// The mark also contains the names of the series. Therefore its numbers belong to the same series in every store of the
// family, for example to two stores restored one after the other from the same backup.
type mark struct {
	o       *Options
	metrics *metrics
	store   [16]byte
	file    *markFile
	kick    chan struct{} // one element: the mark must be written
	stopped chan struct{} // closed when the writer has ended
	opened  uint64        // the file's generation at Open
	proved  atomic.Int64  // Unix ns, see ProveMark

	mu    sync.Mutex
	wrote sync.Cond
	known map[string]Reach // of each series: its sequence id, and the highest number durable in the store or the file
	said  map[string]Reach // like known, but durable in the file
	busy  bool             // the writer is writing
}

// openMark compares the file with the store's numbers, updates the file and starts the mark's writer.
//
// The mark may have higher numbers than the store, and keeps them until the store reaches them. A restored store whose
// mark is lost gets a new mark. Until Settle that mark shows only the store's family: if the store is lost too, the
// mark bounds no number.
//
// Series that the file names and the store lacks get a sequence id in names.
func openMark(o *Options, m *metrics, j *markJudge, names *names) (*mark, error) {
	file, err := openMarkFile(o.FS, o.MarkPath, true)
	if errors.Is(err, errNoMark) && j.restored != nil && j.restored.MarkLost {
		if err := j.writeNew(o, j.newLine()); err != nil {
			return nil, err
		}
		file, err = openMarkFile(o.FS, o.MarkPath, true)
	}
	state := j.judge(o.MarkPath, file, err)
	switch {
	case file == nil:
		return nil, j.refuse(o, state)
	case state.Kind != MarkSound && state.Kind != MarkAhead:
		return nil, errors.Join(j.refuse(o, state), file.close())
	}
	k := &mark{o: o, metrics: m, store: file.said.Store, file: file, known: make(map[string]Reach),
		kick: make(chan struct{}, 1), stopped: make(chan struct{})}
	k.wrote.L = &k.mu
	if j.restored != nil && (j.restored.MarkLost || file.torn) { // name the family only: this mark bounds no number
		clear(k.store[8:])
	}
	for _, name := range file.said.bySequence() { // a mark's numbers never fall
		k.raise(place{Reach{Sequence: names.sequenceOf(name), Last: file.said.Series[name].Last}, name})
	}
	// The mark of a restored store keeps its own numbers until Settle has compared them with the store's.
	if j.restored == nil {
		for name, row := range j.series {
			k.raise(place{row, name})
		}
	}
	// Write the mark even if nothing changed: the previous process may have ended because a sync of the mark failed.
	// The content read here may then be in Linux's cache only.
	if err := file.write(markHead(k.store, k.known)); err != nil {
		return nil, errors.Join(fmt.Errorf("writing mark %s: %w", o.MarkPath, err), file.close())
	}
	k.said = maps.Clone(k.known)
	k.opened = file.generation.Load()
	k.proved.Store(o.Now().UnixNano())
	go k.run()
	return k, nil
}

// raise raises the number of a series, and reports whether the former number was lower.
func (m *mark) raise(p place) bool {
	if m.known[p.Name].Last >= p.Last {
		return false
	}
	m.known[p.Name] = Reach{Sequence: p.Sequence, Last: p.Last}
	return true
}

// compareMark returns ErrMark when the mark is another store's, or has a higher number than the store.
func compareMark(here, marked *Head) error {
	if marked.Store != here.Store {
		return fmt.Errorf("%w: the mark is of store %x, this is store %x", ErrMark, marked.Store, here.Store)
	}
	_, list, err := Relate(here, marked)
	for _, l := range list {
		if l.There > l.Here {
			return fmt.Errorf("%w: series %s ends at number %d, the mark says %d", ErrMark, l.Series, l.Here, l.There)
		}
	}
	return err
}

// note passes rows to the writer. They are durable in the store.
func (m *mark) note(rows []place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := false
	for _, row := range rows {
		news = m.raise(row) || news
	}
	if news {
		signal(m.kick)
	}
}

// signal puts an element into the channel if it is empty.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait returns when the file durably has the number or a higher number.
func (m *mark) wait(series string, number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.said[series].Last < number {
		m.wrote.Wait()
	}
}

// run writes new numbers, of all series at once, as fast as the disk allows.
func (m *mark) run() {
	defer close(m.stopped)
	for range m.kick {
		m.mu.Lock()
		if now := markHead(m.store, maps.Clone(m.known)); !maps.Equal(now.Series, m.said) {
			m.busy = true
			m.mu.Unlock()
			start := m.o.Now()
			if err := m.file.write(now); err != nil {
				// Without the mark no record may be acknowledged, and the durable records under way cannot be refused.
				m.o.die("writing mark %s: %v", m.o.MarkPath, err)
				return
			}
			m.metrics.mark.Observe(m.o.Now().Sub(start).Seconds())
			m.mu.Lock()
			m.said, m.busy = now.Series, false
			m.wrote.Broadcast()
		}
		m.mu.Unlock()
	}
}

// renew gives the mark to another store, or to the same store after a restoration, with that store's numbers. Nobody
// may append meanwhile.
func (m *mark) renew(store [16]byte, series map[string]Reach) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.busy { // otherwise the writer would write the old numbers again
		m.wrote.Wait()
	}
	m.store, m.known = store, make(map[string]Reach)
	for name, row := range series {
		m.raise(place{row, name})
	}
	m.o.dieOn(m.file.write(markHead(store, m.known)), "writing mark %s", m.o.MarkPath)
	m.said = maps.Clone(m.known)
}

// close ends the writer after its last write. note must not be called after close.
func (m *mark) close() error {
	close(m.kick) // the writer still gets the last element
	<-m.stopped
	return m.file.close()
}

// proofTries limits how often one proof reads the mark: during two writes, a read may find both slots torn.
const proofTries = 3

// ProveMark opens the mark's file by its path, as the next start will, and compares it with what was written: a running
// store does not notice that its mark was deleted, or that the medium was unmounted or has become read-only. ErrMark if
// the next start would refuse the mark. If the medium hangs, ProveMark waits.
func (s *Store) ProveMark() error {
	if s.mark == nil {
		return fmt.Errorf("proving the mark: %w", ErrReadOnly)
	}
	if _, err := s.mark.prove(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMark, s.o.MarkPath, err)
	}
	s.mark.proved.Store(s.o.Now().UnixNano())
	return nil
}

// MarkProved returns when Open or ProveMark last found the mark's file sound; zero in a read-only store.
func (s *Store) MarkProved() time.Time {
	if s.mark == nil {
		return time.Time{}
	}
	return time.Unix(0, s.mark.proved.Load()).UTC()
}

// durable returns the numbers that were written to the file.
func (m *mark) durable() *Head {
	m.mu.Lock()
	defer m.mu.Unlock()
	return markHead(m.store, maps.Clone(m.said))
}

// prove reads the file and returns its numbers, with an error if a number is lower than the number written.
func (m *mark) prove() (said *Head, err error) {
	least := m.durable()
	for range proofTries {
		if said, err = readMark(m.o.FS, m.o.MarkPath, true); err == nil {
			err = compareMark(said, least)
		}
		if err == nil {
			break
		}
	}
	return said, err
}

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
	slot       int           // length of a slot, in bytes
	generation atomic.Uint64 // on the disk; only the writing goroutine uses the other fields
	torn       bool          // the other slot is damaged: it may have held the newer generation
	buf        []byte
}

const (
	markMagic   = "DTEMARK1"
	firstSlot   = 64 << 10 // bytes: 1,984 series with names of 20 bytes
	largestSlot = 64 << 20
)

var (
	errNoMark  = errors.New("no mark")
	errBadMark = errors.New("mark is unreadable")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// markHead returns the content of a mark: the sequence and last number of each series. One more number may have been
// assigned, because number n is acknowledged once the mark is at n-1.
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

// openMarkFile opens and reads a mark, for writing too if write is set.
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

// readMark returns the content of the file at path. errNoMark: there is no file. write requires that the file is
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
	if m.said != nil && m.torn { // if rot destroyed the slot, all records that waited for it may be acknowledged
		m.said.Slack = maxWaiting
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
