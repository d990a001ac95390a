package contingency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Current returns the current period, or nil if the branch is not in contingency.
func (c *Contingency) Current() *Period {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.period
}

// Hold returns the current period, or nil. Until release is called, the period does not end and no period begins.
func (c *Contingency) Hold() (p *Period, release func()) {
	c.mu.RLock()
	return c.period, c.mu.RUnlock
}

// enter puts the branch in contingency. A declaration changes an open period; a period that ended a moment ago resumes.
func (c *Contingency) enter(ctx context.Context, p Period) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.period != nil {
		if !p.Declared {
			return nil
		}
		return c.change(ctx, func(now *Period) { // the operator's declaration replaces the probes' result
			now.Cause, now.Motive, now.Declared = p.Cause, p.Motive, true
		})
	}
	last, err := c.resumable()
	if err != nil {
		return err
	}
	if last != nil {
		last.Ended, last.Cause, last.Motive, last.Declared = time.Time{}, p.Cause, p.Motive, p.Declared
		last.Resumed++
		if err := c.movePeriod(ctx, last, record.PeriodOpen); err != nil {
			return err
		}
		last.state, c.period = record.PeriodOpen, last
	} else {
		if p.code, err = dte.NewCode(c.branch.Rand); err != nil {
			return err
		}
		p.Began = p.Began.UTC().Truncate(time.Second)
		if _, err = c.appendRecord(ctx, "contingencia", p.code, record.PeriodOpen, &p,
			storage.Due{Queue: record.QueuePeriod, At: p.Began}); err != nil {
			return err
		}
		p.state, c.period = record.PeriodOpen, &p
	}
	c.begun = append(c.begun, c.branch.Now())
	c.metrics.periods.Inc()
	c.Suspect() // the watch begins to probe
	c.branch.Logger.Warn("in contingency", "cause", c.period.Cause, "motive", c.period.Motive, "resumed",
		c.period.Resumed)
	return nil
}

// enterFor puts the branch in contingency from a moment on, because MH did not answer.
func (c *Contingency) enterFor(ctx context.Context, began time.Time, o authority.Outcome) error {
	return c.enter(ctx, Period{Began: began, Cause: c.cause(ctx, o), Motive: o.Reason()})
}

// Check probes MH, unless the branch is in contingency. If MH does not answer, a contingency begins as of began.
func (c *Contingency) Check(ctx context.Context, began time.Time) error {
	if c.Current() != nil {
		return nil
	}
	if o := c.probe(ctx); o.Kind == authority.Unknown && ctx.Err() == nil {
		return c.enterFor(ctx, began, o)
	}
	return nil
}

// away probes MH after a request of the backlog that MH did not answer. It reports whether the backlog must wait.
func (c *Contingency) away(ctx context.Context) bool {
	return c.Check(ctx, c.branch.Now()) != nil || c.Current() != nil || ctx.Err() != nil
}

func (c *Contingency) change(ctx context.Context, fn func(*Period)) error {
	next := *c.period
	fn(&next)
	if err := c.movePeriod(ctx, &next, record.PeriodOpen); err != nil {
		return err
	}
	c.period = &next
	return nil
}

// resumable returns the last period if it ended so recently that no event reports it yet.
func (c *Contingency) resumable() (*Period, error) {
	list, err := c.periods()
	if n := len(list); n > 0 && c.branch.Now().Sub(list[n-1].Ended).Abs() < c.hurried(reportAfter) {
		return list[n-1], nil
	}
	return nil, err
}

// leave ends the period. The caller does not hold mu.
func (c *Contingency) leave(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.period == nil {
		return nil
	}
	next := *c.period
	// rounded up to MH's whole seconds, so that no document of the period is later
	next.Ended = c.branch.Now().UTC().Truncate(time.Second).Add(time.Second)
	if err := c.movePeriod(ctx, &next, record.PeriodEnded); err != nil {
		return err
	}
	c.branch.Logger.Info("out of contingency", "began", next.Began, "ended", next.Ended)
	c.period = nil
	return nil
}

func (c *Contingency) movePeriod(ctx context.Context, p *Period, to storage.State) error {
	_, err := c.moveRecord(ctx, p.entry(), to, p, &storage.Due{Queue: record.QueuePeriod, At: p.Began})
	return err
}

// noteReport records, in the last period of a contingency, the operator's statement that MH has the technical report.
func (c *Contingency) noteReport(ctx context.Context, period string, n *ReportNote) (*Period, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.periodOf(period) // read under the lock
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, ErrNone
	}
	p.Report = n
	if err := c.movePeriod(ctx, p, p.state); err != nil {
		return nil, err
	}
	if c.period != nil && c.period.code == p.code {
		c.period = p
	}
	return p, nil
}

// Declare puts the branch in contingency by an operator's order, until Lift. cause is 1 to 5 (CAT-005); reason has 1 to
// 500 characters. Later documents get this cause. Errors: CodeValidation, or the store's.
func (c *Contingency) Declare(ctx context.Context, cause int64, reason string) error {
	var faults []dte.Fault
	if cause < 1 || cause > 5 {
		faults = append(faults, dte.Fault{Path: "cause", Code: dte.FaultEnum, Message: "must be 1 to 5 (CAT-005)"})
	}
	if n := len([]rune(reason)); n < 1 || n > 500 {
		faults = append(faults, dte.Fault{Path: "reason", Code: dte.FaultLength,
			Message: "must have 1 to 500 characters"})
	} else if cause == 5 { // otherwise each sale would be refused for a text that no till can change
		now := dte.Date(c.branch.Now())
		if f := c.branch.Rules().CheckMotive(c.branch.Issuer.Ambiente, now, reason); f != nil {
			faults = append(faults, dte.Fault{Path: "reason", Code: f.Code, Message: f.Message})
		}
	}
	if len(faults) > 0 {
		return refusal.OfOperator(faults)
	}
	return c.enter(ctx, Period{Began: c.branch.Now(), Cause: cause, Motive: reason, Declared: true})
}

// Lift ends the operator's declaration. Errors: CodeNoContingency if nothing was declared, or the store's.
func (c *Contingency) Lift(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.period == nil || !c.period.Declared {
		return &refusal.Error{Code: refusal.CodeNoContingency, Message: "No contingency was declared by an operator",
			Operator: true}
	}
	c.Suspect()
	return refusal.Internal(c.change(ctx, func(now *Period) { now.Declared = false }))
}

// cause returns the type of contingency (CAT-005) of an outcome: 2, our own system, if MH refuses our credentials; 3,
// no Internet, if MH's name or a route is not found, or if Options.Internet has addresses and none of them answers;
// otherwise 1, MH's system.
func (c *Contingency) cause(ctx context.Context, o authority.Outcome) int64 {
	if errors.Is(o.Err, authority.ErrCredentials) {
		return 2
	}
	if authority.NoRoute(o.Err) {
		return 3
	}
	if len(c.options.Internet) == 0 {
		return 1
	}
	for _, address := range c.options.Internet {
		d := net.Dialer{Timeout: time.Second}
		if c, err := d.DialContext(ctx, "tcp", address); err == nil {
			_ = c.Close()
			return 1
		}
	}
	return 3
}

// watch probes MH on suspicion and while the branch is in contingency, until ctx ends.
func (c *Contingency) watch(ctx context.Context) {
	first := c.hurried(probeEvery)
	wait, up := first, time.Time{} // up: the time of MH's first answer in a period
	for ctx.Err() == nil {
		var timer <-chan time.Time
		if p := c.Current(); p != nil {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.suspicion:
		case <-c.branch.Reachable:
			if c.Current() == nil {
				continue
			}
		case <-timer:
		}
		p := c.Current()
		o := c.probe(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case o.Kind == authority.Unknown && p == nil:
			if err := c.enterFor(ctx, c.branch.Now(), o); err != nil {
				c.branch.Logger.Error("entering contingency", "error", err)
			}
			wait, up = first, time.Time{}
		case o.Kind == authority.Unknown:
			wait, up = min(2*wait, probeMax), time.Time{}
		case p == nil:
			wait = first
		case p.Declared: // Lift ends the declaration and starts a probe
			wait = min(2*wait, probeMax)
		case up.IsZero():
			wait, up = min(first, c.stable()), c.branch.Now()
		case c.branch.Now().Sub(up).Abs() >= c.stable():
			if err := c.leave(ctx); err != nil {
				c.branch.Logger.Error("leaving contingency", "error", err)
			}
			wait, up = first, time.Time{}
			c.work.Ring()
		}
	}
}

// stable returns how long MH must have answered before a period ends. It doubles with each recent period.
func (c *Contingency) stable() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.begun) > 0 && c.branch.Now().Sub(c.begun[0]) > time.Hour {
		c.begun = c.begun[1:]
	}
	return min(c.hurried(stableFor)<<min(max(0, len(c.begun)-1), 20), stableMax)
}

func (c *Contingency) probe(ctx context.Context) authority.Outcome {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return c.branch.Sender.Client.Probe(ctx)
}

// Suspect makes Run probe MH soon.
func (c *Contingency) Suspect() { c.suspicion.Ring() }

// Period is a contingency of the branch. Its JSON is used in its record and in /status.
type Period struct {
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"`
	Cause  int64     `json:"cause"`  // CAT-005
	Motive string    `json:"motive"` // sent to MH with cause 5, otherwise only for people
	// Declared: an operator declared the contingency, and only an operator can end the declaration.
	Declared bool `json:"declared,omitempty"`
	// Resumed counts how often the period began again before it was reported.
	Resumed int `json:"resumed,omitempty"`
	// Report is the operator's statement that MH has the technical report of this contingency; nil: not stated.
	Report *ReportNote `json:"technical_report,omitempty"`

	code  dte.Code
	state storage.State
}

// MotiveOnDocument returns the motive for the period's documents: MH wants a motive for cause 5 only; otherwise "".
func (p *Period) MotiveOnDocument() string {
	if p.Cause == 5 {
		return p.Motive
	}
	return ""
}

// Code returns the code of the period's record. The heads of the period's documents name this code as Period.
func (p *Period) Code() string { return p.code.String() }

func (p *Period) entry() storage.Entry {
	return storage.Entry{Code: storage.Code(p.code), State: p.state}
}

func decodePeriod(entry storage.Entry) (*Period, error) {
	p, err := decode[Period](entry)
	if err == nil {
		p.code, p.state = dte.Code(entry.Code), entry.State
	}
	return p, err
}

// periods returns the readable periods in the queue, in the order in which they were recorded: the open period, and at
// least the periods that ended in the last two days.
func (c *Contingency) periods() ([]*Period, error) {
	entries, err := c.branch.Store.Due(record.QueuePeriod, record.Whenever, 10_000)
	if err != nil {
		return nil, fmt.Errorf("reading contingency periods: %w", err)
	}
	slices.SortFunc(entries, func(a, b storage.Entry) int { return cmp.Compare(a.ID, b.ID) }) // clocks may be wrong
	var list []*Period
	for _, entry := range entries {
		if p, err := decodePeriod(entry); err == nil {
			list = append(list, p)
		}
	}
	for i, p := range list[:max(0, len(list)-1)] {
		if p.Ended.IsZero() { // the store has lost the period's end: use the beginning of the next period
			p.Ended = list[i+1].Began
		}
	}
	return list, nil
}

func (c *Contingency) entryOf(code string) (storage.Entry, error) {
	id, err := dte.ParseCode(code)
	if err != nil {
		return storage.Entry{}, err
	}
	return c.branch.Store.Get(storage.Code(id))
}

// periodOf returns the period with a code; nil if the store has lost it: use the times of its documents instead.
func (c *Contingency) periodOf(code string) (*Period, error) {
	entry, err := c.entryOf(code)
	var p *Period
	if err == nil {
		p, err = decodePeriod(entry)
	}
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, record.ErrLost) {
		return nil, nil
	}
	return p, err
}

// extendCause returns the end of a cause. If another period began before the cause's event was due, MH counts both as
// one cause, and the cause ends with that period. If the event is due in more than an hour, the result is ended.
func (c *Contingency) extendCause(ended time.Time) (time.Time, error) {
	now, most := c.branch.Now(), c.law().event
	if now.Sub(ended) < most-time.Hour {
		return ended, nil
	}
	periods, err := c.periods()
	for _, p := range periods {
		if !p.Ended.IsZero() && p.Ended.After(ended) && p.Began.Sub(ended) < most {
			ended = p.Ended
		}
	}
	return ended, err
}
