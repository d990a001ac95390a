package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
)

// chainGame is a chain of real boxes and its real centre, over a store that lies, and a plain model of what each group
// shall run.
type chainGame struct {
	*world
	rnd    *rand.Rand
	liar   *liar
	boxes  []*gameBox
	groups map[string]*gameGroup
	serial int // of the last bundle
	keys   int // the director's keys so far
	log    []string
	// folders are the cache folders of the director's two machines, though one folder is what the RUNBOOK wants.
	folders [2]string
}

// gameRule is a bundle as the model knows it.
type gameRule struct {
	rule fleetproto.Rule
	file string
	from string
}

// gameGroup is what the director wanted of a group, in his own words.
type gameGroup struct {
	live    map[string][]gameRule // by name: the rule of today and those that wait, by first day
	rollout []gameRule            // under way
	before  map[string][]gameRule // live before the last roll-out that ended; nil: back goes nowhere
	undone  bool                  // since then a roll-out was taken back
}

// gameBox is a box, and its own way to the store.
type gameBox struct {
	*liar
	game   *chainGame
	name   string
	group  string
	key    fleetproto.Signer
	point  fleetproto.Point
	disk   *fleettest.File
	gate   *fleettest.Gate
	agent  *fleet.Agent
	off    time.Duration // how far its clock is wrong
	away   bool
	dead   bool            // another box has its branch
	moved  bool            // it was in another group, whose rules may be higher than its new group's
	hates  map[string]bool // digests that it refuses
	harmed map[string]bool // digests whose documents MH refuses
}

// Bundles adds MH's outcomes.
func (b *gameBox) Bundles() []fleet.Bundle {
	list := b.gate.Bundles()
	for i := range list {
		if b.harmed[list[i].Digest] {
			list[i].Outcomes = dte.Outcomes{Decided: 10, Refused: 10, ByRule: 10}
		}
	}
	return list
}

type gameRules struct {
	*fleettest.Gate
	of *gameBox
}

func (r gameRules) Bundles() []fleet.Bundle { return r.of.Bundles() }

// shelf gives a box an empty shelf.
func (b *gameBox) shelf() {
	b.gate = &fleettest.Gate{Keys: bundle.Keys{Pinned: []bundle.Key{fleetproto.Public(b.game.rules)}}, Ambiente: "00",
		Today: func() string { return dte.Date(b.now()) }, Refuse: func(r *bundle.Bundle) string {
			if b.hates[r.Digest] {
				return "2 of 20 cases differ"
			}
			return ""
		}}
}

// liar is a way to the store on which requests fail, and on which lists leave out objects.
type liar struct {
	fleetproto.Lister
	game  *chainGame
	calm  bool
	past  map[string][][]byte // all objects that were ever under a key
	owner map[string][]byte   // what the director wrote last, by key
}

var errWire = errors.New("no way to the store")

func (l *liar) trouble(one int) bool {
	if l == l.game.liar { // a verb of the director needs many requests
		one *= 8
	}
	return !l.calm && l.game.rnd.IntN(one) == 0
}

func (l *liar) write(key string, data []byte, do func() error) error {
	if l.trouble(25) {
		return errWire
	}
	err := do()
	if err == nil {
		l.past[key] = append(l.past[key], data)
		if l == l.game.liar {
			l.owner[key] = data
		}
	}
	if l.trouble(40) { // it happened
		return errWire
	}
	return err
}

func (l *liar) Create(ctx context.Context, key string, data []byte) error {
	return l.write(key, data, func() error { return l.Lister.Create(ctx, key, data) })
}

func (l *liar) Overwrite(ctx context.Context, key string, data []byte) error {
	return l.write(key, data, func() error { return l.Lister.Overwrite(ctx, key, data) })
}

func (l *liar) Fetch(ctx context.Context, key string, limit int64) (archive.Held, error) {
	if l.trouble(40) {
		return archive.Held{}, errWire
	}
	return l.Lister.Fetch(ctx, key, limit)
}

func (l *liar) List(ctx context.Context, prefix string) iter.Seq2[archive.Object, error] {
	return func(yield func(archive.Object, error) bool) {
		if l.trouble(60) {
			yield(archive.Object{}, errWire)
			return
		}
		for o, err := range l.Lister.List(ctx, prefix) {
			if l.trouble(60) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

func (b *gameBox) start() {
	g, err := b.game, error(nil)
	b.agent, err = fleet.New(fleet.Options{Store: b.liar, Chain: g.chain.Identity, Branch: b.name, Group: b.group,
		Director: []fleetproto.Key{fleetproto.Public(g.director(1)), fleetproto.Public(g.director(2)),
			fleetproto.Public(g.director(3))},
		Box: b.key, Points: []fleetproto.Point{b.point}, Rules: gameRules{b.gate, b}, State: b.disk,
		Logger: slog.New(slog.DiscardHandler), Now: b.now, Rand: rand.New(rand.NewPCG(g.rnd.Uint64(), 1)),
		Describe: func(s *fleetproto.Status) { s.Ready = true }, Last: fleettest.NoNumbers})
	g.must(err)
}

func (b *gameBox) now() time.Time { return b.game.now.Add(b.off) }

func (g *chainGame) director(n int) fleetproto.Signer {
	return fleetproto.Signer{ID: directorID + []string{"", "", " 2", " 3"}[n],
		Private: key([]string{"", "director", "second", "third"}[n])}
}

func newChainGame(t *testing.T, seed uint64, dir string) *chainGame {
	g := &chainGame{world: newWorld(t), rnd: rand.New(rand.NewPCG(seed, 3)), groups: make(map[string]*gameGroup)}
	g.dir, g.folders = dir, [2]string{g.chain.Cache, t.TempDir()}
	g.liar = &liar{Lister: g.store, game: g, calm: true, past: make(map[string][][]byte), owner: make(map[string][]byte)}
	g.chain.Store = g.liar
	for _, group := range []string{"norte", "sur"} {
		g.groups[group] = &gameGroup{live: make(map[string][]gameRule)}
		for range 3 {
			g.add(group, "")
		}
	}
	for _, b := range g.boxes {
		b.agent.Step(context.Background())
	}
	g.must((&Enrol{All: true}).Run(t.Context(), g.chain))
	g.pass(time.Hour)
	return g
}

// add installs a box; branch "": of a new branch.
func (g *chainGame) add(group, branch string) *gameBox {
	n := len(g.boxes)
	b := &gameBox{game: g, name: branch, group: group, disk: &fleettest.File{}, hates: make(map[string]bool),
		harmed: make(map[string]bool), key: fleetproto.Signer{ID: "box", Private: key(fmt.Sprint("box", n))},
		point: fleetproto.Point{Establishment: "M001", Point: fmt.Sprintf("P%03d", n+1)},
		liar:  &liar{Lister: g.store, game: g, calm: g.liar.calm, past: g.liar.past}}
	if branch == "" {
		b.name = fmt.Sprintf("%s-%d", group, n)
	}
	b.shelf()
	for _, name := range []string{"rate", "note"} {
		r := g.make(name, "1.0.0", "2026-01-01")
		data, err := os.ReadFile(r.file)
		g.must(err)
		_, err = b.gate.Admit(context.Background(), data, fleet.Order{Who: "the installation"})
		g.must(err)
	}
	b.start()
	g.boxes = append(g.boxes, b)
	return b
}

var gameMade = make(map[string]gameRule)

// make returns a signed bundle.
func (g *chainGame) make(name, version, from string) gameRule {
	id := name + "-" + version + "-" + from
	if r, ok := gameMade[id]; ok {
		return r
	}
	data, err := bundle.Write(map[string][]byte{"catalogues.json": []byte("{}")}, bundle.Manifest{Name: name,
		Version: version, Kind: "catalogue", Document: name, Schema: 2, ABI: 1,
		Validity: map[string]bundle.Window{"00": {From: from}}}, bundle.Signer(g.rules))
	g.must(err)
	b, err := bundle.Inspect(data)
	g.must(err)
	r := gameRule{from: from, file: g.at(id + ".dterule"), rule: fleetproto.RuleOf(b, data, "00")}
	g.must(os.WriteFile(r.file, data, 0o600))
	gameMade[id] = r
	return r
}

func (r gameRule) String() string { return r.rule.String() + " from " + r.from }

func (g *chainGame) note(format string, args ...any) {
	g.log = append(g.log, g.now.Format("01-02 15:04 ")+fmt.Sprintf(format, args...))
}

func (g *chainGame) fatal(format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf(format+"\n%s", append(args, strings.Join(g.log, "\n"))...)
}
