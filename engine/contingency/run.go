// Package contingency lets a branch sell without MH. It watches whether MH can be reached, begins and ends the branch's
// contingency, and afterwards sends MH the backlog: events, then documents, alone or in lots. Each step reads its work
// from the store, so a crash between two steps loses nothing.
//
// This file has the loop, the settings and the law's times. Periods are in watch.go, events in event.go, sending in
// forward.go, the backlog and its deadlines in backlog.go, the technical report in technical.go.
package contingency

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/engine/sign"
	"dtegate/storage"
)

// Contingency is the contingency of one branch. Make it with New; it is safe for concurrent use.
type Contingency struct {
	branch  Branch
	options Options
	metrics *metrics
	work    fairqueue.Bell // rung when there may be something to send

	// A sale holds mu from reading the period until the document is stored: no document is stored after its period.
	mu        sync.RWMutex
	period    *Period        // nil: no contingency
	begun     []time.Time    // when periods began in the last hour
	suspicion fairqueue.Bell // rung when MH may be away: the watch probes it
	sizes     lotSizes

	eventRule string // digest of the last bundle of events; only makeEvents uses it
}

// New returns the contingency of a branch, with the period, if any, that the last process left open. It starts nothing:
// see Run. It ignores an unreadable period. Errors: the store's.
func New(b Branch, o Options) (*Contingency, error) {
	c := &Contingency{branch: b, options: o, metrics: newMetrics(), work: fairqueue.NewBell(),
		suspicion: fairqueue.NewBell()}
	list, err := c.periods()
	for _, p := range list {
		if p.Ended.IsZero() {
			c.period = p
			b.Logger.Warn("still in contingency", "began", p.Began, "cause", p.Cause)
		}
	}
	return c, err
}

// Run works until ctx ends. At the start, and every Branch.Every, it settles signed documents that no request settles.
// It watches MH, and sends the backlog.
func (c *Contingency) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.watch(ctx) })
	defer wg.Wait()
	if c.Current() != nil {
		c.Suspect()
	}
	before := c.branch.Now().Add(c.branch.SettleAfter) // at first all: no request of the last process still runs
	var swept time.Time
	for ctx.Err() == nil {
		if now := c.branch.Now(); now.Sub(swept) >= c.branch.Every || now.Before(swept) {
			c.branch.Documents.Settle(ctx, before)
			swept, before = now, now
		}
		next, err := c.drain(ctx)
		if err != nil && ctx.Err() == nil {
			c.branch.Logger.Error("sending what is owed", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-c.work:
			// Wait for more documents, because every sale in contingency wakes this loop.
			_ = fairqueue.Sleep(ctx, 100*time.Millisecond)
		case <-time.After(next):
		}
	}
}

// drain works off the backlog as far as possible: results of lots, events, documents. It stops if MH cannot be reached;
// any other failure of a step does not stop the next step. It returns the time until the next work may be due.
func (c *Contingency) drain(ctx context.Context) (next time.Duration, err error) {
	steps := []func(context.Context) (progress bool, err error){
		func(ctx context.Context) (bool, error) { return c.eachDue(ctx, record.QueueLot, c.pollLot) },
		func(ctx context.Context) (bool, error) { return c.eachDue(ctx, record.QueueEvent, c.advance) },
		c.makeEvents, c.forwardDocuments, c.branch.Documents.ExpireCorrections}
	for ctx.Err() == nil {
		if c.Current() != nil {
			return c.branch.Every, nil
		}
		again := false
		for _, step := range steps {
			progress, failed := step(ctx)
			if errors.Is(failed, ErrAway) && c.away(ctx) {
				return c.branch.Every, err
			}
			again, err = again || progress, errors.Join(err, failed)
		}
		if err != nil {
			return c.branch.Every, err
		}
		if !again {
			break
		}
	}
	return c.timeToNext()
}

// timeToNext returns the time until the next record is due: at least lotPoll, but at most Every.
func (c *Contingency) timeToNext() (time.Duration, error) {
	now, next := c.branch.Now(), c.branch.Every
	for _, queue := range []string{record.QueueLot, record.QueueEvent, record.QueueReport, record.QueueForward} {
		first, err := c.branch.Store.Due(queue, now.Add(next), 1)
		if err != nil {
			return next, fmt.Errorf("reading queue %s: %w", queue, err)
		}
		if len(first) > 0 {
			next = min(next, max(first[0].Due.At.Sub(now), c.hurried(lotPoll)))
		}
	}
	return next, nil
}

// Wake makes Run look soon for work.
func (c *Contingency) Wake() { c.work.Ring() }

// CorrectWithin returns how long after a refusal MH accepts a correction, from the rules in force.
func (c *Contingency) CorrectWithin() time.Duration { return c.law().correction }

// Settled lifts the limit on the lot of a document, because MH has decided the document.
func (c *Contingency) Settled(code storage.Code) { c.sizes.Delete(code) }

// ErrAway means that MH did not answer. If MH does not answer a probe either, the backlog waits (Contingency.away).
var ErrAway = errors.New("MH did not answer")

// Branch is what the contingency uses of its branch. Every field but Reachable is required.
type Branch struct {
	Documents Documents
	Store     *storage.Store
	Lost      *record.LostRecords // the lost records of Store
	Signer    *sign.Signer
	Sender    *authority.Sender
	Rules     func() *rulestore.Book // in force
	Issuer    record.Issuer
	Logger    *slog.Logger
	Now       func() time.Time
	Rand      io.Reader    // source of generation codes
	SendID    func() int64 // the next idEnvio, any number (MT1 §4.2)
	// Reachable, if not nil, receives a value when MH is reachable again. In a contingency, MH is then probed at once.
	Reachable <-chan struct{}
	// Every is how often Run looks for work. SettleAfter is how long a request may take to settle its document.
	Every, SettleAfter time.Duration
}

// Documents are the operations on documents that the contingency needs; the engine has them.
type Documents struct {
	// Settle settles the signed documents, and sends again the pending invalidations, that were due before a moment.
	Settle func(ctx context.Context, before time.Time)
	// Move changes a document's state, its queue and its origin's counters in one batch.
	Move func(context.Context, storage.Entry, storage.Change, *record.Head) (storage.Entry, error)
	// AdoptHeld records, as the document's form, the form that MH has. doubt is the greatest difference between MH's
	// times and the recorded times of sending.
	AdoptHeld func(ctx context.Context, entry storage.Entry, h *record.Head, held *authority.Response,
		doubt time.Duration) (storage.Entry, error)
	// JudgeEvent counts MH's decision about an event that the rule made.
	JudgeEvent func(rule record.RuleRef, accepted bool)
	// ExpireCorrections removes from the queue the documents that can no longer be corrected.
	ExpireCorrections func(context.Context) (progress bool, err error)
}

func (c *Contingency) appendRecord(ctx context.Context, kind string, code dte.Code, state storage.State, h any,
	due storage.Due, parts ...storage.Part) (storage.Entry, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return storage.Entry{}, err
	}
	entry, err := c.branch.Store.Append(ctx, storage.Keys{Series: c.branch.Issuer.Ambiente + "/" + kind},
		storage.Draft{Code: storage.Code(code), State: state, Head: head, Parts: parts, Due: &due})
	if err != nil {
		return entry, fmt.Errorf("recording a new %s: %w", kind, err)
	}
	return entry, nil
}

func (c *Contingency) finish(ctx context.Context, entry storage.Entry, to storage.State) error {
	if _, err := record.Move(ctx, c.branch.Store, entry.Code, entry.State, storage.Change{To: to}); err != nil {
		return fmt.Errorf("closing record: %w", err)
	}
	return nil
}

// moveRecord records a period, an event or a lot with its present head. A nil due removes the record from its queue.
func (c *Contingency) moveRecord(ctx context.Context, entry storage.Entry, to storage.State, h any,
	due *storage.Due) (storage.Entry, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return entry, err
	}
	next, err := record.Move(ctx, c.branch.Store, entry.Code, entry.State, storage.Change{To: to, Head: head, Due: due})
	if err != nil {
		return entry, fmt.Errorf("recording %s: %w", dte.Code(entry.Code), err)
	}
	return next, nil
}

// Times of the contingency. Options.Hurry divides some of them, to shorten a demonstration.
const (
	probeEvery   = 2 * time.Second  // the time between two probes of MH at first; it doubles up to probeMax
	probeMax     = 30 * time.Second // the longest time between two probes
	probeTimeout = 4 * time.Second
	// stableFor is how long MH must have answered before a period ends. It doubles with each period of the last hour,
	// up to stableMax, so that an unstable connection does not cause a period every minute.
	stableFor = 2 * time.Second
	stableMax = 5 * time.Minute
	// reportAfter is the time from a period's end to its event. Until then the period can resume.
	reportAfter  = 15 * time.Second
	correctAfter = time.Minute     // from MH's refusal of an event to the next event; it doubles, up to an hour
	lotPoll      = 5 * time.Second // how often MH is asked about a lot
	// lotPatience is the wait for a lot's results before its documents are queried (MT1 §3.4: MH needs 3 min).
	lotPatience  = 15 * time.Minute
	lotsInFlight = 4 // lots on which MH works at once
)

// Options are the settings of the contingency.
type Options struct {
	// Responsible is the person who answers for the events, with name and identity document (schema of the event).
	Responsible record.Person
	// Internet lists addresses (host:port). While the branch has Internet, at least one of them answers. If no address
	// answers, the cause of a contingency is 3, no Internet (CAT-005), and not 1. Without addresses, only an unknown
	// name or route means cause 3.
	Internet []string
	// Hurry, for demonstrations and tests, divides the times of the contingency; default 1.
	Hurry int
	// LotSize and LotsInFlight are for tests. LotSize lowers the law's limit; LotsInFlight replaces lotsInFlight.
	LotSize, LotsInFlight int
}

func (c *Contingency) hurried(d time.Duration) time.Duration {
	return d / time.Duration(max(1, c.options.Hurry))
}

// law has the limits from the bundle of contingency events in force: the longest times, and the largest sizes.
type law struct {
	event          time.Duration // from the end of a cause to its event
	documents      time.Duration // from an event's seal to its documents
	correction     time.Duration // from a refusal to its correction
	report         time.Duration // of a contingency without a technical report
	eventDocuments int           // the most documents in one event
	lotDocuments   int           // the most documents in one lot
}

// law returns today's law; values that the bundle lacks are those of 2026 (MF2 pp.19-20, MT1 §4.4, Normativa 2.0 p.31).
func (c *Contingency) law() law {
	l := law{event: 24 * time.Hour, documents: 72 * time.Hour, correction: 24 * time.Hour, report: 72 * time.Hour,
		eventDocuments: 1000, lotDocuments: 100}
	rule, err := c.branch.Rules().PickEvent("contingencia", c.branch.Issuer.Ambiente, dte.Date(c.branch.Now()))
	if err != nil {
		return l
	}
	for name, d := range map[string]*time.Duration{"eventHours": &l.event, "documentHours": &l.documents,
		"correctionHours": &l.correction, "technicalReportHours": &l.report} {
		*d = cmp.Or(time.Duration(max(0, rule.Whole(name)))*time.Hour, *d)
	}
	l.eventDocuments = cmp.Or(max(0, rule.Whole("eventDocuments")), l.eventDocuments)
	l.lotDocuments = cmp.Or(max(0, rule.Whole("lotDocuments")), l.lotDocuments)
	return l
}
