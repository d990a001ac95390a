package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/fleet/fleetproto"
	"dtegate/rules/signed"
)

// forge puts a version that looks like the director's, but that the director did not sign, on top of a group.
func (w *world) forge(live fleetproto.State) {
	w.t.Helper()
	h := w.head()
	d := *h.Desired
	d.Version, d.Previous, d.Live, d.Reason = h.Last.Version+1, h.Last.Digest, live, "as ana wished"
	d.Rollout = &fleetproto.Rollout{Name: "r9", State: live, Opened: w.now, Share: fleetproto.Whole}
	payload, err := json.Marshal(&d)
	w.must(err)
	text, err := signed.Sign(payload, fleetproto.Signer{ID: directorID, Private: key("somebody")})
	w.must(err)
	w.must(w.store.Create(w.t.Context(), fleetproto.DesiredKey("tiendas", d.Version), []byte(text)))
}

// TestBack_Forged: an object that the director did not sign, between two of the director's versions, is neither what
// back goes back to nor what the log shows as an order, and does not stop back.
func TestBack_Forged(t *testing.T) {
	for name, put := range map[string]func(w *world){
		"forged": func(w *world) {
			evil := w.head().Live
			evil.Rules = slices.Clone(evil.Rules)
			evil.Settings = fleetproto.Digest([]byte("evil"))
			w.forge(evil)
		},
		"junk": func(w *world) {
			w.must(w.store.Create(t.Context(), fleetproto.DesiredKey("tiendas", w.head().Version+1), []byte("x")))
		},
	} {
		w := newWorld(t, "centro")
		all := Percent(fleetproto.Whole)
		for _, version := range []string{"1.0.0", "1.1.0"} {
			w.must(w.publish(Publish{Files: []string{w.bundle(version, w.rules)}, Share: &all}))
			w.obey()
			if version == "1.1.0" {
				put(w)
			}
			w.now = w.now.Add(2 * time.Hour)
			w.obey()
			w.must(w.roll())
		}
		before, err := w.chain.Version(t.Context(), "tiendas", 2)
		w.must(err)
		events, err := w.chain.orders(t.Context(), w.now.AddDate(0, 0, -1))
		w.must(err)
		for _, e := range events {
			if strings.Contains(e.Detail, "as ana wished") && e.Fault == "" {
				t.Errorf("%s: the log believes %+v", name, e)
			}
		}
		err = (&Back{}).Run(t.Context(), w.chain)
		if h := w.head(); err != nil || fmt.Sprint(h.Live) != fmt.Sprint(before.Live) {
			t.Errorf("%s: back: %v: %+v, not %+v", name, err, h.Live, before.Live)
		}
	}
}
