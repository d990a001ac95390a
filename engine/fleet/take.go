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

// follower makes the branch what the centre desires, through the branch's own checks.
type follower struct {
	*core
	tuning *tuning
}

// reconcile makes the branch what is desired, as far as its own gate lets it. It looks at what is on the shelf, not at what it
// did before: whatever was cut short goes on.
func (f *follower) reconcile(ctx context.Context) {
	d, now := f.desired, f.o.Now()
	err := f.effective(d, now)
	f.note("effect", err)
	if d == nil || err != nil {
		f.note("rules", f.watch(d))
		return
	}
	// What everybody runs comes first: it is what a roll-out replaces.
	seen, left, live := f.watch(d), f.leave(ctx, d), f.takeLive(ctx, d)
	if left == nil { // else what the next roll-out replaces is not known
		left = f.begin(d, now)
	}
	f.note("rules", errors.Join(seen, left, live, f.takeRollout(ctx, d), f.watch(d)))
	f.note("settings", f.tuning.take(ctx, d))
}

// effective says why a version has no effect now; what it ordered before stays.
func (f *follower) effective(d *wire.Desired, now time.Time) error {
	switch {
	case d == nil:
		return nil
	case f.fence.Standing().Replaced:
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

// takeLive brings the bundles that every box runs, but those for which the roll-out stands.
func (f *follower) takeLive(ctx context.Context, d *wire.Desired) error {
	t := f.state.Taken
	rules := slices.SortedStableFunc(slices.Values(d.Live.Rules), byKind)
	var faults []error
	for _, r := range rules {
		if t != nil && t.Stage != wire.StageRefused && t.Stage != wire.StageReturned && d.Rollout != nil && t.Rollout == d.Rollout.Name &&
			slices.ContainsFunc(t.Rules, func(o takenRule) bool { return sameGeneration(o.Rule, r) }) {
			continue
		}
		if before, tried := f.state.Refused[r.Digest]; tried && before.Version == d.Version {
			faults = append(faults, fmt.Errorf("%s %s is refused here: %s", r.Name, r.Version, before.Reason))
			continue
		}
		refused, err := f.ensure(ctx, d, r, "")
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if refused == "" {
			continue
		}
		faults = append(faults, fmt.Errorf("%s %s is refused here: %s", r.Name, r.Version, refused))
		err = f.change(func(s *state) {
			clear(s.Refused) // of versions before
			s.Refused[r.Digest] = refusal{d.Version, refused}
			delete(s.Told, r.Digest)
			f.tell(s, wire.Act{What: wire.ActRefused, Version: d.Version, Rule: r.Name + " " + r.Version, Digest: r.Digest, Document: r.Document, Reason: refused})
		})
		if err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// ensure has a bundle in force, or to come. It returns why the gate refuses it. An error is of the store or of the box, or, of
// what is everybody's, that the branch went another way before: it stays until the centre or the branch changes its mind.
func (f *follower) ensure(ctx context.Context, d *wire.Desired, r wire.Rule, rollout string) (refused string, err error) {
	if b := find(f.o.Rules.Bundles(), r.Digest); b != nil {
		var other string
		switch {
		case b.inForce():
			return "", nil
		case b.Where == Spare:
			other = "a newer version is in force in this branch"
		case b.Where == Retired && b.Off == OffCentre:
			// The centre wants it again. If we crash behind the step, the next look finds it in force.
			if err := f.o.Rules.StepBack(ctx, *b, order(d, rollout)); err != nil {
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
	file, err := f.fetch(ctx, wire.RuleKey(r.File), r.File, wire.MaxRule)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", r.Name, r.Version, err)
	}
	if refused := differs(file, r); refused != "" {
		return refused, nil
	}
	if _, told := f.state.Told[r.Digest]; !told {
		// The agent's own, from here on: what becomes of it is told.
		if err := f.change(func(s *state) { s.Told[r.Digest] = "" }); err != nil {
			return "", err
		}
	}
	made, err := f.o.Rules.Admit(ctx, file, order(d, rollout))
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
