package engine

import (
	"context"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// late issues sales in contingency; MH refuses the first two afterwards, alone or in a lot.
func late(b *box, sales int) []*record.View {
	b.t.Helper()
	b.cable.set(refusing)
	var list []*record.View
	for i := range sales {
		list = append(list, b.issue(sale("", 500+i)))
	}
	time.Sleep(time.Hour)
	b.chaos(simulator.Chaos{Reject: min(2, sales)})
	b.cable.set(plugged)
	time.Sleep(20 * time.Minute)
	return list
}

// A document that MH refuses after the fact is corrected within a day, under its own code and number.
func TestCorrect(t *testing.T) {
	for _, sales := range []int{1, 3} {
		inBubble(t, func(b *box) {
			list := late(b, sales)
			r := b.document(list[0].Code)
			o := b.engine.CountBacklog()
			if r.Estado != record.EstadoRejected || o.Waiting[record.QueueCorrect] != min(2, sales) ||
				time.Until(o.RefusedDeadline).Round(time.Hour) != 24*time.Hour {
				b.t.Fatalf("%s, %+v", r.Estado, o)
			}
			before := b.document(list[0].Code)
			// The answer to the till is lost, the power fails, MH's answer is lost.
			b.chaos(simulator.Chaos{LostAnswers: 1})
			if sales > 1 {
				b.cable.set(refusing) // both wait, and go in one lot
				b.correct(list[1].Code, 800)
			}
			if r := b.correct(list[0].Code, 900); r.Estado != record.EstadoContingency ||
				r.ControlNumber != before.ControlNumber || r.Total != "9.00" {
				b.t.Errorf("%s %s %s", r.Estado, r.ControlNumber, r.Total)
			}
			b.crash()
			b.cable.set(plugged)
			if r := b.correct(list[0].Code, 900); r.Total != "9.00" {
				b.t.Errorf("asked again: %s", r.Total)
			}
			time.Sleep(30 * time.Minute)
			now := b.document(list[0].Code)
			if now.Estado != record.EstadoProcessed || now.Sello == "" || text(b.t, now, "identificacion",
				"tipoModelo") != "2" ||
				text(b.t, now, "identificacion", "fecEmi") != text(b.t, before, "identificacion", "fecEmi") {
				b.t.Errorf("%s %s", now.Estado, now.JSON)
			}
			if r := b.correct(list[0].Code, 900); r.Estado != record.EstadoProcessed {
				b.t.Errorf("asked once more: %s", r.Estado)
			}
			_, err := b.engine.Correct(context.Background(), codeOf(now), sale("", 901))
			refused(t, err, refusal.CodeNotCorrectable, "")
			b.audit()
		})
	}
}

// After a day MH requires a new document, and nothing waits any longer.
func TestCorrect_TooLate(t *testing.T) {
	inBubble(t, func(b *box) {
		list := late(b, 3)
		bad := sale("", 700)
		bad.Facts = bad.Facts.With("cuerpoDocumento", bad.Facts.Get("receptor"))
		_, err := b.engine.Correct(context.Background(), codeOf(list[0]), bad)
		refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
		stranger := sale("", 700)
		stranger.Caller.Point.BranchID++
		_, err = b.engine.Correct(context.Background(), codeOf(list[0]), stranger)
		refused(t, err, refusal.CodeNotFound, "")
		// Refused once more: the day begins again.
		time.Sleep(20 * time.Hour)
		b.chaos(simulator.Chaos{Reject: 1})
		b.correct(list[1].Code, 800)
		time.Sleep(20 * time.Minute)
		o := b.engine.CountBacklog()
		if r := b.document(list[1].Code); r.Estado != record.EstadoRejected || o.Waiting[record.QueueCorrect] != 2 {
			b.t.Errorf("%s, %+v", r.Estado, o)
		}
		if left := time.Until(o.RefusedDeadline); left < 3*time.Hour || left > 4*time.Hour {
			b.t.Errorf("the first of both must be right within %v, and the deadline shown is in %v", 4*time.Hour, left)
		}
		time.Sleep(5 * time.Hour)
		_, err = b.engine.Correct(context.Background(), codeOf(list[0]), sale("", 700))
		refused(t, err, refusal.CodeNotCorrectable, "")
		b.correct(list[1].Code, 801)
		time.Sleep(20 * time.Minute)
		if r := b.document(list[1].Code); r.Estado != record.EstadoProcessed || r.Total != "8.01" ||
			b.engine.CountBacklog().Waiting[record.QueueCorrect] != 0 {
			b.t.Errorf("%s %s, %+v", r.Estado, r.Total, b.engine.CountBacklog())
		}
		// A sale that MH refused at once has no customer yet.
		b.chaos(simulator.Chaos{Reject: 1})
		_, err = b.engine.Correct(context.Background(), codeOf(b.issue(sale("", 100))), sale("", 101))
		refused(t, err, refusal.CodeNotCorrectable, "")
		b.audit()
	})
}

func (b *box) correct(code string, cents int) *record.View {
	b.t.Helper()
	r, err := b.engine.Correct(context.Background(), codeOf(&record.View{Code: code}), sale("", cents))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}
