package rulestore_test

import (
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundletest"
)

// One till whose sales make a rule fail does not undo a push, even with many kinds of sale; the previous bundle
// computes each of them. Failures of two tills undo it, and so do those of a till that sells alone. An operator's order
// back to the bundle forgives it what it did before.
func TestGuard_OneTillFails(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Points = 2
	s := w.Shelf(enginetest.Shipped(t))
	// It refuses sales of seven lines, and fails in all others.
	bad := enginetest.Push(t, s, enginetest.Edition(t, "2.1.7", bundletest.Small(t, "dte01/v2", bundletest.Trap)))
	fails := func(point, lines int) {
		t.Helper()
		if r := at(w, point, 1130, lines, dte.Null()); r.Estado != record.EstadoProcessed || r.Rule.Version != "2.1.0" {
			t.Fatalf("%s by %+v", r.Estado, r.Rule)
		}
	}
	asked := func() bool { return len(s.Guard().Wanted()) > 0 || s.Book().Compiled(bad.Rule.Digest).Suspended() }
	other := enginetest.Sale("", 1130)
	line := other.Facts.Get("cuerpoDocumento").Index(0)
	other.Facts, other.Caller = other.Facts.With("cuerpoDocumento", dte.Arr(line, line, line, line, line, line, line)),
		enginetest.TestCaller(2)
	if _, err := w.Engine.Issue(t.Context(), other); err == nil {
		t.Fatal("a sale of seven lines is not refused")
	}
	for i := range 30 {
		fails(1, 1+i%5)
	}
	if asked() {
		t.Fatal("one till made the branch return")
	}
	fails(2, 1)
	if !asked() {
		t.Error("two tills' failures do not make the branch return")
	}
	// A newer bundle is pushed before the return is made. The operator orders the branch back: the order counts.
	next := enginetest.Push(t, s, enginetest.Edition(t, "2.1.8", bundletest.Small(t, "dte01/v2", bundletest.Trap)))
	s.Return(t.Context(), <-s.Guard().Wanted())
	if got := s.List().Return; next.State != rulestore.Live || got != nil {
		t.Fatalf("%+v, %+v", next, got)
	}
	if _, err := s.Rollback(t.Context(), rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.7"},
		rulestore.Order{Reason: "2.1.8 is worse"}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Book().Pick("01", "00", "2026-11-21"); err != nil || r.Ref != bad.Rule || asked() {
		t.Fatalf("after the order %+v computes, suspended %v: %v", r.Ref, asked(), err)
	}
	for i := range 4 {
		fails(1+i%2, 1+i%3)
	}
	if !asked() {
		t.Fatal("its failures after the order do not make the branch return")
	}
	s.Return(t.Context(), <-s.Guard().Wanted())
	if got := s.List().Return; got == nil || got.To.Version != "2.1.0" {
		t.Errorf("%+v", got)
	}
}
