// Package fleet is the branch's side of a chain. The agent reads the centre's orders from the object store, carries
// them out if the branch's own checks allow it, and writes the results back. Only the first sale after a start or of a
// year waits for the agent, for two seconds at most: see Fence.Await.
//
// Every step of the agent can be repeated. Its memory is one small file (state.go). It writes the file before it acts.
// Only the branch's rule store (the "shelf") says which bundles are in force.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet/fleetproto"
)

// Defaults and limits of the agent's times.
const (
	DefaultPoll   = 2 * time.Minute
	DefaultReport = 15 * time.Minute
	// DefaultLook is the longest time between two reads of the branch's enrolments: they show whether another box has
	// the branch. lookSoon replaces DefaultLook while the store does not answer.
	DefaultLook = time.Minute
	lookSoon    = 15 * time.Second
	// askFor limits the time of a request for a small object, fetchFor for a bundle.
	askFor   = 20 * time.Second
	fetchFor = 5 * time.Minute
	// maxSkew is how far a version's time of issue may be ahead of the box's clock.
	maxSkew = time.Hour
)

// Options of New. Every field without a default is required.
type Options struct {
	Store  fleetproto.Store
	Chain  fleetproto.Chain
	Branch string
	Group  string
	// Director are the director's keys, the oldest first. A key is not trusted once a later key has signed a version.
	Director []fleetproto.Key
	Box      fleetproto.Signer // the box's own key
	Points   []fleetproto.Point
	Rules    Rules
	State    fleetproto.File
	// Settings is the file that keeps the settings for the appliance's next start; nil: no settings are kept.
	Settings fleetproto.File
	// Last returns the last number of each series in the box's store, in a new map.
	Last func() (map[string]uint64, error)
	// Describe fills in the branch's part of the status; nil leaves that part empty. The agent fills in its own part.
	Describe func(*fleetproto.Status)
	Poll     time.Duration // default DefaultPoll
	Report   time.Duration // default DefaultReport
	Look     time.Duration // default DefaultLook
	Logger   *slog.Logger
	Now      func() time.Time
	Rand     *rand.Rand // jitter; default random
}

// Agent reads the state that the centre desires, applies it and reports the results. One goroutine calls Step and Run,
// and changes the fields; any goroutine may call the other exported methods.
type Agent struct {
	o       Options
	metrics *metrics
	fence   *Fence

	nextLook, nextPoll, report time.Time
	looks                      int       // how often the enrolments were read
	ahead                      time.Time // after a refused version, no later version is read before this time
	grave                      []string  // digests of the bundles in force whose documents MH refused at the last poll
	recalled                   bool      // recall has compared the store with the last status, in this run and epoch
	silent                     bool      // the store did not answer the last read of the enrolments
	dirty                      bool      // the status has news that the centre waits for
	saved                      string    // the content of the state file

	mu    sync.Mutex // guards the fields below, which other goroutines read
	state state
	// The highest number of each series that this run has read in the box's store or last status. The map is never
	// changed, only replaced.
	reported map[string]uint64
	// The latest verified version; nil: there is none, or no key that is pinned now has signed it
	desired  *fleetproto.Desired
	troubles map[string]error // current errors, by the part of the work
	asked    time.Time        // when the store last answered about the desired state
}

// New returns an agent that continues where the previous agent stopped. If the state file is damaged, the state is
// empty; the rule store itself refuses bundles whose version is too old.
func New(o Options) (*Agent, error) {
	o.Poll, o.Report, o.Look = cmp.Or(o.Poll, DefaultPoll), cmp.Or(o.Report, DefaultReport), cmp.Or(o.Look, DefaultLook)
	o.Rand = cmp.Or(o.Rand, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	a := &Agent{o: o, metrics: newMetrics(), troubles: make(map[string]error)}
	if err := a.loadState(); err != nil {
		return nil, err
	}
	a.fence = &Fence{kicked: fairqueue.NewBell(), standing: a.state.Enrolled.standing(), answer: make(chan struct{})}
	// Boxes that start together, after a power cut in a region, must not all ask together.
	a.nextPoll = o.Now().Add(time.Duration(o.Rand.Float64() * float64(min(a.o.Poll, 10*time.Second))))
	return a, nil
}

// Fence returns the fence. The fence decides whether this box may issue numbers.
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

// Step does the work that is due and returns the time until the next work is due.
func (a *Agent) Step(ctx context.Context) time.Duration {
	now := a.o.Now()
	a.look(ctx)
	if !now.Before(a.nextPoll) {
		err := a.readDesired(ctx)
		a.noteTrouble("desired", err)
		if err == nil && a.silent { // the store answers again: the next Step reads the enrolments
			a.nextLook = time.Time{}
		}
		a.reconcile(ctx)
		a.noteTrouble("acts", a.sendActs(ctx))
		a.nextPoll = a.o.Now().Add(a.jitter(a.o.Poll))
		if a.dirty && len(a.state.Acts) == 0 {
			a.report = time.Time{} // send the status now; this happens at most once per poll
		}
		var grave []string // digests of the bundles in force whose documents MH refuses
		for _, b := range a.o.Rules.Bundles() {
			if b.Where == Live && b.Outcomes.Grave() {
				grave = append(grave, b.Digest)
			}
		}
		if !slices.Equal(grave, a.grave) {
			a.grave, a.report = grave, time.Time{} // send the status now: the centre may have to hold a roll-out
		}
	}
	if !now.Before(a.report) {
		a.noteTrouble("status", a.sendStatus(ctx))
		a.report = a.o.Now().Add(a.jitter(a.o.Report))
	}
	now = a.o.Now()
	next := slices.MinFunc([]time.Time{a.nextLook, a.nextPoll, a.report}, time.Time.Compare)
	return max(next.Sub(now), 10*time.Millisecond)
}

// look reads the branch's enrolments, if they are due.
func (a *Agent) look(ctx context.Context) {
	if a.o.Now().Before(a.nextLook) {
		return
	}
	before := a.state.Enrolled
	answered, err := a.readEnrolments(ctx)
	if answered && !a.recalled { // before the waiting sales are released
		err = errors.Join(err, a.recall(ctx))
	}
	a.noteTrouble("enrolment", err)
	// Poll and report at once: the status belongs to another epoch now, or must show that this box is replaced. The
	// poll comes first, because it ends the troubles of the earlier epoch.
	if a.state.Enrolled.Own != before.Own || a.state.Enrolled.Over != before.Over {
		a.nextPoll, a.report = time.Time{}, time.Time{}
	}
	again := a.o.Look
	if a.silent = !answered; a.silent { // sales may be waiting for an answer
		again = min(again, lookSoon)
	} else {
		a.fence.releaseWaiting(a.o.Now())
	}
	if answered && a.state.Enrolled.Own == 0 { // a person waits for the first enrolment
		again = min(again, a.o.Poll)
	}
	// The jitter makes the next look earlier, never later.
	a.nextLook = a.o.Now().Add(time.Duration(float64(again) * (1 - 0.06*a.o.Rand.Float64())))
}

// jitter varies a time by up to a tenth in both directions.
func (a *Agent) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*a.o.Rand.Float64()))
}

// Rules is the branch's rule store (the shelf) for the agent. It decides whether an order is allowed.
type Rules interface {
	// Bundles returns all bundles of the shelf, even those taken off.
	Bundles() []Bundle
	// Admit passes a bundle's file through all steps of the branch's admission. An error is the branch's fault, not the
	// bundle's: the agent tries again. Admit accepts a bundle that is in force or coming already.
	Admit(ctx context.Context, file []byte, o Order) (Admission, error)
	// StepBack puts a bundle of the shelf in force again, even a retired bundle. The bundle's first day must have come.
	StepBack(ctx context.Context, to Bundle, o Order) error
	// Cancel takes a bundle off the shelf before its first day.
	Cancel(ctx context.Context, coming Bundle, o Order) error
}

// Order is the author of a change, and the reason.
type Order struct {
	Who, Reason string
	// AmountsChange and FewerCases are those of fleetproto.Rule. For bundles of the live state both are true, because
	// other branches have tried them.
	AmountsChange, FewerCases bool
}

// Admission is the result of Admit.
type Admission struct {
	Refused string // the step that refused the bundle; "": the bundle is on the shelf
	Reason  string // the step's reason, or a remark about an admitted bundle
}

// Where is a bundle's place on the shelf.
type Where string

const (
	Live    Where = "live"    // in force today
	Coming  Where = "coming"  // in force from a later day
	Spare   Where = "spare"   // superseded by a newer bundle
	Retired Where = "retired" // taken off
	Unsound Where = "unsound" // the bundle must not be used
)

// Off says who took a bundle off the shelf.
type Off string

const (
	OffItself   Off = "itself"   // the branch, because the bundle did harm
	OffCentre   Off = "centre"   // this agent, by order
	OffOperator Off = "operator" // a person in the branch
)

// Bundle is a bundle of the shelf.
type Bundle struct {
	Digest   string `json:"digest"` // of the signed manifest
	Name     string `json:"name"`
	Version  string `json:"version"`
	Kind     string `json:"kind"` // document, event or catalogue
	Document string `json:"document"`
	Schema   int    `json:"schema,omitempty"`
	From     string `json:"from"` // first day, "2026-12-01"
	Where    Where  `json:"where"`
	Ordered  bool   `json:"ordered,omitempty"` // the centre put the bundle on the shelf
	// Off and Reason are set for a retired bundle.
	Off    Off    `json:"off,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Outcomes are MH's newest decisions about the bundle's documents.
	Outcomes dte.Outcomes `json:"outcomes,omitzero"`
}

func (b *Bundle) inForce() bool { return b.Where == Live || b.Where == Coming }

func find(list []Bundle, digest string) *Bundle {
	if i := slices.IndexFunc(list, func(b Bundle) bool { return b.Digest == digest }); i >= 0 {
		return &list[i]
	}
	return nil
}

func named(list []fleetproto.Rule, digest string) bool {
	return slices.ContainsFunc(list, func(r fleetproto.Rule) bool { return r.Digest == digest })
}

// byKind is the order of admission: the golden cases of documents and events need the catalogues.
func byKind(a, b fleetproto.Rule) int {
	kinds := []string{"catalogue", "document", "event"}
	return slices.Index(kinds, a.Bundle) - slices.Index(kinds, b.Bundle)
}

// aheadEvery is how often the box reads the versions after a refused version.
const aheadEvery = 10 * time.Minute

// maxRefused limits how many refused versions in a row the box reads at once, and fetchFor how long it reads: a hostile
// store may return an object for every version, slowly.
const maxRefused = 10_000

// Closed reports whether the centre has closed a point of sale of this branch for a year.
func (a *Agent) Closed(p fleetproto.Point, year int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.state.Closed, func(c fleetproto.ClosedPoint) bool {
		return c.Establishment == p.Establishment && c.Point == p.Point && c.Year == year
	})
}

// readDesired reads the versions of the group's desired state that the box has not seen. It accepts a version signed by
// the director if the box had no version before, if digests link it to the last accepted version (whoever signed the
// versions between), or if it mends a loss of the store. Only the last accepted version has an effect. After a refused
// version, later versions are read at most every aheadEvery.
func (a *Agent) readDesired(ctx context.Context) error {
	taken := fleetproto.Verified{Version: a.state.Version, Digest: a.state.Digest}
	before := taken
	signer, now := a.state.Signer, a.o.Now()
	var last *fleetproto.Desired
	var data []byte
	var fault error
	for seen, linked := taken, true; fault == nil || !now.Before(a.ahead); {
		if seen.Version >= taken.Version+maxRefused || a.o.Now().Sub(now) > fetchFor {
			a.ahead = now.Add(aheadEvery)
			break
		}
		version := seen.Version + 1
		o, err := a.get(ctx, fleetproto.DesiredKey(a.o.Group, version), fleetproto.MaxJWS)
		if errors.Is(err, archive.ErrNotFound) {
			if fault != nil {
				a.ahead = now.Add(aheadEvery)
			}
			break
		}
		if err != nil && !useless(err) {
			fault = errors.Join(fault, fmt.Errorf("asking for version %d: %w", version, err))
			break
		}
		var d *fleetproto.Desired
		if err == nil {
			d, err = a.o.Chain.OpenDesired(o.Data, fleetproto.StillTrusted(a.o.Director, signer), a.o.Group, version)
		}
		signed := err == nil
		if !signed { // read the version all the same: a later version may contain its digest
			d, _ = a.o.Chain.ReadDesired(o.Data, a.o.Group, version)
		}
		linked = linked && d != nil && d.Follows(seen) == nil
		if signed && !linked && before.Version > 0 && !d.Mended(taken) && !d.Mended(before) {
			err = fmt.Errorf("%w: it does not follow the version %d that this box verified (%.12s)",
				fleetproto.ErrOther, taken.Version, taken.Digest)
		}
		seen = fleetproto.Verified{Version: version, Digest: fleetproto.Digest(o.Data)}
		switch {
		case err == nil:
			taken, signer, linked, last, data, fault = seen, d.SignedBy, true, d, o.Data, nil
		case fault == nil:
			fault = fmt.Errorf("version %d is not accepted: %w", version, err)
		}
	}
	if last != nil {
		err := a.change(func(s *state) {
			if s.Version == 0 && s.Enrolled.Own > 0 {
				a.inherit(s, last)
			}
			s.Version, s.Digest, s.Signer, s.Desired = taken.Version, taken.Digest, signer, data
			for _, p := range last.Closed {
				if p.Branch == s.Branch && !slices.Contains(s.Closed, p) {
					s.Closed = append(s.Closed, p)
				}
			}
		})
		if err != nil {
			return err
		}
		// After this line the version has an effect, and no earlier version can have an effect again.
		a.mu.Lock()
		a.desired = last
		a.mu.Unlock()
		a.o.Logger.Info("the centre desires another state", "version", taken.Version, "by", last.By, "reason",
			last.Reason)
		a.dirty = true
	}
	if fault == nil {
		a.mu.Lock()
		a.asked = a.o.Now()
		a.mu.Unlock()
	}
	return fault
}

// takeSettings fetches the desired settings file. The file takes effect at the next start of the appliance.
func (a *Agent) takeSettings(ctx context.Context, d *fleetproto.Desired) error {
	want := a.wanted(d)
	if want.Settings == a.state.Settings {
		return a.keepSettings()
	}
	var values []byte
	if want.Settings != "" {
		var err error
		if values, err = a.fetch(ctx, fleetproto.SettingsKey(want.Settings), want.Settings,
			fleetproto.MaxSettings); err != nil {
			return fmt.Errorf("the settings %.12s: %w", want.Settings, err)
		}
		if _, err := fleetproto.ParseSettings(values); err != nil {
			return fmt.Errorf("the settings %.12s are not accepted: %w", want.Settings, err)
		}
	}
	err := a.change(func(s *state) {
		s.Settings, s.Values = want.Settings, values
		a.queueAct(s, fleetproto.Act{What: fleetproto.ActSettings, Version: d.Version, Digest: want.Settings})
	})
	if err != nil {
		return err
	}
	a.dirty = true
	return a.keepSettings()
}

// keepSettings writes the settings that the agent has taken to the file that the appliance's next start reads.
func (a *Agent) keepSettings() error {
	if a.o.Settings == nil {
		return nil
	}
	there, err := a.o.Settings.Load()
	if err != nil || string(there) == string(a.state.Values) {
		return err
	}
	return a.o.Settings.Save(a.state.Values)
}
