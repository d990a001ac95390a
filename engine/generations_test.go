package engine_test

import (
	"context"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// In production MH switches to its next generation at midnight of 1 December 2026: the same sale, a minute before and a
// minute after, is issued in one or the other by the dates of the bundles alone, and MH accepts both.
func TestIssue_GenerationByDate(t *testing.T) {
	w := enginetest.NewWorldIn(t, "01", nil, nil)
	defer w.Close()
	w.Clock.Set(time.Date(2026, 12, 1, 5, 59, 0, 0, time.UTC))
	purchase := func() engine.Request {
		return enginetest.Request(
			"14",
			"",
			enginetest.Member("receptor", enginetest.Taxpayer),
			enginetest.Member("applyrent", dte.Bool(false)),
			enginetest.Member("cuerpoDocumento", dte.Arr(enginetest.Item(1, "1", "5"))),
			enginetest.Cash(),
		)
	}
	for _, step := range []struct {
		day      string
		versions [3]string
	}{{"2026-11-30", [3]string{"1", "3", "1"}}, {"2026-12-01", [3]string{"2", "4", "2"}}} {
		for i, req := range []engine.Request{enginetest.Invoice("", enginetest.Item(1, "1", "5")), enginetest.Voucher("", enginetest.Item(1, "1", "5")), purchase()} {
			r, err := w.Engine.Issue(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := w.Sim.Document(r.Code)
			if got := enginetest.Text(t, r, "identificacion", "version"); got != step.versions[i] || enginetest.Text(t, r, "identificacion",
				"fecEmi") != step.day ||
				!a.Accepted {
				t.Errorf("%s on %s is version %s, MH accepted it: %v", req.Document, step.day, got, a.Accepted)
			}
		}
		w.Clock.Set(w.Now().Add(2 * time.Minute))
		if err := w.Engine.Contingency().Check(t.Context(), w.Now()); err != nil { // MH's clock was set too
			t.Fatal(err)
		}
	}
}

// TestGivenBack_GenerationByDate: what was sold or given back on the last day of a generation is credited, debited,
// returned or invalidated on the next day, in the next generation. A note of that day still takes no more of each tax,
// and is for the same taxpayer.
func TestGivenBack_GenerationByDate(t *testing.T) {
	w := enginetest.NewWorldIn(t, "01", nil, nil)
	defer w.Close()
	w.Clock.Set(time.Date(2026, 12, 1, 5, 0, 0, 0, time.UTC))
	fuel := func(gallons string, vat ...string) dte.Value {
		return enginetest.Item(1, gallons, "4").Set(enginetest.Member("uniMedida", dte.Int(22)),
			taxes(append(vat, "D1", "C8")...))
	}
	person := enginetest.Taxpayer.Set(dte.Texts("tipoDocumento", "13", "numDocumento", "012345678").Members()...)
	voucher := func() *record.View {
		req := enginetest.Voucher("", fuel("10", "20"), enginetest.Item(2, "1", "9"))
		req.Facts = req.Facts.With("receptor", person)
		return w.Issued(req, record.EstadoProcessed)
	}
	note := func(document string, original *record.View, gallons string) *record.View {
		r := w.Issued(enginetest.NoteOn(document, "", original, fuel(gallons, "20")), record.EstadoProcessed)
		want := map[string]string{"2026-11-30": "", "2026-12-01": "06140202801028"}[enginetest.Text(t, r,
			"identificacion", "fecEmi")]
		if n := enginetest.Text(t, r, "receptor", "numDocumento"); n != want {
			t.Errorf("the note is for %s", n)
		}
		return r
	}
	adjusted, plain, invoice := voucher(), voucher(), w.Issued(enginetest.Invoice("", fuel("10")), record.EstadoProcessed)
	void := []*record.View{note("05", adjusted, "4"), note("06", adjusted, "1"), plain,
		w.Issued(enginetest.Invoice("", fuel("2")), record.EstadoProcessed)}
	w.Clock.Set(time.Date(2026, 12, 1, 6, 1, 0, 0, time.UTC))
	if err := w.Engine.Contingency().Check(t.Context(), w.Now()); err != nil { // MH's clock was set too
		t.Fatal(err)
	}
	refused := func(gallons string) {
		t.Helper()
		_, err := w.Engine.Issue(t.Context(), enginetest.NoteOn("05", "", adjusted, fuel(gallons, "20")))
		enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
	}
	refused("7.2") // the amounts have room for it, the taxes of 10 gallons do not
	void = append(void, note("05", adjusted, "7"), note("06", adjusted, "1"),
		w.Issued(enginetest.ReturnOf("", invoice, enginetest.Back(1, "2.5")), record.EstadoProcessed))
	refused("1.2")
	for _, r := range void {
		v, err := w.Engine.Invalidate(t.Context(), enginetest.Invalidation(r, 2, ""))
		if err != nil || v.Estado != record.EstadoInvalidated {
			t.Errorf("a %s, %s, is not invalidated: %v", r.Document, r.ControlNumber, err)
		}
	}
	note("05", adjusted, "10")
	w.Issued(enginetest.ReturnOf("", invoice, enginetest.Back(1, "10")), record.EstadoProcessed)
}

// TestContingency_GenerationByDate: in production, one event of the new generation reports what an outage over the
// change of generations issued. The documents are forwarded as they were signed, a refused document of the day before
// is corrected in its own generation, and everything can be invalidated in the new one.
func TestContingency_GenerationByDate(t *testing.T) {
	enginetest.InBubbleOf(t, "01", time.Date(2026, 12, 1, 5, 0, 0, 0, time.UTC), func(b *enginetest.Box) {
		original := b.Issue(enginetest.Voucher("o", enginetest.Item(1, "10", "10")))
		b.Cable.Set(enginetest.Refusing)
		var list []*record.View
		for _, wait := range []time.Duration{61 * time.Minute, time.Hour} {
			for _, req := range []engine.Request{enginetest.Invoice("", enginetest.Item(1, "1", "5")),
				enginetest.Voucher("", enginetest.Item(1, "1", "5")),
				enginetest.NoteOn("05", "", original, enginetest.Item(1, "1", "5"))} {
				list = append(list, b.Issue(req))
			}
			time.Sleep(wait)
		}
		b.Chaos(simulator.Chaos{Reject: 1})
		b.PlugIn()
		time.Sleep(time.Hour)
		if b.Document(list[0].Code).Estado == record.EstadoRejected {
			b.Correct(list[0].Code, 600)
			time.Sleep(time.Hour)
		}
		for i, was := range list {
			r, want := b.Document(was.Code), []string{"1", "3", "3", "2", "4", "4"}[i]
			if v := enginetest.Text(t, r, "identificacion", "version"); v != want || r.Estado != record.EstadoProcessed {
				t.Errorf("%s is version %s and %s, want %s: %+v", r.Tipo, v, r.Estado, want, r.Response)
			}
			if r, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, "")); err != nil ||
				r.Estado != record.EstadoInvalidated {
				t.Errorf("%s of %s is not invalidated: %v", was.Tipo, enginetest.Text(t, was, "identificacion", "fecEmi"), err)
			}
		}
		if events := b.Sim.Events(); len(events) != 1 {
			t.Errorf("MH received %d events", len(events))
		}
		b.Audit()
	})
}
