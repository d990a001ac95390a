package documents_test

import (
	"context"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
)

// TestAuthorisation: sealed, refused and undecided documents are counted from the records alone, with the same result
// by a tally that saw them and by a new one; documents older than two months do not count.
func TestAuthorisation(t *testing.T) { enginetest.InBubble(t, authorise) }

func authorise(b *enginetest.Box) {
	old := documents.NewTally(b.Engine.Documents(), 1, b.Now)
	look := func(want map[string]documents.Sealed) {
		b.T.Helper()
		for _, tally := range []*documents.Tally{old, documents.NewTally(b.Engine.Documents(), 1,
			b.Now)} {
			got, err := tally.Count(context.Background())
			if err != nil || got.Partial || got.Since != dte.Date(b.Now().AddDate(0, 0, 1-documents.TestDays)) ||
				len(got.Kinds) != len(documents.Requirements()) {
				b.T.Fatalf("%+v %v", got, err)
			}
			for i, k := range got.Kinds {
				expected := want[k.Kind]
				expected.Kind, expected.Wanted = documents.Requirements()[i].Kind,
					documents.Requirements()[i].Wanted
				if k != expected {
					b.T.Errorf("%+v, want %+v", k, expected)
				}
			}
		}
	}
	look(nil)
	b.Chaos(simulator.Chaos{})
	b.Issue(enginetest.Sale("sealed", 1130))
	b.Chaos(simulator.Chaos{Reject: 1})
	b.Issue(enginetest.Sale("refused", 1130))
	b.Chaos(simulator.Chaos{ServerErrors: 1_000, Only: "events"})
	alone := enginetest.Sale("late", 1130)
	alone.TestContingency = true
	late := b.Issue(alone)
	look(map[string]documents.Sealed{"01": {Sealed: 1, Waiting: 1, Refused: 1}})
	if ended, err := documents.NewTally(b.Engine.Documents(), 1, b.Now).Count(enginetest.EndingAfter(0)); err != nil ||
		!ended.Partial {
		b.T.Errorf("a count without time: %+v %v", ended, err)
	}
	time.Sleep(time.Minute)
	look(map[string]documents.Sealed{"01": {Sealed: 1, Waiting: 1, Refused: 1}, "contingencia": {Waiting: 1}})
	b.Chaos(simulator.Chaos{RejectEvents: 1}) // the event is made anew
	time.Sleep(30 * time.Minute)
	look(map[string]documents.Sealed{"01": {Sealed: 2, Refused: 1}, "contingencia": {Sealed: 1, Refused: 1}})

	code, err := dte.ParseCode(late.Code)
	if err != nil {
		b.T.Fatal(err)
	}
	eva := record.Person{Name: "Eva Díaz", DocumentType: "13", Document: "012345678"}
	if _, err := b.Engine.Invalidate(context.Background(), engine.InvalidationRequest{Code: code, Kind: 2,
		Reason: "Se rescinde", Responsible: eva, Applicant: eva, Caller: enginetest.TestCaller(1)}); err != nil {
		b.T.Fatal(err)
	}
	look(map[string]documents.Sealed{"01": {Sealed: 2, Refused: 1}, "contingencia": {Sealed: 1, Refused: 1},
		"invalidacion": {Sealed: 1}})
	b.Skew.Store(int64((documents.TestDays - 1) * 24 * time.Hour))
	look(map[string]documents.Sealed{"01": {Sealed: 2, Refused: 1}, "contingencia": {Sealed: 1, Refused: 1},
		"invalidacion": {Sealed: 1}})
	b.Skew.Add(int64(24 * time.Hour))
	look(nil)
}
