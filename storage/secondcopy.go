package storage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// second keeps a copy of every change on another medium, from which Assemble makes a store when the box is dead. A
// change is written to the copy when the store has it, and acknowledged when both have it; the copy never has more than
// the store. This costs two syncs, shared by all waiting changes.
//
// A medium that fails, fills up or does not answer in time stops nothing: the branch goes on without a copy, reports
// this in log and metrics, and catches up later.
type second struct {
	s       *Store
	kick    chan struct{} // one element: run has work
	stop    chan struct{}
	stopped chan struct{}
	first   chan struct{} // closed when it is known whether the copy is live
	seen    chan struct{} // closed when it is known whether the copy has more than the store or is unreadable

	mu     sync.Mutex
	status SecondCopy
	mode   copyMode
	queue  []*change
	queued int // bytes

	given    uint64 // the log must begin after the segment of this number; see CopyAfter
	began    uint64 // first segment of the latest log that this run began; 1: this run began no log
	scrub    Scrub
	scrubber *scrubber // of the session; nil: no session has begun
}

// SecondCopy is the state of the second copy. Live: every acknowledged change is on both media.
type SecondCopy struct {
	Live  bool      `json:"live"`
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"` // why the copy is not live
	Scrub Scrub     `json:"scrub"`
}

type copyMode uint8

const (
	copyAway    copyMode = iota // changes are not queued: a fill will read them from the store
	copyFilling                 // changes are queued until the copy has caught up; nobody waits
	copyLive
)

// change is a committed batch on its way to the copy.
type change struct {
	at    place
	feed  uint64
	batch []byte
	done  chan struct{} // nil: nobody waits
	end   position      // where the change ends in the copy, zero if the copy lacks it; set before done is closed
}

const (
	queueLimit   = 64 << 20 // bytes that wait for a slow medium
	retryFirst   = time.Minute
	retryLongest = 30 * time.Minute

	// examinePatience is how long a start waits until the end of the second copy is read. The reading covers at most
	// one segment, unless the medium knows more than the store.
	examinePatience = 15 * time.Second
)

var errSlow = errors.New("the medium does not answer in time")

func newSecond(s *Store) *second {
	scrub, _ := readJSON[Scrub](s.db, keyScrub) // an unreadable row counts as no scrub
	return &second{s: s, scrub: scrub, began: 1, kick: make(chan struct{}, 1), stop: make(chan struct{}),
		stopped: make(chan struct{}), first: make(chan struct{}), seen: make(chan struct{}),
		status: SecondCopy{Since: s.o.Now(), Why: "not caught up yet"}}
}

// SecondCopy returns the state of the second copy; false if no second copy is configured.
func (s *Store) SecondCopy() (SecondCopy, bool) {
	if s.second == nil {
		return SecondCopy{}, false
	}
	s.second.mu.Lock()
	defer s.second.mu.Unlock()
	status := s.second.status
	status.Scrub = s.second.scrub
	return status, true
}

// CopyAfter makes the second copy begin again, in files with later names than file, unless the copy has begun after
// file. The caller ships the copy, and cannot continue what it shipped: the store may have been restored, its clock may
// have been set back, or another card may be in the box.
func (s *Store) CopyAfter(file string) {
	c := s.second
	var given uint64
	if _, err := fmt.Sscanf(file, "%d", &given); err != nil || c == nil {
		return
	}
	c.mu.Lock()
	known := given < c.began || given <= c.given
	c.given = max(c.given, given)
	c.mu.Unlock()
	if !known {
		c.leave(fmt.Errorf("it does not continue what was shipped: a new copy begins after %s", file))
	}
}

// push gives a change to the copy. It returns when the copy has the change and Carry has returned, or when the copy is
// not live.
func (c *second) push(at place, feed uint64, batch []byte) {
	n := &change{at: at, feed: feed, batch: batch}
	c.mu.Lock()
	if c.mode == copyAway {
		c.mu.Unlock()
		return
	}
	c.queued += len(batch)
	if c.queue = append(c.queue, n); c.queued > queueLimit && c.mode == copyFilling {
		c.mode, c.queue = copyAway, nil // too much to keep: fill again
	}
	live := c.mode == copyLive
	if live {
		n.done = make(chan struct{})
	}
	c.mu.Unlock()
	signal(c.kick)
	if !live {
		return
	}
	start := c.s.o.Now()
	if timedOut(c.s.o.SecondPatience, n.done) {
		c.leave(errSlow)
		return
	}
	c.s.metrics.copyWait.Observe(c.s.secondsSince(start))
	if carry := c.s.o.Carry; carry != nil && n.end != (position{}) {
		carry(segmentName(n.end.Segment), int64(n.end.Offset))
	}
}

// leave releases all waiting callers: the branch goes on without a copy. leave wakes the session, which catches up.
func (c *second) leave(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mode == copyAway && errors.Is(why, errSlow) {
		return // logged already
	}
	if c.status.Live || c.status.Why != why.Error() {
		c.s.o.Logger.Error("second copy is not written", "path", c.s.o.SecondCopy, "error", why)
		c.status = SecondCopy{Since: c.s.o.Now(), Why: why.Error()}
	}
	release(c.queue)
	c.mode, c.queue, c.queued = copyAway, nil, 0
	c.s.metrics.copyFailures.Inc()
	c.settled()
	signal(c.kick) // push does not wake the session from now on
}

func release(list []*change) {
	for _, n := range list {
		if n.done != nil {
			close(n.done)
		}
	}
}

// await waits until the medium has been compared with the store. A working medium also gets time to catch up after a
// crash, so that the copy is live before the first new change.
func (c *second) await() {
	if timedOut(examinePatience, c.seen) {
		c.s.o.Logger.Error("second copy does not answer: it may know more than the store", "path", c.s.o.SecondCopy)
	}
	timedOut(c.s.o.SecondPatience, c.first)
}

// settled releases the caller of await: the copy is live, or the branch goes on without it.
func (c *second) settled() {
	shut(c.first)
	shut(c.seen)
}

// shut closes a channel that may be closed already. The caller holds a lock.
func shut(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// run keeps the copy up to date until close.
func (c *second) run() {
	defer close(c.stopped)
	for pause := retryFirst; ; pause = min(2*pause, retryLongest) {
		began := c.s.o.Now()
		err := c.session()
		if err == nil {
			return
		}
		c.leave(err)
		if c.s.o.Now().Sub(began) > retryLongest || errors.Is(err, errConflict) || errors.Is(err, ErrNotMounted) {
			// after a long session, and for a person who removes a copy or mounts a medium: do not wait half an hour
			pause = retryFirst
		}
		if !timedOut(pause, c.stop) {
			return
		}
	}
}

var errStopped = errors.New("stopped")

// session opens the log, catches up and writes until something fails. It returns nil at stop.
func (c *second) session() (err error) {
	l, err := c.openLog()
	if l != nil {
		defer func() { err = errors.Join(err, l.close()) }()
	}
	if errors.Is(err, errStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.startScrub(l).end()
	for {
		list, err := c.take()
		if err == nil {
			err = l.inTurn(nil, func() error { return c.write(l, list) })
		}
		if err != nil {
			return err
		}
		select {
		case <-c.kick:
		case <-c.stop:
			return nil // Close has waited for every call: no caller waits for the queue
		}
	}
}

// openLog examines the medium, continues its log or begins a new log, and catches up.
func (c *second) openLog() (*copyLog, error) {
	store, err := identity(c.s.db)
	if err != nil {
		return nil, err
	}
	if _, err := readSegments(&c.s.o, c.s.db, c.s.o.SecondCopy); err != nil {
		return nil, err
	}
	numbers, _ := segmentNumbers(c.s.o.FS, c.s.o.SecondCopy) // if the listing fails, examine returns the error
	least := slices.Max(append(numbers, 0))
	end, err := c.examine(store)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	shut(c.seen)
	given := c.given
	c.mu.Unlock()
	if end != nil && given >= c.began {
		if err := setAside(&c.s.o, end.store, nil); err != nil {
			return nil, err
		}
		end = nil
	}
	l, err := c.openCopyLog(store, end, max(least, given))
	if err != nil {
		return nil, err
	}
	if end == nil {
		c.mu.Lock()
		c.began = l.number
		c.mu.Unlock()
	}
	return l, c.fill(l)
}

// fill catches up and makes the copy live.
func (c *second) fill(l *copyLog) error {
	for from := l.number; ; from = l.number {
		c.mu.Lock()
		c.mode, c.queue, c.queued = copyFilling, nil, 0 // from here on changes are queued
		c.mu.Unlock()
		if err := l.catchUp(); err != nil {
			return err
		}
		if err := l.readBack(from); err != nil {
			return err
		}
		if err := l.removeVoid(); err != nil {
			return err
		}
		c.mu.Lock()
		again := c.mode != copyFilling
		if !again {
			c.mode = copyLive
			c.status = SecondCopy{Live: true, Since: c.s.o.Now()}
			c.settled()
		}
		c.mu.Unlock()
		if !again {
			c.s.o.Logger.Info("second copy is live", "path", c.s.o.SecondCopy)
			return nil
		}
	}
}

func (c *second) stopping() error {
	select {
	case <-c.stop:
		return errStopped
	default:
		return nil
	}
}

func (c *second) take() ([]*change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mode != copyLive {
		return nil, errSlow // a caller waited too long and called leave
	}
	if c.queued > queueLimit {
		return nil, fmt.Errorf("%w: %d bytes wait", errSlow, c.queued)
	}
	list := c.queue
	c.queue, c.queued = nil, 0
	return list, nil
}

// write copies each change that is the next of its series, and releases the change's caller. It puts the other changes
// back into the queue, because the changes before them will arrive.
func (c *second) write(l *copyLog, list []*change) error {
	slices.SortFunc(list, func(a, b *change) int {
		return cmp.Or(cmp.Compare(a.at.Sequence, b.at.Sequence), cmp.Compare(a.at.Position, b.at.Position))
	})
	var written, rest []*change
	for _, n := range list {
		switch p := l.state.Series[n.at.Sequence].Position; {
		case n.at.Position > p+1:
			rest = append(rest, n)
			continue
		case n.at.Position == p+1: // otherwise a fill has copied it
			l.addChange(n)
		}
		written = append(written, n)
	}
	err := l.flush()
	for _, n := range written {
		if err == nil {
			n.end = position{l.number, l.size}
		}
	}
	release(written) // also after a failure
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || c.mode != copyLive {
		release(rest)
		return cmp.Or(err, errSlow)
	}
	for _, n := range rest {
		c.queued += len(n.batch)
	}
	c.queue = append(rest, c.queue...)
	return nil
}

// close ends the copy. It returns true if the medium hangs; the session then uses the store's database until stopped is
// closed.
func (c *second) close() (hangs bool) {
	close(c.stop)
	return timedOut(c.s.o.SecondPatience, c.stopped)
}
