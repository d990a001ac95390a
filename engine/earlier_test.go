package engine_test

import (
	"cmp"
	"context"
	"strconv"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/plugins/plugintest"
)

// MH's previous generation is a matter of dates: the same branch, a year earlier, does the same in it. It has no
// return.
func TestEarlier_EveryType(t *testing.T) {
	enginetest.InBubbleFrom(t, time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC), func(b *enginetest.Box) {
		_, err := b.Engine.Issue(context.Background(), b.Originals("none").Request("18", "none"))
		enginetest.Refused(t, err, refusal.CodeNotYet, "")
		if err := b.Sim.Reset(); err != nil {
			t.Fatal(err)
		}
		everyType(b, earlier)
	})
}

// An outage covers the last day of a generation. Documents issued before stay as they were signed; the event, and
// documents issued afterwards, even against a document of the day before, are of the next generation.
func TestEarlier_OutageOverItsEnd(t *testing.T) {
	eve := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // 18:00 of 31 December in El Salvador
	enginetest.InBubbleFrom(t, eve, func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{})
		o, next := b.Originals("first"), b.Originals("second")
		list := offline(b, earlier, o, "old year")
		time.Sleep(14 * time.Hour)
		list = append(list, offline(b, dte2, next, "new year")...)
		time.Sleep(24 * time.Hour)
		b.Crash()
		b.Cable.Set(enginetest.Plugged)
		time.Sleep(20 * time.Minute)
		forwarded(b, dte2, list)
		takenBack(b, dte2, append(list, next.Voucher, next.Invoice, o.Voucher, o.Invoice))
		b.Audit()
	})
}

// A document of the previous generation that MH refuses under the next one is corrected in its own generation, with its
// own date.
func TestEarlier_Corrected(t *testing.T) {
	enginetest.InBubbleFrom(t, time.Date(2026, 1, 1, 5, 30, 0, 0, time.UTC), func(b *enginetest.Box) {
		list := enginetest.Late(b, 2)
		for i, was := range list {
			if now := b.Document(was.Code); now.Estado != record.EstadoRejected {
				t.Fatalf("%s is %s", was.Code, now.Estado)
			}
			b.Correct(was.Code, 900+i)
		}
		time.Sleep(20 * time.Minute)
		for _, was := range list {
			now := b.Document(was.Code)
			if now.Estado != record.EstadoProcessed ||
				enginetest.Text(t, now, "identificacion", "version") != earlier["01"] ||
				enginetest.Text(t, now, "identificacion", "fecEmi") != "2025-12-31" {
				t.Errorf("%s %+v\n%s", now.Estado, now.Response, now.JSON)
			}
		}
		b.Audit()
	})
}

// For a sale that names nobody, the applicant stands for the customer: the layout allows no null.
func TestEarlier_InvalidatedUnnamed(t *testing.T) {
	enginetest.InBubbleFrom(t, time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC), func(b *enginetest.Box) {
		takenBack(
			b,
			earlier,
			[]*record.View{enginetest.Issued(b.T, b.Engine, enginetest.Invoice("", enginetest.Item(1, "1", "5.65")),
				record.EstadoProcessed)},
		)
		b.Audit()
	})
}

// An invalidation repeats the invoice's data of the customer, and omits an unknown mail address.
func TestEarlier_InvalidatedWithoutMail(t *testing.T) {
	enginetest.InBubbleFrom(t, time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC), func(b *enginetest.Box) {
		for _, correo := range []dte.Value{dte.Null(), {}} {
			sold := enginetest.Invoice("", enginetest.Item(1, "1", "5.65"))
			customer := dte.Obj(
				enginetest.Member("nombre", dte.Str("Ana Morales")),
				enginetest.Member("tipoDocumento", dte.Str("13")),
				enginetest.Member("numDocumento", dte.Str("01234567-8")),
			)
			if correo.Exists() {
				customer = customer.With("correo", correo)
			}
			sold.Facts = sold.Facts.With("receptor", customer)
			takenBack(b, earlier, []*record.View{enginetest.Issued(b.T, b.Engine, sold, record.EstadoProcessed)})
		}
		b.Audit()
	})
}

// MH accepts no withholding voucher of the previous generation in contingency (CAT-023): while MH does not answer, none
// is numbered. A voucher that was numbered when the silence began stays signed, in its normal form, and is sent when MH
// answers.
func TestContingency_NotForThisType(t *testing.T) {
	enginetest.InBubbleFrom(t, time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC), func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{})
		o := b.Originals("before")
		b.Cable.Set(enginetest.Refusing)
		ask := func(key string) (*record.View, error) {
			return b.Engine.Issue(context.Background(), o.Request("07", key))
		}
		_, err := ask("first")
		enginetest.Refused(t, err, refusal.CodeUnavailable, "")
		_, err = ask("second")
		enginetest.Refused(t, err, refusal.CodeUnavailable, "")
		enginetest.Issued(t, b.Engine, o.Request("01", "beside"), record.EstadoContingency)
		time.Sleep(time.Hour)
		b.Cable.Set(enginetest.Plugged)
		time.Sleep(20 * time.Minute)
		for i, key := range []string{"first", "second"} {
			r, err := ask(key)
			if err != nil || r.Estado != record.EstadoProcessed ||
				enginetest.Text(t, r, "identificacion", "tipoModelo") != "1" ||
				r.SequenceNumber != strconv.Itoa(i+1) {
				t.Errorf("%s: %v %+v", key, err, r)
			}
		}
		b.Audit()
	})
}

// TestContingency_NotForThisTypeLater: a silence of MH outlasts the generation whose vouchers MH does not accept in
// contingency. The voucher stays signed, as on its own day, although the rules in memory no longer have its rule.
func TestContingency_NotForThisTypeLater(t *testing.T) {
	w := enginetest.NewWorldIn(t, "01", nil, nil)
	defer w.Close()
	w.Clock.Set(time.Date(2026, 12, 1, 4, 0, 0, 0, time.UTC))
	shipped := enginetest.Shipped(t)
	for _, name := range []string{"dte07/v1", "dte07/v2", "contingencia/v3", "contingencia/v4"} {
		shipped[name] = plugintest.Bundle(t, name)
	}
	s := w.Shelf(shipped)
	w.Wire.Sever()
	_, err := w.Engine.Issue(t.Context(), enginetest.Originals{}.Request("07", "voucher"))
	enginetest.Refused(t, err, refusal.CodeUnavailable, "")
	for range 3 {
		w.Clock.Set(w.Now().Add(24 * time.Hour))
		if err := cmp.Or(s.Refresh(t.Context()), w.Engine.Recover(t.Context(), w.Now())); err != nil {
			t.Fatal(err)
		}
	}
	if waiting, err := record.Due(w.Store, record.QueueSettle, record.Whenever, 2); err != nil || len(waiting) != 1 {
		t.Errorf("%d wait for their normal form to be sent: %v", len(waiting), err)
	}
}
