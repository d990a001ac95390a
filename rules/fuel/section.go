package fuel

import (
	"errors"
	"fmt"
)

// Kinds of imports and exports.
const (
	kindFunction = 0
	kindGlobal   = 3
)

// section reads a section to its end and keeps what metering needs of it.
func (m *module) section(id int, r *reader) error {
	read := map[int]func(*reader) error{typeSection: m.types, importSection: m.imports, functionSection: m.functionTypes, tableSection: tables,
		memorySection: memories, globalSection: m.globalTypes, exportSection: m.exports, startSection: start, elementSection: m.elements,
		dataCountSection: start, dataSection: data}[id]
	if read == nil {
		return nil // the code is read when it is metered
	}
	if err := read(r); err != nil {
		return err
	}
	if r.err == nil && r.left() > 0 {
		return errors.New("something follows its last item")
	}
	return r.err
}

func (m *module) types(r *reader) error {
	for range r.items() {
		if r.byte() != 0x60 {
			return errors.New("a type is not a function's")
		}
		m.params = append(m.params, r.types())
		r.types()
	}
	return nil
}

func (m *module) imports(r *reader) error {
	for range r.items() {
		from, name := r.name(), r.name()
		if r.byte() != kindFunction && r.err == nil {
			return fmt.Errorf("it imports %s.%s, which is not a function", from, name)
		}
		r.u32()
		m.imported++
	}
	return nil
}

func (m *module) functionTypes(r *reader) error {
	for range r.items() {
		t := r.u32()
		if t >= len(m.params) {
			return fmt.Errorf("a function has the type %d of %d", t, len(m.params))
		}
		m.functions = append(m.functions, t)
	}
	return nil
}

func tables(r *reader) error {
	for range r.items() {
		r.byte() // what it holds
		if least, _ := r.limits(); least > maxItems {
			return fmt.Errorf("a table has %d items, more than %d", least, maxItems)
		}
	}
	return nil
}

func memories(r *reader) error {
	for range r.items() {
		r.limits() // the engine has a limit for them
	}
	return nil
}

// limits are the least and, if there is one, the greatest size of a table or memory.
func (r *reader) limits() (least, most int) {
	switch r.byte() {
	case 0:
		return r.u32(), -1
	case 1:
		return r.u32(), r.u32()
	}
	r.fail("a table or memory of another kind than WebAssembly 1.0 has")
	return 0, 0
}

func (m *module) globalTypes(r *reader) error {
	for range r.items() {
		r.bytes(2) // type and mutability
		r.constant()
		m.globals++
	}
	return nil
}

func (m *module) exports(r *reader) error {
	for range r.items() {
		name, kind, index := r.name(), r.byte(), r.u32()
		if name == Export {
			return fmt.Errorf("it exports %s, which is the host's own", name)
		}
		if kind == kindGlobal && index >= m.globals {
			return fmt.Errorf("it exports a global that it does not have, as %s", name)
		}
	}
	return nil
}

// start is one index; the data count is one number.
func start(r *reader) error {
	r.u32()
	return nil
}

func (m *module) elements(r *reader) error {
	for range r.items() {
		if r.u32() != 0 {
			return errors.New("a segment of a table is not an active one of functions")
		}
		r.constant()
		for range r.items() {
			m.reference(r)
		}
	}
	return nil
}

func data(r *reader) error {
	for range r.items() {
		if r.u32() != 0 {
			return errors.New("a segment of the memory is not an active one")
		}
		r.constant()
		r.bytes(r.u32())
	}
	return nil
}

// reference reads a function that may be called through a table. It must be the module's own: an imported one costs
// more than such a call is charged.
func (m *module) reference(r *reader) {
	if n := r.u32(); n < m.imported {
		r.fail("it refers to the imported function %d other than to call it", n)
	}
}

// constant skips the expression of an initial value or an offset: one constant and an end.
func (r *reader) constant() {
	switch op := int(r.byte()); op {
	case opI32Const:
		r.signed(32)
	case opI64Const:
		r.signed(64)
	case opF32Const:
		r.bytes(4)
	case opF64Const:
		r.bytes(8)
	case opRefNull:
		r.byte()
	default:
		r.fail("an initial value begins with %#x: it is not a constant", op)
	}
	if r.byte() != opEnd {
		r.fail("an initial value is not one constant")
	}
}
