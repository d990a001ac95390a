package engine

import (
	"context"
	"testing"
	"time"

	"dtegate/engine/authority/simulator"
	"dtegate/engine/fair"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/register"
	"dtegate/storage"
)

// A store that an earlier version harmed names a form that was never signed. The check of the store names the document; the
// appliance mends the record when it reads it, and from then on it is printed, mailed and credited as any other.
func TestForms_Mended(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		b.chaos(simulator.Chaos{})
		b.cable.set(refusing)
		harmed := b.issue(sale("first", 100)) // has both forms
		only := b.issue(voucher("k", item(1, "1", "100")))
		time.Sleep(10 * time.Minute)
		b.cable.set(plugged)
		time.Sleep(30 * time.Minute)
		for _, r := range []*record.View{harmed, only} {
			entry, err := b.store.Get(storage.Code(codeOf(r)))
			if err != nil {
				b.t.Fatal(err)
			}
			h, err := record.DecodeHead(entry)
			if err != nil {
				b.t.Fatal(err)
			}
			if h.Form = record.FormNormal; r == harmed {
				h.Form = record.FormCorrection + "7"
			}
			data, _ := h.Encode()
			if _, err := b.store.Advance(context.Background(), entry.Code, entry.State, storage.Change{To: entry.State, Head: data, Due: entry.Due}); err != nil {
				b.t.Fatal(err)
			}
		}
		faults := func() (list []register.FormFault) {
			if err := register.CheckForms(context.Background(), b.store, func(f register.FormFault) error { list = append(list, f); return nil }); err != nil {
				t.Error(err)
			}
			return list
		}
		if list := faults(); len(list) != 2 || list[1].Code != only.Code || len(list[1].Signed) != 1 || list[1].Control != only.ControlNumber {
			t.Fatalf("the check finds %v", list)
		}
		// Read inside a sale against it, where its record is locked.
		if r := b.issue(noteOn("05", "note", only, item(1, "1", "10"))); r.Estado != record.EstadoProcessed {
			t.Errorf("a note on it is %s", r.Estado)
		}
		for _, was := range []*record.View{harmed, only} {
			r := b.document(was.Code)
			if _, err := b.engine.outbox.Print(context.Background(), fair.House, outbox.Printable(r), pdf.Letter, false); err != nil || r.Estado != record.EstadoProcessed {
				t.Errorf("%s %v", r.Estado, err)
			}
		}
		if list := faults(); len(list) != 0 {
			t.Errorf("after reading, the check finds %v", list)
		}
		b.crash()
		time.Sleep(time.Hour)
		b.audit()
	})
}
