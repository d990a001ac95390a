package fleet_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
)

// A roll-out reaches a branch within two polls, is reported once, and becomes live for all without another report.
func TestAgent_Rollout(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1")
	w.enrol(1, w.box, director)
	w.live(first)
	w.start()
	w.pass(3 * time.Minute)
	same(t, "changes", w.gate.Changes, "admit catalogos 1.0.0")
	w.rollout("r1", second)
	w.pass(2*time.Minute + 15*time.Second)
	if got := w.stage(); got != fleetproto.StageLive {
		t.Errorf("stage %q", got)
	}
	w.live(second)
	w.pass(3 * time.Minute)
	same(t, "changes", w.gate.Changes, "admit catalogos 1.0.0", "admit catalogos 1.0.1")
	same(t, "acts", w.acts(), "live catalogos 1.0.0", "live catalogos 1.0.1")
	if s := w.status(); s.Epoch != 1 || s.Desired.Version != 3 || s.Desired.Trouble != "" || len(s.Rules) != 1 ||
		s.Rules[0].Version != "1.0.1" || !s.Rules[0].Live || !s.Ready {
		t.Errorf("%+v", s)
	}
}

// A branch outside of the ring, a branch whose time has not come, and a held roll-out: nothing is admitted.
func TestAgent_Ring(t *testing.T) {
	for name, alter := range map[string]func(*fleetproto.Rollout){
		"outside": func(r *fleetproto.Rollout) { r.Pilots = []string{"norte"} },
		"early":   func(r *fleetproto.Rollout) { r.NotBefore = r.Opened.Add(time.Hour) },
		"held":    func(r *fleetproto.Rollout) { r.Held = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			second := w.rule("catalogos", "1.0.1")
			w.live(w.rule("catalogos", "1.0.0"))
			w.start()
			w.rollout("r1", second)
			w.publish(func(d *fleetproto.Desired) { alter(d.Rollout) })
			w.store.Lose(fleetproto.DesiredKey(w.group, 2)) // the box never sees the ring to which it belonged
			w.last.Version, w.last.Previous = 2, fleetproto.Digest(mustHold(w, fleetproto.DesiredKey(w.group, 1)))
			w.publishAgain()
			w.pass(20 * time.Minute)
			if where, stage := w.where(second), w.stage(); where != "" || stage != fleetproto.StageOutside {
				t.Errorf("%s, %s", where, stage)
			}
		})
	}
}

func mustHold(w *world, key string) []byte {
	data := w.store.Held(key)
	if data == nil {
		w.t.Fatalf("%s is not there", key)
	}
	return data
}

// publishAgain writes the last version anew.
func (w *world) publishAgain() {
	w.t.Helper()
	data, err := chain.Seal(w.last, director)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store.Lose(fleetproto.DesiredKey(w.group, w.last.Version+1))
	w.store.Put(fleetproto.DesiredKey(w.group, w.last.Version), data)
	w.data = data
}

// A roll-out that the centre takes back returns to the replaced bundles, once, and to nothing older: the director's key
// alone cannot lead a branch back step by step.
func TestAgent_Back(t *testing.T) {
	w := newWorld(t)
	first, second, third := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1"), w.rule("catalogos", "1.0.2")
	w.live(first)
	w.start()
	w.pass(2 * time.Minute)
	w.rollout("r1", second)
	w.pass(2 * time.Minute)
	w.live(second)
	w.rollout("r2", third)
	w.pass(2 * time.Minute)
	w.live(third)
	w.pass(2 * time.Minute)
	w.live(second) // back
	w.pass(2 * time.Minute)
	if got := w.where(third) + " " + w.where(second); got != "retiredcentre live" {
		t.Error(got)
	}
	w.live(first) // and once more: no
	w.pass(20 * time.Minute)
	if got := w.where(second); got != "live" {
		t.Errorf("the branch was walked down: %s", got)
	}
	if s := w.status(); !strings.Contains(s.Desired.Trouble, "newer") {
		t.Errorf("trouble %q", s.Desired.Trouble)
	}
	w.live(third) // it is wanted again
	w.pass(20 * time.Minute)
	same(t, "acts", w.acts(), "live catalogos 1.0.0", "live catalogos 1.0.1", "live catalogos 1.0.2",
		"withdrawn catalogos 1.0.2", "live catalogos 1.0.2")
	if got := w.where(third); got != "live" {
		t.Error(got)
	}
}

// The centre learns within a poll that MH refuses a bundle's documents, and that it does no longer; meanwhile the status
// is written as seldom as ever.
func TestAgent_Grave(t *testing.T) {
	w := newWorld(t)
	r := w.rule("catalogos", "1.0.0")
	w.enrol(1, w.box, director)
	w.live(r)
	w.start()
	w.pass(time.Hour)
	written := func(within time.Duration) (n int) {
		w.store.Seen = func(r fleettest.Request, _ error) {
			if r.Key == fleetproto.StatusKey("centro", 1) {
				n++
			}
		}
		w.pass(within)
		return n
	}
	for range 2 {
		for _, refused := range []int{5, 0} {
			w.outcomes = map[string]dte.Outcomes{r.Digest: {Decided: 5, Refused: refused}}
			if n := written(2 * w.poll); n < 1 {
				t.Errorf("%d refusals are not told", refused)
			}
			if n := written(2 * time.Hour); n < 6 || n > 10 {
				t.Errorf("with %d refusals, the status is written %d times in two hours", refused, n)
			}
		}
	}
}

// A roll-out is admitted whole or not at all, and a branch is not asked again for what it refused.
func TestAgent_Refused(t *testing.T) {
	w := newWorld(t)
	first, good, bad := w.rule("a", "1.0.0"), w.rule("a", "1.0.1"), w.rule("b", "1.0.1")
	other := w.rule("b", "1.0.0")
	asked := 0
	w.gate.Refuse = func(b *bundle.Bundle) string {
		if b.Manifest.Name == "b" && b.Manifest.Version == "1.0.1" {
			asked++
			return "case 3 differs"
		}
		return ""
	}
	w.live(first, other)
	w.start()
	w.pass(2 * time.Minute)
	w.rollout("r1", good, bad)
	w.pass(20 * time.Minute)
	if got := w.where(first) + " " + w.where(good) + " " + w.where(bad); got != "live retiredcentre " || asked != 1 {
		t.Errorf("%s, asked %d times", got, asked)
	}
	if p := w.status().Rollout; p.Stage != fleetproto.StageRefused || !strings.Contains(p.Reason, "case 3") {
		t.Errorf("%+v", p)
	}
	same(t, "acts", w.acts(), "live a 1.0.0", "live b 1.0.0", "refused b 1.0.1")
	w.live(first, other)
	w.pass(20 * time.Minute)
	if trouble := w.status().Desired.Trouble; trouble != "" || w.stage() != "" {
		t.Error(trouble)
	}
}

// TestAgent_RefusedTwice: the state keeps only the refusals of the latest version that the branch refused a part of.
func TestAgent_RefusedTwice(t *testing.T) {
	w := newWorld(t)
	w.gate.Refuse = func(*bundle.Bundle) string { return "case 3 differs" }
	w.start()
	for _, version := range []string{"1.0.0", "1.0.1"} {
		r := w.rule("a", version)
		w.live(r)
		w.pass(20 * time.Minute)
		data, err := w.disk.Load()
		if n := bytes.Count(data, []byte(`"reason":"cases: case 3 differs"`)); err != nil || n != 1 {
			t.Errorf("%s: %d refusals, %v:\n%s", version, n, err, data)
		}
	}
}

// TestAgent_ReturnFromKnown: a return also counts as a failure of the roll-out where a person had pushed its bundle
// before, as in a pilot branch.
func TestAgent_ReturnFromKnown(t *testing.T) {
	w := newWorld(t)
	second := w.rule("catalogos", "1.0.1")
	w.live(w.rule("catalogos", "1.0.0"))
	w.start()
	w.pass(2 * time.Minute)
	data, _ := file(t, "catalogos", "1.0.1", author, second.From)
	if _, err := w.gate.Admit(t.Context(), data, fleet.Order{Who: "ana"}); err != nil {
		t.Fatal(err)
	}
	w.rollout("r1", second)
	if w.pass(3 * time.Minute); w.stage() != fleetproto.StageLive {
		t.Errorf("its stage is %s", w.stage())
	}
	w.gate.Return(second.Digest, "MH refuses")
	w.pass(3 * time.Minute)
	if p := w.status().Rollout; p.Stage != fleetproto.StageReturned || p.Reason != "MH refuses" {
		t.Errorf("%+v", p)
	}
}

// A return by the branch itself is reported, counts as a failure, and is not undone by the centre.
func TestAgent_Return(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1")
	w.live(first)
	w.start()
	w.pass(2 * time.Minute)
	w.rollout("r1", second)
	w.pass(3 * time.Minute)
	w.gate.Return(second.Digest, "MH refuses")
	w.pass(3 * time.Minute)
	if p := w.status().Rollout; p.Stage != fleetproto.StageReturned || p.Reason != "MH refuses" {
		t.Errorf("%+v", p)
	}
	w.live(second) // the centre rolls it out nevertheless
	w.pass(20 * time.Minute)
	if got := w.where(second); got != "retireditself" {
		t.Error(got)
	}
	same(t, "acts", w.acts(), "live catalogos 1.0.0", "live catalogos 1.0.1", "returned catalogos 1.0.1")
	if trouble := w.status().Desired.Trouble; !strings.Contains(trouble, "left it by itself") {
		t.Error(trouble)
	}
}

// A bundle with a future first day is admitted, and becomes live on its day without another order.
func TestAgent_Dates(t *testing.T) {
	w := newWorld(t)
	w.live(w.rule("catalogos", "1.0.0"))
	w.start()
	w.rollout("r1", w.rule("catalogos", "2.0.0", "2026-12-01"))
	w.pass(3 * time.Minute)
	if got := w.stage(); got != fleetproto.StageAdmitted {
		t.Errorf("stage %q", got)
	}
	w.pass(8 * 24 * time.Hour)
	if got := w.stage(); got != fleetproto.StageLive {
		t.Errorf("stage %q", got)
	}
	same(t, "acts", w.acts(), "live catalogos 1.0.0", "admitted catalogos 2.0.0", "live catalogos 2.0.0")
}

// TestAgent_BackToOwn: a branch that leaves a roll-out returns to its own bundle in force, and not to its own bundle that
// begins later.
func TestAgent_BackToOwn(t *testing.T) {
	w := newWorld(t)
	own := fleet.Order{Who: "the shop", Reason: "its own"}
	var rules []fleetproto.Rule
	for _, c := range [][]string{{"1.0.0", "2026-01-01"}, {"1.1.0", "2026-12-01"}} {
		data, r := file(t, "a", c[0], author, c[1])
		if made, err := w.gate.Admit(t.Context(), data, own); err != nil || made.Refused != "" {
			t.Fatal(made, err)
		}
		rules = append(rules, r)
	}
	w.start()
	bad := w.rule("a", "1.0.1")
	w.rollout("r1", bad)
	w.pass(time.Hour)
	if w.where(bad) != "live" {
		t.Fatalf("%s: %s", w.where(bad), w.status().Desired.Trouble)
	}
	w.live()
	w.pass(time.Hour)
	if got := w.where(bad) + " " + w.where(rules[0]) + " " + w.where(rules[1]); got != "retiredcentre live coming" {
		t.Errorf("%s: %s", got, w.status().Desired.Trouble)
	}
}

// TestAgent_BackBeforeItsDay: a law that waits for its day is taken back, and is admitted again when the centre wants
// it again.
func TestAgent_BackBeforeItsDay(t *testing.T) {
	w := newWorld(t)
	first, law := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "2.0.0", "2026-12-01")
	w.live(first)
	w.start()
	w.rollout("r1", law)
	w.pass(3 * time.Minute)
	w.live(first) // back
	w.pass(3 * time.Minute)
	if s := w.status(); s.Desired.Trouble != "" || w.where(law) != "retiredcentre" || w.where(first) != "live" {
		t.Errorf("%s, %s: %s", w.where(law), w.where(first), s.Desired.Trouble)
	}
	w.rollout("r2", law)
	w.pass(3 * time.Minute)
	if w.stage() != fleetproto.StageAdmitted {
		t.Errorf("%s: %s", w.stage(), w.status().Desired.Trouble)
	}
	w.live(law) // it has reached all, and is taken back before its day
	w.live(first)
	w.pass(9 * 24 * time.Hour)
	same(t, "changes", w.gate.Changes, "admit catalogos 1.0.0", "admit catalogos 2.0.0", "cancel catalogos 2.0.0",
		"admit catalogos 2.0.0", "cancel catalogos 2.0.0")
	same(t, "acts", w.acts(), "live catalogos 1.0.0", "admitted catalogos 2.0.0", "withdrawn catalogos 2.0.0",
		"admitted catalogos 2.0.0", "withdrawn catalogos 2.0.0")
}

// TestAgent_CannotLeave: a bundle that the branch cannot leave, because it replaced nothing or the replaced bundle has
// ended, delays no other roll-out, of its own generation or another; the branch never goes back to it, and leaves it
// when it can.
func TestAgent_CannotLeave(t *testing.T) {
	for name, before := range map[string]bool{"nothing before it": false, "what was before it has ended": true} {
		w := newWorld(t)
		var live []fleetproto.Rule
		if before {
			live = append(live, w.rule("a", "1.0.0"))
			w.gate.Ends = map[string]string{"a 1.0.0": "2026-11-23"}
		}
		w.live(live...)
		w.start()
		w.pass(2 * time.Minute)
		bad, next, other := w.rule("a", "1.0.1"), w.rule("a", "1.0.2"), w.rule("b", "1.0.0")
		w.rollout("r1", bad)
		w.pass(24 * time.Hour)
		w.live(live...) // back
		w.pass(time.Hour)
		if got := w.status().Desired.Trouble; !strings.Contains(got, "cannot leave") || w.where(bad) != "live" {
			t.Errorf("%s: %s, %q", name, w.where(bad), got)
		}
		w.rollout("r2", other)
		w.pass(time.Hour)
		if w.where(other) != "live" || w.stage() != fleetproto.StageLive {
			t.Errorf("%s: another roll-out waits: %s", name, w.status().Desired.Trouble)
		}
		w.live(append(slices.Clone(live), other)...)
		w.rollout("r3", next)
		w.pass(time.Hour)
		if s := w.status(); w.where(next) != "live" || s.Desired.Trouble != "" {
			t.Errorf("%s: the next roll-out waits: %s", name, s.Desired.Trouble)
		}
		w.gate.Ends = nil
		w.live(append(slices.Clone(live), other)...) // back
		if w.pass(time.Hour); w.where(bad) == "live" || before && w.where(live[0]) != "live" {
			t.Errorf("%s: back from the next it is at %s: %q", name, w.where(bad), w.gate.Changes)
		}
	}
}

// After its expiry a version has no effect any more; bundles in force stay, and the box reports it.
func TestAgent_Expired(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1")
	w.live(first)
	w.start()
	w.pass(2 * time.Minute)
	w.publish(func(d *fleetproto.Desired) {
		d.Rollout = &fleetproto.Rollout{Name: "r1", State: fleetproto.State{Rules: []fleetproto.Rule{second}},
			Pilots: []string{"centro"}, Opened: w.now}
		d.Expires = w.now.Add(time.Second)
	})
	w.now = w.now.Add(time.Second)
	w.pass(16 * time.Minute)
	if s := w.status(); !strings.Contains(s.Desired.Trouble, "expired") || w.where(second) != "" ||
		w.where(first) != "live" {
		t.Errorf("%+v", s.Desired)
	}
	w.publish(func(*fleetproto.Desired) {})
	w.pass(3 * time.Minute)
	if s := w.status(); s.Desired.Trouble != "" || w.where(second) != "live" {
		t.Errorf("%+v", s.Desired)
	}
}

// A box that was away for days reads every version, and applies only the last one.
func TestAgent_Away(t *testing.T) {
	w := newWorld(t)
	w.live(w.rule("a", "1.0.0"))
	w.start()
	w.pass(2 * time.Minute)
	w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Lost }
	for _, version := range []string{"1.0.1", "1.0.2", "1.0.3"} {
		r := w.rule("a", version)
		w.rollout("r"+strings.ReplaceAll(version, ".", "-"), r)
		w.live(r)
		w.pass(24 * time.Hour)
	}
	same(t, "changes while away", w.gate.Changes, "admit a 1.0.0")
	w.store.Fault = nil
	w.pass(3 * time.Minute)
	same(t, "changes", w.gate.Changes, "admit a 1.0.0", "admit a 1.0.3")
	w.pass(20 * time.Minute)
	if s := w.status(); s.Desired.Version != 7 || s.Desired.Trouble != "" {
		t.Errorf("%+v", s.Desired)
	}
}

// Another box that the director enrols ends this one, even over a start without the store; a stolen director's key that
// is no longer pinned ends nothing.
func TestAgent_Replaced(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.start()
	w.pass(time.Minute)
	if s := w.agent.Fence().Standing(); s.Epoch != 1 || s.Replaced {
		t.Fatalf("%+v", s)
	}
	w.enrol(2, signer("other", 4), director)
	w.pass(6 * time.Minute)
	if s := w.agent.Fence().Standing(); !s.Replaced || s.Highest != 2 {
		t.Fatalf("%+v", s)
	}
	same(t, "acts", w.acts(), "replaced ")
	w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Lost }
	w.start()
	if s := w.agent.Fence().Standing(); !s.Replaced {
		t.Errorf("after a start: %+v", s)
	}
	w.store.Fault = nil
	w.enrol(3, w.box, director) // its store is out of date: it stays replaced
	w.start()
	w.pass(6 * time.Minute)
	if s := w.agent.Fence().Standing(); !s.Replaced {
		t.Errorf("enrolled anew: %+v", s)
	}
}

// A new box admits the live bundles before a roll-out, even if the store fails at that moment: otherwise there would be
// nothing to go back to.
func TestAgent_LiveFirst(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1")
	w.live(first)
	w.rollout("r1", second)
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Key == fleetproto.RuleKey(first.File) {
			w.store.Fault = nil
			return fleettest.Failed
		}
		return fleettest.None
	}
	w.start()
	w.pass(4 * time.Minute)
	w.live(first)
	w.pass(4 * time.Minute)
	same(t, "changes", w.gate.Changes, "admit catalogos 1.0.0", "admit catalogos 1.0.1", "back to catalogos 1.0.0")
}

// A new box whose store fails while it reads the enrolments does not report that another box has the branch: its own
// enrolment may be the next. It asks again within seconds.
func TestAgent_CutShort(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, signer("first", 4), director)
	w.enrol(2, w.box, director)
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Key == fleetproto.BoxKey("centro", 2) {
			w.store.Fault = nil
			return fleettest.Lost
		}
		return fleettest.None
	}
	w.start()
	w.agent.Step(t.Context())
	if s := w.agent.Fence().Standing(); s.Replaced {
		t.Errorf("%+v", s)
	}
	w.pass(20 * time.Second)
	if s := w.agent.Fence().Standing(); s.Replaced || s.Epoch != 2 {
		t.Errorf("%+v", s)
	}
	same(t, "acts", w.acts())
}

// A box that the centre does not know yet reports its key in its status; once enrolled, its statuses count.
func TestAgent_Enrols(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.pass(time.Minute)
	s, err := chain.OpenStatus(mustHold(w, fleetproto.StatusKey("centro", 0)), "centro", 0)
	if err != nil || s.Epoch != 0 || s.Key != fleetproto.EncodeKey(public(w.box).Public) {
		t.Fatalf("%+v, %v", s, err)
	}
	w.enrol(1, w.box, director)
	w.pass(16 * time.Minute)
	if s := w.status(); s.Epoch != 1 {
		t.Errorf("%+v", s)
	}
	// A box whose own state is lost continues after its last act and its last status.
	sequence := w.status().Sequence
	w.disk = &fleettest.File{}
	w.live(w.rule("a", "1.0.0"))
	w.start()
	w.pass(3 * time.Minute)
	if s := w.status(); s.Epoch != 1 || s.Sequence <= sequence {
		t.Errorf("%+v", s)
	}
}

// The first status of a box that takes another's place says nothing of the time before, when it was the replaced one.
func TestAgent_TakesOver(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, signer("first", 4), director)
	w.live(w.rule("a", "1.0.0"))
	w.start()
	w.pass(time.Hour)
	w.enrol(2, w.box, director)
	for w.agent.Fence().Standing().Epoch < 2 {
		w.now = w.now.Add(w.agent.Step(t.Context()))
	}
	if s := w.status(); s.Sequence == 0 || s.Desired.Trouble != "" {
		t.Errorf("%+v", s)
	}
}

func TestAgent_Settings(t *testing.T) {
	w := newWorld(t)
	values, err := fleetproto.EncodeSettings(fleetproto.Settings{Footer: "hola"})
	if err != nil {
		t.Fatal(err)
	}
	w.store.Put(fleetproto.SettingsKey(fleetproto.Digest(values)), values)
	w.publish(func(d *fleetproto.Desired) { d.Live.Settings = fleetproto.Digest(values) })
	w.start()
	w.pass(time.Hour)
	same(t, "acts", w.acts(), "settings ")
	bad := []byte(`{"kind":"settings","data":"/etc"}`)
	w.store.Put(fleetproto.SettingsKey(fleetproto.Digest(bad)), bad)
	w.publish(func(d *fleetproto.Desired) { d.Live.Settings = fleetproto.Digest(bad) })
	w.pass(3 * time.Hour)
	if s := w.status(); s.Settings != fleetproto.Digest(values) || !strings.Contains(s.Desired.Trouble, "data") {
		t.Errorf("%+v", s)
	}
}

// An idle box makes at most the requests that DESIGN allows: 100 an hour.
func TestAgent_Requests(t *testing.T) {
	w := newWorld(t)
	w.poll, w.look = 0, 0 // the defaults
	w.enrol(1, w.box, director)
	w.live(w.rule("a", "1.0.0"))
	w.start()
	w.pass(time.Hour)
	before := w.store.Requests()
	w.pass(10 * time.Hour)
	if n := (w.store.Requests() - before) / 10; n > 100 || n < 60 {
		t.Errorf("%d requests an hour", n)
	}
}

// A state that was altered on the disk is begun anew, and leads no further back than the shelf's floors allow.
func TestAgent_BadState(t *testing.T) {
	w := newWorld(t)
	w.live(w.rule("a", "1.0.0"))
	w.start()
	w.pass(2 * time.Minute)
	data, err := w.disk.Load()
	if err != nil {
		t.Fatal(err)
	}
	altered := bytes.Replace(data, []byte(`"version":1,`), []byte(`"version":9,`), 1)
	if bytes.Equal(altered, data) {
		t.Fatal("the state names no version")
	}
	if err := w.disk.Save(altered); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.pass(3 * time.Minute)
	if s := w.status(); s.Desired.Version != 1 || s.Desired.Trouble != "" {
		t.Errorf("%+v", s.Desired)
	}
	same(t, "changes", w.gate.Changes, "admit a 1.0.0")
}

// TestAgent_Held: a roll-out that the box has begun makes no progress while it is held, and continues afterwards.
func TestAgent_Held(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1")
	w.live(first)
	w.store.Lose(fleetproto.RuleKey(second.File)) // the box begins, and cannot fetch it
	w.start()
	w.rollout("r1", second)
	w.pass(10 * time.Minute)
	if stage := w.stage(); stage != fleetproto.StageWaiting {
		t.Fatal(stage)
	}
	w.publish(func(d *fleetproto.Desired) { d.Rollout.Held = true })
	w.pass(10 * time.Minute)
	w.rule("catalogos", "1.0.1")
	w.pass(20 * time.Minute)
	if where := w.where(second); where != "" {
		t.Errorf("held, and %s", where)
	}
	w.publish(func(d *fleetproto.Desired) { d.Rollout.Held = false })
	w.pass(10 * time.Minute)
	if where := w.where(second); where != "live" {
		t.Errorf("no longer held: %q", where)
	}
}

// TestAgent_AskedAgain: a bundle of the live state that a branch refused is tried again by the next version, and by no
// repetition of the same.
func TestAgent_AskedAgain(t *testing.T) {
	w := newWorld(t)
	rule, asked, why := w.rule("catalogos", "1.0.0"), 0, "case 3 differs"
	w.gate.Refuse = func(*bundle.Bundle) string { asked++; return why }
	w.live(rule)
	w.start()
	w.pass(20 * time.Minute)
	if asked != 1 || w.where(rule) != "" {
		t.Errorf("asked %d times: %s", asked, w.where(rule))
	}
	why = ""
	w.pass(20 * time.Minute)
	if asked != 1 {
		t.Errorf("the same version is asked %d times", asked)
	}
	w.live(rule)
	w.pass(20 * time.Minute)
	if asked != 2 || w.where(rule) != "live" {
		t.Errorf("asked %d times: %q", asked, w.where(rule))
	}
}

// TestAgent_UndoesComing: a refused roll-out leaves no future bundle behind, and keeps a type that has nothing to
// return to.
func TestAgent_UndoesComing(t *testing.T) {
	w := newWorld(t)
	coming, began, bad := w.rule("a", "1.0.0", "2026-12-01"), w.rule("b", "1.0.0"), w.rule("c", "1.0.0")
	w.gate.Refuse = func(b *bundle.Bundle) string {
		if b.Manifest.Name == "c" {
			return "case 3 differs"
		}
		return ""
	}
	w.start()
	w.rollout("r1", coming, began, bad)
	w.pass(20 * time.Minute)
	if got := w.where(coming) + " " + w.where(began); got != "retiredcentre live" {
		t.Error(got)
	}
}

// TestAgent_Orders: only bundles of the live state need no permission to change amounts or drop cases; a roll-out needs
// it.
func TestAgent_Orders(t *testing.T) {
	for name, c := range map[string]struct {
		rollout, amounts, cases bool
		want                    [2]bool
	}{
		"live":                     {want: [2]bool{true, true}},
		"a roll-out":               {rollout: true},
		"a roll-out with amounts":  {rollout: true, amounts: true, want: [2]bool{true, false}},
		"a roll-out without cases": {rollout: true, cases: true, want: [2]bool{false, true}},
	} {
		w := newWorld(t)
		rule := w.rule("catalogos", "1.0.0")
		rule.AmountsChange, rule.FewerCases = c.amounts, c.cases
		w.start()
		if w.live(rule); c.rollout {
			w.live()
			w.rollout("r1", rule)
		}
		w.pass(10 * time.Minute)
		if len(w.ordered) != 1 || [2]bool{w.ordered[0].AmountsChange, w.ordered[0].FewerCases} != c.want ||
			w.ordered[0].Who == "" {
			t.Errorf("%s: %+v", name, w.ordered)
		}
	}
}

// TestAgent_Remark: the centre reads what the bundles of a roll-out change, which it permitted to change amounts.
func TestAgent_Remark(t *testing.T) {
	w := newWorld(t)
	w.gate.Remark = "it changes the amounts of 3 of the branch's last 9 sales"
	w.start()
	w.live()
	w.rollout("r1", w.rule("catalogos", "1.0.0"), w.rule("rate", "1.0.0"))
	w.pass(10 * time.Minute)
	same(t, "acts", w.acts(), "live catalogos 1.0.0", "live rate 1.0.0")
	want := "catalogos 1.0.0: " + w.gate.Remark + "; rate 1.0.0: " + w.gate.Remark
	act, err := chain.OpenAct(w.store.Held(fleetproto.ActKey("centro", 1)), "centro", 1, public(w.box))
	if p := w.status().Rollout; err != nil || act.Reason != w.gate.Remark || p.Reason != want {
		t.Errorf("%+v %+v %v", act, p, err)
	}
}

// TestAgent_MovedGroup: what a branch took in one group says nothing about another group's orders. A group that desires
// nothing takes no law back, and a roll-out of the same name is another one.
func TestAgent_MovedGroup(t *testing.T) {
	w := newWorld(t)
	first, second, third := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1"), w.rule("catalogos", "1.0.2")
	w.live(first)
	w.start()
	w.pass(5 * time.Minute)
	w.rollout("r2", second)
	w.pass(5 * time.Minute)
	w.live(second)
	w.pass(5 * time.Minute)
	w.group, w.last = "sur", nil
	w.start()
	w.publish(func(*fleetproto.Desired) {})
	if w.pass(10 * time.Minute); w.where(second) != "live" {
		t.Errorf("another group has taken the law back: it is %s", w.where(second))
	}
	w.rollout("r2", third)
	if w.pass(10 * time.Minute); w.where(third) != "live" || w.stage() != fleetproto.StageLive {
		t.Errorf("the bundle of another roll-out is %q, and its stage %s", w.where(third), w.stage())
	}
}

// TestAgent_SameName: a roll-out of another state is another roll-out, though a version that the store lost had used
// its name.
func TestAgent_SameName(t *testing.T) {
	w := newWorld(t)
	first, second, third := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1"), w.rule("catalogos", "1.0.2")
	w.live(first)
	w.start()
	w.pass(5 * time.Minute)
	w.rollout("r2", second)
	w.pass(5 * time.Minute)
	w.rollout("r2", third)
	if w.pass(10 * time.Minute); w.where(third) != "live" || w.stage() != fleetproto.StageLive {
		t.Errorf("the bundle of another roll-out is %q, and its stage %s", w.where(third), w.stage())
	}
}

// TestAgent_BackAfterLoss: a box that lost its state, because it was rebuilt while a law waited for its day, takes that
// law back all the same when the centre wants it: nothing goes back by that.
func TestAgent_BackAfterLoss(t *testing.T) {
	w := newWorld(t)
	first, law := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "2.0.0", "2026-12-01")
	w.live(first)
	w.start()
	w.pass(5 * time.Minute)
	w.rollout("r2", law)
	if w.pass(5 * time.Minute); w.where(law) != "coming" {
		t.Fatal(w.where(law))
	}
	w.disk = &fleettest.File{}
	w.start()
	w.pass(5 * time.Minute)
	if w.stage() != fleetproto.StageAdmitted {
		t.Errorf("its stage is %s", w.stage())
	}
	w.live(first)
	if w.pass(10 * time.Minute); w.where(law) == "coming" || w.where(first) != "live" {
		t.Errorf("the law that was taken back is %s", w.where(law))
	}
}

// TestAgent_BackAfterLossInForce: a box that lost its memory, or was rebuilt, while a roll-out's bundle was in force,
// goes back when the centre takes the roll-out back, meanwhile or later; once, and never from a person's own bundle.
func TestAgent_BackAfterLossInForce(t *testing.T) {
	for _, c := range []struct {
		name, by string
		meantime bool // the roll-out ends while the box is off
		want     string
	}{
		{"later", fleet.Who("ana"), false, "live"}, {"meanwhile", fleet.Who("ana"), true, "live"},
		{"a person's", "ana", false, "spare"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			oldest, first, second := w.rule("catalogos", "0.9.0"), w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1")
			for _, r := range []fleetproto.Rule{oldest, first, second} {
				file := w.store.Held(fleetproto.RuleKey(r.File))
				if a, err := w.gate.Admit(t.Context(), file, fleet.Order{Who: c.by}); err != nil || a.Refused != "" {
					t.Fatal(a, err)
				}
			}
			w.enrol(1, w.box, director)
			w.live(first)
			if !c.meantime {
				w.rollout("r1", second)
			}
			w.start()
			if w.pass(10 * time.Minute); !c.meantime && (w.where(second) != "live" || w.status().Desired.Trouble != "") {
				t.Fatalf("%s, %q", w.where(second), w.status().Desired.Trouble)
			}
			left := func(change string) bool { return strings.HasPrefix(change, "back") }
			if !c.meantime && slices.ContainsFunc(w.gate.Changes, left) {
				t.Errorf("it left the roll-out and took it again: %q", w.gate.Changes)
			}
			w.live(first)
			if w.pass(10 * time.Minute); w.where(first) != c.want {
				t.Errorf("the bundle that was replaced is %s", w.where(first))
			}
			w.live(oldest) // and once more: no
			if w.pass(10 * time.Minute); w.where(oldest) != "spare" {
				t.Errorf("the branch was walked down: %s", w.where(oldest))
			}
		})
	}
}

// TestAgent_BackByCutStore: a store that hides the latest versions leads no box without a memory back to an older law.
func TestAgent_BackByCutStore(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1")
	for _, r := range []fleetproto.Rule{first, second} {
		file := w.store.Held(fleetproto.RuleKey(r.File))
		if a, err := w.gate.Admit(t.Context(), file, fleet.Order{Who: fleet.Who("ana")}); err != nil || a.Refused != "" {
			t.Fatal(a, err)
		}
	}
	w.live(first)
	w.live(second)
	key := fleetproto.DesiredKey(w.group, 2)
	held := w.store.Held(key)
	w.enrolAfter(1, w.box, director, 2)
	w.store.Lose(key)
	w.start()
	if w.pass(20 * time.Minute); w.where(second) != "live" {
		t.Errorf("the law in force is %s", w.where(second))
	}
	w.store.Put(key, held)
	w.pass(20 * time.Minute)
	if got := w.status().Desired; w.where(second) != "live" || got.Version != 2 || got.Trouble != "" {
		t.Errorf("%s, %+v", w.where(second), got)
	}
}

// TestAgent_FromTheFuture: a version that the director signed more than an hour ahead of the box's clock has no effect,
// and the branch says why, until the box's clock is there.
func TestAgent_FromTheFuture(t *testing.T) {
	for ahead, takes := range map[time.Duration]bool{58 * time.Minute: true, 64 * time.Minute: false} {
		w := newWorld(t)
		first, next := w.rule("a", "1.0.0"), w.rule("a", "1.0.1")
		w.live(first)
		w.start()
		w.pass(2 * time.Minute)
		w.publish(func(d *fleetproto.Desired) { d.Live.Rules, d.Issued = []fleetproto.Rule{next}, w.now.Add(ahead) })
		w.pass(2 * time.Minute)
		if got := w.where(next); (got == "live") != takes {
			t.Errorf("of a version %v ahead the bundle is %q", ahead, got)
		}
		if trouble := w.agent.Look().Trouble; strings.Contains(trouble, "clock or the director's is wrong") == takes {
			t.Errorf("%v ahead: %q", ahead, trouble)
		}
		if w.pass(10 * time.Minute); w.where(next) != "live" || w.agent.Look().Trouble != "" {
			t.Errorf("later the bundle is %q, %s", w.where(next), w.agent.Look().Trouble)
		}
	}
}

// TestAgent_TakenOffHere: what a person takes off in the branch ends a roll-out there, and the branch never goes back to
// it by the centre's order.
func TestAgent_TakenOffHere(t *testing.T) {
	w := newWorld(t)
	of := func(r fleetproto.Rule) fleet.Bundle {
		list := w.gate.Bundles()
		return list[slices.IndexFunc(list, func(b fleet.Bundle) bool { return b.Digest == r.Digest })]
	}
	eva := fleet.Order{Who: "eva", Reason: "wrong rate"}
	first, second, next := w.rule("a", "1.0.0"), w.rule("a", "1.0.1"), w.rule("a", "1.0.2")
	coming, other := w.rule("a", "1.0.3", "2026-11-25"), w.rule("b", "1.0.0")
	w.live(first, other)
	w.start()
	w.pass(2 * time.Minute)
	w.rollout("r1", second)
	w.pass(2 * time.Minute)
	w.publish(func(d *fleetproto.Desired) { d.Rollout.Held = true }) // the branch admits nothing meanwhile
	w.pass(2 * time.Minute)
	if err := w.gate.StepBack(t.Context(), of(first), eva); err != nil {
		t.Fatal(err)
	}
	w.pass(20 * time.Minute)
	if p := w.status().Rollout; p.Stage != fleetproto.StageRefused ||
		p.Reason != "it was taken off in the branch: wrong rate" || w.where(second) != "retiredoperator" ||
		w.where(first) != "live" {
		t.Errorf("%+v, %s", p, w.where(second))
	}
	w.live(first, coming, other)
	w.pass(2 * time.Minute)
	w.rollout("r2", next)
	w.pass(2 * time.Minute)
	if got := w.where(next) + " " + w.where(coming); got != "live coming" {
		t.Fatal(got)
	}
	if err := w.gate.Cancel(t.Context(), of(coming), eva); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(3 * 24 * time.Hour)
	w.live(other) // nothing of the document is desired any more
	w.pass(20 * time.Minute)
	if got := w.where(first) + " " + w.where(next) + " " + w.where(coming); got != "live retiredcentre retiredoperator" {
		t.Error(got)
	}
}

// refusing is a store that refuses the box's account.
type refusing struct{ fleetproto.Store }

func (refusing) Fetch(context.Context, string, int64) (archive.Held, error) {
	return archive.Held{}, archive.ErrSetup
}

// TestAgent_Shows: people see whether the store refuses the box, and the centre the last numbers of this year; until a
// month of it has passed, those of last year too.
func TestAgent_Shows(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.numbered = map[string]uint64{"00/01/M001/P001/2025": 1, "00/01/M001/P001/2026": 2, "00/01/M001/P001/2027": 3}
	w.now = time.Date(2027, 1, 31, 14, 0, 0, 0, time.UTC)
	w.start()
	w.pass(2 * time.Minute)
	for day, want := range map[string]map[string]uint64{
		"2027-01-31": {"00/01/M001/P001/2026": 2, "00/01/M001/P001/2027": 3},
		"2027-02-01": {"00/01/M001/P001/2027": 3, "00/01/M001/P001/2026": 2},
		"2027-03-01": {"00/01/M001/P001/2027": 3}} {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		w.now = at
		if got := w.agent.Status().Last; !maps.Equal(got, want) {
			t.Errorf("%s: the last numbers are %v, want %v", day, got, want)
		}
	}
	if l := w.agent.Look(); l.Refused || l.Trouble != "" {
		t.Errorf("%+v", l)
	}
	o := w.options()
	o.Store = refusing{w.store}
	a, err := fleet.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	a.Step(t.Context())
	if l := a.Look(); !l.Refused || l.Trouble == "" {
		t.Errorf("%+v", l)
	}
}

// TestAgent_Unread: a version that the store lists and does not return does not keep a box from a later version, which
// mends it; an act in the way does not keep it from reporting.
func TestAgent_Unread(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.live(w.rule("catalogos", "1.0.0"))
	first := fleetproto.Verified{Version: 1, Digest: fleetproto.Digest(w.data)}
	w.start()
	w.pass(4 * time.Minute)
	w.store.Put(fleetproto.ActKey("centro", 2), []byte("rotten"))
	rotten := []string{fleetproto.DesiredKey("norte", 2), fleetproto.ActKey("centro", 2)}
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "get" && slices.Contains(rotten, r.Key) {
			return fleettest.Unread
		}
		return fleettest.None
	}
	w.live(w.rule("catalogos", "1.0.1"))
	w.publish(func(d *fleetproto.Desired) {
		d.Previous, d.Mends = fleetproto.Digest(nil), []fleetproto.Verified{first}
	})
	w.pass(15 * time.Minute)
	same(t, "changes", w.gate.Changes, "admit catalogos 1.0.0", "admit catalogos 1.0.1")
	if s := w.status(); s.Desired.Version != 3 || s.Acts != 3 {
		t.Errorf("%+v, %d acts", s.Desired, s.Acts)
	}
}
