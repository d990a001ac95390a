package fleet_test

import (
	"context"
	"testing"
	"time"

	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
)

// TestAgent_BeforeItsDay: the live state names the rule of today and each law that waits for its day. A box that is
// new, or was away, takes them all, and none that was superseded or taken back; after the day it takes no earlier one.
func TestAgent_BeforeItsDay(t *testing.T) {
	for name, c := range map[string]struct {
		away bool // the box has read the first order
		late bool // it comes after the day
	}{"new": {}, "away": {away: true}, "new, after the day": {late: true},
		"away, after the day": {away: true, late: true}} {
		w := newWorld(t)
		first, fix := w.rule("rate", "1.0.0"), w.rule("rate", "1.1.0")
		bad := w.rule("rate", "1.2.0")
		law := w.rule("rate", "2.0.0", "2027-01-01")
		later := w.rule("rate", "2.1.0", "2027-03-01")
		data, _ := file(t, "rate", "1.0.0", author, "2026-01-01")
		if _, err := w.gate.Admit(context.Background(), data, fleet.Order{Who: "the installation"}); err != nil {
			t.Fatal(err)
		}
		w.enrol(1, w.box, director)
		w.live(first)
		if w.start(); c.away {
			w.pass(10 * time.Minute)
		}
		for _, rules := range [][]fleetproto.Rule{{fix}, {bad}, {fix}, {law, fix}, {later, law, fix}} {
			w.live(rules...)
		}
		if c.late {
			w.now = time.Date(2027, 3, 2, 14, 0, 0, 0, time.UTC)
			w.publish(func(*fleetproto.Desired) {})
		}
		w.pass(10 * time.Minute)
		if c.late {
			same(t, name, w.gate.Changes[1:], "admit rate 2.1.0")
			continue
		}
		if w.where(fix) != "live" || w.where(law) != "coming" || w.where(later) != "coming" || w.where(bad) != "" {
			t.Errorf("%s: %s, %s, %s: %q", name, w.where(fix), w.where(law), w.where(later), w.gate.Changes)
		}
		w.live(fix, law) // the centre takes the last back
		w.pass(10 * time.Minute)
		if w.where(fix) != "live" || w.where(law) != "coming" || w.where(later) != "retiredcentre" {
			t.Errorf("%s, back: %s, %s, %s", name, w.where(fix), w.where(law), w.where(later))
		}
	}
}

// TestAgent_BeforeItsDayFaults: a box that could not read today's rule does not look complete with the law alone, and
// takes the rule when it can be read, also beside a law that it has already. It reads no earlier version for that:
// these may be overwritten, or signed by a key that it does not pin.
func TestAgent_BeforeItsDayFaults(t *testing.T) {
	w := newWorld(t)
	today, law := w.rule("rate", "1.2.0"), w.rule("rate", "2.4.0", "2027-01-01")
	w.live(w.rule("rate", "1.1.0"))
	w.live(today)
	w.put(fleetproto.DesiredKey(w.group, 1), []byte("x"))
	w.by, w.directors = second, []fleetproto.Key{public(second)}
	w.enrol(1, w.box, second)
	w.live(today, law)
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Key == fleetproto.RuleKey(today.File) {
			return fleettest.Failed
		}
		return fleettest.None
	}
	w.start()
	w.pass(10 * time.Minute)
	if s := w.status(); s.Desired.Trouble == "" {
		t.Errorf("today's rule is missing, and nobody says so: %q", w.gate.Changes)
	}
	w.store.Fault = nil
	w.pass(10 * time.Minute)
	same(t, "changes", w.gate.Changes, "admit rate 2.4.0", "admit rate 1.2.0")
}

// TestAgent_BeforeItsDayAway: while a box was away, the centre took a law back that waits for its day, corrected
// today's rule, and published the law anew for a later day. The box takes the correction, and leaves the first law, but
// not before it could read the second.
func TestAgent_BeforeItsDayAway(t *testing.T) {
	for _, name := range []string{"live", "roll-out", "taken back before", "ring"} {
		w := newWorld(t)
		today, fix := w.rule("rate", "1.1.0"), w.rule("rate", "1.2.0")
		law, later := w.rule("rate", "2.0.0", "2027-01-01"), w.rule("rate", "2.1.0", "2027-03-01")
		w.enrol(1, w.box, director)
		w.live(today)
		w.start()
		w.pass(5 * time.Minute)
		switch name {
		case "live", "ring":
			w.live(today, law)
		case "roll-out":
			w.rollout("r", law)
		default:
			w.live(fix)
			w.pass(5 * time.Minute)
			w.live(today)
		}
		w.pass(5 * time.Minute)
		unread := func(r fleettest.Request) fleettest.Fault {
			if r.Key == fleetproto.RuleKey(later.File) {
				return fleettest.Failed
			}
			return fleettest.None
		}
		for _, rules := range [][]fleetproto.Rule{{today}, {fix}, {fix, later}} { // the box is away
			if name == "ring" { // the law advances: for a day before that of the law that waits
				earlier := w.rule("rate", "2.2.0", "2026-12-15")
				later = earlier
				w.rollout("r2", fix, earlier)
				break
			}
			w.live(rules...)
		}
		before := w.where(law)
		w.store.Fault = unread
		w.pass(10 * time.Minute)
		if w.where(law) != before {
			t.Errorf("%s: the law is %q before its successor is here", name, w.where(law))
		}
		w.store.Fault = nil
		w.pass(10 * time.Minute)
		if w.where(fix) != "live" || w.where(law) == "coming" || w.where(later) != "coming" {
			t.Errorf("%s: today's rule is %q, the law taken back %q, its successor %q: %q", name, w.where(fix),
				w.where(law), w.where(later), w.gate.Changes)
		}
		if name != "ring" {
			continue
		}
		w.live(today, law) // the roll-out is taken back
		w.pass(10 * time.Minute)
		if w.where(today) != "live" || w.where(law) != "coming" || w.where(later) == "coming" {
			t.Errorf("back: today's rule is %q, the law %q, its successor %q: %q", w.where(today), w.where(law),
				w.where(later), w.gate.Changes)
		}
	}
}
