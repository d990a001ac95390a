package engine

import (
	"context"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

func invalidation(r *record.View, kind int64, replacement string) InvalidationRequest {
	c := testCaller(1)
	c.Permissions = everything
	return InvalidationRequest{Code: codeOf(r), Kind: kind, Reason: "Error en la cantidad", Replacement: replacement,
		Caller:      c,
		Responsible: record.Person{Name: "María López", DocumentType: "13", Document: "012345678"},
		Applicant:   record.Person{Name: "Ana Morales", DocumentType: "13", Document: "123456789"}}
}

func TestInvalidate(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	ctx := context.Background()
	wrong, right := w.issued(invoice("a", item(1, "3", "5.65")), record.EstadoProcessed),
		w.issued(invoice("b", item(1, "2", "5.65")), record.EstadoProcessed)
	_, err := w.engine.Invalidate(ctx, invalidation(wrong, 1, ""))
	refused(t, err, refusal.CodeValidation, "codigoGeneracionReemplazo")
	_, err = w.engine.Invalidate(ctx, invalidation(wrong, 2, right.Code))
	refused(t, err, refusal.CodeValidation, "codigoGeneracionReemplazo")
	r, err := w.engine.Invalidate(ctx, invalidation(wrong, 1, right.Code))
	if err != nil || r.Estado != record.EstadoInvalidated || r.Invalidation.Estado != record.EstadoProcessed {
		t.Fatalf("%+v %v", r, err)
	}
	again, err := w.engine.Invalidate(ctx, invalidation(wrong, 1, right.Code))
	if err != nil || again.Invalidation.Code != r.Invalidation.Code || w.sim.Received().Invalidations != 1 {
		t.Fatalf("again: %+v %v, MH has %+v", again, err, w.sim.Received())
	}
}

// Notes and returns on a document must be invalidated first, and then give their room back.
func TestInvalidate_Burdened(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	ctx := context.Background()
	original := w.issued(voucher("v", item(1, "1", "100")), record.EstadoProcessed)
	note := w.issued(noteOn("05", "c", original, item(1, "1", "100")), record.EstadoProcessed)
	_, err := w.engine.Invalidate(ctx, invalidation(original, 2, ""))
	refused(t, err, refusal.CodeNotInvalidable, "")
	if _, err := w.engine.Invalidate(ctx, invalidation(note, 2, "")); err != nil {
		t.Fatal(err)
	}
	if n := w.counter(original, record.LineCredited); n != 0 {
		t.Fatalf("an invalidated note holds %d", n)
	}
	if _, err := w.engine.Invalidate(ctx, invalidation(original, 2, "")); err != nil {
		t.Fatal(err)
	}
	_, err = w.engine.Issue(ctx, noteOn("05", "c2", original, item(1, "1", "1")))
	refused(t, err, refusal.CodeNotProcessed, "")

	// A debit note whose room was used cannot be invalidated before the credit note that used it.
	original = w.issued(voucher("v2", item(1, "1", "100")), record.EstadoProcessed)
	debit := w.issued(noteOn("06", "d", original, item(1, "1", "10")), record.EstadoProcessed)
	credit := w.issued(noteOn("05", "c3", original, item(1, "1", "105")), record.EstadoProcessed)
	_, err = w.engine.Invalidate(ctx, invalidation(debit, 2, ""))
	refused(t, err, refusal.CodeNotInvalidable, "")
	for _, r := range []*record.View{credit, debit, original} {
		if _, err := w.engine.Invalidate(ctx, invalidation(r, 2, "")); err != nil {
			t.Fatalf("%s: %v", r.Tipo, err)
		}
	}
}

// The windows are counted from the seal: three months for an invoice, the tenth business day of the next month for a
// voucher.
func TestInvalidate_Window(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	ctx := context.Background()
	early, late := w.issued(voucher("v", item(1, "1", "100")), record.EstadoProcessed),
		w.issued(voucher("v2", item(1, "1", "100")), record.EstadoProcessed)
	sold, soldLate := w.issued(invoice("i", item(1, "1", "1")), record.EstadoProcessed),
		w.issued(invoice("i2", item(1, "1", "1")), record.EstadoProcessed)
	for _, step := range []struct {
		r  *record.View
		at time.Time // in El Salvador
		ok bool
	}{
		{early, time.Date(2026, 12, 14, 23, 59, 59, 0, time.UTC), true},
		{late, time.Date(2026, 12, 15, 0, 0, 0, 2, time.UTC), false},
		{sold, time.Date(2027, 2, 21, 23, 59, 59, 0, time.UTC), true},
		{soldLate, time.Date(2027, 2, 22, 0, 0, 0, 2, time.UTC), false},
	} {
		w.clock.set(step.at.Add(6 * time.Hour))
		r, err := w.engine.Invalidate(ctx, invalidation(step.r, 2, ""))
		if step.ok && (err != nil || r.Estado != record.EstadoInvalidated) {
			t.Errorf("%s at %s: %+v %v", step.r.Tipo, step.at, r, err)
		}
		if !step.ok {
			refused(t, err, refusal.CodeNotInvalidable, "")
		}
	}
}

// Offline nothing is invalidated; a lost answer is settled by sending the same event again.
func TestInvalidate_Wire(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	ctx := context.Background()
	r := w.issued(invoice("i", item(1, "1", "1")), record.EstadoProcessed)
	w.wire.sever()
	_, err := w.engine.Invalidate(ctx, invalidation(r, 2, ""))
	refused(t, err, refusal.CodeUnavailable, "")
	if got, err := w.engine.Documents().Document(ctx, codeOf(r), testCaller(1)); err != nil || got.Invalidation != nil {
		t.Fatalf("an invalidation that was not sent stays: %+v %v", got, err)
	}
	w.wire.mend()
	if err := w.sim.Chaos(simulator.Chaos{LostAnswers: 1}); err != nil {
		t.Fatal(err)
	}
	_, err = w.engine.Invalidate(ctx, invalidation(r, 2, ""))
	refused(t, err, refusal.CodeUnavailable, "")
	if err := w.engine.resumeInvalidations(ctx, start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	got, err := w.engine.Documents().Document(ctx, codeOf(r), testCaller(1))
	if err != nil || got.Estado != record.EstadoInvalidated || w.sim.Received().Invalidations != 1 {
		t.Fatalf("%+v %v, MH has %+v", got, err, w.sim.Received())
	}
}

// Nothing is issued against a document while its invalidation waits for MH's answer; after MH has refused the
// invalidation, notes are issued again.
func TestInvalidate_PendingBlocks(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	ctx := context.Background()
	original, sold := w.issued(voucher("v", item(1, "1", "100")), record.EstadoProcessed),
		w.issued(invoice("i", item(1, "1", "1")), record.EstadoProcessed)
	if err := w.sim.Chaos(simulator.Chaos{LostRequests: 2, Only: "invalidations"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*record.View{original, sold} {
		_, err := w.engine.Invalidate(ctx, invalidation(r, 2, ""))
		refused(t, err, refusal.CodeUnavailable, "")
	}
	wrong := w.issued(invoice("w", item(1, "1", "1")), record.EstadoProcessed)
	_, err := w.engine.Invalidate(ctx, invalidation(wrong, 1, sold.Code)) // soon both would be gone
	refused(t, err, refusal.CodeValidation, "codigoGeneracionReemplazo")
	note, taken := noteOn("05", "c", original, item(1, "1", "100")), returnOf("r", sold, back(1, "1"))
	_, err = w.engine.Issue(ctx, note)
	refused(t, err, refusal.CodeNotProcessed, "")
	_, err = w.engine.Issue(ctx, taken)
	refused(t, err, refusal.CodeOriginStatus, "")
	if err := w.sim.Chaos(simulator.Chaos{RejectEvents: 2}); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.resumeInvalidations(ctx, start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if r := w.issued(note, record.EstadoProcessed); r.SequenceNumber != "1" {
		t.Errorf("the note that was refused spent a number: %s", r.SequenceNumber)
	}
	w.issued(taken, record.EstadoProcessed)
}
