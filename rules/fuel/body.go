package fuel

import (
	"errors"
	"fmt"
	"slices"
)

// code meters every function of the code section.
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

// insertion is code to be put into a function at an offset, in place of so many bytes that stand there.
type insertion struct {
	at, instead int
	kind        int
	region      int // of a charge
	index       int // of the function that is called or referred to; −1: whatever the table has
}

// Kinds of insertions.
const (
	charge    = iota // the price of a region; at the function's beginning, its frame too
	length           // the price of a copy or fill
	growth           // the price of the size that the memory has now
	call             // a call of a function of the module, with the stack that this function leaves to it
	reference        // ref.func
)

// read scans one function and holds it against the limits.
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
		return fmt.Errorf("it has %d calls, those of metering included, in a module of %d globals: their product is more than %d", f.called, m.globals, maxReloads)
	}
	if frame := f.frame(); frame > maxFrame {
		return fmt.Errorf("it needs up to %d bytes of stack, more than %d", frame, maxFrame)
	}
	m.bodies = append(m.bodies, f)
	return m.work.function(f, s)
}

// write gives a function that was read, metered.
func (m *module) write(f *scan) []byte {
	body := f.r.b
	w := &writer{scan: f, out: make([]byte, 0, len(body)+32*len(f.insertions)+8)}
	w.locals()
	at := f.begin
	for _, i := range f.insertions {
		w.out = append(w.out, body[at:i.at]...)
		at = i.at + i.instead
		w.insert(i)
	}
	return append(w.out, body[at:]...)
}

// writer writes a metered function.
type writer struct {
	*scan
	out  []byte
	bulk int // local that holds the length of a copy
	left int // local that holds the stack that this function leaves to those it calls
}

// locals writes the function's locals and those that metering needs.
func (w *writer) locals() {
	groups := w.groups
	var more []byte
	next := w.scan.locals
	if slices.ContainsFunc(w.insertions, func(i insertion) bool { return i.kind == length }) {
		w.bulk, next = next, next+1
		more = append(more, 1, 0x7f) // an i32
		groups++
	}
	if w.calls {
		w.left = next
		more = append(more, 1, 0x7e) // an i64
		groups++
	}
	w.out = append(appendU32(w.out, groups), w.r.b[w.declared:w.begin]...)
	w.out = append(w.out, more...)
}

// fuel and stack are the globals that metering adds.
func (w *writer) fuel() int  { return w.m.globals }
func (w *writer) stack() int { return w.m.globals + 1 }

func (w *writer) insert(i insertion) {
	switch i.kind {
	case charge:
		w.charge(int64(1+w.prices[i.region]/Grain), i.region == 0 && w.calls)
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
		if i.index < 0 || w.m.bodies[i.index-w.m.imported].calls { // others do not look at it
			w.op(opLocalGet, w.left)
			w.op(opGlobalSet, w.stack())
		}
		if i.index >= 0 {
			w.op(opCall, w.m.shifted(i.index))
		}
	case reference:
		w.op(opRefFunc, w.m.shifted(i.index))
	}
}

// charge subtracts a price from the fuel. frame: it also finds out what the function's frame leaves of the stack.
func (w *writer) charge(price int64, frame bool) {
	w.op(opGlobalGet, w.fuel())
	w.out = append(appendS64(append(w.out, opI64Const), price), opI64Sub)
	w.op(opGlobalSet, w.fuel())
	if frame {
		w.op(opGlobalGet, w.stack())
		w.out = append(appendS64(append(w.out, opI64Const), int64(w.frame())), opI64Sub)
		w.op(opLocalSet, w.left)
	}
	w.check(frame)
}

// check asks the host when the fuel, or the stack, is negative.
func (w *writer) check(frame bool) {
	w.op(opGlobalGet, w.fuel())
	if frame {
		w.op(opLocalGet, w.left)
		w.out = append(w.out, opI64Or)
	}
	w.out = append(w.out, opI64Const, 0, opI64LtS, opIf, 0x40)
	if frame { // for the host to see it. The function does not read the global any more
		w.op(opLocalGet, w.left)
		w.op(opGlobalSet, w.stack())
	}
	w.op(opCall, w.m.imported)
	w.out = append(w.out, opEnd)
}

func (w *writer) op(op byte, index int) { w.out = appendU32(append(w.out, op), index) }
