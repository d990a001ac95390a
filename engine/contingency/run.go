// Package contingency lets a branch sell without MH. It watches whether MH can be reached, begins and ends the branch's contingency,
// and afterwards sends MH what the branch owes: events, then documents, alone or in lots. Each step reads its work from the store, therefore
// a crash between two steps loses nothing.
//
// This file is the loop. A period is in period.go and watch.go, an event in event.go and event_send.go, the sending of documents in
// forward.go and lot.go, the deadlines in law.go and backlog.go, the technical report of a long contingency in technical.go.
package contingency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dtegate/engine/bell"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Contingency is the contingency of one branch. Make it with New; it is safe for concurrent use.
type Contingency struct {
	*common
	*Watch
	*Reports
	events events
	lots   *lots
}

// New returns the contingency of a branch, in the period that the last process left open. It starts nothing: see Run. Errors:
// the store's, or a period's record that cannot be read.
func New(b Branch, o Options) (*Contingency, error) {
	o.setDefaults()
	in := &common{branch: b, unread: record.NewUnread(b.Logger), options: o, metrics: newMetrics(), work: bell.New()}
	w := &Watch{common: in, suspicion: bell.New()}
	c := &Contingency{common: in, Watch: w, Reports: &Reports{in, w}, events: events{in}, lots: &lots{common: in, watch: w}}
	return c, w.restore()
}

// Run works until ctx ends. At the start, and then every Branch.Every, it settles documents that were signed and that no
// request settles any more. It watches MH, and sends what is owed.
func (c *Contingency) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.Watch.run(ctx) })
	defer wg.Wait()
	if c.Current() != nil {
		c.Suspect()
	}
	before := c.branch.Now().Add(c.branch.SettleAfter) // everything: no request is older than this process
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
			// More may come with it: a branch that sells in contingency rings with every sale.
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		case <-time.After(next):
		}
	}
}

// drain sends what is owed as far as it goes: results first, then events, then documents. It stops where MH is away. next
// is when there may be more to do.
func (c *Contingency) drain(ctx context.Context) (next time.Duration, err error) {
	steps := []func(context.Context) (progress bool, err error){c.lots.poll, c.events.send, c.events.report, c.lots.forward, c.branch.Documents.ExpireCorrections}
	for ctx.Err() == nil {
		if c.Current() != nil {
			return c.branch.Every, nil
		}
		again := false
		for _, step := range steps {
			progress, err := step(ctx)
			if errors.Is(err, ErrAway) {
				c.Suspect()
				return c.branch.Every, nil
			}
			if err != nil {
				return c.branch.Every, err
			}
			again = again || progress
		}
		if !again {
			break
		}
	}
	return c.timeToNext()
}

// timeToNext is the time until something is due, at most Every.
func (c *Contingency) timeToNext() (time.Duration, error) {
	now, next := c.branch.Now(), c.branch.Every
	for _, queue := range []string{record.QueueLot, record.QueueEvent, record.QueueReport, record.QueueForward} {
		first, err := c.branch.Store.Due(queue, now.Add(next), 1)
		if err != nil {
			return next, fmt.Errorf("reading queue %s: %w", queue, err)
		}
		if len(first) > 0 {
			next = min(next, max(first[0].Due.At.Sub(now), c.options.LotPoll))
		}
	}
	return next, nil
}

// Wake makes Run look soon at what is owed.
func (c *Contingency) Wake() { c.work.Ring() }

// CorrectWithin returns how long after a refusal MH accepts a correction, from the rules in force.
func (c *Contingency) CorrectWithin() time.Duration { return c.law().correction }

// Settled is called when MH has decided a document: the size of the lots that it was in is then forgotten.
func (c *Contingency) Settled(code storage.Code) { c.lots.forget(code) }

// ErrAway means that MH cannot be reached now: what the branch owes waits.
var ErrAway = errors.New("MH is away")
