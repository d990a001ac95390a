package fleet_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
)

// numbersGame is a branch with three points of sale, whose boxes die, come back as images, are recovered too low or not
// at all, and are enrolled, again or anew, with any of the points of sale.
type numbersGame struct {
	*world
	rnd    *rand.Rand
	box    *numbersBox
	epoch  int64
	given  map[string]uint64 // what a status in the store once named, by series
	former []numbersBox      // images
	made   byte
	broken bool // the box cannot read its last numbers
	log    []string
}

// numbersBox is what a disk holds.
type numbersBox struct {
	key    fleetproto.Signer
	state  []byte
	last   map[string]uint64
	points []fleetproto.Point
}

var threePoints = []fleetproto.Point{{Establishment: "M001", Point: "P001"}, {Establishment: "M001", Point: "P002"},
	{Establishment: "M001", Point: "P003"}}

func yearSeries(p fleetproto.Point) string { return "00/01/M001/" + p.Point + "/2026" }

func (g *numbersGame) some() (list []fleetproto.Point) {
	for len(list) == 0 {
		for _, p := range threePoints {
			if g.rnd.IntN(2) == 0 {
				list = append(list, p)
			}
		}
	}
	return list
}

// turnOn starts the appliance from what its disk holds.
func (g *numbersGame) turnOn() {
	g.disk = &fleettest.File{}
	if len(g.box.state) > 0 {
		g.must(g.disk.Save(g.box.state))
	}
	o, box := g.options(), g.box
	o.Box, o.Points, o.Logger = box.key, box.points, slog.New(slog.DiscardHandler)
	o.Last = func() (map[string]uint64, error) {
		if g.broken {
			return nil, errors.New("reading series: damaged")
		}
		return maps.Clone(box.last), nil
	}
	var err error
	g.agent, err = fleet.New(*o)
	g.must(err)
	g.pass(time.Minute)
}

func (g *numbersGame) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *numbersGame) fresh() {
	g.made++
	g.box = &numbersBox{key: signer(fmt.Sprint("box ", g.made), 100+g.made), last: make(map[string]uint64),
		points: g.some()}
}

// enrolBox signs the box's enrolment: again at this epoch with more points of sale, or at the next.
func (g *numbersGame) enrolBox(again bool) {
	e := fleetproto.Enrolment{Branch: "centro", Key: fleetproto.EncodeKey(public(g.box.key).Public), At: g.now, By: "ana",
		Points: slices.Clone(g.box.points)}
	if before, err := chain.OpenEnrolment(g.store.Held(fleetproto.BoxKey("centro", g.epoch)), g.directors, "centro",
		g.epoch); again && err == nil && before.Key == e.Key {
		e.Points = append(e.Points, fleetproto.Unnamed(before.Points, e.Points)...)
	} else {
		g.epoch++
	}
	e.Epoch = g.epoch
	data, err := chain.Seal(&e, director)
	g.must(err)
	g.store.Put(fleetproto.BoxKey("centro", g.epoch), data)
}

// sell numbers at each point of sale that the box may number, and fails if a number is one that a status named.
func (g *numbersGame) sell() {
	standing := g.agent.Fence().Standing()
	for _, p := range g.box.points {
		if !standing.Numbers(p) || g.broken {
			continue
		}
		for range 1 + g.rnd.IntN(5) {
			s := yearSeries(p)
			if g.box.last[s]++; g.box.last[s] <= g.given[s] {
				g.fatal("number %d of %s is given again, and a status named %d", g.box.last[s], s, g.given[s])
			}
		}
	}
}

// reports reads the statuses of all epochs: no number that they named may be lost.
func (g *numbersGame) reports() {
	now := make(map[string]uint64)
	for epoch := int64(0); epoch <= g.epoch; epoch++ {
		if s, err := chain.OpenStatus(g.store.Held(fleetproto.StatusKey("centro", epoch)), "centro", epoch); err == nil {
			for series, n := range s.Last {
				if epoch > 0 {
					now[series] = max(now[series], n)
				}
			}
		}
	}
	for series, n := range g.given {
		if now[series] < n {
			g.fatal("no status names number %d of %s any more: %d", n, series, now[series])
		}
	}
	g.given = now
}

func (g *numbersGame) fatal(format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf(format+"\n%+v\n%s\n%s", append(args, g.agent.Fence().Standing(), g.agent.Look().Trouble,
		strings.Join(g.log, "\n"))...)
}

func (g *numbersGame) act() {
	what := ""
	switch g.rnd.IntN(12) {
	case 0, 1, 2:
		what = "sells"
		g.sell()
	case 3:
		what = "is copied"
		state, err := g.disk.Load()
		g.must(err)
		g.former = append(g.former, numbersBox{key: g.box.key, state: state, last: maps.Clone(g.box.last),
			points: g.box.points})
	case 4:
		if len(g.former) > 0 {
			what = "comes back as an image"
			b := g.former[g.rnd.IntN(len(g.former))]
			b.last = maps.Clone(b.last)
			g.box = &b
			g.turnOn()
		}
	case 5:
		what = "dies"
		g.fresh()
		g.turnOn()
	case 6:
		what = "is recovered"
		g.box.last = maps.Clone(g.given)
		g.box.state, _ = g.disk.Load()
		g.turnOn()
	case 7:
		what = "is recovered too low"
		g.box.state, _ = g.disk.Load()
		for series := range g.box.last {
			g.box.last[series] = uint64(g.rnd.IntN(int(g.box.last[series]) + 1))
		}
		g.turnOn()
	case 8:
		g.box.points = g.some()
		what = fmt.Sprint("has ", g.box.points)
		g.box.state, _ = g.disk.Load()
		g.turnOn()
	case 9:
		what = "is enrolled again"
		g.enrolBox(true)
	case 10:
		what = "is enrolled anew"
		g.enrolBox(false)
	case 11:
		g.broken = !g.broken
		what = fmt.Sprint("cannot read its last numbers: ", g.broken)
	}
	g.log = append(g.log, fmt.Sprintf("%s epoch %d: %s %s", g.now.Format("02 15:04"), g.epoch, g.box.key.ID, what))
	g.pass([]time.Duration{5 * time.Minute, 40 * time.Minute, 5 * time.Hour}[g.rnd.IntN(3)])
	g.reports()
}

// TestNumbersGame: whatever happens to a branch's box, it gives no number again that a status named while the store
// answers, and no status hides such a number from the next box. Once it is enrolled, it numbers each point of sale at
// which its store lacks nothing, and reports under its epoch; otherwise its status says why. At its first enrolment its
// store must lack nothing at any of them.
func TestNumbersGame(t *testing.T) {
	seeds := 12
	if os.Getenv("DTE_SOAK") != "" {
		seeds = 4000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := &numbersGame{world: newWorld(t), rnd: rand.New(rand.NewPCG(uint64(seed), 8)), given: make(map[string]uint64)}
			g.fresh()
			g.turnOn()
			g.enrolBox(false)
			g.pass(10 * time.Minute)
			for range 25 {
				g.act()
			}
			g.broken = false
			g.enrolBox(g.rnd.IntN(2) == 0)
			g.pass(2 * time.Hour)
			standing := g.agent.Fence().Standing()
			status, err := chain.OpenStatus(g.store.Held(fleetproto.StatusKey("centro", standing.Epoch)), "centro",
				standing.Epoch)
			g.must(err)
			lacks := func(p fleetproto.Point) bool { return g.box.last[yearSeries(p)] < g.given[yearSeries(p)] }
			waits := standing.Epoch == 0 && slices.ContainsFunc(g.box.points, lacks) // a box's first enrolment
			for _, p := range g.box.points {
				switch whole := !lacks(p); {
				case standing.Replaced != status.Replaced:
					g.fatal("seed %d: nobody sees that the box is stopped", seed)
				case !standing.Numbers(p) && !standing.Replaced && whole && !waits:
					g.fatal("seed %d: nothing is numbered at %s", seed, p)
				case !standing.Numbers(p) && status.Desired.Trouble == "" && !status.Replaced:
					g.fatal("seed %d: nobody says why nothing is numbered at %s", seed, p)
				case standing.Numbers(p) && (standing.Epoch != g.epoch || !whole):
					g.fatal("seed %d: it numbers at %s", seed, p)
				}
			}
		})
	}
}
