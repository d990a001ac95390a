package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/contingency"
	"dtegate/engine/record"
)

const reportGauge = "dte_contingency_technical_report_timestamp_seconds"

// reportAt returns the gauge of the technical report, counted anew.
func (b *box) reportAt() time.Time {
	b.t.Helper()
	time.Sleep(3 * time.Second) // Owed keeps a count for two
	v := metrictest.Values(b.t, b.engine)[reportGauge]
	if v == 0 {
		return time.Time{}
	}
	return time.Unix(int64(v), 0)
}

// outageOf makes a branch sell at the beginning of an outage, and ends the outage after that time.
func (b *box) outageOf(d time.Duration, name string) {
	b.t.Helper()
	b.cable.set(refusing)
	began := time.Now()
	b.issue(sale(name, 100))
	time.Sleep(d - time.Since(began))
	b.plugIn()
}

func (b *box) plugIn() {
	b.cable.set(plugged)
	for b.engine.Contingency().Current() != nil {
		time.Sleep(100 * time.Millisecond)
	}
}

// TestLongPeriod: the technical report is announced a day before a contingency has lasted three days, stays announced
// while MH has no event of the contingency, and is not announced for a contingency that ended in time.
func TestLongPeriod(t *testing.T) {
	inBubble(t, func(b *box) {
		b.chaos(simulator.Chaos{})
		b.cable.set(refusing)
		began := b.issue(sale("first", 100)).CreatedAt
		needed := began.Truncate(time.Second).Add(72 * time.Hour)
		time.Sleep(48*time.Hour - time.Minute)
		if at := b.reportAt(); !at.IsZero() {
			b.t.Errorf("a day and a minute before, a report is due at %v", at)
		}
		time.Sleep(2 * time.Minute)
		if at := b.reportAt(); !about(at, needed) {
			b.t.Errorf("after two days the report is due at %v, not %v", at, needed)
		}
		time.Sleep(24*time.Hour - 10*time.Minute)
		b.crash()
		if at := b.reportAt(); !about(at, needed) {
			b.t.Errorf("after a crash the report is due at %v, not %v", at, needed)
		}
		if r, err := b.engine.Contingency().TechnicalReport(context.Background()); err != nil || r.Needed ||
			!about(r.NeededFrom, needed) {
			b.t.Errorf("before the third day ends: %+v %v", r, err)
		}
		b.chaos(simulator.Chaos{RejectEvents: 1000})
		time.Sleep(20 * time.Minute)
		b.plugIn()
		if at := b.reportAt(); !about(at, needed) {
			b.t.Errorf("over after three days, without an event, the report is due at %v, not %v", at, needed)
		}
		b.chaos(simulator.Chaos{})
		b.until("MH seals the event", func(o *Backlog) bool { return o.Waiting[record.QueueReport] == 0 })
		if at := b.reportAt(); !at.IsZero() {
			b.t.Errorf("MH has the event, and the report is due at %v", at)
		}
		if _, err := b.engine.Contingency().TechnicalReport(context.Background()); err != contingency.ErrNone {
			b.t.Errorf("a report of nothing: %v", err)
		}
		time.Sleep(time.Hour)

		b.outageOf(72*time.Hour-5*time.Minute, "shorter")
		if at := b.reportAt(); !at.IsZero() {
			b.t.Errorf("a contingency of less than three days needs a report at %v", at)
		}
		time.Sleep(time.Hour)
		b.audit()
	})
}

// TestLongPeriod_Noted: the operator's statement ends the request for the report, even after a crash; until then the
// request names the documents by type and point of sale.
func TestLongPeriod_Noted(t *testing.T) {
	inBubble(t, func(b *box) {
		ctx := context.Background()
		if err := b.engine.Contingency().NoteTechnicalReport(ctx, "DGII-1"); err != contingency.ErrNone {
			b.t.Errorf("without a contingency: %v", err)
		}
		b.cable.set(refusing)
		var records []*record.View
		for i := range 3 {
			records = append(records, b.issue(sale(fmt.Sprint(i), 100+i)))
		}
		time.Sleep(73 * time.Hour)
		r, err := b.engine.Contingency().TechnicalReport(ctx)
		if err != nil || !r.Needed || !r.Ended.IsZero() || len(r.Periods) != 1 || r.Noted != nil {
			b.t.Fatalf("%+v %v", r, err)
		}
		want := contingency.ReportCount{Document: "01", Establishment: "M001", PointOfSale: "P001", Documents: 3,
			First: records[0].ControlNumber, Last: records[2].ControlNumber}
		if len(r.Documents) != 1 || r.Documents[0] != want {
			b.t.Errorf("the report counts %+v, not %+v", r.Documents, want)
		}
		for _, wrong := range []string{"", string(make([]byte, 201))} {
			if err := b.engine.Contingency().NoteTechnicalReport(ctx, wrong); err == nil {
				b.t.Errorf("a reference of %d characters is taken", len(wrong))
			}
		}
		if err := b.engine.Contingency().NoteTechnicalReport(ctx, "DGII-1"); err != nil {
			b.t.Fatal(err)
		}
		if at := b.reportAt(); !at.IsZero() {
			b.t.Errorf("MH has the report, and it is due at %v", at)
		}
		b.crash()
		if at := b.reportAt(); !at.IsZero() {
			b.t.Errorf("after a crash the report is due at %v", at)
		}
		if r, err := b.engine.Contingency().TechnicalReport(ctx); err != nil || r.Noted == nil ||
			r.Noted.Reference != "DGII-1" {
			b.t.Errorf("%+v %v", r, err)
		}
		b.plugIn()
		time.Sleep(time.Hour)
		if got := b.sim.Received(); got.Documents != 3 || got.Events != 1 {
			b.t.Errorf("MH received %+v", got)
		}
		b.audit()
	})
}

// TestLongPeriod_ShortAfterLong: a short contingency soon after a long one that MH has an event of is not part of the
// long one: no report is needed for it.
func TestLongPeriod_ShortAfterLong(t *testing.T) {
	inBubble(t, func(b *box) {
		b.outageOf(70*time.Hour, "long")
		time.Sleep(20*time.Hour + 10*time.Minute)
		b.outageOf(10*time.Minute, "short")
		if at := b.reportAt(); !at.IsZero() {
			b.t.Errorf("a report of the short one is due at %v", at)
		}
		time.Sleep(20 * time.Minute)
		if got := b.sim.Received(); got.Events != 2 || got.Documents != 2 {
			b.t.Errorf("MH has %+v", got)
		}
		b.audit()
	})
}
