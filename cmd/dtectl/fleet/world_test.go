package fleet

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
)

// world is a chain on a store in memory, with its centre and with boxes that apply the desired state at once.
type world struct {
	t     *testing.T
	now   time.Time
	store *fleettest.Store
	chain *Chain
	boxes []*box
	rules fleetproto.Signer // that signs bundles
	dir   string
}

// box is a branch's, as the store sees it.
type box struct {
	w      *world
	signer fleetproto.Signer
	status fleetproto.Status
	stage  fleetproto.Stage // reported for a roll-out of its ring; default live
}

func key(seed string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%-32.32s", seed)))
}

func newWorld(t *testing.T, boxes ...string) *world {
	w := &world{t: t, now: time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC), dir: t.TempDir(),
		rules: fleetproto.Signer{ID: "reglas", Private: key("rules")}}
	w.store = fleettest.New(func() time.Time { return w.now })
	public, err := bundle.MarshalPublic(w.rules.Private.Public().(ed25519.PublicKey))
	w.must(err)
	w.must(os.WriteFile(w.at("rules.pub"), public, 0o600))
	director := key("director")
	w.chain = &Chain{Store: w.store, Identity: fleetproto.Chain{Name: "cadena", Ambiente: "00"},
		Director: fleetproto.Key{ID: directorID, Public: director.Public().(ed25519.PublicKey)},
		Cache:    w.at("cache"), Now: func() time.Time { return w.now }, Who: "ana@central",
		Sign: func() (fleetproto.Signer, error) {
			return fleetproto.Signer{ID: directorID, Private: director}, nil
		},
		Config: &config.Centre{Threshold: 1, Keys: []config.RulesKey{{ID: "reglas", File: w.at("rules.pub")}}}}
	for _, name := range boxes {
		w.add(name).report()
	}
	if len(boxes) > 0 {
		w.must((&Enrol{All: true}).Run(t.Context(), w.chain))
		for _, b := range w.boxes {
			b.report()
		}
	}
	return w
}

func (w *world) at(name string) string { return filepath.Join(w.dir, name) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// add makes a box that is ready to sell.
func (w *world) add(name string) *box {
	b := &box{w: w, signer: fleetproto.Signer{ID: "box", Private: key(fmt.Sprintf("%s %d", name, len(w.boxes)))},
		stage: fleetproto.StageLive}
	n := len(w.boxes)
	b.status = fleetproto.Status{Branch: name, Group: "tiendas",
		Key: fleetproto.EncodeKey(b.signer.Private.Public().(ed25519.PublicKey)), Ready: true,
		Points: []fleetproto.Point{{Establishment: fmt.Sprintf("M%03d", 1+n/900), Point: fmt.Sprintf("P%03d",
			1+n%900)}}}
	if i := slices.IndexFunc(w.boxes, func(o *box) bool { return o.status.Branch == name }); i >= 0 {
		b.status.Points = w.boxes[i].status.Points
	}
	w.boxes = append(w.boxes, b)
	return b
}

func (w *world) box(name string) *box {
	w.t.Helper()
	i := slices.IndexFunc(w.boxes, func(b *box) bool { return b.status.Branch == name })
	if i < 0 {
		w.t.Fatalf("no box %s", name)
	}
	return w.boxes[i]
}

// report writes a box's status as it is.
func (b *box) report() {
	b.w.t.Helper()
	b.status.Sequence++
	b.status.At, b.status.Epoch = b.w.now, b.epoch()
	data, err := b.w.chain.Identity.Seal(&b.status, b.signer)
	b.w.must(err)
	b.w.must(b.w.store.Overwrite(b.w.t.Context(), fleetproto.StatusKey(b.status.Branch, b.status.Epoch), data))
}

// epoch returns the highest epoch that names a box's key; 0: none.
func (b *box) epoch() (highest int64) {
	for epoch := int64(1); ; epoch++ {
		data := b.w.store.Held(fleetproto.BoxKey(b.status.Branch, epoch))
		if data == nil {
			return highest
		}
		e, err := b.w.chain.Identity.OpenEnrolment(data, []fleetproto.Key{b.w.chain.Director}, b.status.Branch, epoch)
		if err == nil && e.Key == b.status.Key {
			highest = epoch
		}
	}
}

// act writes an act of a box.
func (b *box) act(number int64, what, reason string) {
	b.w.t.Helper()
	data, err := b.w.chain.Identity.Seal(&fleetproto.Act{Branch: b.status.Branch, Epoch: 1, Number: number,
		At: b.w.now, What: what, Reason: reason}, b.signer)
	b.w.must(err)
	b.w.must(b.w.store.Create(b.w.t.Context(), fleetproto.ActKey(b.status.Branch, number), data))
}

// obey makes every box read the desired state and report the result.
func (w *world) obey() {
	w.t.Helper()
	head, err := w.chain.Head(w.t.Context(), "tiendas")
	w.must(err)
	for _, b := range w.boxes {
		b.status.Desired = fleetproto.Reached{Version: head.Version, Digest: head.Digest, At: w.now,
			Expires: head.Expires}
		state, r := head.Live, head.Rollout
		switch {
		case r == nil:
			b.status.Rollout = nil
		case r.Takes(b.status.Branch, w.now):
			b.status.Rollout = &fleetproto.Progress{Name: r.Name, Stage: b.stage, Since: w.now,
				Reason: "2 of 20 cases differ"}
			if b.stage.Succeeded() {
				b.status.Rollout.Reason = "dte01 2.3.0: it changes the amounts of 2 of the branch's last 9 sales " +
					"(resumen.totalPagar 11.30 → 11.50)"
				state = r.State.Over(head.Live)
			}
		case b.status.Rollout == nil || b.status.Rollout.Name != r.Name:
			b.status.Rollout = &fleetproto.Progress{Name: r.Name, Stage: fleetproto.StageOutside, Since: w.now}
		}
		b.status.Rules = nil
		for _, rule := range state.Rules {
			b.status.Rules = append(b.status.Rules, fleetproto.Running{Digest: rule.Digest, Name: rule.Name,
				Version: rule.Version, Bundle: rule.Bundle, Document: rule.Document, Schema: rule.Schema, Live: true})
		}
		b.report()
	}
}

// newKey gives the director another key, and returns the old key.
func (w *world) newKey(name string) (old fleetproto.Key) {
	old, next := w.chain.Director, fleetproto.Signer{ID: directorID, Private: key(name)}
	w.chain.Director, w.chain.Sign = fleetproto.Public(next), func() (fleetproto.Signer, error) { return next, nil }
	return old
}

// bundle writes a signed bundle and returns its file.
func (w *world) bundle(version string, signer fleetproto.Signer) string {
	w.t.Helper()
	return w.generation(2, version, signer)
}

// generation writes a signed bundle of a generation of the law and returns its file.
func (w *world) generation(schema int, version string, signer fleetproto.Signer) string {
	w.t.Helper()
	return w.begins("2026-11-01", schema, version, signer)
}

// begins is generation, of a first day.
func (w *world) begins(from string, schema int, version string, signer fleetproto.Signer) string {
	w.t.Helper()
	data, err := bundle.Write(map[string][]byte{"catalogues.json": []byte("{}")}, bundle.Manifest{Name: "catalogues",
		Version: version, Kind: "catalogue", Document: "catalogues", Schema: schema, ABI: 1,
		Validity: map[string]bundle.Window{"00": {From: from}}}, bundle.Signer(signer))
	w.must(err)
	file := w.at(fmt.Sprintf("catalogues-%d-%s-%s.dterule", schema, version, from))
	w.must(os.WriteFile(file, data, 0o600))
	return file
}

func (w *world) publish(c Publish) error {
	w.t.Helper()
	c.Group = "tiendas"
	if c.MinSuccess == 0 {
		c.MinSuccess = 1
	}
	return c.Run(w.t.Context(), w.chain)
}

func (w *world) roll() error {
	w.t.Helper()
	return (&Roll{}).run(w.t.Context(), w.chain)
}

func (w *world) head() *Version {
	w.t.Helper()
	v, err := w.chain.Head(w.t.Context(), "tiendas")
	w.must(err)
	return v
}

func (w *world) survey() *Survey {
	w.t.Helper()
	s, err := NewSurveyor(w.chain).Read(w.t.Context())
	w.must(err)
	return s
}

// codes are a branch's concerns.
func (w *world) codes(name string) (codes []string) {
	w.t.Helper()
	for _, r := range w.survey().Branches {
		if r.Name == name {
			for _, c := range r.Concerns {
				codes = append(codes, c.Code)
			}
			return codes
		}
	}
	w.t.Fatalf("no branch %s", name)
	return nil
}

// text returns a survey as people see it.
func (w *world) text() string {
	w.t.Helper()
	var b bytes.Buffer
	w.must(w.survey().print(&b, func(*Branch) bool { return true }))
	return b.String()
}

// prints returns what a function prints for people.
func (w *world) prints(do func()) string {
	w.t.Helper()
	file, out := w.at("printed"), term.Out
	defer func() { term.Out = out }()
	printed, err := os.Create(file)
	w.must(err)
	term.Out = term.New(&printed)
	do()
	text, err := os.ReadFile(file)
	w.must(errors.Join(err, printed.Close()))
	return string(text)
}

// run is one look at the chain.
func (c *Roll) run(ctx context.Context, chain *Chain) error {
	c.said = make(map[string]string)
	_, err := c.once(ctx, chain, NewSurveyor(chain))
	return err
}
