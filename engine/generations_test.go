package engine_test

import (
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
)

// In production MH switches to its next generation at midnight of 1 December 2026: the same sale, a minute before and a
// minute after, is issued in one or the other by the dates of the bundles alone, and MH accepts both.
func TestIssue_GenerationByDate(t *testing.T) {
	w := enginetest.NewWorldIn(t, "01", nil, nil)
	defer w.Close()
	w.Clock.Set(time.Date(2026, 12, 1, 5, 59, 0, 0, time.UTC))
	purchase := func() engine.Request {
		return enginetest.Request(
			"14",
			"",
			enginetest.Member("receptor", enginetest.Taxpayer),
			enginetest.Member("applyrent", dte.Bool(false)),
			enginetest.Member("cuerpoDocumento", dte.Arr(enginetest.Item(1, "1", "5"))),
			enginetest.Cash(),
		)
	}
	for _, step := range []struct {
		day      string
		versions [3]string
	}{{"2026-11-30", [3]string{"1", "3", "1"}}, {"2026-12-01", [3]string{"2", "4", "2"}}} {
		for i, req := range []engine.Request{enginetest.Invoice("", enginetest.Item(1, "1", "5")), enginetest.Voucher("", enginetest.Item(1, "1", "5")), purchase()} {
			r, err := w.Engine.Issue(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := w.Sim.Document(r.Code)
			if got := enginetest.Text(t, r, "identificacion", "version"); got != step.versions[i] || enginetest.Text(t, r, "identificacion",
				"fecEmi") != step.day ||
				!a.Accepted {
				t.Errorf("%s on %s is version %s, MH accepted it: %v", req.Document, step.day, got, a.Accepted)
			}
		}
		w.Clock.Set(w.Now().Add(2 * time.Minute))
		if err := w.Engine.Contingency().Check(t.Context(), w.Now()); err != nil { // MH's clock was set too
			t.Fatal(err)
		}
	}
}
