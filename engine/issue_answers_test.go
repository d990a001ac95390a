package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

func TestIssue_Accepted(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	r, err := w.Engine.Issue(context.Background(), enginetest.Sale("k", 1130))
	if err != nil {
		t.Fatal(err)
	}
	if r.Estado != record.EstadoProcessed || r.ControlNumber != "DTE-01-M001P001-000000000000001" ||
		r.Total != "11.30" || !strings.HasSuffix(r.Sello, "SIMU") {
		t.Fatalf("got %+v\n%s", r, r.JSON)
	}
	again, err := w.Engine.Issue(context.Background(), enginetest.Sale("k", 1130))
	if err != nil || again.Code != r.Code || !bytes.Equal(again.JWS, r.JWS) {
		t.Fatalf("the key again gave %+v, %v", again, err)
	}
	if got := w.Sim.Received(); got.Documents != 1 || got.Duplicates != 0 {
		t.Fatalf("MH received %+v", got)
	}
}

func TestIssue_SameKeyOtherSale(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	first, err := w.Engine.Issue(context.Background(), enginetest.Sale("k", 1130))
	if err != nil {
		t.Fatal(err)
	}
	other := enginetest.Sale("k", 1130) // the same body, to another endpoint
	other.Document = "03"
	for _, req := range []engine.Request{enginetest.Sale("k", 1131), other} {
		_, err = w.Engine.Issue(context.Background(), req)
		if e, ok := err.(*refusal.Error); !ok || e.Code != refusal.CodeKeyConflict || e.Document != first.Code {
			t.Errorf("%s: got %v", req.Document, err)
		}
	}
}

func TestIssue_SameKeyAtOnce(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	var mu sync.Mutex
	codes := make(map[string]int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			r, err := w.Engine.Issue(context.Background(), enginetest.Sale("k", 1130))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			codes[r.Code]++
		})
	}
	wg.Wait()
	if len(codes) != 1 || enginetest.DocumentsOf(w.Fsck()) != 1 {
		t.Fatalf("one sale became %v", codes)
	}
}

// Sales of one series at once, a third of which the schema refuses: a refused sale affects no other, and every document
// has the number under which it is stored.
func TestIssue_BesideRefusals(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	if err := w.Sim.Chaos(simulator.Chaos{Outage: true}); err != nil {
		t.Fatal(err)
	}
	const tills, each = 8, 9
	var good atomic.Int32
	var wg sync.WaitGroup
	for till := range tills {
		wg.Go(func() {
			for i := range each {
				req := enginetest.Sale(fmt.Sprint(till, i), 1130)
				if i%3 == 1 {
					line := req.Facts.Get("cuerpoDocumento").Index(0)
					req.Facts = req.Facts.With("cuerpoDocumento", dte.Arr(line.With("descripcion",
						dte.Str(strings.Repeat("x", 1501)))))
				}
				r, err := w.Engine.Issue(context.Background(), req)
				if i%3 == 1 {
					enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento[0].descripcion")
					continue
				}
				if err != nil {
					t.Error(err)
					continue
				}
				good.Add(1)
				if got := enginetest.Text(t, r, "identificacion", "numeroControl"); got != r.ControlNumber {
					t.Errorf("the document says %s, the record %s", got, r.ControlNumber)
				}
			}
		})
	}
	wg.Wait()
	if n := enginetest.DocumentsOf(w.Fsck()); n != int(good.Load()) || n != tills*each*2/3 {
		t.Errorf("%d documents, %d answered", n, good.Load())
	}
}

func TestIssue_Outcomes(t *testing.T) {
	for name, c := range map[string]struct {
		chaos    simulator.Chaos
		estado   string
		accepted int
	}{
		"rejected":                {simulator.Chaos{Reject: 1}, record.EstadoRejected, 0},
		"lost answer":             {simulator.Chaos{LostAnswers: 1}, record.EstadoProcessed, 1},
		"half an answer":          {simulator.Chaos{HalfAnswers: 1}, record.EstadoProcessed, 1},
		"lost request":            {simulator.Chaos{LostRequests: 1}, record.EstadoProcessed, 1},
		"two lost requests":       {simulator.Chaos{LostRequests: 2}, record.EstadoProcessed, 1},
		"server error":            {simulator.Chaos{ServerErrors: 1}, record.EstadoProcessed, 1},
		"html":                    {simulator.Chaos{HTML: 1}, record.EstadoProcessed, 1},
		"more than the policy":    {simulator.Chaos{ServerErrors: 3}, record.EstadoContingency, 0},
		"expired token":           {simulator.Chaos{ExpiredTokens: 1}, record.EstadoProcessed, 1},
		"connections cut":         {simulator.Chaos{Outage: true}, record.EstadoContingency, 0},
		"rejected, answer lost":   {simulator.Chaos{Reject: 1, LostAnswers: 1}, record.EstadoProcessed, 1},
		"server error, then lost": {simulator.Chaos{ServerErrors: 1, LostAnswers: 1}, record.EstadoProcessed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := enginetest.NewWorld(t)
			defer w.Close()
			if err := w.Sim.Chaos(c.chaos); err != nil {
				t.Fatal(err)
			}
			r, err := w.Engine.Issue(context.Background(), enginetest.Sale("k", 1130))
			if err != nil {
				t.Fatal(err)
			}
			got := w.Sim.Received()
			if r.Estado != c.estado || got.Documents != c.accepted || got.Duplicates != 0 {
				t.Fatalf("%s: estado %s, MH received %+v", name, r.Estado, got)
			}
			id, _ := dte.Parse(r.JSON)
			marks := id.Get("identificacion").Get("tipoModelo").Text()
			if (c.estado == record.EstadoContingency) != (marks == "2") {
				t.Errorf("tipoModelo %s in a document %s", marks, r.Estado)
			}
		})
	}
}
