package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/plugins/plugintest"
)

// TestIssue_Undeferred: of a type that MH does not take in contingency, nothing is issued while MH is away. A document
// whose answer is lost stays as it is, without a write at each repeated request, and is settled when MH is back.
func TestIssue_Undeferred(t *testing.T) {
	rule := plugintest.Rule(t, "dte15/v2", "compiler")
	book := bookWith(t, enginetest.Common(t).Book, rule)
	var golden struct{ Facts json.RawMessage }
	if err := json.Unmarshal(rule.Bundle.Parts["cases/money.json"], &golden); err != nil {
		t.Fatal(err)
	}
	facts, err := dte.Parse(golden.Facts)
	if err != nil {
		t.Fatal(err)
	}
	gift := func(key string) engine.Request {
		var members []dte.Member
		for _, m := range facts.Members() {
			if m.Name != "emisor" && m.Name != "identificacion" {
				members = append(members, m)
			}
		}
		return enginetest.Request("15", key, members...)
	}
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Close()
		b.Book = book
		b.Start()
		tried := gift("tried") // a test request is no failure of the rule
		tried.TestContingency = true
		if faults := b.Engine.Check(context.Background(), tried); len(faults) > 0 ||
			metrictest.Values(t, b.Engine.Shelf())["dte_rule_refused_sales_total"] != 0 {
			t.Errorf("%+v", faults)
		}
		b.Cable.Set(enginetest.Refusing)
		b.Issue(enginetest.Sale("away", 100))
		_, err := b.Engine.Issue(context.Background(), gift("refused"))
		enginetest.Refused(t, err, refusal.CodeUnavailable, "")
		b.Cable.Set(enginetest.Plugged)
		for b.Engine.Contingency().Current() != nil {
			time.Sleep(time.Second)
		}
		if last, err := b.Store.LastNumber("00/15/M001/P001/2026"); err != nil || last != 0 {
			t.Errorf("number %d is spent: %v", last, err)
		}
		b.Chaos(simulator.Chaos{LostAnswers: 1})
		b.At(func(point string) {
			if point == "after /fesv/recepciondte" {
				b.At(nil)
				b.Cable.Set(enginetest.Refusing)
			}
		})
		_, err = b.Engine.Issue(context.Background(), gift("lost"))
		enginetest.Refused(t, err, refusal.CodeUnavailable, "")
		code, _, err := b.Store.Lookup(record.IdempotencyKey(1, "lost"))
		if err != nil {
			t.Fatal(err)
		}
		before, err := b.Store.Get(code)
		if err != nil || before.State != record.Signed {
			t.Fatalf("%+v, %v", before, err)
		}
		for range 50 {
			time.Sleep(time.Second)
			_, err = b.Engine.Issue(context.Background(), gift("lost"))
			enginetest.Refused(t, err, refusal.CodeUnavailable, "")
		}
		now, err := b.Store.Get(code)
		if err != nil || now.State != record.Signed || now.Revision > before.Revision+1 {
			t.Errorf("%+v, before %+v: %v", now, before, err)
		}
		b.Cable.Set(enginetest.Plugged)
		time.Sleep(time.Hour)
		if r := b.Document(dte.Code(code).String()); r.Estado != record.EstadoProcessed {
			t.Errorf("%s", r.Estado)
		}
		b.Audit()
	})
}
