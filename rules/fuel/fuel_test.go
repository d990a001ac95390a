package fuel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	w "dtegate/rules/asmtest"
	"dtegate/rules/fuel"
)

const plenty = 1 << 40

// engines are a compiler and an interpreter, limited only to 16 pages of memory.
func engines(t testing.TB) map[string]wazero.Runtime {
	t.Helper()
	ctx := context.Background()
	made := map[string]wazero.Runtime{
		"compiler":    wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(16)),
		"interpreter": wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(16)),
	}
	for _, r := range made { // and an import that does nothing
		if _, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() {}).Export(
			"nothing").Instantiate(ctx); err != nil {
			t.Fatal(err)
		}
		lend(t, r)
	}
	t.Cleanup(func() {
		for _, r := range made {
			_ = r.Close(ctx)
		}
	})
	return made
}

// outcome is everything that a run reveals.
type outcome struct {
	result  uint64
	failure string
	memory  [32]byte
	used    int64 // -1 without metering
	slices  int   // of sliced units each, that it was given
}

// sliced is few enough units that nearly every guest of these tests spends several slices.
const sliced = 20

// program is a compiled module in its engine.
type program struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

func compile(t testing.TB, r wazero.Runtime, wasm []byte) program {
	t.Helper()
	c, err := r.CompileModule(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	return program{r, c}
}

// run calls "run" of a fresh instance.
func (p program) run(t testing.TB, units int64, args ...uint64) (o outcome) {
	t.Helper()
	ctx := context.Background()
	m, err := p.runtime.InstantiateModule(ctx, p.compiled, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(ctx)
	o.used = -1
	var given *purse
	if m.ExportedGlobal(fuel.Export) != nil {
		given, ctx = budget(m, units, sliced)
	}
	results, err := m.ExportedFunction("run").Call(ctx, args...)
	if err != nil {
		o.failure, _, _ = strings.Cut(err.Error(), "\n")
	} else if len(results) > 0 {
		o.result = results[0]
	}
	if memory := m.Memory(); memory != nil {
		b, _ := memory.Read(0, memory.Size())
		o.memory = sha256.Sum256(b)
	}
	if given != nil {
		o.used, o.slices = units-given.left(), given.slices
	}
	return o
}

func meter(t testing.TB, wasm []byte) []byte {
	t.Helper()
	out, err := fuel.Meter(wasm, plenty)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMeter_SameResults: a metered module does what the original does, in both engines, and uses the same fuel in
// both.
func TestMeter_SameResults(t *testing.T) {
	modules := 50
	if os.Getenv("DTE_SOAK") != "" {
		modules = 20_000
	}
	both := engines(t)
	looped, trapped, resumed := 0, 0, 0
	for seed := range modules {
		wasm := random(rand.New(rand.NewPCG(uint64(seed), 7)))
		metered := meter(t, wasm)
		original, fast, slow := compile(t, both["compiler"], wasm), compile(t, both["compiler"], metered),
			compile(t, both["interpreter"], metered)
		if !bytes.Equal(metered, meter(t, wasm)) {
			t.Fatal("the same module came out in other bytes")
		}
		for _, arg := range []uint64{0, 1, 1 << 63} {
			plain := original.run(t, 0, arg)
			compiled := fast.run(t, plenty, arg)
			interpreted := slow.run(t, plenty, arg)
			if compiled != interpreted {
				t.Fatalf("seed %d: compiled %+v, interpreted %+v", seed, compiled, interpreted)
			}
			if plain.used, plain.slices = compiled.used, compiled.slices; plain != compiled {
				t.Fatalf("seed %d: plain %+v, metered %+v", seed, plain, compiled)
			}
			if compiled.used > 8 {
				looped++
			}
			if compiled.failure != "" {
				trapped++
			}
			if compiled.slices > 1 {
				resumed++
			}
			// With one unit less than it takes, it stops there, in both engines.
			short := fast.run(t, compiled.used-1, arg)
			if !strings.Contains(short.failure, "out of fuel") || short.used < compiled.used {
				t.Fatalf("seed %d: with %d it needs %d and got %+v", seed, compiled.used-1, compiled.used, short)
			}
			if exact := fast.run(t, compiled.used, arg); exact != compiled {
				t.Fatalf("seed %d: with just enough it got %+v", seed, exact)
			}
		}
		for _, p := range []program{original, fast, slow} {
			_ = p.compiled.Close(context.Background())
		}
	}
	if resumed < modules/4 || looped < modules/4 || trapped < modules/50 || trapped > 2*modules {
		t.Errorf("the modules prove little: %d looped, %d went on with another slice, %d trapped of %d", looped,
			resumed, trapped, 3*modules)
	}
}

// TestMeter_Bounds: a guest that runs without end is stopped, at a use in proportion to its work.
func TestMeter_Bounds(t *testing.T) {
	turns := func(body []byte) []byte { // for i := arg; i != 0; i-- { body }
		return w.Join([]byte{w.Loop, w.Empty}, body, w.Op(w.LocalGet, 0), w.I64Const(1), []byte{w.I64Sub},
			w.Op(w.LocalTee, 0),
			w.I64Const(0), []byte{w.I64Ne}, w.Op(w.BrIf, 0), []byte{w.End}, w.I64Const(7))
	}
	nop := bytes.Repeat([]byte{0x01}, 640)
	for _, c := range []struct {
		name      string
		code      []byte
		arg, used int64
	}{
		{"straight", w.I64Const(7), 0, 1},
		{"straight and long", w.Join(nop, w.I64Const(7)), 0, 1 + 642/fuel.Grain},
		{"1000 turns", turns(nil), 1000, 1 + 1000},
		{"1000 long turns", turns(nop), 1000, 1 + 1000*(1+648/fuel.Grain)},
		{"a fill of 64 KiB", w.Join(w.I32Const(0), w.I32Const(1), w.I32Const(65536), []byte{0xfc, 11, 0},
			w.I64Const(7)), 0, 1 + 65536/fuel.Grain},
		{"10 copies of 32 KiB", turns(w.Join(w.I32Const(0), w.I32Const(32768), w.I32Const(32768), []byte{0xfc, 10, 0,
			0})), 10, 1 + 10*(1+32768/fuel.Grain)},
		{"10 calls of an import", turns(w.Op(w.Call, 0)), 10, 1 + 10*(1+518/fuel.Grain)},
		{"10 growths by nothing", turns(w.Join(w.I32Const(0), []byte{0x40, 0, w.Drop})), 10, 1 + 10*(1+520/fuel.Grain+
			65536/fuel.Grain)},
		{"a growth to 9 pages", w.Join(w.I32Const(8), []byte{0x40, 0, w.Drop}, w.I64Const(7)), 0, 1 + 519/fuel.Grain +
			9*65536/fuel.Grain},
	} {
		wasm := meter(t, w.Module{Pages: 1, Imports: []w.Import{{Module: "env", Name: "nothing"}},
			Functions: []w.Function{{Export: "run", Params: []byte{w.I64}, Results: []byte{w.I64},
				Code: c.code}}}.Bytes())
		for engine, r := range engines(t) {
			if o := compile(t, r, wasm).run(t, plenty, uint64(c.arg)); o.result != 7 || o.used != c.used {
				t.Errorf("%s, %s: used %d, want %d: %+v", c.name, engine, o.used, c.used, o)
			}
		}
	}
	for name, c := range map[string]struct {
		code  []byte
		stack bool // the stack runs out, not the fuel
	}{
		"a loop":                  {[]byte{w.Loop, w.Empty, w.Br, 0, w.End, w.Unreachable}, false},
		"a loop over a parameter": {w.Join(w.I64Const(1), []byte{w.Loop, 0}, w.Op(w.Br, 0), []byte{w.End}), false},
		"recursion":               {w.Join(w.Op(w.LocalGet, 0), w.Op(w.Call, 0)), true},
		"indirect recursion":      {w.Join(w.Op(w.LocalGet, 0), w.I32Const(0), w.Op(0x11, 0, 0)), true},
		"fills": {w.Join([]byte{w.Loop, w.Empty}, w.I32Const(0), w.I32Const(1), w.I32Const(65536),
			[]byte{0xfc, 11, 0}, w.Op(w.Br, 0), []byte{w.End, w.Unreachable}), false},
	} {
		f := w.Function{Export: "run", Params: []byte{w.I64}, Results: []byte{w.I64}, Code: c.code}
		wasm := meter(t, w.Module{Pages: 1, Table: []int{0}, Functions: []w.Function{f}}.Bytes())
		var first outcome
		for engine, r := range engines(t) {
			o := compile(t, r, wasm).run(t, 10_000, 0)
			ended := o.used > 10_000 && strings.Contains(o.failure, "out of fuel")
			if c.stack {
				ended = o.used == fuel.Stack/fuel.MinFrame+1 && strings.Contains(o.failure, "out of stack")
			}
			if !ended || first.used != 0 && o != first {
				t.Errorf("%s, %s: %+v, not as %+v", name, engine, o, first)
			}
			first = o
		}
	}
}

// TestMeter_Passing: a call costs more for each parameter and result beyond the fourth.
func TestMeter_Passing(t *testing.T) {
	used := func(params, results int) int64 { // of Grain calls: a unit is the price of one call
		callee := w.Function{Params: bytes.Repeat([]byte{w.I64}, params), Results: bytes.Repeat([]byte{w.I64}, results),
			Code: bytes.Repeat(w.I64Const(1), results)}
		one := w.Join(bytes.Repeat(w.I64Const(1), params), w.Op(w.Call, 1), bytes.Repeat([]byte{w.Drop}, results))
		wasm := meter(t, w.Module{Functions: []w.Function{{Export: "run", Params: []byte{w.I64}, Results: []byte{w.I64},
			Code: w.Join(bytes.Repeat(one, fuel.Grain), w.I64Const(7))}, callee}}.Bytes())
		o := compile(t, engines(t)["interpreter"], wasm).run(t, plenty, 0)
		if o.result != 7 {
			t.Fatalf("%+v", o)
		}
		return o.used
	}
	least := used(0, 0)
	for _, c := range []struct{ params, results int }{{1, 0}, {4, 0}, {0, 4}, {5, 0}, {3, 2}, {0, 5}, {32, 0}, {0, 16},
		{32, 16}} {
		n := c.params + c.results
		want := least + int64(n+2*max(0, n-4)) // each value is pushed or dropped too
		if got := used(c.params, c.results); got != want {
			t.Errorf("%d parameters, %d results: used %d, want %d", c.params, c.results, got, want)
		}
	}
}

// TestMeter_Merging: where control flow merges, each value beyond the sixteenth that a compiler may have to move costs.
func TestMeter_Merging(t *testing.T) {
	const locals = 100
	used := func(set int) int64 { // of Grain blocks that set locals: a unit is the price of one block
		one := w.Join([]byte{w.Block, w.Empty}, w.Op(w.LocalGet, 1), w.Op(w.BrIf, 0))
		for l := range set {
			one = w.Join(one, w.I32Const(1), w.Op(w.LocalSet, 1+l))
		}
		one = append(one, w.End)
		wasm := meter(t, w.Module{Functions: []w.Function{{Export: "run", Params: []byte{w.I64}, Results: []byte{w.I64},
			Locals: bytes.Repeat([]byte{w.I32}, locals),
			Code:   w.Join(bytes.Repeat(one, fuel.Grain), w.I64Const(7))}}}.Bytes())
		o := compile(t, engines(t)["interpreter"], wasm).run(t, plenty, 0)
		if o.result != 7 {
			t.Fatalf("%+v", o)
		}
		return o.used
	}
	least := used(0)
	for _, n := range []int{1, 15, 16, 17, 40, locals} {
		if got, want := used(n), least+int64(2*n+2*max(0, n-16)); got != want { // a constant and a set for each
			t.Errorf("%d locals are set: used %d, want %d", n, got, want)
		}
	}
}

// TestMeter_Start: a start function no longer runs by itself: the host calls it, within a budget.
func TestMeter_Start(t *testing.T) {
	m := w.Module{Start: 1, Functions: []w.Function{{Code: []byte{w.Loop, w.Empty, w.Br, 0, w.End}}, {Export: "run",
		Code: nil}}}
	metered, err := fuel.Meter(m.Bytes(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for engine, r := range engines(t) {
		instance, err := r.Instantiate(context.Background(), metered)
		if err != nil {
			t.Fatal(engine, err)
		}
		_, ctx := budget(instance, 1000, sliced)
		if _, err = instance.ExportedFunction(fuel.StartExport).Call(ctx); err == nil || !strings.Contains(err.Error(),
			"out of fuel") {
			t.Errorf("%s: a start function that hangs: %v", engine, err)
		}
	}
}

// TestMeter_Refuses: the error names what cannot be metered; above all, a guest that reaches for the fuel itself.
func TestMeter_Refuses(t *testing.T) {
	run := func(code ...[]byte) w.Module {
		return w.Module{Functions: []w.Function{{Export: "run", Code: w.Join(code...)}}}
	}
	global := w.Join([]byte{w.I64, 1}, w.I64Const(5), []byte{w.End})
	with := func(m w.Module, change func(*w.Module)) []byte { change(&m); return m.Bytes() }
	good := run().Bytes()
	for text, wasm := range map[string][]byte{
		"global 0 of 0": run(w.I64Const(1<<40), w.Op(w.GlobalSet, 0)).Bytes(),
		"local 3 of 3": with(run(w.I32Const(0), w.I32Const(0), w.I32Const(0), []byte{0xfc, 11, 0},
			w.Op(w.LocalGet, 3), []byte{w.Drop}), func(m *w.Module) {
			m.Functions[0].Locals = []byte{w.I32, w.I64,
				w.I32}
		}),
		"imported function 0 other": with(run(), func(m *w.Module) {
			m.Imports, m.Table = []w.Import{{Module: "x",
				Name: "y"}}, []int{0}
		}),
		"imported function 0 other than": with(run(w.Op(0xd2, 0), []byte{w.Drop}),
			func(m *w.Module) { m.Imports = []w.Import{{Module: "x", Name: "y"}} }),
		"global 1 of 1": with(run(w.Op(w.GlobalGet, 1), []byte{w.Drop}),
			func(m *w.Module) { m.Globals = [][]byte{global} }),
		"a global that it does not have": with(run(), func(m *w.Module) {
			m.Exports = [][]byte{w.Join(w.Name("x"),
				[]byte{3, 0})}
		}),
		"the host's own": with(run(),
			func(m *w.Module) { m.Imports = []w.Import{{Module: fuel.ImportModule, Name: fuel.ImportName}} }),
		"exports dte_start": with(run(), func(m *w.Module) { m.Functions[0].Export = fuel.StartExport }),
		"exports dte_stack": with(run(), func(m *w.Module) { m.Functions[0].Export = fuel.StackExport }),
		"exports dte_fuel":  with(run(), func(m *w.Module) { m.Functions[0].Export = fuel.Export }),
		"instruction 0xfd":  run([]byte{0xfd, 12}, make([]byte, 16), []byte{w.Drop}).Bytes(),
		"instruction 0xfe":  run([]byte{0xfe, 3, 0}).Bytes(),
		"instruction 0x12":  run([]byte{0x12, 0}).Bytes(), // a tail call
		"instruction 0x6 ":  run([]byte{0x06, 0x40, w.End}).Bytes(),
		"instruction 0xfc 8 ": run(w.I32Const(0), w.I32Const(0), w.I32Const(0), []byte{0xfc, 8, 0,
			0}).Bytes(),
		"instruction 0xfc 15 ":       run([]byte{0xd0, 0x70}, w.I32Const(0), []byte{0xfc, 15, 0, w.Drop}).Bytes(),
		"instruction 0xff":           run([]byte{0xff}).Bytes(),
		"not a WebAssembly module":   []byte("PK\x03\x04 something else"),
		"ends within":                good[:len(good)-1],
		"it exports nothing":         w.Module{NoMemory: true, Functions: []w.Function{{}}}.Bytes(),
		"out of order":               append(bytes.Clone(good), 1, 1, 0),
		"section 13":                 append(bytes.Clone(good), 13, 1, 0),
		"longer than 32 bits":        run([]byte{0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, w.Drop}).Bytes(),
		"more than 32 bits":          run([]byte{0x41, 0x80, 0x80, 0x80, 0x80, 0x10, w.Drop}).Bytes(),
		"a number is longer than 5":  run([]byte{w.Br, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}).Bytes(),
		"follows the function's end": run([]byte{w.End, w.Loop, w.Empty, w.Br, 0, w.End}).Bytes(),
		"1001 locals, more than 1000": with(run(),
			func(m *w.Module) { m.Functions[0].Locals = bytes.Repeat([]byte{w.I64}, 1001) }),
		"65538 bytes, more than 65536": run(make([]byte, 1<<16)).Bytes(),
		"an else without its if":       run([]byte{w.Else}).Bytes(),
		"a branch to block 1 of 1":     run([]byte{w.Br, 1}).Bytes(),
		"it calls function 1 of 1":     run(w.Op(w.Call, 1)).Bytes(),
		"a block has the type 1 of 1":  run([]byte{w.Block, 1, w.End}).Bytes(),
		"starts with function 0, which": with(run(), func(m *w.Module) {
			m.Functions[0].Params,
				m.Start = []byte{w.I32}, 1
		}),
	} {
		if _, err := fuel.Meter(wasm, 1); !errors.Is(err, fuel.ErrModule) || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
	// Counts that lie, and sections that no compiler writes: engines would set memory aside for them.
	raw := func(id byte, content ...[]byte) []byte {
		return w.Join([]byte("\x00asm\x01\x00\x00\x00"), []byte{id}, w.Name(string(w.Join(content...))))
	}
	many := w.Unsigned(1 << 30)
	segment := func(items int) []byte {
		return w.Join([]byte{0}, w.I32Const(0), []byte{w.End}, w.Unsigned(items), make([]byte, items))
	}
	for text, wasm := range map[string][]byte{
		"imports env.g, which is not a function": raw(2, w.Vector(w.Join(w.Name("env"), w.Name("g"), []byte{3, w.I64,
			1}))),
		"section 1: a vector of 1073741824 items":  raw(1, many),
		"section 7: a vector of 1073741824 items":  raw(7, many),
		"section 11: a vector of 1073741824 items": raw(11, many),
		"section 9: a vector of 1073741824 items":  raw(9, []byte{1, 0}, w.I32Const(0), []byte{w.End}, many),
		"have 100001 items":                        raw(9, []byte{2}, segment(100_000), segment(1)),
		"20001 functions, more than 20000":         raw(3, w.Unsigned(20_001), make([]byte, 20_001)),
		"the table has 1073741824 items":           raw(4, []byte{1, 0x70, 0}, many),
		"not an active one of functions":           raw(9, []byte{1, 1, 0, 0}),
		"segment of the memory":                    raw(11, []byte{1, 1, 0}),
		"it is not a constant":                     raw(6, []byte{1, w.I64, 1, w.GlobalGet, 0, w.End}),
		"something follows its last item":          raw(6, []byte{0, 0}),
		"memory of another kind":                   raw(5, []byte{1, 4, 0}),
	} {
		if _, err := fuel.Meter(wasm, 1); !errors.Is(err, fuel.ErrModule) || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
}

// FuzzMeter: the rewrite of any bytes that Meter accepts is a valid module if and only if the bytes were one: it
// neither breaks a rule nor makes one of bytes that are none.
func FuzzMeter(f *testing.F) {
	for seed := range 20 {
		f.Add(random(rand.New(rand.NewPCG(uint64(seed), 1))))
	}
	f.Add(w.Module{Start: 1, Functions: []w.Function{{}, {Export: "run"}}}.Bytes())
	r := engines(f)["interpreter"]
	f.Fuzz(func(t *testing.T, wasm []byte) { sameValidity(t, r, wasm) })
}

func sameValidity(t testing.TB, r wazero.Runtime, wasm []byte) (valid bool) {
	t.Helper()
	metered, err := fuel.Meter(wasm, 1)
	if err != nil {
		return false
	}
	ctx := context.Background()
	before, errBefore := r.CompileModule(ctx, wasm)
	after, errAfter := r.CompileModule(ctx, metered)
	if errBefore != nil && strings.Contains(errBefore.Error(), "section custom") {
		return false // those are left out
	}
	if (errBefore == nil) != (errAfter == nil) {
		t.Fatalf("original: %v; metered: %v\n%x", errBefore, errAfter, wasm)
	}
	for _, c := range []wazero.CompiledModule{before, after} {
		if c != nil {
			_ = c.Close(ctx)
		}
	}
	return errBefore == nil
}

// TestMeter_Mutations runs the fuzz target over random damage to random modules, so that every run of the suite does
// some of it.
func TestMeter_Mutations(t *testing.T) {
	mutations := 1500
	if os.Getenv("DTE_SOAK") != "" {
		mutations = 400_000
	}
	r := engines(t)["interpreter"]
	rng := rand.New(rand.NewPCG(3, 4))
	valid := 0
	var wasm []byte
	for i := range mutations {
		if i%50 == 0 {
			wasm = random(rng)
		}
		b := bytes.Clone(wasm)
		for range 1 + rng.IntN(2) {
			b[8+rng.IntN(len(b)-8)] ^= 1 << rng.IntN(8)
		}
		if sameValidity(t, r, b) {
			valid++
		}
	}
	if valid < mutations/20 {
		t.Errorf("only %d of %d mutations stayed valid: they prove little", valid, mutations)
	}
}

func ExampleMeter() {
	// A function that never returns, exported as "run".
	forever := w.Module{Functions: []w.Function{{Export: "run", Code: []byte{w.Loop, w.Empty, w.Br, 0, w.End}}}}.Bytes()
	metered, err := fuel.Meter(forever, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	spent := func() { panic("it is enough") }
	_, _ = r.NewHostModuleBuilder(fuel.ImportModule).NewFunctionBuilder().WithFunc(spent).Export(
		fuel.ImportName).Instantiate(ctx)
	m, _ := r.Instantiate(ctx, metered)
	left := m.ExportedGlobal(fuel.Export).(api.MutableGlobal)
	left.Set(1000)
	_, err = m.ExportedFunction("run").Call(ctx)
	line, _, _ := strings.Cut(err.Error(), "\n")
	fmt.Println(line, int64(left.Get()))
	// Output: it is enough (recovered by wazero) -1
}
