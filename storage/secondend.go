package storage

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logEnd is what a second copy says at its end, and where its writer goes on.
type logEnd struct {
	store   [16]byte
	told    copyState // everything that can be read at the end
	trusted copyState // without the segment that was written last: nothing has confirmed it
	after   position  // where trusted ends
	counts  uint64    // the segment in which what readState read ends. What lies behind it is void; 0: everything is
	last    uint64    // the highest number of a file
	unread  uint64    // bytes behind what readState read that cannot be read
	strange []uint64  // segments behind counts that cannot be read: nobody knows what they hold
}

// readEnd finds where a second copy ends. Nil when there is none.
func readEnd(fs vfs.FS, dir string) (*logEnd, error) {
	numbers, err := segmentNumbers(fs, dir)
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	e := &logEnd{last: numbers[len(numbers)-1]}
	found := false
	var faults []error
	for i := len(numbers) - 1; i >= 0; i-- {
		s, err := loadSegment(fs, dir, numbers[i])
		switch {
		case errors.Is(err, errNoSegment): // the power went while it was made
			continue
		case err != nil || s.headless:
			if e.strange = append(e.strange, numbers[i]); !found {
				e.unread += sizeOf(fs, segmentPath(fs, dir, numbers[i]))
				faults = append(faults, fmt.Errorf("segment %d: %w", numbers[i], cmp.Or(err, ErrCorrupt)))
			}
			continue
		case !found:
			found, e.store = true, s.head.Store
			e.trusted, e.told = s.head.State, s.head.State.clone()
			if e.after = s.head.After; s.head.Fill != (position{}) {
				e.after = s.head.Fill
			}
		case s.head.Store != e.store:
			return e, nil // what lies before is another's
		}
		state, pending, behind, err := s.readState()
		if err != nil {
			return nil, err
		}
		if pending {
			continue // a fill that did not end: the log ends before it
		}
		for _, p := range state.Series {
			if p.Position >= e.told.Series[p.Sequence].Position {
				e.told.noteReached(p)
			}
		}
		e.told.Feed = max(e.told.Feed, state.Feed)
		if e.counts = numbers[i]; e.after.Segment != e.counts {
			e.unread += behind
		}
		return e, nil
	}
	if !found && len(faults) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, errors.Join(faults...))
	}
	if !found {
		return nil, nil
	}
	return e, nil
}

func sizeOf(fs vfs.FS, path string) uint64 {
	info, err := fs.Stat(path)
	if err != nil {
		return 0
	}
	return uint64(max(info.Size(), 0))
}

// readState reads what a segment says, around damage too; pending tells whether it ends within a fill, behind how many bytes
// at its end cannot be read.
func (s *segment) readState() (state copyState, pending bool, behind uint64, err error) {
	state = s.head.State.clone()
	fill := s.head.Fill
	_, behind, err = s.frames(true, func(at uint64, f frame) error {
		if err := f.follow(&state, &fill, position{s.head.Number, at}); err != nil {
			return fmt.Errorf("%w: %s at byte %d", err, s.path, at)
		}
		return nil
	})
	return state, fill != (position{}), behind, err
}
