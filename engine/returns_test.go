package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

func TestReturn(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	ctx := context.Background()
	sold := w.issued(invoice("i", item(1, "3", "5.65"), item(2, "2", "11.30")), record.EstadoProcessed)
	r := w.issued(returnOf("r1", sold, back(1, "2"), back(2, "0.5")), record.EstadoProcessed)
	if r.ControlNumber != "DTE-18-M001P001-000000000000001" || r.Total != "16.95" {
		t.Fatalf("%s %s\n%s", r.ControlNumber, r.Total, r.JSON)
	}
	issue := func(req Request) error { _, err := w.engine.Issue(ctx, req); return err }
	refused(t, issue(returnOf("", sold, back(1, "1.5"))), refusal.CodeOverReturn, "cuerpoDocumento[0].cantidad")
	refused(t, issue(returnOf("", sold, back(3, "1"))), refusal.CodeItemNotFound, "cuerpoDocumento[0].numItem")
	refused(t, issue(returnOf("", sold, back(2, "1"), back(2, "0.5"))), refusal.CodeValidation,
		"cuerpoDocumento[1].numItem")
	held := w.issued(voucher("v", item(1, "1", "5")), record.EstadoProcessed)
	refused(t, issue(returnOf("", held, back(1, "1"))), refusal.CodeOriginType, "")
	poor := returnOf("", sold, back(1, "1"))
	poor.Caller.Permissions = []string{"CREDITO_FISCAL"}
	refused(t, issue(poor), refusal.CodePermission, "")

	// A rejected return gives its quantity back; a return in contingency holds it.
	if err := w.sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
		t.Fatal(err)
	}
	w.issued(returnOf("r2", sold, back(1, "1")), record.EstadoRejected)
	if err := w.sim.Chaos(simulator.Chaos{Outage: true}); err != nil {
		t.Fatal(err)
	}
	w.issued(returnOf("r3", sold, back(1, "1")), record.EstadoContingency)
	refused(t, issue(returnOf("", sold, back(1, "1"))), refusal.CodeOverReturn, "cuerpoDocumento[0].cantidad")
	deferred := w.issued(invoice("i2", item(1, "1", "5.65")), record.EstadoContingency)
	refused(t, issue(returnOf("", deferred, back(1, "1"))), refusal.CodeOriginStatus, "")
}

// TestReturn_OtherLine: a returned quantity counts for the line that the request names, wherever in the request that
// line stands.
func TestReturn_OtherLine(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	sold := w.issued(invoice("i", item(1, "3", "5.65"), item(2, "2", "11.30"), item(3, "7", "1.13")),
		record.EstadoProcessed)
	w.issued(returnOf("second", sold, back(2, "2")), record.EstadoProcessed)
	_, err := w.engine.Issue(context.Background(), returnOf("", sold, back(3, "1"), back(2, "0.5")))
	refused(t, err, refusal.CodeOverReturn, "cuerpoDocumento[1].cantidad")
	if r := w.issued(returnOf("others", sold, back(3, "7"), back(1, "3")), record.EstadoProcessed); r.Total != "24.86" {
		t.Errorf("%s came back of the other two lines", r.Total)
	}
	for line := range int64(3) {
		_, err := w.engine.Issue(context.Background(), returnOf("", sold, back(line+1, "0.01")))
		refused(t, err, refusal.CodeOverReturn, "cuerpoDocumento[0].cantidad")
	}
}

// A return of a purchase from a subject without registration gives its income tax back.
func TestReturn_OfPurchase(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	bought := w.issued(request("14", "x", member("receptor", taxpayer), member("applyrent", dte.Bool(true)),
		member("cuerpoDocumento", dte.Arr(item(1, "10", "20"))), cash()), record.EstadoProcessed)
	if bought.Total != "180.00" {
		t.Fatalf("%s\n%s", bought.Total, bought.JSON)
	}
	w.issued(returnOf("r", bought, back(1, "5")), record.EstadoProcessed)

	// Returned piece by piece, exactly what was paid comes back.
	bought = w.issued(request("14", "y", member("receptor", taxpayer), member("applyrent", dte.Bool(true)),
		member("cuerpoDocumento", dte.Arr(item(1, "3", "33.33"), item(2, "3", "0.07"))), cash()),
		record.EstadoProcessed)
	sum := dte.Amount(0)
	for i := range 3 {
		r := w.issued(returnOf(fmt.Sprint("piece ", i), bought, back(1, "1"), back(2, "1")), record.EstadoProcessed)
		a, err := dte.ParseAmount(r.Total)
		if err != nil {
			t.Fatal(err)
		}
		sum += a
	}
	if sum.Fixed2() != bought.Total {
		t.Errorf("%s was paid, %s came back", bought.Total, sum.Fixed2())
	}
}

// TestReturn_Race: 64 tills return the last units of 8 invoices at once. Each unit comes back once.
func TestReturn_Race(t *testing.T) {
	rounds := 5
	if os.Getenv("DTE_SOAK") != "" {
		rounds = 100
	}
	if testing.Short() {
		rounds = 1
	}
	w := newWorld(t)
	defer w.close()
	for round := range rounds {
		var sold [8]*record.View
		for i := range sold {
			sold[i] = w.issued(invoice("", item(1, "3", "1.13")), record.EstadoProcessed)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		came := make(map[string]int)
		for i := range 64 {
			wg.Go(func() {
				req := returnOf(fmt.Sprintf("%d/%d", round, i), sold[i%8], back(1, "1"))
				req.Caller = testCaller(1 + i/8)
				req.Caller.Permissions = everything
				r, err := w.engine.Issue(context.Background(), req)
				var e *refusal.Error
				switch {
				case err == nil && r.Estado == record.EstadoProcessed:
					mu.Lock()
					came[sold[i%8].Code]++
					mu.Unlock()
				case err == nil:
					t.Errorf("a return is %s: %+v", r.Estado, r.Response)
				case !errors.As(err, &e) || e.Code != refusal.CodeOverReturn:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, s := range sold {
			if came[s.Code] != 3 || w.counter(s, 1) != 3*int64(dte.Scale) {
				t.Fatalf("of 3 units %d came back, the counter says %d", came[s.Code], w.counter(s, 1))
			}
		}
	}
}
