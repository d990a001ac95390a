package storage

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Scrubbing reads the second copy while the branch sells: otherwise a flipped bit in the copy stays unnoticed until the
// copy is needed. A damaged segment is written again from the store.
//
// Scrubbing reads the medium, not the kernel's cache, and slowly: the store's own syncs may use the same bus.
const (
	scrubFirst = 5 * time.Minute // after the copy is live
	scrubEvery = 24 * time.Hour  // from the end of a pass to the start of the next
	scrubPause = time.Second     // after each scrubChunk bytes
	scrubChunk = 1 << 20
)

// Scrub is the result of scrubbing. Found and Mended count segments since the copy was begun.
type Scrub struct {
	Last     time.Time `json:"last"`     // end of the last complete pass; zero: there was none
	Segments uint64    `json:"segments"` // of that pass
	Found    uint64    `json:"found"`
	Mended   uint64    `json:"mended"`
	Bad      []string  `json:"bad,omitempty"` // segments that are damaged and could not be repaired, with reasons
}

// scrubber belongs to a session of the copy; its own goroutine runs it.
type scrubber struct {
	c    *second
	l    *copyLog
	one  sync.Mutex // locked while a segment is being mended
	stop chan struct{}
	done sync.WaitGroup
}

func (c *second) startScrub(l *copyLog) *scrubber {
	b := &scrubber{c: c, l: l, stop: make(chan struct{})}
	c.mu.Lock()
	c.scrubber = b
	c.mu.Unlock()
	b.done.Go(b.run)
	return b
}

// end waits for the scrubber. If the medium hangs, end waits too, like the session itself.
func (b *scrubber) end() {
	close(b.stop)
	b.done.Wait()
}

func (b *scrubber) run() {
	copied, _ := b.c.s.SecondCopy()
	wait := max(scrubFirst, scrubEvery-b.c.s.o.Now().Sub(copied.Scrub.Last))
	for timedOut(min(wait, scrubEvery), b.stop) {
		if !b.pass() {
			return
		}
		wait = scrubEvery
	}
}

// pass reads every segment once. It returns false if it was stopped.
func (b *scrubber) pass() bool {
	s := b.c.s
	var bad []string
	found, mended, segments := uint64(0), uint64(0), uint64(0)
	numbers, err := b.segments()
	if err != nil {
		bad = append(bad, err.Error())
	}
	for _, n := range numbers {
		size, err := b.check(n)
		if errors.Is(err, errAway) {
			return false
		}
		segments++
		if err != nil {
			found++
			s.o.Logger.Error("a segment of the second copy is bad", "segment", n, "error", err)
			if err := b.mend(n); err != nil {
				bad = append(bad, fmt.Sprintf("segment %d: %v", n, err))
				s.o.Logger.Error("a bad segment of the second copy stays", "segment", n, "error", err)
			} else {
				mended++
				s.o.Logger.Warn("a bad segment of the second copy was written anew from the store", "segment", n)
			}
		}
		if !timedOut(time.Duration(size/scrubChunk+1)*scrubPause, b.stop) {
			return false
		}
	}
	b.c.scrubEnded(segments, found, mended, bad)
	return true
}

// view returns the segment that is being written, its size so far, and the replaced segments.
func (b *scrubber) view() (writing, written uint64, gone map[uint64]replaced, err error) {
	err = b.l.inTurn(b.stop, func() error {
		writing, written, gone = b.l.number, b.l.size, maps.Clone(b.l.replaced)
		return nil
	})
	return writing, written, gone, err
}

// numbers returns the segments that count and have a file.
func (b *scrubber) numbers() ([]uint64, error) {
	numbers, bad := segmentNumbers(b.l.fs, b.l.dir)
	writing, _, gone, err := b.view()
	return slices.DeleteFunc(numbers, func(n uint64) bool {
		_, replaced := gone[n]
		return replaced || n > writing
	}), cmp.Or(bad, err)
}

// segments returns the result of numbers, and the segments that have no file although a later segment follows them.
func (b *scrubber) segments() ([]uint64, error) {
	list, err := b.numbers()
	_, _, replaced, _ := b.view()
	var from []position
	for _, r := range replaced {
		from = append(from, r.After)
	}
	for _, n := range list {
		if head, err := readHead(b.l.fs, b.l.dir, n); err == nil {
			from = append(from, head.After)
		}
	}
	for _, at := range from {
		if _, gone := replaced[at.Segment]; at.Segment > 0 && !gone {
			list = append(list, at.Segment)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), err
}

// check reads and verifies one segment, up to the place after which its content no longer counts.
func (b *scrubber) check(n uint64) (size int, err error) {
	s, err := readSegment(b.l.fs, b.l.dir, n)
	if err != nil {
		return 0, err
	}
	writing, upTo, replaced, err := b.view()
	if err != nil {
		return 0, err
	}
	counts := n == writing
	for _, r := range replaced {
		if r.After.Segment == n {
			upTo, counts = r.After.Offset, true
		}
	}
	var next *segmentHead
	if !counts {
		if next, err = b.nextHead(n); err != nil || next.After.Segment != n {
			return len(s.bytes), nil // the next segment is bad, and is mended first
		}
		upTo = next.After.Offset
	}
	state, fill := s.head.State.clone(), s.head.Fill
	err = s.walk(upTo, func(at uint64, f frame) error { return f.follow(&state, &fill, position{n, at}) })
	if err == nil && next != nil && !(state.covers(next.State) && next.State.covers(state)) {
		err = fmt.Errorf("%w: %s does not end where the next segment begins", ErrCorrupt, s.path)
	}
	return len(s.bytes), err
}

// nextHead returns the head of the next segment that has a file.
func (b *scrubber) nextHead(n uint64) (*segmentHead, error) {
	numbers, err := b.numbers()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(numbers, func(m uint64) bool { return m > n })
	if i < 0 {
		return nil, fmt.Errorf("no segment continues segment %d", n)
	}
	return readHead(b.l.fs, b.l.dir, numbers[i])
}

var errRoll = errors.New("it is being written; it is ended first, and mended with the next pass")

// mend rewrites a segment from the store, at the end of the log: everything between the end of the previous segment and
// the start of the next one. Afterwards the log ignores the old segment.
func (b *scrubber) mend(n uint64) error {
	c, o, l := b.c, &b.c.s.o, b.l
	b.one.Lock()
	defer b.one.Unlock()
	writing, _, gone, err := b.view()
	if err == nil && n == writing {
		err = cmp.Or(b.write(l.roll), errRoll)
	}
	if err != nil {
		return err
	}
	if err := c.use(); err != nil { // the store may have closed while the medium hung
		return err
	}
	defer c.unuse()
	next, err := b.nextHead(n)
	if err != nil {
		return err
	}
	if usage, err := o.FS.GetDiskUsage(o.SecondCopy); err == nil && usage.AvailBytes < 2*o.segment {
		return fmt.Errorf("%d bytes are free on the medium", usage.AvailBytes)
	}
	now := replaced{From: newCopyState(), To: next.begin()}
	numbers, err := b.numbers()
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(numbers) { // from n's head or, if that head is bad, the last good head before
		if head, err := readHead(b.l.fs, b.l.dir, m); err == nil && m <= n {
			if now.From, now.After = head.begin(), head.After; m < n {
				now.After = position{Segment: m}
			}
			break
		}
	}
	list := map[uint64]replaced{n: now}
	for k, r := range gone {
		if r.In <= n && n <= r.Until { // the rows of segment k were in segment n
			list[k] = r
		}
	}
	r := c.s.db.NewSnapshot()
	defer func() { _ = r.Close() }() // memory only
	reach, err := storeState(r)
	if err != nil {
		return err
	}
	held, in := newCopyState(), uint64(0) // in: the first segment with rows of this mending; 0: no rows yet
	f := &filler{r: r, b: c.s.db.NewBatch(), limit: fillChunk, stop: c.stopping, whole: true,
		reach: &held, put: func(rows []byte) error {
			return b.write(func() error {
				in = cmp.Or(in, l.number)
				l.add(frameRows, rows)
				return l.flush()
			})
		}}
	defer func() { _ = f.b.Close() }() // memory only
	for _, r := range list {
		if err := f.between(r.From, r.To); err != nil {
			return err
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	// The segment is removed once the log has everything that the store had when the rows were read: these rows may be
	// newer than the log.
	for covered := false; ; {
		err := b.write(func() error {
			if covered = l.state.covers(reach); !covered {
				return nil
			}
			for k, r := range list {
				r.In, r.Until = cmp.Or(in, l.number), l.number
				l.replaced[k] = r
			}
			return l.replace(n)
		})
		if err != nil || covered {
			return err
		}
		if !timedOut(scrubPause, b.stop) {
			return errAway
		}
	}
}

var errAway = errors.New("the copy is not live any more; it is mended with the next pass")

// write calls fn, which writes the log. A failure also ends the session.
func (b *scrubber) write(fn func() error) error {
	return b.l.inTurn(b.stop, func() error {
		if b.l.failed == nil {
			b.l.failed = fn()
		}
		if b.l.failed != nil {
			signal(b.c.kick)
		}
		return b.l.failed
	})
}

// inTurn calls fn while nobody else uses the log: the session and its scrubber take turns. errAway after stop.
func (l *copyLog) inTurn(stop <-chan struct{}, fn func() error) error {
	select {
	case l.turn <- struct{}{}:
	case <-stop:
		return errAway
	}
	defer func() { <-l.turn }()
	return fn()
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
	if err := setJSON(c.s.db, keyScrub, c.scrub, pebble.NoSync); err != nil {
		c.s.o.die("noting a scrub: %v", err)
	}
}
