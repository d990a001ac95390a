package shelf

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// stepping takes bundles off the shelf and puts them back.
type stepping struct {
	*state
	*compiler
}

// Target names a bundle that was live on this branch.
type Target struct {
	Name    string `json:"name"`
	Schema  int    `json:"schema"`
	Version string `json:"version"`
	// Expired takes the branch also to a bundle whose own dates are over.
	Expired bool `json:"expired,omitempty"`
}

var (
	// ErrNoSuchRule means that a step back leads nowhere.
	ErrNoSuchRule = errors.New("there is nothing to go back to")
	// ErrExpired means that a step back leads to a bundle whose own dates are over, and nobody has said that this is meant.
	ErrExpired = errors.New("its own dates are over")
)

// Rollback takes off the bundles that are in force or superseded and rank above the target, whatever their versions are, and
// puts the target back. The version floor stays. Bundles that are not in force yet stay: see Cancel. Errors: ErrReason,
// ErrNoSuchRule, ErrExpired, or the store's.
func (s *stepping) Rollback(ctx context.Context, t Target, o Order) (*StepBack, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	to, err := s.orderedBundle(t, o)
	switch {
	case err != nil:
		return nil, err
	case to.From > s.today():
		return nil, fmt.Errorf("%w: %s %s begins on %s only: dtectl rules cancel takes it off", ErrNoSuchRule, t.Name, t.Version, to.From)
	case to.trouble != nil:
		return nil, fmt.Errorf("%w: %s %s may not compute: %s", ErrNoSuchRule, t.Name, t.Version, to.trouble.Text)
	case to.expired(s.today()) && !t.Expired:
		return nil, fmt.Errorf("%s %s was in force from %s until %s: %w; it goes live again only if the order says that an expired rule is meant", t.Name, t.Version, to.From, to.Until, ErrExpired)
	}
	// What has begun goes, of its generation and of others; what is to come stays.
	var off []*shelved
	coming := ""
	for _, i := range s.computable() {
		switch {
		case !i.sameDocument(to) || i.rank(to) <= 0:
		case i.From <= s.today():
			off = append(off, i)
		default:
			coming += fmt.Sprintf("; %s %s of generation %d begins on %s only: dtectl rules cancel takes it off", i.Name, i.Version, i.Schema, i.From)
		}
	}
	if len(off) == 0 && to.off == nil {
		return nil, fmt.Errorf("%w: %s %s is live%s", ErrNoSuchRule, to.Name, to.Version, coming)
	}
	return s.stepBack(ctx, to, off, &StepBack{Way: wayRollback, Who: o.Who, Reason: o.Reason})
}

// orderedBundle finds the bundle that an operator's order names. The caller holds changing. Errors: ErrReason, ErrNoSuchRule.
func (s *stepping) orderedBundle(t Target, o Order) (*shelved, error) {
	if o.Reason == "" {
		return nil, ErrReason
	}
	i := s.find(func(i *shelved) bool { return i.Name == t.Name && i.Schema == t.Schema && i.Version == t.Version })
	if i == nil {
		return nil, fmt.Errorf("%w: %s %s of generation %d was never here", ErrNoSuchRule, t.Name, t.Version, t.Schema)
	}
	return i, nil
}

func (s *state) find(is func(*shelved) bool) *shelved {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, i := range s.items {
		if is(i) {
			return i
		}
	}
	return nil
}

// stepBack takes bundles off in favour of one, in one commit.
func (s *stepping) stepBack(ctx context.Context, to *shelved, off []*shelved, b *StepBack) (*StepBack, error) {
	b.To, b.At = to.RuleRef, s.o.Now().UTC()
	if to.expired(s.today()) {
		b.Expired = to.Until
	}
	on := slices.DeleteFunc(s.computable(), func(i *shelved) bool { return i == to || slices.Contains(off, i) })
	for _, i := range off {
		b.Off = append(b.Off, i.RuleRef)
	}
	book, err := s.assemble(ctx, append(on, to))
	if err != nil {
		return nil, fmt.Errorf("going back to %s %s: %w", to.Name, to.Version, err)
	}
	if err := s.note(ctx, b); err != nil {
		return nil, err
	}
	s.guard.Forgive(to.Digest)
	book.Resume(to.Digest)
	s.publish(book)
	s.o.Logger.Warn("rules went back", "way", b.Way, "rule", to.Name, "to", to.Version, "off", len(b.Off), "who", b.Who, "reason", b.Reason, "expired", b.Expired)
	return b, nil
}

// note records a step and applies it.
func (s *state) note(ctx context.Context, b *StepBack) error {
	code, err := dte.NewCode(rand.Reader)
	if err != nil {
		return err
	}
	if _, err := s.write(ctx, storage.Code(code), record.RuleStepBack, b, b.At, nil); err != nil {
		return fmt.Errorf("recording the step: %w", err)
	}
	s.mu.Lock()
	s.apply(b)
	s.mu.Unlock()
	s.metrics.steppedBack.WithLabelValues(b.Way).Inc()
	return nil
}
