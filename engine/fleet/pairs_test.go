package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
)

// cutAt cuts the power once the state holds a text; it reports whether that happened.
func (w *world) cutAt(text string) (cut bool) {
	defer func() {
		w.disk.Commit = nil
		if r := recover(); r != nil {
			cut = r == powerCut{}
		}
	}()
	w.disk.Commit = func(_ string, done bool) {
		if held, _ := w.disk.Load(); done && strings.Contains(string(held), text) {
			panic(powerCut{})
		}
	}
	w.pass(5 * time.Minute)
	return false
}

// refuse makes the gate refuse each bundle of these names.
func (w *world) refuse(names ...string) {
	w.gate.Refuse = func(b *bundle.Bundle) string {
		if slices.Contains(names, b.Manifest.Name) {
			return "case 3 differs"
		}
		return ""
	}
}

// TestAgent_BackPairs: a branch goes back to what the centre desired before, however it came to the bundle that it
// leaves: as a correction of a law that waits for its day, without a roll-out, or after a roll-out that was taken back.
func TestAgent_BackPairs(t *testing.T) {
	const law = "2026-12-01"
	for name, c := range map[string]struct {
		from          string // first day of the second and the third version
		rollouts      []int  // versions that come by a roll-out, which the centre then takes as the live state
		tried         bool   // the fourth version is rolled out and taken back
		before, after time.Duration
		want          int // the version in force at the end
	}{
		"a correction of a law, before its day":      {from: law, rollouts: []int{1, 2}, after: 9 * 24 * time.Hour, want: 1},
		"a correction of a law, after its day":       {from: law, rollouts: []int{1, 2}, before: 9 * 24 * time.Hour, want: 1},
		"a branch that was silent for the roll-outs": {want: 1},
		"another roll-out was taken back before":     {rollouts: []int{1, 2}, tried: true, want: 1},
	} {
		w := newWorld(t)
		w.enrol(1, w.box, director)
		var rules []fleetproto.Rule
		for i, version := range []string{"1.0.0", "1.0.1", "1.0.2", "1.0.3"} {
			from := "2026-01-01"
			if i > 0 && c.from != "" {
				from = c.from
			}
			rules = append(rules, w.rule("a", version, from))
		}
		w.live(rules[0])
		w.start()
		for i := range 3 {
			if slices.Contains(c.rollouts, i) {
				w.rollout("r", rules[i])
				w.pass(5 * time.Minute)
			}
			w.live(rules[i])
			w.pass(5 * time.Minute)
		}
		if c.tried {
			w.rollout("r", rules[3])
			w.pass(5 * time.Minute)
			w.live(rules[2])
			w.pass(5 * time.Minute)
		}
		w.pass(c.before)
		w.live(rules[1])
		w.pass(10*time.Minute + c.after)
		if s := w.status(); w.where(rules[c.want]) != "live" || s.Desired.Trouble != "" {
			t.Errorf("%s: %s, %s, %s: %s", name, w.where(rules[0]), w.where(rules[1]), w.where(rules[2]), s.Desired.Trouble)
		}
	}
}

// TestAgent_BackOverLeft: a branch that refused the bundle before, or left it by itself, goes back from the bundle that
// the centre takes back to what it had, and no further.
func TestAgent_BackOverLeft(t *testing.T) {
	for at := range 4 {
		refused, ring := at&1 > 0, at&2 > 0
		w := newWorld(t)
		oldest, first := w.rule("a", "1.0.0"), w.rule("a", "1.0.1")
		left, bad := w.rule("a", "1.0.2"), w.rule("a", "1.0.3")
		w.gate.Refuse = func(b *bundle.Bundle) string {
			return map[bool]string{true: "it changes 3 sales"}[refused && b.Digest == left.Digest]
		}
		w.enrol(1, w.box, director)
		w.live(oldest)
		w.start()
		for _, r := range []fleetproto.Rule{first, left, bad} {
			if w.pass(5 * time.Minute); r != bad || ring {
				w.rollout("r", r)
				w.pass(5 * time.Minute)
			}
			if r == left && !refused {
				w.gate.Return(left.Digest, "MH refuses")
			}
			if r != bad || !ring {
				w.live(r)
			}
		}
		w.pass(5 * time.Minute)
		for range 2 {
			w.live(left) // back
			w.pass(10 * time.Minute)
			if w.where(first) != "live" || w.where(bad) != "retiredcentre" || w.status().Desired.Trouble == "" {
				t.Errorf("refused %v, ring %v: %q: %s", refused, ring, w.gate.Changes, w.status().Desired.Trouble)
			}
		}
		w.live(oldest)
		if w.pass(10 * time.Minute); w.where(oldest) == "live" && !ring { // a ring was not the last roll-out
			t.Errorf("refused %v, ring %v: the branch was walked down: %q", refused, ring, w.gate.Changes)
		}
	}
}

// TestAgent_BackNew: a branch that is new since the last roll-out, and therefore never had the bundle that the centre
// goes back to, keeps what it has if it would go back to an earlier law otherwise.
func TestAgent_BackNew(t *testing.T) {
	for from, want := range map[string]string{"2025-01-01": "1.0.1", "2026-01-01": "0.9.0"} {
		w := newWorld(t)
		data, _ := file(t, "a", "0.9.0", author, from)
		if _, err := w.gate.Admit(t.Context(), data, fleet.Order{Who: "the installation"}); err != nil {
			t.Fatal(err)
		}
		first, second := w.rule("a", "1.0.0"), w.rule("a", "1.0.1")
		w.enrol(1, w.box, director)
		w.live(first)
		w.live(second)
		w.start()
		w.pass(10 * time.Minute)
		w.live(first) // back
		w.pass(30 * time.Minute)
		for _, b := range w.gate.Bundles() {
			if (b.Where == fleet.Live) != (b.Version == want) {
				t.Errorf("installed with a bundle from %s: %s is %s: %q", from, b.Version, b.Where, w.gate.Changes)
			}
		}
		if w.status().Desired.Trouble == "" {
			t.Error("nobody is told")
		}
		next := w.rule("a", "1.0.2")
		w.live(next)
		if w.pass(10 * time.Minute); w.where(next) != "live" {
			t.Errorf("the next version is %s", w.where(next))
		}
	}
}

// TestAgent_LawAgain: a law that every branch has, published once more together with a bundle that the branch refuses,
// stays where it is.
func TestAgent_LawAgain(t *testing.T) {
	w := newWorld(t)
	first, law, bad := w.rule("a", "1.0.0"), w.rule("a", "2.0.0", "2026-12-01"), w.rule("b", "1.0.0")
	w.refuse("b")
	w.live(first)
	w.start()
	w.pass(5 * time.Minute)
	w.live(law)
	w.pass(5 * time.Minute)
	w.rollout("r4", law, bad)
	w.pass(9 * 24 * time.Hour)
	if w.where(law) != "live" || w.stage() != fleetproto.StageRefused {
		t.Errorf("%s, %s", w.where(law), w.stage())
	}
	same(t, "changes", w.gate.Changes, "admit a 1.0.0", "admit a 2.0.0")
}

// TestAgent_RefusedThenHeld: a roll-out that the branch refused is left, also where the power fails before and the
// centre holds the roll-out because of this refusal.
func TestAgent_RefusedThenHeld(t *testing.T) {
	w := newWorld(t)
	a, b := w.rule("a", "1.0.0"), w.rule("b", "1.0.0")
	w.live(a, b)
	w.start()
	w.pass(5 * time.Minute)
	w.refuse("b")
	w.rollout("r2", w.rule("a", "1.0.1"), w.rule("b", "1.0.1"))
	if !w.cutAt(`"stage":"refused"`) {
		t.Fatal("the power did not fail")
	}
	w.publish(func(d *fleetproto.Desired) {
		held := *d.Rollout
		held.Held, d.Rollout = true, &held
	})
	w.start()
	if w.pass(10 * time.Minute); w.where(a) != "live" {
		t.Errorf("the stage is %s, and a bundle of the roll-out is in force", w.stage())
	}
}

// TestAgent_AgainThenCut: a bundle that was taken back and is rolled out again is not refused because the power failed.
func TestAgent_AgainThenCut(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("a", "1.0.0"), w.rule("a", "1.0.1")
	w.live(first)
	w.start()
	w.rollout("r2", second)
	w.pass(5 * time.Minute)
	w.live(first)
	w.pass(5 * time.Minute)
	w.rollout("r4", second)
	if !w.cutAt(`"rollout":"r4"`) {
		t.Fatal("the power did not fail")
	}
	w.start()
	if w.pass(10 * time.Minute); w.stage() != fleetproto.StageLive || w.where(second) != "live" {
		t.Errorf("%s, %s", w.stage(), w.where(second))
	}
}

// TestAgent_TwoRefused: two bundles of one version that the branch refuses are tried once each.
func TestAgent_TwoRefused(t *testing.T) {
	w := newWorld(t)
	w.refuse("a", "b")
	w.live(w.rule("a", "1.0.0"), w.rule("b", "1.0.0"))
	w.start()
	w.pass(2 * time.Hour)
	if len(w.ordered) != 2 {
		t.Errorf("%d admissions", len(w.ordered))
	}
	same(t, "acts", w.acts(), "refused a 1.0.0", "refused b 1.0.0")
}

// TestAgent_OtherIdentity: an enrolment is worth nothing for another key, as a copy of the disk gets it, nor in another
// chain or ambiente. The box waits to be enrolled.
func TestAgent_OtherIdentity(t *testing.T) {
	for name, alter := range map[string]func(*fleet.Options){
		"another key":      func(o *fleet.Options) { o.Box = signer("box", 8) },
		"another ambiente": func(o *fleet.Options) { o.Chain.Ambiente = "01" },
		"another chain":    func(o *fleet.Options) { o.Chain.Name = "otra" },
	} {
		w := newWorld(t)
		w.enrol(1, w.box, director)
		w.live(w.rule("a", "1.0.0"))
		w.start()
		w.pass(3 * time.Hour)
		sequence := w.status().Sequence
		o := w.options()
		alter(o)
		var err error
		if w.agent, err = fleet.New(*o); err != nil {
			t.Fatal(err)
		}
		before := w.agent.Fence().Standing()
		w.pass(time.Hour)
		after, err := o.Chain.OpenStatus(w.store.Held(fleetproto.StatusKey("centro", 0)), "centro", 0, public(o.Box))
		if err != nil || before.Epoch > 0 || after.Epoch > 0 || after.Sequence >= sequence ||
			w.agent.Fence().Standing().Numbers(points[0]) {
			t.Errorf("%s: %+v, then %+v, %v", name, before, after, err)
		}
	}
}

// TestAgent_StatusAfterLoss: a box that lost its state, and does not get its enrolment at the first attempt, goes on
// with the numbers of its statuses.
func TestAgent_StatusAfterLoss(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.start()
	w.pass(3 * time.Hour)
	before := w.status().Sequence
	w.disk = &fleettest.File{}
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if strings.HasPrefix(r.Key, fleetproto.BoxesFolder) {
			w.store.Fault = nil
			return fleettest.Failed
		}
		return fleettest.None
	}
	w.start()
	if w.pass(20 * time.Minute); w.status().Sequence <= before {
		t.Errorf("status %d follows %d", w.status().Sequence, before)
	}
}

// TestAct_Whole: an act says of which box it is, on which order, about which bundle, and when.
func TestAct_Whole(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, signer("other", 9), director)
	w.enrol(2, w.box, director)
	rule := w.rule("a", "1.0.0")
	w.live(rule)
	began := w.now
	w.start()
	w.pass(5 * time.Minute)
	act, err := chain.OpenAct(w.store.Held(fleetproto.ActKey("centro", 1)), "centro", 1, public(w.box))
	if err != nil {
		t.Fatal(err)
	}
	if act.At.Before(began) || act.At.After(w.now) {
		t.Errorf("at %v", act.At)
	}
	want := fleetproto.Act{Head: act.Head, Branch: "centro", Epoch: 2, Number: 1, At: act.At, What: fleetproto.ActLive,
		Version: w.last.Version, Rule: "a 1.0.0", Digest: rule.Digest, Document: rule.Document}
	if *act != want {
		t.Errorf("%+v, want %+v", *act, want)
	}
}
