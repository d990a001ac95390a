package fleet_test

import (
	"context"
	"fmt"
	"time"

	fleetwire "dtegate/engine/fleet/fleetproto"
	"dtegate/rules/bundle"
)

func (c *network) put(key string, data []byte) {
	if err := c.store.Create(context.Background(), key, data); err != nil {
		c.t.Fatal(err)
	}
}

// publish orders the next version of a catalogue: for all, for a ring, or back to the previous version for all.
func (c *network) publish() {
	c.order(func(d *fleetwire.Desired) {
		if d.Rollout != nil && c.rand.IntN(2) == 0 { // back, or to all
			if c.rand.IntN(2) == 0 {
				d.Live = d.Rollout.State.Over(d.Live)
			}
			d.Rollout = nil
			return
		}
		r := c.rule()
		if d.Version == 1 || c.rand.IntN(3) == 0 {
			d.Live, d.Rollout = fleetwire.State{Rules: []fleetwire.Rule{r}}, nil
			return
		}
		d.Rollout = &fleetwire.Rollout{Name: fmt.Sprint("r", c.version),
			State: fleetwire.State{Rules: []fleetwire.Rule{r}}, Share: 1 + c.rand.IntN(fleetwire.Whole),
			Opened: time.Now().UTC()}
	})
}

// rule puts the next version of the catalogue into the store.
func (c *network) rule() fleetwire.Rule {
	c.version++
	m := bundle.Manifest{Name: "catalogos", Version: fmt.Sprintf("1.0.%d", c.version), Kind: "catalogue",
		Document: "catalogos", Validity: map[string]bundle.Window{"00": {From: "2026-01-01"}}}
	data, err := bundle.Write(map[string][]byte{"catalogues.json": []byte("{}")}, m, chainAuthor)
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := bundle.Inspect(data)
	if err != nil {
		c.t.Fatal(err)
	}
	c.put(fleetwire.RuleKey(fleetwire.Digest(data)), data)
	return fleetwire.RuleOf(b, data, chainName.Ambiente)
}

// order signs the next version of the desired state.
func (c *network) order(alter func(*fleetwire.Desired)) {
	d := fleetwire.Desired{Group: chainGroup, Version: 1, By: "ana"}
	if c.last != nil {
		d = *c.last
		d.Version, d.Previous = d.Version+1, fleetwire.Digest(c.data)
	}
	d.Issued, d.Expires = time.Now().UTC(), time.Now().UTC().Add(90*24*time.Hour)
	alter(&d)
	data, err := chainName.Seal(&d, chainDirector)
	if err != nil {
		c.t.Fatal(err)
	}
	c.put(fleetwire.DesiredKey(chainGroup, d.Version), data)
	c.last, c.data = &d, data
	c.played.orders++
}

// enrol gives the branch to a box.
func (s *site) enrol(m *chainBox) {
	s.epoch++
	e := fleetwire.Enrolment{Branch: s.name, Epoch: s.epoch, Key: fleetwire.EncodeKey(fleetwire.Public(m.key).Public),
		At: time.Now().UTC(), By: "ana",
		Points: []fleetwire.Point{m.numbered()}}
	data, err := chainName.Seal(&e, chainDirector)
	if err != nil {
		s.chain.t.Fatal(err)
	}
	s.chain.put(fleetwire.BoxKey(s.name, s.epoch), data)
}
