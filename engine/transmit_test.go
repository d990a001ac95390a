package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/authority"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/storage/disktest"
)

// TestTransmit_FailedQuery: a failed query proves nothing. A document whose answer was lost is not sent again until a
// query is answered, however often queries fail, and is found at MH in its normal form.
func TestTransmit_FailedQuery(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	chaos := func(c simulator.Chaos) {
		if err := w.Sim.Chaos(c); err != nil {
			t.Error(err)
		}
	}
	w.Issued(enginetest.Sale("before", 100), record.EstadoProcessed)
	chaos(simulator.Chaos{LostAnswers: 1, Only: "documents"})
	var sendings, queries atomic.Int64
	w.Wire.Mu.Lock()
	w.Wire.At = func(point string) {
		switch point {
		case "before /fesv/recepciondte":
			sendings.Add(1)
		case "before /fesv/recepcion/consultadte", "before /fesv/recepcion/consultadte/":
			if queries.Add(1) == 1 {
				chaos(simulator.Chaos{ServerErrors: 1000, Only: "queries"})
			}
		}
	}
	w.Wire.Mu.Unlock()
	r, err := w.Engine.Issue(context.Background(), enginetest.Sale("k", 200))
	if err != nil {
		t.Fatal(err)
	}
	if n := sendings.Load(); r.Estado != record.EstadoContingency || n != 1 {
		t.Errorf("it is %s after %d sendings and %d queries without an answer", r.Estado, n, queries.Load())
	}
	// Those of the policy, and the probe that tells one document's trouble from a general one.
	if n, most := queries.Load(), int64(authority.Queries+2); n > most {
		t.Errorf("%d queries, want %d at most", n, most)
	}
}

// TestTransmit_SentOnceIsDoubtful: MH takes a document late, after a query has denied it; the next sending certainly
// does not arrive. MH may still hold the document: the branch asks for it before an event lists it.
func TestTransmit_SentOnceIsDoubtful(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Lateness = true
		b.Issue(enginetest.Sale("before", 100))
		b.Chaos(simulator.Chaos{LateRequests: 1, LateMS: 20_000})
		var sendings atomic.Int64
		b.At(func(point string) { // not at the query: a probe beside the sale asks one too
			if point == "before /fesv/recepciondte" && sendings.Add(1) == 2 {
				b.Cable.Set(enginetest.Refusing)
				time.Sleep(time.Millisecond) // the connections are closed
			}
		})
		r := b.Issue(enginetest.Sale("late", 200))
		if n := sendings.Load(); r.Estado != record.EstadoContingency || n < 2 {
			t.Errorf("it is %s after %d sendings", r.Estado, n)
		}
		time.Sleep(time.Minute)
		b.Cable.Set(enginetest.Plugged)
		b.Drained()
		if now := b.Document(r.Code); now.Estado != record.EstadoProcessed || enginetest.Text(t, now, "identificacion",
			"tipoModelo") != "1" {
			t.Errorf("in the end it is %s, %s", now.Estado, now.JSON)
		}
		if got := b.Sim.Received(); got.Documents != 2 || got.Events != 0 {
			t.Errorf("MH received %+v", got)
		}
		b.Audit()
	})
}

// TestSettle_Beside: a till repeats its sale while the recovery settles the document that a crash left behind. The till
// gets the outcome, and MH gets the document once.
func TestSettle_Beside(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{})
		b.Issue(enginetest.Sale("before", 100))
		var signed *disktest.Disk
		b.At(func(point string) {
			if point == "before /fesv/recepciondte" {
				signed = b.Snapshot()
				b.Cable.Set(enginetest.Refusing)
			}
		})
		b.Issue(enginetest.Sale("k", 200))
		b.Close()
		b.Cable.Set(enginetest.Plugged)
		b.Fs = signed
		b.Chaos(simulator.Chaos{DelayMS: 1000})
		b.Start()
		synctest.Wait() // the recovery waits for MH's answer, and holds the document
		if r := b.Issue(enginetest.Sale("k", 200)); r.Estado != record.EstadoProcessed {
			t.Errorf("it is %s", r.Estado)
		}
		b.Audit()
	})
}
