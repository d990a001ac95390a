package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// absentOr returns ErrNoStore for a folder that does not exist, and ErrUnreadable for a medium that cannot be read.
func absentOr(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w (%w)", ErrNoStore, err)
	}
	return fmt.Errorf("%w: %w", ErrUnreadable, err)
}

// copyChain is a second copy that is being read.
type copyChain struct {
	dir   string
	store [16]byte
	parts []position // segments in order, each with its end; 0: the end of its last whole frame
	end   *logEnd
	bad   []string // the parts that cannot be read
}

// readCopy finds which segments count, from the last segment backwards. After an unreadable segment it goes on with the
// previous segment in the folder.
func readCopy(fs vfs.FS, dir string) (*copyChain, error) {
	end, err := readEnd(fs, dir)
	switch {
	case err != nil && !errors.Is(err, ErrCorrupt):
		return nil, absentOr(err)
	case err != nil:
		return nil, err
	case end == nil:
		return nil, fmt.Errorf("%w: no segment in %s", ErrNoStore, dir)
	case end.counts == 0 && len(end.told.Series) == 0:
		return nil, fmt.Errorf(
			"%w: the first copy of the store into %s never ended; a folder old-… in it may hold an "+
				"older one", ErrNoStore, dir)
	}
	numbers, err := segmentNumbers(fs, dir)
	if err != nil {
		return nil, err
	}
	c := &copyChain{dir: dir, store: end.store, end: end}
	for _, n := range end.strange {
		c.bad = append(c.bad, fmt.Sprintf("segment %d cannot be read", n))
	}
	at := end.after
	if end.counts != 0 && end.counts >= end.after.Segment {
		at = position{Segment: end.counts}
	}
	for at.Segment != 0 {
		if r, replaced := end.replaced[at.Segment]; replaced {
			at = r.After
			continue
		}
		s, err := loadSegment(fs, dir, at.Segment)
		if err != nil || s.headless || s.head.After.Segment >= at.Segment {
			c.bad = append(c.bad, fmt.Sprintf("segment %d: %v", at.Segment, cmp.Or(err, ErrCorrupt)))
			i, _ := slices.BinarySearch(numbers, at.Segment)
			if err == nil {
				c.parts = append(c.parts, at) // only its head is bad: its frames can be read
			}
			if at = (position{}); i > 0 {
				at.Segment = numbers[i-1]
			}
			continue
		}
		if s.head.Store != c.store {
			break // another store's segment, from before this log
		}
		c.parts = append(c.parts, at)
		at = s.head.After
	}
	slices.Reverse(c.parts)
	for _, n := range slices.Backward(end.strange) { // in order
		if _, err := loadSegment(fs, dir, n); err == nil && n > end.counts {
			c.parts = append(c.parts, position{Segment: n})
		}
	}
	return c, nil
}

// leastChange is less than the size of any change in the log, in bytes. It gives the largest number of changes that
// unreadable bytes at the log's end may have had.
const leastChange = 256

// rows calls fn with each row of one segment, also with the rows around damage. It records in told the end of the
// series according to the segment.
func (c *copyChain) rows(ctx context.Context, fs vfs.FS, part position, told *copyState,
	fn func(key, value []byte) error) error {
	s, err := loadSegment(fs, c.dir, part.Segment)
	if err != nil {
		return fmt.Errorf("%w: segment %d: %w", ErrCorrupt, part.Segment, err)
	}
	size := uint64(len(s.bytes))
	if part.Offset != 0 {
		s.bytes = s.bytes[:min(size, part.Offset)]
	}
	state := newCopyState()
	last := part.Offset == 0 && part.Segment == c.end.counts
	bad, behind, err := s.frames(last, func(_ uint64, f frame) error {
		return cmp.Or(f.follow(&state, new(position), position{}), ctx.Err(), f.rows(fn))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	told.noteAll(s.head.State)
	told.noteAll(state)
	if last {
		bad -= behind // the end of the log may be torn
	}
	if bad > 0 || size < part.Offset {
		c.bad = append(c.bad, fmt.Sprintf("segment %d: %d bytes", part.Segment, max(bad, part.Offset-min(size,
			part.Offset))))
	}
	return nil
}
