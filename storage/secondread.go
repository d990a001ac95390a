package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// segment is one that was read, at most as far as it counts.
type segment struct {
	path     string
	head     segmentHead
	headless bool // the head is damaged
	bytes    []byte
}

func segmentName(number uint64) string { return fmt.Sprintf("%010d.copy", number) }

func segmentPath(fs vfs.FS, dir string, number uint64) string {
	return fs.PathJoin(dir, segmentName(number))
}

// mendedName is the file that was written in the place of a damaged segment. It has a number of its own: what was
// shipped of the segment stays what it was, and the file is shipped behind all that is there.
func mendedName(number, of uint64) string { return fmt.Sprintf("%010d-%010d.copy", number, of) }

// segmentFiles lists the files of one segment: its own, then what was written in its place, the latest last.
func segmentFiles(fs vfs.FS, dir string, number uint64) (paths []string, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		if name == segmentName(number) {
			paths = append([]string{fs.PathJoin(dir, name)}, paths...)
		} else if of, ok := segmentOf(name); ok && of == number {
			paths = append(paths, fs.PathJoin(dir, name))
		}
	}
	return paths, nil
}

// segmentOf returns the segment that a file holds; false for any other file.
func segmentOf(name string) (number uint64, ok bool) {
	var own uint64
	if _, err := fmt.Sscanf(name, "%d.copy", &number); err == nil && name == segmentName(number) {
		return number, true
	}
	_, err := fmt.Sscanf(name, "%d-%d.copy", &own, &number)
	return number, err == nil && name == mendedName(own, number)
}

// segmentNumbers lists what lies in the folder, in order.
func segmentNumbers(fs vfs.FS, dir string) (numbers []uint64, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if n, ok := segmentOf(name); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

// errNoSegment: the file is not a segment, as when the power went while it was made.
var errNoSegment = errors.New("not a segment")

// readSegment reads a segment whose head is whole. errNoSegment; ErrCorrupt when the head was whole once; the medium's
// error when it cannot be read.
func readSegment(fs vfs.FS, dir string, number uint64) (*segment, error) {
	s, err := loadSegment(fs, dir, number)
	if err != nil {
		return nil, err
	}
	if s.headless {
		return nil, fmt.Errorf("%w: %s at its begin", ErrCorrupt, s.path)
	}
	return s, nil
}

// loadSegment reads a segment also when its head is damaged: it has no head then.
func loadSegment(fs vfs.FS, dir string, number uint64) (*segment, error) {
	s := &segment{path: segmentPath(fs, dir, number)}
	files, err := segmentFiles(fs, dir, number)
	if err != nil {
		return nil, err
	}
	if len(files) > 0 {
		s.path = files[len(files)-1]
	}
	if s.bytes, err = readMedium(fs, s.path); err != nil {
		return nil, err
	}
	f, ok := frameAt(s.bytes, 0)
	if ok && f.Kind == frameSegment {
		if s.head, err = decodeSegment(f.Payload); err == nil && s.head.Number == number {
			return s, nil
		}
	}
	if !s.laterGroup(0, 0) {
		return nil, fmt.Errorf("%s: %w", s.path, errNoSegment)
	}
	s.head, s.headless = segmentHead{Number: number}, true
	return s, nil
}

// walk calls fn with every frame up to an offset; 0 is the end. At the very end of the log a group may be torn, and
// counts as not there; anywhere else what cannot be read is ErrCorrupt.
func (s *segment) walk(upTo uint64, fn func(at uint64, f frame) error) (end uint64, err error) {
	last := upTo == 0
	if last {
		upTo = uint64(len(s.bytes))
	}
	group := uint64(0)
	for at := uint64(0); at < upTo; {
		f, ok := frameAt(s.bytes, at)
		if !ok || f.End > upTo {
			if !last || s.laterGroup(at, group+1) {
				return at, fmt.Errorf("%w: %s at byte %d", ErrCorrupt, s.path, at)
			}
			return at, nil
		}
		group = f.Group
		if err := fn(at, f); err != nil {
			return at, err
		}
		at = f.End
	}
	if upTo > uint64(len(s.bytes)) {
		return upTo, fmt.Errorf("%w: %s ends at byte %d, not %d", ErrCorrupt, s.path, len(s.bytes), upTo)
	}
	return upTo, nil
}

// nextFrame finds the next place at which a whole frame begins; false when none does.
func (s *segment) nextFrame(at uint64) (uint64, bool) {
	for {
		i := bytes.Index(s.bytes[min(at+1, uint64(len(s.bytes))):], []byte(frameMagic))
		if i < 0 {
			return 0, false
		}
		at += 1 + uint64(i)
		if _, ok := frameAt(s.bytes, at); ok {
			return at, true
		}
	}
}

// laterGroup tells whether a frame of a group behind the given one follows: then what cannot be read was synced once.
func (s *segment) laterGroup(at, group uint64) bool {
	for {
		next, ok := s.nextFrame(at)
		if !ok {
			return false
		}
		if f, _ := frameAt(s.bytes, next); f.Group > group {
			return true
		}
		at = next
	}
}

// follow keeps a state up to date with what a frame says; fill is where the fill began that is under way.
func (f *frame) follow(state *copyState, fill *position, here position) error {
	c := cursor{b: f.Payload}
	switch f.Kind {
	case frameChange:
		p := c.place()
		feed := c.u64()
		if row, name, ok := seriesIn(c.b); ok && row.Sequence == p.Sequence {
			p.Last, p.Name = row.Last, name
		}
		state.noteReached(p)
		state.Feed = max(state.Feed, feed)
		*fill = position{} // a change is written behind whole fills only
	case frameFill:
		*fill = here
	case frameFilled:
		filled := c.copyState()
		c.names(filled)
		for _, p := range filled.Series {
			state.noteReached(p)
		}
		state.Feed, *fill = max(state.Feed, filled.Feed), position{}
	}
	if c.bad {
		return ErrCorrupt
	}
	return nil
}

// eachRow calls fn with each row of a batch. ErrCorrupt.
func eachRow(repr []byte, fn func(kind pebble.InternalKeyKind, key, value []byte) error) error {
	if len(repr) < batchrepr.HeaderLen {
		return fmt.Errorf("%w: a batch of %d bytes", ErrCorrupt, len(repr))
	}
	r := batchrepr.Read(repr)
	for {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			return errors.Join(ErrCorrupt, err)
		}
		if !ok {
			return nil
		}
		if len(key) == 0 {
			return fmt.Errorf("%w: a row without a key", ErrCorrupt)
		}
		if err := fn(kind, key, value); err != nil {
			return err
		}
	}
}

// seriesIn finds a change's series in its batch.
func seriesIn(repr []byte) (row seriesRow, name string, ok bool) {
	err := eachRow(repr, func(_ pebble.InternalKeyKind, key, value []byte) (err error) {
		if key[0] == tableSeries {
			row, err = decodeSeries(value)
			name, ok = string(key[1:]), err == nil
		}
		return err
	})
	return row, name, ok && err == nil
}

// frames calls fn with every frame that is whole, whatever lies between them, and returns how many bytes do, and how
// many of these lie behind the last whole frame. At the end of the log a group may be torn, as walk has it: what is
// left of it lies behind.
func (s *segment) frames(end bool, fn func(at uint64, f frame) error) (bad, behind uint64, err error) {
	at, group := uint64(0), uint64(0)
	for at < uint64(len(s.bytes)) {
		f, ok := frameAt(s.bytes, at)
		if !ok {
			next, more := s.nextFrame(at)
			if !more || end && !s.laterGroup(at, group+1) {
				behind = uint64(len(s.bytes)) - at
				return bad + behind, behind, nil
			}
			bad, at = bad+next-at, next
			continue
		}
		group = f.Group
		if err := fn(at, f); err != nil {
			return bad, 0, err
		}
		at = f.End
	}
	return bad, 0, nil
}

// CopyChanges counts the changes that a second copy's files hold after a byte of one file; "" and 0: in all files. It
// reads the files as they are, also void parts.
func CopyChanges(ctx context.Context, dir, file string, end int64) (changes int64, err error) {
	fs := vfs.Default
	numbers, err := segmentNumbers(fs, dir)
	if err != nil {
		return 0, err
	}
	for _, number := range numbers {
		name := segmentName(number)
		if name < file {
			continue
		}
		if err := ctx.Err(); err != nil {
			return changes, err
		}
		s, err := loadSegment(fs, dir, number)
		if errors.Is(err, errNoSegment) {
			continue
		}
		if err != nil {
			return changes, err
		}
		_, _, err = s.frames(true, func(at uint64, f frame) error {
			if f.Kind == frameChange && (name > file || at >= uint64(end)) {
				changes++
			}
			return nil
		})
		if err != nil {
			return changes, err
		}
	}
	return changes, nil
}
