package rulestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/storage"
)

// Target names a bundle of this branch.
type Target struct {
	Name    string `json:"name"`
	Schema  int    `json:"schema"`
	Version string `json:"version"`
	// Expired permits a step back to a bundle whose last day has passed.
	Expired bool `json:"expired,omitempty"`
}

var (
	// ErrNoSuchRule means that the target of a step back does not exist, or that the step back does not apply to it.
	ErrNoSuchRule = errors.New("there is nothing to go back to")
	// ErrExpired means that the target's last day has passed, and Target.Expired is not set.
	ErrExpired = errors.New("its last day has passed")
)

// Rollback takes off every bundle of the target's document that has begun and ranks above the target, and puts the
// target back. Pushed bundles must still exceed the versions taken off. Bundles not in force yet stay: see Cancel.
// Errors: ErrReason, ErrNoSuchRule, ErrExpired, or the store's.
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
	}
	if err := s.mayCompute(to, t); err != nil {
		return nil, err
	}
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
		if s.broughtType(to) {
			coming += ", and brought its type: dtectl rules cancel takes it off"
		}
		return nil, fmt.Errorf("%w: %s %s is live%s", ErrNoSuchRule, to.Name, to.Version, coming)
	}
	return s.stepBack(ctx, to, off, &StepBack{Way: wayRollback, Who: o.Who, Reason: o.Reason})
}

// orderedBundle finds the bundle that an order names. The caller holds changing. Errors: ErrReason, ErrNoSuchRule.
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

// mayCompute refuses a target that may not be used, or that has expired without the order's permission.
func (s *Store) mayCompute(to *shelved, t Target) error {
	switch {
	case to.trouble != nil:
		return fmt.Errorf("%w: %s %s may not compute: %s", ErrNoSuchRule, t.Name, t.Version, to.trouble.Text)
	case to.expired(s.today()) && !t.Expired:
		return fmt.Errorf("%s %s was in force from %s until %s: %w; it goes live again only if the order permits an "+
			"expired rule", t.Name, t.Version, to.From, to.Until, ErrExpired)
	}
	return nil
}

func (s *Store) find(is func(*shelved) bool) *shelved {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := slices.IndexFunc(s.items, is); n >= 0 {
		return s.items[n]
	}
	return nil
}

// stepBack takes bundles (off) out of use and puts a bundle back (to; nil: none), in one commit.
func (s *Store) stepBack(ctx context.Context, to *shelved, off []*shelved, b *StepBack) (*StepBack, error) {
	b.At = s.o.Now().UTC()
	on := slices.DeleteFunc(s.computable(), func(i *shelved) bool { return slices.Contains(off, i) })
	if to != nil {
		b.To = to.RuleRef
		if !slices.Contains(on, to) {
			on = append(on, to)
		}
		if to.expired(s.today()) && b.Way != wayCancel {
			b.Expired = to.Until
		}
	}
	for _, i := range off {
		b.Off = append(b.Off, i.RuleRef)
	}
	book, err := s.assemble(ctx, on, s.o.Now())
	if err != nil {
		return nil, fmt.Errorf("making the book of rules after a %s: %w", b.Way, err)
	}
	if err := s.note(ctx, b); err != nil {
		return nil, err
	}
	if b.Way != wayCancel {
		s.guard.Forgive(to.Digest)
		book.Resume(to.Digest)
	}
	s.publish(book)
	log := s.o.Logger.With("way", b.Way, "off", len(b.Off), "who", b.Who, "reason", b.Reason)
	if b.Way == wayCancel {
		log.Warn("a rule was cancelled", "rule", b.Off[0].Name, "version", b.Off[0].Version)
	} else {
		log.Warn("rules went back", "rule", to.Name, "to", to.Version, "expired", b.Expired)
	}
	return b, nil
}

func (s *Store) note(ctx context.Context, b *StepBack) error {
	b.word = recordmac.Own
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

// ErrReason means that an operator gave no reason. The record needs a reason.
var ErrReason = errors.New("a reason is needed")

// Reinstate puts back a bundle that the branch had left by itself, and records the operator's reason. From then on,
// MH's refusals no longer make the branch leave the bundle; a failing module still does. Errors: ErrReason,
// ErrNoSuchRule, ErrExpired, or the store's.
func (s *Store) Reinstate(ctx context.Context, t Target, o Order) (*StepBack, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	to, err := s.orderedBundle(t, o)
	switch {
	case err != nil:
		return nil, err
	case to.off == nil:
		return nil, fmt.Errorf("%w: %s %s was not taken off", ErrNoSuchRule, to.Name, to.Version)
	case to.off.Way != wayReturn:
		return nil, fmt.Errorf("%w: %s %s was taken off by %s, not by the branch itself: dtectl rules rollback leads "+
			"there", ErrNoSuchRule, to.Name, to.Version, to.off.Who)
	}
	if err := s.mayCompute(to, t); err != nil {
		return nil, err
	}
	if best := inForce(s.computable(), to, s.today()); best != nil && best.rank(to) > 0 {
		return nil, fmt.Errorf("%w: %s %s has taken over since", ErrNoSuchRule, best.Name, best.Version)
	}
	return s.stepBack(ctx, to, nil, &StepBack{Way: wayReinstate, Who: o.Who, Reason: o.Reason})
}

// ErrNothingToAcknowledge means that no automatic return waits for an acknowledgement.
var ErrNothingToAcknowledge = errors.New("there is no return to acknowledge")

// Acknowledgement records who acknowledged an automatic return, and why.
type Acknowledgement struct {
	Who    string    `json:"who"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Cancel takes off a bundle that is not in force yet, or a bundle that introduced its document type and is still the
// type's only bundle. The other rules stay in force. A bundle cancelled before it was in force can be pushed again.
// Errors: ErrReason, ErrNoSuchRule, or the store's.
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
	off, brought := []*shelved{coming}, s.broughtType(coming)
	stays := inForce(slices.DeleteFunc(s.computable(), func(i *shelved) bool { return i == coming }), coming, s.today())
	back, err := s.stepBack(ctx, stays, off, &StepBack{Way: wayCancel, Who: o.Who, Reason: o.Reason})
	if err == nil && brought && !s.issued(coming.Document) {
		record.Forget(coming.Document)
	}
	return back, err
}

// issued reports whether a document of a type was ever numbered here; true if the store fails. If false, a bundle may
// describe the type anew.
func (s *Store) issued(document string) bool {
	series, err := s.o.Store.LastNumbers()
	maps.DeleteFunc(series, func(name string, _ uint64) bool {
		return !strings.HasPrefix(name, s.o.Ambiente+"/"+document+"/")
	})
	return err != nil || len(series) > 0
}

// broughtType reports whether a bundle was pushed and is the only bundle of its document type. Without it, the branch
// has the types that it had before the push.
func (s *Store) broughtType(i *shelved) bool {
	return i.Way == wayPushed && i.Described != nil && !slices.ContainsFunc(s.computable(), func(o *shelved) bool {
		return o != i && o.Document == i.Document
	})
}

// Acknowledge records that an operator knows of the latest automatic return. dtectl doctor reports the return until it
// is acknowledged. Errors: ErrReason, ErrNothingToAcknowledge, or the store's.
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
	s.o.Logger.Info("the return to an earlier rule was acknowledged", "rule", last.To.Name, "to", last.To.Version,
		"who", o.Who, "reason", o.Reason)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}
