package engine

import (
	"context"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/record"
)

// TestEvent_WaitsHalfItsTime: a document that MH may hold, without answering about it, delays the event of the others
// for half of the allowed time, and no longer.
func TestEvent_WaitsHalfItsTime(t *testing.T) {
	inBubble(t, func(b *box) {
		b.doubtFor = 40 * time.Hour // nothing is certain before
		b.restart(nil)
		b.issue(sale("before", 100))
		b.chaos(simulator.Chaos{Silence: true})
		doubtful := b.issue(sale("doubtful", 200))
		certain := b.issue(sale("certain", 300))
		if doubtful.Estado != record.EstadoContingency || certain.Estado != record.EstadoContingency {
			t.Errorf("they are %s and %s", doubtful.Estado, certain.Estado)
			return
		}
		b.chaos(simulator.Chaos{})
		b.plugIn()
		ended := time.Now()
		time.Sleep(11*time.Hour - time.Since(ended))
		if got := b.sim.Received(); got.Events != 0 {
			t.Errorf("an event went before half of its time: %+v", got)
		}
		time.Sleep(2 * time.Hour)
		if got := b.sim.Received(); got.Events != 1 || b.document(certain.Code).Estado != record.EstadoProcessed {
			t.Errorf("after half of its time the event of the others is not there: %+v, %s", got,
				b.document(certain.Code).Estado)
		}
	})
}

// TestInvalidate_OwnDate: the event has the document's own date, however late it is made (MF2 pp.9-17); events for 01
// and 14 have the day on which they are made, like all events before DTE 2.0.
func TestInvalidate_OwnDate(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	voucherOf, invoiceOf := w.issued(voucher("v", item(1, "1", "100")), record.EstadoProcessed),
		w.issued(invoice("i", item(1, "1", "1")), record.EstadoProcessed)
	w.clock.set(start.Add(72 * time.Hour))
	for r, want := range map[*record.View]string{voucherOf: "2026-11-21", invoiceOf: "2026-11-24"} {
		done, err := w.engine.Invalidate(context.Background(), invalidation(r, 2, ""))
		if err != nil || done.Estado != record.EstadoInvalidated {
			t.Errorf("%s: %+v %v", r.Tipo, done, err)
			continue
		}
		sent, _ := w.sim.Document(done.Invalidation.Code)
		event, err := dte.Parse(sent.Document)
		if got := event.Get("identificacion").Get("fecEmi").Text(); err != nil || got != want {
			t.Errorf("the invalidation of a %s bears %s, want %s", r.Tipo, got, want)
		}
	}
}
