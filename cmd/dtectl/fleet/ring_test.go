package fleet

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
)

// TestMeasure: what counts for and against a roll-out, over every combination of where a branch is, what its box
// reports, when, and what the centre knows against the report.
func TestMeasure(t *testing.T) {
	const group, elsewhere, ordered = "tiendas", "otros", 7
	ours, foreign := fleetproto.Digest([]byte("ours")), fleetproto.Digest([]byte("foreign"))
	end := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC) // of each soak time
	now := end.Add(SilentAfter / 2)
	bad, good := dte.Outcomes{Decided: 3, Refused: 2}, dte.Outcomes{Decided: 2, Refused: 1}

	rollouts := []fleetproto.Rollout{
		{Opened: end},
		{Opened: end.Add(-time.Hour), SoakSeconds: 3600},
		{Opened: end.Add(-5 * time.Hour), NotBefore: end.Add(-time.Hour), SoakSeconds: 3600},
		{Opened: end.Add(-time.Hour), NotBefore: end.Add(-5 * time.Hour), SoakSeconds: 3600},
	}
	places := []struct {
		branch, enrolled string // enrolled: the group of its enrolment
		lost             string
		counts           bool
	}{{"pilot", group, "", true}, {"outside", group, "", false}, {"pilot", elsewhere, "", false},
		{"pilot", "", "", false}, {"pilot", "", "epoch 2", true}, {"outside", "", "epoch 2", false}}
	reports := []struct {
		group, rollout string // "": no report, no roll-out
		stage          fleetproto.Stage
		tookIt, failed bool
	}{{}, {group: group}, {group, "r6", fleetproto.StageLive, false, false},
		{group, "r6", fleetproto.StageReturned, false, false}, {elsewhere, "r7", fleetproto.StageLive, false, false},
		{elsewhere, "r7", fleetproto.StageRefused, false, false}, {group, "r7", fleetproto.StageOutside, false, false},
		{group, "r7", fleetproto.StageWaiting, false, false}, {group, "r7", fleetproto.StageAdmitted, true, false},
		{group, "r7", fleetproto.StageLive, true, false}, {group, "r7", fleetproto.StageRefused, false, true},
		{group, "r7", fleetproto.StageReturned, false, true}}
	settings := []struct {
		wanted, has string
		lacking     bool
	}{{"", "x", false}, {"x", "x", false}, {"x", "y", true}}
	rules := []struct {
		list    []fleetproto.Running
		harmful bool
	}{{nil, false},
		{[]fleetproto.Running{{Digest: ours, Live: true, Outcomes: good}, {Digest: foreign, Live: true, Outcomes: bad}},
			false},
		{[]fleetproto.Running{{Digest: ours, Outcomes: bad}}, false}, // its first day has not come
		{[]fleetproto.Running{{Digest: foreign, Live: true}, {Digest: ours, Live: true, Outcomes: bad}}, true},
		{[]fleetproto.Running{{Digest: ours, Live: true, Outcomes: dte.Outcomes{Decided: 9, Failed: 1}}}, true}}
	reads := []struct {
		seen            time.Time
		version         int64
		silent, current bool // current: by the last order, and after the soak time
	}{{time.Time{}, ordered, true, false}, {now.Add(-SilentAfter - 1), ordered, true, false},
		{end.Add(-1), ordered, false, false}, {end, ordered, false, true}, {end, ordered - 1, false, false},
		{end, ordered + 1, false, true}}
	concerns := []struct {
		code     string
		doubtful bool
	}{{"", false}, {"delay", false}, {"older", true}, {"acts", true}, {"version", true}}

	combinations := len(rollouts) * len(places) * len(reports) * len(settings) * len(rules) * len(reads) * len(concerns)
	for n := range combinations {
		one := func(of int) (i int) { i, n = n%of, n/of; return i }
		r, place, report := rollouts[one(len(rollouts))], places[one(len(places))], reports[one(len(reports))]
		has, rule, read, concern := settings[one(len(settings))], rules[one(len(rules))], reads[one(len(reads))],
			concerns[one(len(concerns))]
		r.Name, r.Pilots = "r7", []string{"pilot"}
		r.State = fleetproto.State{Rules: []fleetproto.Rule{{}, {Digest: ours}}, Settings: has.wanted}
		b := &Branch{Name: place.branch, Lost: place.lost, Seen: read.seen}
		if place.enrolled != "" {
			b.Enrolment = &fleetproto.Enrolment{Group: place.enrolled}
		}
		if concern.code != "" {
			b.add(Bad, concern.code)
		}
		if report.group != "" {
			b.Status = &fleetproto.Status{Group: report.group, Settings: has.has, Rules: rule.list,
				Desired: fleetproto.Reached{Version: read.version}}
		}
		if report.rollout != "" {
			b.Status.Rollout = &fleetproto.Progress{Name: report.rollout, Stage: report.stage}
		}

		want := Ring{Failed: []string{}, Doubtful: []string{}}
		took := report.tookIt && !has.lacking && place.lost == ""
		switch {
		case !place.counts:
		case report.failed && place.lost == "" || took && rule.harmful:
			want.Boxes, want.Failed = 1, []string{"pilot"}
		case concern.doubtful:
			want.Boxes, want.Doubtful = 1, []string{"pilot"}
		case took && (read.current || r.SoakSeconds == 0 && read.version >= ordered):
			want.Boxes, want.Succeeded, want.Confirmed = 1, 1, 1
		case took:
			want.Boxes, want.Succeeded = 1, 1
		case read.silent:
			want.Boxes, want.Waiting, want.Silent = 1, 1, 1
		default:
			want.Boxes, want.Waiting = 1, 1
		}
		s := &Survey{At: now, Branches: []*Branch{b}, Groups: []*Version{{Desired: &fleetproto.Desired{Group: group,
			Version: ordered, Rollout: &r}}}}
		if got := s.Measure(&r, group); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v\nof %+v %+v %+v %+v %+v %+v in %+v", got, want, place, report, has, rule,
				read, concern, r)
		}
	}
}

// TestRing_Wants: each criterion keeps the next ring closed alone, up to its exact limit, and people read which it is.
func TestRing_Wants(t *testing.T) {
	end := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	r := fleetproto.Rollout{Name: "r1", MinSuccess: 3, Share: 500, Opened: end.Add(-time.Hour), SoakSeconds: 3600}
	whole, held := r, r
	whole.Share, held.Held = fleetproto.Whole, true
	ready := Ring{Boxes: 9, Succeeded: 3, Confirmed: 3, Waiting: 6, Silent: 2}
	for _, c := range []struct {
		why    string
		r      fleetproto.Rollout
		at     time.Time
		change func(*Ring)
		wants  string // a part of it; "": it opens
	}{
		{"enough, although others wait", r, end, func(*Ring) {}, ""},
		{"held", held, end, func(*Ring) {}, "it is held"},
		{"held, and empty", held, end, func(m *Ring) { *m = Ring{} }, "it is held"},
		{"empty, before its soak time is over", r, end.Add(-1), func(m *Ring) { *m = Ring{} }, ""},
		{"a doubtful branch", r, end, func(m *Ring) { m.Doubtful = []string{"sur"} }, "put back something of sur:"},
		{"one too few", r, end, func(m *Ring) { m.Succeeded, m.Confirmed = 2, 2 }, "2 of 9 branches applied it, 3 must"},
		{"a smaller ring, whole", r, end, func(m *Ring) { *m = Ring{Boxes: 2, Succeeded: 2, Confirmed: 2} }, ""},
		{"a smaller ring, not whole", r, end, func(m *Ring) { *m = Ring{Boxes: 2, Succeeded: 1, Confirmed: 1} },
			"1 of 2 branches applied it, 2 must"},
		{"all, and a branch that is there has not said", whole, end, func(*Ring) {}, "4 still have no outcome"},
		{"all, and only silent branches have not said", whole, end, func(m *Ring) { m.Silent = 6 }, ""},
		{"the soak time is almost over", r, end.Add(-1), func(*Ring) {}, "the ring is watched until"},
		{"one confirmation too few", r, end, func(m *Ring) { m.Confirmed = 2 }, "2 branches have read the last order"},
	} {
		m := ready
		c.change(&m)
		if got := m.Wants(&c.r, c.at); (got == "") != (c.wants == "") || !strings.Contains(got, c.wants) {
			t.Errorf("%s: %q, want %q", c.why, got, c.wants)
		}
	}
}

// TestOrders: each verb changes in the desired state what it is for, and nothing else; each order follows the one
// before, is valid as long, and names who gave it and why.
func TestOrders(t *testing.T) {
	w := newWorld(t, "centro", "norte", "sur", "oeste")
	all, tenth := Percent(fleetproto.Whole), Percent(1000)
	publish := func(p Publish, files ...string) func() error {
		p.Files = files
		return func() error { return w.publish(p) }
	}
	opened := func(d *fleetproto.Desired) { d.Rollout.Opened = d.Issued }
	held := func(d *fleetproto.Desired) { d.Rollout.Held = true }
	over := func(d *fleetproto.Desired) { d.Rollout = nil }
	same := func(*fleetproto.Desired) {}
	back := func() error { return (&Back{Reason: "no"}).Run(t.Context(), w.chain) }
	// The rules of the roll-outs; TestPublish_Names and others compare what publish reads of a bundle.
	var first, second []fleetproto.Rule
	for _, s := range []struct {
		what   string
		after  time.Duration
		do     func() error // the boxes have obeyed the last order just before
		harms  bool
		reason string
		change func(*fleetproto.Desired) // nil: no order
	}{
		{"the first for all", 0, publish(Publish{Share: &all}, w.bundle("1.0.0", w.rules)), false, "",
			func(d *fleetproto.Desired) {
				first = w.head().Rollout.State.Rules
				d.Rollout = &fleetproto.Rollout{Name: "r1", Share: fleetproto.Whole, MinSuccess: 1}
				d.Rollout.State.Rules = first
				opened(d)
			}},
		{"it has reached all", time.Hour, w.roll, false, "r1 has reached all",
			func(d *fleetproto.Desired) { d.Live.Rules, d.Rollout = first, nil }},
		{"another generation for all", time.Hour, publish(Publish{Share: &all}, w.generation(1, "1.0.0", w.rules)), false,
			"", func(d *fleetproto.Desired) {
				second = w.head().Rollout.State.Rules
				d.Rollout = &fleetproto.Rollout{Name: "r3", Share: fleetproto.Whole, MinSuccess: 1}
				d.Rollout.State.Rules = second
				opened(d)
			}},
		{"both have reached all", time.Hour, w.roll, false, "r3 has reached all", func(d *fleetproto.Desired) {
			first = []fleetproto.Rule{second[0], first[0]}
			d.Live.Rules, d.Rollout = first, nil
		}},
		{"one generation anew, to a pilot", time.Hour, publish(Publish{Pilots: []string{"centro"}, Soak: time.Hour,
			MaxFailures: all / 2, Share: &tenth, MinSuccess: 2, Reason: "IVA"}, w.bundle("1.1.0", w.rules)), false,
			"IVA", func(d *fleetproto.Desired) {
				second = w.head().Rollout.State.Rules
				d.Rollout = &fleetproto.Rollout{Name: "r5", Pilots: []string{"centro"}, Share: 1000, SoakSeconds: 3600,
					MinSuccess: 2, MaxFailures: fleetproto.Whole / 2}
				d.Rollout.State.Rules = second
				opened(d)
			}},
		{"held", 50 * time.Minute, func() error { return (&Hold{Reason: "quejas"}).Run(t.Context(), w.chain) }, false,
			"quejas", held},
		{"held for long", DefaultLife / 2, w.roll, false, "signed again", same},
		{"resumed", time.Hour, func() error { return (&Resume{Reason: "ya"}).Run(t.Context(), w.chain) }, false, "ya",
			func(d *fleetproto.Desired) { d.Rollout.Held = false; opened(d) }},
		{"the soak time has begun again", 50 * time.Minute, w.roll, false, "", nil},
		{"the next ring", 10 * time.Minute, w.roll, false, "",
			func(d *fleetproto.Desired) { d.Rollout.Share = 2500; opened(d) }},
		{"all", time.Hour, w.roll, false, "",
			func(d *fleetproto.Desired) { d.Rollout.Share = fleetproto.Whole; opened(d) }},
		{"it has reached all", time.Hour, w.roll, false, "r5 has reached all", func(d *fleetproto.Desired) {
			d.Live.Rules, d.Rollout = second, nil // the generation before it has ended
		}},
		{"back from it", time.Minute, back, false, "no",
			func(d *fleetproto.Desired) { d.Live.Rules = first }},
		{"another for all", time.Minute, publish(Publish{Share: &all}, w.bundle("1.2.0", w.rules)), false, "",
			func(d *fleetproto.Desired) {
				second = w.head().Rollout.State.Rules
				d.Rollout = &fleetproto.Rollout{Name: fmt.Sprintf("r%d", d.Version), Share: fleetproto.Whole, MinSuccess: 1}
				d.Rollout.State.Rules = second
				opened(d)
			}},
		{"it fails", time.Minute, func() error {
			w.box("sur").stage = fleetproto.StageReturned
			w.obey()
			return w.roll()
		}, true, "held by itself: 1 of 4 branches that tried r13 failed: sur", held},
		{"back from one under way", time.Minute, back, false, "no", over},
		{"nothing, for almost half its life", DefaultLife/2 - time.Second, w.roll, false, "", nil},
		{"nothing for half its life", time.Second, w.roll, false, "signed again", same},
	} {
		before := &Version{Desired: &fleetproto.Desired{Group: "tiendas", By: w.chain.Who}}
		if s.after > 0 {
			before = w.head()
			w.now = w.now.Add(s.after)
			w.obey()
		}
		if err := s.do(); (err != nil) != s.harms {
			t.Fatalf("%s: %v", s.what, err)
		}
		got, want := w.head(), *before.Desired
		if before.Rollout != nil {
			r := *before.Rollout
			want.Rollout = &r
		}
		if s.change != nil {
			want.Version, want.Previous, want.Reason = before.Version+1, before.Digest, s.reason
			want.Issued, want.Expires = w.now, w.now.Add(DefaultLife)
			s.change(&want)
		}
		want.Head, want.SignedBy = got.Head, got.SignedBy
		if !reflect.DeepEqual(*got.Desired, want) {
			t.Fatalf("%s:\n%+v %+v, want\n%+v %+v", s.what, *got.Desired, got.Rollout, want, want.Rollout)
		}
	}
}

// TestRoll_Groups: an order for one group changes no other group, an order without a group is none where several are,
// and a group that cannot be ordered anything does not keep the rings of others closed.
func TestRoll_Groups(t *testing.T) {
	w := newWorld(t, "centro")
	w.add("bodega").status.Group = "bodegas"
	w.box("bodega").report()
	w.must((&Enrol{All: true}).Run(t.Context(), w.chain))
	groups := []string{"bodegas", "tiendas"}
	for _, g := range groups {
		p := Publish{Group: g, Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"}, MinSuccess: 1}
		if g == "bodegas" {
			p.Pilots = []string{"bodega"}
		}
		w.must(p.Run(t.Context(), w.chain))
	}
	versions := func() (list [2]int64) {
		for i, g := range groups {
			head, err := w.chain.Head(t.Context(), g)
			w.must(err)
			list[i] = head.Version
			b := w.boxes[1-i]
			b.status.Desired = fleetproto.Reached{Version: head.Version, Digest: head.Digest, At: w.now}
			if r := head.Rollout; r != nil && r.InRing(b.status.Branch) {
				b.status.Rollout = &fleetproto.Progress{Name: r.Name, Stage: fleetproto.StageLive}
			}
			b.report()
		}
		return list
	}
	versions()
	for _, c := range []struct {
		what  string
		do    func() error
		fails bool
		want  [2]int64
	}{
		{"a hold of no group", func() error { return (&Hold{}).Run(t.Context(), w.chain) }, true, [2]int64{1, 1}},
		{"a roll of one", func() error {
			return (&Roll{Group: "tiendas"}).Run(t.Context(), w.chain)
		}, false, [2]int64{1, 2}},
		{"a hold of one", func() error { return (&Hold{Group: "tiendas"}).Run(t.Context(), w.chain) }, false,
			[2]int64{1, 3}},
		{"it goes on", func() error { return (&Resume{Group: "tiendas"}).Run(t.Context(), w.chain) }, false,
			[2]int64{1, 4}},
		{"a roll of both, one of which nobody can order", func() error {
			w.store.Fault = func(r fleettest.Request) fleettest.Fault {
				if r.Verb == "create" && strings.HasPrefix(r.Key, fleetproto.DesiredFolder("bodegas")) {
					return fleettest.Faults[0]
				}
				return fleettest.None
			}
			defer func() { w.store.Fault = nil }()
			return w.roll()
		}, true, [2]int64{1, 5}},
	} {
		if err := c.do(); (err != nil) != c.fails {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := versions(); got != c.want {
			t.Errorf("%s: the groups have versions %v, want %v", c.what, got, c.want)
		}
	}
}

// TestRoll_Follow: a roll that follows opens ring after ring, and ends when the roll-out has reached all branches, or
// when it harms.
func TestRoll_Follow(t *testing.T) {
	for _, stage := range []fleetproto.Stage{fleetproto.StageLive, fleetproto.StageRefused} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "centro", "norte")
			w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Pilots: []string{"centro"}}))
			w.box("norte").stage = stage
			done := make(chan error)
			go func() { done <- (&Roll{Follow: true}).Run(t.Context(), w.chain) }()
			for range 20 { // the boxes are slower than the roll looks
				time.Sleep(2*followEvery - time.Second)
				synctest.Wait()
				w.obey()
				time.Sleep(time.Second)
			}
			err, h := <-done, w.head()
			switch {
			case stage == fleetproto.StageLive:
				if err != nil || h.Rollout != nil || len(h.Live.Rules) != 1 {
					t.Errorf("%v, %+v", err, h.Desired)
				}
			case !errors.Is(err, errHarms) || h.Rollout == nil || !h.Rollout.Held || len(h.Live.Rules) != 0:
				t.Errorf("%v, %+v", err, h.Desired)
			}
		})
	}
}
