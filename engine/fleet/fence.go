package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet/wire"
)

// Fence tells whether this box may number. Its methods never ask the store; Await alone waits for the agent to have asked.
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

// maxForeign is how many objects that no director signed are passed over in a look for the next enrolment: somebody with the
// store's credentials may have put them where the next one belongs.
const maxForeign = 16

// look goes through the enrolments of the branch that the box has not seen. The highest that the director signed says whose the
// branch is. An epoch that another box has after this box's ends this box for good, also when its key is enrolled once more: what
// its store knows is old.
func (a *Agent) look(ctx context.Context) error {
	next := enrolled{Highest: a.state.Highest, Object: a.state.Object, Own: a.state.Own, Over: a.state.Over}
	var fault error
	foreign, away, known := 0, false, int64(0)
	for epoch := next.Highest + 1; foreign < maxForeign; epoch++ {
		o, err := a.get(ctx, wire.BoxKey(a.o.Branch, epoch), wire.MaxJWS)
		if errors.Is(err, wire.ErrNotFound) {
			break
		}
		if err != nil && !errors.Is(err, wire.ErrTooLarge) {
			fault, away = fmt.Errorf("asking for epoch %d: %w", epoch, err), true
			break
		}
		var e *wire.Enrolment
		if err == nil {
			e, err = wire.OpenEnrolment(o.Data, a.o.Director, a.o.Branch, epoch)
		}
		if err != nil {
			foreign++
			fault = fmt.Errorf("epoch %d is not taken: %w", epoch, err)
			continue
		}
		next.Highest, next.Object = epoch, o.Data
		switch {
		case !a.owns(e):
			next.Over = next.Over || next.Own > 0
		case !next.Over:
			next.Own, known = epoch, e.After
		}
	}
	if next.Highest == a.state.Highest || away && next.Own == 0 { // nothing new; or the enrolment of this box may be the next one
		return fault
	}
	before, now := a.fence.enrolled(), a.standing(next)
	if now == before {
		return fault
	}
	if now.Epoch != before.Epoch && a.state.Version < known {
		if err := a.read(ctx); a.state.Version < known {
			return errors.Join(fault, fmt.Errorf("version %d of the desired state is to be known before anything is numbered", known), err)
		}
	}
	err := a.change(func(s *state) {
		s.enrolled = next
		if now.Replaced && !before.Replaced {
			a.tell(s, wire.Act{What: wire.ActReplaced, Reason: fmt.Sprintf("epoch %d", now.Highest)})
		}
	})
	// The fence closes also when the state cannot be written; it opens only behind that.
	if err == nil || now.Replaced {
		a.fence.set(now)
	}
	if err != nil {
		return errors.Join(fault, err)
	}
	a.dirty = true
	if now.Replaced && !before.Replaced {
		a.o.Logger.Error("another box has this branch: nothing is numbered here any more", "epoch", now.Highest, "own", now.Epoch)
	} else {
		a.o.Logger.Info("the branch's enrolment", "branch", a.o.Branch, "epoch", now.Highest, "own", now.Epoch)
	}
	return fault
}

// owns tells that an enrolment names this box's key.
func (a *Agent) owns(e *wire.Enrolment) bool {
	return e.BoxKeyOf().Public.Equal(a.public())
}

// standing is what the enrolments prove: the highest counts while a pinned director's key has signed it.
func (a *Agent) standing(n enrolled) Standing {
	s := Standing{Epoch: n.Own, Highest: n.Highest}
	if n.Highest == 0 {
		return s
	}
	e, err := wire.OpenEnrolment(n.Object, a.o.Director, a.o.Branch, n.Highest)
	if err == nil && (n.Over || !a.owns(e)) {
		s.Replaced, s.Since = true, e.At
	}
	return s
}
