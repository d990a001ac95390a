package storage

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The second copy is a log of segments, files that are only appended to. A frame:
//
//	magic [8] · length of payload u32 · CRC-32C of what follows u32 · group u64 · kind u8 · payload
//
// Frames of one group were written and synced together. A segment begins with a frame that says how far each series was
// then and where the log goes on from: what lies behind that place in the segments before it is void.
const (
	frameMagic  = "\xd7DTEcpy\x01"
	frameHeader = len(frameMagic) + 4 + 4 + 8 + 1

	frameSegment byte = 1 // segmentHead
	frameChange  byte = 2 // place, and the batch that made the change
	frameFill    byte = 3 // from here on rows, until frameFilled: all of them count, or none
	frameRows    byte = 4 // a batch of rows as they stand
	frameFilled  byte = 5 // copyState

	segmentSize = 64 << 20 // bytes, or a group more
)

// place is how far a series' journal is copied.
type place struct {
	Sequence uint32
	Position uint64
	Hash     [32]byte // of that link
}

// copyState is what the log holds.
type copyState struct {
	Series map[uint32]place
	Feed   uint64 // highest announcement
}

func (s copyState) encode(b []byte) []byte {
	b = be.AppendUint32(be.AppendUint64(b, s.Feed), uint32(len(s.Series)))
	for _, p := range s.Series {
		b = p.encode(b)
	}
	return b
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
}

func (h *segmentHead) encode() []byte {
	b := append([]byte{rowVersion}, h.Store[:]...)
	for _, n := range []uint64{h.Number, h.After.Segment, h.After.Offset, h.Fill.Segment, h.Fill.Offset, uint64(h.At)} {
		b = be.AppendUint64(b, n)
	}
	return h.State.encode(b)
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

// segment is one that was read, at most as far as it counts.
type segment struct {
	path  string
	head  segmentHead
	bytes []byte
}

func segmentPath(fs vfs.FS, dir string, number uint64) string {
	return fs.PathJoin(dir, fmt.Sprintf("%010d.copy", number))
}

// segmentNumbers lists what lies in the folder, in order.
func segmentNumbers(fs vfs.FS, dir string) (numbers []uint64, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var n uint64
		if _, err := fmt.Sscanf(name, "%d.copy", &n); err == nil && strings.HasSuffix(segmentPath(fs, dir, n), name) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// errNoSegment: the file is not a segment, as when the power went while it was made.
var errNoSegment = errors.New("not a segment")

func readSegment(fs vfs.FS, dir string, number uint64) (*segment, error) {
	s := &segment{path: segmentPath(fs, dir, number)}
	var err error
	if s.bytes, err = readWhole(fs, s.path); err != nil {
		return nil, err
	}
	f, ok := frameAt(s.bytes, 0)
	if !ok && s.laterGroup(0, 0) {
		return nil, fmt.Errorf("%w: %s at its begin", ErrCorrupt, s.path)
	}
	if !ok || f.Kind != frameSegment {
		return nil, fmt.Errorf("%s: %w", s.path, errNoSegment)
	}
	if s.head, err = decodeSegment(f.Payload); err != nil || s.head.Number != number {
		return nil, fmt.Errorf("%s: %w", s.path, errNoSegment)
	}
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
	return upTo, nil
}

// laterGroup tells whether a frame of a group behind the given one follows: then what cannot be read was synced once.
func (s *segment) laterGroup(at, group uint64) bool {
	for {
		i := bytes.Index(s.bytes[min(at+1, uint64(len(s.bytes))):], []byte(frameMagic))
		if i < 0 {
			return false
		}
		at += 1 + uint64(i)
		if f, ok := frameAt(s.bytes, at); ok && f.Group > group {
			return true
		}
	}
}

// tail reads the end of the log: what it holds, and where it goes on. With ErrCorrupt both are as of before the damage.
func (s *segment) tail() (state copyState, end position, err error) {
	state = s.head.State
	fill := s.head.Fill
	offset, err := s.walk(0, func(at uint64, f frame) error {
		c := cursor{b: f.Payload}
		switch f.Kind {
		case frameChange:
			p := c.place()
			state.Series[p.Sequence] = p
			state.Feed = max(state.Feed, c.u64())
		case frameFill:
			fill = position{s.head.Number, at}
		case frameFilled:
			state, fill = c.copyState(), position{}
		}
		if c.bad {
			return fmt.Errorf("%w: %s at byte %d", ErrCorrupt, s.path, at)
		}
		return nil
	})
	if fill != (position{}) {
		return state, fill, err // it did not end: none of it counts
	}
	return state, position{s.head.Number, offset}, err
}
