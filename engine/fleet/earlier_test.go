package fleet_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
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
	w.store.Put(fleetproto.DesiredKey(w.group, 1), []byte("x"))
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

// TestAgent_NewGeneration: a new generation of a document takes the place of the one before on its first day. From then
// on no box misses the earlier generation, and a box that is new does not take it. What the centre takes back, the
// branch leaves for the earlier generation, before the day and after it.
func TestAgent_NewGeneration(t *testing.T) {
	const day = 9 * 24 * time.Hour // from the world's first day to the law's
	for name, c := range map[string]struct {
		ring, late, after bool // by a ring; begun after its day; taken back after its day
	}{"live": {}, "live, after the day": {after: true}, "ring": {ring: true}, "ring, after the day": {ring: true,
		after: true}, "ring, begun late": {ring: true, late: true, after: true}} {
		w := newWorld(t)
		old, law := w.rule("rate/1", "1.0.0"), w.rule("rate/2", "1.0.0", "2026-12-01")
		w.live(old)
		w.start()
		if w.pass(5 * time.Minute); c.late {
			w.now = w.now.Add(day)
		}
		if w.live(law, old); c.ring {
			w.last.Live.Rules = []fleetproto.Rule{old}
			w.rollout("r", law)
		}
		if w.pass(5 * time.Minute); c.after && !c.late {
			w.now = w.now.Add(day)
			w.pass(5 * time.Minute)
		}
		if s := w.status(); s.Desired.Trouble != "" || c.after && w.where(law) != "live" {
			t.Errorf("%s: %q, the law is %q", name, s.Desired.Trouble, w.where(law))
		}
		w.live(old)
		w.now = w.now.Add(day)
		w.pass(5 * time.Minute)
		if s := w.status(); s.Desired.Trouble != "" || w.where(old) != "live" || w.where(law) != "retiredcentre" {
			t.Errorf("%s: back: %q, the law is %q", name, s.Desired.Trouble, w.where(law))
		}
	}
	w := newWorld(t)
	w.live(w.rule("rate/2", "1.0.0", "2026-12-01"), w.rule("rate/1", "1.0.0"))
	w.now = w.now.Add(day)
	w.start()
	w.pass(5 * time.Minute)
	same(t, "a new box", w.gate.Changes, "admit rate 1.0.0")
	if s := w.status(); s.Desired.Trouble != "" || s.Rules[0].Schema != 2 {
		t.Errorf("a new box: %+v", s)
	}
}

// TestAgent_InstalledLaw: a law that waits for its day, and that the installation brought, is not the centre's: it stays
// if a roll-out that names it ends or is refused. Otherwise the end of a chain's first order would leave the branch with
// the earlier generation after the day.
func TestAgent_InstalledLaw(t *testing.T) {
	for _, refused := range []bool{false, true} {
		w := newWorld(t)
		old, law := w.rule("rate/1", "1.0.0"), w.rule("rate/2", "1.0.0", "2026-12-01")
		for generation, from := range map[string]string{"rate/1": old.From, "rate/2": law.From} {
			data, _ := file(t, generation, "1.0.0", author, from)
			if _, err := w.gate.Admit(context.Background(), data, fleet.Order{Who: "the installation"}); err != nil {
				t.Fatal(err)
			}
		}
		event := w.rule("invalidacion", "1.0.0")
		w.gate.Refuse = func(b *bundle.Bundle) string {
			return map[bool]string{true: "case 1 differs"}[refused && b.Digest == event.Digest]
		}
		w.enrol(1, w.box, director)
		w.start()
		w.rollout("r1", old, law, event)
		w.pass(5 * time.Minute)
		if w.stage().Failed() != refused {
			t.Errorf("refused %v: its stage is %s", refused, w.stage())
		}
		w.live()
		w.pass(5 * time.Minute)
		w.now = w.now.Add(9 * 24 * time.Hour)
		w.pass(5 * time.Minute)
		if w.where(law) != "live" {
			t.Errorf("refused %v: the law is %q: %q", refused, w.where(law), w.gate.Changes)
		}
	}
}

// TestAgent_BackOfTwo: a roll-out brought a correction of today's rule and a law. Once the law is in force the branch
// still goes back to the rule before both, in whatever order they came, and no further.
func TestAgent_BackOfTwo(t *testing.T) {
	for at := range 16 {
		lawFirst, ring, lost, live := at&1 > 0, at&2 > 0, at&4 > 0, at&8 > 0
		w := newWorld(t)
		older, first := w.rule("rate/1", "1.0.0"), w.rule("rate/1", "1.1.0")
		rules := []fleetproto.Rule{w.rule("rate/1", "1.2.0"), w.rule("rate/2", "1.0.0", "2026-12-01")}
		if lawFirst {
			slices.Reverse(rules)
		}
		w.enrol(1, w.box, director)
		w.live(older)
		w.start()
		w.pass(5 * time.Minute)
		w.live(first)
		w.pass(5 * time.Minute)
		if !live {
			w.rollout("r1", rules...)
			w.pass(5 * time.Minute)
		}
		if live || !ring {
			w.live(rules...)
			w.pass(5 * time.Minute)
		}
		w.now = w.now.Add(9 * 24 * time.Hour)
		w.publish(func(*fleetproto.Desired) {})
		if w.pass(5 * time.Minute); lost {
			w.disk = &fleettest.File{}
			w.start()
			w.pass(5 * time.Minute)
		}
		for range 2 {
			w.live(first)
			w.pass(10 * time.Minute)
			if s := w.status(); w.where(first) != "live" || s.Desired.Trouble != "" {
				t.Errorf("law first %v, ring %v, lost %v, live %v: %q %s", lawFirst, ring, lost, live, w.gate.Changes,
					s.Desired.Trouble)
			}
		}
		w.live(older)
		if w.pass(10 * time.Minute); w.where(older) == "live" && (live || !ring) { // a ring was not the last roll-out
			t.Errorf("law first %v, ring %v, lost %v, live %v: %q", lawFirst, ring, lost, live, w.gate.Changes)
		}
	}
}

// TestAgent_DayInRing: a branch whose ring opens after the day of a roll-out's second law takes only that one.
func TestAgent_DayInRing(t *testing.T) {
	w := newWorld(t)
	first, second := w.rule("rate", "2.0.0", "2026-12-01"), w.rule("rate", "2.1.0", "2026-12-15")
	w.live(w.rule("rate", "1.0.0"))
	w.start()
	w.pass(5 * time.Minute)
	w.now = w.now.Add(30 * 24 * time.Hour)
	w.rollout("r", second, first)
	w.pass(5 * time.Minute)
	same(t, "changes", w.gate.Changes, "admit rate 1.0.0", "admit rate 2.1.0")
	if w.stage() != fleetproto.StageLive {
		t.Errorf("its stage is %s", w.stage())
	}
}

// TestAgent_BackForgotten: a box that lost its memory, was rebuilt, or came from another group leaves what the centre
// takes back, like every other box. A law that waits would otherwise begin on its day.
func TestAgent_BackForgotten(t *testing.T) {
	for _, name := range []string{"lost", "rebuilt", "moved", "moved after"} {
		w := newWorld(t)
		first, fix, law := w.rule("rate", "1.0.0"), w.rule("rate", "1.1.0"), w.rule("rate", "2.0.0", "2027-01-01")
		w.enrol(1, w.box, director)
		w.live(first)
		w.start()
		w.pass(5 * time.Minute)
		w.live(fix, law)
		w.pass(5 * time.Minute)
		switch name {
		case "lost":
			w.disk = &fleettest.File{}
		case "rebuilt": // it reads the desired state before it is enrolled
			w.disk, w.box = &fleettest.File{}, signer("other", 4)
			w.start()
			w.pass(10 * time.Minute)
			w.enrol(2, w.box, director)
		default:
			w.group, w.last = "sur", nil
			if name == "moved" {
				w.live(fix, law)
			}
		}
		w.start()
		w.pass(10 * time.Minute)
		want := first
		if strings.HasPrefix(name, "moved") {
			want = fix // that group's orders do not apply to it
		}
		w.live(want)
		w.pass(10 * time.Minute)
		if s := w.status(); w.where(want) != "live" || w.where(law) != "retiredcentre" || s.Desired.Trouble != "" {
			t.Errorf("%s: %q is wanted, the law is %q: %q %s", name, w.where(want), w.where(law), w.gate.Changes,
				s.Desired.Trouble)
		}
	}
}

// TestAgent_CatalogueFirst: a bundle whose cases need a catalogue that could not be read waits for it, in the live
// state and in a roll-out: it is not refused for good. It waits for no catalogue of a later day.
func TestAgent_CatalogueFirst(t *testing.T) {
	for _, ring := range []bool{false, true} {
		w := newWorld(t)
		codes, event := w.rule("codes", "1.0.0"), w.rule("invalidacion", "1.0.0")
		later := w.rule("codes", "2.0.0", "2027-01-01")
		w.gate.Refuse = func(b *bundle.Bundle) string {
			if b.Manifest.Kind == "event" && !slices.Contains(w.gate.Changes, "admit codes 1.0.0") {
				return "case 1 differs: no such code"
			}
			return ""
		}
		unread := codes
		w.store.Fault = func(r fleettest.Request) fleettest.Fault {
			if r.Key == fleetproto.RuleKey(unread.File) {
				return fleettest.Failed
			}
			return fleettest.None
		}
		if w.live(event, later, codes); ring {
			w.live(later, codes)
			w.rollout("r", event)
		}
		w.start()
		w.pass(5 * time.Minute)
		if s := w.status(); s.Desired.Trouble == "" || w.where(event) != "" {
			t.Errorf("ring %v: %q", ring, s.Desired.Trouble)
		}
		unread = later
		w.pass(5 * time.Minute)
		if w.where(event) != "live" || ring && w.stage() != fleetproto.StageLive {
			t.Errorf("ring %v: %q, %s", ring, w.gate.Changes, w.stage())
		}
	}
}
