package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

func TestReturn(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	sold := w.Issued(
		enginetest.Invoice("i", enginetest.Item(1, "3", "5.65"), enginetest.Item(2, "2", "11.30")),
		record.EstadoProcessed,
	)
	r := w.Issued(
		enginetest.ReturnOf("r1", sold, enginetest.Back(1, "2"), enginetest.Back(2, "0.5")),
		record.EstadoProcessed,
	)
	if r.ControlNumber != "DTE-18-M001P001-000000000000001" || r.Total != "16.95" {
		t.Fatalf("%s %s\n%s", r.ControlNumber, r.Total, r.JSON)
	}
	issue := func(req engine.Request) error { _, err := w.Engine.Issue(ctx, req); return err }
	enginetest.Refused(
		t,
		issue(enginetest.ReturnOf("", sold, enginetest.Back(1, "1.5"))),
		refusal.CodeOverReturn,
		"cuerpoDocumento[0].cantidad",
	)
	enginetest.Refused(
		t,
		issue(enginetest.ReturnOf("", sold, enginetest.Back(3, "1"))),
		refusal.CodeItemNotFound,
		"cuerpoDocumento[0].numItem",
	)
	enginetest.Refused(
		t,
		issue(enginetest.ReturnOf("", sold, enginetest.Back(2, "1"), enginetest.Back(2, "0.5"))),
		refusal.CodeValidation,
		"cuerpoDocumento[1].numItem",
	)
	held := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "5")), record.EstadoProcessed)
	enginetest.Refused(t, issue(enginetest.ReturnOf("", held, enginetest.Back(1, "1"))), refusal.CodeOriginType, "")
	poor := enginetest.ReturnOf("", sold, enginetest.Back(1, "1"))
	poor.Caller.Permissions = []string{"CREDITO_FISCAL"}
	enginetest.Refused(t, issue(poor), refusal.CodePermission, "")

	// A rejected return gives its quantity back; a return in contingency holds it.
	if err := w.Sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
		t.Fatal(err)
	}
	w.Issued(enginetest.ReturnOf("r2", sold, enginetest.Back(1, "1")), record.EstadoRejected)
	if err := w.Sim.Chaos(simulator.Chaos{Outage: true}); err != nil {
		t.Fatal(err)
	}
	w.Issued(enginetest.ReturnOf("r3", sold, enginetest.Back(1, "1")), record.EstadoContingency)
	enginetest.Refused(
		t,
		issue(enginetest.ReturnOf("", sold, enginetest.Back(1, "1"))),
		refusal.CodeOverReturn,
		"cuerpoDocumento[0].cantidad",
	)
	deferred := w.Issued(enginetest.Invoice("i2", enginetest.Item(1, "1", "5.65")), record.EstadoContingency)
	enginetest.Refused(
		t,
		issue(enginetest.ReturnOf("", deferred, enginetest.Back(1, "1"))),
		refusal.CodeOriginStatus,
		"",
	)
}

// TestReturn_Late: on the last day of MH's time a note or a return is sealed, and on the next day it is refused at the
// counter, also while MH is away: nobody gets a document that MH will refuse. The goods of some activities come back for
// two years.
func TestReturn_Late(t *testing.T) {
	for activity, last := range map[string]time.Time{"47111": time.Date(2027, 2, 28, 0, 0, 0, 0, time.UTC),
		"46484": time.Date(2028, 11, 30, 0, 0, 0, 0, time.UTC)} {
		w := enginetest.NewWorldIn(t, "00", nil, func(o *engine.Options) {
			o.Issuer.Facts = o.Issuer.Facts.With("codActividad", dte.Str(activity))
		})
		w.Clock.Set(time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC))
		voucher := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
		invoice := w.Issued(enginetest.Invoice("i", enginetest.Item(1, "9", "1")), record.EstadoProcessed)
		purchase := w.Issued(enginetest.Request("14", "p", enginetest.Member("receptor", enginetest.Taxpayer),
			enginetest.Member("applyrent", dte.Bool(false)),
			enginetest.Member("cuerpoDocumento", dte.Arr(enginetest.Item(1, "9", "5"))),
			enginetest.Cash()), record.EstadoProcessed)
		requests := func() []engine.Request {
			back := []engine.Request{enginetest.ReturnOf("", invoice, enginetest.Back(1, "1")),
				enginetest.ReturnOf("", purchase, enginetest.Back(1, "1"))}
			if w.Now().Year() == 2028 {
				return back
			}
			return append(back, enginetest.NoteOn("05", "", voucher, enginetest.Item(1, "1", "1")),
				enginetest.NoteOn("06", "", voucher, enginetest.Item(1, "1", "1")))
		}
		if last.Year() > 2027 { // of these activities too, a note has three months
			w.Clock.Set(time.Date(2027, 3, 1, 6, 0, 0, 0, time.UTC))
			for _, note := range requests()[2:] {
				_, err := w.Engine.Issue(t.Context(), note)
				enginetest.Refused(t, err, refusal.CodeValidation, "origen")
			}
		}
		w.Clock.Set(last.Add(30*time.Hour - time.Second))
		for _, req := range requests() {
			w.Issued(req, record.EstadoProcessed)
		}
		w.Clock.Set(last.Add(30 * time.Hour))
		for _, away := range []bool{false, true} {
			if err := w.Sim.Chaos(simulator.Chaos{Outage: away}); err != nil {
				t.Fatal(err)
			}
			for _, req := range requests() {
				_, err := w.Engine.Issue(t.Context(), req)
				enginetest.Refused(t, err, refusal.CodeValidation, "origen")
			}
		}
		w.Close()
	}
}

// TestReturn_OtherLine: a returned quantity counts for the line that the request names, wherever in the request that
// line stands.
func TestReturn_OtherLine(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	sold := w.Issued(
		enginetest.Invoice(
			"i",
			enginetest.Item(1, "3", "5.65"),
			enginetest.Item(2, "2", "11.30"),
			enginetest.Item(3, "7", "1.13"),
		),
		record.EstadoProcessed,
	)
	w.Issued(enginetest.ReturnOf("second", sold, enginetest.Back(2, "2")), record.EstadoProcessed)
	_, err := w.Engine.Issue(
		context.Background(),
		enginetest.ReturnOf("", sold, enginetest.Back(3, "1"), enginetest.Back(2, "0.5")),
	)
	enginetest.Refused(t, err, refusal.CodeOverReturn, "cuerpoDocumento[1].cantidad")
	if r := w.Issued(enginetest.ReturnOf("others", sold, enginetest.Back(3, "7"), enginetest.Back(1, "3")), record.EstadoProcessed); r.Total != "24.86" {
		t.Errorf("%s came back of the other two lines", r.Total)
	}
	for line := range int64(3) {
		_, err := w.Engine.Issue(context.Background(), enginetest.ReturnOf("", sold, enginetest.Back(line+1, "0.01")))
		enginetest.Refused(t, err, refusal.CodeOverReturn, "cuerpoDocumento[0].cantidad")
	}
}

// A return of a purchase from a subject without registration gives its income tax back.
func TestReturn_OfPurchase(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	bought := w.Issued(
		enginetest.Request(
			"14",
			"x",
			enginetest.Member("receptor", enginetest.Taxpayer),
			enginetest.Member("applyrent", dte.Bool(true)),
			enginetest.Member(
				"cuerpoDocumento",
				dte.Arr(enginetest.Item(1, "10", "20")),
			),
			enginetest.Cash(),
		),
		record.EstadoProcessed,
	)
	if bought.Total != "180.00" {
		t.Fatalf("%s\n%s", bought.Total, bought.JSON)
	}
	w.Issued(enginetest.ReturnOf("r", bought, enginetest.Back(1, "5")), record.EstadoProcessed)

	// Returned piece by piece, exactly what was paid comes back.
	bought = w.Issued(
		enginetest.Request(
			"14",
			"y",
			enginetest.Member("receptor", enginetest.Taxpayer),
			enginetest.Member("applyrent", dte.Bool(true)),
			enginetest.Member(
				"cuerpoDocumento",
				dte.Arr(enginetest.Item(1, "3", "33.33"), enginetest.Item(2, "3", "0.07")),
			),
			enginetest.Cash(),
		),
		record.EstadoProcessed,
	)
	sum := dte.Amount(0)
	for i := range 3 {
		r := w.Issued(
			enginetest.ReturnOf(fmt.Sprint("piece ", i), bought, enginetest.Back(1, "1"), enginetest.Back(2, "1")),
			record.EstadoProcessed,
		)
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
	w := enginetest.NewWorld(t)
	defer w.Close()
	for round := range rounds {
		var sold [8]*record.View
		for i := range sold {
			sold[i] = w.Issued(enginetest.Invoice("", enginetest.Item(1, "3", "1.13")), record.EstadoProcessed)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		came := make(map[string]int)
		for i := range 64 {
			wg.Go(func() {
				req := enginetest.ReturnOf(fmt.Sprintf("%d/%d", round, i), sold[i%8], enginetest.Back(1, "1"))
				req.Caller = enginetest.TestCaller(1 + i/8)
				req.Caller.Permissions = enginetest.Everything
				r, err := w.Engine.Issue(context.Background(), req)
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
			if came[s.Code] != 3 || w.Counter(s, 1) != 3*int64(dte.Scale) {
				t.Fatalf("of 3 units %d came back, the counter says %d", came[s.Code], w.Counter(s, 1))
			}
		}
	}
}

// TestReturn_FactTwice: a purchase whose receptor 1.0.0 stored twice can be returned and invalidated.
func TestReturn_FactTwice(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	seller := enginetest.Member("receptor", enginetest.Taxpayer)
	for _, key := range []string{"a", "b"} {
		bought := w.Issued(enginetest.Request("14", key, seller, enginetest.Member("applyrent", dte.Bool(false)), seller,
			enginetest.Member("cuerpoDocumento", dte.Arr(enginetest.Item(1, "9", "5"))), enginetest.Cash()),
			record.EstadoProcessed)
		if key == "a" {
			w.Issued(enginetest.ReturnOf("", bought, enginetest.Back(1, "1")), record.EstadoProcessed)
		} else if _, err := w.Engine.Invalidate(t.Context(), enginetest.Invalidation(bought, 2, "")); err != nil {
			t.Error(err)
		}
	}
}
