package fleet

import (
	"context"
	"slices"
	"sync"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet/fleetproto"
)

// Fence decides whether this box may issue numbers. Its methods send no request to the store; only Await waits for the
// requests of the agent and the shipper.
type Fence struct {
	kicked fairqueue.Bell // wakes the agent to read the enrolments

	mu       sync.Mutex
	standing Standing
	year     string        // the last year, in El Salvador, in which Await waited or the store answered
	answer   chan struct{} // closed when the store next answers about the enrolments
	cloned   bool          // see Standing.Cloned
	// compare returns a channel that is closed once the store has answered whether this box shipped more in an epoch
	// than the box knows; nil: no sale waits
	compare func(epoch int64) <-chan struct{}
}

// Standing describes which box has the branch.
type Standing struct {
	Epoch   int64 // epoch of this box's enrolment; 0: the box was never enrolled and issues no numbers
	Highest int64 // highest epoch of the branch; 0: no box is enrolled
	// Replaced: another box has or had the branch, or Cloned is true. Cloned: a copy of this box runs, or this box was
	// restored from an old image.
	Replaced, Cloned bool
	Points           []fleetproto.Point // the enrolment's points of sale that this box took: it may number only these
	// Behind is why the box took fewer points if its store lacked numbers at the last comparison, otherwise empty.
	Behind string
}

// Numbers reports whether the box may issue numbers for a point of sale.
func (s Standing) Numbers(p fleetproto.Point) bool {
	return s.Epoch > 0 && !s.Replaced && slices.Contains(s.Points, p)
}

// firstPatience is how long Await waits at most.
const firstPatience = 2 * time.Second

func (f *Fence) Standing() Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.standing
	s.Replaced, s.Cloned = s.Replaced || f.cloned, f.cloned
	return s
}

// Close ends the numbering: a copy of this box runs, or this box was restored from an old image.
func (f *Fence) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cloned = true
}

// Compare makes the first Await of an enrolled box wait for the channel of compare too (see ship.Shipper.Compared).
func (f *Fence) Compare(compare func(epoch int64) <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.compare = compare
}

// Await must be called before a number is issued. Before the first number after a start or of a year, it waits for the
// store's answers, at most firstPatience: a box that was switched off may have been replaced, or put back as it was
// long ago. The enrolments are read first: only they name the epoch in which the box may have shipped more.
func (f *Fence) Await(now time.Time) {
	year := dte.Date(now)[:4]
	f.mu.Lock()
	asked, answer, compare := f.year, f.answer, f.compare
	f.mu.Unlock()
	if asked == year && compare == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstPatience)
	defer cancel()
	await := func(done <-chan struct{}) {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	if asked != year {
		f.kicked.Ring()
		await(answer)
	}
	epoch := f.Standing().Epoch
	if compare != nil && epoch > 0 {
		await(compare(epoch))
		compare = nil
	}
	f.mu.Lock()
	f.year, f.compare = year, compare // if the store does not answer, only the first sale waits
	f.mu.Unlock()
}

func (f *Fence) releaseWaiting(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.year = dte.Date(now)[:4]
	close(f.answer)
	f.answer = make(chan struct{})
}

func (f *Fence) set(s Standing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.standing = s
}
