package rulestore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/engine/enginetest"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundletest"
	"dtegate/storage/disktest"
)

// TestShelf_CrashEverywhere crashes at every write of a first start, two activations and a rollback between them. The
// branch restarts with the last answered step or the one under way, whole, and never below the floor. DTE_SOAK loses the
// unsynced data, half of it and nothing at each write, the suite one of the three, by turns.
func TestShelf_CrashEverywhere(t *testing.T) {
	small := bundletest.Small(t, "dte01/v2", bundletest.Trap)
	first := map[string][]byte{
		"catalogues": plugintest.Bundle(t, "catalogues"),
		"dte01":      enginetest.Edition(t, "2.1.0", small),
	}
	second, third := enginetest.Edition(t, "2.1.1", small), enginetest.Edition(t, "2.1.2", small)
	// What is live and what the floor is after each step; after a crash, of the last answered step or of the next.
	after := []struct{ live, floor string }{{"2.1.0", "2.1.0"}, {"2.1.1", "2.1.1"}, {"2.1.0", "2.1.1"},
		{"2.1.2", "2.1.2"}}

	run := func(point, unsynced int) (points int) {
		w := enginetest.NewSim(t)
		defer w.Server.Close()
		w.Fs = enginetest.Base().Crash(100, rand.New(rand.NewPCG(1, 1)))
		disk := w.Fs
		var count atomic.Int64
		var crash sync.Once
		var armed, crashed atomic.Bool
		var left *disktest.Disk
		w.Open(disk, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && int(count.Add(1)) == point {
				crash.Do(func() {
					left = disk.Crash(unsynced, rand.New(rand.NewPCG(uint64(point), 1)))
					crashed.Store(true)
				})
			}
			return nil
		})))
		armed.Store(true)
		answered := -1
		s, err := w.OpenShelf(first)
		if err != nil {
			t.Fatal(err)
		}
		for step, do := range []func() error{
			func() error { return nil },
			func() error { return activated(s, second) },
			func() error {
				_, err := s.Rollback(context.Background(), rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.0"},
					rulestore.Order{Who: "test", Reason: "test"})
				return err
			},
			func() error { return activated(s, third) },
		} {
			if err := do(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			if crashed.Load() {
				break
			}
			answered = step
		}
		if err := w.Store.Close(); err != nil {
			t.Error(err)
		}
		if left == nil {
			return int(count.Load())
		}
		if err := w.Reopen(left); err != nil {
			t.Fatalf("point %d: %v", point, err)
		}
		defer func() {
			w.Fsck()
			if err := w.Store.Close(); err != nil {
				t.Error(err)
			}
		}()
		again := w.Shelf(first)
		live := again.Book().Active("00", "2026-11-21")["01"].Version
		floor := ""
		for _, b := range again.List().Rules {
			if b.Document == "01" && b.Schema == 2 {
				floor = b.Floor
			}
		}
		good := false
		for _, state := range after[max(answered, 0):min(answered+2, len(after))] {
			good = good || state.live == live && state.floor == floor
		}
		if !good {
			t.Errorf("crash at %d, %d %% of unsynced data survives: %d steps were answered, and %s is live above the "+
				"floor %s", point, unsynced, answered+1, live, floor)
		}
		if err := activated(again, first["dte01"]); err == nil && live != "2.1.0" {
			t.Errorf("crash at %d: 2.1.0 was pushed below the floor %s", point, floor)
		}
		return 0
	}

	points := run(-1, 0)
	if points < 10 {
		t.Fatalf("only %d writes", points)
	}
	for i, unsynced := range []int{0, 50, 100} {
		for point := 1; point <= points; point++ {
			if point%3 == i || os.Getenv("DTE_SOAK") != "" {
				run(point, unsynced)
			}
		}
	}
	t.Logf("%d writes", points)
}

func activated(s *rulestore.Store, data []byte) error {
	a, err := s.Activate(context.Background(), data, rulestore.Order{Who: "test", FewerCases: true})
	if err == nil && a.Refused != "" {
		err = fmt.Errorf("%s: %s", a.Refused, a.Error)
	}
	return err
}
