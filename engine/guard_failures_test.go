package engine

import (
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/rules/bundletest"
)

// One till whose sales make a rule fail does not undo a push, even with many kinds of sale; the previous bundle
// computes each of them. Failures of two tills undo it, and so do those of a till that sells alone.
func TestGuard_OneTillFails(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	w.points = 2
	s := w.shelf(shipped(t))
	// It refuses sales of seven lines, and fails in all others.
	bad := push(t, s, edition(t, "2.1.7", bundletest.Small(t, "dte01/v2", bundletest.Trap)))
	fails := func(point, lines int) {
		t.Helper()
		if r := w.at(point, 1130, lines, dte.Null()); r.Estado != record.EstadoProcessed || r.Rule.Version != "2.1.0" {
			t.Fatalf("%s by %+v", r.Estado, r.Rule)
		}
	}
	asked := func() bool { return len(s.Guard().Wanted()) > 0 || s.Book().Compiled(bad.Rule.Digest).Suspended() }
	other := sale("", 1130)
	line := other.Facts.Get("cuerpoDocumento").Index(0)
	other.Facts, other.Caller = other.Facts.With("cuerpoDocumento", dte.Arr(line, line, line, line, line, line, line)),
		testCaller(2)
	if _, err := w.engine.Issue(t.Context(), other); err == nil {
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
	s.Return(t.Context(), <-s.Guard().Wanted())
	if got := s.List().Return; got == nil || got.To.Version != "2.1.0" {
		t.Errorf("%+v", got)
	}
}
