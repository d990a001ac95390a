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
	"dtegate/plugins/plugintest"
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

// TestCorrect_EarlierFormSealed: MH seals the refused form after all, behind the correction. The record shows the
// sealed form's amount, customer and rule, not those of the correction, whatever the total's name in its layout.
func TestCorrect_EarlierFormSealed(t *testing.T) {
	sales := map[string]func(key, address, price string) engine.Request{
		"01": func(key, address, price string) engine.Request {
			r := enginetest.SaleTo(key, address)
			r.Facts = r.Facts.With("cuerpoDocumento", dte.Arr(enginetest.Item(1, "1", price)))
			return r
		},
		"04": func(key, address, price string) engine.Request {
			return enginetest.Request("04", key, dte.Member{Name: "receptor", Value: enginetest.Taxpayer.
				With("bienTitulo", dte.Str("04")).With("correo", dte.Str(address))}, dte.Member{
				Name: "cuerpoDocumento", Value: dte.Arr(enginetest.Item(1, "1", price))})
		},
	}
	book := bookWith(t, enginetest.Common(t).Book, plugintest.Rule(t, "dte04/v4", "compiler"))
	for document, sale := range sales {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			b.Close()
			b.Book = book
			b.Start()
			b.Lateness = true
			b.Issue(enginetest.Sale("before", 100))
			b.Cable.Set(enginetest.Refusing)
			was := b.Issue(sale("k", "ana@example.com", "10"))
			time.Sleep(time.Hour)
			b.Chaos(simulator.Chaos{LateRequests: 1, LateMS: 2 * 3600_000, Reject: 1})
			b.Cable.Set(enginetest.Plugged)
			for b.Document(was.Code).Estado != record.EstadoRejected {
				time.Sleep(time.Minute)
			}
			b.Cable.Set(enginetest.Refusing)
			if r, err := b.Engine.Correct(context.Background(), enginetest.CodeOf(was), sale("", "eva@example.com",
				"90")); err != nil || r.Total == was.Total {
				t.Fatalf("%s: %+v, %v", document, r, err)
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
				t.Errorf("%s: state %d, was %s: %+v, %v", document, entry.State, was.Total, h, err)
			}
			if now := b.Document(was.Code); enginetest.Text(t, now, "resumen", "totalGravada") !=
				enginetest.Text(t, was, "resumen", "totalGravada") {
				t.Errorf("%s: MH has sealed %s", document, now.JSON)
			}
			b.Audit()
		})
	}
}

// TestCorrect_ClockWrong: how long a document may be corrected is counted by MH's time, however wrong the box's clock
// is when MH refuses the document, or when the correction comes.
func TestCorrect_ClockWrong(t *testing.T) {
	const days = 24 * time.Hour
	for _, wrong := range [][2]time.Duration{{-5 * days, 0}, {0, 40 * days}, {40 * days, 0}} {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			b.At(func(point string) {
				if point == "after /fesv/contingencia" {
					b.Skew.Store(int64(wrong[0]))
				}
			})
			list := enginetest.Late(b, 3)
			b.At(nil)
			time.Sleep(10 * time.Minute)
			b.Skew.Store(int64(wrong[1]))
			time.Sleep(10 * time.Minute)
			if r := b.Document(list[0].Code); r.Estado != record.EstadoRejected ||
				b.Engine.CountBacklog().Waiting[record.QueueCorrect] != 2 {
				t.Errorf("%v: %s, %+v", wrong, r.Estado, b.Engine.CountBacklog())
			}
			r, err := b.Engine.Correct(context.Background(), enginetest.CodeOf(list[0]), enginetest.Sale("", 900))
			if err != nil || r.Total != "9.00" {
				t.Errorf("%v: %+v, %v", wrong, r, err)
			}
			b.Skew.Store(0)
			time.Sleep(25 * time.Hour)
			_, err = b.Engine.Correct(context.Background(), enginetest.CodeOf(list[1]), enginetest.Sale("", 900))
			enginetest.Refused(t, err, refusal.CodeNotCorrectable, "")
			if n := b.Engine.CountBacklog().Waiting[record.QueueCorrect]; n != 0 {
				t.Errorf("%v: %d wait", wrong, n)
			}
		})
	}
}

// TestReplaced: a box whose branch another box has neither corrects nor invalidates a document. What it has signed it
// still repeats and sends; a box that lacks room, or that the centre has not enrolled, does both.
func TestReplaced(t *testing.T) {
	for _, code := range []string{refusal.CodeBoxReplaced, refusal.CodeNotEnrolled, refusal.CodeStorageFull} {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			sold := []*record.View{b.Issue(enginetest.Sale("a", 100)), b.Issue(enginetest.Sale("b", 100))}
			b.Chaos(simulator.Chaos{LostRequests: 1})
			_, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(sold[0], 2, ""))
			enginetest.Refused(t, err, refusal.CodeUnavailable, "") // pending: MH may have it
			late := enginetest.Late(b, 3)
			b.Correct(late[0].Code, 900)

			b.Engine.Opts().Gate = func(record.Point) error { return &refusal.Error{Code: code, Message: "no"} }
			if r := b.Correct(late[0].Code, 900); r.Total != "9.00" {
				t.Errorf("%s: a correction asked again: %s", code, r.Total)
			}
			_, correction := b.Engine.Correct(context.Background(), enginetest.CodeOf(late[1]), enginetest.Sale("", 900))
			_, invalidation := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(sold[1], 2, ""))
			for what, err := range map[string]error{"correction": correction, "invalidation": invalidation} {
				if code == refusal.CodeBoxReplaced {
					enginetest.Refused(t, err, code, "")
				} else if err != nil {
					t.Errorf("%s: %s: %v", code, what, err)
				}
			}
			time.Sleep(time.Hour)
			if a, c := b.Document(sold[0].Code), b.Document(late[0].Code); a.Estado != record.EstadoInvalidated ||
				c.Estado != record.EstadoProcessed {
				t.Errorf("%s: %s, %s", code, a.Estado, c.Estado)
			}
		})
	}
}
