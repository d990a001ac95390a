package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/rulebook"
	"dtegate/storage"
)

// guard counts, since the start, what each bundle does wrong, and makes the branch return to the last good bundle by itself:
// because of evaluations that fail (guard_failures.go), or of what MH refuses (guard_refusals.go).
type guard struct {
	mu       sync.Mutex
	failures map[string]*failures // by digest
	tallies  map[string]*tally
	ordered  map[string]bool
	trusted  map[string]bool // reinstated by an operator
	returns  chan order
}

// order is a return that Run is to make.
type order struct{ digest, reason string }

func newGuard() guard {
	return guard{failures: make(map[string]*failures), tallies: make(map[string]*tally), ordered: make(map[string]bool), trusted: make(map[string]bool), returns: make(chan order, 64)}
}

// want asks for a return, once.
func (g *guard) want(digest, reason string) {
	if g.ordered[digest] {
		return
	}
	select {
	case g.returns <- order{digest, reason}:
		g.ordered[digest] = true
	default: // the next failure asks again
	}
}

// forgive forgets what a bundle did wrong: it was put back.
func (g *guard) forgive(digest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.failures[digest]; f != nil {
		clear(f.recent)
	}
	delete(g.tallies, digest)
	delete(g.ordered, digest)
}

// RetryWithPrevious computes a sale whose rule failed with the last good one, at a point of sale, on a day: no request is
// dropped for a bad bundle. The error joins those of all that were tried.
func (s *Shelf) RetryWithPrevious(ctx context.Context, failed *rulebook.Rule, point int64, day string, facts dte.Value, cause error) (*rulebook.Rule, *rulebook.Evaluation, []dte.Fault, error) {
	s.failed(failed, point, shapeOf(facts), cause)
	book := s.Book()
	next, err := book.Pick(failed.Document, s.o.Ambiente, day)
	if err != nil || next.Ref.Digest == failed.Ref.Digest || next.Filler.Version() != failed.Filler.Version() {
		next = book.Previous(failed.Ref.Digest)
	}
	for ; next != nil; next = book.Previous(next.Ref.Digest) {
		ev, faults, err := next.Evaluate(ctx, facts)
		if err == nil {
			s.metrics.retried.Inc()
			return next, ev, faults, nil
		}
		cause = errors.Join(cause, err)
	}
	return failed, nil, nil, cause
}

// decided counts what MH decided of a document, and asks for a return from a bundle that does harm. A bundle that an
// operator reinstated is not left again for MH's refusals: he has looked at them.
func (s *Shelf) decided(v verdict) {
	if !v.accepted {
		s.metrics.refusals.WithLabelValues(v.cause).Inc()
	}
	book := s.book.Load()
	g := &s.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tallies[v.rule.Digest]
	if t == nil {
		t = newTally()
		g.tallies[v.rule.Digest] = t
	}
	if !t.count(v) || v.accepted {
		return
	}
	previous := book.Previous(v.rule.Digest)
	if previous == nil || g.trusted[v.rule.Digest] {
		return
	}
	if why := t.leave(g.tallies[previous.Ref.Digest], s.o.Points); why != "" {
		g.want(v.rule.Digest, why)
	}
}

// Run makes the returns that the guard asks for, evaluates the shadow's sales, and turns to the next day. It returns
// when ctx ends, with nil.
func (s *Shelf) Run(ctx context.Context) error {
	day := s.today()
	for {
		next := time.Minute
		var offered <-chan storage.Code
		shadow := s.shadow.Load()
		if shadow != nil {
			offered, next = shadow.offered, min(next, max(0, shadow.until.Sub(s.o.Now())))
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case o := <-s.guard.returns:
			s.giveUp(ctx, o)
		case code := <-offered:
			s.look(ctx, shadow, code)
		case <-s.shadowed: // another shadow
		case <-timer.C:
			if shadow != nil && !s.o.Now().Before(shadow.until) {
				s.shadow.CompareAndSwap(shadow, nil)
			}
		}
		timer.Stop()
		if today := s.today(); today != day {
			if err := s.refresh(ctx); err != nil {
				s.o.Logger.Error("turning to the day's rules", "error", err)
				continue
			}
			day = today
		}
	}
}

// giveUp returns to the last good bundle.
func (s *Shelf) giveUp(ctx context.Context, o order) {
	s.changing.Lock()
	defer s.changing.Unlock()
	on := s.on()
	at := slices.IndexFunc(on, func(i *shelved) bool { return i.Digest == o.digest })
	if at < 0 || inForce(on, on[at], s.today()) != on[at] {
		return // it is off already, or no longer in force
	}
	bad := on[at]
	to := before(on, bad)
	if to == nil {
		s.o.Logger.Error("a rule does harm and has no predecessor", "rule", bad.Name, "version", bad.Version, "reason", o.reason)
		return
	}
	back, err := s.stepBack(ctx, to, []*shelved{bad}, &StepBack{Way: wayReturn, Who: "the branch", Reason: fmt.Sprintf("%s %s: %s", bad.Name, bad.Version, o.reason)})
	if err != nil {
		s.o.Logger.Error("returning to the last good rule", "error", err)
		s.guard.mu.Lock()
		delete(s.guard.ordered, o.digest)
		s.guard.mu.Unlock()
		return
	}
	if s.o.Returned != nil {
		s.o.Returned(*back)
	}
}
