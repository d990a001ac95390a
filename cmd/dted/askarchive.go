package main

import (
	"context"
	"time"

	"dtegate/engine/seller"
	"dtegate/storage"
)

const (
	// standstill is how long a box stands still before the archive is asked for what its store may lack.
	standstill = 48 * time.Hour
	// recently is how long after a restoration every start asks the archive.
	recently = 7 * 24 * time.Hour
	// askArchiveFor bounds one question, and what the first sale waits for it.
	askArchiveFor = 10 * time.Second
)

// witness asks the archive, after a restoration or a long standstill, whether it holds documents whose numbers the store
// lacks: an old copy of the store may have been put back. The first sale waits for the answer, at most askArchiveFor.
type witness struct {
	ask   func(ctx context.Context, from, to time.Time) error // nil: there is nothing to ask, or no reason
	since time.Time                                           // the store's last activity
	done  chan struct{}
	began time.Time
	now   func() time.Time
}

// newWitness decides whether there is a reason to ask.
func newWitness(d *daemon, points []seller.Point, last time.Time, archived bool, now func() time.Time) (*witness, error) {
	w := &witness{done: make(chan struct{}), began: time.Now(), now: now}
	gaps, err := d.store.Gaps()
	if err != nil {
		return nil, err
	}
	var reason bool
	if w.since, reason = unsureSince(gaps, last, w.now()); !reason || !archived {
		close(w.done)
		return w, nil
	}
	w.ask = func(ctx context.Context, from, to time.Time) error {
		return d.engine.Witness().AskArchive(ctx, points, from, to)
	}
	return w, nil
}

// unsureSince returns since when the store may lack documents; false: there is no reason to think so. last is its last
// activity before this start, zero for none.
func unsureSince(gaps []storage.Gap, last, now time.Time) (since time.Time, reason bool) {
	since, reason = last, !last.IsZero() && now.Sub(last) > standstill
	for _, g := range gaps {
		if now.Sub(g.To) < recently {
			reason = true
			if g.From.Before(since) {
				since = g.From
			}
		}
	}
	return since, reason
}

// await waits for the archive's answer, no longer than askArchiveFor from the start.
func (w *witness) await() {
	select {
	case <-w.done:
		return
	default:
	}
	timer := time.NewTimer(askArchiveFor - time.Since(w.began))
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
	}
}

// run asks until there was an answer; a sale does not wait for the second question.
func (w *witness) run(ctx context.Context, warn func(msg string, args ...any)) error {
	if w.ask == nil {
		return nil
	}
	for first := true; ; first = false {
		within, cancel := context.WithTimeout(ctx, askArchiveFor)
		err := w.ask(within, w.since, w.now())
		cancel()
		if first {
			close(w.done)
		}
		if err == nil || ctx.Err() != nil {
			return nil
		}
		warn("the archive cannot be asked for what the store may lack", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Minute):
		}
	}
}
