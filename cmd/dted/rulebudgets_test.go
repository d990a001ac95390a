package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundletest"
)

// tried runs a backtest of the branch's documents from a day on, and returns its totals.
func (b *branch) tried(t *testing.T, from string, candidate []byte) *rulestore.BacktestTotals {
	t.Helper()
	status, answer := b.admin(http.MethodPost, "/admin/rules/backtest?to=2999-12-31&from="+from, candidate)
	lines := bytes.Split(bytes.TrimSpace(answer), []byte("\n"))
	var last struct{ Totals *rulestore.BacktestTotals }
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || status != http.StatusOK || last.Totals == nil {
		t.Fatalf("backtest: %d %.300s", status, lines[len(lines)-1])
	}
	return last.Totals
}

// begun lets a backtest of all documents run for a while, and hangs up.
func (b *branch) begun(t *testing.T, candidate []byte, long time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), long)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.ops+
		"/admin/rules/backtest?from=2000-01-01&to=2999-12-31", bytes.NewReader(candidate))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testAdmin)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// backtest: how many documents of ten lines one core computes again in a second, without the candidate's steps; and how
// much the tills are delayed.
func (b *bench) backtest(t *testing.T) {
	candidate := bundletest.Edition(t, "dte01/v2", "9.0.0")
	b.tried(t, "2999-01-01", candidate) // warm
	var rates []float64
	for range 5 {
		totals := b.tried(t, "2000-01-01", candidate)
		rates = append(rates, float64(totals.Documents)/totals.Seconds) // one goroutine works
		if totals.Results["identical"] != totals.Documents || totals.Documents < 5000 {
			t.Errorf("backtest: %+v", totals)
		}
	}
	slices.Sort(rates)
	b.row("backtest, documents of 10 lines a second of one core, best of five", rates[4], -10_000, "/s")

	s := b.sell16(0)
	defer s.stop()
	var ratios []float64
	pause(time.Second)
	for range 5 {
		pause(1500 * time.Millisecond) // until the previous backtest has noticed that nobody listens
		s.lap()
		pause(time.Second)
		steady := s.lap()
		b.begun(t, candidate, 3*time.Second)
		ratios = append(ratios, ratio(quantile(s.lap(), .99), quantile(steady, .99)))
	}
	s.stop()
	b.row("p99, 16 in flight, beside a backtest / without (median of rounds)", median(ratios), 1.5, "x")
}

// swaps: how much bundles that come every 100 ms, good and bad ones, delay the tills.
func (b *bench) swaps(t *testing.T) {
	s := b.sell16(0)
	defer s.stop()
	before := b.resident()
	r := b.swap(s, badAndGood(t), 7)
	s.stop()
	b.row("p99, 16 in flight, while bundles come / before (median of rounds)", median(r.ratios), 2, "x")
	fmt.Printf("    p50/p99 steady %v/%v, swapping %v/%v; resident %d, then %d MiB\n", quantile(r.steady, .5),
		quantile(r.steady, .99),
		quantile(r.swapped, .5), quantile(r.swapped, .99), before>>20, b.resident()>>20)
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// activations: one bundle with 100 golden cases at an idle branch; its module is compiled anew, or comes from the
// cache.
func activations(t *testing.T, row func(string, float64, float64, string)) {
	b := newBranch(t, everyRule...)
	b.reconfigure(filepath.Join(plugintest.Root(t), "var", "build", "cache"), "cache")
	b.start()
	defer b.stop()
	var cold, warm []float64
	activate := func(version string, changes ...bundletest.Change) float64 {
		data := bundletest.Edition(t, "dte01/v2", version, append(changes, bundletest.Cases(100))...)
		return timed(func() {
			if status, answer := b.admin(http.MethodPost, "/admin/rules?reason=test", data); status != http.StatusOK {
				t.Errorf("%d %s", status, answer)
			}
		}).Seconds()
	}
	for i := range 3 {
		cold = append(cold, activate(fmt.Sprintf("2.1.%d", 2*i+1), bundletest.Rebuilt(byte('A'+i))))
		warm = append(warm, activate(fmt.Sprintf("2.1.%d", 2*i+2), bundletest.Rebuilt(byte('A'+i)),
			bundletest.Recompiled(fmt.Sprint(i))))
	}
	row("activation of a bundle with 100 cases, without cache", median(cold), 3, "s")
	row("activation of a bundle with 100 cases, with cache", median(warm), 0.5, "s")
}
