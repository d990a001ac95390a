package fleet_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
)

// world is a centre, a store, and one branch, the pilot of every roll-out.
type world struct {
	t          testing.TB
	now        time.Time
	store      *fleettest.Store
	gate       *fleettest.Gate
	ordered    []fleet.Order           // of the admissions
	outcomes   map[string]dte.Outcomes // MH's decisions, by a bundle's digest
	numbered   map[string]uint64       // last numbers in the box's store
	disk       *fleettest.File
	box        fleetproto.Signer
	agent      *fleet.Agent
	group      string
	poll, look time.Duration
	directors  []fleetproto.Key  // that the box pins
	by         fleetproto.Signer // of what the centre publishes
	// What the centre published last, and its bytes.
	last *fleetproto.Desired
	data []byte
}

func signer(id string, seed byte) fleetproto.Signer {
	return fleetproto.Signer{ID: id, Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}
}

func public(s fleetproto.Signer) fleetproto.Key {
	return fleetproto.Key{ID: s.ID, Public: s.Private.Public().(ed25519.PublicKey)}
}

var points = []fleetproto.Point{{Establishment: "M001", Point: "P001"}}

var chain = fleetproto.Chain{Name: "super", Ambiente: "00"}

var director, author, thief = signer("director", 1), signer("author", 2), signer("thief", 9)

func newWorld(t testing.TB) *world {
	w := &world{t: t, now: time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC), box: signer("box", 3), group: "norte",
		by: director, directors: []fleetproto.Key{public(director)}, poll: time.Minute, look: 5 * time.Minute,
		disk: &fleettest.File{}}
	w.store = fleettest.New(func() time.Time { return w.now })
	w.gate = &fleettest.Gate{Keys: bundle.Keys{Pinned: []bundle.Key{public(author)}}, Ambiente: "00",
		Today: func() string { return w.now.Format(time.DateOnly) }}
	return w
}

// orders is a gate that notes the orders.
type orders struct {
	fleet.Rules
	of *world
}

func (o orders) Admit(ctx context.Context, file []byte, by fleet.Order) (fleet.Admission, error) {
	o.of.ordered = append(o.of.ordered, by)
	return o.Rules.Admit(ctx, file, by)
}

func (o orders) Bundles() []fleet.Bundle {
	list := o.Rules.Bundles()
	for i := range list {
		list[i].Outcomes = o.of.outcomes[list[i].Digest]
	}
	return list
}

// options returns the agent's options.
func (w *world) options() *fleet.Options {
	return &fleet.Options{Store: w.store, Chain: chain, Branch: "centro", Group: w.group,
		Director: w.directors, Box: w.box,
		Points: points, Poll: w.poll, Look: w.look, Rules: orders{w.gate, w}, State: w.disk,
		Logger: slog.New(slog.DiscardHandler),
		Now:    func() time.Time { return w.now }, Rand: rand.New(rand.NewPCG(1, 1)),
		Describe: func(s *fleetproto.Status) { s.Ready = true },
		Last:     func() (map[string]uint64, error) { return maps.Clone(w.numbered), nil }}
}

// start starts the agent as the appliance does.
func (w *world) start() {
	w.t.Helper()
	var err error
	if w.agent, err = fleet.New(*w.options()); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets the agent work for a time.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(w.agent.Step(context.Background()))
	}
}

// cached are bundles that were signed before: signing takes longer than everything else here.
var cached = make(map[string]signedRule)

type signedRule struct {
	data []byte
	rule fleetproto.Rule
}

func rnd(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 1)) }

// file is a bundle of a catalogue, or of the event invalidacion; "rate/2" is generation 2 of the catalogue rate.
func file(t testing.TB, name, version string, by fleetproto.Signer, from string) ([]byte, fleetproto.Rule) {
	t.Helper()
	key := strings.Join([]string{name, version, by.ID, from}, " ")
	if c, ok := cached[key]; ok {
		return c.data, c.rule
	}
	document, generation, _ := strings.Cut(name, "/")
	schema, _ := strconv.Atoi(generation)
	kind, parts := "catalogue", map[string][]byte{"catalogues.json": []byte("{}")}
	if name == "invalidacion" {
		kind, parts = "event", map[string][]byte{"schema.json": []byte("{}"), "overlay.json": []byte("{}")}
	}
	data, err := bundle.Write(parts, bundle.Manifest{Name: document,
		Version: version, Kind: kind, Document: document, Schema: schema,
		Validity: map[string]bundle.Window{"00": {From: from}}}, by)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Inspect(data)
	if err != nil {
		t.Fatal(err)
	}
	r := fleetproto.RuleOf(b, data, "00")
	cached[key] = signedRule{data, r}
	return data, r
}

// rule puts a bundle into the store.
func (w *world) rule(name, version string, from ...string) fleetproto.Rule {
	w.t.Helper()
	data, r := file(w.t, name, version, author, append(from, "2026-01-01")[0])
	w.store.Put(fleetproto.RuleKey(r.File), data)
	return r
}

// publish writes the next version.
func (w *world) publish(alter func(*fleetproto.Desired)) {
	w.t.Helper()
	d := fleetproto.Desired{Group: w.group, Version: 1}
	if w.last != nil {
		d = *w.last
		d.Version, d.Previous = d.Version+1, fleetproto.Digest(w.data)
	}
	d.Issued, d.Expires, d.By = w.now, w.now.Add(30*24*time.Hour), "ana"
	alter(&d)
	data, err := chain.Seal(&d, w.by)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store.Put(fleetproto.DesiredKey(w.group, d.Version), data)
	w.last, w.data = &d, data
}

func (w *world) rollout(name string, rules ...fleetproto.Rule) {
	w.t.Helper()
	w.publish(func(d *fleetproto.Desired) {
		d.Rollout = &fleetproto.Rollout{Name: name, State: fleetproto.State{Rules: rules}, Pilots: []string{"centro"},
			Opened: w.now}
	})
}

func (w *world) live(rules ...fleetproto.Rule) {
	w.t.Helper()
	w.publish(func(d *fleetproto.Desired) { d.Live, d.Rollout = fleetproto.State{Rules: rules}, nil })
}

func (w *world) enrol(epoch int64, box, by fleetproto.Signer) {
	w.t.Helper()
	w.enrolAfter(epoch, box, by, 0)
}

// enrolAfter enrols a box that numbers nothing before it knows a version of the desired state.
func (w *world) enrolAfter(epoch int64, box, by fleetproto.Signer, version int64) {
	w.t.Helper()
	data, err := chain.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: epoch,
		Key: fleetproto.EncodeKey(public(box).Public), At: w.now, By: "ana", Points: points,
		After: version}, by)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store.Put(fleetproto.BoxKey("centro", epoch), data)
}

// status returns the status that the centre reads.
func (w *world) status() *fleetproto.Status {
	w.t.Helper()
	epoch := w.agent.Fence().Standing().Epoch
	s, err := chain.OpenStatus(w.store.Held(fleetproto.StatusKey("centro", epoch)), "centro", epoch, public(w.box))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// acts returns the branch's acts as the centre reads them, in order, as "live catalogos 1.0.0".
func (w *world) acts() (list []string) {
	w.t.Helper()
	for n := int64(1); ; n++ {
		data := w.store.Held(fleetproto.ActKey("centro", n))
		if data == nil {
			if keys := w.store.Keys(fleetproto.ActsFolder); len(keys) != len(list) {
				w.t.Fatalf("the acts have a gap: %v", keys)
			}
			return list
		}
		act, err := chain.OpenAct(data, "centro", n, public(w.box))
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, act.What+" "+act.Rule)
	}
}

func (w *world) stage() fleetproto.Stage {
	w.t.Helper()
	p := w.status().Rollout
	if p == nil {
		return ""
	}
	return p.Stage
}

// same fails when two lists differ.
func same(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (w *world) where(r fleetproto.Rule) string {
	for _, b := range w.gate.Bundles() {
		if b.Digest == r.Digest {
			return fmt.Sprintf("%s%s", b.Where, b.Off)
		}
	}
	return ""
}
