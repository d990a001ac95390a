package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// TestIssue_ClockAhead: a clock that is minutes ahead counts as right, and MH refuses a document of tomorrow. In the last
// minutes of a day a document bears MH's time and a number of MH's year, also the first one after a start, and an
// invalidation bears MH's day.
func TestIssue_ClockAhead(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"seconds": 5 * time.Second, "minutes": 532 * time.Second} {
		for _, restarts := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				newYear := time.Date(2027, 1, 1, 6, 0, 0, 0, time.UTC)
				enginetest.InBubbleFrom(t, newYear.Add(-time.Hour), func(b *enginetest.Box) {
					b.Chaos(simulator.Chaos{})
					if !restarts {
						b.Issue(enginetest.Sale("before", 100))
					}
					b.Skew.Store(int64(ahead))
					time.Sleep(time.Until(newYear.Add(-ahead / 2)))
					at := dte.Hour(time.Now())
					r := b.Issue(enginetest.Sale("last", 200))
					says := func(member, want string) {
						if got := enginetest.Text(t, r, "identificacion", member); got != want {
							t.Errorf("its %s is %q, not %q: %s %+v", member, got, want, r.Estado, r.Response)
						}
					}
					says("fecEmi", "2026-12-31")
					says("horEmi", at)
					if r.Estado != record.EstadoProcessed || len(r.Response.Observaciones) > 0 {
						t.Errorf("it is %s, %+v", r.Estado, r.Response)
					}
					if r, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, "")); err != nil ||
						r.Estado != record.EstadoInvalidated {
						t.Errorf("its invalidation: %v, %+v", err, r)
					}
					time.Sleep(time.Until(newYear.Add(time.Second)))
					r = b.Issue(enginetest.Sale("first", 300))
					says("fecEmi", "2027-01-01")
					if r.Estado != record.EstadoProcessed || !strings.HasSuffix(r.ControlNumber, "000000000000001") {
						t.Errorf("the first of January is %s %s, %+v", r.ControlNumber, r.Estado, r.Response)
					}
					b.Audit()
				})
			})
		}
	}
}

// TestInvalidate_ClockWrong: an invalidation has MH's time, and its window ends by MH's time, however wrong the box's
// clock is: the books show it in the month in which MH has it.
func TestInvalidate_ClockWrong(t *testing.T) {
	for _, wrong := range []time.Duration{-5 * 24 * time.Hour, -time.Hour, time.Hour, 40 * 24 * time.Hour} {
		enginetest.InBubbleFrom(t, time.Date(2026, 12, 2, 16, 0, 0, 0, time.UTC), func(b *enginetest.Box) {
			for _, sale := range []*record.View{b.Issue(enginetest.Invoice("i", enginetest.Item(1, "1", "5"))),
				b.Issue(enginetest.Voucher("v", enginetest.Item(1, "1", "5")))} {
				b.Skew.Store(int64(wrong))
				r, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(sale, 2, ""))
				if err != nil || r.Estado != record.EstadoInvalidated || dte.Date(r.Invalidation.At) != "2026-12-02" {
					t.Errorf("%s, by a clock %v ahead: %+v, %v", sale.Tipo, wrong, r, err)
				}
				b.Skew.Store(0)
			}
		})
	}
}
