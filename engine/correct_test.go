package engine_test

import (
	"context"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// A document that MH refuses after the fact is corrected within a day, under its own code and number.
func TestCorrect(t *testing.T) {
	for _, sales := range []int{1, 3} {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			list := enginetest.Late(b, sales)
			r := b.Document(list[0].Code)
			o := b.Engine.CountBacklog()
			if r.Estado != record.EstadoRejected || o.Waiting[record.QueueCorrect] != min(2, sales) ||
				time.Until(o.RefusedDeadline).Round(time.Hour) != 24*time.Hour {
				b.T.Fatalf("%s, %+v", r.Estado, o)
			}
			before := b.Document(list[0].Code)
			// The answer to the till is lost, the power fails, MH's answer is lost.
			b.Chaos(simulator.Chaos{LostAnswers: 1})
			if sales > 1 {
				b.Cable.Set(enginetest.Refusing) // both wait, and go in one lot
				b.Correct(list[1].Code, 800)
			}
			if r := b.Correct(list[0].Code, 900); r.Estado != record.EstadoContingency ||
				r.ControlNumber != before.ControlNumber || r.Total != "9.00" {
				b.T.Errorf("%s %s %s", r.Estado, r.ControlNumber, r.Total)
			}
			b.Crash()
			b.Cable.Set(enginetest.Plugged)
			if r := b.Correct(list[0].Code, 900); r.Total != "9.00" {
				b.T.Errorf("asked again: %s", r.Total)
			}
			time.Sleep(30 * time.Minute)
			now := b.Document(list[0].Code)
			if now.Estado != record.EstadoProcessed || now.Sello == "" || enginetest.Text(b.T, now, "identificacion",
				"tipoModelo") != "2" ||
				enginetest.Text(
					b.T,
					now,
					"identificacion",
					"fecEmi",
				) != enginetest.Text(
					b.T,
					before,
					"identificacion",
					"fecEmi",
				) {
				b.T.Errorf("%s %s", now.Estado, now.JSON)
			}
			if r := b.Correct(list[0].Code, 900); r.Estado != record.EstadoProcessed {
				b.T.Errorf("asked once more: %s", r.Estado)
			}
			_, err := b.Engine.Correct(context.Background(), enginetest.CodeOf(now), enginetest.Sale("", 901))
			enginetest.Refused(t, err, refusal.CodeNotCorrectable, "")
			b.Audit()
		})
	}
}

// After a day MH requires a new document, and nothing waits any longer.
func TestCorrect_TooLate(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		list := enginetest.Late(b, 3)
		bad := enginetest.Sale("", 700)
		bad.Facts = bad.Facts.With("cuerpoDocumento", bad.Facts.Get("receptor"))
		_, err := b.Engine.Correct(context.Background(), enginetest.CodeOf(list[0]), bad)
		enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
		stranger := enginetest.Sale("", 700)
		stranger.Caller.Point.BranchID++
		_, err = b.Engine.Correct(context.Background(), enginetest.CodeOf(list[0]), stranger)
		enginetest.Refused(t, err, refusal.CodeNotFound, "")
		// Refused once more: the day begins again.
		time.Sleep(20 * time.Hour)
		b.Chaos(simulator.Chaos{Reject: 1})
		b.Correct(list[1].Code, 800)
		time.Sleep(20 * time.Minute)
		o := b.Engine.CountBacklog()
		if r := b.Document(list[1].Code); r.Estado != record.EstadoRejected || o.Waiting[record.QueueCorrect] != 2 {
			b.T.Errorf("%s, %+v", r.Estado, o)
		}
		if left := time.Until(o.RefusedDeadline); left < 3*time.Hour || left > 4*time.Hour {
			b.T.Errorf("the first of both must be right within %v, and the deadline shown is in %v", 4*time.Hour, left)
		}
		time.Sleep(5 * time.Hour)
		_, err = b.Engine.Correct(context.Background(), enginetest.CodeOf(list[0]), enginetest.Sale("", 700))
		enginetest.Refused(t, err, refusal.CodeNotCorrectable, "")
		b.Correct(list[1].Code, 801)
		time.Sleep(20 * time.Minute)
		if r := b.Document(list[1].Code); r.Estado != record.EstadoProcessed || r.Total != "8.01" ||
			b.Engine.CountBacklog().Waiting[record.QueueCorrect] != 0 {
			b.T.Errorf("%s %s, %+v", r.Estado, r.Total, b.Engine.CountBacklog())
		}
		// A sale that MH refused at once has no customer yet.
		b.Chaos(simulator.Chaos{Reject: 1})
		_, err = b.Engine.Correct(
			context.Background(),
			enginetest.CodeOf(b.Issue(enginetest.Sale("", 100))),
			enginetest.Sale("", 101),
		)
		enginetest.Refused(t, err, refusal.CodeNotCorrectable, "")
		b.Audit()
	})
}

// TestCorrect_EarlierFormSealed: MH seals the refused form after all, behind the correction. The record shows the sealed
// form's amount, customer and rule, not those of the correction.
func TestCorrect_EarlierFormSealed(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Lateness = true
		b.Issue(enginetest.Sale("before", 100))
		b.Cable.Set(enginetest.Refusing)
		was := b.Issue(enginetest.SaleTo("k", "ana@example.com"))
		time.Sleep(time.Hour)
		b.Chaos(simulator.Chaos{LateRequests: 1, LateMS: 2 * 3600_000, Reject: 1})
		b.Cable.Set(enginetest.Plugged)
		for b.Document(was.Code).Estado != record.EstadoRejected {
			time.Sleep(time.Minute)
		}
		b.Cable.Set(enginetest.Refusing)
		corrected := enginetest.SaleTo("", "eva@example.com")
		corrected.Facts = corrected.Facts.With("cuerpoDocumento", dte.Arr(enginetest.Item(1, "1", "90")))
		if r, err := b.Engine.Correct(context.Background(), enginetest.CodeOf(was), corrected); err != nil ||
			r.Total == was.Total {
			t.Fatalf("%+v, %v", r, err)
		}
		time.Sleep(5 * time.Hour)
		b.Cable.Set(enginetest.Plugged)
		time.Sleep(time.Hour)
		entry, err := b.Store.Get(storage.Code(enginetest.CodeOf(was)))
		if err != nil {
			t.Fatal(err)
		}
		h, err := record.DecodeHead(entry)
		if err != nil || entry.State != record.Accepted || h.Total != was.Total || h.Mail != "ana@example.com" ||
			h.Rule != was.Rule || h.Version == 0 {
			t.Errorf("state %d: %+v, %v", entry.State, h, err)
		}
		if total := enginetest.Text(t, b.Document(was.Code), "resumen", "totalPagar"); total != "11.3" {
			t.Errorf("MH has sealed %s", total)
		}
		b.Audit()
	})
}
