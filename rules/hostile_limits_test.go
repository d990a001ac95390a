package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"dtegate/rules/abi"
	w "dtegate/rules/asmtest"
	"dtegate/rules/fuel"
)

// further is a well-behaved guest with one more function.
func further(f w.Function) []byte {
	return with(func(g *w.Module) { g.Functions = append(g.Functions, f) }).Bytes()
}

// nested is n nested blocks, or loops, with a branch out of, or back to, each of them; the innermost sets, or reads,
// the locals.
func nested(op byte, n, locals int) w.Function {
	code := bytes.Repeat([]byte{op, w.Empty}, n)
	if op == w.Block {
		for k := range n {
			code = w.Join(code, w.Op(w.LocalGet, 0), w.Op(w.BrIf, k))
		}
	}
	for l := range locals {
		code = w.Join(code, w.Op(w.LocalGet, l), []byte{w.I32Eqz}, w.Op(w.LocalSet, l))
	}
	for range n {
		if op == w.Loop {
			code = w.Join(code, w.Op(w.LocalGet, 0), w.Op(w.BrIf, 0))
		}
		code = append(code, w.End)
	}
	return w.Function{Locals: bytes.Repeat([]byte{w.I32}, locals), Code: code}
}

// wide is a chain of functions that pass on many results.
func wide(results int) w.Module {
	types := bytes.Repeat([]byte{w.I64}, results)
	return with(func(g *w.Module) {
		last := len(g.Functions)
		g.Functions = append(g.Functions, w.Function{Results: types, Code: bytes.Repeat(w.I64Const(1), results)})
		for i := range 20 {
			g.Functions = append(g.Functions, w.Function{Results: types, Code: w.Op(w.Call, last+i)})
		}
		g.Functions[w.Evaluate].Code = w.Join([]byte{w.Loop, w.Empty}, w.Op(w.Call, last+20),
			bytes.Repeat([]byte{w.Drop}, results), []byte{w.Br, 0, w.End, w.Unreachable})
	})
}

// TestLoad_Limits: a module that would fill the host's memory, or take its compiler's time, is refused before anything
// is allocated or compiled, with a sentence that names the place and the limit.
func TestLoad_Limits(t *testing.T) {
	many := func(n int, f w.Function) []byte {
		return with(func(g *w.Module) {
			for range n {
				g.Functions = append(g.Functions, f)
			}
		}).Bytes()
	}
	sixteen := bytes.Repeat([]byte{w.I64}, 16)
	handOn := w.Function{Params: sixteen, Results: sixteen, Code: w.Join(bytes.Repeat(w.I64Const(1), 16),
		bytes.Repeat(w.Op(w.Call, w.Further), 10_000))}
	table := func(ways, locals int) w.Function { // a table of many ways to the end of a block in which locals are set
		f := nested(w.Block, 1, locals)
		f.Code = w.Join(f.Code[:len(f.Code)-1], w.Op(w.LocalGet, 0), w.Op(0x0e, ways), make([]byte, ways+1),
			[]byte{w.End})
		return f
	}
	for _, c := range []struct {
		name, text string
		wasm       []byte
	}{
		{"990 results of a call", "section 1: 990 results, more than 16", wide(990).Bytes()},
		{"990 parameters", "section 1: 990 parameters, more than 32",
			further(w.Function{Params: bytes.Repeat([]byte{w.I64}, 990)})},
		{"a block with 17 parameters", "function 4: at byte 3: a block has 17 parameters, more than 16",
			with(func(g *w.Module) {
				g.Types = [][]byte{w.Type(bytes.Repeat([]byte{w.I64}, 17), nil)}
				g.Functions = append(g.Functions, w.Function{Code: []byte{w.Block, 0, w.End}})
			}).Bytes()},
		{"600 tables", "section 4: 600 tables, more than 1", with(func(g *w.Module) { g.Tables = 600 }).Bytes()},
		{"a table of 100,000 items", "section 4: the table has 100000 items, more than 65536",
			with(func(g *w.Module) { g.Tables = 1 }).Bytes()},
		{"1,001 globals", "section 6: 1001 globals, more than 1000", with(func(g *w.Module) {
			g.Globals = bytesRepeated(w.Join([]byte{w.I64, 1}, w.I64Const(5), []byte{w.End}), 1001)
		}).Bytes()},
		{"loops in loops", "function 4: it has", further(nested(w.Loop, 300, 300))},
		{"many loops in loops", "is estimated at", many(20, nested(w.Loop, 150, 150))},
		{"merges in merges", "function 4: it has", further(nested(w.Block, 1000, 500))},
		{"many merges in merges", "is estimated at", many(600, nested(w.Block, 100, 100))},
		{"a table of many ways", "function 4: it has", further(table(10_000, 30))},
		{"many tables of many ways", "is estimated at", many(200, table(9_000, 10))},
		{"many conditions", "is estimated at", many(10, w.Function{Locals: []byte{w.I32},
			Code: bytes.Repeat(w.Join(w.Op(w.LocalGet, 0), []byte{w.If, w.Empty, w.End}), 12_000)})},
		{"many loops in a row", "is estimated at", many(5, w.Function{Code: bytes.Repeat([]byte{w.Loop, w.Empty, w.End},
			6000)})},
		{"many calls between many globals", "function 4: it has 10003 calls", with(func(g *w.Module) {
			g.Globals = bytesRepeated(w.Join([]byte{w.I64, 1}, w.I64Const(5), []byte{w.End}), 1000)
			g.Functions = append(g.Functions, w.Function{Code: w.Join([]byte{w.Loop, w.Empty, w.Loop, w.Empty, w.End,
				w.End}, bytes.Repeat(w.Op(w.Call, w.Initialize), 10_000))})
		}).Bytes()},
		{"a frame of 1.2 MiB", "bytes of stack, more than 1048576", further(handOn)},
	} {
		for _, engine := range []string{"compiler", "interpreter"} {
			h := host(t, Options{Engine: engine})
			began := time.Now()
			_, err := h.Load(context.Background(), c.wasm)
			if !errors.Is(err, ErrModule) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s, %s: want %q, got %v", c.name, engine, c.text, err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s, %s: the refusal took %v", c.name, engine, took)
			}
		}
	}
}

func bytesRepeated(item []byte, n int) (list [][]byte) {
	for range n {
		list = append(list, item)
	}
	return list
}

// stackOf is how many bytes of stack an instance keeps for dte_evaluate.
func stackOf(t *testing.T, i *instance) int {
	t.Helper()
	s := reflect.ValueOf(i.evaluate).Elem().FieldByName("stack")
	if s.Kind() != reflect.Slice {
		t.Fatalf("where does %T keep its stack?", i.evaluate)
	}
	return s.Cap() * int(s.Type().Elem().Size())
}

// deep is a guest that calls itself n times, with locals that it needs afterwards, and then answers.
func deep(calls int) w.Module {
	return with(func(g *w.Module) {
		keep := bytes.Repeat([]byte{w.I64}, 50)
		var before, after []byte
		for l := 1; l <= len(keep); l++ {
			before = w.Join(before, w.Op(w.LocalGet, 0), []byte{w.I64ExtendU}, w.I64Const(int64(l)), []byte{w.I64Mul},
				w.Op(w.LocalSet, l))
			after = w.Join(after, w.Op(w.LocalGet, l), w.Op(w.GlobalGet, 0), []byte{w.I64Add}, w.Op(w.GlobalSet, 0))
		}
		g.Globals = [][]byte{w.Join([]byte{w.I64, 1}, w.I64Const(0), []byte{w.End})}
		g.Functions = append(g.Functions, w.Function{Params: []byte{w.I32}, Locals: keep, Code: w.Join(before,
			w.Op(w.LocalGet, 0), []byte{w.If, w.Empty}, w.Op(w.LocalGet, 0), w.I32Const(1), []byte{w.I32Sub},
			w.Op(w.Call, w.Further), []byte{w.End}, after)})
		g.Functions[w.Evaluate].Code = w.Join(w.I32Const(calls), w.Op(w.Call, w.Further), g.Functions[w.Evaluate].Code)
	})
}

// TestEvaluate_Stack: recursion ends at the same call in both engines, long before an engine's own limit, and the
// memory that it leaves in a kept instance is bounded.
func TestEvaluate_Stack(t *testing.T) {
	var most [2]int
	for e, engine := range []string{"compiler", "interpreter"} {
		h := host(t, Options{Engine: engine, Instances: 1})
		for calls := 100; ; calls += calls / 10 {
			m, err := h.Load(context.Background(), deep(calls).Bytes())
			if err != nil {
				t.Fatal(err)
			}
			err = m.Evaluate(context.Background(), oneLine(), new(abi.Output))
			if err == nil {
				if held := stackOf(t, m.code.idle[0]); held > 16<<20 {
					t.Errorf("%s: %d calls leave %d bytes of stack in an instance that is kept", engine, calls, held)
				}
				most[e] = calls
				_ = m.Close(context.Background())
				continue
			}
			if want := fmt.Sprintf("dte_evaluate used more than %d bytes of stack", fuel.Stack); !errors.Is(err,
				ErrTrap) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %d calls: want %q, got %v", engine, calls, want, err)
			}
			if len(m.code.idle) != 0 {
				t.Errorf("%s: the instance is kept", engine)
			}
			break
		}
	}
	if most[0] != most[1] || most[0] < 500 || most[0] > 1024 {
		t.Errorf("calls nest %d deep compiled and %d interpreted", most[0], most[1])
	}
}

// TestEvaluate_Grown: an instance that has grown is not kept.
func TestEvaluate_Grown(t *testing.T) {
	for pages, kept := range map[int]int{250: 1, 260: 0} {
		g := with(func(g *w.Module) {
			g.Functions[w.Evaluate].Code = w.Join(w.I32Const(pages-4), []byte{0x40, 0, w.Drop},
				g.Functions[w.Evaluate].Code)
		})
		m, err := host(t, Options{}).Load(context.Background(), g.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		m.code.idle = nil // the one that described itself
		if err := m.Evaluate(context.Background(), oneLine(), new(abi.Output)); err != nil {
			t.Fatal(err)
		}
		if len(m.code.idle) != kept {
			t.Errorf("%d pages: %d instances are kept, want %d", pages, len(m.code.idle), kept)
		}
	}
}
