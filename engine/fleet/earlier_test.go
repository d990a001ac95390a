package fleet_test

import (
	"context"
	"testing"
	"time"

	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
)

// TestAgent_BeforeItsDay: a law that waits for its day has replaced, in the desired state, the rule that is in force
// until then. A box that is new, or was away, lacks that rule: it takes the rule too, and not only from that day on the
// new one. It takes neither a rule that the centre took back, nor an earlier one once the day has come.
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
		for _, rule := range []fleetproto.Rule{fix, bad, fix, law, later} {
			w.live(rule)
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
		same(t, name, w.gate.Changes[1:], "admit rate 1.1.0", "admit rate 2.0.0", "admit rate 2.1.0")
		if w.where(fix) != "live" || w.where(law) != "coming" || w.where(later) != "coming" {
			t.Errorf("%s: %s, %s, %s", name, w.where(fix), w.where(law), w.where(later))
		}
		w.live(law) // the centre takes the last back
		w.pass(10 * time.Minute)
		if w.where(fix) != "live" || w.where(law) != "coming" || w.where(later) != "retiredcentre" {
			t.Errorf("%s, back: %s, %s, %s", name, w.where(fix), w.where(law), w.where(later))
		}
	}
}

// TestAgent_BeforeItsDayFaults: a box that could not read today's rule does not look complete with the law alone. It
// takes no rule that was superseded before, and today's also if the law was corrected many times.
func TestAgent_BeforeItsDayFaults(t *testing.T) {
	w := newWorld(t)
	today := w.rule("rate", "1.2.0")
	all := []fleetproto.Rule{w.rule("rate", "1.0.0"), w.rule("rate", "1.1.0"), today}
	for _, version := range []string{"2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"} {
		all = append(all, w.rule("rate", version, "2027-01-01"))
	}
	w.enrol(1, w.box, director)
	for _, rule := range all {
		w.live(rule)
	}
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
	same(t, "changes", w.gate.Changes, "admit rate 1.2.0", "admit rate 2.0.0", "admit rate 2.1.0", "admit rate 2.2.0",
		"admit rate 2.3.0", "admit rate 2.4.0")
}

// TestAgent_BeforeItsDayUnread: a box that cannot read the versions that named today's rule, because somebody overwrote
// them or because only a key that it does not pin signed them, says so, and takes the law on its day.
func TestAgent_BeforeItsDayUnread(t *testing.T) {
	for _, name := range []string{"overwritten", "another key"} {
		w := newWorld(t)
		today, law := w.rule("rate", "1.1.0"), w.rule("rate", "2.0.0", "2027-01-01")
		w.enrol(1, w.box, director)
		w.live(today)
		w.live(law)
		switch name {
		case "overwritten":
			w.put(fleetproto.DesiredKey(w.group, 1), []byte("x"))
		default:
			w.by, w.directors = second, []fleetproto.Key{public(second)}
			w.enrol(1, w.box, second)
			w.live(law)
		}
		w.start()
		w.pass(10 * time.Minute)
		if s := w.status(); s.Desired.Trouble == "" || w.where(today) == "" && w.where(law) != "" {
			t.Errorf("%s: today's rule is %q, the law %q, and the trouble %q", name, w.where(today), w.where(law),
				s.Desired.Trouble)
		}
		w.now = time.Date(2027, 1, 1, 7, 0, 0, 0, time.UTC)
		w.live(law)
		w.pass(10 * time.Minute)
		if s := w.status(); s.Desired.Trouble != "" || w.where(law) != "live" {
			t.Errorf("%s: on its day: %q, %q", name, w.where(law), s.Desired.Trouble)
		}
	}
}

// TestAgent_BeforeItsDayAway: while a box was away, the centre took a law back that waits for its day, corrected
// today's rule, and published the law anew for a later day. The box takes the correction, and leaves the first law.
func TestAgent_BeforeItsDayAway(t *testing.T) {
	for _, name := range []string{"live", "roll-out", "taken back before"} {
		w := newWorld(t)
		today, fix := w.rule("rate", "1.1.0"), w.rule("rate", "1.2.0")
		law, later := w.rule("rate", "2.0.0", "2027-01-01"), w.rule("rate", "2.1.0", "2027-03-01")
		w.enrol(1, w.box, director)
		w.live(today)
		w.start()
		w.pass(5 * time.Minute)
		switch name {
		case "live":
			w.live(law)
		case "roll-out":
			w.rollout("r", law)
		default:
			w.live(fix)
			w.pass(5 * time.Minute)
			w.live(today)
		}
		w.pass(5 * time.Minute)
		for _, rule := range []fleetproto.Rule{today, fix, later} { // the box is away
			w.live(rule)
		}
		w.pass(10 * time.Minute)
		if w.where(fix) != "live" || w.where(law) == "coming" || w.where(later) != "coming" {
			t.Errorf("%s: today's rule is %q, the law taken back %q, its successor %q: %q", name, w.where(fix),
				w.where(law), w.where(later), w.gate.Changes)
		}
	}
}
