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
// compares this state with the shelf, not with its own earlier steps; therefore it continues any interrupted work.
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

// effective returns why a version has no effect now; nil if the version has an effect. Orders that were carried out
// earlier stay.
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

// takeLive admits the bundles of the live state, and of earlier live states if this box still needs them, except the
// bundles that the roll-out replaces.
func (a *Agent) takeLive(ctx context.Context, d *fleetproto.Desired) error {
	t := a.state.Taken
	replaced := func(r fleetproto.Rule) bool {
		return t.of(d.Rollout) && !t.Stage.Failed() &&
			slices.ContainsFunc(t.State.Rules, func(o fleetproto.Rule) bool {
				return o.SameGeneration(r) && o.Digest != r.Digest
			})
	}
	var faults []error
	for _, r := range slices.SortedStableFunc(slices.Values(d.Live.Rules), byKind) {
		if replaced(r) {
			continue
		}
		// if an earlier bundle cannot be read, r waits too: once r is on the shelf, withEarlier would not name that
		// earlier bundle any more
		rules, fault := a.withEarlier(ctx, r)
		for i := 0; i < len(rules) && fault == nil; i++ {
			r := rules[i]
			before, tried := a.state.Refused[r.Digest]
			refused := before.Reason
			if tried = tried && before.Version == d.Version; !tried {
				refused, fault = a.ensureRule(ctx, d, r, "")
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
		faults = append(faults, fault)
	}
	return errors.Join(faults...)
}

// withEarlier returns a bundle of the live state (r), preceded by the earlier bundles that this box lacks because it is
// new or was away. It adds earlier bundles only if r's first day is in the future: today's bundle, and the bundles from
// today's to r, as live states have named them. An error means that today's bundle is unknown.
func (a *Agent) withEarlier(ctx context.Context, r fleetproto.Rule) ([]fleetproto.Rule, error) {
	shelf, list := a.o.Rules.Bundles(), []fleetproto.Rule{r}
	if _, refused := a.state.Refused[r.Digest]; refused || find(shelf, r.Digest) != nil {
		return list, nil
	}
	lived := a.state.Lived
	for i := len(lived) - 1; i >= 0 || a.state.First > 1; i-- {
		if i >= 0 && (!lived[i].SameGeneration(r) || lived[i].Digest == r.Digest) {
			continue
		}
		if i >= 0 && slices.ContainsFunc(shelf, func(b Bundle) bool {
			return b.Digest == lived[i].Digest && b.Off != OffCentre || b.Where == Live &&
				lived[i].SameGeneration(ruleOf(b)) && bundle.Compare(b.Version, lived[i].Version) > 0
		}) {
			break
		}
		file, err := a.fetch(ctx, fleetproto.RuleKey(list[0].File), list[0].File, fleetproto.MaxRule)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list[0], err)
		}
		b, err := bundle.Inspect(file)
		if err != nil || b.Manifest.Validity[a.o.Chain.Ambiente].From <= dte.Date(a.o.Now()) {
			break // list[0] has begun: no earlier bundle is needed
		}
		if i < 0 {
			return nil, fmt.Errorf("%s waits for its day; what precedes it is in versions before %d, which this box "+
				"cannot read: push both here", r, a.state.First)
		}
		list = slices.Insert(list, 0, lived[i])
	}
	return list, nil
}

// addLived adds the bundles of a live state to the list lived. It removes from lived the bundles of the same generation
// with the same or a higher version, because the centre has taken them back.
func addLived(lived, rules []fleetproto.Rule) []fleetproto.Rule {
	for _, r := range rules {
		lived = append(slices.DeleteFunc(slices.Clone(lived), func(o fleetproto.Rule) bool {
			return o.SameGeneration(r) && bundle.Compare(o.Version, r.Version) >= 0
		}), r)
	}
	return lived[max(0, len(lived)-500):]
}

// queueRefusal queues an act: the branch refuses a bundle. No further act about this bundle follows.
func (a *Agent) queueRefusal(s *state, d *fleetproto.Desired, r fleetproto.Rule, rollout, reason string) {
	delete(s.Told, r.Digest)
	s.Took = slices.DeleteFunc(s.Took, func(o tookRule) bool { return o.Rule.Digest == r.Digest })
	a.queueAct(s, fleetproto.Act{What: fleetproto.ActRefused, Version: d.Version, Rollout: rollout, Rule: r.String(),
		Digest: r.Digest, Document: r.Document, Reason: reason})
}

// ensureRule admits a bundle, unless it is in force or coming. refused is the reason why the branch's admission refuses
// the bundle. An error is a fault of the store or of the box. For a bundle of the live state an error may also mean
// that the branch has left the bundle; this error recurs until the centre or the branch decides differently.
func (a *Agent) ensureRule(ctx context.Context, d *fleetproto.Desired, r fleetproto.Rule,
	rollout string) (refused string, err error) {
	if b := find(a.o.Rules.Bundles(), r.Digest); b != nil {
		var other string
		switch {
		case b.Where == Coming && rollout != "": // the box may have lost its state since it admitted the bundle
			return "", a.take(r, rollout)
		case b.inForce():
			return "", nil
		case b.Where == Spare:
			other = "a newer version is in force in this branch"
		case b.Where == Retired && b.Off == OffCentre && b.From > dte.Date(a.o.Now()):
			// The bundle was cancelled before its first day: it must be admitted again.
		case b.Where == Retired && b.Off == OffCentre:
			// The centre wants the bundle again. If we crash after the step, the next look finds the bundle in force.
			if err := a.take(r, rollout); err != nil {
				return "", err
			}
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
			return "", fmt.Errorf("%s is not accepted: %s", r, other)
		}
		if other != "" {
			return other, nil
		}
	}
	file, err := a.fetch(ctx, fleetproto.RuleKey(r.File), r.File, fleetproto.MaxRule)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r, err)
	}
	if refused := differs(file, r); refused != "" {
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
	return "", nil
}

// differs returns how a file differs from the bundle that the director named, or "". The admission verifies the
// signatures.
func differs(file []byte, r fleetproto.Rule) string {
	b, err := bundle.Inspect(file)
	if err != nil {
		return "bundle: " + err.Error()
	}
	m := b.Manifest
	got := fleetproto.Rule{File: r.File, Digest: b.Digest, Name: m.Name, Version: m.Version, Bundle: m.Kind,
		Document: m.Document, Schema: m.Schema, AmountsChange: r.AmountsChange, FewerCases: r.FewerCases}
	if got != r {
		return fmt.Sprintf("bundle: the file holds %s %s of %s %s, generation %d (%.12s)", m.Name, m.Version, m.Kind,
			m.Document, m.Schema, b.Digest)
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
			if r.SameGeneration(ruleOf(b)) && b.Digest != r.Digest && b.inForce() {
				t.Before = append(t.Before, b)
			}
		}
		s.Took = slices.DeleteFunc(s.Took, func(o tookRule) bool {
			at := slices.IndexFunc(t.Before, func(b Bundle) bool { return b.Digest == o.Rule.Digest })
			if at < 0 || !o.Owed {
				return false
			}
			t.Before = append(slices.Delete(t.Before, at, at+1), o.Before...) // nobody wants to return to that bundle
			return true
		})
		s.Took = append(s.Took, t)
	})
}

// returnsTo returns the replaced bundle that would be in force on a day, nil if no replaced bundle would be.
func (r *tookRule) returnsTo(day string) (best *Bundle) {
	for i, b := range r.Before {
		if b.From <= day && (best == nil || cmp.Or(strings.Compare(b.From, best.From),
			bundle.Compare(b.Version, best.Version)) > 0) {
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
		// The roll-out waits for a bundle of the live state that this box could not admit yet, for example because the
		// store failed. Once the roll-out's bundle is admitted, the live state's bundle has too low a version to be
		// admitted, and the branch could not go back to that bundle.
		for _, l := range d.Live.Rules {
			_, refused := a.state.Refused[l.Digest]
			if l.SameGeneration(rule) && !refused && find(shelf, l.Digest) == nil {
				return fmt.Errorf("roll-out %s waits for %s, which it replaces", r.Name, l)
			}
		}
		t.Rules = append(t.Rules, rule)
	}
	slices.SortStableFunc(t.Rules, byKind)
	return a.change(func(s *state) { s.Taken = t })
}

// takeRollout admits the bundles of the roll-out. If a bundle is refused, the roll-out ends in this branch, and the
// branch leaves the bundles that it admitted before.
func (a *Agent) takeRollout(ctx context.Context, d *fleetproto.Desired) error {
	t := a.state.Taken
	if t.of(d.Rollout) && t.Stage == fleetproto.StageRefused { // leave a refused roll-out even if it is Held
		return a.undoRollout(ctx, d, t)
	}
	if !t.of(d.Rollout) || d.Rollout.Held || t.Stage == fleetproto.StageReturned {
		return nil
	}
	for _, r := range t.Rules {
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
		return a.undoRollout(ctx, d, a.state.Taken)
	}
	return nil
}

// undoRollout leaves the bundles of a roll-out after the branch has refused one of them.
func (a *Agent) undoRollout(ctx context.Context, d *fleetproto.Desired, t *taken) error {
	var faults []error
	for _, r := range a.state.Took {
		b := find(a.o.Rules.Bundles(), r.Rule.Digest)
		if !t.has(r.Rule.Digest) || b != nil && b.Where == Live && r.returnsTo(dte.Date(a.o.Now())) == nil {
			continue // it is not the roll-out's, or no earlier bundle exists: this bundle stays
		}
		faults = append(faults, a.stepBack(ctx, d, r))
	}
	return errors.Join(faults...)
}

// leaveUnwanted leaves the bundles that this box took on the centre's order and that the centre no longer wants. In
// place of each, it puts in force again the bundle that was replaced here, but never an earlier bundle: somebody who
// has stolen the director's key cannot lead a branch back step by step. If the branch cannot leave a bundle now,
// leaveUnwanted tries again later; a roll-out does not wait for this.
func (a *Agent) leaveUnwanted(ctx context.Context, d *fleetproto.Desired) error {
	var faults []error
	var took []tookRule
	for _, r := range a.state.Took {
		at, b := slices.IndexFunc(d.Live.Rules, r.Rule.SameGeneration), find(a.o.Rules.Bundles(), r.Rule.Digest)
		waits := b != nil && b.Where == Coming && a.state.First > 0
		switch {
		case named(d.Live.Rules, r.Rule.Digest):
			took = slices.DeleteFunc(took, func(o tookRule) bool { return o.Rule.SameGeneration(r.Rule) })
		case d.Rollout != nil && named(d.Rollout.State.Rules, r.Rule.Digest) &&
			(a.state.Taken.of(d.Rollout) || d.Rollout.Takes(a.o.Branch, a.o.Now())):
		case at < 0 && r.Rollout == "": // the live state brought the bundle, and no longer has a rule for its document
		case at >= 0 && (!waits || named(a.state.Lived, b.Digest)) && !slices.ContainsFunc(r.Before,
			func(b Bundle) bool { return b.Digest == d.Live.Rules[at].Digest }): // takeLive brings a newer bundle
		default:
			err := a.stepBack(ctx, d, r)
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
	if err != nil {
		return err
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("%w: %w", errOwed, err)
	}
	return nil
}

// inherit restores, for an enrolled box without state, the notes that the method take makes. An earlier box may have
// filled the rule store: a bundle of the centre may be in force there in place of a bundle of the live state.
func (a *Agent) inherit(s *state, d *fleetproto.Desired) {
	if d == nil || len(s.Told) > 0 {
		return
	}
	shelf := a.o.Rules.Bundles()
	for _, l := range d.Live.Rules {
		before := find(shelf, l.Digest)
		at := slices.IndexFunc(shelf, func(b Bundle) bool {
			return b.Where == Live && b.Ordered && l.SameGeneration(ruleOf(b))
		})
		if at >= 0 && before != nil && before.Where == Spare {
			s.Took = append(s.Took, tookRule{Rule: ruleOf(shelf[at]), Before: []Bundle{*before}})
		}
	}
}

func ruleOf(b Bundle) fleetproto.Rule {
	return fleetproto.Rule{Digest: b.Digest, Name: b.Name, Version: b.Version, Bundle: b.Kind, Document: b.Document,
		Schema: b.Schema}
}

// errOwed means that the branch still has a bundle that the centre no longer wants.
var errOwed = errors.New("the branch cannot leave a bundle")

// stepBack leaves a bundle (r), and puts in force again the bundle that r replaced (see returnsTo). If r is still
// coming, or replaced no bundle because its type of document was new, stepBack only takes r off the shelf.
func (a *Agent) stepBack(ctx context.Context, d *fleetproto.Desired, r tookRule) error {
	b, to := find(a.o.Rules.Bundles(), r.Rule.Digest), r.returnsTo(dte.Date(a.o.Now()))
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

// watchShelf compares each bundle on the shelf with the last act about it, and queues an act if the bundle has another
// place since then, for example because it came into force. It also finds changes that happened while the agent did not
// run.
func (a *Agent) watchShelf(d *fleetproto.Desired) error {
	shelf := a.o.Rules.Bundles()
	var acts []fleetproto.Act
	told := maps.Clone(a.state.Told)
	stage, reason := a.state.Taken.stage(shelf)
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
		act := fleetproto.Act{What: now, Rule: b.Name + " " + b.Version, Digest: digest, Document: b.Document}
		if d != nil {
			act.Version = d.Version
		}
		if t := a.state.Taken; t != nil && t.has(digest) {
			act.Rollout = t.Rollout
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

// reportedAs returns the kind of act that reports a bundle's place to the centre; "" if there is no such act.
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

// of reports whether t is the roll-out r. The states are compared too, because a version that the store has lost may
// have used the same name for another state.
func (t *taken) of(r *fleetproto.Rollout) bool {
	return t != nil && r != nil && t.Rollout == r.Name && reflect.DeepEqual(t.State, r.State)
}

func (t *taken) has(digest string) bool { return t != nil && named(t.Rules, digest) }

// stage returns the stage of a roll-out in this branch, according to the shelf. Refused and returned are final.
func (t *taken) stage(shelf []Bundle) (stage fleetproto.Stage, reason string) {
	if t == nil {
		return "", ""
	}
	if t.Stage.Failed() {
		return t.Stage, t.Reason
	}
	stage = fleetproto.StageLive
	for _, r := range t.Rules {
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
		p.Stage, p.Since, p.Reason = t.Stage, t.Since, t.Reason
	}
	return p
}
