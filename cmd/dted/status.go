package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/dted/access"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health"
	"dtegate/cmd/version"
	"dtegate/engine"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/ship"
	records "dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/gateway/page"
	"dtegate/rules"
	"dtegate/storage"
)

// status provides the answers of /readyz, /status and the status page.
type status struct {
	log     *slog.Logger
	cfg     *config.Config
	shelf   *rulestore.Store
	engine  *engine.Engine
	host    *rules.Host
	gate    *health.Gate
	store   *storage.Store
	permit  *documents.Tally // nil outside of the test ambiente
	month   *monthSoFar
	access  *access.Control
	reach   *health.Reach
	refused func() error // MH's refusal of the user or the password
	recent  *recent
	fleet   *fleet.Agent  // nil: the branch is of no chain
	shipper *ship.Shipper // nil: nothing is shipped
	started time.Time
}

// ready returns nil if the branch can issue today. The branch can issue while MH is away.
func (s *status) ready() error {
	if len(s.rules()) == 0 {
		return page.ErrNoRules
	}
	if err := s.engine.Witness().Behind(); err != nil {
		return err
	}
	return s.gate.Check()
}

func (s *status) rules() map[string]records.RuleRef {
	return s.shelf.Book().Active(s.cfg.Ambiente, dte.Date(s.cfg.Now()))
}

func (s *status) show() any {
	m := map[string]any{"ambiente": s.cfg.Ambiente, "branch": s.cfg.Branch.ID, "version": version.String(),
		"started": s.started.UTC(), "rules": s.rules(), "rules_engine": s.host.Engine(),
		"rules_return": s.shelf.List().Return, "owed": s.engine.CountBacklog()}
	if behind := s.store.Behind(); behind != nil {
		m["behind"] = behind
	}
	if c, on := s.store.SecondCopy(); on {
		m["second_copy"] = c
	}
	if at, err := s.store.LastBackup(); err == nil && s.store.LastID() > 0 { // an empty store needs no backup
		m["backup"] = at
	}
	outcomes := make(map[string]*dte.Outcomes)
	for _, r := range s.shelf.List().Rules {
		if r.State == rulestore.Live && r.Outcomes != nil {
			outcomes[r.Name+" "+r.Version] = r.Outcomes
		}
	}
	m["rules_outcomes"] = outcomes
	if s.shipper != nil {
		m["shipped"] = s.shipper.Shipped()
	}
	m["store_read"] = s.store.LastReading()
	if a := s.authorisation(); a != nil {
		m["authorisation"] = a
	}
	m["mark_proved"] = s.store.MarkProved()
	m["credentials_refused"] = nil
	if err := s.refused(); err != nil {
		m["credentials_refused"] = map[string]string{"why": err.Error(), "do": page.PasswordOrder}
	}
	return m
}

// overview collects the contents of the status page.
func (s *status) overview() *page.Overview {
	o := &page.Overview{At: s.cfg.Now(), Started: s.started, Version: version.String(), Ambiente: s.cfg.Ambiente,
		Branch: s.cfg.Branch.ID, Name: s.cfg.StoreName(), Stopped: s.ready(), MH: s.reach.Show(),
		Owed: s.engine.CountBacklog(), Rules: s.shelf.List(), Mail: s.cfg.Mail != nil, Archive: s.cfg.Archive != nil,
		Expires: s.access.Certificates()}
	o.MH.Refused = s.refused()
	today, err := s.today()
	if err != nil {
		s.log.Error("counting today's documents", "error", err)
		today.Partial = true
	}
	o.Today, o.Month, o.Authorisation = today, s.month.show(), s.authorisation()
	o.Free, o.Reserve = s.gate.Space()
	if skew, known := s.gate.Skew(); known {
		o.Skew = &skew
	}
	if c, on := s.store.SecondCopy(); on {
		o.SecondCopy = &c
	}
	if s.fleet != nil {
		o.Chain = &page.Chain{Branch: s.cfg.Fleet.Branch, Look: s.fleet.Look()}
		if s.shipper != nil {
			o.Chain.Lacks = s.shipper.Shipped().Lacks
		}
	}
	o.Trouble = s.recent.troubles() // last, to include errors of the lines above
	return o
}

// today counts the documents of the day.
func (s *status) today() (documents.Today, error) {
	ctx, cancel := context.WithTimeout(context.Background(), countWait)
	defer cancel()
	return s.engine.Documents().Today(ctx, s.cfg.Now())
}

// countWait bounds how long a status waits for a count.
const countWait = time.Second

// authorisation returns the branch's progress with the tests that MH wants; nil outside of the test ambiente.
func (s *status) authorisation() *documents.Progress {
	if s.permit == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), countWait)
	defer cancel()
	a, err := s.permit.Count(ctx)
	if err != nil {
		s.log.Error("counting for the authorisation", "error", err)
		return nil
	}
	return a
}

// monthSoFar keeps the month's totals for the status page. It reads them in the background from the sums that lists and
// closings use, and only while somebody looks at the page. The first look in a month may have to wait until the month's
// days are read.
type monthSoFar struct {
	issued *documents.Register
	branch int64
	now    func() time.Time
	log    *slog.Logger
	asked  fairqueue.Bell
	latest atomic.Pointer[page.Month]
}

// monthAge is how long totals are shown before they are read again.
const monthAge = 10 * time.Second

func newMonthSoFar(issued *documents.Register, branch int64, now func() time.Time, log *slog.Logger) *monthSoFar {
	return &monthSoFar{issued: issued, branch: branch, now: now, log: log, asked: fairqueue.NewBell()}
}

// show returns the month's totals, some seconds old, and makes run read them again. It returns nil during the first
// reading.
func (m *monthSoFar) show() *page.Month {
	m.asked.Ring()
	if month := m.latest.Load(); month != nil && month.Name == dte.Date(m.now())[:7] {
		return month
	}
	return nil
}

// run reads the month's totals when somebody looks at the page.
func (m *monthSoFar) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.asked:
		}
		today := dte.Date(m.now())
		// The period ends with the month, because a clock that was ahead has dated documents after today.
		l, err := m.issued.List(ctx, documents.Filter{From: today[:8] + "01", To: monthEnd(today), Limit: 1},
			records.Caller{Point: records.Point{BranchID: m.branch}})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			m.log.Error("counting the month's documents", "error", err)
		} else {
			m.latest.Store(&page.Month{Name: today[:7], Totals: l.Totals})
		}
		if fairqueue.Sleep(ctx, monthAge) != nil {
			return nil
		}
	}
}

// monthEnd returns the last day of a day's month (both yyyy-mm-dd).
func monthEnd(day string) string {
	at, err := time.Parse(time.DateOnly, day[:8]+"01")
	if err != nil {
		return day
	}
	return at.AddDate(0, 1, -1).Format(time.DateOnly)
}

// hours exports when the branch is open. Monitoring remembers these times while the box is off: a box that is switched
// off at night is not dead.
type hours struct {
	branch config.Branch
	now    func() time.Time
}

// Describe and Collect make hours a collector. Without opening hours in the configuration it shows nothing.
func (h hours) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(h, ch) }

// Collect implements prometheus.Collector.
func (h hours) Collect(ch chan<- prometheus.Metric) {
	first, second, ok := h.branch.NextOpenings(h.now().In(dte.Zone))
	if !ok {
		return
	}
	gauge := func(name, help string, at time.Time) { ch <- health.Gauge(name, help, float64(at.Unix())) }
	gauge("dte_branch_opens_timestamp_seconds", "When the opening under way began, or the next one begins.", first.From)
	gauge("dte_branch_closes_timestamp_seconds", "When that opening ends.", first.To)
	gauge("dte_branch_reopens_timestamp_seconds", "When the opening after it begins.", second.From)
}
