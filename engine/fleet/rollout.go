package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/fleet/wire"
)

// begin takes up a roll-out in whose ring the branch is, and notes what it will replace before anything is replaced.
func (f *follower) begin(d *wire.Desired, now time.Time) error {
	r := d.Rollout
	if r == nil || !r.Takes(f.o.Branch, now) || f.state.Taken != nil && f.state.Taken.Rollout == r.Name {
		return nil
	}
	shelf := f.o.Rules.Bundles()
	t := &taken{Rollout: r.Name, Stage: wire.StageWaiting, Since: now.UTC()}
	for _, rule := range r.State.Rules {
		if b := find(shelf, rule.Digest); b != nil && b.inForce() {
			continue // the branch has it, by another way: it is not the roll-out's to take back
		}
		if l := f.owed(d, shelf, rule); l != nil {
			return fmt.Errorf("roll-out %s waits for %s %s, which it replaces", r.Name, l.Name, l.Version)
		}
		t.Rules = append(t.Rules, takenRule{Rule: rule, Replaced: inPlace(shelf, rule)})
	}
	slices.SortStableFunc(t.Rules, func(a, b takenRule) int { return byKind(a.Rule, b.Rule) })
	return f.change(func(s *state) { s.Taken = t })
}

// owed is the bundle that every box runs in the place of a roll-out's, where this box could not take it yet, as when the store failed.
// Without it there would be nothing to go back to, and behind the roll-out's it is below the floor.
func (f *follower) owed(d *wire.Desired, shelf []Bundle, rule wire.Rule) *wire.Rule {
	at := slices.IndexFunc(d.Live.Rules, func(l wire.Rule) bool { return sameGeneration(l, rule) })
	if at < 0 {
		return nil
	}
	l := &d.Live.Rules[at]
	if _, refused := f.state.Refused[l.Digest]; refused || l.Digest == rule.Digest || find(shelf, l.Digest) != nil {
		return nil
	}
	return l
}

// takeRollout brings the bundles of the roll-out through the gate. One that is refused ends it in this branch: those that
// came in before it go back.
func (f *follower) takeRollout(ctx context.Context, d *wire.Desired) error {
	t := f.state.Taken
	if t == nil || d.Rollout == nil || d.Rollout.Name != t.Rollout || d.Rollout.Held || t.Stage == wire.StageReturned {
		return nil
	}
	if t.Stage == wire.StageRefused {
		return f.undo(ctx, d, t)
	}
	for _, r := range t.Rules {
		refused, err := f.ensure(ctx, d, r.Rule, t.Rollout)
		if err != nil {
			return err
		}
		if refused == "" {
			continue
		}
		err = f.change(func(s *state) {
			s.Taken.Stage, s.Taken.Since, s.Taken.Reason = wire.StageRefused, f.o.Now().UTC(), refused
			delete(s.Told, r.Rule.Digest)
			f.tell(s, wire.Act{What: wire.ActRefused, Version: d.Version, Rollout: t.Rollout, Rule: r.Rule.Name + " " + r.Rule.Version,
				Digest: r.Rule.Digest, Document: r.Rule.Document, Reason: refused})
		})
		if err != nil {
			return err
		}
		return f.undo(ctx, d, f.state.Taken)
	}
	return nil
}

// undo goes back from what came in of a roll-out that the branch refused as a whole.
func (f *follower) undo(ctx context.Context, d *wire.Desired, t *taken) error {
	for _, r := range t.Rules {
		if r.Replaced == nil {
			continue // there is nothing to go back to: it stays
		}
		if err := f.stepBack(ctx, d, t.Rollout, r); err != nil {
			return err
		}
	}
	return nil
}

// leave goes back from the bundles of the last roll-out that this box took, when the centre wants them no longer: to what they
// replaced here, and to nothing older. It is done once for a roll-out, therefore the director's key cannot walk a branch down.
func (f *follower) leave(ctx context.Context, d *wire.Desired) error {
	t := f.state.Taken
	if t == nil || d.Rollout != nil && d.Rollout.Name == t.Rollout {
		return nil
	}
	over := false
	for _, r := range t.Rules {
		at := slices.IndexFunc(d.Live.Rules, func(o wire.Rule) bool { return sameGeneration(o, r.Rule) })
		if at >= 0 && (d.Live.Rules[at].Digest == r.Rule.Digest || r.Replaced == nil || d.Live.Rules[at].Digest != r.Replaced.Digest) {
			continue // it is everybody's now, or takeLive brings a newer one
		}
		over = true
		if err := f.stepBack(ctx, d, t.Rollout, r); err != nil {
			return err
		}
	}
	if !over {
		return nil // it may still be taken back
	}
	return f.change(func(s *state) { s.Taken = nil })
}

// stepBack goes back from a bundle of a roll-out, if it is in force or to come.
func (f *follower) stepBack(ctx context.Context, d *wire.Desired, rollout string, r takenRule) error {
	b := find(f.o.Rules.Bundles(), r.Rule.Digest)
	if b == nil || !b.inForce() {
		return nil
	}
	if r.Replaced == nil {
		return fmt.Errorf("%s %s is not wanted any more, and there was none before it", b.Name, b.Version)
	}
	if err := f.o.Rules.StepBack(ctx, *r.Replaced, order(d, rollout)); err != nil {
		return fmt.Errorf("going back to %s %s: %w", r.Replaced.Name, r.Replaced.Version, err)
	}
	return nil
}

func sameGeneration(a, b wire.Rule) bool {
	return a.Bundle == b.Bundle && a.Document == b.Document && a.Schema == b.Schema
}
