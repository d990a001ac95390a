package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
)

// TestAgent_ClosedFirst: whatever request fails, a box that takes a branch over may give numbers only once it knows
// which points of sale were closed for it; and it still knows them at the next start, with a silent store.
func TestAgent_ClosedFirst(t *testing.T) {
	point := fleetproto.Point{Establishment: "M001", Point: "P001"}
	play := func(fault func(fleettest.Request) fleettest.Fault) *world {
		w := newWorld(t)
		for epoch, key := range map[int64]fleetproto.Signer{1: signer("burnt", 4), 2: w.box} {
			data, err := chain.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: epoch,
				Key: fleetproto.EncodeKey(public(key).Public), At: w.now, By: "ana", After: 2 * (epoch - 1)}, director)
			if err != nil {
				t.Fatal(err)
			}
			w.store.Put(fleetproto.BoxKey("centro", epoch), data)
		}
		w.publish(func(*fleetproto.Desired) {})
		w.publish(func(d *fleetproto.Desired) {
			d.Closed = []fleetproto.ClosedPoint{{Branch: "centro", Establishment: "M001", Point: "P001", Year: 2026,
				Since: 2},
				{Branch: "sur", Establishment: "M001", Point: "P002", Year: 2026, Since: 2}}
		})
		w.store.Fault = fault
		w.start()
		for range 40 {
			if s := w.agent.Fence().Standing(); s.Epoch == 2 && !s.Replaced && !w.agent.Closed(point, 2026) {
				t.Fatal("the box may number, and does not know what is closed")
			}
			w.now = w.now.Add(w.agent.Step(t.Context()))
		}
		return w
	}
	w := play(nil)
	for n := 1; n <= w.store.Requests(); n++ {
		for _, f := range fleettest.Faults {
			play(func(r fleettest.Request) fleettest.Fault {
				if r.Number >= n && r.Number < n+2 {
					return f
				}
				return fleettest.None
			})
		}
	}
	w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Lost }
	w.start()
	w.pass(time.Minute)
	for closed, of := range map[bool][]struct {
		point fleetproto.Point
		year  int
	}{true: {{point, 2026}}, false: {{point, 2027}, {fleetproto.Point{Establishment: "M001", Point: "P002"}, 2026}}} {
		for _, c := range of {
			if w.agent.Closed(c.point, c.year) != closed {
				t.Errorf("%+v: %v", c, !closed)
			}
		}
	}
}

// TestAgent_ClosedForGood: closed points stay closed, whatever the box reads or forgets about the version that closed
// them.
func TestAgent_ClosedForGood(t *testing.T) {
	for name, then := range map[string]func(w *world){
		"a version without it": func(w *world) { w.publish(func(d *fleetproto.Desired) { d.Closed = nil }) },
		"another group": func(w *world) {
			w.group, w.last = "sur",
				nil
			w.publish(func(*fleetproto.Desired) {})
			w.start()
		},
		"another key":         func(w *world) { w.directors = []fleetproto.Key{public(signer("next", 5))}; w.start() },
		"a store rolled back": func(w *world) { w.store.Lose(fleetproto.DesiredKey("norte", 1)); w.start() },
	} {
		w := newWorld(t)
		w.enrol(1, w.box, director)
		w.publish(func(d *fleetproto.Desired) {
			d.Closed = []fleetproto.ClosedPoint{{Branch: "centro", Establishment: "M001", Point: "P001", Year: 2026,
				Since: 1}}
		})
		w.start()
		w.pass(5 * time.Minute)
		then(w)
		for range 20 {
			if !w.agent.Closed(points[0], 2026) || w.agent.Closed(points[0], 2027) {
				t.Fatalf("%s: a closed point of sale is open", name)
			}
			w.now = w.now.Add(w.agent.Step(t.Context()))
		}
	}
}

// enrolAs writes an enrolment as changed by alter.
func (w *world) enrolAs(box, by fleetproto.Signer, epoch int64, alter func(*fleetproto.Enrolment)) {
	w.t.Helper()
	e := fleetproto.Enrolment{Branch: "centro", Epoch: epoch, Key: fleetproto.EncodeKey(public(box).Public), At: w.now,
		By: "ana", Points: points}
	if alter != nil {
		alter(&e)
	}
	data, err := chain.Seal(&e, by)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store.Put(fleetproto.BoxKey("centro", epoch), data)
}

func (w *world) numbers(p fleetproto.Point) bool { return w.agent.Fence().Standing().Numbers(p) }

// TestAgent_NeverEnrolled: a box that nobody enrolled gives no numbers, whether the store is silent, empty or has
// another box's enrolment; a box that was enrolled continues with a silent store.
func TestAgent_NeverEnrolled(t *testing.T) {
	silent := func(fleettest.Request) fleettest.Fault { return fleettest.Lost }
	for name, arm := range map[string]func(*world){
		"silent":         func(w *world) { w.enrol(1, w.box, director); w.store.Fault = silent },
		"nothing there":  func(*world) {},
		"another box's":  func(w *world) { w.enrol(1, signer("other", 4), director) },
		"of another key": func(w *world) { w.enrol(1, w.box, thief) },
		"of no point of this box": func(w *world) {
			w.enrolAs(w.box, director, 1,
				func(e *fleetproto.Enrolment) { e.Points = nil })
		},
	} {
		w := newWorld(t)
		arm(w)
		w.start()
		for range 50 {
			if w.numbers(points[0]) {
				t.Fatalf("%s: the box numbers", name)
			}
			w.now = w.now.Add(w.agent.Step(t.Context()))
		}
		if l := w.agent.Look(); !slices.Equal(l.Unbound, points) {
			t.Errorf("%s: people see %+v", name, l)
		}
	}
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.start()
	w.pass(time.Minute)
	w.store.Fault = silent
	w.start()
	if w.pass(time.Hour); !w.numbers(points[0]) {
		t.Error("a box that was enrolled stops with a silent store")
	}
}

// TestAgent_Window: a box that reaches the store gives numbers at most a minute longer than its successor begins, and
// after a silence of the store it asks about its enrolment within seconds, whichever request finds the store back.
func TestAgent_Window(t *testing.T) {
	w := newWorld(t)
	w.poll, w.look = 0, 0
	w.enrol(1, w.box, director)
	w.start()
	w.pass(time.Hour)
	replaced := func(within time.Duration) {
		t.Helper()
		for from := w.now; !w.agent.Fence().Standing().Replaced; w.now = w.now.Add(w.agent.Step(t.Context())) {
			if w.now.Sub(from) > within {
				t.Fatalf("the old box numbers for more than %s", within)
			}
		}
	}
	state, err := w.disk.Load()
	if err != nil {
		t.Fatal(err)
	}
	w.enrol(2, signer("new", 4), director)
	w.disk.Fail = errors.New("the disk is full") // nothing can be written: the fence closes nevertheless
	replaced(time.Minute)

	w.disk = &fleettest.File{}
	if err := w.disk.Save(state); err != nil {
		t.Fatal(err)
	}
	w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Failed }
	w.start()
	w.pass(time.Hour)
	w.store.Fault = nil
	replaced(lookSoon)

	// The look at the desired state finds the store back.
	w.disk = &fleettest.File{}
	if err := w.disk.Save(state); err != nil {
		t.Fatal(err)
	}
	back := false
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if back = back || r.Key == fleetproto.DesiredKey("norte", 1); back {
			return fleettest.None
		}
		return fleettest.Failed
	}
	w.start()
	for !back {
		if wait := w.agent.Step(t.Context()); !back {
			w.now = w.now.Add(wait)
		}
	}
	replaced(0)
}

// lookSoon is how soon a box asks again after the store did not answer.
const lookSoon = 15 * time.Second

// TestAgent_Points: a box gives numbers only at the points of sale in its enrolment; the director signs the same
// enrolment again with more of them, and an older signature takes none away.
func TestAgent_Points(t *testing.T) {
	w := newWorld(t)
	second := fleetproto.Point{Establishment: "M001", Point: "P002"}
	w.enrol(1, w.box, director)
	old := w.store.Held(fleetproto.BoxKey("centro", 1))
	w.start()
	w.pass(time.Minute)
	if !w.numbers(points[0]) || w.numbers(second) {
		t.Errorf("%+v", w.agent.Fence().Standing())
	}
	w.now = w.now.Add(time.Minute)
	w.enrolAs(w.box, director, 1, func(e *fleetproto.Enrolment) { e.Points = append(e.Points, second) })
	w.pass(3 * time.Hour)
	if !w.numbers(points[0]) || !w.numbers(second) {
		t.Errorf("signed again: %+v", w.agent.Fence().Standing())
	}
	w.store.Put(fleetproto.BoxKey("centro", 1), old)
	w.pass(3 * time.Hour)
	w.start()
	if !w.numbers(second) {
		t.Errorf("an older signing: %+v", w.agent.Fence().Standing())
	}
	w.store.Lose(fleetproto.BoxKey("centro", 1)) // and rolled back, the epoch goes to another box
	w.pass(3 * time.Hour)
	if !w.numbers(second) {
		t.Errorf("its enrolment is lost: %+v", w.agent.Fence().Standing())
	}
	w.enrol(1, signer("other", 4), director)
	w.pass(3 * time.Hour)
	if w.numbers(points[0]) || !w.agent.Fence().Standing().Replaced {
		t.Errorf("two boxes have one epoch: %+v", w.agent.Fence().Standing())
	}
}

// TestAgent_Rekey: the director's key is lost, or stolen. The new key is after the old key in the list, or alone in it.
// What the new key signed again counts, and what the old key signs from then on does not; a replaced box stays
// replaced, and a box that only the thief replaced continues.
func TestAgent_Rekey(t *testing.T) {
	next := signer("next", 5)
	keys := []fleetproto.Key{public(director), public(next)}
	for name, list := range map[string][]fleetproto.Key{"behind the old one": keys, "alone": keys[1:]} {
		for who, forged := range map[string]bool{"another box": false, "the thief's box": true} {
			w := newWorld(t)
			first, second := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1")
			other := signer("other", 4)
			w.enrol(1, w.box, director)
			w.live(first)
			w.start()
			w.pass(3 * time.Minute)
			w.enrol(2, other, director)
			w.pass(6 * time.Minute)
			w.directors = list
			w.start()
			if w.pass(time.Hour); w.numbers(points[0]) {
				t.Errorf("%s, %s: nothing was signed again, and the box numbers", name, who)
			}
			// dtectl fleet rekey: the enrolments, the highest first, then the desired state.
			if !forged {
				w.enrolAs(other, next, 2, func(e *fleetproto.Enrolment) { e.Highest = 2 })
			}
			w.enrolAs(w.box, next, 1, func(e *fleetproto.Enrolment) {
				e.Highest = 2
				if forged {
					e.Highest = 1
				}
			})
			w.by = next
			w.live(second)
			w.pass(time.Hour)
			if w.numbers(points[0]) != forged {
				t.Fatalf("%s, %s: %+v", name, who, w.agent.Fence().Standing())
			}
			if !forged {
				continue
			}
			if w.where(second) != "live" {
				t.Errorf("%s: the new key's order is not followed: %s", name, w.status().Desired.Trouble)
			}
			// The old key signs orders and enrolments; a box whose state is lost reads everything anew.
			w.by = director
			w.live(first)
			w.enrol(3, thief, director)
			w.pass(time.Hour)
			if s := w.status(); s.Desired.Version != 2 || s.Replaced || w.where(second) != "live" ||
				!strings.Contains(s.Desired.Trouble, "not signed by the key") {
				t.Errorf("%s: the stolen key orders: %+v, %s", name, s, w.where(second))
			}
			w.by = next
			w.live(second) // behind what the thief put there
			w.disk = &fleettest.File{}
			w.start()
			w.pass(time.Hour)
			if s := w.status(); s.Desired.Version != 4 || s.Epoch != 1 || !w.numbers(points[0]) {
				t.Errorf("%s: a new state: %+v", name, s)
			}
		}
	}
}

// TestAgent_Mends: a version that the store lost and the centre wrote again stops the box until a later version names
// both digests.
func TestAgent_Mends(t *testing.T) {
	w := newWorld(t)
	first, second, third := w.rule("catalogos", "1.0.0"), w.rule("catalogos", "1.0.1"), w.rule("catalogos", "1.0.2")
	w.enrol(1, w.box, director)
	w.live(first)
	w.start()
	before, bytes := *w.last, w.data
	w.live(second)
	lost := fleetproto.Verified{Version: 2, Digest: fleetproto.Digest(w.data)}
	w.pass(2 * time.Minute)
	w.store.Lose(fleetproto.DesiredKey(w.group, 2))
	w.last, w.data = &before, bytes
	w.now = w.now.Add(time.Hour)
	w.live(third) // another version 2
	w.live(third)
	w.pass(48 * time.Hour)
	if s := w.status(); s.Desired.Version != 2 || s.Desired.Digest != lost.Digest ||
		!strings.Contains(s.Desired.Trouble, "does not follow the version 2") || w.where(third) != "" {
		t.Errorf("%+v, %s", s.Desired, w.where(third))
	}
	requests := w.store.Requests()
	if w.pass(10 * time.Hour); (w.store.Requests()-requests)/10 > 120 {
		t.Errorf("it asks %d times an hour", (w.store.Requests()-requests)/10)
	}
	w.store.Put(fleetproto.DesiredKey(w.group, 4), []byte("{")) // somebody else's
	w.data = []byte("{")
	w.last.Version = 4
	w.publish(func(d *fleetproto.Desired) { d.Mends = []fleetproto.Verified{{Version: 1, Digest: lost.Digest}, lost} })
	w.live(third)
	w.pass(15 * time.Minute)
	if s := w.status(); s.Desired.Version != 6 || s.Desired.Trouble != "" || w.where(third) != "live" {
		t.Errorf("%+v, %s", s.Desired, w.where(third))
	}
}

// TestAgent_WaitsToNumber: a box gives no numbers by an enrolment before it knows the version, and the later epochs,
// that the enrolment names.
func TestAgent_WaitsToNumber(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(*fleetproto.Enrolment)
		then  func(*world)
	}{
		"the next version": {func(e *fleetproto.Enrolment) { e.After = 2 },
			func(w *world) { w.publish(func(*fleetproto.Desired) {}) }},
		"the next epoch": {func(e *fleetproto.Enrolment) { e.Highest = 2 }, func(w *world) {
			w.enrol(2, w.box,
				director)
		}},
	} {
		w := newWorld(t)
		w.publish(func(*fleetproto.Desired) {})
		w.enrolAs(w.box, director, 1, c.alter)
		w.start()
		if w.pass(20 * time.Minute); w.numbers(points[0]) {
			t.Errorf("%s is not there, and the box numbers", name)
		}
		c.then(w)
		if w.pass(20 * time.Minute); !w.numbers(points[0]) {
			t.Errorf("%s is there, and the box does not number: %+v", name, w.agent.Fence().Standing())
		}
	}
}

// TestAgent_ForeignEnrolments: objects without a trusted signature, or that the store does not return, in the place of
// the next enrolments, hide no enrolment after them.
func TestAgent_ForeignEnrolments(t *testing.T) {
	for _, foreign := range []int64{1, 15} {
		for _, unread := range []fleettest.Fault{fleettest.None, fleettest.Unread} {
			w := newWorld(t)
			w.enrol(1, w.box, director)
			w.start()
			w.pass(10 * time.Minute)
			for n := range foreign {
				w.enrol(2+n, w.box, thief)
			}
			w.enrol(2+foreign, signer("new", 4), director)
			w.store.Fault = func(r fleettest.Request) fleettest.Fault {
				if r.Key == fleetproto.BoxKey("centro", 2) {
					return unread
				}
				return fleettest.None
			}
			if w.pass(10 * time.Minute); !w.agent.Fence().Standing().Replaced {
				t.Errorf("behind %d others, %v, the box does not see who replaced it", foreign, unread)
			}
		}
	}
}

// TestAgent_OwnEpoch: a replaced box reports under its former epoch, even after the signer of that enrolment is no
// longer trusted.
func TestAgent_OwnEpoch(t *testing.T) {
	w := newWorld(t)
	next := signer("next", 5)
	w.directors = append(w.directors, public(next))
	w.enrol(1, w.box, director)
	w.publish(func(*fleetproto.Desired) {})
	w.start()
	w.pass(10 * time.Minute)
	w.by = next
	w.publish(func(*fleetproto.Desired) {})
	w.pass(10 * time.Minute)
	w.enrol(2, signer("new", 4), next)
	w.pass(10 * time.Minute)
	if s := w.agent.Fence().Standing(); s.Epoch != 1 || !s.Replaced {
		t.Errorf("%+v", s)
	}
}

// TestEnrolled: a box whose key was enrolled again after another box is replaced, by its state or without it.
func TestEnrolled(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.enrol(2, signer("new", 4), director)
	w.enrol(3, w.box, director)
	for range 2 {
		s, answered, err := fleet.Enrolled(t.Context(), *w.options())
		if !s.Replaced || s.Epoch != 1 || s.Highest != 3 || !answered || err != nil {
			t.Errorf("%+v %v %v", s, answered, err)
		}
		w.start()
		w.pass(10 * time.Minute)
	}
}

// TestFence_Close: a box of which a copy runs gives no numbers, whatever its enrolment says later.
func TestFence_Close(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.start()
	w.pass(10 * time.Minute)
	w.agent.Fence().Close()
	for range 2 {
		if s := w.agent.Fence().Standing(); w.numbers(points[0]) || !s.Replaced || !s.Cloned {
			t.Errorf("%+v", s)
		}
		w.enrol(2, w.box, director)
		w.pass(10 * time.Minute)
	}
}

// TestEnrol_AlteredHistory: a box that has verified nothing yet does not need versions that somebody overwrote in the
// store: the first version that the director signed is its first.
func TestEnrol_AlteredHistory(t *testing.T) {
	for _, first := range []int64{1, 2} {
		alteredHistory(t, first)
	}
}

func alteredHistory(t *testing.T, first int64) {
	w := newWorld(t)
	rule := w.rule("rate", "1.0.0")
	for range 4 {
		w.live(rule)
	}
	w.store.Put(fleetproto.DesiredKey("norte", first), []byte("x"))
	other, err := chain.Seal(w.last, thief)
	if err != nil {
		t.Fatal(err)
	}
	w.store.Put(fleetproto.DesiredKey("norte", first+1), other)
	w.enrolAfter(1, w.box, director, 4)
	w.start()
	w.pass(10 * time.Minute)
	if s := w.agent.Fence().Standing(); s.Epoch != 1 || w.status().Desired.Trouble != "" || w.where(rule) != "live" {
		t.Errorf("%+v, %q, %q", s, w.status().Desired.Trouble, w.where(rule))
	}
	w.store.Put(fleetproto.DesiredKey("norte", 4), other) // what it has verified is its floor
	w.live(rule)
	w.pass(10 * time.Minute)
	if reached := w.status().Desired; reached.Version != 5 || reached.Trouble != "" {
		t.Errorf("%+v", reached)
	}
}

// reported writes a status with last numbers of 2026, by type, point of sale and number: "01/M001/P001".
func (w *world) reported(box fleetproto.Signer, epoch int64, last map[string]uint64) {
	w.t.Helper()
	s := fleetproto.Status{Branch: "centro", Group: w.group, Epoch: epoch, Sequence: 100, At: w.now,
		Key: fleetproto.EncodeKey(public(box).Public), Last: last}
	data, err := chain.Seal(&s, box)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store.Put(fleetproto.StatusKey("centro", epoch), data)
}

// TestAgent_Behind: a box takes no point of sale of an enrolment where the branch's boxes gave numbers that its own
// store lacks. At those that it has, it goes on.
func TestAgent_Behind(t *testing.T) {
	const series = "00/01/M001/P001/2026"
	other := fleetproto.Point{Establishment: "M001", Point: "P002"}
	both := func(e *fleetproto.Enrolment) { e.Points = append([]fleetproto.Point{other}, points...) }
	for name, play := range map[string]func(w *world) (behind bool){
		"first enrolled": func(w *world) bool {
			w.enrol(2, w.box, director)
			return true
		},
		"first enrolled, recovered": func(w *world) bool {
			w.enrol(2, w.box, director)
			w.numbered = map[string]uint64{series: 20}
			return false
		},
		"a clock of last year": func(w *world) bool {
			w.enrol(2, w.box, director)
			right := w.now
			w.now = w.now.AddDate(-1, 0, 0)
			w.start()
			w.pass(time.Hour)
			w.now = right
			return true
		},
		"a clock of next year": func(w *world) bool {
			w.enrol(2, w.box, director)
			right := w.now
			w.now = w.now.AddDate(1, 0, 0)
			w.start()
			w.pass(time.Hour)
			w.now = right
			w.start()
			return true
		},
		"enrolled by a clock of next year": func(w *world) bool {
			right := w.now
			w.now = w.now.AddDate(1, 0, 0)
			w.enrol(2, w.box, director)
			w.now = right
			return true
		},
		"enrolled when the series has ended": func(w *world) bool {
			w.now = w.now.AddDate(1, 0, 0)
			w.enrol(2, w.box, director)
			return false
		},
		"added later": func(w *world) bool {
			w.enrolAs(w.box, director, 2, func(e *fleetproto.Enrolment) { e.Points = []fleetproto.Point{other} })
			w.start()
			w.pass(time.Hour)
			w.enrolAs(w.box, director, 2, both)
			w.pass(time.Hour)
			if !w.numbers(other) {
				t.Errorf("added later: nothing is numbered where it could: %+v", w.agent.Fence().Standing())
			}
			return true
		},
		"added later, recovered": func(w *world) bool {
			w.enrolAs(w.box, director, 2, func(e *fleetproto.Enrolment) { e.Points = []fleetproto.Point{other} })
			w.start()
			w.pass(time.Hour)
			w.enrolAs(w.box, director, 2, both)
			w.pass(time.Hour)
			w.numbered = map[string]uint64{series: 20}
			return false
		},
		"closed for the year of its numbers": func(w *world) bool {
			w.publish(func(d *fleetproto.Desired) {
				d.Closed = []fleetproto.ClosedPoint{{Branch: "centro", Establishment: "M001", Point: "P001", Year: 2026,
					Since: 1}}
			})
			w.enrolAs(w.box, director, 2, func(e *fleetproto.Enrolment) { e.After = 1 })
			return false
		},
		"the key was stolen": func(w *world) bool {
			w.enrolAs(w.box, director, 2, func(e *fleetproto.Enrolment) { e.Stolen = true })
			return false
		},
		"the key was stolen before": func(w *world) bool {
			w.enrolAs(signer("next", 5), director, 2, func(e *fleetproto.Enrolment) { e.Stolen = true })
			w.reported(signer("next", 5), 2, map[string]uint64{series: 7})
			w.enrol(3, w.box, director)
			w.numbered = map[string]uint64{series: 7}
			return false
		},
		"the key was stolen, and the next box died": func(w *world) bool {
			w.enrolAs(signer("next", 5), director, 2, func(e *fleetproto.Enrolment) { e.Stolen = true })
			w.reported(signer("next", 5), 2, map[string]uint64{series: 7})
			w.enrol(3, w.box, director)
			return true
		},
	} {
		w := newWorld(t)
		dead := signer("dead", 4)
		w.enrol(1, dead, director)
		w.reported(dead, 1, map[string]uint64{series: 20, "00/01/M002/P001/2026": 30, "acts": 40})
		behind := play(w)
		if w.agent == nil {
			w.start()
		}
		w.pass(3 * time.Hour)
		if w.numbers(points[0]) == behind {
			t.Errorf("%s: %+v, %s", name, w.agent.Fence().Standing(), w.agent.Look().Trouble)
		}
		if s, _, _ := fleet.Enrolled(t.Context(), *w.options()); s.Numbers(points[0]) == behind {
			t.Errorf("%s: doctor sees %+v", name, s)
		}
		if behind && !strings.Contains(w.agent.Look().Trouble, "of "+series) {
			t.Errorf("%s: nobody says why: %s", name, w.agent.Look().Trouble)
		}
	}
}

// soldOn is an enrolled box whose series has gone from number 4, at which the agent's state (old) was kept, to 21.
func soldOn(t *testing.T, series string) (w *world, old []byte) {
	t.Helper()
	w = newWorld(t)
	w.enrol(1, w.box, director)
	w.numbered = map[string]uint64{series: 4}
	w.start()
	w.pass(time.Hour)
	old, err := w.disk.Load()
	if err != nil {
		t.Fatal(err)
	}
	w.numbered = map[string]uint64{series: 21}
	w.pass(time.Hour)
	return w, old
}

// TestAgent_ImageEnrolledAgain: an image of a box that is enrolled again with its own key, for a new epoch, numbers
// nothing, whether it ran before that or not.
func TestAgent_ImageEnrolledAgain(t *testing.T) {
	const series = "00/01/M001/P001/2026"
	for _, running := range []bool{false, true} {
		w, old := soldOn(t, series)
		w.numbered = map[string]uint64{series: 4}
		if err := w.disk.Save(old); err != nil {
			t.Fatal(err)
		}
		if running {
			w.start()
			w.pass(time.Hour)
		}
		w.enrol(2, w.box, director)
		if running {
			w.pass(time.Hour)
		}
		w.start()
		w.pass(time.Hour)
		if w.numbers(points[0]) {
			t.Errorf("running %v: it numbers after 4 again: %+v", running, w.agent.Fence().Standing())
		}
	}
}

// TestAgent_ClosedGauge: a point of sale counts as closed until the year ends in El Salvador.
func TestAgent_ClosedGauge(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.publish(func(d *fleetproto.Desired) {
		d.Expires = w.now.AddDate(1, 0, 0)
		d.Closed = []fleetproto.ClosedPoint{{Branch: "centro", Establishment: "M001", Point: "P001", Year: 2026, Since: 1}}
	})
	w.start()
	w.pass(time.Hour)
	midnight := time.Date(2027, 1, 1, 6, 0, 0, 0, time.UTC)
	for at, closed := range map[time.Time]float64{midnight.Add(-time.Second): 1, midnight: 0} {
		w.now = at
		if got := metrictest.Values(t, w.agent)["dte_fleet_closed_points"]; got != closed {
			t.Errorf("%v: %v are closed, want %v", at, got, closed)
		}
	}
}

// TestAgent_BehindAtOne: a box takes a new epoch, and reports under it, without the point of sale at which its store is
// behind, also over a restart; recovered, it takes that point of sale too.
func TestAgent_BehindAtOne(t *testing.T) {
	const series = "00/01/M001/P001/2026"
	other := fleetproto.Point{Establishment: "M001", Point: "P002"}
	w := newWorld(t)
	dead := signer("dead", 4)
	w.enrol(1, dead, director)
	w.reported(dead, 1, map[string]uint64{series: 20})
	w.enrolAs(w.box, director, 2, func(e *fleetproto.Enrolment) { e.Points = []fleetproto.Point{other} })
	w.start()
	w.pass(time.Hour)
	w.enrolAs(w.box, director, 3, func(e *fleetproto.Enrolment) { e.Points = append(e.Points, other) })
	for _, silent := range []bool{false, true} {
		if silent {
			w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Lost }
			w.start()
		}
		w.pass(time.Hour)
		if s := w.agent.Fence().Standing(); s.Epoch != 3 || s.Numbers(points[0]) || !s.Numbers(other) ||
			!strings.Contains(s.Behind, "of "+series) {
			t.Errorf("silent %v: %+v", silent, s)
		}
		if s, _, _ := fleet.Enrolled(t.Context(), *w.options()); s.Numbers(points[0]) || !s.Numbers(other) ||
			s.Behind == "" {
			t.Errorf("silent %v: doctor sees %+v", silent, s)
		}
	}
	w.store.Fault = nil
	w.pass(time.Hour)
	if s := w.status(); s.Epoch != 3 || !strings.Contains(s.Desired.Trouble, "of "+series) {
		t.Errorf("status of epoch %d: %+v", s.Epoch, s.Desired)
	}
	w.numbered = map[string]uint64{series: 20}
	w.pass(time.Hour)
	if s := w.agent.Fence().Standing(); !s.Numbers(points[0]) || !s.Numbers(other) || s.Behind != "" {
		t.Errorf("recovered: %+v", s)
	}
}

// TestAgent_LastUnreadable: a box that cannot read its last numbers any more reports those that it read last.
func TestAgent_LastUnreadable(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.numbered = map[string]uint64{"00/01/M001/P001/2026": 20}
	o, broken := w.options(), false
	read := o.Last
	o.Last = func() (map[string]uint64, error) {
		if broken {
			return nil, errors.New("reading series: damaged")
		}
		return read()
	}
	var err error
	if w.agent, err = fleet.New(*o); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Hour)
	broken = true
	for range 2 { // also if it starts so
		w.pass(2 * time.Hour)
		if s := w.status(); len(s.Last) != 1 || w.now.Sub(s.At) > time.Hour {
			t.Errorf("%v at %v", s.Last, s.At)
		}
		if w.agent, err = fleet.New(*o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAgent_BehindAtFirst: a box that was never enrolled numbers nothing before its store lacks nothing at each of its
// points of sale: what it sold meanwhile could not be joined with what it lacks. Recovered, it numbers at all.
func TestAgent_BehindAtFirst(t *testing.T) {
	const series = "00/01/M001/P001/2026"
	other := fleetproto.Point{Establishment: "M001", Point: "P002"}
	w := newWorld(t)
	dead := signer("dead", 4)
	w.enrol(1, dead, director)
	w.reported(dead, 1, map[string]uint64{series: 20})
	w.enrolAs(w.box, director, 2, func(e *fleetproto.Enrolment) { e.Points = append(e.Points, other) })
	w.start()
	w.pass(time.Hour)
	if s := w.agent.Fence().Standing(); s.Epoch != 0 || s.Numbers(other) || !strings.Contains(s.Behind, "of "+series) {
		t.Errorf("%+v", s)
	}
	w.numbered = map[string]uint64{series: 20}
	w.pass(time.Hour)
	if s := w.agent.Fence().Standing(); s.Epoch != 2 || !s.Numbers(points[0]) || !s.Numbers(other) || s.Behind != "" {
		t.Errorf("recovered: %+v", s)
	}
}

// TestAgent_OwnImage: a box that finds a status of itself, with numbers that its store lacks, is an old image of
// itself, or a copy, or its store was made again too low: it numbers nothing, and its next status says so and keeps the
// numbers.
func TestAgent_OwnImage(t *testing.T) {
	const series = "00/01/M001/P001/2026"
	for name, c := range map[string]struct {
		numbered uint64
		state    bool   // the agent's state is put back too
		copied   uint64 // number of a status that a copy of the box then writes; 0: none
		closed   bool   // the shipper then closes the fence
		image    bool
	}{
		"an image":                             {numbered: 4, state: true, image: true},
		"an image that the shipper knows":      {numbered: 4, copied: 21, closed: true, image: true},
		"a copy sells":                         {numbered: 21, copied: 30, closed: true, image: true},
		"a store made again too low":           {numbered: 20, image: true},
		"an old state, and the store is whole": {numbered: 21, state: true},
		"a copy has shipped":                   {numbered: 22, copied: 21, closed: true},
	} {
		w, old := soldOn(t, series)
		last := w.status()
		w.numbered = map[string]uint64{series: c.numbered}
		if c.state {
			if err := w.disk.Save(old); err != nil {
				t.Fatal(err)
			}
		}
		w.start()
		w.agent.Step(t.Context())
		if c.copied > 0 {
			w.reported(w.box, 1, map[string]uint64{series: c.copied})
			last = w.status()
		}
		if c.closed {
			w.agent.Fence().Close()
		}
		if w.numbers(points[0]) != (!c.image && !c.closed) {
			t.Errorf("%s: %+v", name, w.agent.Fence().Standing())
		}
		w.pass(3 * time.Hour)
		if s := w.status(); s.Sequence <= last.Sequence || s.Last[series] < max(c.copied, 21) ||
			s.Replaced != (c.image || c.closed) || c.image != strings.Contains(s.Desired.Trouble, "of "+series) {
			t.Errorf("%s: status %d follows %d with %v, replaced %v: %s", name, s.Sequence, last.Sequence, s.Last,
				s.Replaced, w.agent.Look().Trouble)
		}
	}
}

// TestAgent_StrangersStatus: a status that no box of the branch signed says nothing about the branch's last act, whoever
// can write to the store.
func TestAgent_StrangersStatus(t *testing.T) {
	w := newWorld(t)
	w.enrol(1, w.box, director)
	w.start()
	w.rollout("r1", w.rule("catalogos", "1.0.0"))
	w.pass(30 * time.Minute)
	before := w.status().Acts
	const end = 1_000_000_000_000
	data, err := chain.Seal(&fleetproto.Status{Branch: "centro", Group: "norte", Epoch: 1,
		Key: fleetproto.EncodeKey(public(thief).Public), Sequence: 5, At: w.now, Acts: end}, thief)
	if err != nil {
		t.Fatal(err)
	}
	w.store.Put(fleetproto.StatusKey("centro", 1), data)
	w.store.Put(fleetproto.ActKey("centro", end), []byte("x"))
	w.start()
	w.rollout("r2", w.rule("catalogos", "1.1.0"))
	w.pass(time.Hour)
	if got := w.status().Acts; got >= end || got <= before {
		t.Errorf("the last act is %d, before %d; trouble: %s", got, before, w.agent.Look().Trouble)
	}
}

// TestAgent_FormerStatus: the status of an earlier box of the branch moves neither the numbers of this box's statuses nor,
// if the store lacks the act that it names, the numbers of the acts.
func TestAgent_FormerStatus(t *testing.T) {
	w := newWorld(t)
	former := signer("former", 4)
	w.enrol(1, former, director)
	const end = 1_000_000_000_000
	data, err := chain.Seal(&fleetproto.Status{Branch: "centro", Group: "norte", Epoch: 1,
		Key: fleetproto.EncodeKey(public(former).Public), Sequence: end, At: w.now, Acts: end}, former)
	if err != nil {
		t.Fatal(err)
	}
	w.store.Put(fleetproto.StatusKey("centro", 1), data)
	w.enrol(2, w.box, director)
	w.start()
	w.rollout("r1", w.rule("catalogos", "1.0.0"))
	w.pass(time.Hour)
	if s := w.status(); s.Epoch != 2 || s.Sequence >= end || s.Acts >= end || len(w.acts()) == 0 {
		t.Errorf("%+v; trouble: %s", s, w.agent.Look().Trouble)
	}
}
