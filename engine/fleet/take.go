package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/engine/fleet/wire"
	"dtegate/rules/bundle"
)

// who is the author of what the agent changes, as the branch's records name it.
const who = "the chain's centre"

// Who is the author of what an agent changes in a branch, Ordered whether an author is one.
func Who(by string) string       { return who + " (" + by + ")" }
func Ordered(author string) bool { return strings.HasPrefix(author, who+" (") }

// reconcile makes the branch what is desired, as far as its own gate lets it. It looks at what is on the shelf, not at what it
// did before: whatever was cut short goes on.
func (a *Agent) reconcile(ctx context.Context) {
	d, now := a.desired, a.o.Now()
	err := a.effective(d, now)
	a.note("effect", err)
	if d == nil || err != nil {
		a.note("rules", a.watch(d))
		return
	}
	// What everybody runs comes first: it is what a roll-out replaces.
	seen, left, live := a.watch(d), a.leave(ctx, d), a.takeLive(ctx, d)
	if left == nil { // else what the next roll-out replaces is not known
		left = a.begin(d, now)
	}
	a.note("rules", errors.Join(seen, left, live, a.takeRollout(ctx, d), a.watch(d)))
	a.note("settings", a.takeSettings(ctx, d))
}

// effective says why a version has no effect now; what it ordered before stays.
func (a *Agent) effective(d *wire.Desired, now time.Time) error {
	switch {
	case d == nil:
		return nil
	case a.fence.Standing().Replaced:
		return errors.New("this box has been replaced")
	case !now.Before(d.Expires):
		return fmt.Errorf("version %d expired on %s: the branch goes on with what it has", d.Version, d.Expires.Format(time.RFC3339))
	case d.Issued.After(now.Add(maxSkew)):
		return fmt.Errorf("version %d is of %s: this box's clock or the director's is wrong", d.Version, d.Issued.Format(time.RFC3339))
	}
	return nil
}

// order is who wants a change, and why.
func order(d *wire.Desired, rollout string) Order {
	o := Order{Who: Who(d.By), Reason: fmt.Sprintf("%s, version %d", d.Group, d.Version)}
	if rollout != "" {
		o.Reason += ", roll-out " + rollout
	}
	if d.Reason != "" {
		o.Reason += ": " + d.Reason
	}
	return o
}

// leave goes back from the bundles of the last roll-out that this box took, when the centre wants them no longer: to what they
// replaced here, and to nothing older. It is done once for a roll-out, therefore the director's key cannot walk a branch down.
func (a *Agent) leave(ctx context.Context, d *wire.Desired) error {
	t := a.state.Taken
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
		if err := a.stepBack(ctx, d, t.Rollout, r); err != nil {
			return err
		}
	}
	if !over {
		return nil // it may still be taken back
	}
	return a.change(func(s *state) { s.Taken = nil })
}

// stepBack goes back from a bundle of a roll-out, if it is in force or to come.
func (a *Agent) stepBack(ctx context.Context, d *wire.Desired, rollout string, r takenRule) error {
	b := find(a.o.Rules.Bundles(), r.Rule.Digest)
	if b == nil || !b.inForce() {
		return nil
	}
	if r.Replaced == nil {
		return fmt.Errorf("%s %s is not wanted any more, and there was none before it", b.Name, b.Version)
	}
	if err := a.o.Rules.StepBack(ctx, *r.Replaced, order(d, rollout)); err != nil {
		return fmt.Errorf("going back to %s %s: %w", r.Replaced.Name, r.Replaced.Version, err)
	}
	return nil
}

func sameGeneration(a, b wire.Rule) bool {
	return a.Bundle == b.Bundle && a.Document == b.Document && a.Schema == b.Schema
}

// begin takes up a roll-out in whose ring the branch is, and notes what it will replace before anything is replaced.
func (a *Agent) begin(d *wire.Desired, now time.Time) error {
	r := d.Rollout
	if r == nil || !r.Takes(a.o.Branch, now) || a.state.Taken != nil && a.state.Taken.Rollout == r.Name {
		return nil
	}
	shelf := a.o.Rules.Bundles()
	t := &taken{Rollout: r.Name, Stage: wire.StageWaiting, Since: now.UTC()}
	for _, rule := range r.State.Rules {
		if b := find(shelf, rule.Digest); b != nil && b.inForce() {
			continue // the branch has it, by another way: it is not the roll-out's to take back
		}
		if l := a.owed(d, shelf, rule); l != nil {
			return fmt.Errorf("roll-out %s waits for %s %s, which it replaces", r.Name, l.Name, l.Version)
		}
		t.Rules = append(t.Rules, takenRule{Rule: rule, Replaced: inPlace(shelf, rule)})
	}
	slices.SortStableFunc(t.Rules, func(a, b takenRule) int { return byKind(a.Rule, b.Rule) })
	return a.change(func(s *state) { s.Taken = t })
}

// owed is the bundle that every box runs in the place of a roll-out's, where this box could not take it yet, as when the store failed.
// Without it there would be nothing to go back to, and behind the roll-out's it is below the floor.
func (a *Agent) owed(d *wire.Desired, shelf []Bundle, rule wire.Rule) *wire.Rule {
	at := slices.IndexFunc(d.Live.Rules, func(l wire.Rule) bool { return sameGeneration(l, rule) })
	if at < 0 {
		return nil
	}
	l := &d.Live.Rules[at]
	if _, refused := a.state.Refused[l.Digest]; refused || l.Digest == rule.Digest || find(shelf, l.Digest) != nil {
		return nil
	}
	return l
}

// takeRollout brings the bundles of the roll-out through the gate. One that is refused ends it in this branch: those that
// came in before it go back.
func (a *Agent) takeRollout(ctx context.Context, d *wire.Desired) error {
	t := a.state.Taken
	if t == nil || d.Rollout == nil || d.Rollout.Name != t.Rollout || d.Rollout.Held || t.Stage == wire.StageReturned {
		return nil
	}
	if t.Stage == wire.StageRefused {
		return a.undo(ctx, d, t)
	}
	for _, r := range t.Rules {
		refused, err := a.ensure(ctx, d, r.Rule, t.Rollout)
		if err != nil {
			return err
		}
		if refused == "" {
			continue
		}
		err = a.change(func(s *state) {
			s.Taken.Stage, s.Taken.Since, s.Taken.Reason = wire.StageRefused, a.o.Now().UTC(), refused
			delete(s.Told, r.Rule.Digest)
			a.tell(s, wire.Act{What: wire.ActRefused, Version: d.Version, Rollout: t.Rollout, Rule: r.Rule.Name + " " + r.Rule.Version,
				Digest: r.Rule.Digest, Document: r.Rule.Document, Reason: refused})
		})
		if err != nil {
			return err
		}
		return a.undo(ctx, d, a.state.Taken)
	}
	return nil
}

// undo goes back from what came in of a roll-out that the branch refused as a whole.
func (a *Agent) undo(ctx context.Context, d *wire.Desired, t *taken) error {
	for _, r := range t.Rules {
		if r.Replaced == nil {
			continue // there is nothing to go back to: it stays
		}
		if err := a.stepBack(ctx, d, t.Rollout, r); err != nil {
			return err
		}
	}
	return nil
}

// takeLive brings the bundles that every box runs, but those for which the roll-out stands.
func (a *Agent) takeLive(ctx context.Context, d *wire.Desired) error {
	t := a.state.Taken
	rules := slices.SortedStableFunc(slices.Values(d.Live.Rules), byKind)
	var faults []error
	for _, r := range rules {
		if t != nil && t.Stage != wire.StageRefused && t.Stage != wire.StageReturned && d.Rollout != nil && t.Rollout == d.Rollout.Name &&
			slices.ContainsFunc(t.Rules, func(o takenRule) bool { return sameGeneration(o.Rule, r) }) {
			continue
		}
		if before, tried := a.state.Refused[r.Digest]; tried && before.Version == d.Version {
			faults = append(faults, fmt.Errorf("%s %s is refused here: %s", r.Name, r.Version, before.Reason))
			continue
		}
		refused, err := a.ensure(ctx, d, r, "")
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if refused == "" {
			continue
		}
		faults = append(faults, fmt.Errorf("%s %s is refused here: %s", r.Name, r.Version, refused))
		err = a.change(func(s *state) {
			clear(s.Refused) // of versions before
			s.Refused[r.Digest] = refusal{d.Version, refused}
			delete(s.Told, r.Digest)
			a.tell(s, wire.Act{What: wire.ActRefused, Version: d.Version, Rule: r.Name + " " + r.Version, Digest: r.Digest, Document: r.Document, Reason: refused})
		})
		if err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// ensure has a bundle in force, or to come. It returns why the gate refuses it. An error is of the store or of the box, or, of
// what is everybody's, that the branch went another way before: it stays until the centre or the branch changes its mind.
func (a *Agent) ensure(ctx context.Context, d *wire.Desired, r wire.Rule, rollout string) (refused string, err error) {
	if b := find(a.o.Rules.Bundles(), r.Digest); b != nil {
		var other string
		switch {
		case b.inForce():
			return "", nil
		case b.Where == Spare:
			other = "a newer version is in force in this branch"
		case b.Where == Retired && b.Off == OffCentre:
			// The centre wants it again. If we crash behind the step, the next look finds it in force.
			if err := a.o.Rules.StepBack(ctx, *b, order(d, rollout)); err != nil {
				return "", fmt.Errorf("going on with %s %s: %w", b.Name, b.Version, err)
			}
			return "", nil
		case b.Where == Retired && b.Off == OffItself:
			other = "the branch has left it by itself: " + b.Reason
		case b.Where == Retired:
			other = "it was taken off in the branch: " + b.Reason
		}
		if other != "" && rollout == "" {
			return "", fmt.Errorf("%s %s is not taken: %s", r.Name, r.Version, other)
		}
		if other != "" {
			return other, nil
		}
	}
	file, err := a.fetch(ctx, wire.RuleKey(r.File), r.File, wire.MaxRule)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", r.Name, r.Version, err)
	}
	if refused := differs(file, r); refused != "" {
		return refused, nil
	}
	if _, told := a.state.Told[r.Digest]; !told {
		// The agent's own, from here on: what becomes of it is told.
		if err := a.change(func(s *state) { s.Told[r.Digest] = "" }); err != nil {
			return "", err
		}
	}
	made, err := a.o.Rules.Admit(ctx, file, order(d, rollout))
	if err != nil {
		return "", fmt.Errorf("admitting %s %s: %w", r.Name, r.Version, err)
	}
	if made.Refused != "" {
		return made.Refused + ": " + made.Reason, nil
	}
	return "", nil
}

// differs says how a file is another bundle than the director named. Whose keys have signed it the gate asks.
func differs(file []byte, r wire.Rule) string {
	b, err := bundle.Inspect(file)
	if err != nil {
		return "bundle: " + err.Error()
	}
	m := b.Manifest
	got := wire.Rule{File: r.File, Digest: b.Digest, Name: m.Name, Version: m.Version, Bundle: m.Kind, Document: m.Document, Schema: m.Schema}
	if got != r {
		return fmt.Sprintf("bundle: the file holds %s %s of %s %s, generation %d (%.12s)", m.Name, m.Version, m.Kind, m.Document, m.Schema, b.Digest)
	}
	return ""
}

// fetch reads an object that its digest names.
func (a *Agent) fetch(ctx context.Context, key, digest string, limit int64) ([]byte, error) {
	o, err := a.get(ctx, key, limit)
	if err != nil {
		return nil, err
	}
	if got := wire.Digest(o.Data); got != digest {
		return nil, fmt.Errorf("%w: %s holds bytes of another digest (%.12s)", wire.ErrOther, key, got)
	}
	return o.Data, nil
}
