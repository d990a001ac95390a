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
	read := map[int]func(*reader) error{typeSection: m.typeSignatures, importSection: m.imports, functionSection: m.functionTypes, tableSection: tables,
		memorySection: memories, globalSection: m.globalTypes, exportSection: m.exports, startSection: m.starts, elementSection: m.elements,
		dataCountSection: dataCount, dataSection: data}[id]
	if read == nil {
		return nil // the code is read when it is metered
	}
	err := read(r)
	switch {
	case r.err != nil: // the first fault; what was read after it is nothing
		return r.err
	case err == nil && r.left() > 0:
		return errors.New("something follows its last item")
	}
	return err
}

func (m *module) typeSignatures(r *reader) error {
	for range r.items("types", maxTypes) {
		if r.byte() != 0x60 {
			return errors.New("a type is not a function's")
		}
		s := signature{r.values("parameters", maxParams), r.values("results", maxValues)}
		m.types = append(m.types, s)
		m.work.add(typeWork + valueWork*(s.params+s.results))
	}
	return r.err
}

func (m *module) imports(r *reader) error {
	for range r.items("imports", maxImports) {
		from, name := r.name(), r.name()
		if from == ImportModule {
			return fmt.Errorf("it imports %s.%s, which is the host's own", from, name)
		}
		if r.byte() != kindFunction && r.err == nil {
			return fmt.Errorf("it imports %s.%s, which is not a function", from, name)
		}
		t := r.u32()
		if t >= len(m.types) && r.err == nil {
			return fmt.Errorf("it imports %s.%s with the type %d of %d", from, name, t, len(m.types))
		}
		m.functions = append(m.functions, t)
		m.imported++
	}
	return nil
}

func (m *module) functionTypes(r *reader) error {
	for range r.items("functions", maxFunctions) {
		t := r.u32()
		if t >= len(m.types) {
			return fmt.Errorf("a function has the type %d of %d", t, len(m.types))
		}
		m.functions = append(m.functions, t)
	}
	return nil
}

func tables(r *reader) error {
	for range r.items("tables", 1) {
		r.byte() // what it holds
		if least, _ := r.limits(); least > maxTable {
			return fmt.Errorf("the table has %d items, more than %d", least, maxTable)
		}
	}
	return nil
}

func memories(r *reader) error {
	for range r.items("memories", 1) {
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
	for range r.items("globals", maxGlobals) {
		r.bytes(2) // type and mutability
		r.constant()
		m.globals++
	}
	return nil
}

func (m *module) exports(r *reader) error {
	for range r.items("exports", maxExports) {
		name, kind, index := r.name(), r.byte(), r.u32()
		if name == Export || name == StackExport || name == StartExport {
			return fmt.Errorf("it exports %s, which is the host's own name", name)
		}
		if kind == kindGlobal && index >= m.globals {
			return fmt.Errorf("it exports a global that it does not have, as %s", name)
		}
	}
	return nil
}

func (m *module) starts(r *reader) error {
	m.start = 1 + r.u32()
	if m.start > len(m.functions) {
		return fmt.Errorf("it starts with function %d of %d", m.start-1, len(m.functions))
	}
	if s := m.types[m.functions[m.start-1]]; s != (signature{}) {
		return fmt.Errorf("it starts with function %d, which has %d parameters and %d results", m.start-1, s.params, s.results)
	}
	return nil
}

// dataCount is the number of segments of the memory.
func dataCount(r *reader) error {
	r.u32()
	return nil
}

func (m *module) elements(r *reader) error {
	items := 0
	for range r.items("segments of the table", maxSegments) {
		if r.u32() != 0 {
			return errors.New("a segment of a table is not an active one of functions")
		}
		r.constant()
		n := r.count()
		if items += n; items > maxElements {
			return fmt.Errorf("the segments of the table have %d items, more than %d", items, maxElements)
		}
		for range n {
			m.reference(r)
		}
	}
	return nil
}

func data(r *reader) error {
	for range r.items("segments of the memory", maxSegments) {
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
func (m *module) reference(r *reader) int {
	n := r.u32()
	if n < m.imported {
		r.fail("it refers to the imported function %d other than to call it", n)
	}
	return n
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
