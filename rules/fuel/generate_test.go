package fuel_test

import (
	"bytes"
	"slices"

	w "dtegate/rules/asmtest"
)

const (
	mostValues = 16       // parameters and results that a maker gives
	mostBytes  = 40 << 10 // of a function
	mostHeight = 2000     // of the operand stack
	i32, i64   = w.I32, w.I64
	f64        = w.F64
)

// maker makes a valid module out of any bytes, so that a fuzzer's every change to the bytes makes another module:
// functions with several results, blocks, loops, branches, recursion, a table, memory, pointers that are chased all
// over it. Each byte is a choice. Operands of an instruction that are missing on the stack are pushed first.
type maker struct {
	tape       []byte
	m          w.Module
	signatures []w.Function // parameters and results of each function
	globals    []byte       // types
	locals     []byte       // types, those of the parameters first
	code       []byte
	stack      []byte // types on the operand stack
	blocks     []opened
}

// opened is a block that is not closed yet.
type opened struct {
	op              byte
	base            int // height of the operand stack below its parameters
	params, results []byte
}

// label is what a branch to the block must leave on the stack.
func (o *opened) label() []byte {
	if o.op == w.Loop {
		return o.params
	}
	return o.results
}

// made is the module of a tape. "run" has no parameters and returns an i64.
func made(tape []byte) []byte {
	g := &maker{tape: tape}
	g.m = w.Module{Pages: 1 + g.choose(soundPages), Data: map[int]string{0: "sixteen bytes !!"}}
	for range g.times() {
		t := g.kind()
		g.globals = append(g.globals, t)
		g.m.Globals = append(g.m.Globals, w.Join([]byte{t, 1}, constant(t, 7), []byte{w.End}))
	}
	n := 1 + g.choose(4)
	for range n {
		g.signatures = append(g.signatures, w.Function{Params: g.kinds(8), Results: g.kinds(mostValues)})
		g.m.Table = append(g.m.Table, g.choose(n+1))
	}
	g.signatures = append(g.signatures, w.Function{Export: "run", Results: []byte{i64}})
	rest := g.tape
	for i, f := range g.signatures {
		share := len(rest) / (len(g.signatures) - i)
		g.tape, rest = rest[:share], rest[share:]
		g.m.Functions = append(g.m.Functions, g.function(f))
	}
	return g.m.Bytes()
}

func (g *maker) byte() int {
	if len(g.tape) == 0 {
		return 0
	}
	b := g.tape[0]
	g.tape = g.tape[1:]
	return int(b)
}

func (g *maker) choose(n int) int { return g.byte() % n }
func (g *maker) kind() byte       { return []byte{i32, i64, i64, f64}[g.choose(4)] }

func (g *maker) kinds(most int) (types []byte) {
	for range g.choose(most + 1) {
		types = append(types, g.kind())
	}
	return types
}

func constant(t byte, n int) []byte {
	switch t {
	case i32:
		return w.I32Const(n)
	case i64:
		return w.I64Const(int64(n))
	}
	return w.Join([]byte{0x44}, []byte{0, 0, 0, 0, 0, byte(n), 0xf0, 0x3f}) // about 1
}

func (g *maker) function(f w.Function) w.Function {
	f.Locals = g.kinds(40)
	g.locals, g.code, g.stack = slices.Concat(f.Params, f.Locals), nil, nil
	g.blocks = []opened{{op: w.Block, results: f.Results}}
	for len(g.tape) > 0 && len(g.code) < mostBytes {
		g.instruction()
	}
	for len(g.blocks) > 1 {
		g.end()
	}
	g.settle(f.Results)
	f.Code = g.code
	return f
}

func (g *maker) emit(code ...[]byte) { g.code = w.Join(append([][]byte{g.code}, code...)...) }
func (g *maker) push(types ...byte)  { g.stack = append(g.stack, types...) }
func (g *maker) pop(n int)           { g.stack = g.stack[:len(g.stack)-n] }
func (g *maker) base() int           { return g.blocks[len(g.blocks)-1].base }

// need pushes values of the types, as far as they are not on the stack.
func (g *maker) need(types ...byte) {
	have := 0
	for n := min(len(types), len(g.stack)-g.base()); n > 0; n-- {
		if bytes.Equal(g.stack[len(g.stack)-n:], types[:n]) {
			have = n
			break
		}
	}
	for i, t := range types[have:] {
		g.emit(constant(t, i+len(g.code)%5))
		g.push(t)
	}
}

// settle makes the innermost block's part of the stack hold the types and nothing else.
func (g *maker) settle(types []byte) {
	if bytes.Equal(g.stack[g.base():], types) {
		return
	}
	for len(g.stack) > g.base() {
		g.emit([]byte{w.Drop})
		g.pop(1)
	}
	g.need(types...)
}

// leave is for the code after a branch that is always taken.
func (g *maker) leave() { g.stack = g.stack[:g.base()] }

// blockType is the index of a type, as a block has it.
func (g *maker) blockType(params, results []byte) []byte {
	t := w.Type(params, results)
	at := slices.IndexFunc(g.m.Types, func(o []byte) bool { return bytes.Equal(o, t) })
	if at < 0 {
		at = len(g.m.Types)
		g.m.Types = append(g.m.Types, t)
	}
	return w.Signed(int64(at))
}

// begin opens a block whose parameters are the uppermost values of the stack.
func (g *maker) begin(op byte, params int, results []byte) {
	if op == w.If {
		g.need(i32)
		g.pop(1)
	}
	params = min(params, len(g.stack)-g.base())
	o := opened{op: op, base: len(g.stack) - params, params: slices.Clone(g.stack[len(g.stack)-params:]),
		results: results}
	g.emit([]byte{op}, g.blockType(o.params, results))
	g.blocks = append(g.blocks, o)
}

// end closes the innermost block. An if without its second half gets one, which gives the results.
func (g *maker) end() {
	o := &g.blocks[len(g.blocks)-1]
	g.settle(o.results)
	if o.op == w.If {
		g.second()
		g.settle(o.results)
	}
	g.emit([]byte{w.End})
	g.blocks = g.blocks[:len(g.blocks)-1]
	g.stack = append(g.stack[:o.base], o.results...)
}

// second begins the second half of an if.
func (g *maker) second() {
	o := &g.blocks[len(g.blocks)-1]
	g.settle(o.results)
	g.emit([]byte{w.Else})
	g.stack = append(g.stack[:o.base], o.params...)
	o.op = w.Else
}

// local is one of the locals of a type, or else −1.
func (g *maker) local(t byte) int {
	from := g.choose(max(1, len(g.locals)))
	for i := range g.locals {
		if at := (from + i) % len(g.locals); g.locals[at] == t {
			return at
		}
	}
	return -1
}

// times is how often something is repeated: seldom more than a few times.
func (g *maker) times() int {
	n := g.byte()
	if n >= 0xf0 {
		return 20 * (n - 0xef)
	}
	return n % 16
}
