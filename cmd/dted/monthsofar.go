package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/seller"
	"dtegate/gateway/page"
)

// monthSoFar keeps the month's totals for the status page. It reads the ledger that lists and closings use, beside whoever looks,
// and not at all while nobody looks: the first look of a month may have to wait until its days are read.
type monthSoFar struct {
	issued *documents.Register
	branch int64
	now    func() time.Time
	log    *slog.Logger
	asked  chan struct{}
	latest atomic.Pointer[page.Month]
}

// monthAge is how long totals are shown again before others are made.
const monthAge = 10 * time.Second

func newMonthSoFar(issued *documents.Register, branch int64, now func() time.Time, log *slog.Logger) *monthSoFar {
	return &monthSoFar{issued: issued, branch: branch, now: now, log: log, asked: make(chan struct{}, 1)}
}

// show returns the month as it was some seconds ago, and has it read again; nil while it is read for the first time.
func (m *monthSoFar) show() *page.Month {
	select {
	case m.asked <- struct{}{}:
	default:
	}
	if month := m.latest.Load(); month != nil && month.Name == dte.Date(m.now())[:7] {
		return month
	}
	return nil
}

// run reads the month when it is asked for.
func (m *monthSoFar) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.asked:
		}
		today := dte.Date(m.now())
		// Until its end: a clock that was ahead dates documents after today.
		l, err := m.issued.List(ctx, documents.Filter{From: today[:8] + "01", To: monthEnd(today), Limit: 1}, seller.Caller{Point: seller.Point{BranchID: m.branch}})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			m.log.Error("counting the month's documents", "error", err)
		} else {
			m.latest.Store(&page.Month{Name: today[:7], Totals: l.Totals})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(monthAge):
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
