package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/rules/bundle"
)

// who is how the branch's records name the author of the agent's changes.
const who = "the chain's centre"

// Who returns the author's name for changes that the centre ordered. Ordered reports whether a name is of this form.
func Who(by string) string       { return who + " (" + by + ")" }
func Ordered(author string) bool { return strings.HasPrefix(author, who+" (") }

// reconcile brings the branch to the state that the centre desires, as far as the branch's admission allows. It
// compares that state with the shelf, not with its own earlier steps, and thus continues any interrupted work.
func (a *Agent) reconcile(ctx context.Context) {
	d, now := a.desired, a.o.Now()
	err := a.effective(d, now)
	a.noteTrouble("effect", err)
	if d == nil || err != nil {
		a.noteTrouble("rules", a.watchShelf(d))
		return
	}
	// Admit the bundles of the live state first: a roll-out replaces them.
	seen, left, live := a.watchShelf(d), a.leaveUnwanted(ctx, d), a.takeLive(ctx, d)
	if left == nil || errors.Is(left, errOwed) { // otherwise it is unknown what a roll-out replaces
		left = errors.Join(left, a.beginRollout(d, now))
	}
	a.noteTrouble("rules", errors.Join(seen, left, live, a.takeRollout(ctx, d), a.watchShelf(d)))
	a.noteTrouble("settings", a.takeSettings(ctx, d))
}

// effective returns why a version has no effect now; nil: it has an effect. Orders that were carried out earlier stay.
func (a *Agent) effective(d *fleetproto.Desired, now time.Time) error {
	switch {
	case d == nil:
		return nil
	case a.fence.Standing().Replaced:
		return errors.New("this box has been replaced")
	case !now.Before(d.Expires):
		return fmt.Errorf("version %d expired on %s: the branch goes on with what it has", d.Version,
			d.Expires.Format(time.RFC3339))
	case d.Issued.After(now.Add(maxSkew)):
		return fmt.Errorf("version %d is of %s: this box's clock or the director's is wrong", d.Version,
			d.Issued.Format(time.RFC3339))
	}
	return nil
}

func order(d *fleetproto.Desired, rollout string) Order {
	o := Order{Who: Who(d.By), Reason: fmt.Sprintf("%s, version %d", d.Group, d.Version)}
	if rollout != "" {
		o.Reason += ", roll-out " + rollout
	}
	if d.Reason != "" {
		o.Reason += ": " + d.Reason
	}
	return o
}

// wanted returns the state that the centre desires of this box: the live state, and over it the roll-out that the box
// began, unless it failed here.
func (a *Agent) wanted(d *fleetproto.Desired) fleetproto.State {
	if t := a.state.Taken; t.of(d.Rollout) && !t.Stage.Failed() {
		return d.Rollout.State.Over(d.Live)
	}
	return d.Live
}

// takeLive admits the bundles of the live state that have a place in the wanted state.
func (a *Agent) takeLive(ctx context.Context, d *fleetproto.Desired) error {
	var faults []error
	wanted := a.wanted(d).On(dte.Date(a.o.Now()))
	for _, r := range slices.SortedStableFunc(slices.Values(d.Live.Rules), byKind) {
		if !named(wanted, r.Digest) {
			continue
		}
		before, tried := a.state.Refused[r.Digest]
		refused := before.Reason
		if tried = tried && before.Version == d.Version; !tried {
			var fault error
			refused, fault = a.ensureRule(ctx, d, r, "")
			faults = append(faults, fault)
		}
		if refused == "" {
			continue
		}
		if faults = append(faults, fmt.Errorf("%s is refused here: %s", r, refused)); tried {
			continue
		}
		faults = append(faults, a.change(func(s *state) {
			maps.DeleteFunc(s.Refused, func(_ string, before refusal) bool { return before.Version != d.Version })
			s.Refused[r.Digest] = refusal{d.Version, refused}
			a.queueRefusal(s, d, r, "", refused)
		}))
	}
	return errors.Join(faults...)
}

// queueRefusal queues the act that the branch refuses a bundle. The agent reports no change of the bundle until take.
func (a *Agent) queueRefusal(s *state, d *fleetproto.Desired, r fleetproto.Rule, rollout, reason string) {
	delete(s.Told, r.Digest)
	s.Took = slices.DeleteFunc(s.Took, func(o tookRule) bool { return o.Rule.Digest == r.Digest })
	a.queueAct(s, fleetproto.Act{What: fleetproto.ActRefused, Version: d.Version, Rollout: rollout, Rule: r.String(),
		Digest: r.Digest, Document: r.Document, Reason: reason})
}

// ensureRule admits a bundle, unless it is in force or coming. refused is the reason why the branch does not take the
// bundle. An error is a fault of the store or of the box. If the branch has left or superseded a bundle of the live
// state, ensureRule returns an error until the centre or the branch decides differently.
func (a *Agent) ensureRule(ctx context.Context, d *fleetproto.Desired, r fleetproto.Rule,
	rollout string) (refused string, err error) {
	if b := find(a.o.Rules.Bundles(), r.Digest); b != nil {
		var other string
		switch {
		case b.Where == Coming && rollout != "" && b.Ordered: // the box may have lost its state after the admission
			return "", a.take(r, rollout)
		case b.inForce():
			return "", nil
		case b.Where == Spare:
			other = "a newer version is in force in this branch"
		case a.cancelled(b): // the bundle must be admitted again
		case b.Where == Retired && b.Off == OffCentre:
			// The centre wants the bundle again. If we crash after the step, the next look finds the bundle in force.
			if err = a.take(r, rollout); err == nil {
				err = a.o.Rules.StepBack(ctx, *b, order(d, rollout))
			}
			return "", err
		case b.Where == Retired && b.Off == OffItself:
			other = "the branch has left it by itself: " + b.Reason
		case b.Where == Retired:
			other = "it was taken off in the branch: " + b.Reason
		}
		if other != "" && rollout == "" {
			return "", fmt.Errorf("%s is not accepted: %s", r, other)
		} else if other != "" {
			return other, nil
		}
	}
	// Without the catalogues of their first day, the golden cases of documents and events would fail.
	day, shelf := dte.Date(a.o.Now()), a.o.Rules.Bundles()
	for _, c := range a.wanted(d).On(day) {
		if c.Bundle == "catalogue" && r.Bundle != "catalogue" && c.From <= max(r.From, day) && a.absent(c, shelf) &&
			(rollout != "" || named(d.Live.Rules, c.Digest)) {
			return "", fmt.Errorf("%s waits for %s", r, c)
		}
	}
	file, err := a.fetch(ctx, fleetproto.RuleKey(r.File), r.File, fleetproto.MaxRule)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r, err)
	}
	if refused := a.differs(file, r); refused != "" {
		return refused, nil
	}
	if err := a.take(r, rollout); err != nil {
		return "", err
	}
	o := order(d, rollout)
	o.AmountsChange, o.FewerCases = r.AmountsChange || rollout == "", r.FewerCases || rollout == ""
	made, err := a.o.Rules.Admit(ctx, file, o)
	if err != nil {
		return "", fmt.Errorf("admitting %s: %w", r, err)
	}
	if made.Refused != "" {
		return made.Refused + ": " + made.Reason, nil
	}
	if made.Reason != "" && rollout != "" {
		return "", a.change(func(s *state) {
			if s.Taken.Changes == nil {
				s.Taken.Changes = make(map[string]string)
			}
			s.Taken.Changes[r.Digest] = made.Reason
		})
	}
	return "", nil
}

// cancelled reports whether the centre took a bundle off and the bundle's first day is still to come.
func (a *Agent) cancelled(b *Bundle) bool {
	return b.Where == Retired && b.Off == OffCentre && b.From > dte.Date(a.o.Now())
}

// differs returns how a file differs from the bundle that the director named, or "". Signatures are verified at
// admission.
func (a *Agent) differs(file []byte, r fleetproto.Rule) string {
	b, err := bundle.Inspect(file)
	if err != nil {
		return "bundle: " + err.Error()
	}
	got := fleetproto.RuleOf(b, file, a.o.Chain.Ambiente)
	got.AmountsChange, got.FewerCases = r.AmountsChange, r.FewerCases
	if got != r {
		return fmt.Sprintf("bundle: the file holds %s of %s %s, generation %d, from %s (%.12s)", got, got.Bundle,
			got.Document, got.Schema, got.From, got.Digest)
	}
	return ""
}

// take notes a bundle that the agent is about to put in force, and the bundles that it will replace. From then on the
// agent reports every change of the bundle.
func (a *Agent) take(r fleetproto.Rule, rollout string) error {
	return a.change(func(s *state) {
		if _, told := s.Told[r.Digest]; !told {
			s.Told[r.Digest] = ""
		}
		if slices.ContainsFunc(s.Took, func(o tookRule) bool { return o.Rule.Digest == r.Digest }) {
			return
		}
		t := tookRule{Rule: r, Rollout: rollout}
		for _, b := range a.o.Rules.Bundles() {
			if r.SameDocument(ruleOf(b)) && b.Digest != r.Digest && b.inForce() {
				t.Before = append(t.Before, b)
			}
		}
		s.Took = slices.DeleteFunc(s.Took, func(o tookRule) bool { return o.Owed && t.skip(o) })
		s.Took = append(s.Took, t)
	})
}

// skip replaces the bundle of o in r.Before by the bundles that o replaced. It reports whether r.Before had o's bundle.
func (r *tookRule) skip(o tookRule) bool {
	at := slices.IndexFunc(r.Before, func(b Bundle) bool { return b.Digest == o.Rule.Digest })
	if at >= 0 {
		r.Before = slices.Concat(r.Before[:at], r.Before[at+1:], o.Before)
	}
	return at >= 0
}

// inForce returns the bundle of a state that is in force on a day and has the kind and document of like; or nil.
func inForce(s fleetproto.State, like fleetproto.Rule, day string) *fleetproto.Rule {
	for _, r := range s.On(day) {
		if r.SameDocument(like) && r.From <= day {
			return &r
		}
	}
	return nil
}

// returnsTo returns the bundle that is in force after the branch has left the bundle r, or nil. Of the bundles that r
// replaced, it is the wanted bundle or else the highest bundle that has begun and that nobody took off.
func (a *Agent) returnsTo(d *fleetproto.Desired, r tookRule) (best *Bundle) {
	day, shelf := dte.Date(a.o.Now()), a.o.Rules.Bundles()
	if to := inForce(a.wanted(d), r.Rule, day); to != nil && find(r.Before, to.Digest) != nil {
		return find(r.Before, to.Digest)
	}
	for i, b := range r.Before {
		if now := find(shelf, b.Digest); b.From <= day && (now == nil || now.Where != Retired) && (best == nil ||
			compareRanks(b, *best) > 0) {
			best = &r.Before[i]
		}
	}
	return best
}

// beginRollout begins a roll-out if the branch is in its ring.
func (a *Agent) beginRollout(d *fleetproto.Desired, now time.Time) error {
	r := d.Rollout
	if r == nil || !r.Takes(a.o.Branch, now) || a.state.Taken.of(r) {
		return nil
	}
	shelf := a.o.Rules.Bundles()
	t := &taken{Rollout: r.Name, State: r.State, Stage: fleetproto.StageWaiting, Since: now.UTC()}
	for _, rule := range r.State.Rules {
		if b := find(shelf, rule.Digest); b != nil && b.Where == Live || named(d.Live.Rules, rule.Digest) {
			continue // the bundle is not the roll-out's alone: the end of the roll-out must not take it off
		}
		// The roll-out waits for a bundle of the live state that this box has not admitted yet: that bundle's version
		// would be too low after the roll-out's bundle, and the branch could not go back to it.
		if list := a.missing(d.Live, rule, shelf); len(list) > 0 {
			return fmt.Errorf("roll-out %s waits for %s, which it replaces", r.Name, list[0])
		}
		t.Rules = append(t.Rules, rule)
	}
	slices.SortStableFunc(t.Rules, byKind)
	return a.change(func(s *state) { s.Taken = t })
}

// missing returns the bundles of a state that this box lacks (see absent), of the same document as a bundle (like).
func (a *Agent) missing(in fleetproto.State, like fleetproto.Rule, shelf []Bundle) []fleetproto.Rule {
	return slices.DeleteFunc(in.On(dte.Date(a.o.Now())), func(r fleetproto.Rule) bool {
		return !r.SameDocument(like) || !a.absent(r, shelf)
	})
}

// absent reports whether this box has not been able to admit a bundle yet. A refused bundle is not absent.
func (a *Agent) absent(r fleetproto.Rule, shelf []Bundle) bool {
	b := find(shelf, r.Digest)
	_, refused := a.state.Refused[r.Digest]
	return !refused && (b == nil || a.cancelled(b))
}

// takeRollout admits the bundles of the roll-out. If a bundle is refused, the roll-out ends in this branch, and the
// branch takes off the roll-out's bundles that it has admitted.
func (a *Agent) takeRollout(ctx context.Context, d *fleetproto.Desired) error {
	t := a.state.Taken
	if !t.of(d.Rollout) || d.Rollout.Held || t.Stage.Failed() {
		return nil
	}
	wanted := a.wanted(d).On(dte.Date(a.o.Now()))
	for _, r := range t.Rules {
		if !named(wanted, r.Digest) {
			continue
		}
		refused, err := a.ensureRule(ctx, d, r, t.Rollout)
		if err != nil {
			return err
		}
		if refused == "" {
			continue
		}
		err = a.change(func(s *state) {
			s.Taken.Stage, s.Taken.Since, s.Taken.Reason = fleetproto.StageRefused, a.o.Now().UTC(), refused
			a.queueRefusal(s, d, r, t.Rollout, refused)
		})
		if err != nil {
			return err
		}
		return a.leaveUnwanted(ctx, d)
	}
	return nil
}

// leaveUnwanted leaves the bundles that this box took on the centre's order and that the centre no longer wants. In
// place of each, it puts in force again the bundle that was replaced here, but never an earlier one: a stolen
// director's key cannot lead a branch back step by step. If the branch cannot leave a bundle now, leaveUnwanted tries
// again later; roll-outs do not wait for this.
func (a *Agent) leaveUnwanted(ctx context.Context, d *fleetproto.Desired) error {
	var faults []error
	var took []tookRule
	shelf, wanted := a.o.Rules.Bundles(), a.wanted(d)
	var rollout []fleetproto.Rule
	if t := a.state.Taken; t.of(d.Rollout) && t.Stage != fleetproto.StageRefused || !t.of(d.Rollout) &&
		d.Rollout != nil && d.Rollout.Takes(a.o.Branch, a.o.Now()) {
		rollout = d.Rollout.State.Rules
	}
	for _, r := range a.state.Took {
		b, to := find(shelf, r.Rule.Digest), inForce(wanted, r.Rule, dte.Date(a.o.Now()))
		coming := b != nil && b.Where == Coming
		for _, o := range a.state.Took {
			if to != nil && o.Rollout == r.Rollout && find(r.Before, to.Digest) == nil &&
				find(o.Before, to.Digest) != nil {
				r.skip(o) // r and o came together, r replaced o, and o replaced the wanted bundle
			}
		}
		if named(d.Live.Rules, r.Rule.Digest) {
			took = slices.DeleteFunc(took, func(o tookRule) bool {
				b := find(shelf, o.Rule.Digest)
				return o.Rule.SameDocument(r.Rule) && !named(d.Live.Rules, o.Rule.Digest) && (b == nil || !b.inForce())
			})
		}
		former := a.returnsTo(d, r)
		switch {
		case named(wanted.Rules, r.Rule.Digest), named(rollout, r.Rule.Digest),
			named(d.Live.Rules, r.Rule.Digest) && !coming:
		case r.Rollout == "" && !slices.ContainsFunc(d.Live.Rules, r.Rule.SameDocument):
			// the live state brought the bundle, and now has no rule for its document: the bundle stays
		case coming && slices.ContainsFunc(a.missing(wanted, r.Rule, shelf), func(o fleetproto.Rule) bool {
			return bundle.Compare(o.Version, r.Rule.Version) > 0
		}): // the bundle stays until its successor is here
		case !coming && to != nil && find(r.Before, to.Digest) == nil && (b == nil || to.Compare(ruleOf(*b)) > 0 ||
			r.Rollout == "" && former != nil && former.From < to.From && to.From == b.From):
			// takeLive replaces r: the wanted bundle ranks higher, or begins on the same day as r and after former
		default:
			err := a.stepBack(ctx, d, r, former)
			if err == nil {
				continue
			}
			faults, r.Owed = append(faults, err), true
		}
		took = append(took, r)
	}
	err := a.change(func(s *state) {
		if s.Took = took; !s.Taken.of(d.Rollout) {
			s.Taken = nil
		}
	})
	if err != nil || len(faults) == 0 {
		return err
	}
	return fmt.Errorf("%w: %w", errOwed, errors.Join(faults...))
}

// inherit fills in Took for an enrolled box without state: its rule store may have bundles that an earlier box
// admitted. It assumes that a bundle outside the live state replaced the live state's bundles of its document, and that
// a bundle of the live state replaced the lower bundles of its document, down to the highest bundle outside the live
// state. A bundle that another group put in force (see Told) gets no entry and stays.
func (a *Agent) inherit(s *state, d *fleetproto.Desired) {
	if d == nil {
		return
	}
	shelf := a.o.Rules.Bundles()
	slices.SortStableFunc(shelf, compareRanks)
	for i, b := range shelf {
		_, told := s.Told[b.Digest]
		if !b.Ordered || !b.inForce() || told && b.Where == Live || slices.ContainsFunc(s.Took,
			func(o tookRule) bool { return o.Rule.Digest == b.Digest }) {
			continue
		}
		t := tookRule{Rule: ruleOf(b)}
		for j, o := range shelf {
			switch own := named(d.Live.Rules, b.Digest); {
			case !t.Rule.SameDocument(ruleOf(o)):
			case !own && named(d.Live.Rules, o.Digest):
				t.Before = append(t.Before, o)
			case own && j < i && (o.inForce() || o.Where == Spare):
				t.Before = append(slices.DeleteFunc(t.Before, func(Bundle) bool {
					return !named(d.Live.Rules, o.Digest)
				}), o)
			}
		}
		s.Took = append(s.Took, t)
	}
}

func compareRanks(b, o Bundle) int { return ruleOf(b).Compare(ruleOf(o)) }

func ruleOf(b Bundle) fleetproto.Rule {
	return fleetproto.Rule{Digest: b.Digest, Name: b.Name, Version: b.Version, Bundle: b.Kind, Document: b.Document,
		Schema: b.Schema, From: b.From}
}

// errOwed means that the branch still has a bundle that the centre no longer wants.
var errOwed = errors.New("the branch cannot leave a bundle")

// stepBack takes the branch from a bundle (r) back to an earlier bundle (to, see returnsTo). If r is still coming, or
// if to is nil, stepBack only takes r off the shelf.
func (a *Agent) stepBack(ctx context.Context, d *fleetproto.Desired, r tookRule, to *Bundle) error {
	b := find(a.o.Rules.Bundles(), r.Rule.Digest)
	switch {
	case b == nil || !b.inForce():
		return nil
	case b.Where == Coming || to == nil:
		if err := a.o.Rules.Cancel(ctx, *b, order(d, r.Rollout)); err != nil {
			return fmt.Errorf("cancelling %s %s: %w", b.Name, b.Version, err)
		}
		return nil
	}
	if err := a.o.Rules.StepBack(ctx, *to, order(d, r.Rollout)); err != nil {
		return fmt.Errorf("going back to %s %s: %w", to.Name, to.Version, err)
	}
	return nil
}

// watchShelf compares each bundle on the shelf with the last act about it, and queues an act if the bundle's place has
// changed, for example because it came into force. It also finds changes from before the agent started.
func (a *Agent) watchShelf(d *fleetproto.Desired) error {
	d = cmp.Or(d, new(fleetproto.Desired))
	shelf := a.o.Rules.Bundles()
	var acts []fleetproto.Act
	told := maps.Clone(a.state.Told)
	stage, reason := a.state.Taken.stage(shelf, d.Live, dte.Date(a.o.Now()))
	for i := range shelf {
		b := &shelf[i]
		digest, now := b.Digest, reportedAs(b)
		if last, own := told[digest]; !own || now == "" || now == last {
			continue
		}
		if a.state.Taken.has(digest) && (stage == fleetproto.StageWaiting || stage == fleetproto.StageRefused &&
			b.inForce()) {
			continue // report nothing yet: the roll-out may be refused as a whole
		}
		if now == fleetproto.ActWithdrawn && told[digest] == "" { // the centre was never told of the bundle
			delete(told, digest)
			continue
		}
		told[digest] = now
		act := fleetproto.Act{What: now, Version: d.Version, Rule: b.Name + " " + b.Version, Digest: digest,
			Document: b.Document}
		if t := a.state.Taken; t != nil && t.has(digest) {
			act.Rollout, act.Reason = t.Rollout, t.Changes[digest]
		}
		if b.Where == Retired {
			act.Reason = b.Reason
		}
		acts = append(acts, act)
	}
	if len(told) != len(a.state.Told) || len(acts) > 0 || a.state.Taken != nil && stage != a.state.Taken.Stage {
		err := a.change(func(s *state) {
			s.Told = told
			maps.DeleteFunc(s.Told, func(_, last string) bool {
				return last == fleetproto.ActReturned || last == fleetproto.ActWithdrawn // no further act follows
			})
			for _, act := range acts {
				a.queueAct(s, act)
			}
			if s.Taken != nil && stage != s.Taken.Stage {
				s.Taken.Stage, s.Taken.Reason, s.Taken.Since = stage, reason, a.o.Now().UTC()
			}
		})
		if err != nil {
			return err
		}
		a.dirty = true
	}
	return nil
}

// reportedAs returns the kind of act that reports a bundle's place to the centre; or "".
func reportedAs(b *Bundle) string {
	switch {
	case b.Where == Live:
		return fleetproto.ActLive
	case b.Where == Coming:
		return fleetproto.ActAdmitted
	case b.Where == Retired && b.Off == OffItself:
		return fleetproto.ActReturned
	case b.Where == Retired && b.Off == OffCentre:
		return fleetproto.ActWithdrawn
	}
	return ""
}

// of reports whether t is the roll-out r. The states are compared too: a version that the store has lost may have used
// the same name.
func (t *taken) of(r *fleetproto.Rollout) bool {
	return t != nil && r != nil && t.Rollout == r.Name && reflect.DeepEqual(t.State, r.State)
}

func (t *taken) has(digest string) bool { return t != nil && named(t.Rules, digest) }

// stage returns the stage of a roll-out in this branch, from the places of its bundles on the shelf. Bundles that were
// here before the roll-out count too; bundles of the live state do not. The stages refused and returned are final.
func (t *taken) stage(shelf []Bundle, live fleetproto.State, day string) (stage fleetproto.Stage, reason string) {
	if t == nil {
		return "", ""
	}
	if t.Stage.Failed() {
		return t.Stage, t.Reason
	}
	stage = fleetproto.StageLive
	for _, r := range t.State.Over(live).On(day) {
		if named(live.Rules, r.Digest) {
			continue
		}
		b := find(shelf, r.Digest)
		switch {
		case b == nil || b.Where == Unsound || b.Where == Retired && b.Off == OffCentre: // an earlier order took it off
			return fleetproto.StageWaiting, ""
		case b.Where == Retired && b.Off == OffItself:
			return fleetproto.StageReturned, b.Reason
		case b.Where == Retired:
			return fleetproto.StageRefused, "it was taken off in the branch: " + b.Reason
		case b.Where == Coming:
			stage = fleetproto.StageAdmitted
		}
	}
	return stage, ""
}

// progress returns the roll-out's part of the status; nil without a roll-out. The caller holds mu.
func (a *Agent) progress() *fleetproto.Progress {
	if a.desired == nil || a.desired.Rollout == nil {
		return nil
	}
	p := &fleetproto.Progress{Name: a.desired.Rollout.Name, Stage: fleetproto.StageOutside, Since: a.desired.Issued}
	if t := a.state.Taken; t.of(a.desired.Rollout) {
		var changes []string
		for _, r := range t.Rules {
			if c := t.Changes[r.Digest]; c != "" {
				changes = append(changes, fmt.Sprintf("%s: %s", r, c))
			}
		}
		p.Stage, p.Since, p.Reason = t.Stage, t.Since, cmp.Or(t.Reason, strings.Join(changes, "; "))
	}
	return p
}
