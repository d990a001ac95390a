package engine

import (
	"context"
	"testing"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

func TestNote_Amounts(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	original := w.issued(voucher("v", item(1, "40", "4.25"), item(2, "1", "10", member("tipoImpuesto",
		dte.Str("EXENTO")))), record.EstadoProcessed)
	credit := w.issued(noteOn("05", "c1", original, item(1, "20", "4.25")), record.EstadoProcessed)
	if credit.Total != "96.05" || credit.ControlNumber != "DTE-05-M001P001-000000000000001" {
		t.Fatalf("%s %s\n%s", credit.Total, credit.ControlNumber, credit.JSON)
	}
	over := func(key, document, quantity string) error {
		_, err := w.engine.Issue(context.Background(), noteOn(document, key, original, item(1, quantity, "4.25")))
		return err
	}
	refused(t, over("c2", "05", "21"), refusal.CodeValidation, "cuerpoDocumento")
	w.issued(noteOn("06", "d1", original, item(1, "1", "4.25")), record.EstadoProcessed) // a debit makes room
	refused(t, over("c2", "05", "22"), refusal.CodeValidation, "cuerpoDocumento")
	w.issued(noteOn("05", "c2", original, item(1, "21", "4.25")), record.EstadoProcessed)
	refused(t, over("c3", "05", "0.01"), refusal.CodeValidation, "cuerpoDocumento")
	// Exempt amounts have a room of their own.
	w.issued(noteOn("05", "c3", original, item(1, "1", "10", member("tipoImpuesto", dte.Str("EXENTO")))),
		record.EstadoProcessed)
}

func TestNote_RejectedGivesBack(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	original := w.issued(voucher("v", item(1, "1", "100")), record.EstadoProcessed)
	if err := w.sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
		t.Fatal(err)
	}
	w.issued(noteOn("05", "c1", original, item(1, "1", "100")), record.EstadoRejected)
	if got := w.counter(original, record.LineCredited); got != 0 {
		t.Fatalf("a rejected note holds %d", got)
	}
	// A note in contingency holds its room.
	if err := w.sim.Chaos(simulator.Chaos{Outage: true}); err != nil {
		t.Fatal(err)
	}
	w.issued(noteOn("05", "c2", original, item(1, "1", "100")), record.EstadoContingency)
	_, err := w.engine.Issue(context.Background(), noteOn("05", "c3", original, item(1, "1", "0.01")))
	refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	// A debit note in contingency adds no room yet.
	w.issued(noteOn("06", "d1", original, item(1, "1", "50")), record.EstadoContingency)
	_, err = w.engine.Issue(context.Background(), noteOn("05", "c4", original, item(1, "1", "0.01")))
	refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
}

func TestNote_Refused(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	ctx := context.Background()
	plain := w.issued(voucher("v", item(1, "1", "100")), record.EstadoProcessed)
	issue := func(r Request) error { _, err := w.engine.Issue(ctx, r); return err }

	nobody := noteOn("05", "", plain, item(1, "1", "1"))
	nobody.Origin.Code = dte.Code{1}
	refused(t, issue(nobody), refusal.CodeNotFound, "")

	stranger := noteOn("05", "", plain, item(1, "1", "1"))
	stranger.Caller.Point.BranchID = 2
	refused(t, issue(stranger), refusal.CodeNotFound, "")

	wrong := noteOn("05", "", plain, item(1, "1", "1"))
	wrong.Origin.Document, wrong.Origin.Date = "01", "2026-11-20"
	err := issue(wrong)
	refused(t, err, refusal.CodeValidation, "documentoRelacionado.tipoDte")
	refused(t, err, refusal.CodeValidation, "documentoRelacionado.fechaEmision")

	flag := noteOn("05", "", plain, item(1, "1", "1"))
	flag.Facts = flag.Facts.With("isRetenIva", dte.Bool(true))
	refused(t, issue(flag), refusal.CodeValidation, "isRetenIva")

	excluded := w.issued(request("14", "x", member("receptor", taxpayer), member("applyrent", dte.Bool(false)),
		member("cuerpoDocumento", dte.Arr(item(1, "1", "5"))), cash()), record.EstadoProcessed)
	refused(t, issue(noteOn("05", "", excluded, item(1, "1", "1"))), refusal.CodeOriginType, "")

	if err := w.sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
		t.Fatal(err)
	}
	rejected := w.issued(voucher("r", item(1, "1", "100")), record.EstadoRejected)
	refused(t, issue(noteOn("05", "", rejected, item(1, "1", "1"))), refusal.CodeNotProcessed, "")
	if got := w.counter(plain, record.LineActive); got != 0 {
		t.Fatalf("refused notes stand: %d", got)
	}
}

// A note takes its receptor and its flags from the original, on an invoice too, whose prices have VAT inside.
func TestNote_Inherits(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	held := voucher("v", item(1, "2", "100"))
	held.Facts = held.Facts.With("isRetenIva", dte.Bool(true))
	original := w.issued(held, record.EstadoProcessed)
	note := w.issued(noteOn("05", "c", original, item(1, "1", "100")), record.EstadoProcessed)
	if got := text(t, note, "receptor", "nombre"); got != "Comercial El Roble" {
		t.Errorf("receptor %q", got)
	}
	if note.Total != "112.00" { // 100 + 13 - 1
		t.Errorf("total %s, want the withholding of 1 %% in it", note.Total)
	}
	// MH refuses a note on an invoice, the API admits it
	if err := w.sim.Chaos(simulator.Chaos{LaxOrigins: true}); err != nil {
		t.Fatal(err)
	}
	sold := w.issued(invoice("i", item(1, "1", "113")), record.EstadoProcessed)
	ask := noteOn("05", "c2", sold, item(1, "1", "100.01"))
	ask.Facts = ask.Facts.With("receptor", taxpayer)
	_, err := w.engine.Issue(context.Background(), ask)
	refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	ask = noteOn("05", "c3", sold, item(1, "1", "100"))
	ask.Facts = ask.Facts.With("receptor", taxpayer)
	w.issued(ask, record.EstadoProcessed)
}

// TestNote_Returned: what was returned of an invoice is not credited too, and what was credited is not returned.
func TestNote_Returned(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	if err := w.sim.Chaos(simulator.Chaos{LaxOrigins: true}); err != nil {
		t.Fatal(err)
	}
	note := func(key string, sold *record.View) Request {
		r := noteOn("05", key, sold, item(1, "1", "100"))
		r.Facts = r.Facts.With("receptor", taxpayer)
		return r
	}
	ctx := context.Background()
	returned := w.issued(invoice("i", item(1, "1", "113")), record.EstadoProcessed)
	r := w.issued(returnOf("r", returned, back(1, "1")), record.EstadoProcessed)
	_, err := w.engine.Issue(ctx, note("n", returned))
	refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	credited := w.issued(invoice("i2", item(1, "1", "113")), record.EstadoProcessed)
	w.issued(note("n2", credited), record.EstadoProcessed)
	_, err = w.engine.Issue(ctx, returnOf("r2", credited, back(1, "1")))
	refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	if _, err := w.engine.Invalidate(ctx, invalidation(r, 2, "")); err != nil {
		t.Fatal(err)
	}
	w.issued(note("n", returned), record.EstadoProcessed)
}
