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

// absentOr returns ErrNoStore for a folder that does not exist, and ErrUnreadable for a medium that does not say.
func absentOr(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w (%w)", ErrNoStore, err)
	}
	return fmt.Errorf("%w: %w", ErrUnreadable, err)
}

// copyChain is a second copy, as it is read.
type copyChain struct {
	dir   string
	store [16]byte
	parts []position // segments in order, each with where it ends; 0: where what is whole ends
	size  int64
	end   *logEnd
	bad   []string // what cannot be read of it
}

// readCopy finds which segments count, from the last one backwards. Where one cannot be read, the one before it in the
// folder is the next.
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
		s, err := loadSegment(fs, dir, at.Segment)
		if err != nil || s.headless || s.head.After.Segment >= at.Segment {
			c.bad = append(c.bad, fmt.Sprintf("segment %d: %v", at.Segment, cmp.Or(err, ErrCorrupt)))
			i, _ := slices.BinarySearch(numbers, at.Segment)
			if err == nil {
				c.parts = append(c.parts, at) // its frames can be read
			}
			if at = (position{}); i > 0 {
				at.Segment = numbers[i-1]
			}
			continue
		}
		if s.head.Store != c.store {
			break // another's, before this log began
		}
		if s.head.Mended {
			at.Offset = 0
		}
		c.parts = append(c.parts, at)
		c.size += int64(len(s.bytes))
		at = s.head.After
	}
	slices.Reverse(c.parts)
	for _, n := range slices.Backward(end.strange) { // in order
		if s, err := loadSegment(fs, dir, n); err == nil && n > end.counts {
			c.parts = append(c.parts, position{Segment: n})
			c.size += int64(len(s.bytes))
		}
	}
	return c, nil
}

// leastChange is less than what a change takes in the log, in bytes: so many of them may have been where bytes at its
// end cannot be read.
const leastChange = 256

// replay calls write with every batch that one segment holds, around damage too; filled: of rows as they stood.
func (c *copyChain) replay(ctx context.Context, fs vfs.FS, part position, told *copyState, row *restoredRow, p *meter,
	write func(repr []byte, filled bool) error) error {
	s, err := loadSegment(fs, c.dir, part.Segment)
	if err != nil {
		return fmt.Errorf("%w: segment %d: %w", ErrCorrupt, part.Segment, err)
	}
	row.Taken = max(row.Taken, s.head.At)
	size := uint64(len(s.bytes))
	if part.Offset != 0 {
		s.bytes = s.bytes[:min(size, part.Offset)]
	}
	var fill position
	state := copyState{Series: make(map[uint32]place)}
	last := part.Offset == 0 && part.Segment == c.end.counts
	bad, behind, err := s.frames(last, func(at uint64, f frame) error {
		p.add(int64(f.End - at))
		if err := errors.Join(f.follow(&state, &fill, position{}), ctx.Err()); err != nil {
			return err
		}
		switch f.Kind {
		case frameChange:
			c := cursor{b: f.Payload}
			c.place()
			c.u64() // the announcement is in the batch
			return write(c.b, false)
		case frameRows:
			return write(f.Payload, true)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	for _, list := range []copyState{s.head.State, state} {
		for _, reached := range list.Series {
			if reached.Position >= told.Series[reached.Sequence].Position {
				told.noteReached(reached)
			}
		}
	}
	if last {
		bad -= behind // the end of the log may be torn
	}
	if bad > 0 || size < part.Offset {
		c.bad = append(c.bad, fmt.Sprintf("segment %d: %d bytes", part.Segment, max(bad, part.Offset-min(size,
			part.Offset))))
	}
	return nil
}
