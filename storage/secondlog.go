package storage

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The second copy is a log of segments, files that are only appended to. A frame:
//
//	magic [8] · length of payload u32 · CRC-32C of what follows u32 · group u64 · kind u8 · payload
//
// Frames of one group were written and synced together. A segment begins with a head: how far each series was then, its
// name and last number, and where the log goes on from. What lies behind that place in the segments before it is void.
// A segment is trusted because a later head goes on from it: the segment that was written last may lack what a failed
// sync lost although the kernel still shows it, and is copied again from its head on.
const (
	frameMagic  = "\xd7DTEcpy\x01"
	frameHeader = len(frameMagic) + 4 + 4 + 8 + 1

	frameSegment byte = 1 // segmentHead
	frameChange  byte = 2 // place, and the batch that made the change
	frameFill    byte = 3 // from here on rows, until frameFilled: all of them count, or none
	frameRows    byte = 4 // a batch of rows as they stand
	frameFilled  byte = 5 // copyState, with names

	segmentSize = 16 << 20 // bytes, or a group more
)

// place is how far a series' journal is copied.
type place struct {
	Sequence uint32
	Position uint64
	Hash     [32]byte // of that link
	// Last is the series' last number there, Name its name. The place in a change's frame does not say them: 0 and
	// empty.
	Last uint64
	Name string
}

// copyState is what the log holds.
type copyState struct {
	Series map[uint32]place
	Feed   uint64 // highest announcement
}

func (s copyState) clone() copyState { return copyState{maps.Clone(s.Series), s.Feed} }

// covers tells whether the log holds everything that another one held in that state.
func (s copyState) covers(other copyState) bool {
	for sequence, p := range other.Series {
		if s.Series[sequence].Position < p.Position {
			return false
		}
	}
	return true
}

func (s copyState) encode(b []byte) []byte {
	b = be.AppendUint32(be.AppendUint64(b, s.Feed), uint32(len(s.Series)))
	for _, p := range s.Series {
		b = p.encode(b)
	}
	return b
}

// encodeNames is what encode leaves out.
func (s copyState) encodeNames(b []byte) []byte {
	b = be.AppendUint32(b, uint32(len(s.Series)))
	for _, p := range s.Series {
		b = be.AppendUint64(be.AppendUint32(b, p.Sequence), p.Last)
		b = append(append(b, byte(len(p.Name))), p.Name...)
	}
	return b
}

// names adds what encodeNames has written to a state.
func (c *cursor) names(s copyState) {
	for n := c.u32(); n > 0 && !c.bad; n-- {
		p := s.Series[c.u32()]
		p.Last = c.u64()
		p.Name = string(c.take(int(c.u8())))
		if p.Sequence != 0 {
			s.Series[p.Sequence] = p
		}
	}
}

// noteReached notes that a series got there.
func (s copyState) noteReached(p place) {
	old := s.Series[p.Sequence]
	p.Last, p.Name = max(p.Last, old.Last), cmp.Or(p.Name, old.Name)
	s.Series[p.Sequence] = p
}

func (p place) encode(b []byte) []byte {
	return append(be.AppendUint64(be.AppendUint32(b, p.Sequence), p.Position), p.Hash[:]...)
}

func (c *cursor) place() (p place) {
	p.Sequence, p.Position = c.u32(), c.u64()
	copy(p.Hash[:], c.take(32))
	return p
}

func (c *cursor) copyState() copyState {
	s := copyState{Series: make(map[uint32]place), Feed: c.u64()}
	for n := c.u32(); n > 0 && !c.bad; n-- {
		p := c.place()
		s.Series[p.Sequence] = p
	}
	return s
}

// begin and end are how far a segment's rows begin and the one before it ends.
func (h *segmentHead) begin() copyState {
	if h.Fill != (position{}) {
		return h.Reached
	}
	return h.State
}

// position is a place in the log.
type position struct{ Segment, Offset uint64 }

// segmentHead is a segment's first frame.
type segmentHead struct {
	Store  [16]byte
	Number uint64
	After  position // where the log goes on from; zero: it begins here
	Fill   position // where the fill began that is under way; zero: none is
	At     int64    // Unix ns
	State  copyState
	// Reached is how far the rows of the fill that is under way go, link by link.
	Reached copyState
	Mended  bool // written anew from the store: its length is not the one that the next head says
}

func (h *segmentHead) encode() []byte {
	b := append([]byte{rowVersion}, h.Store[:]...)
	for _, n := range []uint64{h.Number, h.After.Segment, h.After.Offset, h.Fill.Segment, h.Fill.Offset, uint64(h.At)} {
		b = be.AppendUint64(b, n)
	}
	b = h.State.encodeNames(h.State.encode(b))
	if h.Fill != (position{}) {
		b = h.Reached.encode(b)
	}
	if h.Mended {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeSegment(b []byte) (h segmentHead, err error) {
	c := cursor{b: b}
	c.version()
	copy(h.Store[:], c.take(16))
	h.Number = c.u64()
	h.After = position{c.u64(), c.u64()}
	h.Fill = position{c.u64(), c.u64()}
	h.At = int64(c.u64())
	h.State = c.copyState()
	c.names(h.State)
	if h.Fill != (position{}) {
		h.Reached = c.copyState()
	}
	h.Mended = c.u8() == 1
	return h, c.end("segment")
}

// frame is one frame of a segment that was read.
type frame struct {
	Kind    byte
	Group   uint64
	Payload []byte
	End     uint64 // offset behind it
}

func appendFrame(b []byte, group uint64, kind byte, payload ...[]byte) []byte {
	start := len(b)
	b = append(b, frameMagic...)
	b = append(b, make([]byte, 8)...)
	b = append(be.AppendUint64(b, group), kind)
	for _, p := range payload {
		b = append(b, p...)
	}
	head := b[start+len(frameMagic):]
	be.PutUint32(head, uint32(len(head)-(frameHeader-len(frameMagic))))
	be.PutUint32(head[4:], crc32.Checksum(head[8:], castagnoli))
	return b
}

// frameAt reads the frame at an offset; false when none that is whole begins there.
func frameAt(b []byte, offset uint64) (f frame, ok bool) {
	if uint64(len(b)) < offset+uint64(frameHeader) || string(b[offset:offset+8]) != frameMagic {
		return f, false
	}
	head := b[offset+8:]
	end := uint64(frameHeader) + uint64(be.Uint32(head))
	if uint64(len(b)) < offset+end || crc32.Checksum(head[8:end-8], castagnoli) != be.Uint32(head[4:]) {
		return f, false
	}
	return frame{Kind: head[16], Group: be.Uint64(head[8:]), Payload: head[17 : end-8], End: offset + end}, true
}

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
	kind := ErrCorrupt
	for i := len(numbers) - 1; i >= 0; i-- {
		s, err := loadSegment(fs, dir, numbers[i])
		switch {
		case errors.Is(err, errNoSegment): // the power went while it was made
			continue
		case err != nil || s.headless:
			if e.strange = append(e.strange, numbers[i]); !found {
				e.unread += sizeOf(fs, segmentPath(fs, dir, numbers[i]))
				if err != nil {
					kind = ErrUnreadable
				}
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
		return nil, fmt.Errorf("%w: %w", kind, errors.Join(faults...))
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

// readState reads what a segment says, around damage too; pending tells whether it ends within a fill, behind how many
// bytes at its end cannot be read.
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
