package contingency_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/contingency"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

const reportGauge = "dte_contingency_technical_report_timestamp_seconds"

// reportAt returns the gauge of the technical report, counted anew.
func reportAt(b *enginetest.Box) time.Time {
	b.T.Helper()
	time.Sleep(3 * time.Second) // Owed keeps a count for two
	v := metrictest.Values(b.T, b.Engine)[reportGauge]
	if v == 0 {
		return time.Time{}
	}
	return time.Unix(int64(v), 0)
}

// outageOf makes a branch sell at the beginning of an outage, and ends the outage after that time.
func outageOf(b *enginetest.Box, d time.Duration, name string) {
	b.T.Helper()
	b.Cable.Set(enginetest.Refusing)
	began := time.Now()
	b.Issue(enginetest.Sale(name, 100))
	time.Sleep(d - time.Since(began))
	b.PlugIn()
}

// TestLongPeriod: the technical report is announced a day before a contingency has lasted three days, stays announced
// while MH has no event of the contingency, and is not announced for a contingency that ended in time.
func TestLongPeriod(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{})
		b.Cable.Set(enginetest.Refusing)
		began := b.Issue(enginetest.Sale("first", 100)).CreatedAt
		needed := began.Truncate(time.Second).Add(72 * time.Hour)
		time.Sleep(48*time.Hour - time.Minute)
		if at := reportAt(b); !at.IsZero() {
			b.T.Errorf("a day and a minute before, a report is due at %v", at)
		}
		time.Sleep(2 * time.Minute)
		if at := reportAt(b); !about(at, needed) {
			b.T.Errorf("after two days the report is due at %v, not %v", at, needed)
		}
		time.Sleep(24*time.Hour - 10*time.Minute)
		b.Crash()
		if at := reportAt(b); !about(at, needed) {
			b.T.Errorf("after a crash the report is due at %v, not %v", at, needed)
		}
		if r, err := b.Engine.Contingency().TechnicalReport(context.Background()); err != nil || r.Needed ||
			!about(r.NeededFrom, needed) {
			b.T.Errorf("before the third day ends: %+v %v", r, err)
		}
		b.Chaos(simulator.Chaos{RejectEvents: 1000})
		time.Sleep(20 * time.Minute)
		b.PlugIn()
		if at := reportAt(b); !about(at, needed) {
			b.T.Errorf("over after three days, without an event, the report is due at %v, not %v", at, needed)
		}
		b.Chaos(simulator.Chaos{})
		b.Until("MH seals the event", func(o *engine.Backlog) bool { return o.Waiting[record.QueueReport] == 0 })
		if at := reportAt(b); !at.IsZero() {
			b.T.Errorf("MH has the event, and the report is due at %v", at)
		}
		if _, err := b.Engine.Contingency().TechnicalReport(context.Background()); err != contingency.ErrNone {
			b.T.Errorf("a report of nothing: %v", err)
		}
		time.Sleep(time.Hour)

		outageOf(b, 72*time.Hour-5*time.Minute, "shorter")
		if at := reportAt(b); !at.IsZero() {
			b.T.Errorf("a contingency of less than three days needs a report at %v", at)
		}
		time.Sleep(time.Hour)
		b.Audit()
	})
}

// TestLongPeriod_Noted: the operator's statement ends the request for the report, and no later change of the period, nor
// a crash, erases the statement; until then the request names the documents by type and point of sale.
func TestLongPeriod_Noted(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		ctx := context.Background()
		if err := b.Engine.Contingency().NoteTechnicalReport(ctx, "DGII-1"); err != contingency.ErrNone {
			b.T.Errorf("without a contingency: %v", err)
		}
		b.Cable.Set(enginetest.Refusing)
		var records []*record.View
		for i := range 3 {
			records = append(records, b.Issue(enginetest.Sale(fmt.Sprint(i), 100+i)))
		}
		time.Sleep(73 * time.Hour)
		r, err := b.Engine.Contingency().TechnicalReport(ctx)
		if err != nil || !r.Needed || !r.Ended.IsZero() || len(r.Periods) != 1 || r.Noted != nil {
			b.T.Fatalf("%+v %v", r, err)
		}
		want := contingency.ReportCount{Document: "01", Establishment: "M001", PointOfSale: "P001", Documents: 3,
			First: records[0].ControlNumber, Last: records[2].ControlNumber}
		if len(r.Documents) != 1 || r.Documents[0] != want {
			b.T.Errorf("the report counts %+v, not %+v", r.Documents, want)
		}
		gone, stop := context.WithCancel(ctx)
		stop()
		if r, err := b.Engine.Contingency().TechnicalReport(gone); !errors.Is(err, context.Canceled) {
			b.T.Errorf("a report without its counts is no report: %+v, %v", r, err)
		}
		for _, wrong := range []string{"", string(make([]byte, 201))} {
			if err := b.Engine.Contingency().NoteTechnicalReport(ctx, wrong); err == nil {
				b.T.Errorf("a reference of %d characters is taken", len(wrong))
			}
		}
		if err := b.Engine.Contingency().NoteTechnicalReport(ctx, "DGII-1"); err != nil {
			b.T.Fatal(err)
		}
		if at := reportAt(b); !at.IsZero() {
			b.T.Errorf("MH has the report, and it is due at %v", at)
		}
		b.Chaos(simulator.Chaos{RejectEvents: 1})
		for _, c := range []struct {
			when string
			do   func()
		}{
			{"a declaration", func() {
				if err := b.Engine.Contingency().Declare(ctx, 1, "MH is down"); err != nil {
					b.T.Error(err)
				}
			}},
			{"its end", func() {
				if err := b.Engine.Contingency().Lift(ctx); err != nil {
					b.T.Error(err)
				}
			}},
			{"the end of the period", b.PlugIn},
			{"a refused event", func() { time.Sleep(30 * time.Second) }},
			{"a crash", b.Crash},
		} {
			c.do()
			r, err := b.Engine.Contingency().TechnicalReport(ctx)
			if err != nil || r.Noted == nil || r.Noted.Reference != "DGII-1" {
				b.T.Errorf("after %s: %+v %v", c.when, r, err)
			}
			if err == nil && !r.Ended.IsZero() && !r.EventDue.Equal(r.Ended.Add(24*time.Hour)) {
				b.T.Errorf("after %s the event is due at %v, the contingency ended at %v", c.when, r.EventDue, r.Ended)
			}
			if at := reportAt(b); !at.IsZero() {
				b.T.Errorf("after %s the report is due at %v", c.when, at)
			}
		}
		time.Sleep(time.Hour)
		if got := b.Sim.Received(); got.Documents != 3 || got.Events != 1 {
			b.T.Errorf("MH received %+v", got)
		}
		b.Audit()
	})
}

// TestLongPeriod_ShortAfterLong: a short contingency soon after a long one that MH has an event of is not part of the
// long one: no report is needed for it.
func TestLongPeriod_ShortAfterLong(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		outageOf(b, 70*time.Hour, "long")
		time.Sleep(20*time.Hour + 10*time.Minute)
		outageOf(b, 10*time.Minute, "short")
		if at := reportAt(b); !at.IsZero() {
			b.T.Errorf("a report of the short one is due at %v", at)
		}
		time.Sleep(20 * time.Minute)
		if got := b.Sim.Received(); got.Events != 2 || got.Documents != 2 {
			b.T.Errorf("MH has %+v", got)
		}
		b.Audit()
	})
}
