package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/authority"
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
		bundletest.Param("documentHours", "36"), bundletest.Param("correctionHours", "6"),
		bundletest.Param("technicalReportHours", "30"), bundletest.Param("eventDocuments", "3"), bundletest.Param("lotDocuments", "2"))
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
		if within := b.Engine.Contingency().CorrectWithin(); within != 6*time.Hour {
			b.T.Errorf("a refusal may be corrected within %v", within)
		}
		if r, err := b.Engine.Contingency().TechnicalReport(t.Context()); err != nil ||
			r.NeededFrom.Sub(r.Began) != 30*time.Hour {
			b.T.Errorf("a report is needed from %+v, %v", r, err)
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

// TestLastDay: the window of the event's bundle, in months or in business days, replaces the type's own, and only for
// the types that the bundle names.
func TestLastDay(t *testing.T) {
	enginetest.NewWorld(t).Close() // the types are known from its rules on
	last := func(document string, sealed string, params ...[2]string) string {
		data := bundletest.Edition(t, "invalidacion/v3", "9.0.0", func(_ map[string][]byte, m *bundle.Manifest) {
			m.Params = nil
			for _, p := range params {
				m.Params = append(m.Params, bundle.Param{Name: p[0], Value: p[1], Source: "a later law"})
			}
		})
		b, err := bundle.Keys{Pinned: []bundle.Key{plugintest.Key()}}.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		event, err := rulestore.CompileEvent(&rules.Rule{Bundle: b}, enginetest.Common(t).Book.Catalogues())
		if err != nil {
			t.Fatal(err)
		}
		return engine.LastDay(event, &record.Head{Document: document,
			Response: &authority.Response{FhProcesamiento: sealed}})
	}
	const evening = "30/11/2026 23:30:00"
	for _, c := range []struct {
		document string
		params   [][2]string
		want     string
	}{
		{"01", nil, "2027-02-28"},
		{"01", [][2]string{{"windowMonths01", "1"}}, "2026-12-30"},
		{"01", [][2]string{{"windowMonths01", "6"}}, "2027-05-30"},
		{"01", [][2]string{{"windowBusinessDay01", "3"}}, "2026-12-03"},
		{"01", [][2]string{{"windowMonths03", "1"}, {"windowBusinessDay05", "2"}}, "2027-02-28"},
		{"03", nil, "2026-12-14"},
		{"03", [][2]string{{"windowBusinessDay03", "1"}}, "2026-12-01"},
		{"03", [][2]string{{"windowMonths03", "2"}}, "2027-01-30"},
		{"99", nil, "2026-11-29"},
	} {
		if got := last(c.document, evening, c.params...); got != c.want {
			t.Errorf("%s with %v: %s, want %s", c.document, c.params, got, c.want)
		}
	}
}
