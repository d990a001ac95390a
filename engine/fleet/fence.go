package fleet

import (
	"slices"
	"sync"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet/fleetproto"
)

// Fence decides whether this box may issue numbers. Its methods never ask the store; only Await waits, until the agent
// has asked the store.
type Fence struct {
	kicked fairqueue.Bell // wakes the agent to ask the store

	mu       sync.Mutex
	standing Standing
	year     string        // the year, in El Salvador, of the last question to the store, answered or not
	answer   chan struct{} // closed by the next answer
	cloned   bool          // another copy of this box runs
}

// Standing describes which box has the branch.
type Standing struct {
	Epoch   int64 // of this box's enrolment; 0: the box was never enrolled and issues no numbers
	Highest int64 // of the branch; 0: no box is enrolled
	// Replaced: another box has the branch. Since is when the director signed the highest enrolment.
	Replaced bool
	Since    time.Time
	Points   []fleetproto.Point // points of sale of this box's enrolment: the box may number only these
}

// Numbers reports whether the box may issue numbers for a point of sale.
func (s Standing) Numbers(p fleetproto.Point) bool {
	return s.Epoch > 0 && !s.Replaced && slices.Contains(s.Points, p)
}

// firstPatience is how long the first number after a start, and the first number of a year, waits for the store.
const firstPatience = 2 * time.Second

// Standing returns which box has the branch, as far as this box knows.
func (f *Fence) Standing() Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.standing
	s.Replaced = s.Replaced || f.cloned
	return s
}

// Close ends the numbering, because another copy of this box runs.
func (f *Fence) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cloned = true
}

// Await waits for the store's answer, at most firstPatience, before the first number after a start and before the first
// number of a year: a box that was off may have been replaced. For other numbers it returns at once.
func (f *Fence) Await(now time.Time) {
	year := dte.Date(now)[:4]
	f.mu.Lock()
	asked, answer := f.year, f.answer
	f.mu.Unlock()
	if asked == year {
		return
	}
	f.kicked.Ring()
	if !fairqueue.Await(answer, firstPatience) { // a silent store delays one sale, not all
		f.mu.Lock()
		f.year = year
		f.mu.Unlock()
	}
}

// releaseWaiting releases the callers of Await.
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
