package rules

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/rules/abi"
	w "dtegate/rules/asmtest"
)

// unending is more fuel than any guest uses while a test lasts.
const unending = 1 << 50

// chase is a guest that makes a ring of all of its 32 MiB, in which each place points at one far away, and follows it
// without end: each step waits for memory that is in no cache. A unit covers 20 steps.
func chase() w.Module {
	next := w.Join(w.Op(w.LocalGet, 1), w.I32Const(1664525), []byte{w.I32Mul}, w.I32Const(64*12345), []byte{w.I32Add},
		w.I32Const(1<<25-64), []byte{0x71})
	step := w.Join(w.Op(w.LocalGet, 1), w.Op(w.I32Load, 2, 0), w.Op(w.LocalSet, 1))
	return with(func(g *w.Module) {
		g.Pages = 512
		g.Functions[w.Evaluate].Locals = []byte{w.I32}
		g.Functions[w.Evaluate].Code = w.Join(
			[]byte{w.Loop, w.Empty}, w.Op(w.LocalGet, 1), next, w.Op(w.I32Store, 2, 0),
			w.Op(w.LocalGet, 1), w.I32Const(64), []byte{w.I32Add}, w.Op(w.LocalTee, 1), w.I32Const(1<<25),
			[]byte{w.I32LtU}, w.Op(w.BrIf, 0), []byte{w.End},
			w.I32Const(0), w.Op(w.LocalSet, 1),
			[]byte{w.Loop, w.Empty}, bytes.Repeat(step, 20), []byte{w.Br, 0, w.End, w.Unreachable})
	})
}

// failed is how many calls the host's metric says have failed for a reason.
func failed(t *testing.T, h *Host, reason string) (n float64) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.CollectorFunc(h.Collect))
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.Metric {
			if family.GetName() == "dte_rule_failures_total" && m.Label[0].GetValue() == reason {
				n = m.Counter.GetValue()
			}
		}
	}
	return n
}

// TestEvaluate_Time: whatever a guest gets out of its fuel, and however large its budget is, it is ended when it has
// worked for the host's limit, in processor time. With DTE_SOAK=1 under the limits that a branch has.
func TestEvaluate_Time(t *testing.T) {
	for name, g := range map[string]w.Module{
		"pointers over all of its memory":  chase(),
		"an empty loop, an endless budget": w.Guest("", nil, forever, nil),
		"calls of the host, an endless budget": func() w.Module {
			calls := bytes.Repeat(w.Join(w.Op(w.Call, 0), []byte{w.Drop}), 100)
			g := w.Guest("", nil, w.Join([]byte{w.Loop, w.Empty}, calls, []byte{w.Br, 0, w.End, w.Unreachable}), nil)
			g.Imports = []w.Import{{Module: wasi, Name: "sched_yield", Results: []byte{w.I32}}}
			return g
		}(),
	} {
		for _, engine := range []string{"compiler", "interpreter"} {
			o := Options{Engine: engine, Timeout: 40 * time.Millisecond, Fuel: unending, MaxFuel: unending}
			if os.Getenv("DTE_SOAK") != "" {
				o = Options{Engine: engine}
				o.defaults()
				o.Fuel = o.MaxFuel
			}
			h := host(t, o)
			m, err := h.Load(context.Background(), g.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			runtime.LockOSThread()
			began := ThreadTime()
			err = m.Evaluate(context.Background(), oneLine(), new(abi.Output))
			took := ThreadTime() - began
			runtime.UnlockOSThread()
			t.Logf("%s, %s: %v, %v", name, engine, took, err)
			// the most that a bundle may ask for is not much to it
			fast := os.Getenv("DTE_SOAK") != "" && errors.Is(err, ErrFuel)
			if !fast && (!errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(),
				"dte_evaluate worked longer than "+o.Timeout.String())) {
				t.Errorf("%s, %s: %v", name, engine, err)
			}
			// Beside the limit: the first slice, the last one, and an instance with 32 MiB of memory.
			if most := o.Timeout + time.Second; took > most {
				t.Errorf("%s, %s: took %v, more than %v", name, engine, took, most)
			}
			if n := failed(t, h, "timeout"); !fast && n != 1 {
				t.Errorf("%s, %s: the metric says %v", name, engine, n)
			}
			if len(m.code.idle) != 0 {
				t.Errorf("%s, %s: the instance is kept", name, engine)
			}
		}
	}
}

// TestEvaluate_Collected: a garbage collection does not wait for a guest to end.
func TestEvaluate_Collected(t *testing.T) {
	// On one processor, a collection that runs beside the guest takes a tenth of this time.
	h := host(t, Options{Timeout: time.Second, Fuel: unending, MaxFuel: unending})
	m, err := h.Load(context.Background(), w.Guest("", nil, forever, nil).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- m.Evaluate(context.Background(), oneLine(), new(abi.Output)) }()
	for len(m.code.running) == 0 {
		runtime.Gosched()
	}
	for collections := 0; ; collections++ {
		select {
		case err := <-ended:
			if !errors.Is(err, ErrTimeout) || collections < 2 {
				t.Errorf("%d collections until %v", collections, err)
			}
			return
		default:
			runtime.GC()
		}
	}
}

// TestMeter_BusyBox: time that passes on the clock while others have the processor does not count as the guest's.
func TestMeter_BusyBox(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := meter{limit: 2 * time.Second, sliced: true, since: time.Now().Add(-time.Hour), worked: ThreadTime()}
	if m.overdue() {
		t.Error("an hour in which the guest did not run has ended it")
	}
	if m.worked -= 3 * time.Second; !m.overdue() {
		t.Error("3 s of the processor are not more than 2")
	}
}
