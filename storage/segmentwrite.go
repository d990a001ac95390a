package storage

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// copyLog is a second copy that is being written, by one goroutine at a time.
type copyLog struct {
	turn   chan struct{} // full while the log is in use; see inTurn
	c      *second
	fs     vfs.FS
	dir    string
	store  [16]byte
	state  copyState
	number uint64
	f      vfs.File
	size   uint64
	empty  uint64    // size of a segment that has only its head
	group  uint64    // of the next frames
	fill   position  // where the unfinished fill began; zero: there is none
	reach  copyState // how far the fill has copied
	buf    []byte
	failed error // a write or sync of this segment failed: its content on the medium is unknown

	void     []uint64            // segments that cease to count when this log has caught up
	replaced map[uint64]replaced // see segmentHead
}

// openCopyLog continues this store's log after end, in a new segment. If end is nil, it begins a new log.
//
// The new log begins at the place that the last head names, not at the end of the last segment: nothing has confirmed
// that the bytes after that head are on the medium. If a sync failed, they may be in the kernel's cache only. Readers
// use these bytes until the new log has copied them again.
//
// The number of the new segment is above least.
func (c *second) openCopyLog(store [16]byte, end *logEnd, least uint64) (*copyLog, error) {
	o := &c.s.o
	fs, dir := o.FS, o.SecondCopy
	l := &copyLog{turn: make(chan struct{}, 1), c: c, fs: fs, dir: dir, store: store, number: least,
		state: newCopyState(), replaced: make(map[uint64]replaced)}
	if err := makeParents(fs, fs.PathJoin(dir, "segment")); err != nil {
		return nil, err
	}
	numbers, err := segmentNumbers(fs, dir)
	if err != nil {
		return nil, err
	}
	var after position
	if end != nil {
		l.state, after = end.trusted.clone(), end.after
		maps.Copy(l.replaced, end.replaced)
		if len(end.strange) > 0 {
			if err := setAside(o, [16]byte{}, end.strange); err != nil {
				return nil, err
			}
		}
	}
	for _, n := range numbers {
		_, replaced := l.replaced[n]
		switch {
		case replaced: // replaced, but not removed yet
			l.void = append(l.void, n)
		case n <= after.Segment || end != nil && slices.Contains(end.strange, n):
		case end != nil && n <= end.counts:
			l.void = append(l.void, n)
		default: // torn, or of an unfinished fill
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

// removeVoid removes the segments that the log has copied again.
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

// giveSegment returns the number of a new segment, and notes it before the segment is made. No number is given twice,
// whatever happens to the medium. A restored store may not know the last numbers. Each number is therefore above the
// clock, in Unix seconds; CopyAfter handles a clock that was set back.
func (c *second) giveSegment(least uint64) (uint64, error) {
	row, err := readSegments(&c.s.o, c.s.db, c.s.o.SecondCopy)
	if err != nil {
		return 0, err
	}
	row.Last = max(row.Last, least, uint64(max(0, c.s.o.Now().Unix()))) + 1
	c.s.o.dieOn(setJSON(c.s.db, keySegments, row, pebble.Sync), "noting the number of a segment")
	return row.Last, nil
}

// segmentsRow is the store's note about its second copy: the number of the last segment, and the folder last seen on
// another device than the store's, or "".
type segmentsRow struct {
	Last   uint64
	Folder string
}

// readSegments returns the segmentsRow for a copy in a folder. ErrNotMounted if the folder was on another device than
// the store and is on the store's now: the medium is not mounted, and a copy would be lost together with the store.
func readSegments(o *Options, r pebble.Reader, folder string) (row segmentsRow, err error) {
	if row, err = readJSON[segmentsRow](r, keySegments); err != nil {
		return row, err
	}
	own, err := deviceOf(o.FS, o.Dir)
	if err != nil {
		return row, err
	}
	there, err := deviceOf(o.FS, folder)
	switch {
	case err != nil:
		return row, err
	case there != own:
		row.Folder = folder
	case row.Folder == folder:
		return row, fmt.Errorf("%w: %s lies on the store's own disk now", ErrNotMounted, folder)
	}
	return row, nil
}

// deviceOf returns the device that a path lies on, or would lie on.
func deviceOf(fs vfs.FS, path string) (vfs.DeviceID, error) {
	for {
		info, err := fs.Stat(path)
		above := fs.PathDir(path)
		switch {
		case err == nil:
			return info.DeviceID(), nil
		case !errors.Is(err, os.ErrNotExist) || above == path:
			return vfs.DeviceID{}, err
		}
		path = above
	}
}

func (l *copyLog) begin(after position) error {
	if f := l.f; f != nil {
		l.f = nil
		if l.failed = f.Close(); l.failed != nil {
			return l.failed
		}
	}
	number, err := l.c.giveSegment(l.number)
	if err != nil {
		return err
	}
	if l.size > 0 { // another card may have been put in
		head, err := readHead(l.fs, l.dir, l.number)
		if errors.Is(err, os.ErrNotExist) || err == nil && head.Store != l.store {
			return errForeign
		}
	}
	l.number = number
	f, err := l.fs.Create(segmentPath(l.fs, l.dir, l.number), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	l.f, l.size, l.group = f, 0, 0
	head := segmentHead{Store: l.store, Number: l.number, After: after, Fill: l.fill, At: l.c.s.o.Now().UnixNano(),
		State: l.state, Replaced: l.replaced}
	if l.fill != (position{}) {
		head.Reached = l.reach
	}
	if err := l.addJSON(frameSegment, head); err != nil {
		return err
	}
	l.empty = uint64(len(l.buf))
	if err := l.flush(); err != nil {
		return err
	}
	return syncDir(l.fs, l.dir)
}

func (l *copyLog) add(kind byte, payload ...[]byte) {
	l.buf = appendFrame(l.buf, l.group, kind, payload...)
}

func (l *copyLog) addJSON(kind byte, v any) error {
	b, err := json.Marshal(v)
	l.add(kind, b)
	return err
}

// addChange adds a frame for a change that the store committed.
func (l *copyLog) addChange(c *change) {
	l.state.noteReached(c.at)
	l.state.Feed = max(l.state.Feed, c.feed)
	l.add(frameChange, c.at.appendTo(nil), be.AppendUint64(nil, c.feed), c.batch)
}

// flush returns when the medium has everything that was added. After an error the segment is not trusted, and the log
// must be opened again.
func (l *copyLog) flush() error {
	if l.failed != nil || len(l.buf) == 0 {
		return l.failed
	}
	if _, l.failed = l.f.Write(l.buf); l.failed == nil {
		l.failed = l.f.Sync()
	}
	if l.failed != nil {
		return l.failed
	}
	l.size += uint64(len(l.buf))
	l.group++
	l.buf = l.buf[:0]
	if cap(l.buf) > 4<<20 {
		l.buf = nil
	}
	if l.size >= l.c.s.o.segment && l.size > l.empty {
		return l.roll()
	}
	return nil
}

// roll ends a segment: the head of the next segment confirms it.
func (l *copyLog) roll() error { return l.begin(position{l.number, l.size}) }

// readBack reads from the medium the segments that this log wrote, from a number (from) on.
func (l *copyLog) readBack(from uint64) error {
	list, err := chain(l.fs, l.dir, l.store, from, position{l.number, l.size}, l.replaced)
	for i := range list {
		if err == nil {
			_, err = checkCounted(l.fs, l.dir, list, i)
		}
	}
	if err != nil {
		l.failed = fmt.Errorf("reading back what was written: %w", err)
	}
	return l.failed
}

// close ends the log. If the log has caught up and no write failed, a last head confirms the written bytes: the next
// log need not copy them again.
func (l *copyLog) close() error {
	if l.f == nil {
		return nil
	}
	var err error
	if l.failed == nil && l.fill == (position{}) && l.size > l.empty && len(l.void) == 0 {
		err = l.roll()
	}
	if l.f != nil {
		err = errors.Join(err, l.f.Close())
	}
	l.f = nil
	return err
}

// The store never deletes a second copy that it cannot continue. It moves the copy into a subfolder (the folder itself
// may be a mount point), named "old-", the date, and the owner. Assemble can read the copy there.

// setAside moves segments of a store into a subfolder "old-". numbers nil means all segments; a zero store means
// unreadable segments. After a crash, the next setAside continues in the same subfolder.
func setAside(o *Options, store [16]byte, numbers []uint64) error {
	fs, dir, whose := o.FS, o.SecondCopy, "unreadable"
	if store != ([16]byte{}) {
		whose = hex.EncodeToString(store[8:12])
	}
	names, err := fs.List(dir)
	if err == nil && numbers == nil {
		numbers, err = segmentNumbers(fs, dir)
	}
	if err != nil {
		return err
	}
	free := func(name string) bool { // reports whether no file would be overwritten
		return !slices.ContainsFunc(numbers, func(n uint64) bool {
			_, err := fs.Stat(segmentPath(fs, fs.PathJoin(dir, name), n))
			return err == nil
		})
	}
	name := fmt.Sprintf("old-%s-%s", o.Now().UTC().Format("20060102-150405"), whose)
	if i := slices.IndexFunc(names, func(n string) bool {
		return strings.HasPrefix(n, "old-") && strings.HasSuffix(n, "-"+whose) && free(n)
	}); i >= 0 {
		name = names[i]
	}
	for !free(name) {
		name += "-again"
	}
	to := fs.PathJoin(dir, name)
	err = errors.Join(fs.MkdirAll(to, 0o700), syncDir(fs, dir))
	slices.Sort(numbers) // move the last segment last: its head names the store
	for _, n := range numbers {
		if path := segmentPath(fs, dir, n); err == nil {
			err = fs.Rename(path, fs.PathJoin(to, fs.PathBase(path)))
		}
	}
	if err == nil {
		err = errors.Join(syncDir(fs, to), syncDir(fs, dir))
	}
	if err != nil {
		return fmt.Errorf("setting the old copy aside: %w", err)
	}
	o.Logger.Warn("an old second copy was set aside, and a new one is begun", "path", to, "segments", len(numbers))
	return nil
}

// roomFor refuses to begin a new copy while old copies take space and less than twice the store's size is free: a new
// copy takes about two and a half times the store's size.
func (c *second) roomFor() error {
	fs, dir := c.s.o.FS, c.s.o.SecondCopy
	need := 2 * c.s.db.Metrics().DiskSpaceUsage()
	usage, err := fs.GetDiskUsage(dir)
	names, bad := fs.List(dir)
	if err != nil || bad != nil || usage.AvailBytes >= need {
		return nil // if the medium has an error, the first write will return it
	}
	for _, n := range names {
		if strings.HasPrefix(n, "old-") {
			return fmt.Errorf("%d bytes are free on the medium and a new copy needs %d: move %s to another medium",
				usage.AvailBytes, need, fs.PathJoin(dir, n))
		}
	}
	return nil
}
