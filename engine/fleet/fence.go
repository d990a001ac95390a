package fleet

import (
	"sync"
	"time"

	"dtegate/engine/dte"
)

// Fence knows whether this box may take numbers. Its methods never ask the store; only Await waits until the agent has asked it.
type Fence struct {
	kicked chan struct{} // one element: the agent is to ask

	mu       sync.Mutex
	standing Standing
	year     string        // El Salvador's, in which the store was last asked, whatever it answered
	answer   chan struct{} // closed by the next answer
	cloned   bool          // another copy of this box runs
}

// Standing is whose the branch is.
type Standing struct {
	Epoch   int64 // at which this box is enrolled; 0: it is not
	Highest int64 // of the branch; 0: no box is enrolled
	// Replaced: another box has the branch. Since is when the director said so.
	Replaced bool
	Since    time.Time
}

// firstPatience is how long the first number after a start, and the first of a year, waits for the store.
const firstPatience = 2 * time.Second

func newFence(s Standing) *Fence {
	return &Fence{kicked: make(chan struct{}, 1), standing: s, answer: make(chan struct{})}
}

// Standing is whose the branch is, as far as this box knows.
func (f *Fence) Standing() Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.standing
	s.Replaced = s.Replaced || f.cloned
	return s
}

// Close ends the numbering: another copy of this box runs.
func (f *Fence) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cloned = true
}

// enrolled is what the enrolments say alone.
func (f *Fence) enrolled() Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.standing
}

// Await waits for the store's word before the first number after a start and before the first of a year, firstPatience at
// most: a box that was away may have been replaced meanwhile. All other numbers wait for nothing.
func (f *Fence) Await(now time.Time) {
	year := dte.Date(now)[:4]
	f.mu.Lock()
	asked, answer := f.year, f.answer
	f.mu.Unlock()
	if asked == year {
		return
	}
	select {
	case f.kicked <- struct{}{}:
	default: // it is on its way
	}
	timer := time.NewTimer(firstPatience)
	defer timer.Stop()
	select {
	case <-answer:
	case <-timer.C:
		f.noteAsked(now) // a store that is silent holds up one sale, not all
	}
}

// noteAsked notes that the store was asked in a year.
func (f *Fence) noteAsked(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.year = dte.Date(now)[:4]
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
