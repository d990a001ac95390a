package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/pdf"
)

// TestDeliver_Panic: a document at which the printer panics is set aside with the reason, and the others are mailed.
func TestDeliver_Panic(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		printer, err := pdf.New(pdf.Options{Catalogue: func(_, code string) (string, bool) {
			if code == "02" {
				panic("a word without letters")
			}
			return "", false
		}})
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		b.Delivery.Printer = printer
		b.Start()
		synctest.Wait() // the first look for events moves lost records back to their queues
		card := enginetest.SaleTo("card", "ana@example.com")
		card.Facts = card.Facts.With(
			"resumen",
			card.Facts.Get("resumen").With("pagos", dte.Arr(dte.Obj(enginetest.Member("codigo",
				dte.Str("02")), enginetest.Member("referencia", dte.Str("1"))))),
		)
		bad, good := b.Issue(card), b.Issue(enginetest.SaleTo("cash", "eva@example.com"))
		time.Sleep(time.Minute)
		if n := len(p.Of(good.Code)); n != 1 || len(p.Of(bad.Code)) != 0 {
			t.Errorf("%d mails", n)
		}
		if _, list, err := b.Engine.Lost().List(9); err != nil || len(list) != 1 || list[0].Code != bad.Code ||
			!strings.Contains(list[0].Why, "a word without letters") {
			t.Errorf("%+v %v", list, err)
		}
	})
}
