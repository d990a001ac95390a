package ship_test

import (
	"testing"

	"dtegate/engine/fleet/fleetproto"
)

// TestFar: an object under the key of a piece or an enrolment far behind the last, which anybody with the store's
// credentials may write, costs a fetch and a check few requests and little memory.
func TestFar(t *testing.T) {
	const far, most = 1_000_000, 30_000
	w := newWorld(t)
	junk := func(key string) {
		if err := w.store.Create(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	w.grow("0000000001.copy", "one")
	w.steps()
	want, _, err := w.fetch()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{fleetproto.SegmentKey("centro", 1, far), fleetproto.BoxKey("centro", far)} {
		junk(key)
		before := w.store.Requests()
		if got, _, err := w.fetch(); err != nil || got != want || w.store.Requests()-before > most {
			t.Errorf("%s: %q, %v, after %d requests", key, got, err, w.store.Requests()-before)
		}
	}
	junk(fleetproto.SegmentKey("centro", 2, far))
	before := w.store.Requests()
	w.start(other, 2)
	w.steps()
	if err := w.ship.Check(t.Context()); err != nil || w.store.Requests()-before > most ||
		w.store.Held(fleetproto.SegmentKey("centro", 2, 1)) == nil {
		t.Errorf("%v, after %d requests", err, w.store.Requests()-before)
	}
}
