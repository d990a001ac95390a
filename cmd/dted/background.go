package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine"
	"dtegate/engine/archive"
	"dtegate/engine/audit"
	"dtegate/engine/fairqueue"
	"dtegate/engine/rulestore"
	"dtegate/storage"
)

const (
	// standstill is how long a box must have been off before the archive is asked for missing documents.
	standstill = 48 * time.Hour
	// recently: for this long after a restoration, every start asks the archive.
	recently = 7 * 24 * time.Hour
	// askArchiveFor is how long the first sale waits for the archive's answer.
	askArchiveFor = 10 * time.Second
)

// witness asks the archive, after a restoration or a long standstill, whether it has documents that the store lacks:
// somebody may have put back an old copy of the store. The first sale waits for the answer.
type witness struct {
	ask   func(ctx context.Context, from, to time.Time) error // nil: there is no archive
	gaps  []storage.Gap
	last  time.Time // see unsureSince
	done  chan struct{}
	sure  atomic.Bool // the archive has answered
	began time.Time
	now   func() time.Time
}

// newWitness returns a witness that still has to run. archived: the box has an archive. For last, see unsureSince.
func newWitness(d *daemon, cfg *config.Config, last time.Time, archived bool, now func() time.Time) (*witness, error) {
	w := &witness{last: last, done: make(chan struct{}), began: time.Now(), now: now}
	if archived {
		w.ask = func(ctx context.Context, from, to time.Time) error {
			return d.engine.NumberGuard().AskArchive(ctx, cfg.PointsOfSale(), cfg.Types.Issue, from, to)
		}
	}
	var err error
	w.gaps, err = d.store.Gaps()
	return w, err
}

// unsureSince returns the time since which the store may lack documents. reason is false if nothing suggests a lack.
// last is the store's last activity before this start, zero in a new store.
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

// unsure returns since when the store may lack documents; zero: there is no archive or no reason, or the archive has
// answered. The question outlasts a restart: see storage.Store.Beat. A clock that was behind at the start and is right
// now gives the reason late.
func (w *witness) unsure() time.Time {
	since, reason := unsureSince(w.gaps, w.last, w.now().Add(-time.Since(w.began)))
	if w.ask == nil || !reason || w.sure.Load() {
		return time.Time{}
	}
	return since
}

// await waits for the archive's answer, no longer than askArchiveFor from the start.
func (w *witness) await() { fairqueue.Await(askArchiveFor-time.Since(w.began), w.done) }

// run asks the archive, once there is a reason, until it answers. Sales wait only for the first question.
func (w *witness) run(ctx context.Context, warn func(msg string, args ...any)) error {
	unread := time.Minute
	for first := true; ; first = false {
		wait := 5 * time.Second
		if since := w.unsure(); !since.IsZero() && !w.now().Before(since) { // otherwise the clock is behind
			err := w.ask(ctx, since, w.now())
			if w.sure.Store(err == nil); err != nil && ctx.Err() == nil {
				warn("the archive cannot be asked for what the store may lack", "error", err)
			}
			wait = time.Minute
			if errors.Is(err, archive.ErrUnread) { // the archive answers: each question reads that day's folder again
				unread = min(2*unread, time.Hour)
				wait = unread
			}
		}
		if first {
			close(w.done)
		}
		if w.ask == nil || w.sure.Load() || fairqueue.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// actReturn marks, in the audit trail, the branch's own return to an earlier rule bundle.
const actReturn = "rules.return"

// recordReturn records the branch's own return to an earlier rule bundle in the audit trail. Every start calls it
// again, in case the appliance crashed before the record. A nil b means that there was no return.
func recordReturn(trail *audit.Trail, b *rulestore.StepBack, log *slog.Logger) {
	if b == nil {
		return
	}
	act := audit.Act{Who: b.Who, From: "the branch", What: actReturn, Target: b.To.Name + " " + b.To.Version,
		Detail: b.Reason + ", " + b.At.UTC().Format(time.RFC3339), Outcome: audit.Done}
	last, err := trail.Last(func(a *audit.Act) bool { return a.What == actReturn })
	if err != nil {
		log.Error("an act is not in the trail", "act", act.What, "error", err)
	} else if last == nil || last.Detail != act.Detail {
		trail.Note(log, act)
	}
}

// recordAct records what a till's token did. The document's record names the token too: a failure here loses nothing.
func recordAct(trail *audit.Trail, a engine.Act, log *slog.Logger) {
	trail.Note(log, audit.Act{Who: fmt.Sprintf("token %d", a.TokenID), From: a.From, What: a.What,
		Target: a.Code.String(), Detail: a.Detail, Outcome: audit.Done})
}
