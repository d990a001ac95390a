package fuel

import (
	"errors"
	"fmt"
	"slices"
)

// Instructions that metering reads or writes.
const (
	opUnreachable   = 0x00
	opBlock         = 0x02
	opLoop          = 0x03
	opIf            = 0x04
	opElse          = 0x05
	opEnd           = 0x0b
	opBr            = 0x0c
	opBrIf          = 0x0d
	opBrTable       = 0x0e
	opReturn        = 0x0f
	opCall          = 0x10
	opCallIndirect  = 0x11
	opDrop          = 0x1a
	opSelect        = 0x1b
	opSelectTyped   = 0x1c
	opLocalGet      = 0x20
	opLocalSet      = 0x21
	opLocalTee      = 0x22
	opGlobalGet     = 0x23
	opGlobalSet     = 0x24
	opTableGet      = 0x25
	opTableSet      = 0x26
	opI32Load       = 0x28
	opI64Load32U    = 0x35
	opI64Store32    = 0x3e
	opMemorySize    = 0x3f
	opMemoryGrow    = 0x40
	opI32Const      = 0x41
	opI64Const      = 0x42
	opF32Const      = 0x43
	opF64Const      = 0x44
	opI32Eqz        = 0x45
	opI64LtS        = 0x53
	opI64Sub        = 0x7d
	opI64Or         = 0x84
	opI64Shl        = 0x86
	opI64ShrU       = 0x88
	opI64ExtendI32U = 0xad
	opI64Extend32S  = 0xc4
	opRefNull       = 0xd0
	opRefIsNull     = 0xd1
	opRefFunc       = 0xd2
	prefixed        = 0xfc
	opMemoryCopy    = prefixed<<8 | 10
	opMemoryFill    = prefixed<<8 | 11
)

type instruction struct {
	op        int
	price     int   // in instructions
	pop, push int   // values on the operand stack; of a block, its parameters and results
	index     int   // of a local, global, function or type
	labels    []int // blocks to which it may branch, counted from the innermost; valid until the next instruction
}

// next reads one instruction with its immediates. An unknown instruction is a fault, because its length is unknown, and
// everything after it would be a guess. The cases have the order of the specification.
func (m *module) next(r *reader, locals int) (i instruction) {
	i.op, i.price = int(r.byte()), 1
	if s := plain[i.op]; s.price > 0 {
		i.pop, i.push, i.price = int(s.pop), int(s.push), int(s.price)
		if i.op >= opI32Load && i.op <= opI64Store32 {
			r.u32()
			r.u32()
		}
		return i
	}
	if r.literal(i.op) {
		i.push = 1
		return i
	}
	switch op := i.op; op {
	case opBlock, opLoop, opIf:
		i.pop, i.push = m.blockType(r)
	case opUnreachable, opElse, opEnd, opReturn:
	case opBr, opBrIf:
		i.labels = append(r.labels[:0], r.u32())
		i.pop = op - opBr
	case opBrTable:
		i.labels = r.labels[:0]
		for range r.count() + 1 { // including the default
			i.labels = append(i.labels, r.u32())
		}
		r.labels = i.labels
		i.pop = 1
	case opCall:
		if i.index = r.u32(); i.index < m.imported {
			i.price = crossing
		}
		m.calls(r, &i, m.typeOf(r, i.index))
	case opCallIndirect:
		t := r.u32()
		r.u32()
		i.price, i.index = indirect, -1
		m.calls(r, &i, t)
		i.pop++
	case opSelectTyped:
		r.bytes(r.count())
		i.pop, i.push = 3, 1
	case opLocalGet, opLocalSet, opLocalTee:
		if i.index = r.u32(); i.index >= locals {
			r.fail("local %d of %d", i.index, locals) // the index could be a local that metering adds
		}
		i.pop, i.push = pushes(op != opLocalGet), pushes(op != opLocalSet)
	case opGlobalGet, opGlobalSet:
		if i.index = r.u32(); i.index >= m.globals {
			r.fail("global %d of %d", i.index, m.globals) // the index could be the global of the fuel or of the stack
		}
		i.pop, i.push = pushes(op == opGlobalSet), pushes(op == opGlobalGet)
	case opTableGet:
		r.u32()
		i.pop, i.push = 1, 1
	case opTableSet:
		r.u32()
		i.pop = 2
	case opMemorySize:
		r.zero()
		i.push = 1
	case opMemoryGrow:
		r.zero()
		i.pop, i.push, i.price = 1, 1, crossing
	case opRefFunc:
		i.index = m.reference(r)
		i.push, i.price = 1, crossing // the compiled code asks the host for the reference
	case prefixed:
		m.prefixed(r, &i)
	default:
		r.fail("instruction %#x is not available to rules", op)
	}
	return i
}

func pushes(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// blockType reads the type of a block and returns its number of parameters and results.
func (m *module) blockType(r *reader) (params, results int) {
	t := r.signed(33)
	switch {
	case t == -64: // nothing
		return 0, 0
	case t < 0:
		return 0, 1
	case t >= int64(len(m.types)):
		r.fail("a block has the type %d of %d", t, len(m.types))
		return 0, 0
	}
	s := m.types[t]
	if s.params > maxValues {
		r.fail("a block has %d parameters, more than %d", s.params, maxValues)
	}
	return s.params, s.results
}

func (m *module) typeOf(r *reader, f int) int {
	if f >= len(m.functions) {
		r.fail("it calls function %d of %d", f, len(m.functions))
		return 0
	}
	return m.functions[f]
}

// calls completes the instruction for a call of a function of type t. Each value passed beyond freeValues costs extra.
func (m *module) calls(r *reader, i *instruction, t int) {
	if t >= len(m.types) {
		r.fail("it calls a function of the type %d of %d", t, len(m.types))
		return
	}
	i.pop, i.push = m.types[t].params, m.types[t].results
	i.price += passing * max(0, i.pop+i.push-freeValues)
}

func (m *module) prefixed(r *reader, i *instruction) {
	sub := r.u32()
	i.op = prefixed<<8 | sub&0xff
	switch {
	case sub <= 7: // saturating conversions
		i.pop, i.push = 1, 1
	case sub == opMemoryCopy&0xff:
		r.zero()
		r.zero()
		i.pop, i.price = 3, copying
	case sub == opMemoryFill&0xff:
		r.zero()
		i.pop, i.price = 3, filling
	default:
		r.fail("instruction 0xfc %d is not available to rules", sub)
	}
}

// zero reads a memory index. The index must be 0: a module has only one memory.
func (r *reader) zero() {
	if r.byte() != 0 {
		r.fail("a memory other than the first")
	}
}

func (m *module) code(body []byte) ([]byte, error) {
	r := &reader{b: body}
	n := r.items("functions", maxFunctions)
	if r.err != nil {
		return nil, fmt.Errorf("code section: %w", r.err)
	}
	if own := len(m.functions) - m.imported; n != own {
		return nil, fmt.Errorf("it has %d functions and the code of %d", own, n)
	}
	for i := range n {
		b := r.bytes(r.u32())
		if r.err != nil {
			return nil, fmt.Errorf("code section: %w", r.err)
		}
		if err := m.read(b, m.types[m.functions[m.imported+i]]); err != nil {
			return nil, fmt.Errorf("function %d: %w", m.imported+i, err)
		}
	}
	if r.left() > 0 {
		return nil, errors.New("something follows the last function")
	}
	out := appendU32(make([]byte, 0, len(body)+len(body)/4), n)
	for _, f := range m.bodies {
		metered := m.write(f)
		out = append(appendU32(out, len(metered)), metered...)
	}
	return out, nil
}

// insertion is code that metering puts into a function at an offset (at), in place of the function's next bytes
// (instead: their number).
type insertion struct {
	at, instead int
	kind        int
	region      int // the region that a charge pays for
	index       int // of the function that is called or referred to; −1: a call through the table
}

const (
	charge    = iota // the price of a region; at the function's beginning, also the stack of its frame
	length           // the price of a copy or fill
	growth           // the price of a growth of memory, by its new size
	call             // sets the stack that is left for the called function; contains the call itself if it is direct
	reference        // ref.func
)

func (m *module) read(body []byte, s signature) error {
	if len(body) > maxBody {
		return fmt.Errorf("it has %d bytes, more than %d", len(body), maxBody)
	}
	r := &reader{b: body, labels: make([]int, 0, 16)}
	groups := r.count()
	declared := r.at
	locals := s.params
	for range groups {
		locals += r.u32()
		r.byte() // the type
		if locals > maxLocals {
			return fmt.Errorf("it has %d locals, more than %d", locals, maxLocals)
		}
	}
	f := newScan(m, r, s, locals)
	f.groups, f.declared, f.begin = groups, declared, r.at
	if err := f.run(); err != nil {
		return fmt.Errorf("at byte %d: %w", r.at, err)
	}
	if f.moved > maxMoves {
		return fmt.Errorf("it has %d values to select where its control flow merges, more than %d", f.moved, maxMoves)
	}
	if f.reloads() > maxReloads {
		return fmt.Errorf("it has %d calls, those of metering included, in a module of %d globals: their product is "+
			"more than %d", f.called, m.globals, maxReloads)
	}
	if frame := f.frame(); frame > maxFrame {
		return fmt.Errorf("it needs up to %d bytes of stack, more than %d", frame, maxFrame)
	}
	m.bodies = append(m.bodies, f)
	return m.work.function(f, s)
}

// write returns the code of a function that was read, with the metering added.
func (m *module) write(f *scan) []byte {
	body := f.r.b
	w := &writer{f: f, out: make([]byte, 0, len(body)+32*len(f.insertions)+8)}
	w.locals()
	at := f.begin
	for _, i := range f.insertions {
		w.out = append(w.out, body[at:i.at]...)
		at = i.at + i.instead
		w.insert(i)
	}
	return append(w.out, body[at:]...)
}

type writer struct {
	f    *scan
	out  []byte
	bulk int // local with the length of a copy
	left int // local with the stack left for the called functions
}

func (w *writer) locals() {
	groups := w.f.groups
	var more []byte
	next := w.f.locals
	if slices.ContainsFunc(w.f.insertions, func(i insertion) bool { return i.kind == length }) {
		w.bulk, next = next, next+1
		more = append(more, 1, 0x7f) // an i32
		groups++
	}
	if w.f.calls {
		w.left = next
		more = append(more, 1, 0x7e) // an i64
		groups++
	}
	w.out = append(appendU32(w.out, groups), w.f.r.b[w.f.declared:w.f.begin]...)
	w.out = append(w.out, more...)
}

// fuel and stack return the indexes of the globals that metering adds.
func (w *writer) fuel() int  { return w.f.m.globals }
func (w *writer) stack() int { return w.f.m.globals + 1 }

func (w *writer) insert(i insertion) {
	switch i.kind {
	case charge:
		w.charge(int64(1+w.f.prices[i.region]/Grain), i.region == 0 && w.f.calls)
	case length:
		w.op(opLocalTee, w.bulk)
		w.op(opGlobalGet, w.fuel())
		w.op(opLocalGet, w.bulk)
		w.out = append(w.out, opI64ExtendI32U, opI64Const, 6, opI64ShrU, opI64Sub) // 1<<6 = Grain
		w.op(opGlobalSet, w.fuel())
		w.check(false)
	case growth:
		w.op(opGlobalGet, w.fuel())
		w.out = append(w.out, opMemorySize, 0, opI64ExtendI32U, opI64Const, 10, opI64Shl, opI64Sub) // 64 KiB / Grain
		w.op(opGlobalSet, w.fuel())
		w.check(false)
	case call:
		// Only functions that call others read the global.
		if i.index < 0 || w.f.m.bodies[i.index-w.f.m.imported].calls {
			w.op(opLocalGet, w.left)
			w.op(opGlobalSet, w.stack())
		}
		if i.index >= 0 {
			w.op(opCall, w.f.m.shifted(i.index))
		}
	case reference:
		w.op(opRefFunc, w.f.m.shifted(i.index))
	}
}

// charge subtracts a price from the fuel. If frame is set, it also computes the stack left after the function's frame.
func (w *writer) charge(price int64, frame bool) {
	w.op(opGlobalGet, w.fuel())
	w.out = append(appendS64(append(w.out, opI64Const), price), opI64Sub)
	w.op(opGlobalSet, w.fuel())
	if frame {
		w.op(opGlobalGet, w.stack())
		w.out = append(appendS64(append(w.out, opI64Const), int64(w.f.frame())), opI64Sub)
		w.op(opLocalSet, w.left)
	}
	w.check(frame)
}

// check calls the host if the fuel is negative. If frame is set, it also calls the host if the stack left is negative.
func (w *writer) check(frame bool) {
	w.op(opGlobalGet, w.fuel())
	if frame {
		w.op(opLocalGet, w.left)
		w.out = append(w.out, opI64Or)
	}
	w.out = append(w.out, opI64Const, 0, opI64LtS, opIf, 0x40)
	if frame { // for the host; the function no longer reads the global
		w.op(opLocalGet, w.left)
		w.op(opGlobalSet, w.stack())
	}
	w.op(opCall, w.f.m.imported)
	w.out = append(w.out, opEnd)
}

func (w *writer) op(op byte, index int) { w.out = appendU32(append(w.out, op), index) }
