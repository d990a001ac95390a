package fleet

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
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
	"dtegate/rules/bundletest"
)

// TestEnrol_Third: a replaced box that reported its replacement hides no later box that waits to be enrolled, and is
// no concern once it is silent.
func TestEnrol_Third(t *testing.T) {
	w := newWorld(t, "centro")
	first, second := w.box("centro"), w.add("centro")
	second.report()
	enrol := func(b *box) error {
		return (&Enrol{Boxes: []string{"centro=" + Fingerprint(b.status.Key)}, Replace: true}).Run(t.Context(), w.chain)
	}
	w.must(enrol(second))
	w.now = w.now.Add(time.Minute)
	first.status.Replaced = true
	first.report()
	second.report()
	if got := w.codes("centro"); !slices.Equal(got, []string{"former"}) {
		t.Error(got)
	}
	third := w.add("centro")
	third.report()
	if got := w.codes("centro"); !slices.Equal(got, []string{"former", "stranger"}) ||
		w.survey().Counts().Waiting != 1 {
		t.Error(got)
	}
	if err := enrol(third); err != nil {
		t.Errorf("the third box of a branch is not enrolled: %v", err)
	}
	w.now = w.now.Add(25 * time.Hour)
	third.report()
	if got := w.codes("centro"); len(got) > 0 {
		t.Errorf("the first box has been off for a day: %q", got)
	}
}

// TestRekey_OldKeyReads: a process that still has the old key, as dtectl fleet serve may, reads what the new key has
// signed: the centre's memory of it is not spoiled for the new key.
func TestRekey_OldKeyReads(t *testing.T) {
	w := newWorld(t, "centro")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.obey()
	page := *w.chain
	surveyor := NewSurveyor(&page)
	_, err := surveyor.Read(t.Context())
	w.must(err)
	old, next := w.chain.Director, key("director 2")
	w.chain.Director = fleetproto.Key{ID: directorID, Public: next.Public().(ed25519.PublicKey)}
	w.chain.Sign = func() (fleetproto.Signer, error) { return fleetproto.Signer{ID: directorID, Private: next}, nil }
	w.must((&Rekey{}).run(t.Context(), w.chain, old))
	for range 2 {
		_, err = surveyor.Read(t.Context())
		w.must(err)
		if s := w.survey(); s.Lost() > 0 || s.Branches[0].Enrolment == nil {
			t.Errorf("what the new key signed is not believed: %s", w.text())
		}
	}
	// What the director did not sign is read once for each key.
	w.must(w.store.Create(t.Context(), fleetproto.BoxKey("norte", 1), []byte("x")))
	w.survey()
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "get" && r.Key == fleetproto.BoxKey("norte", 1) {
			t.Error("a foreign enrolment is read again")
		}
		return fleettest.None
	}
	w.survey()
}

// TestStore_LosesMiddle: a version below the head that the store has lost stops each box that reads from the first
// version, as a new box does. The centre says so, and puts it back where it kept it.
func TestStore_LosesMiddle(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		w := newWorld(t, "centro", "norte")
		all := Percent(fleetproto.Whole)
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
		w.obey()
		w.must(w.roll())
		w.must(w.publish(Publish{Files: []string{w.bundle("1.1.0", w.rules)}, Share: &all}))
		w.obey()
		w.must(w.roll())
		w.obey()
		w.survey()
		if fresh {
			w.chain.Cache = w.at("other")
		}
		w.store.Lose(fleetproto.DesiredKey("tiendas", 2))
		if s := w.survey(); s.Lost() != 1 {
			t.Errorf("fresh %v: nobody misses version 2: %q", fresh, s.Faults)
		}
		if err := w.roll(); (err != nil) != fresh {
			t.Errorf("fresh %v: %v", fresh, err)
		}
		if got := w.follow(fleetproto.Verified{}); !fresh && got.Version != w.head().Version {
			t.Errorf("a new box comes to version %d of %d", got.Version, w.head().Version)
		}
		if s := w.survey(); !fresh && s.Lost() > 0 {
			t.Error(s.Faults)
		}
	}
}

// TestSurvey_ActNotRead: an act that the store could not return at this moment is asked for again.
func TestSurvey_ActNotRead(t *testing.T) {
	w := newWorld(t, "centro")
	w.box("centro").status.Acts = 1
	w.box("centro").report()
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "get" && strings.HasPrefix(r.Key, fleetproto.ActsFolder) {
			return fleettest.Failed
		}
		return fleettest.None
	}
	if _, err := NewSurveyor(w.chain).Read(t.Context()); err == nil {
		t.Error("a survey without an answer about an act is complete")
	}
	w.store.Fault = nil
	if got := w.codes("centro"); !slices.Equal(got, []string{"acts"}) {
		t.Errorf("a lost act is not missed: %q", got)
	}
}

// TestRoll_SettingsNotTaken: a branch that could not take the settings of a roll-out has not succeeded.
func TestRoll_SettingsNotTaken(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(os.WriteFile(w.at("s.json"), []byte(`{"kind":"settings","print_footer":"hola"}`), 0o600))
	w.must(w.publish(Publish{Files: []string{w.at("s.json")}, Pilots: []string{"centro"}}))
	w.obey()
	b := w.box("centro")
	b.status.Desired.Trouble = "settings: not accepted: an unknown member"
	w.now = w.now.Add(time.Hour)
	b.report()
	w.must(w.roll())
	if w.head().Rollout.Share > 0 {
		t.Error("the next ring opens on a branch that did not take the settings")
	}
	b.status.Settings, b.status.Desired.Trouble = w.head().Rollout.State.Settings, ""
	b.report()
	w.must(w.roll())
	if w.head().Rollout.Share == 0 {
		t.Error("the ring stays closed")
	}
}

// TestEnrol_ClosedElsewhere: a point of sale that the centre closed for one branch is given to no other branch that
// year: the lost box's numbers would be used again.
func TestEnrol_ClosedElsewhere(t *testing.T) {
	w := newWorld(t, "centro")
	closed := w.box("centro").status.Points
	next := w.add("centro")
	next.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P009"}}
	next.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true,
		Close: []string{"M001P001"}}).Run(t.Context(), w.chain))
	sur := w.add("sur")
	sur.status.Points, sur.status.Group = closed, "otros"
	sur.report()
	enrol := Enrol{Boxes: []string{"sur=" + Fingerprint(sur.status.Key)}}
	if err := enrol.Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(), "M001P001 belongs to centro") {
		t.Errorf("sur gets a point of sale that was closed: %v", err)
	}
	w.now = w.now.AddDate(0, 2, 0)
	w.must(enrol.Run(t.Context(), w.chain))
}

// TestPublish_LostFile: publishing a bundle again puts back its file, which the store lost or spoiled; before, no
// other version of it can be published.
func TestPublish_LostFile(t *testing.T) {
	w := newWorld(t, "a")
	edition := func(version string) string {
		file := w.at(version + ".dterule")
		w.must(os.WriteFile(file, bundletest.EditionSigned(t, "dte01/v2", version, bundle.Signer(w.rules)), 0o600))
		return file
	}
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{edition("3.0.0")}, Share: &all}))
	w.obey()
	w.must(w.roll())
	place := fleetproto.RuleKey(w.head().Live.Rules[0].File)
	good := w.store.Held(place)
	for _, spoil := range []func(){func() { w.store.Lose(place) },
		func() { w.must(w.store.Overwrite(t.Context(), place, []byte("junk"))) }} {
		spoil()
		if err := w.publish(Publish{Files: []string{w.at("3.0.0.dterule")}, Share: &all}); err != nil ||
			string(w.store.Held(place)) != string(good) {
			t.Fatalf("the file is not put back: %v", err)
		}
		w.obey()
		w.must(w.roll())
	}
	w.must(w.publish(Publish{Files: []string{edition("3.0.1")}, Share: &all}))
}

// TestRoll_RenewsHeld: a roll-out that is held for long is signed again before its order expires.
func TestRoll_RenewsHeld(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"}}))
	w.must((&Hold{}).Run(t.Context(), w.chain))
	before := w.head()
	w.now = w.now.Add(46 * 24 * time.Hour)
	w.must(w.roll())
	after := w.head()
	if after.Version != before.Version+1 || !after.Expires.After(before.Expires) || !after.Rollout.Held ||
		after.Rollout.Share != 0 {
		t.Errorf("%+v", after.Desired)
	}
}

// TestEnrol_FalseStatuses: statuses that a thief of the branch's credentials wrote for later epochs keep no box out.
func TestEnrol_FalseStatuses(t *testing.T) {
	w := newWorld(t, "centro")
	for epoch := int64(2); epoch < 40; epoch++ {
		w.must(w.store.Create(t.Context(), fleetproto.StatusKey("centro", epoch), []byte("x")))
	}
	next := w.add("centro")
	next.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
	if e := w.survey().Branches[0].Enrolment; e.Epoch != 40 || e.Key != next.status.Key {
		t.Errorf("%+v", e)
	}
}

// TestEnrol_StaleStranger: a box that once named this branch by mistake keeps neither the branch's box from another
// point of sale nor from another group.
func TestEnrol_StaleStranger(t *testing.T) {
	w := newWorld(t, "centro")
	b := w.box("centro")
	w.add("centro").report()
	b.status.Points = append(b.status.Points, fleetproto.Point{Establishment: "M001", Point: "P002"})
	b.report()
	argument := "centro=" + Fingerprint(b.status.Key)
	w.must((&Enrol{Boxes: []string{argument}}).Run(t.Context(), w.chain))
	if e := w.survey().Branches[0].Enrolment; e.Epoch != 1 || len(e.Points) != 2 {
		t.Errorf("%+v", e)
	}
	b.status.Group = "otros"
	b.report()
	w.must((&Enrol{Boxes: []string{argument}, Replace: true}).Run(t.Context(), w.chain))
	if e := w.survey().Branches[0].Enrolment; e.Epoch != 2 || e.Group != "otros" {
		t.Errorf("%+v", e)
	}
	stranger := w.boxes[1]
	argument = "centro=" + Fingerprint(stranger.status.Key)
	w.must((&Enrol{Boxes: []string{argument}, Replace: true}).Run(t.Context(), w.chain))
	if e := w.survey().Branches[0].Enrolment; e.Epoch != 3 || e.Key != stranger.status.Key {
		t.Errorf("%+v", e)
	}
}

// TestSurvey_ListedNotFound: a status and an act that the store lists and does not return are a concern of their
// branch, and stop nobody else.
func TestSurvey_ListedNotFound(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.box("norte").act(1, fleetproto.ActLive, "")
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "get" && (r.Key == fleetproto.ActKey("norte", 1) || r.Key == fleetproto.StatusKey("norte", 0)) {
			return fleettest.Stale // they were written once: nothing was there before
		}
		return fleettest.None
	}
	if got := w.codes("centro"); len(got) > 0 {
		t.Error(got)
	}
	events, err := (&Log{}).events(t.Context(), w.chain)
	if err != nil || len(events) != 1 || !strings.Contains(events[0].Fault, "NOT BELIEVED") {
		t.Errorf("%+v %v", events, err)
	}
}

// TestStatus_OrderNotRead: an order that does not reach a branch is a concern, also one that brings no rule.
func TestStatus_OrderNotRead(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"}}))
	w.obey()
	w.must((&Hold{}).Run(t.Context(), w.chain))
	w.now = w.now.Add(TakesWithin)
	if got := w.codes("centro"); !slices.Equal(got, []string{"lacks"}) {
		t.Errorf("the order to hold has not reached it: %q", got)
	}
	w.obey()
	if got := w.codes("centro"); len(got) > 0 {
		t.Error(got)
	}
}

// TestRekey_LargeObject: an object that is larger than an enrolment, in the place of one, does not stop the move to a
// new key.
func TestRekey_LargeObject(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.must(w.store.Create(t.Context(), fleetproto.BoxKey("centro", 2), make([]byte, fleetproto.MaxJWS+1)))
	old, next := w.chain.Director, key("director 2")
	w.chain.Director = fleetproto.Key{ID: directorID, Public: next.Public().(ed25519.PublicKey)}
	w.chain.Sign = func() (fleetproto.Signer, error) { return fleetproto.Signer{ID: directorID, Private: next}, nil }
	w.must((&Rekey{}).run(t.Context(), w.chain, old))
	if e := w.survey().Branches[0].Enrolment; e == nil || e.Epoch != 1 {
		t.Errorf("%+v", e)
	}
}

// TestEnrol_FormerPoint: a point of sale of a box that was replaced this year is given to no other branch, also where
// nobody closed it: the replaced box has numbered its series. In the next year it is free, though the enrolment after it
// is signed again.
func TestEnrol_FormerPoint(t *testing.T) {
	w := newWorld(t, "centro")
	former := w.box("centro").status.Points
	next := w.add("centro")
	next.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P009"}}
	next.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
	sur := w.add("sur")
	sur.status.Points = former
	sur.report()
	enrol := Enrol{Boxes: []string{"sur=" + Fingerprint(sur.status.Key)}}
	held := w.store.Held(fleetproto.BoxKey("centro", 1))
	for _, data := range [][]byte{held, []byte("x")} { // also once the store has overwritten its enrolment
		w.must(w.store.Overwrite(t.Context(), fleetproto.BoxKey("centro", 1), data))
		if err := enrol.Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(), "M001P001 belongs to centro") {
			t.Errorf("sur gets a point of sale of a replaced box: %v", err)
		}
	}
	w.must(w.store.Overwrite(t.Context(), fleetproto.BoxKey("centro", 1), held))
	w.now = w.now.AddDate(0, 2, 0)
	next.status.Points = append(next.status.Points, fleetproto.Point{Establishment: "M001", Point: "P020"})
	next.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}}).Run(t.Context(), w.chain))
	third := w.add("centro") // that the branch got another box in January says nothing about the point that left before
	third.status.Points = next.status.Points
	third.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(third.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
	w.must((&Rekey{}).run(t.Context(), w.chain, w.newKey("director 2")))
	third.report()
	sur.report()
	w.must(enrol.Run(t.Context(), w.chain))
}

// TestEnrol_ClockBack: an enrolment that is signed again counts, although the clock was ahead when it was signed first.
func TestEnrol_ClockBack(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.survey()
	w.now = w.now.Add(-4 * time.Minute)
	w.store.Lose(fleetproto.StatusKey("centro", 0)) // here the store's clock was ahead too, and the box's
	b := w.box("centro")
	b.status.Points = append(b.status.Points, fleetproto.Point{Establishment: "M001", Point: "P050"})
	b.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(b.status.Key)}}).Run(t.Context(), w.chain))
	w.must((&Roll{}).run(t.Context(), w.chain))
	if got := w.survey().Branches[0].Enrolment.Points; len(got) != 2 {
		t.Errorf("the enrolment names %v", got)
	}
}

// TestEnrol_PointLeftOut: a box's configuration names another point of sale in place of one that it has numbered, and its
// enrolment is signed again: the former point stays the branch's, and can be closed for it.
func TestEnrol_PointLeftOut(t *testing.T) {
	w := newWorld(t, "centro")
	b, sur := w.box("centro"), w.add("sur")
	former := b.status.Points
	b.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P009"}}
	b.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(b.status.Key)}}).Run(t.Context(), w.chain))
	b.report()
	sur.status.Points = former
	sur.report()
	if err := (&Enrol{Boxes: []string{"sur=" + Fingerprint(sur.status.Key)}}).Run(t.Context(), w.chain); err == nil ||
		!strings.Contains(err.Error(), "M001P001 belongs to centro") {
		t.Errorf("sur gets a point of sale of centro: %v", err)
	}
	next := w.add("centro")
	next.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P010"}}
	next.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true,
		Close: []string{"M001P001", "M001P009"}}).Run(t.Context(), w.chain))
	next.report()
	next.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P011"}}
	next.report()
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
	for _, b := range w.survey().Branches {
		if e := b.Enrolment; b.Name == "centro" && (e.Epoch != 3 || !slices.Equal(e.Points, next.status.Points)) {
			t.Errorf("replaced with other points of sale: %+v", e)
		}
	}
}

// TestEnrol_Stolen: a box that got another key, and takes no enrolment because of what a thief reported in its name, is
// enrolled with a person's word about the theft. The word stays when the enrolment is signed again.
func TestEnrol_Stolen(t *testing.T) {
	w := newWorld(t, "centro")
	b := w.add("centro")
	b.report()
	enrol := Enrol{Boxes: []string{"centro=" + Fingerprint(b.status.Key)}, Replace: true}
	w.must(enrol.Run(t.Context(), w.chain))
	enrol.Stolen = true
	w.must(enrol.Run(t.Context(), w.chain))
	b.report()
	b.status.Points = append(b.status.Points, fleetproto.Point{Establishment: "M001", Point: "P009"})
	b.report()
	enrol.Replace = false
	if err := enrol.Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(), "whose box is replaced") {
		t.Errorf("no box is replaced: %v", err)
	}
	enrol.Stolen = false
	w.must(enrol.Run(t.Context(), w.chain))
	e := w.survey().Branches[0].Enrolment
	if e.Epoch != 3 || !e.Stolen || len(e.Points) != 2 {
		t.Errorf("%+v", e)
	}
	sur := w.add("sur")
	sur.report()
	if err := (&Enrol{Boxes: []string{"sur=" + Fingerprint(sur.status.Key)}, Stolen: true}).Run(t.Context(),
		w.chain); err == nil || !strings.Contains(err.Error(), "whose box is replaced") {
		t.Errorf("no box of sur can have lost its key: %v", err)
	}
}

// TestEnrol_PutBack: the store puts back a box's enrolment of before it got another point of sale: no other branch gets
// that point of sale, and the centre puts the later enrolment back.
func TestEnrol_PutBack(t *testing.T) {
	w := newWorld(t, "centro")
	b, before := w.box("centro"), w.store.Held(fleetproto.BoxKey("centro", 1))
	b.status.Points = append(b.status.Points, fleetproto.Point{Establishment: "M001", Point: "P009"})
	b.report()
	w.now = w.now.Add(time.Hour)
	w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(b.status.Key)}}).Run(t.Context(), w.chain))
	b.report()
	w.survey()
	after := w.store.Held(fleetproto.BoxKey("centro", 1))
	w.must(w.store.Overwrite(t.Context(), fleetproto.BoxKey("centro", 1), before))
	if len(w.survey().Faults) == 0 {
		t.Error("nobody misses the later enrolment")
	}
	sur := w.add("sur")
	sur.status.Points = b.status.Points[1:]
	sur.report()
	if err := (&Enrol{Boxes: []string{"sur=" + Fingerprint(sur.status.Key)}}).Run(t.Context(), w.chain); err == nil ||
		!strings.Contains(err.Error(), "M001P009 belongs to centro") {
		t.Errorf("sur gets a point of sale of centro: %v", err)
	}
	if !bytes.Equal(w.store.Held(fleetproto.BoxKey("centro", 1)), after) || len(w.survey().Faults) > 0 {
		t.Errorf("the later enrolment is not put back: %q", w.survey().Faults)
	}
}

// TestEnrol_OlderStatus: a box died, and the store lost its last status, or put back an earlier one. A new box would
// compare its store with that, and give numbers again: it is enrolled once somebody has accepted the loss.
func TestEnrol_OlderStatus(t *testing.T) {
	for _, does := range []string{"loses", "puts back", "spoils"} {
		w := newWorld(t, "centro")
		b, at, numbers := w.box("centro"), fleetproto.StatusKey("centro", 1), map[string]uint64{"01/M001/P001/2026": 50}
		b.status.Last = numbers
		b.report()
		before := w.store.Held(at)
		b.status.Last = map[string]uint64{"01/M001/P001/2026": 60}
		b.report()
		w.survey()
		switch w.store.Put(at, before); does {
		case "loses":
			w.store.Lose(at)
		case "spoils":
			w.store.Put(at, []byte("x"))
		}
		next := w.add("centro")
		agent, err := fleet.New(fleet.Options{Store: w.store, Chain: w.chain.Identity, Branch: "centro", Group: "tiendas",
			Director: []fleetproto.Key{w.chain.Director}, Box: next.signer, Points: next.status.Points,
			Rules: &fleettest.Gate{Today: func() string { return dte.Date(w.now) }}, State: &fleettest.File{},
			Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now },
			Last: func() (map[string]uint64, error) { return maps.Clone(numbers), nil }})
		w.must(err)
		pass := func() {
			for range 4 {
				agent.Step(t.Context())
				w.now = w.now.Add(5 * time.Minute)
			}
		}
		pass()
		enrol := Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true}
		err = enrol.Run(t.Context(), w.chain)
		pass()
		if agent.Fence().Standing().Numbers(next.status.Points[0]) || err == nil ||
			!strings.Contains(err.Error(), "--accept centro") {
			t.Errorf("the store %s it: the new box gives numbers after 50, and the old one gave 60: %v", does, err)
		}
		closing := enrol
		if closing.Close = []string{"M001P009"}; !strings.Contains(fmt.Sprint(closing.Run(t.Context(), w.chain)),
			"--accept centro") {
			t.Error("to close another point of sale is enough")
		}
		if closing.Close = []string{"M001P001"}; does == "loses" {
			w.must(closing.Run(t.Context(), w.chain))
			continue
		}
		_ = (&Status{Accept: []string{"centro"}}).Run(t.Context(), w.chain)
		w.must(enrol.Run(t.Context(), w.chain))
		if pass(); !agent.Fence().Standing().Numbers(next.status.Points[0]) {
			t.Error("what was accepted keeps the new box out")
		}
	}
}

// TestEnrol_Settled: an enrolled box that waits for nothing gets the next epoch, where it ships its whole copy again,
// only if it is named with --replace. It is not listed.
func TestEnrol_Settled(t *testing.T) {
	w := newWorld(t, "centro")
	enrol := Enrol{Boxes: []string{"centro=" + Fingerprint(w.box("centro").status.Key)}}
	if err := enrol.Run(t.Context(), w.chain); err == nil || w.survey().Counts().Waiting > 0 {
		t.Errorf("it is enrolled already: %v", err)
	}
	enrol.Replace = true
	w.must(enrol.Run(t.Context(), w.chain))
	if e := w.survey().Branches[0].Enrolment; e.Epoch != 2 || e.Key != w.box("centro").status.Key {
		t.Errorf("%+v", e)
	}
}

// TestRekey_StoreLoses: what the store loses after a change of the director's key is put back, also where the old key
// signed it, or signed all that the store has left.
func TestRekey_StoreLoses(t *testing.T) {
	w := newWorld(t, "centro")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.obey()
	w.must(w.roll())
	old, next := w.chain.Director, key("director 2")
	w.chain.Director = fleetproto.Key{ID: directorID, Public: next.Public().(ed25519.PublicKey)}
	w.chain.Sign = func() (fleetproto.Signer, error) { return fleetproto.Signer{ID: directorID, Private: next}, nil }
	// Between two steps of the change, nobody is told to accept as a loss what the old key signed.
	err := w.survey().whole()
	if text := w.text(); err == nil || strings.Contains(err.Error()+text, "--accept") ||
		!strings.Contains(text, "dtectl fleet rekey") || !strings.Contains(err.Error(), "dtectl fleet rekey") {
		t.Errorf("%v\n%s", err, text)
	}
	w.must((&Rekey{}).run(t.Context(), w.chain, old))
	for _, lost := range [][]int64{{3}, {1, 2, 3}, {2}} {
		for _, n := range lost {
			w.store.Lose(fleetproto.DesiredKey("tiendas", n))
		}
		w.must(w.roll())
		if head := w.head(); head == nil || head.Version != 3 || head.Hole > 0 {
			t.Errorf("the store lost %v: %+v", lost, head)
		}
	}
}

// complete rolls out versions of a bundle, one after the other, to every branch.
func (w *world) complete(versions ...string) {
	w.t.Helper()
	all := Percent(fleetproto.Whole)
	for _, version := range versions {
		w.must(w.publish(Publish{Files: []string{w.bundle(version, w.rules)}, Share: &all}))
		w.obey()
		w.must(w.roll())
		w.obey()
	}
}

// TestBack_Twice: two people who take back a roll-out under way, or one whose answer was lost, do not take back what all
// branches had before it; that needs --completed.
func TestBack_Twice(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.complete("1.0.0", "1.1.0")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.2.0", w.rules)}, Pilots: []string{"centro"}}))
	w.must((&Back{Reason: "ana"}).Run(t.Context(), w.chain))
	for range 2 { // also after the order was signed again
		if err := (&Back{Reason: "luis"}).Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(),
			"r5 was taken back already") || describe(w.head().Live) != "catalogues 1.1.0" {
			t.Errorf("the second goes back to %s: %v", describe(w.head().Live), err)
		}
		w.now = w.now.Add(DefaultLife / 2)
		w.obey()
		w.must(w.roll())
	}
	w.must((&Back{Completed: true}).Run(t.Context(), w.chain))
	if got := describe(w.head().Live); got != "catalogues 1.0.0" {
		t.Errorf("back to %s", got)
	}
}

// TestEnrol_CloseOther: a point of sale that was mistyped is not closed: it may be another branch's, whose next box
// could not be enrolled until the year ends.
func TestEnrol_CloseOther(t *testing.T) {
	w := newWorld(t, "centro", "sur")
	next := w.add("centro")
	next.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P009"}}
	next.report()
	enrol := func(b *box, points ...string) error {
		return (&Enrol{Boxes: []string{b.status.Branch + "=" + Fingerprint(b.status.Key)}, Replace: true,
			Close: points}).Run(t.Context(), w.chain)
	}
	for _, other := range []string{"M001P002", "M001P009"} { // sur's, and the new box's own
		if err := enrol(next, "M001P001", other); err == nil || !strings.Contains(err.Error(), "no box of centro had the "+
			"point of sale "+other) || w.survey().Branches[0].Enrolment.Epoch != 1 {
			t.Errorf("%s is closed: %v", other, err)
		}
	}
	w.must(enrol(next, "M001P001"))
	later := w.add("sur")
	later.report()
	w.must(enrol(later))
}

// TestRekey_WrongKey: a key that is not the old one changes nothing, and the old one can be given next.
func TestRekey_WrongKey(t *testing.T) {
	for _, fresh := range []bool{false, true} { // also where the centre's folder died with its machine
		w := newWorld(t, "centro", "norte")
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
		w.obey()
		w.survey()
		old := w.newKey("director 2")
		if fresh {
			w.chain.Cache = w.at("other")
		}
		wrong := fleetproto.Public(fleetproto.Signer{ID: "wrong", Private: key("director 0")})
		if err := (&Rekey{}).run(t.Context(), w.chain, wrong); err == nil || !strings.Contains(err.Error(),
			"neither wrong nor director.public has signed 2 of 2 (centro/1, norte/1)") {
			t.Errorf("another key than the old one: %v", err)
		}
		w.must((&Rekey{}).run(t.Context(), w.chain, old))
		for _, b := range w.survey().Branches {
			if b.Enrolment == nil {
				t.Errorf("nobody has enrolled %s", b.Name)
			}
		}
	}
}

// TestRekey_Names: what --except and --back name must exist, before the new key signs anything.
func TestRekey_Names(t *testing.T) {
	for _, c := range []Rekey{
		{Except: []string{"centro=2"}}, {Except: []string{"Centro/2"}}, {Except: []string{"centro/02"}},
		{Except: []string{"centro/2", "norte/2"}}, {Back: map[string]int64{"tienda": 1}},
		{Back: map[string]int64{"tiendas": 2}}, {Back: map[string]int64{"tiendas": 0}},
	} {
		w := newWorld(t, "centro", "norte")
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
		next := w.add("centro")
		next.report()
		w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(next.status.Key)}, Replace: true}).Run(t.Context(),
			w.chain))
		old, before := w.newKey("director 2"), w.store.Held(fleetproto.BoxKey("norte", 1))
		err := c.run(t.Context(), w.chain, old)
		if err == nil || !strings.Contains(err.Error(), "nothing was signed") {
			t.Errorf("%+v: %v", c, err)
		}
		if !bytes.Equal(w.store.Held(fleetproto.BoxKey("norte", 1)), before) {
			t.Errorf("%+v: the new key has signed something", c)
		}
	}
}

// shortening is a store whose later lists of enrolments leave a branch out.
type shortening struct {
	fleetproto.Lister
	left int // whole lists that are still to come
}

func (s *shortening) List(ctx context.Context, prefix string) iter.Seq2[archive.Object, error] {
	if prefix == fleetproto.BoxesFolder {
		s.left--
	}
	short := s.left < 0
	return func(yield func(archive.Object, error) bool) {
		for o, err := range s.Lister.List(ctx, prefix) {
			if !(short && strings.HasPrefix(o.Key, fleetproto.BoxesFolder+"norte/")) && !yield(o, err) {
				return
			}
		}
	}
}

// TestRekey_ShortList: no branch is left to the old key because a list is shorter than the list that was checked.
func TestRekey_ShortList(t *testing.T) {
	for left := range 3 {
		w := newWorld(t, "centro", "norte")
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
		w.survey()
		whole, old := w.chain.Store, w.newKey("director 2")
		w.chain.Store = &shortening{whole, left}
		err := (&Rekey{}).run(t.Context(), w.chain, old)
		w.chain.Store = whole
		for _, b := range w.survey().Branches {
			if err == nil && b.Enrolment == nil {
				t.Errorf("after %d whole lists nobody has enrolled %s, and rekey reports success", left, b.Name)
			}
		}
		w.must((&Rekey{}).run(t.Context(), w.chain, old))
		for _, b := range w.survey().Branches {
			if b.Enrolment == nil {
				t.Errorf("after %d whole lists: with the whole list nobody has enrolled %s", left, b.Name)
			}
		}
	}
}

// TestRekey_OldestKey: the key is changed for the second time, and the first key is given instead of the second; or the
// new key has enrolled a box, and another key is given; or a thief's enrolment by the first key is still in the store.
// Nothing is signed, whatever the centre remembers, and the right key then moves the chain.
func TestRekey_OldestKey(t *testing.T) {
	for n := range 4 {
		fresh, thief := n%2 == 0, n/2 == 0
		w := newWorld(t, "centro", "norte")
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
		w.obey()
		c := Rekey{}
		if thief {
			robber := w.add("centro")
			robber.report()
			w.must((&Enrol{Boxes: []string{"centro=" + Fingerprint(robber.status.Key)}, Replace: true}).Run(t.Context(),
				w.chain))
			w.boxes, c.Except = w.boxes[:2], []string{"centro/2"}
		}
		first := w.newKey("director 2")
		w.must(c.run(t.Context(), w.chain, first))
		_ = (&Status{Accept: []string{"centro"}}).Run(t.Context(), w.chain)
		w.obey()
		w.survey()
		version, second := w.head().Version, w.newKey("director 3")
		if fresh {
			w.chain.Cache = w.at("other")
		}
		refused := func() {
			t.Helper()
			if err := (&Rekey{}).run(t.Context(), w.chain, first); err == nil || !strings.Contains(err.Error(),
				"give the key that was in use until now") {
				t.Errorf("fresh %v: the first key: %v", fresh, err)
			}
		}
		refused()
		if fresh { // a centre that remembers the others enrols nobody before it has moved them
			b := w.add("este")
			b.report()
			w.must((&Enrol{Boxes: []string{"este=" + Fingerprint(b.status.Key)}, Replace: true}).Run(t.Context(), w.chain))
			refused()
		}
		w.must((&Rekey{}).run(t.Context(), w.chain, second))
		for _, b := range w.survey().Branches {
			if b.Enrolment == nil || b.Enrolment.Epoch != 1 {
				t.Errorf("fresh %v, thief %v: who has %s: %+v", fresh, thief, b.Name, b.Enrolment)
			}
		}
		if got := w.head().Version; got != version+1 {
			t.Errorf("fresh %v, thief %v: version %d follows %d", fresh, thief, got, version)
		}
	}
}

// TestRekey_ClockBack: an enrolment whose date is after that of the new key's signature is not put back over it.
func TestRekey_ClockBack(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
	w.survey()
	w.now = w.now.Add(-5 * time.Minute)
	old := w.newKey("director 2")
	for range 2 {
		w.must((&Rekey{}).run(t.Context(), w.chain, old))
		if s := w.survey(); s.Branches[0].Enrolment == nil || len(s.Faults) > 0 {
			t.Errorf("%+v, %q", s.Branches[0].Enrolment, s.Faults)
		}
	}
}

// TestRekey_Altered: whoever writes to the store stops neither a change of the key nor the enrolment of another branch:
// what this centre kept proves the old key, and an object that nobody signed with a key in use is nobody's branch.
func TestRekey_Altered(t *testing.T) {
	for altered, alter := range map[string]func(w *world){
		"enrolments overwritten": func(w *world) {
			for _, b := range []string{"centro", "norte"} {
				w.store.Put(fleetproto.BoxKey(b, 1), []byte("x"))
			}
		},
		"branches made up": func(w *world) {
			for i := range 9 {
				w.store.Put(fleetproto.BoxKey(fmt.Sprintf("a%03d", i), 1), []byte("x"))
			}
		},
	} {
		w := newWorld(t, "centro", "norte", "este")
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}}))
		w.obey()
		w.survey()
		alter(w)
		w.must((&Rekey{}).run(t.Context(), w.chain, w.newKey("director 2")))
		sur := w.add("sur")
		sur.report()
		w.must((&Enrol{Boxes: []string{"sur=" + Fingerprint(sur.status.Key)}}).Run(t.Context(), w.chain))
		for _, b := range w.survey().Branches {
			if slices.Contains([]string{"centro", "norte", "este", "sur"}, b.Name) && b.Enrolment == nil {
				t.Errorf("%s: %s is not enrolled by the new key", altered, b.Name)
			}
		}
	}
}

// TestRekey_HalfKnown: if the given key signed only half of the branches, it may be the wrong one: nothing is signed
// until --except says what no director signed.
func TestRekey_HalfKnown(t *testing.T) {
	for foreign, refused := range map[int]bool{0: false, 1: false, 2: true, 3: true} {
		names := []string{"centro", "norte", "oriente", "sur"}
		w := newWorld(t, names...)
		c := Rekey{Except: []string{}}
		for _, name := range names[:foreign] {
			e, err := w.chain.Identity.ReadEnrolment(w.store.Held(fleetproto.BoxKey(name, 1)), name, 1)
			w.must(err)
			data, err := w.chain.Identity.Seal(e, fleetproto.Signer{ID: directorID, Private: key("a thief")})
			w.must(err)
			w.store.Put(fleetproto.BoxKey(name, 1), data)
		}
		w.chain.Cache = w.at("other") // the centre's folder died with its machine
		old := w.newKey("director 2")
		err := c.run(t.Context(), w.chain, old)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "nothing was signed") {
			t.Errorf("%d of 4 by another key: %v", foreign, err)
		}
		if refused {
			for _, name := range names[:foreign] {
				c.Except = append(c.Except, name+"/1")
			}
			w.must(c.run(t.Context(), w.chain, old))
		}
	}
}

// TestSurvey_Unread: a status, an act or an order that the store lists and does not return stops neither the other
// branches nor the other groups. The order is written again from the centre's folder.
func TestSurvey_Unread(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"}}))
	w.obey()
	w.box("norte").act(1, fleetproto.ActLive, "")
	order := fleetproto.DesiredKey("tiendas", 1)
	rotten := []string{fleetproto.StatusKey("norte", 1), fleetproto.ActKey("norte", 1), order}
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "put" && r.Key == order {
			rotten = rotten[:2]
		}
		if r.Verb == "get" && slices.Contains(rotten, r.Key) {
			return fleettest.Unread
		}
		return fleettest.None
	}
	if s := w.survey(); len(s.Faults) == 0 {
		t.Error("nobody is told of the order")
	}
	w.must((&Hold{}).Run(t.Context(), w.chain))
	if head := w.head(); len(rotten) != 2 || head.Version != 2 || !head.Rollout.Held {
		t.Errorf("%+v, not read: %q", head, rotten)
	}
	w.obey()
	if got := w.codes("norte"); !slices.Equal(got, []string{"forged"}) {
		t.Errorf("norte: %q", got)
	}
	if got := w.codes("centro"); len(got) > 0 {
		t.Errorf("centro: %q", got)
	}
	events, err := (&Log{}).events(t.Context(), w.chain)
	if err != nil || !slices.ContainsFunc(events, func(e event) bool { return strings.HasPrefix(e.Fault, "NOT") }) {
		t.Errorf("%+v %v", events, err)
	}
}

// TestSurvey_UnreadEnrolment: an enrolment that the store lists and does not return, to a machine that has not kept it,
// ends no verb: a roll-out that does harm is held. Its branch counts for nothing, and nothing is enrolled until the
// store's owner has done what the error says: then boxes find a later enrolment.
func TestSurvey_UnreadEnrolment(t *testing.T) {
	for _, lost := range []string{"1", "2"} {
		w := newWorld(t, "centro", "norte")
		second := w.add("norte")
		second.report()
		enrol := &Enrol{Boxes: []string{"norte=" + Fingerprint(second.status.Key)}, Replace: true}
		w.must(enrol.Run(t.Context(), w.chain))
		second.report()
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro", "norte"}}))
		w.box("centro").stage = fleetproto.StageRefused
		w.obey()
		w.chain.Cache = w.at("another")
		w.store.Fault = func(r fleettest.Request) fleettest.Fault {
			if r.Verb == "get" && r.Key == fleetproto.BoxesFolder+"norte/"+lost+".jws" {
				return fleettest.Unread
			}
			return fleettest.None
		}
		if err := w.roll(); !errors.Is(err, errHarms) || !w.head().Rollout.Held {
			t.Errorf("epoch %s: %v", lost, err)
		}
		if got := w.codes("norte"); !slices.Contains(got, "older") {
			t.Errorf("epoch %s: %q", lost, got)
		}
		sur := w.add("sur")
		sur.status.Points = second.status.Points
		sur.report()
		if err := (&Enrol{All: true}).Run(t.Context(), w.chain); err == nil ||
			!strings.Contains(err.Error(), "epoch "+lost+" and does not return it") ||
			!strings.Contains(err.Error(), "or overwrite it with other bytes") {
			t.Errorf("epoch %s: %v", lost, err)
		}
		w.store.Fault = nil
		w.store.Put(fleetproto.BoxesFolder+"norte/"+lost+".jws", []byte("x"))
		w.must(enrol.Run(t.Context(), w.chain))
		if epoch := second.epoch(); epoch != 3 { // deleted, it would be a gap, above which boxes look for nothing
			t.Errorf("epoch %s: the box finds epoch %d", lost, epoch)
		}
	}
}

// lying is a store that returns another object's bytes under a key.
type lying struct {
	fleetproto.Lister
	about string
}

func (l lying) Fetch(ctx context.Context, key string, limit int64) (archive.Held, error) {
	o, err := l.Lister.Fetch(ctx, key, limit)
	if key == l.about {
		o.Data = []byte("another")
	}
	return o, err
}

// TestSurvey_LiesOnce: a machine to which the store once returned other bytes as an enrolment reads it again.
func TestSurvey_LiesOnce(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.chain.Cache, w.chain.Store = w.at("another"), lying{w.store, fleetproto.BoxKey("norte", 1)}
	surveyor := NewSurveyor(w.chain)
	_, err := surveyor.Read(t.Context())
	w.must(err)
	w.now, w.chain.Store = w.now.Add(time.Hour), w.store
	again, err := surveyor.Read(t.Context())
	w.must(err)
	for _, s := range []*Survey{w.survey(), again} {
		for _, b := range s.Branches {
			if b.Enrolment == nil {
				t.Errorf("%s is not enrolled: %v", b.Name, b.words())
			}
		}
	}
}

// TestRekey_Foreign: an enrolment that no director signed is named so, also when it is not read again.
func TestRekey_Foreign(t *testing.T) {
	w := newWorld(t, "centro")
	data, err := w.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: 2, Key: w.box("centro").status.Key,
		At: w.now, By: "ana"}, fleetproto.Signer{ID: directorID, Private: key("thief")})
	w.must(err)
	w.store.Put(fleetproto.BoxKey("centro", 2), data)
	said := w.prints(func() { w.must((&Rekey{}).run(t.Context(), w.chain, w.newKey("director 2"))) })
	if !strings.Contains(said, "centro/2.jws is left as it is: not signed by the key that must sign it") {
		t.Error(said)
	}
}

// TestRoll_Unread: another centre holds a roll-out, in a version that the store does not return to this one: roll opens
// no ring over it. A person may order over it, and is told.
func TestRoll_Unread(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"}}))
	w.obey()
	w.must((&Hold{}).Run(t.Context(), w.chain))
	w.obey()
	w.must(os.Remove(w.chain.versionFile("tiendas", 2)))
	w.now = w.now.Add(48 * time.Hour)
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "get" && r.Key == fleetproto.DesiredKey("tiendas", 2) {
			return fleettest.Unread
		}
		return fleettest.None
	}
	if err := w.roll(); err == nil || !strings.Contains(err.Error(), "lists version 2 of tiendas") {
		t.Error(err)
	}
	if h := w.head(); h.Version != 1 || h.Unread != 2 {
		t.Errorf("version %d, unread %d", h.Version, h.Unread)
	}
	w.must((&Hold{}).Run(t.Context(), w.chain))
	if h := w.head(); h.Version != 3 || !h.Rollout.Held || h.Unread > 0 {
		t.Errorf("version %d, unread %d", h.Version, h.Unread)
	}
	w.must((&Resume{}).Run(t.Context(), w.chain))
	w.must(os.Remove(w.chain.versionFile("tiendas", 4)))
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "get" && r.Key == fleetproto.DesiredKey("tiendas", 4) {
			return fleettest.Unread
		}
		return fleettest.None
	}
	w.must((&Hold{}).Run(t.Context(), w.chain)) // the other centre went on with it
	if h := w.head(); h.Version != 5 || !h.Rollout.Held {
		t.Errorf("version %d", h.Version)
	}
}

// TestBack_Unread: the roll-out to be taken back is in a version that the store does not return to this centre: back
// gives that version up, and takes back no roll-out before it, which all branches have.
func TestBack_Unread(t *testing.T) {
	w := newWorld(t, "centro", "norte")
	w.complete("1.0.0", "1.1.0")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.2.0", w.rules)}, Pilots: []string{"centro"}}))
	n := w.head().Version
	w.must(os.Remove(w.chain.versionFile("tiendas", n))) // another centre published it
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "get" && r.Key == fleetproto.DesiredKey("tiendas", n) {
			return fleettest.Unread
		}
		return fleettest.None
	}
	back := func(version string) {
		t.Helper()
		w.must((&Back{}).Run(t.Context(), w.chain))
		if h := w.head(); h.Rollout != nil || h.Live.Rules[0].Version != version {
			t.Errorf("%+v", h.Desired)
		}
	}
	back("1.1.0")
	w.must((&Publish{Group: "tiendas", Files: []string{w.bundle("1.2.1", w.rules)}, Pilots: []string{"centro"},
		MinSuccess: 1}).Run(t.Context(), w.chain))
	back("1.1.0")
}
