package fuel_test

import (
	"math/rand/v2"

	w "dtegate/rules/asmtest"
)

// random makes a valid module of three functions that call only functions of a lower index, with loops that end,
// branches, a table, memory that is read, written, filled, copied and grown. "run" takes and returns an i64.
func random(rng *rand.Rand) []byte {
	g := &generator{rng: rng}
	m := w.Module{Pages: 1, Table: []int{0, 1}, Globals: [][]byte{w.Join([]byte{w.I64, 1}, w.I64Const(rng.Int64()),
		[]byte{w.End})},
		Data: map[int]string{0: "sixteen bytes !!"}}
	for i := range 3 {
		g.callee = i
		f := w.Function{Params: []byte{w.I64}, Results: []byte{w.I64}, Locals: []byte{w.I64, w.I64, w.I32, w.I32, w.I32,
			w.I32}}
		g.depth, g.loops = 0, 0
		f.Code = w.Join(g.statements(2+rng.IntN(6)), g.value(3))
		m.Functions = append(m.Functions, f)
	}
	m.Functions[2].Export = "run"
	return m.Bytes()
}

// generator of code; locals 0 to 2 are i64, 3 to 6 count the turns of nested loops.
type generator struct {
	rng    *rand.Rand
	callee int // functions below it may be called
	depth  int // of open blocks
	loops  int // of open loops
}

func (g *generator) statements(n int) (code []byte) {
	for range n {
		code = append(code, g.statement()...)
	}
	return code
}

func (g *generator) statement() []byte {
	g.depth++
	defer func() { g.depth-- }()
	kind := g.rng.IntN(10)
	if g.depth > 5 && kind < 4 {
		kind += 4
	}
	switch kind {
	case 0, 1: // a loop of up to 7 turns
		if g.loops == 4 {
			return nil
		}
		counter := 3 + g.loops
		g.loops++
		inner := g.statements(1 + g.rng.IntN(3))
		g.loops--
		return w.Join(w.I32Const(g.rng.IntN(8)), w.Op(w.LocalSet, counter), []byte{w.Block, w.Empty, w.Loop, w.Empty},
			w.Op(w.LocalGet, counter), []byte{w.I32Eqz}, w.Op(w.BrIf, 1),
			w.Op(w.LocalGet, counter), w.I32Const(1), []byte{w.I32Sub}, w.Op(w.LocalSet, counter),
			inner, w.Op(w.Br, 0), []byte{w.End, w.End})
	case 2: // if, else
		return w.Join(g.value(2), []byte{w.I64Eqz, w.If, w.Empty}, g.statements(1+g.rng.IntN(2)), []byte{w.Else},
			g.statements(1), []byte{w.End})
	case 3: // a block that is left early, by a table
		return w.Join([]byte{w.Block, w.Empty, w.Block, w.Empty}, g.value(2), []byte{w.I32WrapI64}, w.Op(0x0e, 1, 0, 1),
			[]byte{w.End}, g.statements(1), []byte{w.End})
	case 4:
		return w.Join(g.value(3), w.Op(w.GlobalSet, 0))
	case 5: // store
		return w.Join(g.address(), g.value(2), w.Op(w.I64Store, 3, g.rng.IntN(64)))
	case 6: // memory.fill
		return w.Join(g.address(), w.I32Const(g.rng.IntN(256)), g.address(), []byte{0xfc, 11, 0})
	case 7: // memory.copy
		return w.Join(g.address(), g.address(), g.address(), []byte{0xfc, 10, 0, 0})
	case 8: // leave, or trap, now and then
		if g.rng.IntN(4) == 0 {
			return w.Join(g.value(2), []byte{w.I64Eqz, w.If, w.Empty}, g.value(1), []byte{w.Return, w.End})
		}
		return w.Join(w.I32Const(g.rng.IntN(2)), []byte{w.Op(0x40, 0)[0], 0, w.Drop}) // memory.grow
	default:
		return w.Join(g.value(4), w.Op(w.LocalSet, g.rng.IntN(3)))
	}
}

// address below 32 KiB: two of them and a length fit into the one page.
func (g *generator) address() []byte {
	return w.Join(g.value(1), []byte{w.I32WrapI64}, w.I32Const(0x3fff), []byte{0x71})
}

func (g *generator) value(depth int) []byte {
	kind := g.rng.IntN(10)
	if depth == 0 {
		kind %= 3
	}
	switch kind {
	case 0:
		return w.I64Const(g.rng.Int64() >> g.rng.IntN(64))
	case 1:
		return w.Op(w.LocalGet, g.rng.IntN(3))
	case 2:
		return w.Op(w.GlobalGet, 0)
	case 3:
		return w.Join(g.address(), w.Op(w.I64Load, 3, g.rng.IntN(64)))
	case 4:
		if g.callee > 0 {
			return w.Join(g.value(depth-1), w.Op(w.Call, g.rng.IntN(g.callee)))
		}
	case 5: // call_indirect; only the last function may, or it would call itself
		if g.callee == 2 {
			return w.Join(g.value(depth-1), g.value(depth-1), []byte{w.I32WrapI64}, w.I32Const(1), []byte{0x71},
				w.Op(0x11, 0, 0))
		}
	case 6: // an if that gives a value
		return w.Join(g.value(depth-1), []byte{w.I64Eqz, w.If, w.I64}, g.value(depth-1), []byte{w.Else},
			g.value(depth-1), []byte{w.End})
	case 7: // division, which may trap
		if g.rng.IntN(4) == 0 {
			return w.Join(g.value(depth-1), g.value(depth-1), []byte{0x7f})
		}
	}
	ops := []byte{w.I64Add, w.I64Sub, w.I64Mul, 0x83, 0x84, 0x85, 0x86, 0x88, 0x89}
	return w.Join(g.value(depth-1), g.value(depth-1), []byte{ops[g.rng.IntN(len(ops))]})
}
