package fuel_test

import (
	"bytes"
	"slices"

	w "dtegate/rules/asmtest"
)

// instruction appends one instruction, or a pattern of several.
func (g *maker) instruction() {
	if len(g.stack)-g.base() > mostHeight {
		g.settle(nil)
	}
	switch g.choose(29) {
	case 0, 1:
		t := g.kind()
		g.emit(constant(t, g.byte()))
		g.push(t)
	case 2, 3:
		if len(g.locals) > 0 {
			n := g.choose(len(g.locals))
			g.emit(w.Op(w.LocalGet, n))
			g.push(g.locals[n])
		}
	case 4, 5:
		g.set()
	case 6:
		g.global()
	case 7, 8, 9:
		g.arithmetic()
	case 10:
		g.access()
	case 11:
		g.bulk()
	case 12:
		g.begin(w.Block, g.choose(mostValues+1), g.kinds(mostValues))
	case 13:
		g.begin(w.Loop, g.choose(mostValues+1), g.kinds(mostValues))
		if g.choose(2) == 0 { // back, to the start of the loop from its end
			g.instruction()
			if o := g.blocks[len(g.blocks)-1]; o.op == w.Loop {
				g.need(o.params...)
				g.emit(w.Op(w.Br, 0))
				g.leave()
			}
		}
	case 14:
		g.begin(w.If, g.choose(4), g.kinds(4))
	case 15:
		if g.blocks[len(g.blocks)-1].op == w.If {
			g.second()
		}
	case 16, 17:
		if len(g.blocks) > 1 {
			g.end()
		}
	case 18, 19, 20:
		g.branch()
	case 21, 22:
		g.call()
	case 23:
		g.reference()
	case 24:
		g.repeat()
	case 25:
		g.nest()
	case 26:
		g.all()
	case 27:
		g.chase()
	default:
		g.choice()
	}
}

func (g *maker) set() {
	if len(g.locals) == 0 {
		return
	}
	n := g.choose(len(g.locals))
	if at := len(g.stack); at > g.base() {
		if same := g.local(g.stack[at-1]); same >= 0 {
			n = same
		}
	}
	g.need(g.locals[n])
	if g.choose(3) == 0 {
		g.emit(w.Op(w.LocalTee, n))
		return
	}
	g.emit(w.Op(w.LocalSet, n))
	g.pop(1)
}

func (g *maker) global() {
	if len(g.globals) == 0 {
		return
	}
	n := g.choose(len(g.globals))
	if g.choose(2) == 0 {
		g.emit(w.Op(w.GlobalGet, n))
		g.push(g.globals[n])
		return
	}
	g.need(g.globals[n])
	g.emit(w.Op(w.GlobalSet, n))
	g.pop(1)
}

func (g *maker) arithmetic() {
	t := g.kind()
	unary := map[byte][]byte{i32: {0x67, 0x68, 0x69, 0x45, 0xc0}, i64: {0x79, 0x7a, 0x7b, 0xc2, 0xc4}, f64: {0x99, 0x9a,
		0x9b, 0x9f}}
	binary := map[byte][]byte{i32: {0x6a, 0x6b, 0x6c, 0x6d, 0x70, 0x71, 0x73, 0x74, 0x77, 0x48, 0x4f},
		i64: {0x7c, 0x7d, 0x7e, 0x7f, 0x82, 0x83, 0x85, 0x86, 0x89}, f64: {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa6}}
	// into another type
	turned := map[byte][][]byte{i32: {{0xac}, {0xb7}}, i64: {{0xa7}, {0xb9}}, f64: {{0xfc, 2}, {0xfc, 7}, {0xbd}}}
	into := map[byte][]byte{i32: {i64, f64}, i64: {i32, f64}, f64: {i32, i64, i64}}
	switch g.choose(4) {
	case 0:
		g.need(t)
		g.emit([]byte{unary[t][g.choose(len(unary[t]))]})
	case 1:
		g.need(t)
		n := g.choose(len(into[t]))
		g.emit(turned[t][n])
		g.pop(1)
		g.push(into[t][n])
	default:
		g.need(t, t)
		if t != f64 { // a divisor that is not zero, and sometimes negative
			g.emit(constant(t, 1), []byte{map[byte]byte{i32: 0x72, i64: 0x84}[t]})
		}
		g.emit([]byte{binary[t][g.choose(len(binary[t]))]})
		g.pop(1)
	}
}

// access reads or writes memory, mostly inside it.
func (g *maker) access() {
	offset := g.byte() * g.choose(300)
	g.need(i32)
	if g.choose(8) > 0 {
		g.emit(w.I32Const(0x7fff), []byte{0x71})
	}
	g.pop(1)
	if g.choose(2) == 0 {
		g.emit(w.Op(w.I64Load, g.choose(4), offset))
		g.push(i64)
		return
	}
	g.push(i32)
	g.need(i32, i64)
	g.emit(w.Op(w.I64Store, g.choose(4), offset))
	g.pop(2)
}

func (g *maker) bulk() {
	length := g.byte() << g.choose(9)
	switch g.choose(5) {
	case 0, 1:
		g.emit(w.I32Const(g.byte()), w.I32Const(g.byte()), w.I32Const(length), []byte{0xfc, 10, 0, 0})
	case 2, 3:
		g.emit(w.I32Const(g.byte()), w.I32Const(g.byte()), w.I32Const(length), []byte{0xfc, 11, 0})
	case 4:
		g.emit(w.I32Const(g.choose(3)), []byte{0x40, 0, w.Drop, 0x3f, 0})
		g.push(i32)
	}
}

func (g *maker) branch() {
	label := g.choose(len(g.blocks))
	o := g.blocks[len(g.blocks)-1-label]
	switch kind := g.choose(6); kind {
	case 0, 1, 2: // in a block, mostly under a condition: otherwise the code after it would be dead
		g.begin([]byte{w.Block, w.If, w.If}[kind], 0, nil)
		if g.choose(2) == 0 {
			g.table(label + 1)
		} else {
			g.need(o.label()...)
			g.emit(w.Op(w.Br, label+1))
			g.leave()
		}
		g.end()
	default:
		g.need(append(bytes.Clone(o.label()), i32)...)
		g.emit(w.Op(w.BrIf, label))
		g.pop(1)
	}
}

// table branches to a label, and to others that need the same values.
func (g *maker) table(label int) {
	types := bytes.Clone(g.blocks[len(g.blocks)-1-label].label())
	labels := []int{label}
	for range g.times() {
		n := g.choose(len(g.blocks))
		if bytes.Equal(g.blocks[len(g.blocks)-1-n].label(), types) {
			labels = append(labels, n)
		} else {
			labels = append(labels, label)
		}
	}
	g.need(append(types, i32)...)
	g.emit(w.Op(0x0e, len(labels)))
	for _, n := range labels {
		g.emit(w.Unsigned(n))
	}
	g.emit(w.Unsigned(label))
	g.leave()
}

func (g *maker) call() {
	n := g.choose(len(g.signatures))
	f := g.signatures[n]
	if g.choose(3) == 0 {
		g.need(f.Params...)
		at := max(0, slices.Index(g.m.Table, n)) // the type may be another function's: that traps
		g.emit(w.I32Const(at))
		g.push(i32)
		g.emit([]byte{0x11}, g.blockType(f.Params, f.Results), []byte{0})
		g.pop(1)
	} else {
		g.need(f.Params...)
		g.emit(w.Op(w.Call, n))
	}
	g.pop(len(f.Params))
	g.push(f.Results...)
}

// reference looks at functions and at the table.
func (g *maker) reference() {
	switch g.choose(3) {
	case 0:
		g.emit(w.Op(0xd2, g.m.Table[g.choose(len(g.m.Table))]), []byte{0xd1})
	case 1:
		g.emit(w.I32Const(g.choose(len(g.m.Table))), []byte{0x25, 0, 0xd1})
	case 2:
		g.emit(w.I32Const(g.choose(len(g.m.Table))), w.Op(0xd2, g.m.Table[g.choose(len(g.m.Table))]), []byte{0x26, 0})
		return
	}
	g.push(i32)
}

// repeat makes a few instructions and writes them out many times.
func (g *maker) repeat() {
	n := g.times()
	outside := g.code
	g.code = nil
	g.begin([]byte{w.Block, w.Loop}[g.choose(2)], 0, nil)
	depth := len(g.blocks)
	for range g.choose(12) {
		g.instruction()
		for len(g.blocks) < depth { // it closed the block itself
			g.begin(w.Block, 0, nil)
		}
	}
	for len(g.blocks) > depth {
		g.end()
	}
	g.end()
	n = min(n, (mostBytes-len(outside))/(len(g.code)+1))
	g.code = w.Join(outside, bytes.Repeat(g.code, max(n, 1)))
}

// nest opens many blocks in each other, each with a branch out of it.
func (g *maker) nest() {
	op := []byte{w.Block, w.Loop, w.If}[g.choose(3)]
	n := min(g.times(), 200-len(g.blocks))
	for range n {
		g.begin(op, 0, nil)
		if g.choose(2) == 0 {
			g.branch()
		}
	}
}

// all reads or writes every local.
func (g *maker) all() {
	write := g.choose(2) == 0
	for i, t := range g.locals {
		if !write {
			g.emit(w.Op(w.LocalGet, i))
			g.push(t)
			continue
		}
		g.need(t)
		g.emit(w.Op(w.LocalSet, i))
		g.pop(1)
	}
}

func (g *maker) choice() {
	switch g.choose(3) {
	case 0:
		t := g.kind()
		g.need(t, t, i32)
		g.emit([]byte{0x1b})
		g.pop(2)
	case 1:
		if len(g.stack) > g.base() {
			g.emit([]byte{w.Drop})
			g.pop(1)
		}
	case 2: // return, under an if
		g.begin(w.If, 0, nil)
		g.need(g.blocks[0].results...)
		g.emit([]byte{w.Return})
		g.leave()
		g.end()
	}
}

// chase is a loop that fills memory with addresses far from each other, then loops that load from or store to the
// address that they loaded before. The tape says how many steps there are, or that they never end.
func (g *maker) chase() {
	at := g.local(i32)
	if at < 0 {
		return
	}
	whole := g.m.Pages<<16 - 8
	stride := 64*(1+g.byte()) + 4*g.choose(16)
	// remainder
	next := w.Join(w.Op(w.LocalGet, at), w.I32Const(stride*(1+2*g.choose(40))), []byte{w.I32Add}, w.I32Const(whole),
		[]byte{0x70})
	// of a loop, until the address is a multiple of steps
	turn := func(code []byte, steps int) []byte {
		again := w.Op(w.Br, 0)
		if steps > 0 {
			again = w.Join(w.Op(w.LocalGet, at), w.I32Const(steps), []byte{0x70}, w.Op(w.BrIf, 0))
		}
		return w.Join([]byte{w.Loop, w.Empty}, code, again, []byte{w.End})
	}
	g.emit(w.I32Const(0), w.Op(w.LocalSet, at), turn(w.Join(w.Op(w.LocalGet, at), next, w.Op(w.I32Store, 0, 0), next,
		w.Op(w.LocalSet, at)), 1+g.byte()))
	for range 1 + g.choose(3) {
		step := w.Join(w.Op(w.LocalGet, at), w.I32Const(whole), []byte{0x70}, w.Op(w.I32Load, 0, 0), w.Op(w.LocalSet,
			at))
		if g.choose(3) == 0 {
			step = w.Join(w.Op(w.LocalGet, at), w.I32Const(whole), []byte{0x70}, w.Op(w.LocalTee, at), next,
				w.Op(w.I32Store, 0, 0), step)
		}
		steps := 0
		if g.choose(4) > 0 {
			steps = 1 + g.byte()
		}
		g.emit(turn(bytes.Repeat(step, 1+g.choose(20)), steps))
		if steps == 0 {
			g.leave()
			g.emit([]byte{w.Unreachable})
			return
		}
	}
}
