package rulestore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundletest"
)

// A sale whose rule fails is computed by the previous rule only where that rule's own dates hold, or the branch was
// told to; else it is refused and spends no number. The record says which rule computed it, and a rule whose dates are
// over does not come back by itself.
func TestRuleFailed(t *testing.T) {
	for _, c := range []struct {
		name, until, policy string
		code                rune
		sold                bool
	}{
		{"the rule before holds", "", "", 't', true},
		{"its dates are over", "2026-11-24", "", 't', false},
		{"its dates are over, out of fuel", "2026-11-24", "", 'f', false},
		{"any was wanted", "2026-11-24", rulestore.Any, 't', true},
		{"none was wanted", "", rulestore.Refuse, 't', false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := enginetest.NewWorld(t)
			defer w.Close()
			w.Points = 2
			o := w.ShelfOptions()
			o.OnFailure = map[string]string{rulestore.FailureTrap: c.policy}
			s := rulestore.New(o)
			all := enginetest.Shipped(t)
			all["dte01/v2"] = bundletest.Edition(t, "dte01/v2", "2.1.0", bundletest.In("2026-01-01", c.until))
			if err := s.Load(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			w.Adopt(s)
			code := bundletest.Trap
			if c.code == 'f' {
				code = bundletest.Loop
			}
			if a := enginetest.Push(t, s, enginetest.Edition(t, "8.0.0", bundletest.Small(t, "dte01/v2", code), bundletest.In("2026-11-25",
				""))); a.State != rulestore.Coming {
				t.Fatalf("%+v", a)
			}
			w.Clock.Set(time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC))
			if err := s.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i := range 12 {
				req := enginetest.Sale("", 1130+i*100)
				req.Caller = enginetest.TestCaller(1 + i%2)
				r, err := w.Engine.Issue(context.Background(), req)
				failed := i + 1
				if c.sold && c.policy == "" {
					failed = min(failed, 3) // then the branch leaves the rule
				}
				if o := onList(s, "8.0.0").Outcomes; o == nil || *o != (dte.Outcomes{Failed: failed}) {
					t.Fatalf("after %d failures, outcomes %+v", failed, o)
				}
				if _, shown := metrictest.Values(t, s)["dte_rule_outcomes/01/document/accepted/2/8.0.0"]; shown {
					t.Error("MH has decided nothing, and dte_rule_outcomes is there") // a ratio of it would be 0/0
				}
				var refused *refusal.Error
				switch {
				case !c.sold && (!errors.As(err, &refused) || refused.Code != refusal.CodeRuleFailed ||
					!strings.Contains(refused.Message, "dte01 8.0.0")):
					t.Fatalf("it is sold: %t, %v", r != nil, err)
				case c.sold && (err != nil || r.Estado != record.EstadoProcessed || r.Rule.Version != "2.1.0"):
					t.Fatalf("%+v, %v", r, err)
				case c.sold && i == 0 && !slices.Contains(r.Warnings,
					"La regla dte01 8.0.0 falló; calculó la regla dte01 2.1.0"):
					t.Errorf("its observations are %q", r.Warnings)
				}
			}
			select {
			case back := <-s.Guard().Wanted():
				s.Return(t.Context(), back)
			default:
			}
			if got := s.List().Return; (got != nil) != c.sold {
				t.Errorf("a return: %+v", got)
			}
			if err := s.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, err := w.Engine.Issue(context.Background(), enginetest.Sale("", 5650))
			if c.sold && (err != nil || r.ControlNumber != "DTE-01-M001P001-000000000000007") || !c.sold && err == nil {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// soldFacts are the facts of a sale, with the box's own.
var soldFacts = plugintest.BaseFacts("01").Set(enginetest.Sale("", 1130).Facts.Members()...)

// TestRuleFailed_Yesterday: the dates of the rule before are compared with the day of the sale, not with today.
func TestRuleFailed_Yesterday(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	all := enginetest.Shipped(t)
	all["dte01/v2"] = bundletest.Edition(t, "dte01/v2", "2.1.0", bundletest.In("2026-01-01", "2026-11-24"))
	s := w.Shelf(all)
	a := enginetest.Push(t, s, enginetest.Edition(t, "8.0.0", bundletest.In("2026-11-25", "")))
	w.Clock.Set(time.Date(2026, 11, 25, 16, 0, 0, 0, time.UTC))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := s.Book().Compiled(a.Rule.Digest)
	for day, sold := range map[string]bool{"2026-11-24": true, "2026-11-25": false} {
		if _, _, _, err := s.RetryWithPrevious(t.Context(), failed, 1, day, soldFacts,
			schema.FillOptions{}, errors.New("a trap")); (err == nil) != sold {
			t.Errorf("a sale of %s: %v", day, err)
		}
	}
}

// TestRuleFailed_Both: the branch keeps a rule if the rule before fails at the same facts.
func TestRuleFailed_Both(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	w.Adopt(s)
	a := enginetest.Push(t, s, enginetest.Edition(t, "9.0.0"))
	failed := s.Book().Compiled(a.Rule.Digest)
	if a.State != rulestore.Live || failed == nil {
		t.Fatalf("%+v", a)
	}
	retry := func(facts dte.Value) (wanted int) {
		for i := range 2 * rulestore.AloneHarms {
			_, _, _, _ = s.RetryWithPrevious(t.Context(), failed, int64(1+i%2), "2026-11-21", facts, schema.FillOptions{},
				errors.New("a trap"))
		}
		return len(s.Guard().Wanted())
	}
	if n := retry(soldFacts.With("emisor", dte.Obj())); n != 0 {
		t.Errorf("%d returns are wanted to a rule that fails, too", n)
	}
	if n := retry(soldFacts); n != 1 {
		t.Errorf("%d returns are wanted to a rule that sells", n)
	}
}

// TestRuleFailed_Meanwhile: while the sale was computed, another bundle took over. It computes the sale if it has the
// layout of the rule that failed.
func TestRuleFailed_Meanwhile(t *testing.T) {
	for name, want := range map[string]string{"dte01/v2": "8.0.0", "dte01/v1": "2.1.0"} {
		w := enginetest.NewWorld(t)
		s := w.Shelf(enginetest.Shipped(t))
		a := enginetest.Push(t, s, enginetest.Edition(t, "2.1.1"))
		failed := s.Book().Compiled(a.Rule.Digest)
		if a := enginetest.Push(t, s, bundletest.Edition(t, name, "8.0.0", bundletest.In("2026-11-21",
			""))); a.State != rulestore.Live {
			t.Fatalf("%+v", a)
		}
		r, _, _, err := s.RetryWithPrevious(t.Context(), failed, 1, "2026-11-21", soldFacts,
			schema.FillOptions{}, errors.New("a trap"))
		if err != nil || r.Ref.Version != want {
			t.Errorf("%s took over: %s computes the sale, want %s: %v", name, r.Ref.Version, want, err)
		}
		// An event whose bundle fails is refused, and counted.
		enginetest.Refused(t, s.EventFailed(new(rulestore.Event), errors.New("a contradiction")),
			refusal.CodeRuleFailed, "")
		if n := metrictest.Values(t, s)["dte_rule_refused_sales_total"]; n != 1 ||
			s.Guard().Outcomes("", w.Now()).Failed != 1 {
			t.Errorf("%v failures are counted", n)
		}
		w.Close()
	}
}
