package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// Contingency is how the branch lives without MH. Zero values take the defaults.
type Contingency struct {
	// Responsible answers for the events; MH wants a name and a document (schema of the event).
	Responsible seller.Person
	// ProbeEvery is the first time between two probes of MH, default 2 s; it doubles up to ProbeMax, default 30 s.
	ProbeEvery, ProbeMax time.Duration
	// ProbeTimeout is how long a probe waits, default 4 s.
	ProbeTimeout time.Duration
	// Stable is how long MH must have answered before a period ends, default 2 s. It doubles with each period of the last
	// hour, up to StableMax, default 5 min: a link that flaps does not make a period a minute.
	Stable, StableMax time.Duration
	// ReportAfter is the time from the end of a period to its event, default 15 s. Trouble that returns before goes on with
	// the same period.
	ReportAfter time.Duration
	// DoubtFor is how long after the last sending of a document MH may still be at work on it, default 2 min. Before, a
	// query that does not find it proves nothing.
	DoubtFor time.Duration
	// LotSize is how many documents a lot holds, default and at most what the event's bundle says; LotPoll is how often MH is asked about
	// a lot, default 5 s; LotsInFlight how many MH works on at once, default 4; LotPatience how long MH may be at work on a
	// lot, or have lost it, before its documents are asked for one by one, default 15 min (MT1 §3.4: a lot takes three).
	LotSize      int
	LotPoll      time.Duration
	LotsInFlight int
	LotPatience  time.Duration
	// AwaitReport is how long after its end a contingency that needs a technical report waits with its event for the
	// operator's word that MH has the report, default 0: not at all. At most four hours less than the event's own limit.
	AwaitReport time.Duration
	// CorrectAfter is the time from MH's refusal of an event to the next one, default 1 min; it doubles, up to an hour.
	CorrectAfter time.Duration
	// Internet are addresses (host:port) one of which answers while the branch has Internet: they tell cause 3 from cause 1
	// (CAT-005). None: only a name or a route that is not found means cause 3.
	Internet []string
}

func (c *Contingency) setDefaults() {
	for _, d := range []struct {
		at *time.Duration
		is time.Duration
	}{{&c.ProbeEvery, 2 * time.Second}, {&c.ProbeMax, 30 * time.Second}, {&c.ProbeTimeout, 4 * time.Second}, {&c.Stable, 2 * time.Second},
		{&c.StableMax, 5 * time.Minute}, {&c.ReportAfter, 15 * time.Second}, {&c.DoubtFor, 2 * time.Minute}, {&c.LotPoll, 5 * time.Second},
		{&c.LotPatience, 15 * time.Minute}, {&c.CorrectAfter, time.Minute}} {
		*d.at = cmp.Or(*d.at, d.is)
	}
	c.LotsInFlight = cmp.Or(c.LotsInFlight, 4)
}

// Period is a contingency of the branch, as its record keeps it and as /status shows it.
type Period struct {
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"`
	Cause  int64     `json:"cause"`  // CAT-005
	Motive string    `json:"motive"` // of cause 5, MH's; of the others for people
	// Declared by the operator: only the operator ends it.
	Declared bool `json:"declared,omitempty"`
	// Resumed is how often trouble came back before the period was reported.
	Resumed int `json:"resumed,omitempty"`
	// Report is the operator's word that MH has the technical report of this contingency; nil: nobody has said so.
	Report *ReportNote `json:"technical_report,omitempty"`

	code dte.Code
}

// motiveOnDocument is the motive that documents bear: MH wants one with cause 5, and none with another.
func (p *Period) motiveOnDocument() string {
	if p.Cause == 5 {
		return p.Motive
	}
	return ""
}

// restorePeriod finds the period that the last process left open.
func (c *contingency) restorePeriod() error {
	list, err := c.periods()
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.Ended.IsZero() {
			c.period = p
			c.log.Warn("still in contingency", "began", p.Began, "cause", p.Cause)
		}
	}
	return nil
}

func decodePeriod(entry storage.Entry) (*Period, error) {
	p := &Period{code: dte.Code(entry.Code)}
	if err := json.Unmarshal(entry.Head, p); err != nil {
		return nil, fmt.Errorf("decoding contingency period: %w", err)
	}
	return p, nil
}

// now in contingency, nil when the branch is not.
func (c *contingency) current() *Period {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.period
}

// hold returns the current period and keeps it from ending until release.
func (c *contingency) hold() (p *Period, release func()) {
	c.mu.RLock()
	return c.period, c.mu.RUnlock
}

// enter puts the branch in contingency, unless it is. A period that ended a moment ago goes on.
func (c *contingency) enter(ctx context.Context, p Period) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.period != nil {
		if !p.Declared {
			return nil
		}
		return c.redeclare(ctx, p) // the operator knows better
	}
	last, err := c.resumable()
	if err != nil {
		return err
	}
	if last != nil {
		last.Ended, last.Cause, last.Motive, last.Declared = time.Time{}, p.Cause, p.Motive, p.Declared
		last.Resumed++
		if err := c.movePeriod(ctx, last, record.PeriodEnded, record.PeriodOpen); err != nil {
			return err
		}
		c.period = last
	} else {
		if p.code, err = dte.NewCode(c.rand); err != nil {
			return err
		}
		p.Began = p.Began.UTC().Truncate(time.Second)
		head, err := json.Marshal(&p)
		if err != nil {
			return err
		}
		_, err = c.store.Append(ctx, storage.Keys{Series: c.series("contingencia")}, storage.Draft{Code: storage.Code(p.code), State: record.PeriodOpen, Head: head, Due: &storage.Due{Queue: record.QueuePeriod, At: p.Began}})
		if err != nil {
			return fmt.Errorf("recording the contingency: %w", err)
		}
		c.period = &p
	}
	c.begun = append(c.begun, c.now())
	c.metrics.periods.Inc()
	c.suspect() // the watch begins to probe
	c.log.Warn("in contingency", "cause", c.period.Cause, "motive", c.period.Motive, "resumed", c.period.Resumed)
	return nil
}

func (c *contingency) redeclare(ctx context.Context, p Period) error {
	next := *c.period
	next.Cause, next.Motive, next.Declared = p.Cause, p.Motive, true
	if err := c.movePeriod(ctx, &next, record.PeriodOpen, record.PeriodOpen); err != nil {
		return err
	}
	c.period = &next
	return nil
}

// resumable is the last period, if it ended so recently that it is not reported yet.
func (c *contingency) resumable() (*Period, error) {
	list, err := c.periods()
	for _, p := range list {
		if !p.Ended.IsZero() && p.Ended.Add(c.options.ReportAfter).After(c.now()) {
			return p, nil
		}
	}
	return nil, err
}

// leave ends the period. The caller does not hold mu.
func (c *contingency) leave(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.period == nil {
		return nil
	}
	next := *c.period
	next.Ended = c.now().UTC().Truncate(time.Second).Add(time.Second) // MH counts in seconds, and no document is behind it
	if err := c.movePeriod(ctx, &next, record.PeriodOpen, record.PeriodEnded); err != nil {
		return err
	}
	c.log.Info("out of contingency", "began", next.Began, "ended", next.Ended)
	c.period = nil
	return nil
}

// movePeriod records a period as it is now.
func (c *contingency) movePeriod(ctx context.Context, p *Period, from, to storage.State) error {
	head, err := json.Marshal(p)
	if err != nil {
		return err
	}
	due := &storage.Due{Queue: record.QueuePeriod, At: p.Began}
	if _, err := record.Move(ctx, c.store, storage.Code(p.code), from, storage.Change{To: to, Head: head, Due: due}); err != nil {
		return fmt.Errorf("recording the contingency: %w", err)
	}
	return nil
}

// Declare puts the branch in contingency by the operator's word, with a cause of CAT-005 and a reason; it lasts until
// Lift. In contingency already, it sets the cause of the documents to come.
func (c *contingency) Declare(ctx context.Context, cause int64, reason string) error {
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
	return c.enter(ctx, Period{Began: c.now(), Cause: cause, Motive: reason, Declared: true})
}

// Lift takes the operator's word back: the probe ends the contingency when MH answers.
func (c *contingency) Lift(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.period == nil || !c.period.Declared {
		return &refusal.Error{Code: refusal.CodeNoContingency, Message: "No contingency was declared by an operator", Operator: true}
	}
	next := *c.period
	next.Declared = false
	if err := c.movePeriod(ctx, &next, record.PeriodOpen, record.PeriodOpen); err != nil {
		return refusal.Internal(err)
	}
	c.period = &next
	c.suspect()
	return nil
}

// cause is the contingency type (CAT-005) that an outcome shows: 2, our own system, when MH refuses our credentials; 3,
// no Internet, when not even a name or a route is found, or nobody else answers either; 1, MH's system, otherwise.
func (c *contingency) cause(ctx context.Context, o authority.Outcome) int64 {
	if errors.Is(o.Err, authority.ErrCredentials) {
		return 2
	}
	if authority.NoRoute(o.Err) {
		return 3
	}
	if len(c.options.Internet) == 0 || o.Kind != authority.Unknown {
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
