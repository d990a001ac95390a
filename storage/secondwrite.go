package storage

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

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
	empty  uint64 // size of a segment that holds its head only
	group  uint64
	fill   position  // where the fill began that is under way
	reach  copyState // how far its rows go
	buf    []byte
	failed bool // a write or a sync of this segment failed: nothing of it is known to be on the medium

	void  []uint64          // segments that count no more once this log has caught up
	sizes map[uint64]uint64 // of the segments that this log has ended
}

// openCopyLog goes on with the log of this store that ends so, nil when there is none, in a new segment.
//
// It goes on where the last head went on, not where the last segment ends: whether what was written behind that head is
// on the medium, nothing has confirmed. A process that was killed after a failed sync would read it from the kernel's
// memory. What lies there counts until it was copied again.
func openCopyLog(o *Options, store [16]byte, end *logEnd) (*copyLog, error) {
	fs, dir := o.FS, o.SecondCopy
	l := &copyLog{fs: fs, dir: dir, store: store, now: o.Now, limit: o.segment, state: copyState{Series: make(map[uint32]place)}, sizes: make(map[uint64]uint64)}
	if err := makeParents(fs, fs.PathJoin(dir, "segment")); err != nil {
		return nil, err
	}
	numbers, err := segmentNumbers(fs, dir)
	if err != nil {
		return nil, err
	}
	var after position
	if len(numbers) > 0 {
		l.number = numbers[len(numbers)-1]
	}
	if end != nil {
		l.state, after = end.trusted.clone(), end.after
		if len(end.strange) > 0 {
			if _, err := setAside(o, end.strange, "unreadable"); err != nil {
				return nil, err
			}
		}
	}
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names { // of a mending that was cut short
		if strings.HasSuffix(name, ".copy.new") {
			if err := fs.Remove(fs.PathJoin(dir, name)); err != nil {
				return nil, err
			}
		}
	}
	for _, n := range numbers {
		switch {
		case n <= after.Segment || end != nil && slices.Contains(end.strange, n):
		case end != nil && n <= end.counts:
			l.void = append(l.void, n)
		default: // torn, or of a fill that did not end
			if err := fs.Remove(segmentPath(fs, dir, n)); err != nil {
				return nil, err
			}
		}
	}
	if err := l.begin(after); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// removeVoid removes what the log has copied again.
func (l *copyLog) removeVoid() error {
	for _, n := range l.void {
		if err := l.fs.Remove(segmentPath(l.fs, l.dir, n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if len(l.void) == 0 {
		return nil
	}
	l.void = nil
	return syncDir(l.fs, l.dir)
}

// begin makes the next segment.
func (l *copyLog) begin(after position) error {
	if l.f != nil {
		l.sizes[l.number] = l.size
		if err := l.f.Close(); err != nil {
			l.f, l.failed = nil, true
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
	head := segmentHead{Store: l.store, Number: l.number, After: after, Fill: l.fill, At: l.now().UnixNano(), State: l.state, Reached: l.reach}
	l.add(frameSegment, head.encode())
	if err := l.flush(); err != nil {
		return err
	}
	l.empty = l.size
	return syncDir(l.fs, l.dir)
}

// add puts a frame into the group that flush writes.
func (l *copyLog) add(kind byte, payload ...[]byte) {
	l.buf = appendFrame(l.buf, l.group, kind, payload...)
}

// addChange is what add is for a change that the store committed.
func (l *copyLog) addChange(c *change) {
	l.state.noteReached(c.at)
	l.state.Feed = max(l.state.Feed, c.feed)
	l.add(frameChange, c.at.encode(nil), be.AppendUint64(nil, c.feed), c.batch)
}

// flush returns when the medium has everything that was added. After an error nothing of the segment is trusted, and the
// log is to be opened anew.
func (l *copyLog) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	if _, err := l.f.Write(l.buf); err != nil {
		l.failed = true
		return err
	}
	if err := l.f.Sync(); err != nil {
		l.failed = true
		return err
	}
	l.size += uint64(len(l.buf))
	l.group++
	l.buf = l.buf[:0]
	if cap(l.buf) > 4<<20 {
		l.buf = nil
	}
	if l.size >= l.limit {
		return l.roll()
	}
	return nil
}

// roll ends a segment: the head of the next one confirms it.
func (l *copyLog) roll() error { return l.begin(position{l.number, l.size}) }

// readBack reads from the medium what this log wrote since it was opened.
func (l *copyLog) readBack(from uint64) error {
	for n := from; n <= l.number; n++ {
		size, ended := l.sizes[n]
		if !ended {
			size = l.size
		}
		s, err := readSegment(l.fs, l.dir, n)
		if err == nil {
			_, err = s.walk(size, func(uint64, frame) error { return nil })
		}
		if err != nil {
			l.failed = true
			return fmt.Errorf("reading back what was written: %w", err)
		}
	}
	return nil
}

// close ends the log. When all is well, a last head confirms what was written, so that it need not be copied again.
func (l *copyLog) close() error {
	if l.f == nil {
		return nil
	}
	var err error
	if !l.failed && l.fill == (position{}) && l.size > l.empty && len(l.void) == 0 {
		err = l.roll()
	}
	if l.f != nil {
		err = errors.Join(err, l.f.Close())
	}
	l.f = nil
	return err
}
