package engine

import (
	"context"
	"strconv"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// MH's previous generation is a matter of dates: the same branch, a year earlier, does the same in it. It has no
// return.
func TestEarlier_EveryType(t *testing.T) {
	inBubbleFrom(t, time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC), func(b *box) {
		_, err := b.engine.Issue(context.Background(), b.originals("none").request("18", "none"))
		refused(t, err, refusal.CodeNotYet, "")
		if err := b.sim.Reset(); err != nil {
			t.Fatal(err)
		}
		everyType(b, earlier)
	})
}

// An outage covers the last day of a generation. Documents issued before stay as they were signed; the event, and
// documents issued afterwards, even against a document of the day before, are of the next generation.
func TestEarlier_OutageOverItsEnd(t *testing.T) {
	eve := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // 18:00 of 31 December in El Salvador
	inBubbleFrom(t, eve, func(b *box) {
		b.chaos(simulator.Chaos{})
		o, next := b.originals("first"), b.originals("second")
		list := b.offline(earlier, o, "old year")
		time.Sleep(14 * time.Hour)
		list = append(list, b.offline(dte2, next, "new year")...)
		time.Sleep(24 * time.Hour)
		b.crash()
		b.cable.set(plugged)
		time.Sleep(20 * time.Minute)
		b.forwarded(dte2, list)
		b.takenBack(dte2, append(list, next.voucher, next.invoice, o.voucher, o.invoice))
		b.audit()
	})
}

// A document of the previous generation that MH refuses under the next one is corrected in its own generation, with its
// own date.
func TestEarlier_Corrected(t *testing.T) {
	inBubbleFrom(t, time.Date(2026, 1, 1, 5, 30, 0, 0, time.UTC), func(b *box) {
		list := late(b, 2)
		for i, was := range list {
			if now := b.document(was.Code); now.Estado != record.EstadoRejected {
				t.Fatalf("%s is %s", was.Code, now.Estado)
			}
			b.correct(was.Code, 900+i)
		}
		time.Sleep(20 * time.Minute)
		for _, was := range list {
			now := b.document(was.Code)
			if now.Estado != record.EstadoProcessed || text(t, now, "identificacion", "version") != earlier["01"] ||
				text(t, now, "identificacion", "fecEmi") != "2025-12-31" {
				t.Errorf("%s %+v\n%s", now.Estado, now.Response, now.JSON)
			}
		}
		b.audit()
	})
}

// For a sale that names nobody, the applicant stands for the customer: the layout allows no null.
func TestEarlier_InvalidatedUnnamed(t *testing.T) {
	inBubbleFrom(t, time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC), func(b *box) {
		b.takenBack(earlier, []*record.View{issued(b.t, b.engine, invoice("", item(1, "1", "5.65")),
			record.EstadoProcessed)})
		b.audit()
	})
}

// An invalidation repeats the invoice's data of the customer, and omits an unknown mail address.
func TestEarlier_InvalidatedWithoutMail(t *testing.T) {
	inBubbleFrom(t, time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC), func(b *box) {
		for _, correo := range []dte.Value{dte.Null(), {}} {
			sold := invoice("", item(1, "1", "5.65"))
			customer := dte.Obj(member("nombre", dte.Str("Ana Morales")), member("tipoDocumento", dte.Str("13")),
				member("numDocumento", dte.Str("01234567-8")))
			if correo.Exists() {
				customer = customer.With("correo", correo)
			}
			sold.Facts = sold.Facts.With("receptor", customer)
			b.takenBack(earlier, []*record.View{issued(b.t, b.engine, sold, record.EstadoProcessed)})
		}
		b.audit()
	})
}

// MH accepts no withholding voucher of the previous generation in contingency (CAT-023): while MH does not answer, none
// is numbered. A voucher that was numbered when the silence began stays signed, in its normal form, and is sent when MH
// answers.
func TestContingency_NotForThisType(t *testing.T) {
	inBubbleFrom(t, time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC), func(b *box) {
		b.chaos(simulator.Chaos{})
		o := b.originals("before")
		b.cable.set(refusing)
		ask := func(key string) (*record.View, error) {
			return b.engine.Issue(context.Background(), o.request("07", key))
		}
		_, err := ask("first")
		refused(t, err, refusal.CodeUnavailable, "")
		_, err = ask("second")
		refused(t, err, refusal.CodeUnavailable, "")
		issued(t, b.engine, o.request("01", "beside"), record.EstadoContingency)
		time.Sleep(time.Hour)
		b.cable.set(plugged)
		time.Sleep(20 * time.Minute)
		for i, key := range []string{"first", "second"} {
			r, err := ask(key)
			if err != nil || r.Estado != record.EstadoProcessed || text(t, r, "identificacion", "tipoModelo") != "1" ||
				r.SequenceNumber != strconv.Itoa(i+1) {
				t.Errorf("%s: %v %+v", key, err, r)
			}
		}
		b.audit()
	})
}
