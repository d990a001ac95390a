package storage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The second copy is a log of segments, files that are only appended to. A frame:
//
//	magic [8] · length of payload u32 · CRC-32C of what follows u32 · group u64 · kind u8 · payload
//
// Frames of one group were written and synced together. A segment begins with a head: the position, name and last
// number of each series at that time, and the place in earlier segments from which the log continues. Bytes after that
// place in the earlier segments are void. A segment is trusted when a later head continues from it. The last segment is
// always copied again from its head on: a failed sync may have lost bytes of it that the kernel's cache still has.
const (
	frameMagic  = "\xd7DTEcpy\x01"
	frameHeader = len(frameMagic) + 4 + 4 + 8 + 1

	frameSegment byte = 1 // JSON, segmentHead
	frameChange  byte = 2 // place, feed u64, and the batch that made the change
	frameFill    byte = 3 // rows follow until frameFilled: all of them count, or none of them
	frameRows    byte = 4 // a batch of rows in their current state
	frameFilled  byte = 5 // JSON, copyState

	segmentSize = 16 << 20 // bytes; a segment may be one group larger
)

// place is how far one series goes in the copy or the store. Last is 0 if unknown.
type place struct {
	Reach
	Name string // empty: not known
}

// copyState is how far the log has copied the store.
type copyState struct {
	Series map[uint32]place
	Feed   uint64 // highest announcement
}

func newCopyState() copyState { return copyState{Series: make(map[uint32]place)} }

func (s copyState) clone() copyState { return copyState{maps.Clone(s.Series), s.Feed} }

// covers reports whether s is at least as far as another state (other) in every series.
func (s copyState) covers(other copyState) bool {
	for sequence, p := range other.Series {
		if s.Series[sequence].Position < p.Position {
			return false
		}
	}
	return true
}

// noteReached notes that a series got as far as p.
func (s copyState) noteReached(p place) {
	old := s.Series[p.Sequence]
	p.Last, p.Name = max(p.Last, old.Last), cmp.Or(p.Name, old.Name)
	s.Series[p.Sequence] = p
}

// noteAll copies from another state (other) each series that is at least as far there as in s, and the higher of the
// two feeds.
func (s *copyState) noteAll(other copyState) {
	s.Feed = max(s.Feed, other.Feed)
	for _, p := range other.Series {
		if p.Position >= s.Series[p.Sequence].Position {
			s.noteReached(p)
		}
	}
}

func (p place) appendTo(b []byte) []byte {
	b = append(be.AppendUint64(be.AppendUint32(b, p.Sequence), p.Position), p.Hash[:]...)
	return append(append(be.AppendUint64(b, p.Last), byte(len(p.Name))), p.Name...)
}

func (c *cursor) place() (p place) {
	p.Sequence, p.Position = c.u32(), c.u64()
	copy(p.Hash[:], c.take(32))
	p.Last = c.u64()
	p.Name = string(c.take(int(c.u8())))
	return p
}

type position struct{ Segment, Offset uint64 }

// segmentHead is a segment's first frame.
type segmentHead struct {
	Store  [16]byte
	Number uint64
	After  position // the place from which the log continues; zero: it begins here
	Fill   position // where the unfinished fill began; zero: there is none
	At     int64    // Unix ns
	State  copyState
	// Reached is how far the unfinished fill has copied each series.
	Reached  copyState           `json:",omitzero"`
	Replaced map[uint64]replaced `json:",omitempty"` // bad segments, which do not count any more
}

// replaced is a bad segment whose rows were copied from the store again.
type replaced struct {
	After    position  // where the log before the segment ended; offset 0: at the end of the file
	From, To copyState // the segment had the rows of the links between these states; later segments have them now
}

// begin returns how far the segments before this one have copied the store.
func (h *segmentHead) begin() copyState {
	if h.Fill != (position{}) {
		return h.Reached
	}
	return h.State
}

type frame struct {
	Kind    byte
	Group   uint64
	Payload []byte
	End     uint64 // offset after the frame
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

// batch returns the rows of a change or of a fill; nil: the frame has no rows.
func (f *frame) batch() []byte {
	c := cursor{b: f.Payload}
	switch f.Kind {
	case frameChange:
		c.place()
		c.u64()
	case frameRows:
	default:
		return nil
	}
	if c.bad {
		return nil
	}
	return c.b
}

// rows calls fn with each row of a change or of a fill.
func (f *frame) rows(fn func(key, value []byte) error) error {
	if rows := f.batch(); rows != nil {
		return eachRow(rows, fn)
	}
	return nil
}

// frameAt reads the frame at an offset; false if no whole frame begins there.
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

// logEnd is the end of a second copy, and the place where its writer continues.
type logEnd struct {
	store   [16]byte
	told    copyState // how far the copy goes, with all readable bytes of the last segment
	trusted copyState // how far it goes without the last segment, which nothing has confirmed
	after   position  // where trusted ends
	counts  uint64    // the last segment that counts; later ones are void; 0: all are void
	unread  uint64    // unreadable bytes after the last readable change
	strange []uint64  // unreadable segments after counts: their content is unknown

	replaced map[uint64]replaced // from the last head
}

// readEnd finds where a second copy ends; nil if there is no copy.
func readEnd(fs vfs.FS, dir string) (*logEnd, error) {
	numbers, err := segmentNumbers(fs, dir)
	if err != nil || len(numbers) == 0 {
		return nil, onlyIf(!errors.Is(err, os.ErrNotExist), err)
	}
	e := new(logEnd)
	found := false
	var faults []error
	kind := ErrCorrupt
	for i := len(numbers) - 1; i >= 0; i-- {
		if _, replaced := e.replaced[numbers[i]]; replaced {
			continue
		}
		s, err := loadSegment(fs, dir, numbers[i])
		switch {
		case errors.Is(err, errNoSegment): // a power cut while the segment was made
			continue
		case err != nil || s.headless:
			if e.strange = append(e.strange, numbers[i]); !found {
				if info, err := fs.Stat(segmentPath(fs, dir, numbers[i])); err == nil {
					e.unread += uint64(info.Size())
				}
				if err != nil {
					kind = ErrUnreadable
				}
				faults = append(faults, fmt.Errorf("segment %d: %w", numbers[i], cmp.Or(err, ErrCorrupt)))
			}
			continue
		case !found:
			found, e.store, e.replaced = true, s.head.Store, s.head.Replaced
			e.trusted, e.told = s.head.State, s.head.State.clone()
			if e.after = s.head.After; s.head.Fill != (position{}) {
				e.after = s.head.Fill
			}
		case s.head.Store != e.store:
			return e, nil // earlier segments are of another store
		}
		state, pending, behind, err := s.readState()
		if err != nil {
			return nil, err
		}
		if pending {
			continue // an unfinished fill: the log ends before it
		}
		e.told.noteAll(state)
		if e.counts = numbers[i]; e.after.Segment != e.counts {
			e.unread += behind
		}
		return e, nil
	}
	if found {
		return e, nil
	}
	return nil, onlyIf(len(faults) > 0, fmt.Errorf("%w: %w", kind, errors.Join(faults...)))
}

// readState reads the state at a segment's end, skipping damage. pending reports whether a fill is unfinished there.
// behind is the number of unreadable bytes at the end.
func (s *segment) readState() (state copyState, pending bool, behind uint64, err error) {
	state = s.head.State.clone()
	fill := s.head.Fill
	_, behind, err = s.frames(0, true, func(at uint64, f frame) error {
		if err := f.follow(&state, &fill, position{s.head.Number, at}); err != nil {
			return fmt.Errorf("%w: %s at byte %d", err, s.path, at)
		}
		return nil
	})
	return state, fill != (position{}), behind, err
}

// segment is a segment that was read, perhaps only up to the place where its bytes cease to count.
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

// segmentNumbers lists the numbers of the segments in a folder, ascending.
func segmentNumbers(fs vfs.FS, dir string) (numbers []uint64, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var n uint64
		if _, err := fmt.Sscanf(name, "%d.copy", &n); err == nil && name == segmentName(n) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// errNoSegment: the file is not a segment, for example after a power cut while it was made.
var errNoSegment = errors.New("not a segment")

// readSegment reads a segment whose head is whole. Errors: errNoSegment; ErrCorrupt if the head is damaged; the
// medium's error.
func readSegment(fs vfs.FS, dir string, number uint64) (*segment, error) {
	s, err := loadSegment(fs, dir, number)
	if err != nil {
		return nil, err
	}
	if s.headless {
		return nil, fmt.Errorf("%w: %s at its start", ErrCorrupt, s.path)
	}
	return s, nil
}

// loadSegment also reads a segment with a damaged head, and sets headless.
func loadSegment(fs vfs.FS, dir string, number uint64) (*segment, error) {
	s := &segment{path: segmentPath(fs, dir, number)}
	var err error
	if s.bytes, err = readMedium(fs, s.path, math.MaxInt64); err != nil {
		return nil, err
	}
	var ok bool
	if s.head, ok = headAt(s.bytes, number); ok {
		return s, nil
	}
	if !s.laterGroup(0, 0) {
		return nil, fmt.Errorf("%s: %w", s.path, errNoSegment)
	}
	s.head, s.headless = segmentHead{Number: number, State: newCopyState()}, true
	return s, nil
}

func headAt(b []byte, number uint64) (h segmentHead, ok bool) {
	f, ok := frameAt(b, 0)
	h, head := headOf(f)
	return h, ok && head && h.Number == number
}

func headOf(f frame) (h segmentHead, ok bool) {
	h.State = newCopyState()
	return h, f.Kind == frameSegment && json.Unmarshal(f.Payload, &h) == nil
}

// readHead reads only a segment's head.
func readHead(fs vfs.FS, dir string, number uint64) (*segmentHead, error) {
	b, err := readMedium(fs, segmentPath(fs, dir, number), 256<<10)
	if err != nil {
		return nil, err
	}
	if h, ok := headAt(b, number); ok {
		return &h, nil
	}
	s, err := readSegment(fs, dir, number)
	if err != nil {
		return nil, err
	}
	return &s.head, nil
}

// countedSegment is a segment that counts up to a place (at). Offset 0 stands for the end of its last whole frame.
type countedSegment struct {
	at   position
	head *segmentHead // nil: it cannot be read, because of bad
	bad  error
}

// chain returns, in order, the segments of a copy that count and whose number is at least from. It follows the heads
// backwards from last, and skips the replaced segments (gone). After an unreadable head it continues with the previous
// segment in the folder.
func chain(fs vfs.FS, dir string, store [16]byte, from uint64, last position, gone map[uint64]replaced) (
	list []countedSegment, err error) {
	numbers, err := segmentNumbers(fs, dir)
	if err != nil {
		return nil, err
	}
	for at := last; at.Segment >= max(from, 1); {
		if r, replaced := gone[at.Segment]; replaced {
			at = r.After
			continue
		}
		head, bad := readHead(fs, dir, at.Segment)
		if bad == nil && head.After.Segment >= at.Segment {
			head, bad = nil, ErrCorrupt
		}
		if bad == nil && head.Store != store {
			break // another store's segment, from before this log
		}
		list = append(list, countedSegment{at, head, bad})
		if bad == nil {
			at = head.After
			continue
		}
		i, _ := slices.BinarySearch(numbers, at.Segment)
		if at = (position{}); i > 0 {
			at.Segment = numbers[i-1]
		}
	}
	slices.Reverse(list)
	return list, nil
}

// checkCounted reads and verifies one segment of a chain, as far as it counts.
func checkCounted(fs vfs.FS, dir string, list []countedSegment, i int) (size int, err error) {
	at := list[i].at
	s, err := readSegment(fs, dir, at.Segment)
	if err != nil {
		return 0, err
	}
	state, fill := s.head.State.clone(), s.head.Fill
	lost, _, err := s.frames(at.Offset, at.Offset == 0, func(offset uint64, f frame) error {
		return f.follow(&state, &fill, position{at.Segment, offset})
	})
	if err == nil && lost > 0 {
		err = fmt.Errorf("%w: %s: %d bytes of it cannot be read", ErrCorrupt, s.path, lost)
	}
	if err != nil || i == len(list)-1 || list[i+1].head == nil || list[i+1].head.After != at {
		return len(s.bytes), err
	}
	if next := list[i+1].head.State; !state.covers(next) || !next.covers(state) {
		err = fmt.Errorf("%w: %s does not end where the next segment begins", ErrCorrupt, s.path)
	}
	return len(s.bytes), err
}

// nextFrame finds the next offset of a whole frame; false if there is none.
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

// laterGroup reports whether a frame of a later group follows. If so, the unreadable bytes before that frame were once
// on the medium.
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

// follow applies a frame (at here) to state and fill (where the unfinished fill began).
func (f *frame) follow(state *copyState, fill *position, here position) error {
	switch f.Kind {
	case frameChange:
		c := cursor{b: f.Payload}
		p, feed := c.place(), c.u64()
		if c.bad {
			return ErrCorrupt
		}
		state.noteReached(p)
		state.Feed = max(state.Feed, feed)
		*fill = position{} // changes are written only after finished fills
	case frameFill:
		*fill = here
	case frameFilled:
		var filled copyState
		if json.Unmarshal(f.Payload, &filled) != nil {
			return ErrCorrupt
		}
		state.noteAll(filled)
		*fill = position{}
	}
	return nil
}

// eachRow calls fn with each row that a batch sets. ErrCorrupt if the batch is damaged.
func eachRow(repr []byte, fn func(key, value []byte) error) error {
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
		if kind == pebble.InternalKeyKindSet {
			if err := fn(key, value); err != nil {
				return err
			}
		}
	}
}

// frames calls fn with the whole frames up to an offset (0: the segment's end). lost is the number of unreadable bytes
// or, if larger, of bytes below the offset that the file lacks. If last is set (the segment is the log's last), frames
// stops at unreadable bytes that may belong to a torn last group; torn is the number of bytes from there on.
func (s *segment) frames(upTo uint64, last bool, fn func(at uint64, f frame) error) (lost, torn uint64, err error) {
	part, size, missing := *s, uint64(len(s.bytes)), uint64(0)
	if upTo > 0 {
		missing, size = upTo-min(upTo, size), min(upTo, size)
		part.bytes = s.bytes[:size]
	}
	for at, group := uint64(0), uint64(0); at < size; {
		f, ok := frameAt(part.bytes, at)
		if ok {
			if err := fn(at, f); err != nil {
				return lost, 0, err
			}
			at, group = f.End, f.Group
			continue
		}
		next, more := part.nextFrame(at)
		if last && (!more || !part.laterGroup(at, group+1)) {
			torn = size - at
			break
		}
		if !more {
			next = size
		}
		lost, at = lost+next-at, next
	}
	return max(lost, missing), torn, nil
}

// CopySegment reads the head of a segment; file is its name. id identifies the segment, "" if this store did not write
// it. The segment continues the copy from the offset end of another file (after), or begins the copy if after is "". If
// a fill was unfinished, after and end name the place where the fill began.
func (s *Store) CopySegment(file string, r io.ReaderAt) (id, after string, end int64, err error) {
	err = s.do("reading the head of a segment", func() error {
		own, err := identity(s.db)
		b, bad := io.ReadAll(io.NewSectionReader(r, 0, int64(frameHeader)))
		if bad == nil && len(b) == frameHeader {
			b, bad = io.ReadAll(io.NewSectionReader(r, 0, int64(frameHeader)+int64(be.Uint32(b[len(frameMagic):]))))
		}
		var number uint64
		_, _ = fmt.Sscanf(file, "%d.copy", &number) // an unreadable name gives 0, and headAt refuses it
		if head, ok := headAt(b, number); ok && head.Store == own {
			id = fmt.Sprintf("%x", sha256.Sum256(b))
			if from := cmp.Or(head.Fill, head.After); from.Segment > 0 {
				after, end = segmentName(from.Segment), int64(from.Offset)
			}
		}
		return errors.Join(err, bad)
	})
	return id, after, end, err
}

// HasCopied reads bytes of a second copy, and reports whether this store has each series' last change in them; true for
// bytes without a whole frame.
func (s *Store) HasCopied(b []byte) (bool, error) {
	return use(s, "comparing a copy with the store", func() (bool, error) {
		last, fill, part := newCopyState(), position{}, segment{bytes: b}
		_, _, err := part.frames(0, true, func(_ uint64, f frame) error {
			if h, ok := headOf(f); ok {
				last.noteAll(h.State)
			}
			return f.follow(&last, &fill, position{})
		})
		for _, p := range last.Series {
			has, bad := holdsLink(s.db, p)
			if err = cmp.Or(err, bad); err != nil || !has && p.Position > 0 {
				return false, err
			}
		}
		return true, err
	})
}

// CopyChanges counts this store's changes in a second copy's files after a place: the offset end in a file, or the
// beginning ("" and 0). Void parts count too.
func (s *Store) CopyChanges(ctx context.Context, dir, file string, end int64) (changes int64, err error) {
	fs := vfs.Default
	own, err := use(s, "counting changes", func() ([16]byte, error) { return identity(s.db) })
	numbers, bad := segmentNumbers(fs, dir)
	if err = errors.Join(err, bad); err != nil {
		return 0, err
	}
	for _, number := range numbers {
		name := segmentName(number)
		if name < file {
			continue
		}
		s, err := loadSegment(fs, dir, number)
		if err == nil && (s.headless || s.head.Store == own) {
			_, _, err = s.frames(0, true, func(at uint64, f frame) error {
				if f.Kind == frameChange && (name > file || at >= uint64(end)) {
					changes++
				}
				return nil
			})
		}
		if err = cmp.Or(ctx.Err(), err); err != nil && !errors.Is(err, errNoSegment) {
			return changes, err
		}
	}
	return changes, nil
}
