package rules

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/rules/abi"
	w "dtegate/rules/asmtest"
	"dtegate/rules/bundle"
)

func host(t testing.TB, o Options) *Host {
	t.Helper()
	h, err := NewHost(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// answering is the code of a guest that answers a length.
func answering(length int) []byte { return w.I32Const(length) }

// constant is a guest that answers the same to everything: one line, one total.
func constant(amount int64) w.Module {
	out := abi.Output{Lines: []int64{amount}, Summary: []int64{amount}}
	message := w.Answer(&out, 1)
	g := w.Guest("", nil, w.Join(w.I32Const(w.BufferAt), w.I32Const(2048), w.I32Const(len(message)), []byte{0xfc, 10, 0,
		0}, w.I32Const(len(message))), nil)
	g.Data[2048] = string(message)
	return g
}

func oneLine() *abi.Input { return &abi.Input{Params: []int64{1}, Lines: []int64{1}, N: 1} }

func TestEvaluate(t *testing.T) {
	for _, engine := range []string{"compiler", "interpreter"} {
		h := host(t, Options{Engine: engine})
		m, err := h.Load(context.Background(), constant(7).Bytes())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				var out abi.Output
				if err := m.Evaluate(context.Background(), oneLine(), &out); err != nil || out.Summary[0] != 7 {
					t.Errorf("%s: got %+v, %v", engine, out, err)
				}
			})
		}
		wg.Wait()
		if n := len(m.code.idle); n == 0 || n > h.options.Instances {
			t.Errorf("%s: %d instances were kept", engine, n)
		}
		// The entries of dte_evaluate and dte_buffer, and the 48 bytes that the guest copies: the same in both engines.
		if m.Peak() != 2 {
			t.Errorf("%s: it used %d units", engine, m.Peak())
		}
		if m.Fuel() != 20_000_000 {
			t.Errorf("%s: its budget is %d", engine, m.Fuel())
		}
	}
}

// TestShare: bundles that carry the same module share its code, and the last one to leave closes it.
func TestShare(t *testing.T) {
	ctx := context.Background()
	h := host(t, Options{})
	held := func(want int) {
		t.Helper()
		if n := len(h.modules); n != want {
			t.Errorf("the host holds %d modules, want %d", n, want)
		}
	}
	a, err := h.Load(ctx, constant(1).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	b, _ := h.Load(ctx, constant(1).Bytes())
	c, _ := h.Load(ctx, constant(2).Bytes())
	held(2)
	if a.code != b.code || a.code == c.code {
		t.Error("the same bytes are not shared, or others are")
	}
	for range 2 { // the second Close does nothing
		if err := a.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	held(2)
	var out abi.Output
	if err := a.Evaluate(ctx, oneLine(), &out); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed module: %v", err)
	}
	if err := b.Evaluate(ctx, oneLine(), &out); err != nil {
		t.Errorf("closing one module closed another: %v", err)
	}
	_ = b.Close(ctx)
	_ = c.Close(ctx)
	held(0)
}

// TestClose_UnderWay: a call that is under way when its module is closed finishes.
func TestClose_UnderWay(t *testing.T) {
	ctx := context.Background()
	h := host(t, Options{})
	m, err := h.Load(ctx, constant(7).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.code.get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	var out abi.Output
	if _, err := i.call(oneLine(), &out, 1000); err != nil || out.Summary[0] != 7 {
		t.Errorf("got %+v, %v", out, err)
	}
	m.code.put(ctx, i, true)
	if !i.module.IsClosed() || len(m.code.idle) != 0 {
		t.Error("an instance came back to a closed module")
	}
}

// TestForgotten: modules that nobody closes are closed all the same.
func TestForgotten(t *testing.T) {
	h := host(t, Options{})
	if _, err := h.Load(context.Background(), constant(7).Bytes()); err != nil {
		t.Fatal(err)
	}
	for range 1000 { // the cleanup runs some time after a collection
		runtime.GC()
		h.mu.Lock()
		n := len(h.modules)
		h.mu.Unlock()
		if n == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Error("the module is still there")
}

// TestCache_Private: a cache folder is used only if it is the user's own and nobody else can write to it.
func TestCache_Private(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	private := func() string { // or why it is not used
		t.Helper()
		switch _, unusable, logged := cacheStart(t, dir); unusable {
		case 0:
			return ""
		default:
			return logged
		}
	}
	mode := func() os.FileMode {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if why := private(); why != "" || mode() != 0o700 {
		t.Fatalf("got %v, %v", mode(), why)
	}
	files(t, dir)
	_ = os.Chmod(dir, 0o755)
	if why := private(); why != "" || mode() != 0o700 {
		t.Errorf("readable by others: got %v, %v", mode(), why)
	}
	_ = os.Chmod(dir, 0o770)
	if why := private(); !strings.Contains(why, "written by others") {
		t.Errorf("written by others: %v", why)
	}
	_ = os.Chmod(dir, 0o700)
	if os.Geteuid() == 0 {
		_ = os.Chown(dir, 12345, -1)
		if why := private(); !strings.Contains(why, "belongs to user 12345") {
			t.Errorf("another's: %v", why)
		}
	}
	real := dir
	dir += "-link"
	if err := os.Symlink(real, dir); err != nil {
		t.Fatal(err)
	}
	if why := private(); !strings.Contains(why, "is not a folder") {
		t.Errorf("a link was taken for a folder: %v", why)
	}
}

func TestEngine(t *testing.T) {
	if _, err := NewHost(context.Background(), Options{Engine: "jit"}); err == nil {
		t.Error("an unknown engine was taken")
	}
	h := host(t, Options{Engine: "interpreter"})
	if h.Engine() != "interpreter" {
		t.Error(h.Engine())
	}
	if _, err := h.Load(context.Background(), constant(1).Bytes()); err != nil {
		t.Fatal(err)
	}
	values := metrictest.Values(t, h)
	for name, want := range map[string]float64{"dte_rule_engine_info/interpreter": 1, "dte_rule_modules": 1,
		"dte_rule_evaluation_fuel_units": 0, "dte_rule_failures_total/fuel": 0} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestGiven: what a guest gets from its environment is bounded and always the same.
func TestGiven(t *testing.T) {
	i32, i64 := byte(w.I32), byte(w.I64)
	imports := []w.Import{
		{Module: wasi, Name: "random_get", Params: []byte{i32, i32}, Results: []byte{i32}},
		{Module: wasi, Name: "clock_time_get", Params: []byte{i32, i64, i32}, Results: []byte{i32}},
		{Module: wasi, Name: "fd_write", Params: []byte{i32, i32, i32, i32}, Results: []byte{i32}},
		{Module: wasi, Name: "poll_oneoff", Params: []byte{i32, i32, i32, i32}, Results: []byte{i32}},
		{Module: wasi, Name: "proc_exit", Params: []byte{i32}},
		{Module: wasi, Name: "args_sizes_get", Params: []byte{i32, i32}, Results: []byte{i32}},
		{Module: wasi, Name: "environ_sizes_get", Params: []byte{i32, i32}, Results: []byte{i32}},
	}
	// want traps unless the code before it left that number.
	want := func(n int) []byte {
		return w.Join(w.I32Const(n), []byte{0x47, w.If, w.Empty, w.Unreachable, w.End})
	}
	call := func(f int, args ...int) (code []byte) {
		for i, a := range args {
			if f == 1 && i == 1 {
				code = append(code, w.I64Const(int64(a))...)
				continue
			}
			code = append(code, w.I32Const(a)...)
		}
		return append(code, w.Op(w.Call, f)...)
	}
	g := w.Guest("", nil, nil, nil)
	g.Imports = imports
	store := func(at, n int) []byte { return w.Join(w.I32Const(at), w.I32Const(n), w.Op(w.I32Store, 2, 0)) }
	g.Data[3000] = "panic: the sum is wrong"
	// none: there are no arguments and no environment, whatever stood in the memory.
	none := func(f int) []byte {
		return w.Join(store(4096, -1), store(4100, -1), call(f, 4096, 4100), want(0), w.I32Const(4096), w.Op(w.I32Load,
			2, 0), want(0), w.I32Const(4100), w.Op(w.I32Load, 2, 0), want(0),
			call(f, 4*65536-2, 4096), want(errnoInval), call(f, 4096, 4*65536-2), want(errnoInval))
	}
	g.Functions[w.Initialize].Code = w.Join(
		none(5), none(6),
		call(0, 4096, 256), want(0), call(0, 4096, 257), want(errnoInval), call(0, 4*65536-8, 16), want(errnoInval),
		call(1, 0, 1, 4096), want(0), call(1, 0, 1, 4*65536-4), want(errnoInval),
		// The second look was the refused one; this is the third, in ms.
		call(1, 0, 1, 4096), want(0), w.I32Const(4096), w.Op(w.I32Load, 2, 0), want(3e6),
		call(2, 3, 4096, 1, 4200), want(errnoBadf), call(2, 1, 20000, 8, 4200), want(0), call(2, 1, 20000, 9, 4200),
		want(errnoInval),
		store(5000+8, 0x1ff), call(3, 5000, 6000, 1, 6100), want(0), w.I32Const(6000), w.Op(0x2f, 1, 10), want(0xff),
		call(3, 5000, 6000, 2, 6100), want(errnoInval),
		store(4096, 3000), store(4100, 23), call(2, 2, 4096, 1, 4200), want(0), w.I32Const(4200), w.Op(w.I32Load, 2, 0),
		want(23),
		call(4, 3))
	for _, engine := range []string{"compiler", "interpreter"} {
		h := host(t, Options{Engine: engine})
		_, err := h.Load(context.Background(), g.Bytes())
		for _, text := range []string{"_initialize: it left with proc_exit(3)", `it wrote "panic: the sum is wrong"`} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: want %q, got %v", engine, text, err)
			}
		}
	}
}

// TestSaid: what a guest wrote in a call that succeeded is not reported with one that failed.
func TestSaid(t *testing.T) {
	say := func(at int) []byte { // the five bytes there
		return w.Join(w.I32Const(64), w.I32Const(at), w.Op(w.I32Store, 2, 0), w.I32Const(68), w.I32Const(5),
			w.Op(w.I32Store, 2, 0),
			w.I32Const(2), w.I32Const(64), w.I32Const(1), w.I32Const(72), w.Op(w.Call, 0), []byte{w.Drop})
	}
	g := constant(7)
	g.Imports = []w.Import{{Module: wasi, Name: "fd_write", Params: []byte{w.I32, w.I32, w.I32, w.I32},
		Results: []byte{w.I32}}}
	g.Data[3000], g.Data[3100] = "first", "later"
	again := w.Join(w.I32Const(80), w.Op(w.I32Load, 2, 0), []byte{w.If, w.Empty}, say(3100), []byte{w.Unreachable,
		w.End},
		w.I32Const(80), w.I32Const(1), w.Op(w.I32Store, 2, 0))
	g.Functions[w.Evaluate].Code = w.Join(again, say(3000), g.Functions[w.Evaluate].Code)
	m, err := host(t, Options{Instances: 1}).Load(context.Background(), g.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Evaluate(context.Background(), oneLine(), new(abi.Output)); err != nil {
		t.Fatal(err)
	}
	if err := m.Evaluate(context.Background(), oneLine(), new(abi.Output)); err == nil ||
		!strings.HasSuffix(err.Error(), `it wrote "later"`) {
		t.Errorf("got %v", err)
	}
}

// TestSaid_Most: of what a guest writes, only the beginning is kept and reported.
func TestSaid_Most(t *testing.T) {
	g := w.Guest("", nil, w.Join(w.I32Const(64), w.I32Const(3000), w.Op(w.I32Store, 2, 0), w.I32Const(68),
		w.I32Const(maxSaid-100), w.Op(w.I32Store, 2, 0), bytes.Repeat(w.Join(w.I32Const(1), w.I32Const(64),
			w.I32Const(1), w.I32Const(72), w.Op(w.Call, 0), []byte{w.Drop}), 3), []byte{w.Unreachable}), nil)
	g.Imports = []w.Import{{Module: wasi, Name: "fd_write", Params: []byte{w.I32, w.I32, w.I32, w.I32},
		Results: []byte{w.I32}}}
	g.Data[3000] = strings.Repeat("x", maxSaid)
	m, err := host(t, Options{}).Load(t.Context(), g.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Evaluate(t.Context(), oneLine(), new(abi.Output)); err == nil ||
		!strings.HasSuffix(err.Error(), `it wrote "`+strings.Repeat("x", maxSaid)+`"`) {
		t.Errorf("got %v", err)
	}
}

// TestFailures: each failure of a module counts once, under its own reason.
func TestFailures(t *testing.T) {
	evaluate := func(m *Module) error { return m.Evaluate(t.Context(), oneLine(), new(abi.Output)) }
	for reason, c := range map[string]struct {
		code []byte
		fail func(*Module) error
	}{
		"trap": {nil, evaluate},
		"fuel": {forever, evaluate},
		"contradiction": {nil, func(m *Module) error {
			m.Contradicted()
			return ErrTrap
		}},
	} {
		h := host(t, Options{})
		m, err := h.Load(t.Context(), w.Guest("", nil, c.code, nil).Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.fail(m); !errors.Is(err, ErrTrap) {
			t.Errorf("%s: %v", reason, err)
		}
		for name, n := range metrictest.Values(t, h) {
			if of, ok := strings.CutPrefix(name, "dte_rule_failures_total/"); ok && (n == 1) != (of == reason) {
				t.Errorf("%s: %s is %v", reason, name, n)
			}
		}
	}
}

func TestLoadBundle(t *testing.T) {
	h := host(t, Options{MaxFuel: 5000, Fuel: 1000})
	rate := bundle.Param{Name: "rate", Value: "0.13", Source: "x"}
	for _, c := range []struct {
		want string
		m    bundle.Manifest
	}{
		{"", bundle.Manifest{Kind: "document", ABI: 1, Params: []bundle.Param{rate}}},
		{"", bundle.Manifest{Params: []bundle.Param{rate}, Fuel: 5000}},
		{"the manifest has none", bundle.Manifest{}},
		{"gives parameter other, the module knows none", bundle.Manifest{Params: []bundle.Param{rate, {Name: "other",
			Value: "1"}}}},
		{"asks for 5001 units of fuel, at most 5000", bundle.Manifest{Params: []bundle.Param{rate}, Fuel: 5001}},
		{"names interface 2, the module speaks 1", bundle.Manifest{Kind: "document", ABI: 2,
			Params: []bundle.Param{rate}}},
	} {
		b := &bundle.Bundle{Manifest: c.m, Parts: map[string][]byte{"module.wasm": constant(1).Bytes()}}
		r, err := h.LoadBundle(context.Background(), b)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q, got %v", c.want, err)
			}
			continue
		}
		if err != nil || r.Params[0] != 13_000_000 || r.Module.Fuel() != max(1000, c.m.Fuel) {
			t.Errorf("got %+v, %v", r, err)
		}
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if len(h.modules) != 0 {
		t.Errorf("%d modules were left behind", len(h.modules))
	}
}

func TestDescription(t *testing.T) {
	h := host(t, Options{})
	wide := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	for text, d := range map[string]string{
		"unexpected EOF":                               `{"abi":1,`,
		"speaks interface 2":                           `{"abi":2}`,
		`unknown field "sums"`:                         `{"abi":1,"sums":[]}`,
		"name: is missing":                             `{"abi":1}`,
		`columns[1] a: kind "float" is not one of`:     `{"abi":1,"name":"x","columns":[{"name":"b","kind":"flag"},{"name":"a","kind":"float"}]}`,
		`columns[1]: "a" is columns[0] already`:        `{"abi":1,"name":"x","columns":[{"name":"a","kind":"flag"},{"name":"a","kind":"flag"}]}`,
		`line_outputs[0] a: kind "flag" is not one of`: `{"abi":1,"name":"x","line_outputs":[{"name":"a","kind":"flag"}]}`,
		`scalars[0] a: kind "enum" with 0 values`:      `{"abi":1,"name":"x","scalars":[{"name":"a","kind":"enum"}]}`,
		"a set of 63 values, more than 62":             `{"abi":1,"name":"x","scalars":[{"name":"a","kind":"set","values":` + wide(63, `"v"`) + `}]}`,
		"taxes[2]: has no name":                        `{"abi":1,"name":"x","taxes":["20","59",""]}`,
		"summary: 257 of them, at most 256":            `{"abi":1,"name":"x","summary":` + wide(257, `"s"`) + `}`,
		"faults[0].message: is missing":                `{"abi":1,"name":"x","faults":[{"code":"X"}]}`,
	} {
		if _, err := h.Load(context.Background(), w.Guest(d, nil, nil, nil).Bytes()); !errors.Is(err, ErrModule) ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
	if n := len(h.modules); n != 0 {
		t.Errorf("%d modules were left behind", n)
	}
}

func TestLoad_Size(t *testing.T) {
	h := host(t, Options{})
	if _, err := h.Load(context.Background(), bytes.Repeat([]byte{0}, 100<<20)); !errors.Is(err, ErrModule) ||
		!strings.Contains(err.Error(), "104857600 bytes, more than 16777216") {
		t.Errorf("100 MiB: %v", err)
	}
}
