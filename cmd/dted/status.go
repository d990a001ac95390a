package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health"
	"dtegate/cmd/version"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	records "dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/gateway/page"
)

type status struct {
	box     *daemon
	cfg     *config.Config
	permit  *documents.Tally // nil outside of the test ambiente
	reach   *health.Reach
	refused func() error // MH's refusal of the user or the password
	recent  *recent
	started time.Time
}

// ready returns nil if the branch can issue today, with or without MH.
func (s *status) ready() error {
	if len(s.rules()) == 0 {
		return page.ErrNoRules
	}
	if err := s.box.engine.NumberGuard().Behind(); err != nil {
		return err
	}
	fault := s.box.gate.Check()
	for _, p := range s.cfg.PointsOfSale() { // one usable point of sale is enough
		err := health.CheckPoint(s.box.fleet, p, s.cfg.Now())
		if err == nil {
			return fault
		}
		fault = cmp.Or(fault, err)
	}
	return fault
}

func (s *status) rules() map[string]records.RuleRef {
	return s.box.shelf.Book().Active(s.cfg.Ambiente, dte.Date(s.cfg.Now()))
}

func (s *status) show() any {
	m := map[string]any{"ambiente": s.cfg.Ambiente, "branch": s.cfg.Branch.ID, "version": version.String(),
		"started": s.started.UTC(), "rules": s.rules(), "rules_engine": s.box.host.Engine(),
		"rules_return": s.box.shelf.List().Return, "owed": s.box.engine.CountBacklog()}
	if behind := s.box.store.Behind(); behind != nil {
		m["behind"] = behind
	}
	if c, on := s.box.store.SecondCopy(); on {
		m["second_copy"] = c
	}
	if at, err := s.box.store.LastBackup(); err == nil && s.box.store.LastID() > 0 { // an empty store needs no backup
		m["backup"] = at
	}
	outcomes := make(map[string]*dte.Outcomes)
	for _, r := range s.box.shelf.List().Rules {
		if r.State == rulestore.Live && r.Outcomes != nil {
			outcomes[r.Name+" "+r.Version] = r.Outcomes
		}
	}
	m["rules_outcomes"] = outcomes
	if shipper := s.box.shipper.Load(); shipper != nil {
		m["shipped"] = shipper.Shipped()
	}
	m["store_read"] = s.box.store.LastReading()
	if a := s.authorisation(); a != nil {
		m["authorisation"] = a
	}
	m["mark_proved"] = s.box.store.MarkProved()
	m["credentials_refused"] = nil
	if err := s.refused(); err != nil {
		m["credentials_refused"] = map[string]string{"why": err.Error(), "do": page.PasswordOrder}
	}
	return m
}

func (s *status) overview() *page.Overview {
	o := &page.Overview{At: s.cfg.Now(), Started: s.started, Version: version.String(), Ambiente: s.cfg.Ambiente,
		Branch: s.cfg.Branch.ID, Name: s.cfg.StoreName(), Stopped: s.ready(), MH: s.reach.Show(),
		Owed: s.box.engine.CountBacklog(), Rules: s.box.shelf.List(), Mail: s.cfg.Mail != nil,
		Archive: s.cfg.Archive != nil, Expires: s.box.access.Certificates()}
	o.MH.Refused = s.refused()
	today, err := s.today()
	if err != nil {
		s.box.log.Error("counting today's documents", "error", err)
		today.Partial = true
	}
	o.Today, o.Month, o.Authorisation = today, s.month(), s.authorisation()
	o.Free, o.Reserve = s.box.gate.Space()
	if skew, known := s.box.gate.Skew(); known {
		o.Skew = &skew
	}
	if c, on := s.box.store.SecondCopy(); on {
		o.SecondCopy = &c
	}
	if s.box.fleet != nil {
		o.Chain = &page.Chain{Branch: s.cfg.Fleet.Branch, Look: s.box.fleet.Look()}
		if shipper := s.box.shipper.Load(); shipper != nil {
			o.Chain.Lacks = shipper.Shipped().Lacks
		}
	}
	o.Trouble = s.recent.troubles() // last, to include errors of the lines above
	return o
}

const countWait = time.Second

// counted returns a count of documents, or an error after countWait.
func counted[T any](count func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), countWait)
	defer cancel()
	return count(ctx)
}

func (s *status) today() (documents.Today, error) {
	return counted(func(ctx context.Context) (documents.Today, error) {
		return s.box.engine.Documents().Today(ctx, s.cfg.Now())
	})
}

// authorisation returns how many of MH's required tests are done; nil outside of the test ambiente, or after an error.
func (s *status) authorisation() *documents.Progress {
	if s.permit == nil {
		return nil
	}
	a, err := counted(s.permit.Count)
	if err != nil {
		s.box.log.Error("counting for the authorisation", "error", err)
		return nil
	}
	return a
}

// month returns the month's totals so far; nil while the register is still counting the month's days. The period ends
// with the month: a clock that was ahead may have dated documents after today.
func (s *status) month() *page.Month {
	first, last := daysOfMonth(s.cfg.Now())
	l, err := counted(func(ctx context.Context) (*documents.Listing, error) {
		return s.box.engine.Documents().List(ctx, documents.Filter{From: first, To: last, Limit: 1},
			records.Caller{Point: records.Point{BranchID: s.cfg.Branch.ID}})
	})
	if err != nil {
		if _, unread := errors.AsType[*refusal.Error](err); !unread {
			s.box.log.Error("counting the month's documents", "error", err)
		}
		return nil
	}
	return &page.Month{Name: first[:7], Totals: l.Totals}
}

// daysOfMonth returns the first and the last day of the month in El Salvador.
func daysOfMonth(now time.Time) (first, last string) {
	now = now.In(dte.Zone)
	begin := now.AddDate(0, 0, 1-now.Day())
	return dte.Date(begin), dte.Date(begin.AddDate(0, 1, -1))
}

// openingHours exports when the branch is open, if configured. Monitoring keeps these times while the box is off: a box
// that is switched off at night is not dead.
func openingHours(branch config.Branch, now func() time.Time) prometheus.CollectorFunc {
	return func(ch chan<- prometheus.Metric) {
		first, second, ok := branch.NextOpenings(now().In(dte.Zone))
		if !ok {
			return
		}
		records.SendGauge(ch, "dte_branch_opens_timestamp_seconds",
			"When the current opening began, or the next one begins.", first.From)
		records.SendGauge(ch, "dte_branch_closes_timestamp_seconds", "When that opening ends.", first.To)
		records.SendGauge(ch, "dte_branch_reopens_timestamp_seconds", "When the opening after it begins.", second.From)
	}
}
