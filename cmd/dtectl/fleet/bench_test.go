package fleet

import (
	"container/heap"
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dted/config"
	"dtegate/engine/archive"
	"dtegate/engine/archive/archivetest"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
)

var simulate = flag.Bool("fleet", false, "simulate a chain of DTE_FLEET_N branches (5000); run it alone")

// simulation is a chain of thousands of real agents, each with its shelf in memory, on a real store, in compressed
// time: an agent's clock is the moment for which it was woken, and nobody waits between two moments.
type simulation struct {
	*world
	remote       fleetproto.Lister
	boxes        []*simulated
	due          schedule
	away         time.Time // until then the store answers nobody
	busiest      int       // the most requests in a second
	served, wall time.Duration
}

// simulated is one branch.
type simulated struct {
	s      *simulation
	name   string
	agent  *fleet.Agent
	gate   *fleettest.Gate
	clock  time.Time
	broken bool

	requests, bytes int64
	versions        []int64              // of the desired state, as they were read
	took            map[string]time.Time // when a version of the rule was admitted
}

// Create, Overwrite and Fetch implement fleetproto.Store: they call the real store and count the calls.
func (b *simulated) Create(ctx context.Context, key string, data []byte) error {
	return b.ask(len(data), func() error { return b.s.remote.Create(ctx, key, data) })
}

func (b *simulated) Overwrite(ctx context.Context, key string, data []byte) error {
	return b.ask(len(data), func() error { return b.s.remote.Overwrite(ctx, key, data) })
}

func (b *simulated) Fetch(ctx context.Context, key string, limit int64) (o archive.Held, err error) {
	err = b.ask(0, func() error { o, err = b.s.remote.Fetch(ctx, key, limit); return err })
	b.bytes += int64(len(o.Data))
	if n, ok := fleetproto.NumberOf(key); ok && err == nil &&
		strings.HasPrefix(key, fleetproto.DesiredFolder("tiendas")) {
		b.versions = append(b.versions, n)
	}
	return o, err
}

var errAway = errors.New("the store does not answer")

func (b *simulated) ask(size int, do func() error) error {
	b.requests++
	b.bytes += int64(size)
	if b.clock.Before(b.s.away) {
		return errAway
	}
	return do()
}

// live is the version of the rule in force.
func (b *simulated) live() string {
	for _, r := range b.gate.Bundles() {
		if r.Where == fleet.Live {
			return r.Version
		}
	}
	return ""
}

type schedule []*simulated

func (q schedule) Len() int           { return len(q) }
func (q schedule) Less(i, j int) bool { return q[i].clock.Before(q[j].clock) }
func (q schedule) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *schedule) Push(x any)        { *q = append(*q, x.(*simulated)) }
func (q *schedule) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// pass lets time pass: second by second, every agent that is due works, some at once.
func (s *simulation) pass(d time.Duration) {
	s.t.Helper()
	began := time.Now()
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(time.Second)
		var working []*simulated
		before := int64(0)
		for len(s.due) > 0 && s.due[0].clock.Before(s.now) {
			b := heap.Pop(&s.due).(*simulated)
			working, before = append(working, b), before-b.requests
		}
		room := make(chan struct{}, 32)
		var all sync.WaitGroup
		for _, b := range working {
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				for b.clock.Before(s.now) {
					b.clock = b.clock.Add(b.agent.Step(s.t.Context()))
				}
			})
		}
		all.Wait()
		for _, b := range working {
			before += b.requests
			heap.Push(&s.due, b)
		}
		s.busiest = max(s.busiest, int(before))
	}
	s.wall += time.Since(began)
	s.served += d
}

// verdict prints a measured value beside its limit, and fails above the limit.
func (s *simulation) verdict(name string, measured, limit float64, unit string) {
	s.t.Helper()
	word := "ok"
	if measured > limit {
		word = "BEYOND"
		s.t.Errorf("%s: %.2f, at most %g %s", name, measured, limit, unit)
	}
	fmt.Printf("%-78s %10.2f of %8g %-12s %s\n", name, measured, limit, unit, word)
}

// slowest returns the time, in polls, from a moment until the last of some boxes admitted a version.
func (s *simulation) slowest(boxes []*simulated, version string, since time.Time) float64 {
	s.t.Helper()
	var last time.Duration
	for _, b := range boxes {
		at, ok := b.took[version]
		if !ok {
			s.t.Errorf("%s never took %s", b.name, version)
			continue
		}
		last = max(last, at.Sub(since))
	}
	return last.Seconds() / fleet.DefaultPoll.Seconds()
}

// dated is the store with the clock of the simulation.
type dated struct {
	fleetproto.Lister
	s *simulation
}

func (d dated) Fetch(ctx context.Context, key string, limit int64) (archive.Held, error) {
	o, err := d.Lister.Fetch(ctx, key, limit)
	o.Now = d.s.now
	return o, err
}

// newSimulation starts a store and n boxes.
func newSimulation(t *testing.T, n int) *simulation {
	s := &simulation{world: newWorld(t)}
	var endpoint string
	switch make := os.Getenv("DTE_FLEET_STORE"); make {
	case "", "gofakes3":
		endpoint = archivetest.StartOther(t).Endpoint()
	case "versitygw":
		endpoint = archivetest.Start(t).Endpoint(t)
	default:
		t.Fatalf("DTE_FLEET_STORE: %q is neither gofakes3 nor versitygw", make)
	}
	a, err := archive.New(archive.Options{Endpoint: endpoint, Bucket: archivetest.Bucket, AccessKey: archivetest.Access,
		Secret: archivetest.Secret, PathStyle: true, Connections: config.StoreConnections})
	s.must(err)
	s.remote = a
	s.chain.Store = dated{s.remote, s}
	keys := bundle.Keys{Pinned: []bundle.Key{{ID: "reglas", Public: s.rules.Private.Public().(ed25519.PublicKey)}}}
	for i := range n {
		b := &simulated{s: s, name: fmt.Sprintf("sucursal-%d", i), clock: s.now, broken: i%100 == 7,
			took: make(map[string]time.Time)}
		b.gate = &fleettest.Gate{Keys: keys, Ambiente: "00",
			Today: func() string { return b.clock.Format(time.DateOnly) },
			Refuse: func(r *bundle.Bundle) string {
				if b.broken && r.Manifest.Version == "1.1.0" {
					return "2 of 20 cases differ"
				}
				b.took[r.Manifest.Version] = b.clock
				return ""
			}}
		b.agent, err = fleet.New(fleet.Options{Store: b, Chain: s.chain.Identity, Branch: b.name, Group: "tiendas",
			Director: []fleetproto.Key{s.chain.Director}, Box: fleetproto.Signer{ID: b.name, Private: key(b.name)},
			Points: []fleetproto.Point{{Establishment: fmt.Sprintf("M%03d", 1+i/900), Point: fmt.Sprintf("P%03d",
				1+i%900)}}, Rules: b.gate, State: &fleettest.File{}, Logger: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return b.clock }, Rand: rand.New(rand.NewPCG(uint64(i), 1)),
			Describe: func(st *fleetproto.Status) { st.Ready = true }, Last: fleettest.NoNumbers})
		s.must(err)
		s.boxes = append(s.boxes, b)
	}
	return s
}

// TestChain simulates a chain on a real store (make bench-fleet). Its verdicts are the limits that the chain is
// designed for.
func TestChain(t *testing.T) {
	skip.Unless(t, *simulate, "make bench-fleet")
	n := 5000
	if text := os.Getenv("DTE_FLEET_N"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1000 {
			t.Fatalf("DTE_FLEET_N: %q", text)
		}
	}
	runtime.GOMAXPROCS(2)
	s := newSimulation(t, n)
	absent, present := s.boxes[:n/10], s.boxes[n/10:]
	s.due = slices.Clone(present)
	heap.Init(&s.due)

	s.pass(2 * time.Minute) // the first poll of everybody: statuses
	s.must((&Enrol{All: true}).Run(t.Context(), s.chain))
	s.pass(6 * time.Minute) // everybody has asked for its enrolment

	// The running rules are published to all.
	all := Percent(fleetproto.Whole)
	opened := s.now
	s.must(s.publish(Publish{Files: []string{s.bundle("1.0.0", s.rules)}, Share: &all}))
	s.pass(3 * time.Minute)
	s.verdict("roll-out to all that are there, from the ring's opening", s.slowest(present, "1.0.0", opened), 2,
		"polls")
	s.must(s.roll())

	s.rest(present)
	s.surveyed(n)
	s.harmed(present)
	s.outage(present)
	s.returned(absent)
	s.stolen()
	fmt.Printf("%d branches, %v in %v of this machine\n", n, s.served, s.wall.Round(time.Second))
}

// rest is an hour in which nothing is published.
func (s *simulation) rest(present []*simulated) {
	s.pass(3 * time.Minute)
	s.busiest = 0
	var requests, bytes, most int64
	before := make(map[*simulated]int64)
	for _, b := range present {
		before[b] = b.requests
		bytes -= b.bytes
	}
	s.pass(time.Hour)
	for _, b := range present {
		r := b.requests - before[b]
		requests, most = requests+r, max(most, r)
		bytes += b.bytes
	}
	s.verdict("requests of a branch in an hour at rest, the most of one", float64(most), 100, "an hour")
	fmt.Printf("at rest: %.1f requests and %.1f KiB an hour and branch, at most %d requests in a second of all\n",
		float64(requests)/float64(len(present)), float64(bytes)/1024/float64(len(present)), s.busiest)
}

// surveyed reads all statuses, with an empty cache and again.
func (s *simulation) surveyed(n int) {
	s.t.Helper()
	s.must(os.RemoveAll(s.chain.Cache))
	began, spent := time.Now(), processor()
	first := NewSurveyor(s.chain)
	found, err := first.Read(s.t.Context())
	s.must(err)
	s.verdict(fmt.Sprintf("fleet status of %d, everything read", n), time.Since(began).Seconds(), 10, "s")
	fmt.Printf("of it %.1f s of this process on the processor\n", (processor() - spent).Seconds())
	if got := found.Counts(); got.Branches != n-n/10 || got.Selling != got.Branches {
		s.t.Errorf("%+v", got)
	}
	began = time.Now()
	_, err = NewSurveyor(s.chain).Read(s.t.Context())
	s.must(err)
	s.verdict("fleet status again, enrolments in the cache", time.Since(began).Seconds(), 10, "s")
	began = time.Now()
	_, err = first.Read(s.t.Context())
	s.must(err)
	s.verdict("what fleet serve reads each time", time.Since(began).Seconds(), 10, "s")
}

// processor returns the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// harmed publishes a rule that one branch in a hundred refuses: the ring stops by itself.
func (s *simulation) harmed(present []*simulated) {
	s.t.Helper()
	quarter := Percent(2500)
	s.must(s.publish(Publish{Files: []string{s.bundle("1.1.0", s.rules)}, Share: &quarter, MaxFailures: 50,
		Soak: time.Minute}))
	s.pass(4 * time.Minute)
	if err := s.roll(); !errors.Is(err, errHarms) {
		s.t.Errorf("it is not held: %v", err)
	}
	s.pass(3 * time.Minute)
	if err := s.roll(); err != nil {
		s.t.Error(err)
	}
	head := s.head()
	took := 0
	for _, b := range present {
		if _, ok := b.took["1.1.0"]; ok {
			took++
			if !head.Rollout.InRing(b.name) {
				s.t.Errorf("%s took it and is not of the ring", b.name)
			}
		}
	}
	s.verdict("branches that took a rule which 1 % refuse, of all", 100*float64(took)/float64(len(present)), 27.5, "%")
	s.must((&Back{Reason: "1 % lo rechazan"}).Run(s.t.Context(), s.chain))
	s.pass(3 * time.Minute)
	for _, b := range present {
		if b.live() != "1.0.0" {
			s.t.Errorf("%s runs %s", b.name, b.live())
		}
	}
}

// outage makes the store unreachable for ten minutes in the middle of a roll-out.
func (s *simulation) outage(present []*simulated) {
	s.t.Helper()
	s.must(s.publish(Publish{Files: []string{s.bundle("1.2.0", s.rules)}, Soak: time.Minute, Reason: "tasa nueva"}))
	s.pass(4 * time.Minute)
	s.must(s.roll())
	s.pass(4 * time.Minute)
	s.must(s.roll()) // all
	s.away = s.now.Add(10 * time.Minute)
	s.busiest = 0
	s.pass(10 * time.Minute)
	fmt.Printf("while the store is away: at most %d requests in a second of all\n", s.busiest)
	back := s.now
	s.busiest = 0
	s.pass(4 * time.Minute)
	s.verdict("roll-out to all, from the store's return after ten minutes", s.slowest(present, "1.2.0", back), 2,
		"polls")
	fmt.Printf("behind it: at most %d requests in a second of all, %.1f times the polls at rest\n", s.busiest,
		float64(s.busiest)/float64(len(present))*fleet.DefaultPoll.Seconds())
	s.must(s.roll())
	if s.head().Rollout != nil {
		s.t.Error("it has not reached all")
	}
}

// returned wakes boxes that were away for three days: they read every version, and apply only the last one.
func (s *simulation) returned(absent []*simulated) {
	s.t.Helper()
	s.pass(3 * time.Minute)
	s.now = s.now.Add(72 * time.Hour) // the others had nothing to do meanwhile
	for _, b := range s.due {
		b.clock = b.clock.Add(72 * time.Hour)
	}
	began := s.now
	for _, b := range absent {
		b.clock = s.now
		heap.Push(&s.due, b)
	}
	s.pass(3 * time.Minute)
	s.verdict("what is desired, in boxes that were away for days, from their return", s.slowest(absent, "1.2.0", began),
		2, "polls")
	head := s.head().Version
	for _, b := range absent {
		if int64(len(b.versions)) != head || b.versions[len(b.versions)-1] != head || len(b.took) != 1 {
			s.t.Errorf("%s read the versions %v of %d, took %v", b.name, b.versions, head, b.took)
		}
	}
	for _, b := range s.boxes {
		if !slices.IsSorted(b.versions) || b.live() != "1.2.0" {
			s.t.Errorf("%s read %v, runs %s", b.name, b.versions, b.live())
		}
	}
}

// stolen publishes, with the director's stolen key, a rule that is older than all others, and a rule that the rules'
// keys never signed.
func (s *simulation) stolen() {
	s.t.Helper()
	for _, file := range []string{s.bundle("0.9.0", s.rules), s.bundle("9.0.0", fleetproto.Signer{ID: "reglas",
		Private: key("thief")})} {
		p := Publish{Files: []string{file}}
		s.chain.Config.Keys = nil // a thief does not check
		state, files, err := p.load(s.chain)
		s.must(err)
		for key, data := range files {
			s.must(s.chain.CreateOnce(s.t.Context(), key, data))
		}
		_, err = s.chain.Next(s.t.Context(), s.head(), "tiendas", "", time.Time{},
			func(d *fleetproto.Desired) { d.Live = state })
		s.must(err)
		s.pass(3 * time.Minute)
	}
	wrong := 0
	for _, b := range s.boxes {
		if b.live() != "1.2.0" {
			wrong++
		}
	}
	s.verdict("boxes that a thief of the director's key has brought an older or unsigned rule", float64(wrong), 0,
		"boxes")
}
