package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

func TestInvalidate(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	wrong, right := w.Issued(enginetest.Invoice("a", enginetest.Item(1, "3", "5.65")), record.EstadoProcessed),
		w.Issued(enginetest.Invoice("b", enginetest.Item(1, "2", "5.65")), record.EstadoProcessed)
	_, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(wrong, 1, ""))
	enginetest.Refused(t, err, refusal.CodeValidation, "codigoGeneracionReemplazo")
	_, err = w.Engine.Invalidate(ctx, enginetest.Invalidation(wrong, 2, right.Code))
	enginetest.Refused(t, err, refusal.CodeValidation, "codigoGeneracionReemplazo")
	r, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(wrong, 1, right.Code))
	if err != nil || r.Estado != record.EstadoInvalidated || r.Invalidation.Estado != record.EstadoProcessed {
		t.Fatalf("%+v %v", r, err)
	}
	again, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(wrong, 1, right.Code))
	if err != nil || again.Invalidation.Code != r.Invalidation.Code || w.Sim.Received().Invalidations != 1 {
		t.Fatalf("again: %+v %v, MH has %+v", again, err, w.Sim.Received())
	}
}

// looked is a context that calls a function when it is checked.
type looked struct {
	context.Context
	look func()
}

func (c looked) Err() error {
	c.look()
	return c.Context.Err()
}

// Two documents name each other as replacement. Wherever the second invalidation runs within the first, one of both
// gets a 400, and MH is sent no event that it refuses.
func TestInvalidate_EachOther(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	for k := 1; ; k++ {
		sold := func(i int) *record.View {
			return w.Issued(enginetest.Invoice(fmt.Sprint(k, i), enginetest.Item(1, "1", "1")), record.EstadoProcessed)
		}
		a, b, looks := sold(1), sold(2), 0
		invalidated := 0
		invalidate := func(ctx context.Context, r, other *record.View) {
			got, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(r, 1, other.Code))
			if err != nil {
				enginetest.Refused(t, err, refusal.CodeValidation, "codigoGeneracionReemplazo")
			} else if got.Estado != record.EstadoInvalidated {
				t.Fatalf("at look %d MH was sent an event that it refuses: %+v", k, got.Invalidation)
			} else {
				invalidated++
			}
		}
		invalidate(looked{t.Context(), func() {
			if looks++; looks == k {
				invalidate(t.Context(), b, a)
			}
		}}, a, b)
		if invalidated != 1 {
			t.Fatalf("at look %d %d of the two were invalidated", k, invalidated)
		}
		if looks < k {
			return
		}
	}
}

// Notes and returns on a document must be invalidated first, and then give their room back.
func TestInvalidate_Burdened(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	original := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	note := w.Issued(enginetest.NoteOn("05", "c", original, enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	more := w.Issued(enginetest.NoteOn("06", "more", original, enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	var err error
	for _, c := range []struct {
		note *record.View
		want string
	}{{more, "Hay 2 notas"}, {note, "Hay una nota"}} {
		_, err = w.Engine.Invalidate(ctx, enginetest.Invalidation(original, 2, ""))
		if e := enginetest.Refused(t, err, refusal.CodeNotInvalidable, ""); !strings.HasPrefix(e.Message, c.want) {
			t.Errorf("%s, want %s", e.Message, c.want)
		}
		if _, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(c.note, 2, "")); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Counter(original, record.LineCredited); n != 0 {
		t.Fatalf("an invalidated note holds %d", n)
	}
	if _, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(original, 2, "")); err != nil {
		t.Fatal(err)
	}
	_, err = w.Engine.Issue(ctx, enginetest.NoteOn("05", "c2", original, enginetest.Item(1, "1", "1")))
	enginetest.Refused(t, err, refusal.CodeNotProcessed, "")

	// A debit note whose room was used cannot be invalidated before the credit note that used it.
	original = w.Issued(enginetest.Voucher("v2", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	debit := w.Issued(enginetest.NoteOn("06", "d", original, enginetest.Item(1, "1", "10")), record.EstadoProcessed)
	credit := w.Issued(enginetest.NoteOn("05", "c3", original, enginetest.Item(1, "1", "105")), record.EstadoProcessed)
	_, err = w.Engine.Invalidate(ctx, enginetest.Invalidation(debit, 2, ""))
	enginetest.Refused(t, err, refusal.CodeNotInvalidable, "")
	for _, r := range []*record.View{credit, debit, original} {
		if _, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(r, 2, "")); err != nil {
			t.Fatalf("%s: %v", r.Tipo, err)
		}
	}
}

// The windows are counted from the seal: three months for an invoice, the tenth business day of the next month for a
// voucher.
func TestInvalidate_Window(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	early, late := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed),
		w.Issued(enginetest.Voucher("v2", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	sold, soldLate := w.Issued(enginetest.Invoice("i", enginetest.Item(1, "1", "1")), record.EstadoProcessed),
		w.Issued(enginetest.Invoice("i2", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	// One more is sold on the 27th and sealed on the last day of November, another is sold on that day: the months end on
	// the last day of February (MF2 pp.10-12), and the event's date is within three months of the sale.
	lastDay := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	w.Clock.Set(lastDay.AddDate(0, 0, -3))
	w.Wire.At = func(point string) {
		if point == "before /fesv/recepciondte" {
			w.Clock.Set(lastDay)
		}
	}
	sealedLate := w.Issued(enginetest.Invoice("i3", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	soldOnLast := w.Issued(enginetest.Invoice("i4", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	w.Wire.At = nil
	for _, step := range []struct {
		r  *record.View
		at time.Time // in El Salvador
		ok bool
	}{
		{early, time.Date(2026, 12, 14, 23, 59, 59, 0, time.UTC), true},
		{late, time.Date(2026, 12, 15, 0, 0, 0, 2, time.UTC), false},
		{sold, time.Date(2027, 2, 21, 23, 59, 59, 0, time.UTC), true},
		{soldLate, time.Date(2027, 2, 22, 0, 0, 0, 2, time.UTC), false},
		{sealedLate, time.Date(2027, 2, 28, 23, 59, 59, 0, time.UTC), true},
		{soldOnLast, time.Date(2027, 3, 1, 0, 0, 0, 2, time.UTC), false},
	} {
		w.Clock.Set(step.at.Add(6 * time.Hour))
		r, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(step.r, 2, ""))
		if step.ok && (err != nil || r.Estado != record.EstadoInvalidated) {
			t.Errorf("%s at %s: %+v %v", step.r.Tipo, step.at, r, err)
		}
		if !step.ok {
			enginetest.Refused(t, err, refusal.CodeNotInvalidable, "")
		}
	}
}

// Nobody invalidates what he cannot see. Offline nothing is invalidated; a lost answer is settled by sending the same event again.
func TestInvalidate_Wire(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	r := w.Issued(enginetest.Invoice("i", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	elsewhere, unknown := enginetest.Invalidation(r, 2, ""), enginetest.Invalidation(r, 2, "")
	elsewhere.Caller.Point.BranchID++
	unknown.Code[0]++
	for _, req := range []engine.InvalidationRequest{elsewhere, unknown} {
		_, err := w.Engine.Invalidate(ctx, req)
		enginetest.Refused(t, err, refusal.CodeNotFound, "")
	}
	w.Wire.Sever()
	_, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(r, 2, ""))
	enginetest.Refused(t, err, refusal.CodeUnavailable, "")
	if got, err := w.Engine.Documents().Document(ctx, enginetest.CodeOf(r), enginetest.TestCaller(1)); err != nil ||
		got.Invalidation != nil {
		t.Fatalf("an invalidation that was not sent stays: %+v %v", got, err)
	}
	w.Wire.Mend()
	if err := w.Sim.Chaos(simulator.Chaos{LostAnswers: 1}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Engine.Invalidate(ctx, enginetest.Invalidation(r, 2, ""))
	enginetest.Refused(t, err, refusal.CodeUnavailable, "")
	// The till repeats without MH, after a crash that lost even what is known of the sending: the event is kept.
	entry, h, err := record.Read(w.Store, storage.Code(enginetest.CodeOf(r)))
	if err == nil {
		h.Invalidation.Doubtful = false
		_, err = w.Engine.Move(ctx, entry, storage.Change{To: record.Accepted, Due: entry.Due}, h)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Wire.Sever()
	_, err = w.Engine.Invalidate(ctx, enginetest.Invalidation(r, 2, ""))
	enginetest.Refused(t, err, refusal.CodeUnavailable, "")
	w.Wire.Mend()
	if err := w.Engine.ResumeInvalidations(ctx, enginetest.Start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	got, err := w.Engine.Documents().Document(ctx, enginetest.CodeOf(r), enginetest.TestCaller(1))
	if err != nil || got.Estado != record.EstadoInvalidated || w.Sim.Received().Invalidations != 1 {
		t.Fatalf("%+v %v, MH has %+v", got, err, w.Sim.Received())
	}
}

// Nothing is issued against a document while its invalidation waits for MH's answer; after MH has refused the
// invalidation, notes are issued again.
func TestInvalidate_PendingBlocks(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	original, sold := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed),
		w.Issued(enginetest.Invoice("i", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	if err := w.Sim.Chaos(simulator.Chaos{LostRequests: 2, Only: "invalidations"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*record.View{original, sold} {
		_, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(r, 2, ""))
		enginetest.Refused(t, err, refusal.CodeUnavailable, "")
	}
	wrong := w.Issued(enginetest.Invoice("w", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	_, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(wrong, 1, sold.Code)) // soon both would be gone
	enginetest.Refused(t, err, refusal.CodeValidation, "codigoGeneracionReemplazo")
	note, taken := enginetest.NoteOn(
		"05",
		"c",
		original,
		enginetest.Item(1, "1", "100"),
	), enginetest.ReturnOf(
		"r",
		sold,
		enginetest.Back(1, "1"),
	)
	_, err = w.Engine.Issue(ctx, note)
	enginetest.Refused(t, err, refusal.CodeNotProcessed, "")
	_, err = w.Engine.Issue(ctx, taken)
	enginetest.Refused(t, err, refusal.CodeOriginStatus, "")
	if err := w.Sim.Chaos(simulator.Chaos{RejectEvents: 2}); err != nil {
		t.Fatal(err)
	}
	if err := w.Engine.ResumeInvalidations(ctx, enginetest.Start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if r := w.Issued(note, record.EstadoProcessed); r.SequenceNumber != "1" {
		t.Errorf("the note that was refused spent a number: %s", r.SequenceNumber)
	}
	w.Issued(taken, record.EstadoProcessed)
}
