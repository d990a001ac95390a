package fleet_test

import (
	"testing"
	"time"

	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/wire"
)

// TestAgent_ClosedFirst: whatever request fails, a box that takes a branch over may number only once it knows which points of sale
// were closed for it; and it knows them at the next start, with a silent store.
func TestAgent_ClosedFirst(t *testing.T) {
	point := wire.Point{Establishment: "M001", Point: "P001"}
	play := func(fault func(fleettest.Request) fleettest.Fault) *world {
		w := newWorld(t)
		for epoch, key := range map[int64]wire.Signer{1: signer("burnt", 4), 2: w.box} {
			data, err := wire.SealEnrolment(wire.Enrolment{Branch: "centro", Epoch: epoch, Key: wire.EncodeKey(public(key).Public), At: w.now, By: "ana", After: 2 * (epoch - 1)}, director)
			if err != nil {
				t.Fatal(err)
			}
			w.put(wire.BoxKey("centro", epoch), data)
		}
		w.publish(func(*wire.Desired) {})
		w.publish(func(d *wire.Desired) {
			d.Closed = []wire.ClosedPoint{{Branch: "centro", Establishment: "M001", Point: "P001", Year: 2026, Since: 2},
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
		point wire.Point
		year  int
	}{true: {{point, 2026}}, false: {{point, 2027}, {wire.Point{Establishment: "M001", Point: "P002"}, 2026}}} {
		for _, c := range of {
			if w.agent.Closed(c.point, c.year) != closed {
				t.Errorf("%+v: %v", c, !closed)
			}
		}
	}
}
