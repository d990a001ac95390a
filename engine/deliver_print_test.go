package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// One till that prints without end first waits for its own earlier work, and then is told to wait; another till's
// ticket, a link and the mail take their turns.
func TestPrinted_Shares(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	printer, err := testPrinter()
	if err != nil {
		t.Fatal(err)
	}
	box := outbox.New(outbox.Options{Delivery: outbox.Delivery{Printer: printer},
		Documents: outbox.Documents{Document: w.engine.Documents().Document, View: w.engine.Documents().View},
		Store:     w.store, Issuer: testIssuer(),
		Logger: quiet, Now: w.now, Rand: rand.Reader, GiveWay: func() func() { return nil }})
	r := w.issued(sale("", 100), record.EstadoProcessed)
	code, err := dte.ParseCode(r.Code)
	if err != nil {
		t.Fatal(err)
	}
	ctx, hog := context.Background(), testCaller(1)
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
	w.clock.set(w.now().Add(time.Minute)) // which took a minute
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
	if _, err := box.Printed(ctx, code, testCaller(1), "ticket80", false); err != nil {
		t.Errorf("another till: %v", err)
	}
	w.clock.set(w.now().Add(refused.RetryAfter))
	if _, err := box.Printed(ctx, code, hog, "ticket80", false); err != nil {
		t.Errorf("after its wait: %v", err)
	}
}

// TestDeliver_Panic: a document at which the printer panics is set aside with the reason, and the others are mailed.
func TestDeliver_Panic(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		printer, err := pdf.New(pdf.Options{Catalogue: func(_, code string) (string, bool) {
			if code == "02" {
				panic("a word without letters")
			}
			return "", false
		}})
		if err != nil {
			t.Fatal(err)
		}
		b.close()
		b.delivery.Printer = printer
		b.start()
		card := saleTo("card", "ana@example.com")
		card.Facts = card.Facts.With("resumen", card.Facts.Get("resumen").With("pagos", dte.Arr(dte.Obj(member("codigo",
			dte.Str("02")), member("referencia", dte.Str("1"))))))
		bad, good := b.issue(card), b.issue(saleTo("cash", "eva@example.com"))
		time.Sleep(time.Minute)
		if n := len(p.of(good.Code)); n != 1 || len(p.of(bad.Code)) != 0 {
			t.Errorf("%d mails", n)
		}
		if _, list, err := b.engine.lost.List(9); err != nil || len(list) != 1 || list[0].Code != bad.Code ||
			!strings.Contains(list[0].Why, "a word without letters") {
			t.Errorf("%+v %v", list, err)
		}
	})
}
