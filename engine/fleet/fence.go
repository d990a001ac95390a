package fleet

import (
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
	kicked fairqueue.Bell // wakes the agent, which reads the enrolments

	mu       sync.Mutex
	standing Standing
	year     string        // the year, in El Salvador, of the agent's last request to the store, answered or not
	answer   chan struct{} // closed by the next answer
	cloned   bool          // another copy of this box runs
	// compared is closed once the store has answered whether this box shipped more than it knows; nil: no sale waits
	compared <-chan struct{}
}

// Standing describes which box has the branch.
type Standing struct {
	Epoch   int64 // epoch of this box's enrolment; 0: the box was never enrolled and issues no numbers
	Highest int64 // highest epoch of the branch; 0: no box is enrolled
	// Replaced: another box has the branch. Since is when the director signed the highest enrolment.
	Replaced bool
	Since    time.Time
	Points   []fleetproto.Point // points of sale of this box's enrolment: the box may number only these
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
	s.Replaced = s.Replaced || f.cloned
	return s
}

// Close ends the numbering, because another copy of this box runs.
func (f *Fence) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cloned = true
}

// Compare makes the first Await wait for compared too (ship.Shipper.Compared).
func (f *Fence) Compare(compared <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.compared = compared
}

// Await must be called before a number is issued. Before the first number after a start or of a year, it waits for the
// store's answers, at most firstPatience: a box that was switched off may have been replaced, or put back as it was
// long ago.
func (f *Fence) Await(now time.Time) {
	year := dte.Date(now)[:4]
	f.mu.Lock()
	asked, answer, compared := f.year, f.answer, f.compared
	f.mu.Unlock()
	var wait []<-chan struct{}
	if asked != year {
		f.kicked.Ring()
		wait = append(wait, answer)
	}
	if compared != nil {
		wait = append(wait, compared)
	}
	if wait == nil {
		return
	}
	fairqueue.Await(firstPatience, wait...)
	f.mu.Lock()
	f.year, f.compared = year, nil // if the store does not answer, only the first sale waits
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
