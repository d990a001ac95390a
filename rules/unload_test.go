package rules

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/rules/abi"
)

// loaded tells whether a module is loaded, and checks that nothing is left of one that is not.
func loaded(t *testing.T, m *Module) bool {
	t.Helper()
	c := m.code
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room == nil && len(c.idle) > 0 {
		t.Errorf("an unloaded module has %d instances", len(c.idle))
	}
	return c.room != nil
}

func evaluate7(t *testing.T, m *Module) {
	t.Helper()
	var out abi.Output
	if err := m.Evaluate(context.Background(), oneLine(), &out); err != nil || out.Summary[0] != 7 {
		t.Errorf("got %+v, %v", out, err)
	}
}

// TestUnload: a module stays loaded while it is called, is unloaded when it is not, and answers the same when it is
// called again, whatever has become of the cache. A module that is loaded at a start waits unloaded for its first call.
func TestUnload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host(t, Options{CacheDir: dir, UnloadAfter: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		started := h.Starting()
		m, err := h.Load(t.Context(), constant(7).Bytes())
		if err != nil {
			t.Fatal(err)
		}
		is := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			if loaded(t, m) != want {
				t.Errorf("%s: loaded is %v", when, !want)
			}
		}
		is("during the start", true)
		started()
		is("after the start", false)
		if m.Description() == nil {
			t.Error("an unloaded module has no description")
		}
		evaluate7(t, m)
		for range 5 {
			time.Sleep(59 * time.Second)
			evaluate7(t, m)
			is("called each minute", true)
		}
		time.Sleep(2*time.Minute + time.Second) // it is looked at each minute
		is("two minutes after the last call", false)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		evaluate7(t, m)
		is("without its cache", true)
		if n := metrictest.Values(t, h)["dte_rule_reloads_total"]; n != 2 {
			t.Errorf("%v reloads are counted, not 2", n)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		is("closed", false)
	})
}

// TestUnload_NoCache: without a cache the next sale would wait for the compiler, so a module stays.
func TestUnload_NoCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t, Options{UnloadAfter: time.Minute})
		started := h.Starting()
		m, err := h.Load(t.Context(), constant(7).Bytes())
		if err != nil {
			t.Fatal(err)
		}
		started()
		time.Sleep(time.Hour)
		if !loaded(t, m) {
			t.Error("it was unloaded")
		}
	})
}

// TestUnload_UnderLoad: calls meet a module at each moment of its unloading and loading, and of its end.
func TestUnload_UnderLoad(t *testing.T) {
	h := host(t, Options{CacheDir: t.TempDir(), UnloadAfter: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	m, err := h.Load(t.Context(), constant(7).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var tills, unloader sync.WaitGroup
	over := make(chan struct{})
	unloads := 0
	unloader.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				m.code.unloadIfIdle()
				if !loaded(t, m) {
					unloads++
				}
			}
		}
	})
	for range 2 {
		tills.Go(func() {
			for range 500 {
				evaluate7(t, m)
				runtime.Gosched()
			}
		})
	}
	tills.Wait()
	close(over)
	unloader.Wait()
	t.Logf("%d looks found it unloaded, %v calls loaded it again", unloads, metrictest.Values(t,
		h)["dte_rule_reloads_total"])
	if err := m.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if m.code.unloadIfIdle(); loaded(t, m) {
		t.Error("a closed module is loaded")
	}
}
