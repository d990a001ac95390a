package fleet

import (
	"dtegate/cmd/term"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// A rule goes to a pilot, in rings to all, and is taken back; each step waits for its criteria.
func TestRollout(t *testing.T) {
	w := newWorld(t, "centro", "norte", "sur")
	first, second := w.bundle("1.0.0", w.rules), w.bundle("1.1.0", w.rules)

	// The running rules are published to all at once.
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{first}, Share: &all}))
	w.obey()
	w.must(w.roll())
	if h := w.head(); h.Version != 2 || h.Rollout != nil || len(h.Live.Rules) != 1 {
		t.Fatalf("%+v", h.Desired)
	}

	w.must(w.publish(Publish{Files: []string{second}, Pilots: []string{"centro"}, Soak: time.Hour}))
	if h := w.head(); h.Version != 3 || h.Rollout.Name != "r3" || h.Rollout.Share != 0 ||
		!slices.Equal(h.Rollout.Pilots, []string{"centro"}) || h.Live.Rules[0].Version != "1.0.0" {
		t.Fatalf("%+v", h.Rollout)
	}
	if err := w.publish(Publish{Files: []string{second}}); err == nil {
		t.Error("a second roll-out begins over the first")
	}
	stays := func(why string) {
		t.Helper()
		before := w.head().Version
		w.must(w.roll())
		if w.head().Version != before || !strings.Contains(w.text(), why) {
			t.Errorf("version %d, want %d; %s", w.head().Version, before, w.text())
		}
	}
	stays("0 of 1 branches applied it, 1 must")
	w.obey()
	stays("the ring is watched until")
	w.now = w.now.Add(time.Hour)
	stays("0 branches have read the last order and reported since the ring was watched long enough")
	w.obey()
	for _, share := range []int{500, 2500, fleetproto.Whole} {
		w.must(w.roll())
		if got := w.head().Rollout.Share; got != share {
			t.Fatalf("%d, want %d", got, share)
		}
		stays("r3 catalogues")
		w.now = w.now.Add(time.Hour)
		w.obey()
	}
	w.must(w.roll())
	h := w.head()
	if h.Rollout != nil || h.Live.Rules[0].Version != "1.1.0" || len(h.Live.Rules) != 1 {
		t.Fatalf("%+v", h.Desired)
	}
	w.obey()

	// Back once, not to and fro.
	w.must((&Back{Reason: "quejas"}).Run(t.Context(), w.chain))
	if h := w.head(); h.Live.Rules[0].Version != "1.0.0" || h.Reason != "quejas" || h.By != "ana@central" {
		t.Errorf("%+v", h.Desired)
	}
	if err := (&Back{}).Run(t.Context(), w.chain); err == nil || w.head().Live.Rules[0].Version != "1.0.0" {
		t.Errorf("back came back: %v", err)
	}

	// Every version follows the one before, as a box demands.
	var before fleetproto.Verified
	for n := int64(1); n <= w.head().Version; n++ {
		v, err := w.chain.Version(t.Context(), "tiendas", n)
		w.must(err)
		w.must(v.Follows(before))
		before = fleetproto.Verified{Version: n, Digest: v.Digest}
	}
}

// A harmful roll-out is held by the next roll, and goes no further until somebody resumes it.
func TestRollout_Harms(t *testing.T) {
	w := newWorld(t, "centro", "norte", "sur")
	first, second := w.bundle("1.0.0", w.rules), w.bundle("1.1.0", w.rules)
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{first}, Share: &all}))
	w.obey()
	w.must(w.roll())
	w.must(w.publish(Publish{Files: []string{second}, Pilots: []string{"centro", "norte"}}))
	w.box("norte").stage = fleetproto.StageReturned
	w.obey()
	if err := w.roll(); !errors.Is(err, errHarms) || !strings.Contains(err.Error(),
		"1 of 2 branches that tried r3 failed: norte") {
		t.Fatal(err)
	}
	if h := w.head(); !h.Rollout.Held || h.Rollout.Share != 0 || !strings.Contains(h.Reason, "held by itself") {
		t.Fatalf("%+v", h.Desired)
	}
	w.now = w.now.Add(24 * time.Hour)
	w.obey()
	version := w.head().Version
	w.must(w.roll())
	if w.head().Version != version || !strings.Contains(w.text(), "HELD") {
		t.Errorf("it goes on: %s", w.text())
	}
	if got := w.codes("norte"); !slices.Contains(got, "returned") {
		t.Error(got)
	}
	// Resumed, it still does harm.
	w.must((&Resume{Reason: "lo vimos"}).Run(t.Context(), w.chain))
	if err := (&Resume{}).Run(t.Context(), w.chain); err == nil {
		t.Error("resumed twice")
	}
	if err := w.roll(); !errors.Is(err, errHarms) {
		t.Error(err)
	}
	w.must((&Back{}).Run(t.Context(), w.chain))
	if h := w.head(); h.Rollout != nil || h.Live.Rules[0].Version != "1.0.0" {
		t.Errorf("%+v", h.Desired)
	}
}

// A permitted number of failures does not hold it; the limit is exact.
func TestRing(t *testing.T) {
	r := &fleetproto.Rollout{Name: "r1", MaxFailures: 1000, MinSuccess: 3}
	for _, c := range []struct {
		succeeded, failed int
		harms             bool
	}{{0, 0, false}, {9, 1, false}, {8, 1, true}, {10, 1, false}, {0, 1, true}, {89, 11, true}, {90, 10, false}} {
		m := Ring{Boxes: 100, Succeeded: c.succeeded, Failed: make([]string, c.failed)}
		if m.Harms(r) != c.harms {
			t.Errorf("%d took it, %d failed: %v", c.succeeded, c.failed, m.Harms(r))
		}
	}
	now := time.Now()
	// a smaller ring must have succeeded whole
	for boxes, wants := range map[int]bool{0: false, 2: false, 3: true, 100: true} {
		m := Ring{Boxes: boxes, Succeeded: 2, Confirmed: 2}
		if (m.Wants(r, now) != "") != wants {
			t.Errorf("%d: %q", boxes, m.Wants(r, now))
		}
	}
}

// Bundles that branches would refuse are not published.
func TestPublish_Refuses(t *testing.T) {
	w := newWorld(t, "centro")
	all := Percent(fleetproto.Whole)
	good := w.bundle("1.1.0", w.rules)
	w.must(w.publish(Publish{Files: []string{good}, Share: &all}))
	w.obey()
	w.must(w.roll())
	twin := w.at("twin.dterule")
	data, err := os.ReadFile(good)
	w.must(err)
	w.must(os.WriteFile(twin, data, 0o600))
	w.must(os.WriteFile(w.at("bad.json"), []byte(`{"kind":"settings","data":"/tmp"}`), 0o600))
	objects := w.store.Requests()
	for name, c := range map[string]Publish{
		"signed by a stranger": {Files: []string{w.bundle("1.2.0", fleetproto.Signer{ID: "reglas",
			Private: key("thief")})}},
		"older":            {Files: []string{w.bundle("1.0.9", w.rules)}},
		"twice":            {Files: []string{w.bundle("1.3.0", w.rules), twin}},
		"no bundle":        {Files: []string{w.at("rules.pub")}},
		"foreign settings": {Files: []string{w.at("bad.json")}},
		"unknown pilot":    {Files: []string{w.bundle("1.4.0", w.rules)}, Pilots: []string{"oriente"}},
		"over already": {Files: []string{w.bundle("1.5.0", w.rules)},
			Expires: Moment{Time: w.now.Add(-time.Hour)}},
	} {
		if err := w.publish(c); err == nil {
			t.Errorf("%s: it is published", name)
		}
	}
	if w.head().Version != 2 || w.store.Requests() == objects {
		t.Errorf("version %d", w.head().Version)
	}
}

// If two publish at once, one succeeds and the other gets an error. A lost answer does not make a second version.
func TestPublish_AtOnce(t *testing.T) {
	w := newWorld(t, "centro")
	file := w.bundle("1.0.0", w.rules)
	key := fleetproto.DesiredKey("tiendas", 1)
	var other []byte
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Verb == "create" && r.Key == key && other == nil {
			other = []byte("x") // somebody else is first
			w.store.Fault = nil
			w.must(w.publish(Publish{Files: []string{file}, Reason: "first"}))
		}
		return fleettest.None
	}
	if err := w.publish(Publish{Files: []string{file}, Reason: "second"}); err == nil || !strings.Contains(err.Error(),
		"somebody else") {
		t.Error(err)
	}
	if w.head().Reason != "first" {
		t.Error(w.head().Reason)
	}

	for _, fault := range fleettest.Faults {
		w := newWorld(t, "centro")
		w.store.Fault = func(r fleettest.Request) fleettest.Fault {
			if r.Verb == "create" && r.Key == key {
				return fault
			}
			return fleettest.None
		}
		err := w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}})
		there := w.store.Held(key) != nil
		if (err == nil) != there {
			t.Errorf("%s: there %v, told %v", fault, there, err)
		}
	}
}

// A state that nobody changes for long is signed again before it expires.
func TestRoll_Renews(t *testing.T) {
	w := newWorld(t, "centro")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.obey()
	w.must(w.roll())
	before := w.head()
	w.now = w.now.Add(44 * 24 * time.Hour)
	w.must(w.roll())
	if w.head().Version != before.Version {
		t.Error("signed again too early")
	}
	w.now = w.now.Add(2 * 24 * time.Hour)
	w.must(w.roll())
	after := w.head()
	if after.Version != before.Version+1 || !after.Expires.After(before.Expires) || !reflect.DeepEqual(after.Live,
		before.Live) {
		t.Errorf("%+v", after.Desired)
	}
}

// An order that is valid for ten days stays so in every ring.
func TestRoll_Expires(t *testing.T) {
	w := newWorld(t, "centro")
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"},
		Expires: Moment{Time: w.now.Add(10 * 24 * time.Hour)}}))
	w.obey()
	w.now = w.now.Add(24 * time.Hour)
	w.box("centro").report()
	w.must(w.roll())
	if h := w.head(); h.Version != 2 || h.Expires.Sub(h.Issued) != 10*24*time.Hour {
		t.Errorf("version %d, good from %v until %v", h.Version, h.Issued, h.Expires)
	}
	w.must((&Back{}).Run(t.Context(), w.chain))
	w.must(w.publish(Publish{Files: []string{w.bundle("1.1.0", w.rules)}}))
	if h := w.head(); h.Expires.Sub(h.Issued) != DefaultLife {
		t.Errorf("good from %v until %v", h.Issued, h.Expires)
	}
}

// Settings are rolled out in the same way.
func TestPublish_Settings(t *testing.T) {
	w := newWorld(t, "centro")
	all := Percent(fleetproto.Whole)
	publish := func(footer string) *Version {
		w.must(os.WriteFile(w.at("s.json"), []byte(`{"kind":"settings","print_footer":"`+footer+`"}`), 0o600))
		w.must(w.publish(Publish{Files: []string{w.at("s.json")}, Share: &all}))
		return w.head()
	}
	h := publish("hola")
	data := w.store.Held(fleetproto.SettingsKey(h.Rollout.State.Settings))
	if s, err := fleetproto.ParseSettings(data); err != nil || s.Footer != "hola" ||
		fleetproto.Digest(data) != h.Rollout.State.Settings {
		t.Error(s, err)
	}
	w.obey()
	b := w.box("centro")
	b.status.Settings = h.Rollout.State.Settings
	b.report()
	w.must(w.roll())
	if h := publish("hola"); h.Rollout != nil {
		t.Errorf("a roll-out of what is live: %+v", h.Rollout)
	}
	if h := publish("adiós"); h.Rollout == nil {
		t.Error("no roll-out of other settings")
	}
}

func TestPercent(t *testing.T) {
	for text, want := range map[string]int{"5": 500, "0.25": 25, "100": 10000, "12.5": 1250, "5%": 500, "0": 0,
		"100.01": -1, "-1": -1, "1e2": -1, "": -1, "0.125": -1, "101": -1} {
		var p Percent
		if err := p.UnmarshalText([]byte(text)); (err == nil) != (want >= 0) || err == nil && int(p) != want {
			t.Errorf("%q: %d %v", text, p, err)
		}
	}
	for p, want := range map[Percent]string{500: "5 %", 25: "0.25 %", 1250: "12.5 %", 10000: "100 %",
		0: "0 %"} {
		if p.String() != want {
			t.Errorf("%s, want %s", p, want)
		}
	}
}

// TestRoll_Harms: a rule that a branch admitted, and that MH refuses or that fails, holds its ring after one document
// of one till; after the rule is taken back, the branch has no concern.
func TestRoll_Harms(t *testing.T) {
	for _, c := range []struct {
		code     string
		outcomes dte.Outcomes
		text     string
	}{
		{"rejected", dte.Outcomes{Decided: 1, Refused: 1},
			"MH refuses 1 of the last 1 documents or events of catalogues 1.0.1"},
		{"rejected", dte.Outcomes{Decided: 99, Refused: 60, Failed: 1},
			"MH refuses 60 of the last 99 documents or events of catalogues 1.0.1"},
		{"failing", dte.Outcomes{Failed: 1}, "catalogues 1.0.1 failed at 1 of its last 1 documents or events"},
		{"failing", dte.Outcomes{Decided: 9, Refused: 1, Failed: 8},
			"catalogues 1.0.1 failed at 8 of its last 17 documents or events"},
	} {
		w := newWorld(t, "a", "b", "c")
		whole := Percent(fleetproto.Whole)
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &whole}))
		w.obey()
		w.must(w.roll())
		w.obey()
		w.must(w.publish(Publish{Files: []string{w.bundle("1.0.1", w.rules)}, Pilots: []string{"a"}}))
		w.obey()
		w.box("a").status.Rules[0].Outcomes = c.outcomes
		w.box("a").report()
		if err := w.roll(); !errors.Is(err, errHarms) || !w.head().Rollout.Held {
			t.Fatalf("%s: the ring is not held: %v", c.code, err)
		}
		if got := w.codes("a"); !slices.Equal(got, []string{c.code}) {
			t.Error(got)
		}
		if got := w.text(); !strings.Contains(got, c.text) {
			t.Error(got)
		}
		w.must((&Back{Group: "tiendas"}).Run(t.Context(), w.chain))
		w.obey()
		if got := w.codes("a"); len(got) != 0 {
			t.Errorf("after it went back: %v", got)
		}
	}
}

// TestPublish_FewerCases: a bundle with fewer golden cases than the bundle that it replaces is published only if that
// is meant; the order tells the branches so.
func TestPublish_FewerCases(t *testing.T) {
	w := newWorld(t, "a")
	edition := func(version string, changes ...bundletest.Change) string {
		file := w.at(version + ".dterule")
		w.must(os.WriteFile(file, bundletest.EditionSigned(t, "dte01/v2", version, bundle.Signer(w.rules), changes...),
			0o600))
		return file
	}
	whole := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{edition("3.0.0")}, Share: &whole}))
	w.obey()
	w.must(w.roll())
	cut := Publish{Files: []string{edition("3.0.1", bundletest.Refusals)}}
	if err := w.publish(cut); err == nil || !strings.Contains(err.Error(), "--fewer-cases") {
		t.Fatalf("fewer cases went out: %v", err)
	}
	cut.FewerCases, cut.AmountsChange = true, true
	w.must(w.publish(cut))
	if r := w.head().Rollout.State.Rules[0]; !r.FewerCases || !r.AmountsChange {
		t.Errorf("%+v", r)
	}
}

// TestPublish_BesideLaw: while a law waits for its day, the chain names it beside the rule of today. A correction of
// today's rule has a version below the law's; nothing is published in whose place the law would be lost. Who corrects
// today's rule, or puts the law off, reads that the law stays.
func TestPublish_BesideLaw(t *testing.T) {
	w := newWorld(t, "a")
	edition := func(version, from string) string {
		file := w.at(version + " " + from + ".dterule")
		w.must(os.WriteFile(file, bundletest.EditionSigned(t, "dte01/v2", version, bundle.Signer(w.rules),
			bundletest.In(from, "")), 0o600))
		return file
	}
	whole := Percent(fleetproto.Whole)
	const today, day = "2026-01-01", "2027-01-01"
	reach := func() {
		t.Helper()
		w.obey()
		w.now = w.now.Add(2 * time.Hour)
		w.obey()
		w.must(w.roll())
	}
	w.must(w.publish(Publish{Files: []string{edition("2.5.0", "2026-01-01")}, Share: &whole}))
	reach()
	w.must(w.publish(Publish{Files: []string{edition("3.0.0", day)}, Share: &whole}))
	reach()
	out := term.Out
	defer func() { term.Out = out }()
	for _, c := range []struct {
		files []string
		says  string // or the error
		live  string // if it reaches all
	}{
		{[]string{edition("2.6.0", today)}, "dte01 3.0.0 still begins on 2027-01-01", "dte01 2.6.0, dte01 3.0.0"},
		{[]string{edition("3.2.0", "2027-03-01")}, "dte01 3.0.0 still begins on 2027-01-01",
			"dte01 3.2.0, dte01 3.0.0, dte01 2.5.0"},
		{[]string{edition("3.3.0", day)}, "", "dte01 3.3.0, dte01 2.5.0"},
		{[]string{edition("3.1.0", today), edition("3.3.1", day)}, "", "dte01 3.1.0, dte01 3.3.1"},
		{[]string{edition("3.1.1", "2026-12-15")}, "dte01 3.0.0 would be lost, which begins on 2027-01-01", ""},
		{[]string{edition("3.1.2", today)}, "dte01 3.0.0 would be lost, which begins on 2027-01-01", ""},
		{[]string{edition("2.9.0", "2027-03-01")}, "dte01 2.9.0 is not newer than 3.0.0", ""},
		{[]string{edition("2.6.1", "2025-12-01")}, "dte01 2.6.1 would never be in force", ""},
	} {
		printed, err := os.Create(w.at("printed"))
		w.must(err)
		term.Out = term.New(&printed)
		failed := w.publish(Publish{Files: c.files, Share: &whole})
		text, err := os.ReadFile(w.at("printed"))
		w.must(err)
		said := string(text)
		if c.live == "" && failed != nil {
			said = failed.Error()
		}
		if (failed != nil) != (c.live == "") || !strings.Contains(said, c.says) || c.says == "" &&
			strings.Contains(said, "still begins") {
			t.Errorf("%v: %v, %q", c.files, failed, said)
		}
		if failed != nil {
			continue
		}
		if reach(); describe(w.head().Live) != c.live {
			t.Errorf("%v: what all run is %s", c.files, describe(w.head().Live))
		}
		w.must((&Back{}).Run(t.Context(), w.chain))
	}
	w.now = time.Date(2027, 1, 2, 8, 0, 0, 0, time.UTC)
	w.obey()
	w.must(w.publish(Publish{Files: []string{edition("3.4.0", day)}, Share: &whole}))
	if reach(); describe(w.head().Live) != "dte01 3.4.0" {
		t.Errorf("after its day all run %s", describe(w.head().Live))
	}
}

// TestBack_NewGeneration: a new generation of a document is taken back like any other law. After its first day nobody
// lacks the earlier generation, which is no longer desired, and nothing of it is published.
func TestBack_NewGeneration(t *testing.T) {
	w := newWorld(t, "a")
	whole := Percent(fleetproto.Whole)
	reach := func(file string) {
		t.Helper()
		w.must(w.publish(Publish{Files: []string{file}, Share: &whole}))
		w.obey()
		w.now = w.now.Add(2 * time.Hour)
		w.obey()
		w.must(w.roll())
		w.obey()
	}
	reach(w.generation(1, "1.0.0", w.rules))
	if err := (&Back{}).Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(), "nothing was desired for") {
		t.Errorf("back from what had nothing before it: %v", err)
	}
	reach(w.begins("2026-12-01", 2, "2.0.0", w.rules))
	w.must((&Back{}).Run(t.Context(), w.chain))
	if got := describe(w.head().Live); got != "catalogues 1.0.0" {
		t.Errorf("back: %s", got)
	}
	reach(w.begins("2026-12-01", 2, "2.0.1", w.rules))
	if got := describe(w.head().Live); got != "catalogues 2.0.1, catalogues 1.0.0" {
		t.Errorf("before its day: %s", got)
	}
	w.now = time.Date(2026, 12, 1, 4, 20, 0, 0, time.UTC) // a box's clock may be behind the centre's midnight
	reach(w.begins("2026-12-01", 2, "2.0.2", w.rules))
	if got := describe(w.head().Live); got != "catalogues 2.0.2, catalogues 1.0.0" {
		t.Errorf("just after midnight: %s", got)
	}
	w.now = time.Date(2026, 12, 2, 14, 0, 0, 0, time.UTC)
	rules := &w.box("a").status.Rules
	*rules = slices.DeleteFunc(*rules, func(r fleetproto.Running) bool { return r.Schema == 1 })
	w.box("a").report()
	if got := w.codes("a"); len(got) != 0 {
		t.Errorf("after its day: %v", got)
	}
	for file, says := range map[string]string{w.generation(1, "1.0.1", w.rules): "would never be in force",
		w.begins("2026-12-02", 2, "2.0.2", w.rules): "is not newer than 2.0.2"} {
		if err := w.publish(Publish{Files: []string{file}}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if reach(w.begins("2026-12-01", 2, "2.0.3", w.rules)); describe(w.head().Live) != "catalogues 2.0.3" {
		t.Errorf("after its day all run %s", describe(w.head().Live))
	}
}
