package shelf

import (
	"context"
	"errors"
	"fmt"

	"dtegate/engine/vouch"
)

// ErrReason means that an operator gave no reason, and the record needs one.
var ErrReason = errors.New("a reason is needed")

// Reinstate puts back a bundle that the branch had left by itself, and records the operator's reason. From then on the branch
// does not leave that bundle because of MH's refusals; it still leaves it if its module fails. Errors: ErrReason,
// ErrNoSuchRule, ErrExpired, or the store's.
func (s *stepping) Reinstate(ctx context.Context, t Target, o Order) (*StepBack, error) {
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
		return nil, fmt.Errorf("%w: %s %s was taken off by %s, not by the branch itself: dtectl rules rollback leads there", ErrNoSuchRule, to.Name, to.Version, to.off.Who)
	}
	if to.expired(s.today()) && !t.Expired {
		return nil, fmt.Errorf("%s %s was in force until %s: %w; it goes live again only if the order says that an expired rule is meant", t.Name, t.Version, to.Until, ErrExpired)
	}
	if best := inForce(s.computable(), to, s.today()); best != nil && best.rank(to) > 0 {
		return nil, fmt.Errorf("%w: %s %s has taken over since", ErrNoSuchRule, best.Name, best.Version)
	}
	return s.stepBack(ctx, to, nil, &StepBack{Way: wayReinstate, Who: o.Who, Reason: o.Reason})
}

// reinstated notes that an operator put a bundle back: the return from it is over. Only a record that bears this box's mark
// takes the guard away: one that came in a backup may be somebody's. The caller holds mu.
func (s *state) reinstated(b *StepBack) {
	if s.last != nil && len(s.last.Off) > 0 && s.last.Off[0].Digest == b.To.Digest {
		s.last = nil
	}
	if b.word != vouch.Own {
		return
	}
	s.guard.Trust(b.To.Digest)
}
