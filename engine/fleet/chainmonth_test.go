package fleet_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/enginetest"
	"dtegate/engine/fleet"
	fleetwire "dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/rules/bundle"
	"dtegate/storage"
	"dtegate/storage/disktest"
)

const (
	chainGroup    = "tiendas"
	chainBranches = 3
)

func signer32(words ...any) fleetwire.Signer {
	seed := sha256.Sum256([]byte(fmt.Sprint(words...)))
	return fleetwire.Signer{ID: fmt.Sprint(words[0]), Private: ed25519.NewKeyFromSeed(seed[:])}
}

var chainName = fleetwire.Chain{Name: "super", Ambiente: "00"}

var (
	chainDirector, chainAuthor = signer32("director"), signer32("autor")
	chainDirectors             = []fleetwire.Key{fleetwire.Public(chainDirector)}
)

// network is a centre, its store, MH, and branches whose boxes crash, die, are replaced, come back, and lose the
// connection to either.
type network struct {
	t     testing.TB
	rand  *rand.Rand
	rules disktest.Rules
	sim   *simulator.Simulator
	store *fleettest.Store
	keys  bundle.Keys
	sites []*site
	boxes []*chainBox // all that were made
	ahead time.Time   // the latest time by a wrong clock: documents may bear it
	// What the centre desires.
	last    *fleetwire.Desired
	data    []byte
	version int // of the catalogue that it published last
	played  chainPlayed
}

// chainPlayed is what chain-months came to.
type chainPlayed struct {
	months, sales, lost, cuts, deaths, replaced, refused, orders, sealed, unsure int
	// What a person met: media that were old, another branch's, swapped between branches, empty, rotten, torn, pieces
	// that the chain's store lost, lists that lacked some, clocks that were turned.
	old, foreign, swapped, empty, rot, torn, pieces, hidden, clocks int
	// What came of it: starts or numbering refused, stores that were found damaged, recoveries, clocks that a person
	// accepted, boxes that got a new key.
	stopped, damaged, recovered, doubted, rekeyed int
}

func (p *chainPlayed) add(o chainPlayed) {
	sum, more := reflect.ValueOf(p).Elem(), reflect.ValueOf(o)
	for i := range sum.NumField() {
		field := (*int)(sum.Field(i).Addr().UnsafePointer())
		*field += int(more.Field(i).Int())
	}
}

// site is a branch: its box, its former boxes that are still alive, and the answers to its tills.
type site struct {
	chain *network
	name  string
	index int
	box   *chainBox
	old   []*chainBox
	epoch int64
	made  int // boxes
	point int // the last point of sale that was opened
	wg    sync.WaitGroup

	image    *image            // what a box's media held once; nil: nobody kept any
	harmed   time.Time         // when something of it was last; see isHarmed
	gone     map[string][]byte // what the chain's store has lost
	status   []byte            // an older status, of the object statusOf
	statusOf string
	accepted map[string][]storage.Span // numbers that a person named as lost, by series

	mu    sync.Mutex
	n     int
	sales map[string]*chainSale
}

// chainSale is a sale that a till was answered.
type chainSale struct {
	view *record.View
	by   *chainBox
	at   time.Time // by MH's clock
	box  time.Time // by the box's
	lost bool      // with its box, as is promised
}

func (s *site) establishment() string { return fmt.Sprintf("M%03d", s.index+1) }

// TestChainMonth plays months of a chain: three branches with real stores, agents and shippers, whose power fails,
// whose boxes die and are replaced while the old box may still run, with outages of MH and of the chain's store. No two
// documents at MH have one number, no answered sale is lost except those that a dead box had not shipped, and each
// branch ends with the desired state.
//
// Media are swapped, rot and tear, the chain's store loses pieces, clocks are turned: see chainharm_test.go. A person
// does what the runbook says, and no more is lost than that person has named.
//
// The suite plays some days of a few; DTE_SOAK plays 200 months, -months as many as fit into a time, from DTE_SEED on.
func TestChainMonth(t *testing.T) {
	// a seed for each way in which a disk loses; one over New Year
	plan := enginetest.MonthsToPlay(t, 3, 4, 200)
	if testing.Short() {
		plan = enginetest.MonthsToPlay(t, 1, 3, 200)
	}
	var all chainPlayed
	plan.Each(t, func(t *testing.T, seed uint64, length time.Duration) { all.add(playChain(t, seed, length)) })
	t.Logf("%v: %d chain-months of %d branches: %+v", plan, all.months, chainBranches, all)
}

// playChain plays one month. Every third begins in the middle of a December.
func playChain(t *testing.T, seed uint64, length time.Duration) (played chainPlayed) {
	begin := enginetest.Monday
	if seed%3 == 0 {
		begin = newYear.Add(-length / 2)
	}
	inChain(t, seed, begin, func(c *network) {
		for end := time.Now().Add(length); time.Now().Before(end); {
			c.step()
		}
		c.calm()
		c.publish()
		time.Sleep(max(0, time.Until(c.ahead)) + 26*time.Hour)
		for _, s := range c.sites {
			s.wg.Wait()
		}
		c.check()
		c.played.months++
		played = c.played
	})
	return played
}

// newYear is El Salvador's New Year.
var newYear = time.Date(2027, 1, 1, 6, 0, 0, 0, time.UTC)

// inChain runs a test with a chain in fake time.
func inChain(t *testing.T, seed uint64, begin time.Time, fn func(*network)) {
	enginetest.Common(t) // real work, outside of fake time
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		c := newChain(t, seed)
		defer c.end()
		fn(c)
	})
}

func newChain(t *testing.T, seed uint64) *network {
	t.Helper()
	c := &network{t: t, rand: rand.New(rand.NewPCG(seed, 22)), rules: disktest.AllRules[seed%3],
		store: fleettest.New(time.Now), keys: bundle.Keys{Pinned: []bundle.Key{fleetwire.Public(chainAuthor)}}}
	c.sim = simulator.New(simulator.Options{Seed: seed, Now: time.Now, Logger: enginetest.Quiet,
		Issuers: []simulator.Issuer{
			{NIT: enginetest.TestNIT, Password: "secreto-mh.2026", PublicKey: enginetest.Common(t).Key.Public()},
		}})
	c.chaos(simulator.Chaos{})
	c.publish()
	for i := range chainBranches {
		s := &site{chain: c, name: fmt.Sprintf("sucursal-%d", i+1), index: i, point: 1,
			sales: make(map[string]*chainSale), gone: make(map[string][]byte),
			accepted: make(map[string][]storage.Span)}
		c.sites = append(c.sites, s)
		s.box = s.newMember(1)
		if err := storage.Create(s.box.Storage()); err != nil {
			t.Fatal(err)
		}
		s.enrol(s.box)
		s.box.turnOn()
	}
	return c
}

// end ends every box, also where a test has failed in the middle.
func (c *network) end() {
	for _, m := range c.boxes {
		if m.stopAll != nil {
			m.powerOff()
		}
		m.scrap()
	}
}

func (c *network) chaos(x simulator.Chaos) {
	x.LotMS = 120_000
	if err := c.sim.Chaos(x); err != nil {
		c.t.Fatal(err)
	}
}

// upTo returns a random time; each order of magnitude is equally likely.
func (c *network) upTo(least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), c.rand.Float64()))
}

func (c *network) step() {
	s := c.sites[c.rand.IntN(len(c.sites))]
	n := c.rand.IntN(30)
	c.tell("%s: step %d", s.name, n)
	switch {
	case n < 12:
		s.rush()
		time.Sleep(c.upTo(10*time.Second, 48*time.Hour))
	case n < 14: // MH away for one branch
		s.box.Cable.Set([]enginetest.CableState{enginetest.Refusing, enginetest.NoName}[c.rand.IntN(2)])
		c.meanwhile(s, c.upTo(time.Minute, 24*time.Hour))
		s.box.Cable.Set(enginetest.Plugged)
	case n == 14: // MH away for all
		c.chaos(simulator.Chaos{Silence: true})
		c.meanwhile(s, c.upTo(time.Minute, 12*time.Hour))
		c.chaos(simulator.Chaos{})
	case n < 17: // the chain's store away
		s.box.line.set([]enginetest.CableState{enginetest.Refusing, enginetest.Dropping}[c.rand.IntN(2)])
		c.meanwhile(s, c.upTo(time.Minute, 48*time.Hour))
		s.box.line.set(enginetest.Plugged)
	case n == 17: // and the box dies meanwhile, often with the way to MH away too
		s.box.line.set(enginetest.Refusing)
		if c.rand.IntN(3) > 0 {
			s.box.Cable.Set(enginetest.Refusing)
		}
		c.meanwhile(s, c.upTo(time.Minute, 4*time.Hour))
		s.replace()
	case n < 20:
		s.box.crash()
		c.played.cuts++
	case n == 20:
		s.replace()
	case n < 24:
		c.publish()
	case n < 27:
		s.harmMedium()
	case n == 27:
		s.losePieces()
	default:
		s.turnClock()
	}
}

// meanwhile sells during an outage; the whole power may fail in it.
func (c *network) meanwhile(s *site, long time.Duration) {
	for left := long; left > 0; {
		s.rush()
		part := min(left, c.upTo(10*time.Minute, 24*time.Hour))
		time.Sleep(part)
		left -= part
		if c.rand.IntN(8) == 0 {
			up := s.box.line.state
			s.box.crash()
			s.box.line.set(up)
			c.played.cuts++
		}
	}
}

// calm mends every connection.
func (c *network) calm() {
	c.chaos(simulator.Chaos{})
	for _, s := range c.sites {
		s.putBack()
		for _, m := range append(slices.Clone(s.old), s.box) {
			m.Cable.Set(enginetest.Plugged)
			m.line.set(enginetest.Plugged)
			m.line.mend()
		}
	}
}

// rush makes some tills sell at once, sometimes at a box that was replaced.
func (s *site) rush() {
	for range 1 + s.chain.rand.IntN(3) {
		m := s.box
		if len(s.old) > 0 && s.chain.rand.IntN(3) == 0 {
			m = s.old[s.chain.rand.IntN(len(s.old))]
		}
		s.sell(m)
	}
}

func (s *site) sell(m *chainBox) {
	s.n++
	key, n := fmt.Sprintf("%s sale %d", s.name, s.n), s.n
	late := m.alone()
	s.wg.Go(func() {
		req := enginetest.Sale(key, 100+n)
		req.Caller = m.caller()
		view, err := m.issue(req)
		m.mu.Lock()
		dead := m.dead
		m.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		var e *refusal.Error
		switch {
		case dead: // no till gets it
		case errors.Is(err, errReplaced):
			s.chain.played.refused++
			// A box with a new key is not enrolled before it has read that.
			if standing := m.agent.Fence().Standing(); m == s.box && !m.isCloned() && standing.Replaced {
				s.chain.t.Errorf("%s: %s is refused by the box that has the branch: %+v", s.name, key,
					standing)
			}
		case errors.Is(err, errUnfit), err != nil && m.Store.Health() != nil:
			s.chain.played.refused++
		case err != nil && (!errors.As(err, &e) || e.Code == refusal.CodeInternal):
			s.chain.t.Errorf("%s: %v", key, err)
		case err != nil:
		case late:
			s.chain.t.Errorf("P11: %s has number %s of a box that could know for 45 minutes that another has its "+
				"branch", key, view.ControlNumber)
		default:
			s.sales[key] = &chainSale{view: view, by: m, at: time.Now(), box: m.Now()}
		}
	})
}

// check compares every sale with its box's record and MH's document, and every branch with the desired state.
func (c *network) check() {
	c.t.Helper()
	numbers := make(map[string]string) // by year and number, the document that MH holds
	for code, a := range c.sim.Accepted() {
		c.played.sealed++
		n := numberOf(a.Document)
		if other, twice := numbers[n]; twice {
			c.t.Errorf("P11: %s and %s are %s", other, code, n)
		}
		numbers[n] = code
	}
	for _, breach := range c.sim.Audit() {
		// Another box learns by listing what the dead box reported and had not shipped: the refusal is the answer.
		if !strings.Contains(breach, "which was received before") {
			c.t.Errorf("MH saw: %s", breach)
		}
	}
	given := maps.Clone(numbers) // to customers too
	for _, s := range c.sites {
		for key, x := range s.sales {
			n := numberOf(x.view.JSON)
			if other := given[n]; other != "" && other != x.view.Code {
				c.t.Errorf("P1: %s and %s, which %s was answered, are %s", other, x.view.Code, key, n)
			}
			given[n] = x.view.Code
		}
		s.check(numbers)
	}
}

// numberOf returns the year and the control number of a document: a series begins anew each year.
func numberOf(document []byte) string {
	text := func(member string) string {
		_, rest, _ := bytes.Cut(document, []byte(`"`+member+`":"`))
		value, _, _ := bytes.Cut(rest, []byte(`"`))
		return string(value)
	}
	return text("fecEmi")[:4] + " " + text("numeroControl")
}

func (s *site) check(numbers map[string]string) {
	t := s.chain.t
	for key, x := range s.sales {
		s.chain.played.sales++
		if x.lost {
			continue
		}
		r, err := x.by.Engine.Documents().Document(context.Background(), enginetest.CodeOf(x.view), x.by.caller())
		if err != nil {
			t.Errorf("P2: %s: %v", key, err)
			continue
		}
		a, _ := s.chain.sim.Document(r.Code)
		warned := slices.ContainsFunc(r.Warnings, func(s string) bool {
			return strings.Contains(s,
				"después del respaldo")
		})
		switch {
		case r.Estado == record.EstadoProcessed && a.Accepted && string(a.Document) != string(r.JSON) &&
			(warned || x.by != s.box):
			// Two boxes had the document in contingency, and MH accepted the other box's form: no query shows which.
			s.chain.played.unsure++
		case r.Code != x.view.Code || r.ControlNumber != x.view.ControlNumber:
			t.Errorf("P2: %s was answered %s %s and is %s %s", key, x.view.Code, x.view.ControlNumber, r.Code,
				r.ControlNumber)
		case r.Estado == record.EstadoProcessed && (!a.Accepted || string(a.Document) != string(r.JSON)):
			t.Errorf("%s is %s, MH holds %s\n%s\n%s", key, r.Estado, a.Sello, r.JSON, a.Document)
		case r.Estado == record.EstadoRejected && numbers[numberOf(r.JSON)] != "":
			t.Errorf("%s is %s, and MH holds %s of its number", key, r.Estado, numbers[numberOf(r.JSON)])
		case r.Estado != record.EstadoProcessed:
			t.Errorf("%s of %s, answered at %v when its box had %v, is still %s: %s; MH says %+v", key, r.CreatedAt, x.at,
				x.box, r.Estado, r.TechnicalError, r.Response)
		}
	}
	for _, m := range append(slices.Clone(s.old), s.box) {
		report, err := m.Store.Fsck(context.Background())
		s.must(err)
		for _, p := range report.Problems {
			t.Errorf("%s: fsck: %v", s.name, p)
		}
		if replaced := m.agent.Fence().Standing().Replaced; replaced != (m != s.box) {
			t.Errorf("%s: a box of %d is replaced: %v", s.name, s.made, replaced)
		}
	}
	if lacks := s.box.ship.Shipped().Lacks; lacks != "" {
		t.Errorf("%s: the chain's store lacks %s", s.name, lacks)
	}
	want, got := s.desired(), s.live()
	status := s.box.agent.Status()
	if got != want || status.Desired.Version != s.chain.last.Version || status.Desired.Trouble != "" {
		t.Errorf("P12: %s runs %q and not %q; it read version %d of %d: %s", s.name, got, want, status.Desired.Version,
			s.chain.last.Version, status.Desired.Trouble)
	}
}

// desired is the version of the catalogue that the branch should run.
func (s *site) desired() string {
	d := s.chain.last
	state := d.Live
	if d.Rollout != nil && d.Rollout.Takes(s.name, time.Now()) {
		state = d.Rollout.State.Over(d.Live)
	}
	return state.Rules[0].Version
}

func (s *site) live() string {
	for _, b := range s.box.gate.Bundles() {
		if b.Where == fleet.Live {
			return b.Version
		}
	}
	return ""
}
