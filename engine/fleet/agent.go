// Package fleet is the branch's side of a chain. The agent reads the centre's orders from the object store, carries them out through the
// branch's own checks, and writes the results to the object store. No sale waits for the agent, however long the object store is away.
//
// Every step of the agent can be repeated. It keeps its memory in one small file (state.go) and writes the file before it acts.
// It asks the branch's shelf of rules what is in force, never its memory.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"dtegate/engine/fleet/wire"
)

// Defaults and limits of the agent's times.
const (
	DefaultPoll   = time.Minute
	DefaultReport = 15 * time.Minute
	// lookEvery is how often the box asks whether another one has taken its branch, lookSoon how often it does while it does not
	// know that the branch is its own, and the store fails.
	lookEvery = 5 * time.Minute
	lookSoon  = 15 * time.Second
	// askFor bounds a request for something small, fetchFor one for a bundle.
	askFor   = 20 * time.Second
	fetchFor = 5 * time.Minute
	// maxSkew is how far in the future a version may have been issued, by the box's clock.
	maxSkew = time.Hour
)

// Options of New. Every field without a default is required.
type Options struct {
	Store    wire.Store
	Branch   string
	Group    string
	Director []wire.Key  // any of them may sign
	Box      wire.Signer // the box's own key
	Points   []wire.Point
	Rules    Rules
	State    File
	// Settings, where the settings file is kept for the next start of the appliance; nil keeps none.
	Settings File
	// Describe fills in what the branch says of itself; the agent fills in the rest.
	Describe func(*wire.Status)
	Poll     time.Duration // default DefaultPoll
	Report   time.Duration // default DefaultReport
	Logger   *slog.Logger  // default slog.Default
	Now      func() time.Time
	Rand     *rand.Rand // jitter; default random
}

// File is a small file that is replaced whole.
type File interface {
	// Load returns its bytes, none when there is no file.
	Load() ([]byte, error)
	// Save is durable when it returns.
	Save([]byte) error
}

// Agent pulls what is desired and pushes what happened. Step and Run are for one goroutine, everything else for any.
type Agent struct {
	*core
	*reader
	*reporter
	owner    *owner
	follower *follower
	tuning   *tuning

	nextLook, nextPoll, report time.Time
}

// New returns an agent that goes on where the last one stopped. A state file that cannot be read is begun anew: the
// rules' own floors are on the shelf.
func New(o Options) (*Agent, error) {
	o.Poll, o.Report = cmp.Or(o.Poll, DefaultPoll), cmp.Or(o.Report, DefaultReport)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	for name, value := range map[string]string{"branch": o.Branch, "group": o.Group} {
		if err := wire.CheckName(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	c := &core{o: o, line: &line{o.Store, newMetrics()}, troubles: make(map[string]string)}
	if err := c.load(); err != nil {
		return nil, err
	}
	a := &Agent{core: c, reader: &reader{c}, reporter: &reporter{c}, tuning: &tuning{c}}
	a.owner, a.follower = &owner{c, a.reader}, &follower{c, a.tuning}
	c.fence = newFence(a.owner.standing(c.state.enrolled))
	// Boxes that start together, after a power cut in a region, do not ask together.
	a.nextPoll = o.Now().Add(time.Duration(o.Rand.Float64() * float64(min(a.tuning.poll(), 10*time.Second))))
	return a, nil
}

// Fence returns what knows whether this box may take numbers.
func (a *Agent) Fence() *Fence { return a.fence }

// Run works until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	for {
		wait := time.NewTimer(a.Step(ctx))
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil
		case <-a.fence.kicked:
			wait.Stop()
			a.nextLook = time.Time{}
		case <-wait.C:
		}
	}
}

// Step does what is due and returns how long nothing is.
func (a *Agent) Step(ctx context.Context) time.Duration {
	now := a.o.Now()
	if !now.Before(a.nextLook) {
		err, again := a.owner.look(ctx), lookEvery
		a.note("enrolment", err)
		a.fence.releaseWaiting(a.o.Now())
		switch {
		case a.state.Own > 0:
		case err != nil:
			again = lookSoon
		default: // it waits to be enrolled
			again = min(lookEvery, a.tuning.poll())
		}
		a.nextLook = a.o.Now().Add(a.jitter(again))
	}
	if !now.Before(a.nextPoll) {
		a.note("desired", a.read(ctx))
		a.follower.reconcile(ctx)
		a.note("acts", a.sendActs(ctx))
		a.nextPoll = a.o.Now().Add(a.jitter(a.tuning.poll()))
		if a.dirty && len(a.state.Acts) == 0 {
			a.report = time.Time{} // not more often than the store is asked
		}
	}
	if !now.Before(a.report) {
		a.note("status", a.sendStatus(ctx))
		a.report = a.o.Now().Add(a.jitter(a.tuning.reportEvery()))
	}
	now = a.o.Now()
	next := slices.MinFunc([]time.Time{a.nextLook, a.nextPoll, a.report}, time.Time.Compare)
	return max(next.Sub(now), 10*time.Millisecond)
}

// jitter spreads a time by a tenth to both sides.
func (a *Agent) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*a.o.Rand.Float64()))
}
