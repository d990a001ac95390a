package rulestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

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
	// ErrExpired means that a step back leads to a bundle whose own dates are over, and nobody has said that this is
	// meant.
	ErrExpired = errors.New("its own dates are over")
)

// Rollback takes off the bundles that are in force or superseded and rank above the target, whatever their versions
// are, and puts the target back. The version floor stays. Bundles that are not in force yet stay: see Cancel. Errors:
// ErrReason, ErrNoSuchRule, ErrExpired, or the store's.
func (s *Store) Rollback(ctx context.Context, t Target, o Order) (*StepBack, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	to, err := s.orderedBundle(t, o)
	switch {
	case err != nil:
		return nil, err
	case to.From > s.today():
		return nil, fmt.Errorf("%w: %s %s begins on %s only: dtectl rules cancel takes it off", ErrNoSuchRule, t.Name,
			t.Version, to.From)
	case to.trouble != nil:
		return nil, fmt.Errorf("%w: %s %s may not compute: %s", ErrNoSuchRule, t.Name, t.Version, to.trouble.Text)
	case to.expired(s.today()) && !t.Expired:
		return nil, fmt.Errorf("%s %s was in force from %s until %s: %w; it goes live again only if the order says "+
			"that an expired rule is meant", t.Name, t.Version, to.From, to.Until, ErrExpired)
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
			coming += fmt.Sprintf("; %s %s of generation %d begins on %s only: dtectl rules cancel takes it off",
				i.Name, i.Version, i.Schema, i.From)
		}
	}
	if len(off) == 0 && to.off == nil {
		return nil, fmt.Errorf("%w: %s %s is live%s", ErrNoSuchRule, to.Name, to.Version, coming)
	}
	return s.stepBack(ctx, to, off, &StepBack{Way: wayRollback, Who: o.Who, Reason: o.Reason})
}

// orderedBundle finds the bundle that an operator's order names. The caller holds changing. Errors: ErrReason,
// ErrNoSuchRule.
func (s *Store) orderedBundle(t Target, o Order) (*shelved, error) {
	if o.Reason == "" {
		return nil, ErrReason
	}
	i := s.find(func(i *shelved) bool { return i.Name == t.Name && i.Schema == t.Schema && i.Version == t.Version })
	if i == nil {
		return nil, fmt.Errorf("%w: %s %s of generation %d was never here", ErrNoSuchRule, t.Name, t.Version, t.Schema)
	}
	return i, nil
}

func (s *Store) find(is func(*shelved) bool) *shelved {
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
func (s *Store) stepBack(ctx context.Context, to *shelved, off []*shelved, b *StepBack) (*StepBack, error) {
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
	s.o.Logger.Warn("rules went back", "way", b.Way, "rule", to.Name, "to", to.Version, "off", len(b.Off), "who", b.Who,
		"reason", b.Reason, "expired", b.Expired)
	return b, nil
}

// note records a step and applies it.
func (s *Store) note(ctx context.Context, b *StepBack) error {
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

// ErrReason means that an operator gave no reason, and the record needs one.
var ErrReason = errors.New("a reason is needed")

// Reinstate puts back a bundle that the branch had left by itself, and records the operator's reason. From then on the
// branch does not leave that bundle because of MH's refusals; it still leaves it if its module fails. Errors:
// ErrReason, ErrNoSuchRule, ErrExpired, or the store's.
func (s *Store) Reinstate(ctx context.Context, t Target, o Order) (*StepBack, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	to, err := s.orderedBundle(t, o)
	switch {
	case err != nil:
		return nil, err
	case to.off == nil:
		return nil, fmt.Errorf("%w: %s %s was not taken off", ErrNoSuchRule, to.Name, to.Version)
	case to.trouble != nil:
		return nil, fmt.Errorf("%w: %s %s may not compute: %s", ErrNoSuchRule, t.Name, t.Version, to.trouble.Text)
	case to.off.Way != wayReturn:
		return nil, fmt.Errorf("%w: %s %s was taken off by %s, not by the branch itself: dtectl rules rollback leads "+
			"there", ErrNoSuchRule, to.Name, to.Version, to.off.Who)
	}
	if to.expired(s.today()) && !t.Expired {
		return nil, fmt.Errorf("%s %s was in force until %s: %w; it goes live again only if the order says that an "+
			"expired rule is meant", t.Name, t.Version, to.Until, ErrExpired)
	}
	if best := inForce(s.computable(), to, s.today()); best != nil && best.rank(to) > 0 {
		return nil, fmt.Errorf("%w: %s %s has taken over since", ErrNoSuchRule, best.Name, best.Version)
	}
	return s.stepBack(ctx, to, nil, &StepBack{Way: wayReinstate, Who: o.Who, Reason: o.Reason})
}

// reinstated notes that an operator put a bundle back: the return from it is over. Only a record that bears this box's
// mark takes the guard away: one that came in a backup may be somebody's. The caller holds mu.
func (s *Store) reinstated(b *StepBack) {
	if s.last != nil && len(s.last.Off) > 0 && s.last.Off[0].Digest == b.To.Digest {
		s.last = nil
	}
	if b.word != recordmac.Own {
		return
	}
	s.guard.Trust(b.To.Digest)
}

// ErrNothingToAcknowledge means that the branch has not gone back to an earlier rule by itself, or that somebody has
// acknowledged that already.
var ErrNothingToAcknowledge = errors.New("there is no return to acknowledge")

// Acknowledgement names who has acknowledged that the branch went back by itself.
type Acknowledgement struct {
	Who    string    `json:"who"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Cancel takes off a bundle that is not in force yet, or one that brought a type of document of which nothing else is
// here. The other rules stay in force. The same bundle can be pushed again. Errors: ErrReason, ErrNoSuchRule, or the
// store's.
func (s *Store) Cancel(ctx context.Context, t Target, o Order) (*StepBack, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	coming, err := s.orderedBundle(t, o)
	switch {
	case err != nil:
		return nil, err
	case coming.off != nil:
		return nil, fmt.Errorf("%w: %s %s is off already", ErrNoSuchRule, t.Name, t.Version)
	case coming.From <= s.today() && !s.broughtType(coming):
		return nil, fmt.Errorf("%w: %s %s has begun on %s: dtectl rules rollback leads back from it", ErrNoSuchRule,
			t.Name, t.Version, coming.From)
	}
	b := &StepBack{Way: wayCancel, Who: o.Who, Reason: o.Reason, Off: []record.RuleRef{coming.RuleRef},
		At: s.o.Now().UTC()}
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
	s.o.Logger.Warn("a rule was cancelled", "rule", coming.Name, "version", coming.Version, "who", b.Who, "reason",
		b.Reason)
	return b, nil
}

// broughtType reports whether a bundle is the only one of a type of document, and no branch had that type before
// bundles described types: without the bundle nothing is missing that the branch had before.
func (s *Store) broughtType(i *shelved) bool {
	had := slices.ContainsFunc(s.o.Types, func(t *bundle.Type) bool { return t.Document == i.Document })
	return !had && i.Described != nil && !slices.ContainsFunc(s.computable(), func(o *shelved) bool {
		return o != i &&
			o.Document == i.Document
	})
}

// Acknowledge records that somebody knows that the branch went back by itself; until then dtectl doctor reports it.
// Errors: ErrReason, ErrNothingToAcknowledge, or the store's.
func (s *Store) Acknowledge(ctx context.Context, o Order) (*StepBack, error) {
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
	if err := s.note(ctx, &StepBack{Way: wayAcknowledge, Who: o.Who, Reason: o.Reason,
		At: s.o.Now().UTC()}); err != nil {
		return nil, err
	}
	s.o.Logger.Info("the return to an earlier rule is known", "rule", last.To.Name, "to", last.To.Version, "who", o.Who,
		"reason", o.Reason)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}

// acknowledged notes who knows of the latest return. The caller holds mu. What is shown may hold the old one: it is
// never changed.
func (s *Store) acknowledged(b *StepBack) {
	if s.last == nil {
		return
	}
	known := *s.last
	known.Acknowledged = &Acknowledgement{Who: b.Who, Reason: b.Reason, At: b.At}
	s.last = &known
}
