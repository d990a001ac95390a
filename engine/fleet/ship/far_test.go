package ship_test

import (
	"testing"
	"time"

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

// TestFetch_NamedFar: of the pieces that only the box's status names, a fetch asks for the first ten thousand; it names
// each of them as missing, once.
func TestFetch_NamedFar(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "one")
	w.steps()
	for _, until := range []int64{2, 10_001, 10_002, 10_006} {
		named := w.ship.Shipped()
		named.Segment = until
		data, err := chain.Seal(&fleetproto.Status{Branch: "centro", Group: "norte", Epoch: 1,
			Key: fleetproto.EncodeKey(fleetproto.Public(box).Public), Sequence: 1, At: time.Now(), Copy: named}, box)
		if err == nil {
			err = w.store.Overwrite(t.Context(), fleetproto.StatusKey("centro", 1), data)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := w.store.Requests()
		_, f, err := w.fetch()
		missing := int64(0)
		for _, span := range f.Missing {
			missing += span.To - span.From + 1
		}
		if err != nil || missing != until-1 || w.store.Requests()-before > 10_000+50 {
			t.Errorf("up to piece %d: %v are missing, %v, after %d requests", until, f.Missing, err,
				w.store.Requests()-before)
		}
	}
}
