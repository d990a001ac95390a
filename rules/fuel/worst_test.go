package fuel_test

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	w "dtegate/rules/asmtest"
	"dtegate/rules/fuel"
)

// TestMeter_Worst: a guest that makes the most of every unit gets at most worstUnit of processor time for it, compiled.
// Each guest here cost 2 to 200 times as much before its price was set.
func TestMeter_Worst(t *testing.T) {
	endless := func(code ...[]byte) []byte {
		return w.Join([]byte{w.Loop, w.Empty}, w.Join(code...), []byte{w.Br, 0, w.End})
	}
	fold := func(ops ...byte) []byte { // of local 1 into local 0, 32 times
		return w.Join(w.Op(w.LocalGet, 0), bytes.Repeat(w.Join(w.Op(w.LocalGet, 1), ops), 32), w.Op(w.LocalSet, 0))
	}
	merges := func(n, locals int) []byte { // nested blocks, after each of which all locals may differ
		code := bytes.Repeat([]byte{w.Block, w.Empty}, n)
		for k := range n {
			code = w.Join(code, w.Op(w.LocalGet, 0), w.Op(w.BrIf, k))
		}
		for l := 1; l < locals; l++ {
			code = w.Join(code, w.Op(w.LocalGet, l), []byte{w.I32Eqz}, w.Op(w.LocalSet, l))
		}
		return w.Join(code, bytes.Repeat([]byte{w.End}, n))
	}
	bulk := func(ops ...byte) []byte {
		return bytes.Repeat(w.Join(w.I32Const(0), w.I32Const(0), w.I32Const(63), ops), 20)
	}
	floats, sixteen := []byte{w.F64, w.F64}, bytes.Repeat([]byte{w.I64}, 16)
	swapped := w.Function{Params: sixteen, Results: sixteen}
	for i := range 16 {
		swapped.Code = append(swapped.Code, w.Op(w.LocalGet, 15-i)...)
	}
	for name, f := range map[string]w.Function{
		"an empty loop":        {Code: endless()},
		"merges of 20 locals":  {Locals: bytes.Repeat([]byte{w.I32}, 20), Code: endless(merges(300, 20))},
		"merges of 160 locals": {Locals: bytes.Repeat([]byte{w.I32}, 160), Code: endless(merges(300, 160))},
		"merges of 900 locals": {Locals: bytes.Repeat([]byte{w.I32}, 900), Code: endless(merges(50, 900))},
		"references":           {Code: endless(bytes.Repeat(w.Join(w.Op(0xd2, 0), []byte{w.Drop}), 30))},
		"fills of 63 bytes":    {Code: endless(bulk(0xfc, 11, 0))},
		"copies of 63 bytes":   {Code: endless(bulk(0xfc, 10, 0, 0))},
		"divisions and roots":  {Locals: floats, Code: endless(fold(0xa3, 0x9f))},
		"remainders": {Locals: []byte{w.I64, w.I64}, Code: w.Join(w.I64Const(7), w.Op(w.LocalSet, 1),
			endless(w.I64Const(-3), w.Op(w.LocalSet, 0), fold(0x81)))},
		"conversions": {Locals: floats, Code: endless(bytes.Repeat(w.Join(w.Op(w.LocalGet, 0),
			[]byte{0xfc, 7, 0xba}, w.Op(w.LocalSet, 0)), 20))},
		"calls that give 16": {Code: endless(bytes.Repeat(w.I64Const(1), 16), bytes.Repeat(w.Op(w.Call, 0), 30),
			bytes.Repeat([]byte{w.Drop}, 16))},
		"calls that give nothing": {Code: endless(bytes.Repeat(w.Op(w.Call, 1), 30))},
		"growth by nothing":       {Code: endless(bytes.Repeat(w.Join(w.I32Const(0), []byte{0x40, 0, w.Drop}), 20))},
		"chains of 150 locals":    {Locals: bytes.Repeat([]byte{w.I32}, 150), Code: endless(chain(150))},
	} {
		f.Export = "run"
		m := w.Module{Pages: soundPages, Table: []int{0}, Functions: []w.Function{swapped, {}, f}}
		metered := meter(t, m.Bytes())
		runtime.LockOSThread()
		const units = 300_000
		o := soundRun(t, wazero.NewRuntimeConfigCompiler(), metered, units)
		runtime.UnlockOSThread()
		unit := o.running / units
		t.Logf("%s: %v a unit", name, unit)
		if o.fuel >= 0 || o.running > noise/2*units*worstUnit+10*time.Millisecond {
			t.Errorf("%s: %v a unit, more than %v; %d left", name, unit, worstUnit, o.fuel)
		}
	}
}

// chain adds up locals that are too many for registers.
func chain(n int) (code []byte) {
	for l := range n {
		code = w.Join(code, w.Op(w.LocalGet, l), w.Op(w.LocalGet, (l+37)%n), []byte{w.I32Add}, w.Op(w.LocalSet, l))
	}
	return code
}

// TestMeter_Work: shapes on which a compiler works long, in a module of a few bytes, are compiled within the estimate.
func TestMeter_Work(t *testing.T) {
	for name, m := range map[string]w.Module{
		"calls, and globals that are read again after each": {Globals: slices.Repeat([][]byte{w.Join([]byte{w.I64, 1},
			w.I64Const(5), []byte{w.End})}, 150),
			Functions: []w.Function{{}, {Export: "run", Results: []byte{w.I64},
				Code: w.Join(bytes.Repeat(w.Op(w.Call, 0), 3000), w.I64Const(1))}}},
		"loops in a row": {Functions: []w.Function{{Export: "run", Results: []byte{w.I64},
			Code: w.Join(bytes.Repeat([]byte{w.Loop, w.Empty, w.End}, 1000), w.I64Const(1))}}},
	} {
		m.Pages = 1
		wasm := m.Bytes()
		work, err := fuel.Work(wasm)
		if err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread()
		o := soundRun(t, wazero.NewRuntimeConfigCompiler(), meter(t, wasm), soundFuel)
		runtime.UnlockOSThread()
		t.Logf("%s: %v, estimated at %v", name, o.compiling, time.Duration(work))
		if o.compiling > noise/2*time.Duration(work)+10*time.Millisecond {
			t.Errorf("%s: compiled in %v, estimated at %v", name, o.compiling, time.Duration(work))
		}
	}
}
