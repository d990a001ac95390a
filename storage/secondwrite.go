package storage

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// copyLog is a second copy that is being written. It belongs to one goroutine.
type copyLog struct {
	fs     vfs.FS
	dir    string
	store  [16]byte
	now    func() time.Time
	limit  uint64 // of a segment, bytes
	state  copyState
	number uint64
	f      vfs.File
	size   uint64
	group  uint64
	fill   position // where the fill began that is under way
	buf    []byte
}

// errConflict: what lies there is not this store's copy, or says more than the store. It may be all that is left of
// something, and is not touched.
var errConflict = errors.New("the second copy belongs to another history; move it away, and a new one is begun")

// openCopyLog goes on with the log in a folder, or begins one, in a new segment. check refuses a log by what it holds.
func openCopyLog(o *Options, store [16]byte, check func(copyState) error) (*copyLog, error) {
	fs, dir := o.FS, o.SecondCopy
	l := &copyLog{fs: fs, dir: dir, store: store, now: o.Now, limit: o.segment, state: copyState{Series: make(map[uint32]place)}}
	if err := makeParents(fs, fs.PathJoin(dir, "segment")); err != nil {
		return nil, err
	}
	numbers, err := segmentNumbers(fs, dir)
	if err != nil {
		return nil, err
	}
	var after position
	for len(numbers) > 0 {
		l.number = max(l.number, numbers[len(numbers)-1])
		s, err := readSegment(fs, dir, numbers[len(numbers)-1])
		if errors.Is(err, errNoSegment) { // the power went while it was made
			numbers = numbers[:len(numbers)-1]
			continue
		}
		if err != nil {
			return nil, err
		}
		if s.head.Store != store {
			return nil, errConflict
		}
		if l.state, after, err = s.tail(); err != nil && !errors.Is(err, ErrCorrupt) {
			return nil, err // damage at the end is mended: what is behind it is copied again
		}
		break
	}
	if err := check(l.state); err != nil {
		return nil, err
	}
	if err := l.begin(after); err != nil {
		return nil, errors.Join(err, l.close())
	}
	for n := after.Segment + 1; n < l.number; n++ { // void: torn, or of a fill that did not end
		if err := fs.Remove(segmentPath(fs, dir, n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

// begin makes the next segment.
func (l *copyLog) begin(after position) error {
	if l.f != nil {
		if err := l.f.Close(); err != nil {
			return err
		}
		l.f = nil
	}
	l.number++
	path := segmentPath(l.fs, l.dir, l.number)
	f, err := l.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	l.f, l.size, l.group = f, 0, 0
	head := segmentHead{Store: l.store, Number: l.number, After: after, Fill: l.fill, At: l.now().UnixNano(), State: l.state}
	l.add(frameSegment, head.encode())
	if err := l.flush(); err != nil {
		return err
	}
	return syncDir(l.fs, l.dir)
}

// add puts a frame into the group that flush writes.
func (l *copyLog) add(kind byte, payload ...[]byte) {
	l.buf = appendFrame(l.buf, l.group, kind, payload...)
}

// addChange is what add is for a change that the store committed.
func (l *copyLog) addChange(c *change) {
	l.state.Series[c.at.Sequence] = c.at
	l.state.Feed = max(l.state.Feed, c.feed)
	l.add(frameChange, c.at.encode(nil), be.AppendUint64(nil, c.feed), c.batch)
}

// flush returns when the medium has everything that was added.
func (l *copyLog) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	if _, err := l.f.Write(l.buf); err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		return err
	}
	l.size += uint64(len(l.buf))
	l.group++
	l.buf = l.buf[:0]
	if cap(l.buf) > 4<<20 {
		l.buf = nil
	}
	if l.size >= l.limit {
		return l.begin(position{l.number, l.size})
	}
	return nil
}

func (l *copyLog) close() error {
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

// fillFrom copies what the store has and the log has not, as of one moment. It ends with flush; a fill that did not is
// void.
func (l *copyLog) fillFrom(db *pebble.DB, stop func() error) error {
	snapshot := db.NewSnapshot()
	err := l.fillSnapshot(db, snapshot, stop)
	return errors.Join(err, snapshot.Close())
}

func (l *copyLog) fillSnapshot(db *pebble.DB, r *pebble.Snapshot, stop func() error) error {
	// A snapshot shows what is not durable yet; behind this line it is. The copy must not know more than the store.
	if err := db.LogData(nil, pebble.Sync); err != nil {
		return err
	}
	series, err := readAllSeries(r)
	if err != nil {
		return err
	}
	filled := copyState{Series: maps.Clone(l.state.Series), Feed: l.state.Feed}
	f := &filler{log: l, r: r, b: db.NewBatch(), stop: stop}
	defer func() { _ = f.b.Close() }() // memory only
	for _, name := range sortedNames(series) {
		row := series[name]
		from := l.state.Series[row.Sequence]
		if from.Position == row.Position {
			continue
		}
		if f.begun == (position{}) {
			if err := f.begin(); err != nil {
				return err
			}
		}
		err := scan(r, journalKey(row.Sequence, from.Position+1), journalKey(row.Sequence, row.Position+1), f.link)
		if err != nil {
			return fmt.Errorf("series %q: %w", name, err)
		}
		set(f.b, seriesKey(name), row.encode())
		filled.Series[row.Sequence] = place{row.Sequence, row.Position, row.Hash}
	}
	if f.begun == (position{}) {
		return nil
	}
	// Announcements get their numbers before they are durable: some may lie below the highest one.
	const reorder = 10_000
	err = scan(r, feedKey(l.state.Feed-min(l.state.Feed, reorder)), []byte{tableFeed + 1}, func(key, value []byte) error {
		filled.Feed = max(filled.Feed, be.Uint64(key[1:]))
		return f.set(key, value)
	})
	if err == nil {
		err = f.flush()
	}
	if err != nil {
		return err
	}
	l.state, l.fill = filled, position{}
	l.add(frameFilled, filled.encode(nil))
	return l.flush()
}

// filler turns links of the journal into the rows that they left.
type filler struct {
	log   *copyLog
	r     pebble.Reader
	b     *pebble.Batch
	stop  func() error
	begun position
}

func (f *filler) begin() error {
	l := f.log
	f.begun = position{l.number, l.size}
	l.fill = f.begun
	l.add(frameFill)
	return l.flush()
}

// fillChunk is how much is written and synced at once, in bytes.
const fillChunk = 1 << 20

func (f *filler) set(key, value []byte) error {
	set(f.b, key, value)
	if f.b.Len() < int(min(fillChunk, f.log.limit)) {
		return nil
	}
	return f.flush()
}

func (f *filler) flush() error {
	if err := f.stop(); err != nil {
		return err
	}
	if f.b.Empty() {
		return nil
	}
	f.log.add(frameRows, f.b.Repr())
	f.b.Reset()
	return errors.Join(f.log.flush(), f.stop()) // the store may be gone when a medium has hung
}

// copyRow adds a row as it stands, if it is there.
func (f *filler) copyRow(key []byte) error {
	value, err := get(f.r, key)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.set(key, value)
}

// link adds what one link speaks of; the entry, and what follows from it, only with its latest link.
func (f *filler) link(key, value []byte) error {
	l, err := decodeLink(value)
	if err != nil {
		return err
	}
	if err := f.set(key, value); err != nil {
		return err
	}
	sequence, at := be.Uint32(key[1:]), be.Uint64(key[5:])
	if l.Op == opSkip {
		return f.copyRow(lostKey(sequence, at))
	}
	for _, p := range l.Parts {
		if err := f.copyRow(partKey(l.ID, p.Name)); err != nil {
			return err
		}
	}
	for _, c := range l.Counters {
		if err := f.copyRow(counterKey(c.Origin, c.Line)); err != nil {
			return err
		}
	}
	row, err := get(f.r, entryKey(l.ID))
	if err != nil {
		return err
	}
	e, err := decodeEntry(l.ID, row)
	if err != nil || e.Changed != at {
		return err
	}
	if err := f.set(entryKey(l.ID), row); err != nil {
		return err
	}
	if e.Idempotency != nil {
		if err := f.copyRow(idemKey(e.Idempotency.Key)); err != nil {
			return err
		}
	}
	if due := e.due(); due != nil {
		if err := f.set(due, nil); err != nil {
			return err
		}
	}
	return f.copyRow(codeKey(e.Code))
}
