package shelf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
	"dtegate/engine/shelf/guard"
	"dtegate/rules"
	"dtegate/storage"
)

// Answered counts an evaluation that did not fail, whatever its result. On a nil shelf it does nothing.
func (s *Shelf) Answered(r *rulebook.Rule, point int64) {
	if s != nil {
		s.guard.Answered(r, point)
	}
}

// What becomes of a sale whose rule fails, by the kind of failure: see Options.OnFailure.
const (
	Valid  = "valid"  // the last good rule computes it, if its own dates hold on the day
	Any    = "any"    // the last good rule computes it, whatever its dates say
	Refuse = "refuse" // the sale is refused
)

// Kinds of failure.
const (
	FailureTrap = "trap" // and whatever is no other kind
	FailureFuel = "fuel"
	FailureTime = "time"
)

func failureKind(cause error) string {
	switch {
	case errors.Is(cause, rules.ErrFuel):
		return FailureFuel
	case errors.Is(cause, rules.ErrTimeout):
		return FailureTime
	}
	return FailureTrap
}

// RetryWithPrevious computes a sale, whose rule failed, with the previous good rule. point is the point of sale, day the day
// (yyyy-mm-dd) of the sale, cause why the rule failed. It does so only if Options.OnFailure permits it for this kind of
// failure, because after a change of law the previous rule has the old rate. The evaluation's warnings name the rule. Otherwise
// the error is a *refusal.Error of CodeRuleFailed, which joins the errors of all rules that were tried.
func (s *Shelf) RetryWithPrevious(ctx context.Context, failed *rulebook.Rule, point int64, day string, facts dte.Value, cause error) (*rulebook.Rule, *rulebook.Evaluation, []dte.Fault, error) {
	s.o.Logger.Error("a rule failed", "rule", failed.Ref.Name, "version", failed.Ref.Version, "point_of_sale", point, "error", cause)
	policy := cmp.Or(s.o.OnFailure[failureKind(cause)], Valid)
	if policy != Refuse { // else the branch would go back to the rule before in a while
		s.guard.Failed(failed, point, guard.ShapeOf(facts), cause, s.o.Now())
	}
	book := s.Book()
	next, err := book.Pick(failed.Document, s.o.Ambiente, day)
	if err != nil || next.Ref.Digest == failed.Ref.Digest || next.Filler.Version() != failed.Filler.Version() {
		next = book.Previous(failed.Ref.Digest)
	}
	for ; next != nil && policy != Refuse; next = book.Previous(next.Ref.Digest) {
		if policy != Any && !next.HoldsOn(s.o.Ambiente, day) {
			continue
		}
		ev, faults, err := next.Evaluate(ctx, facts)
		if err == nil {
			s.metrics.retried.Inc()
			if ev != nil {
				ev.Warnings = append(ev.Warnings, fmt.Sprintf("La regla %s %s falló; calculó la regla %s %s", failed.Ref.Name, failed.Ref.Version, next.Ref.Name, next.Ref.Version))
			}
			return next, ev, faults, nil
		}
		cause = errors.Join(cause, err)
	}
	s.metrics.unsold.Inc()
	return failed, nil, nil, &refusal.Error{Code: refusal.CodeRuleFailed, RetryAfter: ruleFailedRetry, Err: cause,
		Message: fmt.Sprintf("La regla %s %s falló y ninguna otra vale el %s; avise a quien administra el equipo", failed.Ref.Name, failed.Ref.Version, day)}
}

// ruleFailedRetry is when a till may ask again: until then somebody may have pushed a rule.
const ruleFailedRetry = time.Minute

// Judge counts MH's decision about a document that has moved to a state. On a nil shelf it does nothing.
func (s *Shelf) Judge(entry storage.Entry, h *record.Head, to storage.State) {
	if s == nil || to != record.Accepted && to != record.Rejected {
		return
	}
	v := guard.Verdict{Rule: h.Rule, Point: h.PointID, Accepted: to == record.Accepted}
	if !v.Accepted {
		v.Cause = guard.CauseUnclear
		if part, err := s.o.Store.Part(entry.Code, h.FactsPart()); err != nil {
			s.o.Logger.Error("reading the facts of a refused document", "code", dte.Code(entry.Code).String(), "error", err)
		} else if facts, err := dte.Parse(part); err == nil {
			v.Shape = guard.ShapeOf(facts)
			if r := s.book.Load().Compiled(h.Rule.Digest); r != nil && h.Response != nil {
				v.Cause = guard.CauseOf(h.Response, r.Filler, facts)
			}
		}
	}
	if !v.Accepted {
		s.metrics.refusals.WithLabelValues(v.Cause).Inc()
	}
	s.guard.Decided(v, s.book.Load())
}

// Run makes the returns for which the guard asks, computes the shadow's sales, and changes to the next day's rules. It returns
// nil when ctx ends.
func (s *Shelf) Run(ctx context.Context) error {
	day := s.today()
	for {
		next := time.Minute
		var offered <-chan storage.Code
		shadow := s.running.Load()
		if shadow != nil {
			offered, next = shadow.offered, min(next, max(0, shadow.until.Sub(s.o.Now())))
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case r := <-s.guard.Wanted():
			s.Return(ctx, r)
		case code := <-offered:
			s.look(ctx, shadow, code)
		case <-s.changed: // another shadow
		case <-timer.C:
			if shadow != nil && !s.o.Now().Before(shadow.until) {
				s.running.CompareAndSwap(shadow, nil)
			}
		}
		timer.Stop()
		if today := s.today(); today != day {
			if err := s.Refresh(ctx); err != nil {
				s.o.Logger.Error("turning to the day's rules", "error", err)
				continue
			}
			day = today
		}
	}
}

// Guard returns the guard, which counts what the bundles do wrong and asks for returns.
func (s *Shelf) Guard() *guard.Guard { return s.guard }

// Return makes a return, for which the guard has asked, to the last good bundle. It logs its errors.
func (s *stepping) Return(ctx context.Context, r guard.Return) {
	s.changing.Lock()
	defer s.changing.Unlock()
	on := s.computable()
	at := slices.IndexFunc(on, func(i *shelved) bool { return i.Digest == r.Digest })
	if at < 0 || inForce(on, on[at], s.today()) != on[at] {
		return // it is off already, or no longer in force
	}
	bad := on[at]
	to := lastGoodBefore(on, bad)
	if to != nil && to.expired(s.today()) && s.o.OnFailure[FailureTrap] != Any {
		s.o.Logger.Error("a rule does harm, and the dates of the rule before are over", "rule", bad.Name, "version", bad.Version, "before", to.Version, "reason", r.Reason)
		return
	}
	if to == nil {
		s.o.Logger.Error("a rule does harm and has no predecessor", "rule", bad.Name, "version", bad.Version, "reason", r.Reason)
		return
	}
	back, err := s.stepBack(ctx, to, []*shelved{bad}, &StepBack{Way: wayReturn, Who: "the branch", Reason: fmt.Sprintf("%s %s: %s", bad.Name, bad.Version, r.Reason)})
	if err != nil {
		s.o.Logger.Error("returning to the last good rule", "error", err)
		s.guard.NotMade(r.Digest)
		return
	}
	if s.o.Returned != nil {
		s.o.Returned(*back)
	}
}
