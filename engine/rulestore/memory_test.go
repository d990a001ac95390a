package rulestore_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"dtegate/engine/enginetest"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundletest"
)

// Swap after swap leaves nothing behind but its record: the modules that were live are closed, and memory does not
// grow. DTE_SOAK makes a thousand swaps.
func TestShelf_ManySwaps(t *testing.T) {
	swaps := 40
	if os.Getenv("DTE_SOAK") != "" {
		swaps = 1000
	}
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	small := bundletest.Small(t, "dte01/v2", bundletest.Trap)
	swap := func(i int) {
		a := enginetest.Push(
			t,
			s,
			enginetest.Edition(t, fmt.Sprintf("2.2.%d", i), small, bundletest.Recompiled(fmt.Sprint(i))),
		)
		if a.State != rulestore.Live {
			t.Fatalf("%+v", a)
		}
	}
	for i := range 20 { // warm
		swap(i)
	}
	before, modules := enginetest.Heap(), w.Modules(t)
	for i := range swaps {
		swap(20 + i)
	}
	for i := range 4 { // what is only tried is not held either
		data := enginetest.Edition(t, "2.3.0", small, bundletest.Recompiled(fmt.Sprint("dry", i)))
		a, err := s.Activate(t.Context(), data, rulestore.Order{Who: "test", Dry: true, FewerCases: true})
		if err != nil || a.Refused != "" || a.State != "" {
			t.Fatalf("%+v %v", a, err)
		}
	}
	// A record is some 40 KB: the bundle, in a store that is in memory here. The garbage collector finds modules that
	// nobody holds any more; then they are closed.
	most := int64(swaps) * 80 << 10
	for deadline := time.Now().Add(5 * time.Second); ; {
		grown, held := int64(enginetest.Heap())-int64(before), w.Modules(t)
		if grown <= most && held <= modules+2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the heap grew by %d KiB over %d swaps; %d compiled modules are held, %d before", grown>>10, swaps,
				held, modules)
		}
	}
}
