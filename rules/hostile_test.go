package rules

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/rules/abi"
	w "dtegate/rules/asmtest"
)

var (
	forever   = []byte{w.Loop, w.Empty, w.Br, 0, w.End, w.Unreachable}
	recursive = w.Join(w.Op(w.LocalGet, 0), w.Op(w.Call, w.Evaluate))
	grower    = w.Join([]byte{w.Loop, w.Empty}, w.I32Const(1), []byte{0x40, 0, w.Drop, w.Br, 0, w.End, w.Unreachable})
)

// with changes a well-behaved guest.
func with(change func(*w.Module)) w.Module {
	g := constant(7)
	change(&g)
	return g
}

// TestLoad_Hostile: a module that is not a rule is refused with a sentence for its fault, and leaves nothing behind.
func TestLoad_Hostile(t *testing.T) {
	function := func(i int, change func(*w.Function)) w.Module {
		return with(func(g *w.Module) { change(&g.Functions[i]) })
	}
	imported := func(module, name string) w.Module {
		return with(func(g *w.Module) {
			g.Imports = []w.Import{{Module: module, Name: name}}
			g.Functions[w.Evaluate].Code = []byte{w.Unreachable}
		})
	}
	describing := func(at, length int64) w.Module {
		return function(w.Describe, func(f *w.Function) { f.Code = w.I64Const(at<<32 | length) })
	}
	for _, c := range []struct {
		name, text string
		wasm       []byte
	}{
		{"no module", "not a WebAssembly module", []byte("PK\x03\x04 not wasm at all")},
		{"an import of the host's files", "imports env.open, which rules do not get", imported("env",
			"open").Bytes()},
		{"an import of the network", "imports wasi_snapshot_preview1.sock_accept, which rules do not get",
			imported(wasi, "sock_accept").Bytes()},
		{"an import under another type", "imports wasi_snapshot_preview1.fd_write as () → (), which is (i32, i32, " +
			"i32, i32) → (i32)", imported(wasi, "fd_write").Bytes()},
		{"no dte_evaluate", "does not export dte_evaluate", function(w.Evaluate,
			func(f *w.Function) { f.Export = "evaluate" }).Bytes()},
		{"another type of dte_evaluate", "exports dte_evaluate as (i32) → (i64); the interface says (i32) → (i32)",
			function(w.Evaluate, func(f *w.Function) {
				f.Results, f.Code = []byte{w.I64}, w.I64Const(1)
			}).Bytes()},
		{"another type of dte_describe", "exports dte_describe as (i64) → (i64)", function(w.Describe,
			func(f *w.Function) { f.Params = []byte{w.I64} }).Bytes()},
		{"another type of _initialize", "exports _initialize as (i32) → ()", function(w.Initialize,
			func(f *w.Function) { f.Params = []byte{w.I32} }).Bytes()},
		{"no memory", "exports no memory", w.Module{NoMemory: true,
			Functions: []w.Function{{Export: "dte_evaluate"}}}.Bytes()},
		{"more memory than it may have", "over limit of 512 pages", with(func(g *w.Module) { g.Pages = 513 }).Bytes()},
		{"a start function that hangs", "out of fuel: dte_start used more than 100000 units", with(func(g *w.Module) {
			g.Functions = append(g.Functions, w.Function{Code: forever})
			g.Start = 1 + w.Further
		}).Bytes()},
		{"an _initialize that hangs", "out of fuel: _initialize used more than 100000 units", function(w.Initialize,
			func(f *w.Function) { f.Code = forever }).Bytes()},
		{"an _initialize that traps", "_initialize: wasm error: unreachable", function(w.Initialize,
			func(f *w.Function) { f.Code = []byte{w.Unreachable} }).Bytes()},
		{"a description that never comes", "dte_describe used more than 200000 units", function(w.Describe,
			func(f *w.Function) { f.Code = forever }).Bytes()},
		{"a description outside the memory", "points at 100 bytes at 262100, outside its memory", describing(4*65536-44,
			100).Bytes()},
		{"a description at the world's end", "points at 16 bytes at 4294967295, outside", describing(1<<32-1,
			16).Bytes()},
		{"a description of 1 GiB", "points at 1073741824 bytes, more than 65536", describing(0, 1<<30).Bytes()},
		{"a description of zeros", "description: invalid character", describing(64, 64).Bytes()},
		{"a hand on its own fuel", "global 0 of 0", function(w.Initialize,
			func(f *w.Function) { f.Code = w.Join(w.I64Const(1<<60), w.Op(w.GlobalSet, 0)) }).Bytes()},
		{"vectors", "instruction 0xfd is not available to rules", function(w.Initialize,
			func(f *w.Function) { f.Code = []byte{0xfd, 98} }).Bytes()},
		{"a stack that does not fit", "not enough results", function(w.Initialize,
			func(f *w.Function) { f.Results = []byte{w.I32} }).Bytes()},
		{"16 MiB and a byte", "it has 16777217 bytes, more than 16777216", make([]byte, 16<<20+1)},
		{"100 MiB", "it has 104857600 bytes, more than 16777216", make([]byte, 100<<20)},
	} {
		for _, engine := range []string{"compiler", "interpreter"} {
			h := host(t, Options{Engine: engine, Fuel: 200_000, StartFuel: 100_000})
			_, err := h.Load(context.Background(), c.wasm)
			if !errors.Is(err, ErrModule) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s, %s: want %q, got %v", c.name, engine, c.text, err)
			}
			if len(h.modules) != 0 {
				t.Errorf("%s, %s: it stays loaded", c.name, engine)
			}
		}
	}
}

// TestEvaluate_Hostile: a module that misbehaves fails its call with a reason, in bounded time and memory, and the next
// call gets a fresh instance.
func TestEvaluate_Hostile(t *testing.T) {
	guest := func(buffer, evaluate []byte) w.Module { return w.Guest("", buffer, evaluate, nil) }
	answer := func(change func(*abi.Output)) w.Module { // right in form, not in content
		out := abi.Output{Lines: []int64{7}, Summary: []int64{7}}
		change(&out)
		message := string(w.Answer(&out, max(1, len(out.Lines))))
		return with(func(g *w.Module) {
			g.Data[2048] = message
			g.Functions[w.Evaluate].Code = w.Join(w.I32Const(w.BufferAt), w.I32Const(2048), w.I32Const(len(message)),
				[]byte{0xfc, 10, 0, 0}, w.I32Const(len(message)))
		})
	}
	for _, c := range []struct {
		name, text string
		g          w.Module
	}{
		{"traps", "dte_evaluate: wasm error: unreachable", guest(nil, []byte{w.Unreachable})},
		{"divides by zero", "integer divide by zero", guest(nil, w.Join(w.I32Const(1), w.I32Const(0), []byte{0x6d}))},
		{"reads outside its memory", "out of bounds memory access", guest(nil, w.Join(w.I32Const(-4), w.Op(w.I32Load, 2,
			0)))},
		{"loops without a call", "out of fuel: dte_evaluate used more than 200000 units", guest(nil, forever)},
		{"loops over a call", "out of fuel", guest(nil, w.Join([]byte{w.Loop, w.Empty}, w.Op(w.Call, w.Describe),
			[]byte{w.Drop, w.Br, 0, w.End, w.Unreachable}))},
		{"recurses", "", guest(nil, recursive)}, // out of fuel or of stack
		{"grows its memory", "out of fuel", guest(nil, grower)},
		{"fills its memory again and again", "out of fuel", guest(nil, w.Join([]byte{w.Loop, w.Empty}, w.I32Const(0),
			w.I32Const(1), w.I32Const(4*65536), []byte{0xfc, 11, 0, w.Br, 0, w.End, w.Unreachable}))},
		{"answers nothing", "and the header alone has 32", guest(nil, answering(0))},
		{"answers a byte", "and the header alone has 32", guest(nil, answering(1))},
		{"refuses good input", "it refused the message: dte_evaluate returned -1, and a negative number is for a " +
			"message that makes no sense", guest(nil, answering(-1))},
		{"answers more than the buffer holds", "dte_evaluate returned 1073741824, the length of its answer, and the " +
			"buffer has 65536 bytes", guest(nil, answering(1<<30))},
		{"answers its own input", "its answer", guest(nil, answering(48))},
		{"a buffer outside its memory", "does not fit: dte_buffer answered 4294901760, and the memory ends at",
			guest(answering(-65536), answering(32))},
		{"a buffer at its memory's end", "does not fit: dte_buffer answered 262136, and the memory ends at 262144",
			guest(answering(4*65536-8), answering(32))},
		{"a message beyond its memory", "its answer lies outside its memory", guest(answering(4*65536-64),
			answering(65))},
		{"no address", "dte_buffer(65536) answered 0, which is not an address", guest(w.I32Const(0), answering(32))},
		{"dte_buffer traps", "dte_buffer: wasm error: unreachable", guest([]byte{w.Unreachable}, answering(32))},
		{"dte_buffer loops", "dte_buffer used more than", guest(forever, answering(32))},
		{"lines that were not asked for", "its answer has 2 line values",
			answer(func(o *abi.Output) { o.Lines = []int64{1, 2} })},
		{"no summary", "and 0 summary fields", answer(func(o *abi.Output) { o.Summary = nil })},
		{"a tax that it does not know", "its answer names tax 3, and the description has",
			answer(func(o *abi.Output) { o.Taxes = []abi.Tax{{Tax: 3}} })},
		{"a fault that it does not know", "names a fault that the description or the message has not",
			answer(func(o *abi.Output) { o.Faults = []abi.Fault{{Code: 1, Line: -1, Column: -1}} })},
		{"a fault in line 1 of 1", "names a fault that the description or the message has not",
			answer(func(o *abi.Output) { o.Faults = []abi.Fault{{Line: 1, Column: -1}} })},
		{"a fault in column 1 of 1", "names a fault that the description or the message has not",
			answer(func(o *abi.Output) { o.Faults = []abi.Fault{{Line: 0, Column: 1}} })},
		{"a fault in scalar 0 of 0", "names a fault that the description or the message has not",
			answer(func(o *abi.Output) { o.Faults = []abi.Fault{{Line: -1, Column: 0}} })},
	} {
		for _, engine := range []string{"compiler", "interpreter"} {
			h := host(t, Options{Engine: engine, MemoryPages: 64, Fuel: 200_000})
			m, err := h.Load(context.Background(), c.g.Bytes())
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for range 2 {
				began := time.Now()
				err := m.Evaluate(context.Background(), oneLine(), new(abi.Output))
				if !errors.Is(err, ErrTrap) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%s, %s: want %q, got %v", engine, c.name, c.text, err)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("%s, %s: took %v", engine, c.name, took)
				}
				if len(m.code.idle)+len(m.code.running) != 0 {
					t.Errorf("%s, %s: an instance that failed went back to the pool", engine, c.name)
				}
			}
		}
	}
}

// TestEvaluate_Tired: a guest that traps after n calls is answered by a fresh instance. One that answers differently
// after n calls is found only by the golden cases (see TestAdmit): it leaves no trace by which to contain it.
func TestEvaluate_Tired(t *testing.T) {
	g := counting(3)
	g.Functions[w.Evaluate].Code = w.Join(g.Functions[w.Evaluate].Code[:0:0],
		w.I32Const(8), w.I32Const(8), w.Op(w.I32Load, 2, 0), w.I32Const(1), []byte{w.I32Add}, w.Op(w.I32Store, 2, 0),
		w.I32Const(8), w.Op(w.I32Load, 2, 0), w.I32Const(3), []byte{w.I32GtU, w.If, w.Empty, w.Unreachable, w.End},
		constant(7).Functions[w.Evaluate].Code)
	h := host(t, Options{Instances: 1})
	m, err := h.Load(context.Background(), g.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for call := 1; call <= 12; call++ {
		err := m.Evaluate(context.Background(), oneLine(), new(abi.Output))
		if tired := call%4 == 0; tired != errors.Is(err, ErrTrap) {
			t.Errorf("call %d: %v", call, err)
		}
	}
}

// TestEvaluate_Worst measures the time that the default budget allows a guest that makes the most of it. It is for
// people: run it with -v and DTE_SOAK=1.
func TestEvaluate_Worst(t *testing.T) {
	skip.Unless(t, os.Getenv("DTE_SOAK") != "", "make soak")
	divide := w.I64Const(-3)
	for range 20 {
		divide = w.Join(divide, w.Op(w.LocalGet, 2), []byte{0x7f})
	}
	for name, body := range map[string][]byte{
		"an empty loop":    nil,
		"long divisions":   w.Join(w.I64Const(7), w.Op(w.LocalSet, 2), divide, []byte{w.Drop}),
		"fills of 64 byte": w.Join(w.I32Const(0), w.I32Const(1), w.I32Const(63), []byte{0xfc, 11, 0}),
		"fills of 256 KiB": w.Join(w.I32Const(0), w.I32Const(1), w.I32Const(4*65536), []byte{0xfc, 11, 0}),
		"looks at a clock": w.Join(w.I32Const(0), w.I64Const(1), w.I32Const(64), w.Op(w.Call, 0), []byte{w.Drop}),
		"chance":           w.Join(w.I32Const(0), w.I32Const(256), w.Op(w.Call, 1), []byte{w.Drop}),
		"grows":            w.Join(w.I32Const(1), []byte{0x40, 0, w.Drop}),
	} {
		g := w.Guest("", nil, w.Join([]byte{w.Loop, w.Empty}, body, []byte{w.Br, 0, w.End, w.Unreachable}), nil)
		g.Pages = 512
		g.Functions[w.Evaluate].Locals = []byte{w.I32, w.I64}
		g.Imports = []w.Import{{Module: wasi, Name: "clock_time_get", Params: []byte{w.I32, w.I64, w.I32},
			Results: []byte{w.I32}},
			{Module: wasi, Name: "random_get", Params: []byte{w.I32, w.I32}, Results: []byte{w.I32}}}
		for _, engine := range []string{"compiler", "interpreter"} {
			h := host(t, Options{Engine: engine})
			m, err := h.Load(context.Background(), g.Bytes())
			if err != nil {
				t.Fatal(name, err)
			}
			began := time.Now()
			err = m.Evaluate(context.Background(), oneLine(), new(abi.Output))
			t.Logf("%s, %s: %v", name, engine, time.Since(began))
			if !errors.Is(err, ErrFuel) && !errors.Is(err, ErrTimeout) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
