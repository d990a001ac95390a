package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/record"
)

// drain sends what is owed as far as it goes: results first, then events, then documents. It stops where MH is away. next
// is when there may be more to do.
func (c *contingency) drain(ctx context.Context) (next time.Duration, err error) {
	for ctx.Err() == nil {
		if c.current() != nil {
			return c.every, nil
		}
		again := false
		for _, step := range []func(context.Context) (bool, error){c.pollLots, c.sendEvents, c.report, c.forward, c.docs.expireCorrections} {
			progress, err := step(ctx)
			if errors.Is(err, errAway) {
				c.suspect()
				return c.every, nil
			}
			if err != nil {
				return c.every, err
			}
			again = again || progress
		}
		if !again {
			break
		}
	}
	return c.soon()
}

// soon is the time until something is due, at most every.
func (c *contingency) soon() (time.Duration, error) {
	now, next := c.now(), c.every
	for _, queue := range []string{record.QueueLot, record.QueueEvent, record.QueueReport, record.QueueForward} {
		first, err := c.store.Due(queue, now.Add(next), 1)
		if err != nil {
			return next, fmt.Errorf("reading queue %s: %w", queue, err)
		}
		if len(first) > 0 {
			next = min(next, max(first[0].Due.At.Sub(now), c.options.LotPoll))
		}
	}
	return next, nil
}

// watch probes MH when somebody doubts that it is there, and while the branch is in contingency, until ctx ends.
func (c *contingency) watch(ctx context.Context) {
	wait, up := c.options.ProbeEvery, time.Time{} // up: since when MH answers, in a period
	for ctx.Err() == nil {
		var timer <-chan time.Time
		if p := c.current(); p != nil {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.suspicion:
		case <-c.back:
			if c.current() == nil {
				continue
			}
		case <-timer:
		}
		p := c.current()
		o := c.probe(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case o.Kind == authority.Unknown && p == nil:
			if err := c.enter(ctx, Period{Began: c.now(), Cause: c.cause(ctx, o), Motive: o.Reason()}); err != nil {
				c.log.Error("entering contingency", "error", err)
			}
			wait, up = c.options.ProbeEvery, time.Time{}
		case o.Kind == authority.Unknown:
			wait, up = min(2*wait, c.options.ProbeMax), time.Time{}
		case p == nil:
			wait = c.options.ProbeEvery
		case p.Declared: // Lift ends it, and has MH probed at once
			wait = min(2*wait, c.options.ProbeMax)
		case up.IsZero():
			wait, up = min(c.options.ProbeEvery, c.stable()), c.now()
		case c.now().Sub(up) >= c.stable():
			if err := c.leave(ctx); err != nil {
				c.log.Error("leaving contingency", "error", err)
			}
			wait, up = c.options.ProbeEvery, time.Time{}
			c.wake()
		}
	}
}

// stable is how long MH must have answered: longer the more periods there were of late.
func (c *contingency) stable() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.begun) > 0 && c.now().Sub(c.begun[0]) > time.Hour {
		c.begun = c.begun[1:]
	}
	return min(c.options.Stable<<min(max(0, len(c.begun)-1), 20), c.options.StableMax)
}

func (c *contingency) probe(ctx context.Context) authority.Outcome {
	ctx, cancel := context.WithTimeout(ctx, c.options.ProbeTimeout)
	defer cancel()
	return c.client.Probe(ctx)
}

// suspect has MH probed soon.
func (c *contingency) suspect() { c.suspicion.Ring() }

// wake has what is owed looked at soon.
func (c *contingency) wake() { c.work.Ring() }

// errAway means that MH cannot be reached now: what is owed waits.
var errAway = errors.New("MH is away")
