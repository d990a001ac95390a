package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundletest"
	"dtegate/storage"
)

// backtest returns the output of a backtest over the tests' month.
func backtest(t *testing.T, s *rulestore.Store, data []byte) (*rulestore.BacktestTotals, []*rulestore.Comparison) {
	t.Helper()
	var list []*rulestore.Comparison
	totals, a, err := s.Backtest(t.Context(), data, rulestore.DocumentPeriod{From: "2026-11-01", To: "2026-11-30"},
		rulestore.BacktestReport{
			Differs:  func(c *rulestore.Comparison) error { list = append(list, c); return nil },
			Progress: func(int, string) error { return nil }})
	if err != nil || totals == nil {
		t.Fatalf("%+v, %v", a, err)
	}
	return totals, list
}

func TestShelf_Backtest(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	for i := range 3 {
		if _, err := w.Engine.Issue(t.Context(), enginetest.Sale("", 1130*(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	deferred := enginetest.Sale("", 1130)
	deferred.TestContingency = true
	if _, err := w.Engine.Issue(t.Context(), deferred); err != nil {
		t.Fatal(err)
	}
	totals, list := backtest(t, s, enginetest.Edition(t, "2.1.0"))
	if totals.Documents != 4 || totals.Results[rulestore.MadeSame] != 4 || len(list) != 0 {
		t.Errorf("with the rule itself: %+v %+v", totals, list)
	}
	// 15 % of VAT inside the price: 11.30 has 1.47 and not 1.30 of it.
	totals, list = backtest(
		t,
		s,
		enginetest.Edition(t, "9.0.0", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals),
	)
	want := []rulestore.Difference{{Path: "cuerpoDocumento[0].ivaItem", Old: "1.3", New: "1.47391304"},
		{Path: "resumen.totalIva", Old: "1.3", New: "1.47"}}
	if totals.Results[rulestore.MadeOther] != 4 || len(list) != 4 || !slices.Equal(list[0].Differences, want) {
		t.Errorf("%+v %+v", totals, list)
	}
	if f := totals.Fields["resumen.totalIva"]; f == nil || f.Documents != 4 || f.Amounts != 4 || f.Old != "9.1" ||
		f.New != "10.31" {
		t.Errorf("totals of totalIva: %+v", f)
	}
	if totals, list = backtest(t, s, enginetest.Edition(t, "9.0.0", bundletest.Small(t, "dte01/v2",
		bundletest.Trap))); totals.Results[rulestore.MadeFailed] != 4 || list[0].Error == "" {
		t.Errorf("with a rule that traps: %+v", totals)
	}
	if live := s.Book().Active("00", "2026-11-21")["01"].Version; live != "2.1.0" {
		t.Errorf("%s is live after the backtests", live)
	}
	if _, a, err := s.Backtest(t.Context(), []byte("PK"), rulestore.DocumentPeriod{},
		rulestore.BacktestReport{}); err != nil || a.Refused != "signature" {
		t.Errorf("%+v, %v", a, err)
	}
	// The caller has hung up.
	gone := errors.New("gone")
	_, _, err := s.Backtest(
		t.Context(),
		enginetest.Edition(t, "9.0.0", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals),
		rulestore.DocumentPeriod{From: "2026-11-01", To: "2026-11-30"},
		rulestore.BacktestReport{Differs: func(*rulestore.Comparison) error { return gone }},
	)
	if !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

// TestShelf_BacktestLost: neither a document of which the store has lost a piece nor facts that name a member twice end a
// backtest: the branch could take no rule for a week.
func TestShelf_BacktestLost(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	twice := enginetest.Sale("", 1130)
	twice.Facts = dte.Obj(append(slices.Clone(twice.Facts.Members()), twice.Facts.Members()[0])...)
	sold, err := w.Engine.Issue(t.Context(), twice)
	if err != nil {
		t.Fatal(err)
	}
	lost, err := w.Store.Get(storage.Code(enginetest.CodeOf(sold)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Store.Append(t.Context(), storage.Keys{Series: "00/x"}, storage.Draft{Code: storage.Code{1},
		State: lost.State, Head: lost.Head, Days: lost.Days}); err != nil {
		t.Fatal(err)
	}
	totals, list := backtest(t, s, enginetest.Edition(t, "2.1.0"))
	if totals.Results[rulestore.MadeSame] != 1 || totals.Results[rulestore.MadeNothing] != 1 || len(list) != 1 ||
		!strings.Contains(list[0].Error, "lost a piece") {
		t.Errorf("%+v %+v", totals, list)
	}
	if c, err := s.Replay(t.Context(), dte.Code{1}); err != nil || c.Result != rulestore.MadeNothing {
		t.Errorf("%+v, %v", c, err)
	}
}

// A document that was issued online, deferred, and is stored in both forms is computed again from its facts.
func TestShelf_Replay(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	online, err := w.Engine.Issue(t.Context(), enginetest.Sale("", 1130))
	if err != nil {
		t.Fatal(err)
	}
	w.Wire.Sever()
	both, err := w.Engine.Issue(t.Context(), enginetest.Sale("", 2260))
	if err != nil || both.Estado != record.EstadoContingency {
		t.Fatalf("%+v, %v", both, err)
	}
	during, err := w.Engine.Issue(t.Context(), enginetest.Sale("", 3390))
	if err != nil || during.Estado != record.EstadoContingency {
		t.Fatalf("%+v, %v", during, err)
	}
	corrected := corrected(w, t, during)
	enginetest.Push(t, s, enginetest.Edition(t, "2.1.1"))
	for name, r := range map[string]*record.View{"online": online, "deferred": both, "corrected": corrected} {
		if c, err := s.Replay(t.Context(), enginetest.CodeOf(r)); err != nil || c.Result != rulestore.MadeSame ||
			c.Rule.Version != "2.1.0" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	n := 0
	err = s.ReplayPeriod(t.Context(), rulestore.DocumentPeriod{From: "2026-11-21", To: "2026-11-21"},
		func(c *rulestore.Comparison) error { n++; return nil })
	if err != nil || n != 3 {
		t.Errorf("%d documents, %v", n, err)
	}
	if _, err := s.Replay(t.Context(), dte.Code{1}); err == nil {
		t.Error("replayed nothing")
	}
}

// corrected changes a document to its state after MH's refusal and the correction.
func corrected(w *enginetest.World, t *testing.T, r *record.View) *record.View {
	t.Helper()
	entry, err := w.Store.Get(storage.Code(enginetest.CodeOf(r)))
	if err != nil {
		t.Fatal(err)
	}
	h, err := record.DecodeHead(entry)
	if err == nil {
		entry, err = w.Engine.Move(t.Context(), entry, storage.Change{To: record.Reported}, h)
	}
	if err == nil {
		entry, _, err = w.Engine.CorrectEntry(t.Context(), entry, h, enginetest.Sale("", 4520), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err = w.Engine.View(entry)
	if err != nil || r.Total != "45.20" {
		t.Fatalf("%+v, %v", r, err)
	}
	return r
}

func TestShelf_Shadow(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	if a, err := s.Shadow(t.Context(), enginetest.Edition(t, "9.0.0", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals), 2,
		time.Hour); err != nil ||
		a.Refused != "" {
		t.Fatalf("%+v, %v", a, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	for i := range 3 {
		if r, err := w.Engine.Issue(t.Context(), enginetest.Sale("", 1130)); err != nil || r.Rule.Version != "2.1.0" {
			t.Fatalf("sale %d: %+v, %v", i, r, err)
		}
		for i < 2 && s.Shadowed().Count <= i {
			<-time.After(time.Millisecond)
		}
		if running := s.Shadowed().Running; running != (i == 0) {
			t.Errorf("after %d sales of 2: running is %v", i+1, running)
		}
	}
	stop()
	<-done
	got := s.Shadowed()
	if got.Running || got.Count != 2 || got.Results[rulestore.MadeOther] != 2 || len(got.Differing) != 2 ||
		got.Differing[0].Differences[1].New != "1.47" {
		t.Errorf("%+v", got)
	}
}

// BenchmarkBacktest measures how many documents of ten lines one core computes again in a second.
func BenchmarkBacktest(b *testing.B) {
	w := enginetest.NewWorld(b)
	s := w.Shelf(enginetest.Shipped(b))
	w.Wire.Sever()
	lines := make([]dte.Value, 10)
	for i := range lines {
		lines[i] = enginetest.Item(int64(i+1), fmt.Sprint(i+1), "6.95")
	}
	n := 2000
	if os.Getenv("DTE_SOAK") != "" {
		n = 20_000
	}
	for range n {
		if _, err := w.Engine.Issue(b.Context(), enginetest.Invoice("", lines...)); err != nil {
			b.Fatal(err)
		}
	}
	candidate := enginetest.Edition(b, "9.0.0")
	documents, took := 0, 0.0
	for b.Loop() {
		t, _, err := s.Backtest(b.Context(), candidate, rulestore.DocumentPeriod{From: "2026-11-01", To: "2026-11-30"},
			rulestore.BacktestReport{
				Differs: func(c *rulestore.Comparison) error { return errors.New(c.Result) }, Progress: func(int,
					string) error {
					return nil
				}})
		if err != nil {
			b.Fatal(err)
		}
		documents, took = documents+t.Documents, took+t.Seconds
	}
	b.ReportMetric(float64(documents)/took, "documents/s")
}
