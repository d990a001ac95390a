package outbox_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/fairqueue"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// One till that prints without end first waits for its own earlier work, and then is told to wait; another till's
// ticket, a link and the mail take their turns.
func TestPrinted_Shares(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	printer, err := enginetest.TestPrinter()
	if err != nil {
		t.Fatal(err)
	}
	box := outbox.New(outbox.Options{Delivery: outbox.Delivery{Printer: printer},
		Documents: outbox.Documents{Document: w.Engine.Documents().Document, View: w.Engine.Documents().View},
		Store:     w.Store, Issuer: enginetest.TestIssuer(),
		Logger: enginetest.Quiet, Now: w.Now, Rand: rand.Reader, GiveWay: func() func() { return nil }})
	r := w.Issued(enginetest.Sale("", 100), record.EstadoProcessed)
	code, err := dte.ParseCode(r.Code)
	if err != nil {
		t.Fatal(err)
	}
	for layout, kinds := range map[string][2]string{"letter": {"%PDF-", ""}, "ticket80": {"%PDF-", "\x1b@"},
		"ticket58": {"%PDF-", "\x1b@"}, "": {}, "ticket": {}, "Letter": {}} {
		for i, kind := range kinds { // a PDF, and commands of a thermal printer
			b, err := box.Printed(context.Background(), code, enginetest.TestCaller(1), layout, i == 1)
			if kind == "" {
				enginetest.Refused(t, err, refusal.CodeValidation, "layout")
			} else if err != nil || !strings.HasPrefix(string(b), kind) {
				t.Errorf("%s, %d: %.10q, %v", layout, i, b, err)
			}
		}
	}
	ctx, hog := context.Background(), enginetest.TestCaller(1)
	hog.TokenID = 77
	printing := box.Printing()
	leave, err := printing.Enter(ctx, hog.TokenID) // a document of 2,000 lines is being laid out
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []int64{78, outbox.LinkHolders, fairqueue.House} {
		if _, err := box.Print(ctx, who, outbox.Printable(r), pdf.Letter, false); err != nil {
			t.Errorf("%d beside it: %v", who, err)
		}
	}
	w.Clock.Set(w.Now().Add(time.Minute)) // which took a minute
	leave()
	var refused *refusal.Error
	if _, err := box.Printed(ctx, code, hog, "ticket80", false); !errors.As(err, &refused) ||
		refused.Code != refusal.CodeBusy || refused.RetryAfter <= 0 {
		t.Errorf("beyond its allowance: %v", err)
	}
	// It is refused before its document is read.
	if _, err := box.Printed(ctx, dte.Code{1}, hog, "letter", false); !errors.As(err, &refused) ||
		refused.Code != refusal.CodeBusy {
		t.Errorf("beyond its allowance, of a document that there is not: %v", err)
	}
	if _, err := box.Printed(ctx, code, enginetest.TestCaller(1), "ticket80", false); err != nil {
		t.Errorf("another till: %v", err)
	}
	w.Clock.Set(w.Now().Add(refused.RetryAfter))
	if _, err := box.Printed(ctx, code, hog, "ticket80", false); err != nil {
		t.Errorf("after its wait: %v", err)
	}
}

// TestPrintable: what a print shows beside the document, by the document's state.
func TestPrintable(t *testing.T) {
	at := time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC) // the 21st in El Salvador
	answered := &authority.Response{FhProcesamiento: "21/11/2026 20:59:58"}
	for name, c := range map[string]struct {
		estado string
		event  *record.Invalidation
		want   pdf.Document // without JSON
	}{
		"processed":   {record.EstadoProcessed, nil, pdf.Document{Seal: "S", Received: "R"}},
		"contingency": {record.EstadoContingency, nil, pdf.Document{State: pdf.Contingency}},
		"an invalidation that waits": {record.EstadoProcessed, &record.Invalidation{Code: "E", At: at},
			pdf.Document{Seal: "S", Received: "R"}},
		"invalidated, as MH says": {record.EstadoInvalidated, &record.Invalidation{Code: "E", At: at, Reason: "error",
			Response: answered}, pdf.Document{State: pdf.Invalidated, Seal: "S", Received: "R",
			Note: "Invalidado el 21/11/2026 20:59:58\nEvento E\nMotivo: error"}},
		"invalidated, without a reason": {record.EstadoInvalidated, &record.Invalidation{Code: "E", At: at,
			Response: answered}, pdf.Document{State: pdf.Invalidated, Seal: "S", Received: "R",
			Note: "Invalidado el 21/11/2026 20:59:58\nEvento E"}},
		"invalidated, without MH's time": {record.EstadoInvalidated, &record.Invalidation{Code: "E", At: at,
			Response: new(authority.Response)}, pdf.Document{State: pdf.Invalidated, Seal: "S", Received: "R",
			Note: "Invalidado el 21/11/2026 21:04:05\nEvento E"}},
		"invalidated, without an answer": {record.EstadoInvalidated, &record.Invalidation{Code: "E", At: at},
			pdf.Document{State: pdf.Invalidated, Seal: "S", Received: "R",
				Note: "Invalidado el 21/11/2026 21:04:05\nEvento E"}},
		"invalidated by an event that is lost": {record.EstadoInvalidated, nil,
			pdf.Document{State: pdf.Invalidated, Seal: "S", Received: "R"}},
	} {
		d := outbox.Printable(&record.View{JSON: []byte("{}"), Sello: "S", Estado: c.estado, Invalidation: c.event,
			Response: &authority.Response{FhProcesamiento: "R"}})
		c.want.JSON = d.JSON
		if got, want := fmt.Sprintf("%+v", d), fmt.Sprintf("%+v", c.want); got != want || string(d.JSON) != "{}" {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
