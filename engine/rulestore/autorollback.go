package rulestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/rules"
	"dtegate/storage"
)

// Answered is Guard.Answered.
func (s *Store) Answered(r *Rule, point int64) { s.guard.Answered(r, point) }

// How a sale is computed after its rule failed: see Options.OnFailure.
const (
	Valid  = "valid"  // the last good rule computes the sale, if the sale's day is within that rule's dates
	Any    = "any"    // the last good rule computes the sale, even outside of its dates
	Refuse = "refuse" // the sale is refused
)

// Kinds of failure.
const (
	FailureTrap = "trap" // any failure other than FailureFuel and FailureTime
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

// RetryWithPrevious computes a sale after its rule failed with cause: with the rule that is now in force, or with a
// previous good rule. point is the point of sale, day (yyyy-mm-dd) the day of the sale. It retries as Options.OnFailure
// permits: after a change of law the previous rule has the old rate. A warning of the evaluation names the rule. If no
// rule computes the sale, a *refusal.Error of CodeRuleFailed joins the errors of all rules tried.
func (s *Store) RetryWithPrevious(ctx context.Context, failed *Rule, point int64, day string, facts dte.Value,
	fill schema.FillOptions, cause error) (*Rule, *Evaluation, []dte.Fault, error) {
	s.o.Logger.Error("a rule failed", "rule", failed.Ref.Name, "version", failed.Ref.Version, "point_of_sale", point,
		"error", cause)
	s.guard.Note(failed.Ref.Digest, s.o.Now())
	policy, failure := cmp.Or(s.o.OnFailure[failureKind(cause)], Valid), cause
	book := s.Book()
	next, err := book.Pick(failed.Document, s.o.Ambiente, day)
	if err != nil || next.Ref.Digest == failed.Ref.Digest || next.Filler.Version() != failed.Filler.Version() {
		next = book.Previous(failed.Ref.Digest)
	}
	for ; next != nil && policy != Refuse; next = book.Previous(next.Ref.Digest) {
		if policy != Any && !next.HoldsOn(s.o.Ambiente, day) {
			continue
		}
		ev, faults, err := next.Make(ctx, facts, fill)
		if err == nil {
			// Only now: a return helps nobody if every rule fails at these facts, such as the motive of a contingency.
			s.guard.Failed(failed, point, ShapeOf(facts), failure, s.o.Now())
			s.metrics.retried.Inc()
			if ev != nil {
				ev.Warnings = append(ev.Warnings, fmt.Sprintf("La regla %s %s falló; calculó la regla %s %s",
					failed.Ref.Name, failed.Ref.Version, next.Ref.Name, next.Ref.Version))
			}
			return next, ev, faults, nil
		}
		cause = errors.Join(cause, err)
	}
	s.metrics.unsold.Inc()
	return failed, nil, nil, &refusal.Error{Code: refusal.CodeRuleFailed, RetryAfter: ruleFailedRetry, Err: cause,
		Message: fmt.Sprintf("La regla %s %s falló y ninguna otra vale el %s; avise a quien administra el equipo",
			failed.Ref.Name, failed.Ref.Version, day)}
}

// EventFailed counts that an event's bundle has contradicted the box's data, and returns the error for the caller.
func (s *Store) EventFailed(e *Event, cause error) error {
	s.o.Logger.Error("a rule failed", "rule", e.Ref.Name, "version", e.Ref.Version, "error", cause)
	s.guard.Note(e.Ref.Digest, s.o.Now())
	s.metrics.unsold.Inc()
	return &refusal.Error{Code: refusal.CodeRuleFailed, RetryAfter: ruleFailedRetry, Err: cause,
		Message: fmt.Sprintf("La regla %s %s falló; avise a quien administra el equipo", e.Ref.Name, e.Ref.Version)}
}

// ruleFailedRetry is how long a till should wait before it asks again. Meanwhile somebody may push a working rule.
const ruleFailedRetry = time.Minute

// Judge counts MH's decision about a document; to is the document's new state.
func (s *Store) Judge(entry storage.Entry, h *record.Head, to storage.State) {
	if to == record.Accepted || to == record.Rejected {
		s.guard.Decided(s.verdict(entry, h, to), s.book.Load())
	}
}

// JudgeEvent counts MH's decision about an event.
func (s *Store) JudgeEvent(rule record.RuleRef, accepted bool) {
	s.guard.Decided(Verdict{Rule: rule, Accepted: accepted, At: s.o.Now()}, s.book.Load())
}

// recounted is how many of the store's newest records recount reads.
const recounted = 5 * Shown

// recount counts MH's decisions again from the stored documents, because a restart must not forget refusals.
func (s *Store) recount() error {
	last, book := s.o.Store.LastID(), s.book.Load()
	err := s.o.Store.Records(last-min(last, recounted), func(entry storage.Entry) error {
		var events []Verdict
		switch entry.State {
		case record.RuleStepBack:
			var b StepBack
			if json.Unmarshal(entry.Head, &b) == nil && b.Way != wayCancel {
				s.guard.Forgive(b.To.Digest)
			}
		case record.EventAccepted, record.EventDone, record.EventRejected:
			var event struct {
				Rule    record.RuleRef    `json:"rule"`
				Receipt authority.Receipt `json:"receipt"`
			}
			if json.Unmarshal(entry.Head, &event) == nil {
				v := Verdict{Rule: event.Rule, Accepted: entry.State != record.EventRejected, At: event.Receipt.At}
				events = append(events, v)
			}
		case record.Accepted, record.Rejected, record.Invalidated:
			h, err := record.DecodeHead(entry)
			if err != nil {
				return nil // the queue in which the document waits reports the error
			}
			to := entry.State
			if i := h.Invalidation; i != nil && i.Estado != record.EstadoPending {
				v := Verdict{Rule: i.Rule, Accepted: i.Estado == record.EstadoProcessed, At: i.At}
				events, to = append(events, v), record.Accepted
			}
			v := s.verdict(entry, h, to)
			v.At = h.CreatedAt
			events = append(events, v)
		}
		for _, v := range events {
			v.Past = true
			s.guard.Decided(v, book)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("counting MH's last decisions: %w", err)
	}
	return nil
}

func (s *Store) verdict(entry storage.Entry, h *record.Head, to storage.State) Verdict {
	v := Verdict{Rule: h.Rule, Point: h.PointID, Accepted: to == record.Accepted, At: s.o.Now()}
	if !v.Accepted {
		if part, err := s.o.Store.Part(entry.Code, h.FactsPart()); err != nil {
			s.o.Logger.Error("reading the facts of a refused document", "code", dte.Code(entry.Code).String(), "error",
				err)
		} else if facts, err := dte.ParseFacts(part); err == nil {
			v.Shape = ShapeOf(facts)
			if book := s.book.Load(); book != nil && h.Response != nil { // book is nil if the store is only inspected
				if r := book.Compiled(h.Rule.Digest); r != nil {
					v.Cause = CauseOf(h.Response, r.Filler, facts)
				}
			}
		}
	}
	return v
}

// Run works until ctx ends: it follows the guard's Returns, computes the shadow's sales, and begins each day's rules.
func (s *Store) Run(ctx context.Context) error {
	day := s.today()
	for {
		next := time.Minute
		var offered <-chan storage.Code
		shadow := s.shadows.running.Load()
		if shadow != nil {
			offered, next = shadow.offered, min(next, max(0, shadow.seen.Until.Sub(s.o.Now())))
		}
		select {
		case <-ctx.Done():
			return nil
		case r := <-s.guard.Wanted():
			s.Return(ctx, r)
		case code := <-offered:
			s.look(ctx, shadow, code)
		case <-s.shadows.changed: // another shadow runs, or no shadow runs
		case <-time.After(next):
			if shadow != nil && !s.o.Now().Before(shadow.seen.Until) {
				s.shadows.running.CompareAndSwap(shadow, nil)
			}
		}
		if today := s.today(); today != day {
			if err := s.Refresh(ctx); err != nil {
				s.o.Logger.Error("changing to the day's rules", "error", err)
				continue
			}
			day = today
		}
	}
}

// Return makes the branch leave a bundle for the last good bundle before it, as the guard requested. It logs errors.
func (s *Store) Return(ctx context.Context, r Return) {
	s.changing.Lock()
	defer s.changing.Unlock()
	on := s.computable()
	at := slices.IndexFunc(on, func(i *shelved) bool { return i.Digest == r.Digest })
	if at < 0 || inForce(on, on[at], s.today()) != on[at] {
		return // the bundle is off already, or no longer in force
	}
	bad := on[at]
	to := lastGoodBefore(on, bad)
	if to != nil && to.expired(s.today()) && s.o.OnFailure[FailureTrap] != Any {
		s.o.Logger.Error("a rule does harm, and the dates of the rule before are over", "rule", bad.Name, "version",
			bad.Version, "before", to.Version, "reason", r.Reason)
		return
	}
	if to == nil {
		s.o.Logger.Error("a rule does harm and has no predecessor", "rule", bad.Name, "version", bad.Version, "reason",
			r.Reason)
		return
	}
	back, err := s.stepBack(ctx, to, []*shelved{bad}, &StepBack{Way: wayReturn, Who: "the branch",
		Reason: fmt.Sprintf("%s %s: %s", bad.Name, bad.Version, r.Reason)})
	if err != nil {
		s.o.Logger.Error("returning to the last good rule", "error", err)
		s.guard.NotMade(r.Digest)
		return
	}
	if s.o.Returned != nil {
		s.o.Returned(*back)
	}
}
