package storage

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Scrubbing reads the second copy while the branch sells, because a bit that turns over there is seen nowhere else
// before the copy is needed. A segment that is not as it was written is written anew from the store.
//
// The medium is read, not the kernel's memory of it, and slowly: the store's own syncs may go to the same bus.
const (
	scrubFirst = 5 * time.Minute // after the copy is live
	scrubEvery = 24 * time.Hour  // from the end of a pass to the begin of the next
	scrubPause = time.Second     // for each scrubChunk bytes that were read
	scrubChunk = 1 << 20
)

// Scrub is the result of scrubbing. Found and Mended count segments since the copy was begun.
type Scrub struct {
	Last     time.Time `json:"last"`     // end of the last whole pass; zero: there was none
	Segments uint64    `json:"segments"` // of that pass
	Found    uint64    `json:"found"`
	Mended   uint64    `json:"mended"`
	Bad      []string  `json:"bad,omitempty"` // what is damaged now and could not be repaired, with the reason
}

// scrubber belongs to a session of the copy; its own goroutine runs it.
type scrubber struct {
	c    *second
	stop chan struct{}
	done sync.WaitGroup
}

func (c *second) startScrub(l *copyLog) *scrubber {
	b := &scrubber{c: c, stop: make(chan struct{})}
	c.view(l)
	b.done.Go(b.run)
	return b
}

// end waits for the scrubber. A medium that hangs holds it back, as it does the session itself.
func (b *scrubber) end() {
	close(b.stop)
	b.done.Wait()
}

func (b *scrubber) sleep(d time.Duration) bool {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-b.stop:
		return false
	}
}

func (b *scrubber) run() {
	last := b.c.scrubbed().Last
	wait := max(scrubFirst, scrubEvery-b.c.s.o.Now().Sub(last))
	for b.sleep(min(wait, scrubEvery)) {
		if !b.pass() {
			return
		}
		wait = scrubEvery
	}
}

// pass reads every segment once; false when it was stopped.
func (b *scrubber) pass() bool {
	s := b.c.s
	var bad []string
	found, mended, segments := uint64(0), uint64(0), uint64(0)
	numbers, err := segmentNumbers(s.o.FS, s.o.SecondCopy)
	if err != nil {
		bad = append(bad, err.Error())
	}
	for _, n := range b.c.withMissing(numbers) {
		size, err := b.c.check(n)
		segments++
		if err != nil {
			found++
			s.o.Logger.Error("a segment of the second copy is bad", "segment", n, "error", err)
			if err := b.c.mend(n); err != nil {
				bad = append(bad, fmt.Sprintf("segment %d: %v", n, err))
				s.o.Logger.Error("a bad segment of the second copy stays", "segment", n, "error", err)
			} else {
				mended++
				s.o.Logger.Warn("a bad segment of the second copy was written anew from the store", "segment", n)
			}
		}
		if !b.sleep(time.Duration(size/scrubChunk+1) * scrubPause) {
			return false
		}
	}
	b.c.scrubEnded(segments, found, mended, bad)
	return true
}

// view tells the scrubber which segment is being written, and how far.
func (c *second) view(l *copyLog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing, c.written = l.number, l.size
}

// withMissing adds the numbers between the first and the one that is being written which have no file although a head
// goes on from them.
func (c *second) withMissing(numbers []uint64) (list []uint64) {
	c.mu.Lock()
	writing := c.writing
	c.mu.Unlock()
	there := make(map[uint64]bool)
	for _, n := range numbers {
		there[n] = true
	}
	for _, n := range numbers {
		if n > writing {
			break
		}
		list = append(list, n)
		if head, err := headOf(c.s.o.FS, c.s.o.SecondCopy, n); err == nil && head.After.Segment != 0 &&
			!there[head.After.Segment] {
			list = append(list[:len(list)-1], head.After.Segment, n)
		}
	}
	return list
}

func headOf(fs vfs.FS, dir string, n uint64) (h segmentHead, err error) {
	s, err := readSegment(fs, dir, n)
	if err != nil {
		return h, err
	}
	return s.head, nil
}

// check reads one segment as far as it counts.
func (c *second) check(n uint64) (size int, err error) {
	c.mu.Lock()
	writing, written := c.writing, c.written
	c.mu.Unlock()
	s, err := readSegment(c.s.o.FS, c.s.o.SecondCopy, n)
	if err != nil {
		return 0, err
	}
	upTo := written
	var next *segmentHead
	if n != writing {
		if next, err = c.nextHead(n); err != nil {
			return len(s.bytes), nil // the next one is bad, and is mended first from what lies before and behind it
		}
		upTo = next.After.Offset
		if s.head.Mended {
			upTo = uint64(len(s.bytes))
		}
	}
	state, fill := s.head.State.clone(), s.head.Fill
	_, err = s.walk(upTo, func(at uint64, f frame) error { return f.follow(&state, &fill, position{n, at}) })
	if err == nil && next != nil && !(state.covers(next.State) && next.State.covers(state)) {
		err = fmt.Errorf("%w: %s does not end where the next segment begins", ErrCorrupt, s.path)
	}
	return len(s.bytes), err
}

// nextHead is the head of the segment that goes on from one.
func (c *second) nextHead(n uint64) (*segmentHead, error) {
	numbers, err := segmentNumbers(c.s.o.FS, c.s.o.SecondCopy)
	if err != nil {
		return nil, err
	}
	for _, m := range numbers {
		if m <= n {
			continue
		}
		h, err := headOf(c.s.o.FS, c.s.o.SecondCopy, m)
		if err != nil {
			return nil, err
		}
		if h.After.Segment == n {
			return &h, nil
		}
		break
	}
	return nil, fmt.Errorf("no segment goes on from segment %d", n)
}

var errRoll = errors.New("it is being written; it is ended first, and mended with the next pass")

// mend writes what a segment held anew from the store, between where the one before it ends and the next one begins:
// aside, synced, read back, and then into the log as a file of its own number.
func (c *second) mend(n uint64) error {
	c.mu.Lock()
	writing := c.writing
	if n == writing {
		c.roll = true
	}
	c.mu.Unlock()
	if n == writing {
		c.wake()
		return errRoll
	}
	o := &c.s.o
	if err := c.use(); err != nil { // a medium that hung may have outlived the store
		return err
	}
	defer c.unuse()
	next, err := c.nextHead(n)
	if err != nil {
		return err
	}
	before, err := c.headBefore(n, next)
	if err != nil {
		return err
	}
	if usage, err := o.FS.GetDiskUsage(o.SecondCopy); err == nil && usage.AvailBytes < 2*o.segment {
		return fmt.Errorf("%d bytes are free on the medium", usage.AvailBytes)
	}
	aside := segmentPath(o.FS, o.SecondCopy, n) + ".new"
	f, err := o.FS.Create(aside, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	l := &copyLog{fs: o.FS, dir: o.SecondCopy, store: before.Store, now: o.Now, limit: 1 << 62, state: before.State,
		number: n, f: f,
		reach: copyState{Series: make(map[uint32]place)}}
	l.add(frameSegment, before.encode())
	err = l.fillBetween(c.s.db, before, next, c.stopping)
	if err = errors.Join(err, l.f.Close()); err != nil {
		return err
	}
	b, err := readMedium(o.FS, aside)
	if err != nil {
		return err
	}
	s := &segment{path: aside, bytes: b, head: *before}
	if _, err := s.walk(l.size, func(uint64, frame) error { return nil }); err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	return c.replace(&mending{of: n, aside: aside, reach: l.reach, done: make(chan error, 1)})
}

// mending is what was written anew of a segment, and waits to come into the log.
type mending struct {
	of    uint64
	aside string
	reach copyState // of the store when it was read
	done  chan error
}

// replace has the session put a mending into the log, and returns when it is there.
func (c *second) replace(m *mending) error {
	c.mu.Lock()
	ended := c.ended
	if ended != nil {
		c.mending = m
	}
	c.mu.Unlock()
	if ended == nil {
		return errAway
	}
	c.wake()
	select {
	case err := <-m.done:
		return err
	case <-ended:
		return errAway
	}
}

var errAway = errors.New("the copy is not live any more; it is mended with the next pass")

// beginMending and endMending enclose the time in which a session takes mendings.
func (c *second) beginMending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = make(chan struct{})
}

func (c *second) endMending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.ended)
	c.ended, c.mending = nil, nil
}

// takeMending puts the mending that waits into the log, once the log holds all that the store held when the mending was
// read: a row in it may be newer than the segment. The damaged file goes once the next segment is begun.
func (c *second) takeMending(l *copyLog) error {
	c.mu.Lock()
	m := c.mending
	c.mu.Unlock()
	if m == nil || !l.state.covers(m.reach) {
		return nil
	}
	old, err := segmentFiles(l.fs, l.dir, m.of)
	if err != nil {
		return err
	}
	number, err := l.give(l.number)
	if err != nil {
		return err
	}
	err = l.fs.Rename(m.aside, l.fs.PathJoin(l.dir, mendedName(number, m.of)))
	if err == nil {
		err = syncDir(l.fs, l.dir)
	}
	if err == nil {
		err = l.roll()
	}
	for _, path := range old {
		if err == nil {
			err = l.fs.Remove(path)
		}
	}
	if err == nil {
		err = syncDir(l.fs, l.dir)
	}
	c.mu.Lock()
	c.mending = nil
	c.mu.Unlock()
	m.done <- err
	return err
}

// headBefore is the head that a segment must have had, by what lies before it.
func (c *second) headBefore(n uint64, next *segmentHead) (*segmentHead, error) {
	fs, dir := c.s.o.FS, c.s.o.SecondCopy
	h := &segmentHead{Store: next.Store, Number: n, At: next.At, State: copyState{Series: make(map[uint32]place)},
		Mended: true}
	if own, err := headOf(fs, dir, n); err == nil {
		own.Mended = true
		return &own, nil
	}
	numbers, err := segmentNumbers(fs, dir)
	if err != nil {
		return nil, err
	}
	for i := len(numbers) - 1; i >= 0; i-- {
		if numbers[i] >= n {
			continue
		}
		s, err := readSegment(fs, dir, numbers[i])
		if err != nil {
			return nil, fmt.Errorf("the segment before it: %w", err)
		}
		h.State, h.Fill = s.head.State.clone(), s.head.Fill
		h.Reached = s.head.begin().clone()
		end, err := s.walk(0, func(at uint64, f frame) error {
			if f.Kind == frameFill {
				h.Reached = h.State.clone()
			}
			return errors.Join(f.follow(&h.State, &h.Fill, position{numbers[i], at}), f.reaches(&h.Reached))
		})
		if err != nil {
			return nil, fmt.Errorf("the segment before it: %w", err)
		}
		h.After = position{numbers[i], end}
		break
	}
	return h, nil
}

// reaches follows the rows of a fill, link by link.
func (f *frame) reaches(state *copyState) error {
	if f.Kind != frameRows {
		return nil
	}
	return eachRow(f.Payload, func(_ pebble.InternalKeyKind, key, value []byte) error {
		switch {
		case key[0] == tableJournal && len(key) == 13:
			state.noteReached(place{Sequence: be.Uint32(key[1:]), Position: be.Uint64(key[5:]), Hash: hashLink(key,
				value)})
		case key[0] == tableFeed && len(key) == 9:
			state.Feed = max(state.Feed, be.Uint64(key[1:]))
		}
		return nil
	})
}

// scrubbed is what scrubbing has come to.
func (c *second) scrubbed() Scrub {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scrub
}

// readScrub takes up what an earlier process came to.
func readScrub(r pebble.Reader) (s Scrub) {
	b, err := get(r, keyScrub)
	if err != nil {
		return s
	}
	row, err := decodeScrub(b)
	if err == nil {
		s.Last, s.Segments, s.Found, s.Mended = row.At, row.Segments, row.Found, row.Mended
	}
	return s
}

func (c *second) scrubEnded(segments, found, mended uint64, bad []string) {
	if c.use() != nil {
		return
	}
	defer c.unuse()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scrub = Scrub{Last: c.s.o.Now(), Segments: segments, Found: c.scrub.Found + found, Mended: c.scrub.Mended +
		mended, Bad: bad}
	row := scrubRow{At: c.scrub.Last, Segments: segments, Found: c.scrub.Found, Mended: c.scrub.Mended}
	if err := c.s.db.Set(keyScrub, row.encode(), pebble.NoSync); err != nil {
		c.s.o.die("noting a scrub: %v", err)
	}
}

// scrubRow is what scrubbing has come to: version u8 · at i64, Unix ns, when a pass last ended · segments u64 read in
// it · found u64 · mended u64, bad ones since the copy began.
type scrubRow struct {
	At                      time.Time
	Segments, Found, Mended uint64
}

func (r *scrubRow) encode() []byte {
	b := be.AppendUint64([]byte{rowVersion}, uint64(r.At.UnixNano()))
	return be.AppendUint64(be.AppendUint64(be.AppendUint64(b, r.Segments), r.Found), r.Mended)
}

func decodeScrub(b []byte) (r scrubRow, err error) {
	c := cursor{b: b}
	c.version()
	r.At = time.Unix(0, int64(c.u64())).UTC()
	r.Segments, r.Found, r.Mended = c.u64(), c.u64(), c.u64()
	return r, c.end("scrub")
}
