package documents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
)

// TestSlip: the signs of a closing's ticket are those of the money: what was paid and what was given back is negative,
// and the rows of the net add up to its total. Rows of nothing are left out of the payments.
func TestSlip(t *testing.T) {
	x := &Closing{Kind: closingZ, Number: 7, Payments: []ClosingPayment{
		{Method: "01", Text: "Efectivo", Received: "23.90", Paid: "180.00"},
		{Method: "02", Text: "Tarjeta", Received: "123.00", Paid: "0.00"},
		{Method: "05", Text: "Transferencia", Received: "0.00", Paid: "9.00"},
	}, Net: ClosingNet{Sales: "146.90", Debits: "22.60", Credits: "11.30", Returns: "5.65", Total: "152.55",
		VAT: "17.55", Purchases: "180.00", Withheld: "1.00"}, Later: 3, Unread: 2, Issuer: "Ana", Ambiente: "TEST",
		Date: "2026-11-21", Establishment: "M001", PointOfSale: "P002", At: time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC),
		Groups: []ClosingGroup{{Document: "01", Estado: "PROCESSED", Count: 2, Total: "146.90"},
			{Document: "05", Estado: "REJECTED", Count: 1, Total: "11.30"}},
		Series: []ClosingSeries{{Document: "01", First: "N-1", Last: "N-2"}, {Document: "05", First: "N-3", Last: "N-4"}}}
	s := x.Slip()
	value := func(text string) dte.Amount {
		t.Helper()
		sign := dte.Amount(1)
		if strings.HasPrefix(text, "-") {
			sign, text = -1, text[1:]
		}
		a, err := dte.ParseAmount(strings.TrimPrefix(text, "$"))
		if err != nil || !strings.HasPrefix(text, "$") {
			t.Fatalf("%q: %v", text, err)
		}
		return sign * a
	}
	rows := func(title string) (texts string, sum dte.Amount) {
		for _, b := range s.Blocks {
			if !strings.HasPrefix(b.Title, title) {
				continue
			}
			for _, r := range b.Rows {
				texts += r.Label + " " + r.Value + "; "
				if r.Label == "IVA neto" {
					break // the rows below are not part of the total
				}
				if strings.Contains(r.Value, "$") {
					sum += value(r.Value)
				}
			}
		}
		return texts, sum
	}
	if texts, _ := rows("Formas de pago"); texts != "01 Efectivo $23.90; 01 Efectivo (pagado) -$180.00; 02 Tarjeta "+
		"$123.00; 05 Transferencia (pagado) -$9.00; " {
		t.Error(texts)
	}
	if texts, _ := rows("Documentos"); texts != "01 PROCESSED × 2 $146.90; 05 REJECTED × 1 $11.30; " {
		t.Error(texts)
	}
	if texts, _ := rows("Números"); texts != "Primero N-1; Último N-2; Primero N-3; Último N-4; " {
		t.Error(texts)
	}
	if head := fmt.Sprint(s.Head); !strings.Contains(head, "{Día 21/11/2026}") || !strings.Contains(head, " M001 P002}") ||
		!strings.Contains(head, " 21/11/2026 21:04:05}") || s.Issuer != "Ana" || !s.Made.Equal(x.At) || !s.Trial {
		t.Errorf("%s of %s, %v, trial %v", head, s.Issuer, s.Made, s.Trial)
	}
	if texts, sum := rows("Neto"); sum != value(s.Total.Value) || s.Total.Value != "$152.55" {
		t.Errorf("%s add up to %s, not to %s", texts, sum.Fixed2(), s.Total.Value)
	}
	if notes := strings.Join(s.Notes, "; "); len(s.Notes) != 2 || !strings.HasSuffix(s.Notes[0], ": 3") ||
		!strings.HasSuffix(s.Notes[1], ": 2") || s.Title != "CIERRE Z N.º 7" {
		t.Errorf("%s: %s", s.Title, notes)
	}
	x.Kind, x.Ambiente, x.Later, x.Unread = closingX, "PRODUCTION", 0, 0
	if s := x.Slip(); s.Title != "CORTE X" || len(s.Notes) != 0 || s.Trial {
		t.Errorf("%+v", s)
	}
}
