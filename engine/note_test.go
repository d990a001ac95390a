package engine_test

import (
	"context"
	"testing"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

func TestNote_Amounts(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	original := w.Issued(
		enginetest.Voucher(
			"v",
			enginetest.Item(1, "40", "4.25"),
			enginetest.Item(2, "1", "10", enginetest.Member("tipoImpuesto",
				dte.Str("EXENTO"))),
		),
		record.EstadoProcessed,
	)
	credit := w.Issued(
		enginetest.NoteOn("05", "c1", original, enginetest.Item(1, "20", "4.25")),
		record.EstadoProcessed,
	)
	if credit.Total != "96.05" || credit.ControlNumber != "DTE-05-M001P001-000000000000001" {
		t.Fatalf("%s %s\n%s", credit.Total, credit.ControlNumber, credit.JSON)
	}
	over := func(key, document, quantity string) error {
		_, err := w.Engine.Issue(
			context.Background(),
			enginetest.NoteOn(document, key, original, enginetest.Item(1, quantity, "4.25")),
		)
		return err
	}
	enginetest.Refused(t, over("c2", "05", "21"), refusal.CodeValidation, "cuerpoDocumento")
	w.Issued(
		enginetest.NoteOn("06", "d1", original, enginetest.Item(1, "1", "4.25")),
		record.EstadoProcessed,
	) // a debit makes room
	enginetest.Refused(t, over("c2", "05", "22"), refusal.CodeValidation, "cuerpoDocumento")
	w.Issued(enginetest.NoteOn("05", "c2", original, enginetest.Item(1, "21", "4.25")), record.EstadoProcessed)
	enginetest.Refused(t, over("c3", "05", "0.01"), refusal.CodeValidation, "cuerpoDocumento")
	// Exempt amounts have a room of their own.
	w.Issued(
		enginetest.NoteOn(
			"05",
			"c3",
			original,
			enginetest.Item(1, "1", "10", enginetest.Member("tipoImpuesto", dte.Str("EXENTO"))),
		),
		record.EstadoProcessed,
	)
}

// Notes give back no more of each tax than the original charged, and no charges that the original does not have. A tax
// that is rounded to the cent in each of several notes is not refused.
func TestNote_TaxesAndCharges(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	text := func(s string) dte.Value {
		v, err := dte.Parse([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	fuel := func(number int64, gallons, price string) dte.Value {
		return enginetest.Item(number, gallons, price).Set(
			enginetest.Member("uniMedida", dte.Int(22)),
			enginetest.Member("tributos", text(`["20","D1","C8"]`)),
		)
	}
	charge := func(amount string) dte.Value {
		return enginetest.Item(2, "1", "0").Set(
			enginetest.Member("uniMedida", dte.Int(99)),
			enginetest.Member("noGravado", text(amount)),
		)
	}
	refused := func(document string, original *record.View, lines ...dte.Value) {
		t.Helper()
		_, err := w.Engine.Issue(context.Background(), enginetest.NoteOn(document, "", original, lines...))
		enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	}
	plain := w.Issued(enginetest.Voucher("", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	refused("05", plain, enginetest.Item(1, "1", "1"), charge("10000"))
	refused("05", plain, fuel(1, "100000", "0.00001"))
	charged := w.Issued(enginetest.Voucher("", enginetest.Item(1, "1", "100"), charge("50")), record.EstadoProcessed)
	refused("05", charged, fuel(1, "100", "0.01"))

	both := w.Issued(enginetest.Voucher("", fuel(1, "10.1", "4"), charge("20"), charge("-30").Set(
		enginetest.Member("numItem", dte.Int(3)))), record.EstadoProcessed)
	refused("05", both, fuel(1, "1", "4"), charge("20.01"))
	refused("05", both, fuel(1, "87", "0.01"), charge("0.01"))
	w.Issued(enginetest.NoteOn("06", "", both, fuel(1, "0.1", "4"), charge("3")), record.EstadoProcessed)
	w.Issued(enginetest.NoteOn("05", "", both, enginetest.Item(1, "1", "0.40"), charge("23")), record.EstadoProcessed)
	for range 24 { // 0.0425 gallons bear 0.0085 and 0.00425 of tax, or 0.01 and 0.00
		w.Issued(enginetest.NoteOn("05", "", both, fuel(1, "0.0425", "4")), record.EstadoProcessed)
	}
	w.Issued(enginetest.NoteOn("05", "", both, fuel(1, "9.08", "4")), record.EstadoProcessed)
	refused("05", both, fuel(1, "10", "0.0001"))
}

func TestNote_RejectedGivesBack(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	original := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	if err := w.Sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
		t.Fatal(err)
	}
	w.Issued(enginetest.NoteOn("05", "c1", original, enginetest.Item(1, "1", "100")), record.EstadoRejected)
	if got := w.Counter(original, record.LineCredited); got != 0 {
		t.Fatalf("a rejected note holds %d", got)
	}
	// A note in contingency holds its room.
	if err := w.Sim.Chaos(simulator.Chaos{Outage: true}); err != nil {
		t.Fatal(err)
	}
	w.Issued(enginetest.NoteOn("05", "c2", original, enginetest.Item(1, "1", "100")), record.EstadoContingency)
	_, err := w.Engine.Issue(
		context.Background(),
		enginetest.NoteOn("05", "c3", original, enginetest.Item(1, "1", "0.01")),
	)
	enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	// A debit note in contingency adds no room yet.
	w.Issued(enginetest.NoteOn("06", "d1", original, enginetest.Item(1, "1", "50")), record.EstadoContingency)
	_, err = w.Engine.Issue(
		context.Background(),
		enginetest.NoteOn("05", "c4", original, enginetest.Item(1, "1", "0.01")),
	)
	enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
}

func TestNote_Refused(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	plain := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	issue := func(r engine.Request) error { _, err := w.Engine.Issue(ctx, r); return err }

	nobody := enginetest.NoteOn("05", "", plain, enginetest.Item(1, "1", "1"))
	nobody.Origin.Code = dte.Code{1}
	enginetest.Refused(t, issue(nobody), refusal.CodeNotFound, "")

	stranger := enginetest.NoteOn("05", "", plain, enginetest.Item(1, "1", "1"))
	stranger.Caller.Point.BranchID = 2
	enginetest.Refused(t, issue(stranger), refusal.CodeNotFound, "")

	wrong := enginetest.NoteOn("05", "", plain, enginetest.Item(1, "1", "1"))
	wrong.Origin.Document, wrong.Origin.Date = "01", "2026-11-20"
	err := issue(wrong)
	enginetest.Refused(t, err, refusal.CodeValidation, "documentoRelacionado.tipoDte")
	enginetest.Refused(t, err, refusal.CodeValidation, "documentoRelacionado.fechaEmision")

	flag := enginetest.NoteOn("05", "", plain, enginetest.Item(1, "1", "1"))
	flag.Facts = flag.Facts.With("isRetenIva", dte.Bool(true))
	enginetest.Refused(t, issue(flag), refusal.CodeValidation, "isRetenIva")

	excluded := w.Issued(
		enginetest.Request(
			"14",
			"x",
			enginetest.Member("receptor", enginetest.Taxpayer),
			enginetest.Member("applyrent", dte.Bool(false)),
			enginetest.Member(
				"cuerpoDocumento",
				dte.Arr(enginetest.Item(1, "1", "5")),
			),
			enginetest.Cash(),
		),
		record.EstadoProcessed,
	)
	enginetest.Refused(
		t,
		issue(enginetest.NoteOn("05", "", excluded, enginetest.Item(1, "1", "1"))),
		refusal.CodeOriginType,
		"",
	)

	if err := w.Sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
		t.Fatal(err)
	}
	rejected := w.Issued(enginetest.Voucher("r", enginetest.Item(1, "1", "100")), record.EstadoRejected)
	enginetest.Refused(
		t,
		issue(enginetest.NoteOn("05", "", rejected, enginetest.Item(1, "1", "1"))),
		refusal.CodeNotProcessed,
		"",
	)
	if got := w.Counter(plain, record.LineActive); got != 0 {
		t.Fatalf("refused notes stand: %d", got)
	}
}

// A note takes its receptor and its flags from the original, on an invoice too, whose prices have VAT inside.
func TestNote_Inherits(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	held := enginetest.Voucher("v", enginetest.Item(1, "2", "100"))
	held.Facts = held.Facts.With("isRetenIva", dte.Bool(true))
	original := w.Issued(held, record.EstadoProcessed)
	note := w.Issued(enginetest.NoteOn("05", "c", original, enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	if got := enginetest.Text(t, note, "receptor", "nombre"); got != "Comercial El Roble" {
		t.Errorf("receptor %q", got)
	}
	if note.Total != "112.00" { // 100 + 13 - 1
		t.Errorf("total %s, want the withholding of 1 %% in it", note.Total)
	}
	// MH refuses a note on an invoice, the API admits it
	if err := w.Sim.Chaos(simulator.Chaos{LaxOrigins: true}); err != nil {
		t.Fatal(err)
	}
	sold := w.Issued(enginetest.Invoice("i", enginetest.Item(1, "1", "113")), record.EstadoProcessed)
	ask := enginetest.NoteOn("05", "c2", sold, enginetest.Item(1, "1", "100.01"))
	ask.Facts = ask.Facts.With("receptor", enginetest.Taxpayer)
	_, err := w.Engine.Issue(context.Background(), ask)
	enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	ask = enginetest.NoteOn("05", "c3", sold, enginetest.Item(1, "1", "100"))
	ask.Facts = ask.Facts.With("receptor", enginetest.Taxpayer)
	w.Issued(ask, record.EstadoProcessed)
	ask = enginetest.NoteOn("05", "c4", original, enginetest.Item(1, "1", "1")) // another activity than the original's
	ask.Facts = ask.Facts.With("receptor", enginetest.Taxpayer.With("codActividad", dte.Str("46484")).With("descActividad",
		dte.Null()))
	if r, err := w.Engine.Issue(context.Background(), ask); err == nil &&
		enginetest.Text(t, r, "receptor", "codActividad") == "46484" &&
		enginetest.Text(t, r, "receptor", "descActividad") != "" {
		t.Errorf("the note describes an activity with the words of the original's: %s", r.JSON)
	}
}

// TestNote_OneTaxpayer: a note names its original's receptor by the number that the original shows, whatever other
// number the till gave with it, then or now.
func TestNote_OneTaxpayer(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	person := enginetest.Taxpayer.Set(dte.Texts("tipoDocumento", "13", "numDocumento", "012345678").Members()...)
	foreign := enginetest.Taxpayer.Set(dte.Texts("numDocumento", "06142803901121", "nrc", "1234567").Members()...)
	bare := enginetest.Taxpayer.With("nrc", dte.Null()) // as of a taxpayer who is not registered for VAT
	for _, was := range []dte.Value{enginetest.Taxpayer, person, bare} {
		voucher := enginetest.Voucher("", enginetest.Item(1, "1", "100"))
		voucher.Facts = voucher.Facts.With("receptor", was)
		sold := w.Issued(voucher, record.EstadoProcessed)
		for _, said := range []dte.Value{dte.Null(), was, foreign, person} {
			note := enginetest.NoteOn("05", "", sold, enginetest.Item(1, "1", "1"))
			note.Facts = note.Facts.With("receptor", said)
			r := w.Issued(note, record.EstadoProcessed)
			nrc := enginetest.Text(t, r, "receptor", "nrc")
			if n := enginetest.Text(t, r, "receptor", "numDocumento"); n != "06140202801028" || nrc != was.Get("nrc").Text() ||
				enginetest.Text(t, r, "receptor", "tipoDocumento") != "36" {
				t.Errorf("%s: the note on %s names %s, %s", said.Append(nil), was.Append(nil), n, nrc)
			}
		}
	}
}

// TestNote_Returned: what was returned of an invoice is not credited too, and what was credited is not returned.
func TestNote_Returned(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	if err := w.Sim.Chaos(simulator.Chaos{LaxOrigins: true}); err != nil {
		t.Fatal(err)
	}
	note := func(key string, sold *record.View) engine.Request {
		r := enginetest.NoteOn("05", key, sold, enginetest.Item(1, "1", "100"))
		r.Facts = r.Facts.With("receptor", enginetest.Taxpayer)
		return r
	}
	ctx := context.Background()
	returned := w.Issued(enginetest.Invoice("i", enginetest.Item(1, "1", "113")), record.EstadoProcessed)
	r := w.Issued(enginetest.ReturnOf("r", returned, enginetest.Back(1, "1")), record.EstadoProcessed)
	_, err := w.Engine.Issue(ctx, note("n", returned))
	enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	credited := w.Issued(enginetest.Invoice("i2", enginetest.Item(1, "1", "113")), record.EstadoProcessed)
	w.Issued(note("n2", credited), record.EstadoProcessed)
	_, err = w.Engine.Issue(ctx, enginetest.ReturnOf("r2", credited, enginetest.Back(1, "1")))
	enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	if _, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(r, 2, "")); err != nil {
		t.Fatal(err)
	}
	w.Issued(note("n", returned), record.EstadoProcessed)
}
