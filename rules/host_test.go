package rules

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

// guest assembles a WebAssembly module by hand: three functions over one memory that holds a description.
type guest struct {
	description string
	buffer      []byte // body of dte_buffer; default: returns 65536
	evaluate    []byte // body of dte_evaluate
	start       []byte // body of _initialize, if any
	pages       byte   // of memory, default 4
	rename      map[string]string
	evalResult  byte   // result type of dte_evaluate, default i32
	imports     string // "module.name" of a function () → ()
}

const (
	i32, i64    = 0x7f, 0x7e
	unreachable = 0x00
)

var (
	forever   = []byte{0x03, 0x40, 0x0c, 0x00, 0x0b, 0x41, 0x00} // loop br 0 end; i32.const 0
	trap      = []byte{unreachable}
	recursive = []byte{0x20, 0x00, 0x10, 0x02}                                                 // local.get 0; call itself
	grower    = []byte{0x03, 0x40, 0x41, 0x01, 0x40, 0x00, 0x1a, 0x0c, 0x00, 0x0b, 0x41, 0x00} // loop: memory.grow 1, again
)

func answering(length int32) []byte { return append([]byte{0x41}, signed(int64(length))...) }

func signed(n int64) []byte {
	var b []byte
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func unsigned(n int) []byte {
	var b []byte
	for {
		c := byte(n & 0x7f)
		if n >>= 7; n == 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func vector(items ...[]byte) []byte { return join(append([][]byte{unsigned(len(items))}, items...)...) }

func section(id byte, body []byte) []byte { return join([]byte{id}, unsigned(len(body)), body) }

func name(s string) []byte { return join(unsigned(len(s)), []byte(s)) }

const okDescription = `{"abi":1,"name":"x","params":[{"name":"rate","unit":"ratio"}],"scalars":[],"columns":[{"name":"cantidad","kind":"amount"}],"line_outputs":[],"summary":[],"taxes":[],"faults":[{"code":"X","message":"x"}]}`

func (g guest) wasm() []byte {
	if g.description == "" {
		g.description = okDescription
	}
	if g.buffer == nil {
		g.buffer = answering(65536)
	}
	if g.pages == 0 {
		g.pages = 4
	}
	if g.evalResult == 0 {
		g.evalResult = i32
	}
	types := vector([]byte{0x60, 0, 1, i64}, []byte{0x60, 1, i32, 1, i32}, []byte{0x60, 1, i32, 1, g.evalResult}, []byte{0x60, 0, 0})
	var imports []byte
	first := 0
	if module, function, ok := strings.Cut(g.imports, "."); ok {
		imports = section(2, vector(join(name(module), name(function), []byte{0, 3})))
		first = 1
	}
	functions := [][]byte{{0}, {1}, {2}}
	describe := join([]byte{0x42}, signed(1024<<32|int64(len(g.description))))
	bodies := [][]byte{describe, g.buffer, g.evaluate}
	export := func(n string, index int) []byte {
		if r, ok := g.rename[n]; ok {
			n = r
		}
		return join(name(n), []byte{0}, unsigned(first+index))
	}
	exports := [][]byte{join(name("memory"), []byte{2, 0}), export("dte_describe", 0), export("dte_buffer", 1), export("dte_evaluate", 2)}
	if g.start != nil {
		functions, bodies = append(functions, []byte{3}), append(bodies, g.start)
		exports = append(exports, export("_initialize", 3))
	}
	var code [][]byte
	for _, b := range bodies {
		body := join([]byte{0}, b, []byte{0x0b})
		code = append(code, join(unsigned(len(body)), body))
	}
	return join([]byte("\x00asm\x01\x00\x00\x00"), section(1, types), imports, section(3, vector(functions...)),
		section(5, vector([]byte{0, g.pages})), section(7, vector(exports...)), section(10, vector(code...)),
		section(11, vector(join([]byte{0, 0x41}, signed(1024), []byte{0x0b}, name(g.description)))))
}

func host(t testing.TB, engine string) *Host {
	t.Helper()
	h, err := NewHost(context.Background(), Options{Engine: engine, Timeout: 50 * time.Millisecond, MemoryPages: 64})
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

// TestLoad_Refuses: a module that is not a rule is refused with a sentence for its fault.
func TestLoad_Refuses(t *testing.T) {
	h := host(t, "compiler")
	for text, wasm := range map[string][]byte{
		"invalid magic number":             []byte("not wasm at all"),
		"imports env.open":                 guest{evaluate: trap, imports: "env.open"}.wasm(),
		"imports wasi_snapshot_preview1.s": guest{evaluate: trap, imports: "wasi_snapshot_preview1.sock_accept"}.wasm(),
		"does not export dte_evaluate":     guest{evaluate: trap, rename: map[string]string{"dte_evaluate": "evaluate"}}.wasm(),
		"dte_evaluate has another type":    guest{evaluate: trap, evalResult: i64}.wasm(),
		"description":                      guest{evaluate: trap, description: `{"abi":1,`}.wasm(),
		"speaks interface 2":               guest{evaluate: trap, description: `{"abi":2}`}.wasm(),
		"kind \"float\"":                   guest{evaluate: trap, description: `{"abi":1,"columns":[{"name":"a","kind":"float"}]}`}.wasm(),
		"starting an instance":             guest{evaluate: trap, start: trap}.wasm(),
		"more than":                        make([]byte, 17<<20),
	} {
		if _, err := h.Load(context.Background(), wasm); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
	if _, err := NewHost(context.Background(), Options{Engine: "jit"}); err == nil {
		t.Error("an unknown engine was taken")
	}
}

// TestEvaluate_Hostile: a module that misbehaves costs its call an error, in time and in memory, and the next call
// works on a fresh instance.
func TestEvaluate_Hostile(t *testing.T) {
	for _, engine := range []string{"compiler", "interpreter"} {
		h := host(t, engine)
		for label, g := range map[string]guest{
			"traps":                        {evaluate: trap},
			"loops for ever":               {evaluate: forever},
			"recurses for ever":            {evaluate: recursive},
			"takes all memory, for ever":   {evaluate: grower},
			"answers nothing":              {evaluate: answering(0)},
			"answers a negative length":    {evaluate: answering(-1)},
			"answers too long":             {evaluate: answering(1 << 30)},
			"answers its own input":        {evaluate: answering(48)},
			"buffer outside its memory":    {evaluate: answering(32), buffer: answering(-65536)},
			"buffer at the memory's end":   {evaluate: answering(32), buffer: answering(4*65536 - 8)},
			"dte_buffer traps":             {evaluate: answering(32), buffer: trap},
			"dte_buffer loops for ever":    {evaluate: answering(32), buffer: forever},
			"answers one byte of a header": {evaluate: answering(1)},
		} {
			m, err := h.Load(context.Background(), g.wasm())
			if err != nil {
				t.Fatalf("%s: %v", label, err)
			}
			for range 2 {
				began := time.Now()
				in := abi.Input{Params: []int64{1}, Lines: []int64{1}, N: 1}
				err := m.Evaluate(context.Background(), &in, new(abi.Output))
				if !errors.Is(err, ErrTrap) {
					t.Errorf("%s, %s: got %v", engine, label, err)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s, %s: took %v", engine, label, took)
				}
				if len(m.idle) != 0 {
					t.Errorf("%s, %s: an instance that failed went back to the pool", engine, label)
				}
			}
		}
	}
}

func TestEvaluate_Concurrent(t *testing.T) {
	h := host(t, "compiler")
	m, err := h.Load(context.Background(), guest{evaluate: trap}.wasm())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			in := abi.Input{Params: []int64{1}, Lines: []int64{1}, N: 1}
			if err := m.Evaluate(context.Background(), &in, new(abi.Output)); !errors.Is(err, ErrTrap) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func rule(version, document string, windows map[string]bundle.Window) *Rule {
	return &Rule{Bundle: &bundle.Bundle{Manifest: bundle.Manifest{Name: "x", Version: version, Kind: "document", Document: document, Validity: windows}}}
}

func window(from, until string) map[string]bundle.Window {
	return map[string]bundle.Window{"00": {From: "2026-01-01"}, "01": {From: from, Until: until}}
}

func TestGeneration_Pick(t *testing.T) {
	old, next, mended := rule("1.0.0", "01", window("2023-01-01", "2026-11-30")), rule("2.0.0", "01", window("2026-12-01", "")), rule("2.0.10", "01", window("2026-12-01", ""))
	g, err := NewGeneration(mended, next, old)
	if err != nil {
		t.Fatal(err)
	}
	for day, want := range map[string]*Rule{"2026-11-30": old, "2026-12-01": mended, "2030-01-01": mended} {
		if got, err := g.Pick("document", "01", "01", day); err != nil || got != want {
			t.Errorf("%s: got %v, %v", day, got, err)
		}
	}
	for _, c := range [][3]string{{"01", "01", "2022-12-31"}, {"03", "01", "2026-12-01"}, {"01", "02", "2026-12-01"}} {
		if _, err := g.Pick("document", c[0], c[1], c[2]); !errors.Is(err, ErrNoRule) {
			t.Errorf("%v: %v", c, err)
		}
	}
	alone, _ := NewGeneration(old)
	if got, err := alone.Pick("document", "01", "01", "2026-12-24"); err != nil || got != old || !old.Expired("01", "2026-12-24") || old.Expired("01", "2026-11-30") {
		t.Errorf("expired without a successor: %v, %v", got, err)
	}
	if _, err := NewGeneration(next, rule("2.0.0", "01", window("2026-12-01", ""))); err == nil {
		t.Error("two rules of one version begin on one day")
	}
}

func TestLoadBundle_Params(t *testing.T) {
	h := host(t, "compiler")
	for want, params := range map[string][]bundle.Param{
		"":                    {{Name: "rate", Value: "0.13", Source: "x"}},
		"the manifest has no": nil,
		"the module knows no": {{Name: "rate", Value: "0.13"}, {Name: "other", Value: "1"}},
	} {
		b := &bundle.Bundle{Manifest: bundle.Manifest{Params: params}, Parts: map[string][]byte{"module.wasm": guest{evaluate: trap}.wasm()}}
		r, err := h.LoadBundle(context.Background(), b)
		if want == "" && (err != nil || r.Params[0] != 13_000_000) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
