package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"dtegate/engine/contingency"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
	"dtegate/storage"
)

// The law's times and sizes are data of the contingency bundle in force: another bundle has other deadlines, without a
// change of the appliance.
func TestContingency_OtherLaw(t *testing.T) {
	data := bundletest.Edition(t, "contingencia/v4", "9.0.0", bundletest.Param("eventHours", "12"),
		bundletest.Param("documentHours", "36"),
		bundletest.Param("eventDocuments", "3"), bundletest.Param("lotDocuments", "2"))
	other, err := bundle.Keys{Pinned: []bundle.Key{plugintest.Key()}}.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	was := enginetest.Common(t).Book
	book := bookWith(t, was, &rules.Rule{Bundle: other})
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Close()
		b.Book = book
		b.Start()
		b.Cable.Set(enginetest.Refusing)
		var records []*record.View
		for i := range 7 {
			records = append(records, b.Issue(enginetest.Sale(fmt.Sprint(i), 100+i)))
		}
		b.Cable.Set(enginetest.Plugged)
		for b.Engine.Contingency().Current() != nil {
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Second) // what is owed is counted anew
		if left := time.Until(b.Engine.CountBacklog().EventDeadline).Round(time.Minute); left != 12*time.Hour {
			b.T.Errorf("the event is due in %v", left)
		}
		time.Sleep(10 * time.Minute)
		for _, r := range records {
			if now := b.Document(r.Code); now.Estado != record.EstadoProcessed {
				b.T.Errorf("%s is %s", r.Code, now.Estado)
			}
		}
		if got := b.Sim.Received(); got.Documents != 7 || got.Events != 3 || got.Lots < 3 {
			b.T.Errorf("MH received %+v, in events of at most 3 and lots of at most 2", got)
		}
		entry, err := b.Store.Get(storage.Code(enginetest.CodeOf(records[0])))
		if err != nil {
			b.T.Fatal(err)
		}
		h, err := record.DecodeHead(entry)
		if err != nil {
			b.T.Fatal(err)
		}
		if entry, err = b.Store.Get(storage.Code(enginetest.CodeOf(&record.View{Code: h.Event}))); err != nil {
			b.T.Fatal(err)
		}
		event, err := contingency.DecodeEvent(entry)
		if err != nil {
			b.T.Fatal(err)
		}
		if took := h.Limit.Sub(event.Sealed); took != 36*time.Hour {
			b.T.Errorf("its documents were due %v after the event's seal", took)
		}
		b.Audit()
	})
}

// bookWith returns a book of the same rules and further ones.
func bookWith(t *testing.T, was *rulestore.Book, more ...*rules.Rule) *rulestore.Book {
	t.Helper()
	book, err := rulestore.NewBook(slices.Concat(was.Rules(), more), nil, was.Catalogues(), nil, was)
	if err != nil {
		t.Fatal(err)
	}
	return book
}
