package shelf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/record"
)

// ErrNothingToAcknowledge means that the branch has not gone back to an earlier rule by itself, or that somebody has
// acknowledged that already.
var ErrNothingToAcknowledge = errors.New("there is no return to acknowledge")

// Acknowledgement names who has acknowledged that the branch went back by itself.
type Acknowledgement struct {
	Who    string    `json:"who"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Cancel takes off a bundle that is not in force yet. The rules in force stay. The same bundle can be pushed again. Errors:
// ErrReason, ErrNoSuchRule, or the store's.
func (s *stepping) Cancel(ctx context.Context, t Target, o Order) (*StepBack, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	coming, err := s.orderedBundle(t, o)
	switch {
	case err != nil:
		return nil, err
	case coming.off != nil:
		return nil, fmt.Errorf("%w: %s %s is off already", ErrNoSuchRule, t.Name, t.Version)
	case coming.From <= s.today():
		return nil, fmt.Errorf("%w: %s %s has begun on %s: dtectl rules rollback leads back from it", ErrNoSuchRule, t.Name, t.Version, coming.From)
	}
	b := &StepBack{Way: wayCancel, Who: o.Who, Reason: o.Reason, Off: []record.RuleRef{coming.RuleRef}, At: s.o.Now().UTC()}
	on := slices.DeleteFunc(s.computable(), func(i *shelved) bool { return i == coming })
	if stays := inForce(on, coming, s.today()); stays != nil {
		b.To = stays.RuleRef
	}
	book, err := s.assemble(ctx, on)
	if err != nil {
		return nil, fmt.Errorf("cancelling %s %s: %w", coming.Name, coming.Version, err)
	}
	if err := s.note(ctx, b); err != nil {
		return nil, err
	}
	s.publish(book)
	s.o.Logger.Warn("a rule to come was cancelled", "rule", coming.Name, "version", coming.Version, "who", b.Who, "reason", b.Reason)
	return b, nil
}

// Acknowledge records that somebody knows that the branch went back by itself; until then dtectl doctor reports it. Errors:
// ErrReason, ErrNothingToAcknowledge, or the store's.
func (s *stepping) Acknowledge(ctx context.Context, o Order) (*StepBack, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if o.Reason == "" {
		return nil, ErrReason
	}
	s.mu.RLock()
	last := s.last
	s.mu.RUnlock()
	if last == nil || last.Acknowledged != nil {
		return nil, ErrNothingToAcknowledge
	}
	if err := s.note(ctx, &StepBack{Way: wayAcknowledge, Who: o.Who, Reason: o.Reason, At: s.o.Now().UTC()}); err != nil {
		return nil, err
	}
	s.o.Logger.Info("the return to an earlier rule is known", "rule", last.To.Name, "to", last.To.Version, "who", o.Who, "reason", o.Reason)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}

// acknowledged notes who knows of the latest return. The caller holds mu. What is shown may hold the old one: it is never changed.
func (s *state) acknowledged(b *StepBack) {
	if s.last == nil {
		return
	}
	known := *s.last
	known.Acknowledged = &Acknowledgement{Who: b.Who, Reason: b.Reason, At: b.At}
	s.last = &known
}
