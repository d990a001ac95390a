package engine_test

import (
	"context"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// TestEvent_WaitsHalfItsTime: a document that MH may hold, without answering about it, delays the event of the others
// for half of the allowed time, and no longer.
func TestEvent_WaitsHalfItsTime(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.DoubtFor = 40 * time.Hour // nothing is certain before
		b.Restart(nil)
		b.Issue(enginetest.Sale("before", 100))
		b.Chaos(simulator.Chaos{Silence: true})
		doubtful := b.Issue(enginetest.Sale("doubtful", 200))
		certain := b.Issue(enginetest.Sale("certain", 300))
		if doubtful.Estado != record.EstadoContingency || certain.Estado != record.EstadoContingency {
			t.Errorf("they are %s and %s", doubtful.Estado, certain.Estado)
			return
		}
		b.Chaos(simulator.Chaos{})
		b.PlugIn()
		ended := time.Now()
		time.Sleep(11*time.Hour - time.Since(ended))
		if got := b.Sim.Received(); got.Events != 0 {
			t.Errorf("an event went before half of its time: %+v", got)
		}
		time.Sleep(2 * time.Hour)
		if got := b.Sim.Received(); got.Events != 1 || b.Document(certain.Code).Estado != record.EstadoProcessed {
			t.Errorf("after half of its time the event of the others is not there: %+v, %s", got,
				b.Document(certain.Code).Estado)
		}
	})
}

// TestInvalidate_OwnDate: the event has the document's own date, however late it is made (MF2 pp.9-17); events for 01
// and 14 have the day on which they are made, like all events before DTE 2.0.
func TestInvalidate_OwnDate(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	voucherOf, invoiceOf := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed),
		w.Issued(enginetest.Invoice("i", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	w.Clock.Set(enginetest.Start.Add(72 * time.Hour))
	for r, want := range map[*record.View]string{voucherOf: "2026-11-21", invoiceOf: "2026-11-24"} {
		done, err := w.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, ""))
		if err != nil || done.Estado != record.EstadoInvalidated {
			t.Errorf("%s: %+v %v", r.Tipo, done, err)
			continue
		}
		sent, _ := w.Sim.Document(done.Invalidation.Code)
		event, err := dte.Parse(sent.Document)
		if got := event.Get("identificacion").Get("fecEmi").Text(); err != nil || got != want {
			t.Errorf("the invalidation of a %s bears %s, want %s", r.Tipo, got, want)
		}
	}
}
