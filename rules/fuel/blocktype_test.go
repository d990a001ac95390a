package fuel_test

import (
	"bytes"
	"testing"

	w "dtegate/rules/asmtest"
	"dtegate/rules/fuel"
)

// TestMeter_BlockTypes: a metered block does what it does unmetered, and costs the same, whether its type is the first
// of the module or the second.
func TestMeter_BlockTypes(t *testing.T) {
	const block = 0x02
	many := bytes.Repeat([]byte{w.I64}, 16)
	for name, b := range map[string]struct {
		params, results []byte
		code            []byte
	}{
		"takes one":             {[]byte{w.I64}, nil, []byte{w.Drop}},
		"takes two, leaves one": {[]byte{w.I64, w.I64}, []byte{w.I64}, []byte{w.I64Add}},
		"leaves one":            {nil, []byte{w.I64}, w.I64Const(1)},
		"leaves many, two ways": {nil, many, w.Join(bytes.Repeat(w.I64Const(1), 16), w.Op(w.LocalGet, 0),
			[]byte{w.I64Eqz}, w.Op(w.BrIf, 0))},
	} {
		var used [2]int64
		for at := range 2 {
			var code []byte
			for range b.params {
				code = append(code, w.Op(w.LocalGet, 0)...)
			}
			code = w.Join(code, []byte{block}, w.Signed(int64(at)), b.code, []byte{w.End}, bytes.Repeat([]byte{w.Drop},
				len(b.results)))
			code = w.Join(bytes.Repeat(code, 50), w.I64Const(7)) // so that the price of one shows in whole units
			types := [][]byte{w.Type(b.params, b.results), w.Type(b.params, b.results)}
			types[1-at] = w.Type([]byte{w.I32, w.I32, w.I32}, nil)
			metered := meter(t, w.Module{Types: types, Functions: []w.Function{{Export: "run", Params: []byte{w.I64},
				Results: []byte{w.I64}, Code: code}}}.Bytes())
			for engine, r := range engines(t) {
				o := compile(t, r, metered).run(t, plenty, 3)
				if o.result != 7 || o.failure != "" {
					t.Errorf("%s, type %d, %s: %+v", name, at, engine, o)
				}
				used[at] = o.used
			}
		}
		if used[0] != used[1] {
			t.Errorf("%s: used %d with the first type, %d with the second", name, used[0], used[1])
		}
	}
}

// TestMeter_Height: what blocks leave on the operand stack counts for its limit, whatever the index of their type.
func TestMeter_Height(t *testing.T) {
	many := bytes.Repeat([]byte{w.I64}, 16)
	for at := range 2 {
		types := [][]byte{w.Type(nil, many), w.Type(nil, many)}
		types[1-at] = w.Type([]byte{w.I32, w.I32, w.I32}, nil)
		one := w.Join([]byte{0x02}, w.Signed(int64(at)), bytes.Repeat(w.I64Const(1), 16), []byte{w.End})
		for _, blocks := range []int{600, 700} { // 10,000 values are the most
			code := w.Join(bytes.Repeat(one, blocks), bytes.Repeat([]byte{w.Drop}, 16*blocks), w.I64Const(7))
			_, err := fuel.Meter(w.Module{Types: types, Functions: []w.Function{{Export: "run", Params: []byte{w.I64},
				Results: []byte{w.I64}, Code: code}}}.Bytes(), plenty)
			if (err != nil) != (blocks == 700) {
				t.Errorf("%d blocks of type %d: %v", blocks, at, err)
			}
		}
	}
}
