//go:build !race

package engine_test

import (
	"runtime"
	"testing"

	"dtegate/engine/enginetest"
)

// TestIssue_Allocations holds how many allocations a sale of ten lines makes, with those of the store and of goroutines
// beside it. If a change needs more, change the limit.
func TestIssue_Allocations(t *testing.T) {
	const most, rounds, sales = 118, 4, 50 // 108 to 110 on 2026-11-30
	w := enginetest.NewWorld(t)
	defer w.Close()
	req := manyLined("", 10)
	req.TestContingency = true
	least := ^uint64(0)
	for range rounds { // the first sales load the rule
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range sales {
			if _, err := w.Engine.Issue(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		least = min(least, (after.Mallocs-before.Mallocs)/sales)
	}
	t.Logf("%d allocations", least)
	if least > most {
		t.Errorf("a sale of ten lines makes %d allocations, want at most %d", least, most)
	}
}
