package contingency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/bell"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Watch knows whether MH can be reached. It probes MH when Suspect is called, begins the branch's contingency, and ends it.
type Watch struct {
	*common

	// mu: a sale reads the period and is stored under it, so that no document of a period is stored behind its end.
	mu        sync.RWMutex
	period    *Period     // nil: MH is there
	begun     []time.Time // the periods of the last hour
	suspicion bell.Bell   // MH may be away: it is probed
}

// restore finds the period that the last process left open.
func (w *Watch) restore() error {
	list, err := w.periods()
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.Ended.IsZero() {
			w.period = p
			w.branch.Logger.Warn("still in contingency", "began", p.Began, "cause", p.Cause)
		}
	}
	return nil
}

// Current returns the period that the branch is in, nil if it is not in contingency.
func (w *Watch) Current() *Period {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.period
}

// Hold returns the current period, nil for none. The period does not end, and none begins, before release is called.
func (w *Watch) Hold() (p *Period, release func()) {
	w.mu.RLock()
	return w.period, w.mu.RUnlock
}

// enter puts the branch in contingency, unless it is. A period that ended a moment ago goes on.
func (w *Watch) enter(ctx context.Context, p Period) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.period != nil {
		if !p.Declared {
			return nil
		}
		return w.redeclare(ctx, p) // the operator's word replaces what the probes found
	}
	last, err := w.resumable()
	if err != nil {
		return err
	}
	if last != nil {
		last.Ended, last.Cause, last.Motive, last.Declared = time.Time{}, p.Cause, p.Motive, p.Declared
		last.Resumed++
		if err := w.move(ctx, last, record.PeriodEnded, record.PeriodOpen); err != nil {
			return err
		}
		w.period = last
	} else {
		if p.code, err = dte.NewCode(w.branch.Rand); err != nil {
			return err
		}
		p.Began = p.Began.UTC().Truncate(time.Second)
		head, err := json.Marshal(&p)
		if err != nil {
			return err
		}
		_, err = w.branch.Store.Append(ctx, storage.Keys{Series: w.series("contingencia")}, storage.Draft{Code: storage.Code(p.code), State: record.PeriodOpen, Head: head, Due: &storage.Due{Queue: record.QueuePeriod, At: p.Began}})
		if err != nil {
			return fmt.Errorf("recording the contingency: %w", err)
		}
		w.period = &p
	}
	w.begun = append(w.begun, w.branch.Now())
	w.metrics.periods.Inc()
	w.Suspect() // the watch begins to probe
	w.branch.Logger.Warn("in contingency", "cause", w.period.Cause, "motive", w.period.Motive, "resumed", w.period.Resumed)
	return nil
}

// enterFor puts the branch in contingency from a moment, because of what MH did not answer.
func (w *Watch) enterFor(ctx context.Context, began time.Time, o authority.Outcome) error {
	return w.enter(ctx, Period{Began: began, Cause: w.cause(ctx, o), Motive: o.Reason()})
}

// Check probes MH. If MH does not answer, the branch is in contingency from began on. If the branch is in contingency already,
// MH is not probed. Errors: the store's.
func (w *Watch) Check(ctx context.Context, began time.Time) error {
	if w.Current() != nil {
		return nil
	}
	if o := w.probe(ctx); o.Kind == authority.Unknown {
		return w.enterFor(ctx, began, o)
	}
	return nil
}

func (w *Watch) redeclare(ctx context.Context, p Period) error {
	next := *w.period
	next.Cause, next.Motive, next.Declared = p.Cause, p.Motive, true
	if err := w.move(ctx, &next, record.PeriodOpen, record.PeriodOpen); err != nil {
		return err
	}
	w.period = &next
	return nil
}

// resumable is the last period, if it ended so recently that it is not reported yet.
func (w *Watch) resumable() (*Period, error) {
	list, err := w.periods()
	for _, p := range list {
		if !p.Ended.IsZero() && p.Ended.Add(w.options.ReportAfter).After(w.branch.Now()) {
			return p, nil
		}
	}
	return nil, err
}

// leave ends the period. The caller does not hold mu.
func (w *Watch) leave(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.period == nil {
		return nil
	}
	next := *w.period
	next.Ended = w.branch.Now().UTC().Truncate(time.Second).Add(time.Second) // MH counts in seconds, and no document is behind it
	if err := w.move(ctx, &next, record.PeriodOpen, record.PeriodEnded); err != nil {
		return err
	}
	w.branch.Logger.Info("out of contingency", "began", next.Began, "ended", next.Ended)
	w.period = nil
	return nil
}

// move records a period as it is now.
func (w *Watch) move(ctx context.Context, p *Period, from, to storage.State) error {
	head, err := json.Marshal(p)
	if err != nil {
		return err
	}
	due := &storage.Due{Queue: record.QueuePeriod, At: p.Began}
	if _, err := record.Move(ctx, w.branch.Store, storage.Code(p.code), from, storage.Change{To: to, Head: head, Due: due}); err != nil {
		return fmt.Errorf("recording the contingency: %w", err)
	}
	return nil
}

// note keeps the operator's word that MH has the technical report of a contingency, in the last of its periods.
func (w *Watch) note(ctx context.Context, period string, n *ReportNote) (*Period, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.periodOf(period) // as it is now that nobody else may move it
	if err != nil {
		return nil, err
	}
	p.Report = n
	state := record.PeriodEnded
	if p.Ended.IsZero() {
		state = record.PeriodOpen
	}
	if err := w.move(ctx, p, state, state); err != nil {
		return nil, err
	}
	if w.period != nil && w.period.code == p.code {
		w.period = p
	}
	return p, nil
}

// Declare puts the branch in contingency because an operator said so, until Lift. cause is 1 to 5 (CAT-005); reason has 1 to
// 500 characters. If the branch is in contingency already, later documents get this cause. Errors: CodeValidation, or the
// store's.
func (w *Watch) Declare(ctx context.Context, cause int64, reason string) error {
	var faults []dte.Fault
	if cause < 1 || cause > 5 {
		faults = append(faults, dte.Fault{Path: "cause", Code: dte.FaultEnum, Message: "must be 1 to 5 (CAT-005)"})
	}
	if n := len([]rune(reason)); n < 1 || n > 500 {
		faults = append(faults, dte.Fault{Path: "reason", Code: dte.FaultLength, Message: "must have 1 to 500 characters"})
	}
	if len(faults) > 0 {
		return refusal.OfOperator(faults)
	}
	return w.enter(ctx, Period{Began: w.branch.Now(), Cause: cause, Motive: reason, Declared: true})
}

// Lift ends the operator's declaration. The contingency ends when MH answers the probes. Errors: CodeNoContingency if no
// operator has declared one, or the store's.
func (w *Watch) Lift(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.period == nil || !w.period.Declared {
		return &refusal.Error{Code: refusal.CodeNoContingency, Message: "No contingency was declared by an operator", Operator: true}
	}
	next := *w.period
	next.Declared = false
	if err := w.move(ctx, &next, record.PeriodOpen, record.PeriodOpen); err != nil {
		return refusal.Internal(err)
	}
	w.period = &next
	w.Suspect()
	return nil
}

// cause is the contingency type (CAT-005) that an outcome shows: 2, our own system, when MH refuses our credentials; 3,
// no Internet, when not even a name or a route is found, or nobody else answers either; 1, MH's system, otherwise.
func (w *Watch) cause(ctx context.Context, o authority.Outcome) int64 {
	if errors.Is(o.Err, authority.ErrCredentials) {
		return 2
	}
	if authority.NoRoute(o.Err) {
		return 3
	}
	if len(w.options.Internet) == 0 || o.Kind != authority.Unknown {
		return 1
	}
	for _, address := range w.options.Internet {
		d := net.Dialer{Timeout: time.Second}
		if c, err := d.DialContext(ctx, "tcp", address); err == nil {
			_ = c.Close()
			return 1
		}
	}
	return 3
}

// run probes MH when somebody doubts that it is there, and while the branch is in contingency, until ctx ends.
func (w *Watch) run(ctx context.Context) {
	wait, up := w.options.ProbeEvery, time.Time{} // up: since when MH answers, in a period
	for ctx.Err() == nil {
		var timer <-chan time.Time
		if p := w.Current(); p != nil {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.suspicion:
		case <-w.branch.Reachable:
			if w.Current() == nil {
				continue
			}
		case <-timer:
		}
		p := w.Current()
		o := w.probe(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case o.Kind == authority.Unknown && p == nil:
			if err := w.enterFor(ctx, w.branch.Now(), o); err != nil {
				w.branch.Logger.Error("entering contingency", "error", err)
			}
			wait, up = w.options.ProbeEvery, time.Time{}
		case o.Kind == authority.Unknown:
			wait, up = min(2*wait, w.options.ProbeMax), time.Time{}
		case p == nil:
			wait = w.options.ProbeEvery
		case p.Declared: // Lift ends it, and has MH probed at once
			wait = min(2*wait, w.options.ProbeMax)
		case up.IsZero():
			wait, up = min(w.options.ProbeEvery, w.stable()), w.branch.Now()
		case w.branch.Now().Sub(up) >= w.stable():
			if err := w.leave(ctx); err != nil {
				w.branch.Logger.Error("leaving contingency", "error", err)
			}
			wait, up = w.options.ProbeEvery, time.Time{}
			w.work.Ring()
		}
	}
}

// stable is how long MH must have answered: longer the more periods there were of late.
func (w *Watch) stable() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.begun) > 0 && w.branch.Now().Sub(w.begun[0]) > time.Hour {
		w.begun = w.begun[1:]
	}
	return min(w.options.Stable<<min(max(0, len(w.begun)-1), 20), w.options.StableMax)
}

func (w *Watch) probe(ctx context.Context) authority.Outcome {
	ctx, cancel := context.WithTimeout(ctx, w.options.ProbeTimeout)
	defer cancel()
	return w.branch.Sender.Client.Probe(ctx)
}

// Suspect makes Run probe MH soon.
func (w *Watch) Suspect() { w.suspicion.Ring() }
