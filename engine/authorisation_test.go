package engine

import (
	"context"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/record"
)

// TestAuthorisation: sealed, refused and undecided documents are counted from the records alone, with the same result
// by a tally that saw them and by a new one; documents older than two months do not count.
func TestAuthorisation(t *testing.T) { inBubble(t, authorise) }

func authorise(b *box) {
	old := documents.NewTally(b.engine.Documents(), 1, b.now)
	look := func(want map[string]documents.Sealed) {
		b.t.Helper()
		for _, tally := range []*documents.Tally{old, documents.NewTally(b.engine.Documents(), 1,
			b.now)} {
			got, err := tally.Count(context.Background())
			if err != nil || got.Partial || got.Since != dte.Date(b.now().AddDate(0, 0, 1-documents.TestDays)) ||
				len(got.Kinds) != len(documents.Requirements()) {
				b.t.Fatalf("%+v %v", got, err)
			}
			for i, k := range got.Kinds {
				expected := want[k.Kind]
				expected.Kind, expected.Wanted = documents.Requirements()[i].Kind,
					documents.Requirements()[i].Wanted
				if k != expected {
					b.t.Errorf("%+v, want %+v", k, expected)
				}
			}
		}
	}
	look(nil)
	b.chaos(simulator.Chaos{})
	b.issue(sale("sealed", 1130))
	b.chaos(simulator.Chaos{Reject: 1})
	b.issue(sale("refused", 1130))
	b.chaos(simulator.Chaos{ServerErrors: 1_000, Only: "events"})
	alone := sale("late", 1130)
	alone.TestContingency = true
	late := b.issue(alone)
	look(map[string]documents.Sealed{"01": {Sealed: 1, Waiting: 1, Refused: 1}})
	time.Sleep(time.Minute)
	look(map[string]documents.Sealed{"01": {Sealed: 1, Waiting: 1, Refused: 1}, "contingencia": {Waiting: 1}})
	b.chaos(simulator.Chaos{RejectEvents: 1}) // the event is made anew
	time.Sleep(30 * time.Minute)
	look(map[string]documents.Sealed{"01": {Sealed: 2, Refused: 1}, "contingencia": {Sealed: 1, Refused: 1}})

	code, err := dte.ParseCode(late.Code)
	if err != nil {
		b.t.Fatal(err)
	}
	eva := record.Person{Name: "Eva Díaz", DocumentType: "13", Document: "012345678"}
	if _, err := b.engine.Invalidate(context.Background(), InvalidationRequest{Code: code, Kind: 2,
		Reason: "Se rescinde", Responsible: eva, Applicant: eva, Caller: testCaller(1)}); err != nil {
		b.t.Fatal(err)
	}
	look(map[string]documents.Sealed{"01": {Sealed: 2, Refused: 1}, "contingencia": {Sealed: 1, Refused: 1},
		"invalidacion": {Sealed: 1}})
	b.skew.Store(int64((documents.TestDays - 1) * 24 * time.Hour))
	look(map[string]documents.Sealed{"01": {Sealed: 2, Refused: 1}, "contingencia": {Sealed: 1, Refused: 1},
		"invalidacion": {Sealed: 1}})
	b.skew.Add(int64(24 * time.Hour))
	look(nil)
}
