package fuel

import (
	"errors"
	"fmt"
	"slices"
)

const magic = "\x00asm\x01\x00\x00\x00"

// Sections by their number.
const (
	custom = iota
	typeSection
	importSection
	functionSection
	tableSection
	memorySection
	globalSection
	exportSection
	startSection
	elementSection
	codeSection
	dataSection
	dataCountSection
)

// sequence lists the sections in the order in which a module has them.
var sequence = [...]int{typeSection, importSection, functionSection, tableSection, memorySection, globalSection,
	exportSection, startSection, elementSection, dataCountSection, codeSection, dataSection}

type section struct {
	id   int
	body []byte
}

type signature struct{ params, results int }

type module struct {
	sections  []section
	types     []signature
	imported  int   // imported functions come first in the index space
	functions []int // type of each function
	globals   int   // the module's own; metering adds two after these
	start     int   // 1 + the index of the start function; 0: there is none
	bodies    []*scan
	work      work // estimate for compiling the module
}

func parse(wasm []byte) (*module, error) {
	r := &reader{b: wasm}
	if string(r.bytes(len(magic))) != magic {
		return nil, errors.New("it is not a WebAssembly module of version 1")
	}
	m := new(module)
	last := -1
	for r.left() > 0 && r.err == nil {
		id := int(r.byte())
		body := r.bytes(r.u32())
		if r.err != nil {
			break
		}
		at := slices.Index(sequence[:], id)
		if at < 0 && id != custom {
			return nil, fmt.Errorf("it has a section %d, which rules do not use", id)
		}
		if id == custom {
			continue // leave it out: an engine would read it and trust its counts
		}
		if at <= last {
			return nil, fmt.Errorf("section %d appears twice or out of order", id)
		}
		last = at
		m.sections = append(m.sections, section{id, body})
		if err := m.section(id, &reader{b: body}); err != nil {
			return nil, fmt.Errorf("section %d: %w", id, err)
		}
	}
	return m, r.err
}

func (m *module) encode(start int64) ([]byte, error) {
	content := make(map[int][]byte)
	for _, s := range m.sections {
		content[s.id] = s.body
	}
	delete(content, startSection) // the host calls the start function
	if content[exportSection] == nil {
		return nil, errors.New("it exports nothing")
	}
	var err error
	if code, there := content[codeSection]; there {
		if content[codeSection], err = m.code(code); err != nil {
			return nil, err
		}
	}
	m.appendImport(content)
	content[globalSection] = appendGlobals(lengthenVector(content[globalSection], 2), start)
	content[exportSection] = m.appendExports(content[exportSection])
	if elements, there := content[elementSection]; there {
		content[elementSection] = m.shiftElements(elements)
	}
	out := []byte(magic)
	for _, id := range sequence {
		if body, there := content[id]; there {
			out = append(appendU32(append(out, byte(id)), len(body)), body...)
		}
	}
	return out, nil
}

// lengthenVector adds by to the count of a section's vector (empty if missing); the caller appends the items.
func lengthenVector(body []byte, by int) []byte {
	if body == nil {
		return appendU32(nil, by)
	}
	r := &reader{b: body}
	n := r.u32()
	return append(appendU32(nil, n+by), body[r.at:]...)
}

// appendGlobals appends two mutable i64: the fuel and the stack.
func appendGlobals(b []byte, start int64) []byte {
	for _, n := range []int64{start, Stack} {
		b = append(b, 0x7e, 1, opI64Const)
		b = append(appendS64(b, n), opEnd)
	}
	return b
}

// appendImport imports the host's function after the other imports. The index of each of the module's functions rises
// by one.
func (m *module) appendImport(content map[int][]byte) {
	t := slices.Index(m.types, signature{})
	if t < 0 {
		t = len(m.types)
		content[typeSection] = append(lengthenVector(content[typeSection], 1), 0x60, 0, 0)
	}
	imports := lengthenVector(content[importSection], 1)
	for _, name := range []string{ImportModule, ImportName} {
		imports = append(append(imports, byte(len(name))), name...)
	}
	content[importSection] = appendU32(append(imports, kindFunction), t)
}

func (m *module) shifted(f int) int {
	if f >= m.imported {
		f++
	}
	return f
}

func (m *module) appendExports(body []byte) []byte {
	r := &reader{b: body}
	n := r.u32()
	add := 2
	if m.start > 0 {
		add++
	}
	out := appendU32(make([]byte, 0, len(body)+64), n+add)
	export := func(name string, kind byte, index int) {
		if kind == kindFunction {
			index = m.shifted(index)
		}
		out = append(appendU32(out, len(name)), name...)
		out = appendU32(append(out, kind), index)
	}
	for range n {
		export(r.name(), r.byte(), r.u32())
	}
	if m.start > 0 {
		export(StartExport, kindFunction, m.start-1)
	}
	export(Export, kindGlobal, m.globals)
	export(StackExport, kindGlobal, m.globals+1)
	return out
}

func (m *module) shiftElements(body []byte) []byte {
	r := &reader{b: body}
	segments := r.u32()
	out := appendU32(make([]byte, 0, len(body)+len(body)/8), segments)
	for range segments {
		at := r.at
		r.u32()
		r.constant()
		out = append(out, body[at:r.at]...)
		n := r.u32()
		out = appendU32(out, n)
		for range n {
			out = appendU32(out, m.shifted(r.u32()))
		}
	}
	return out
}

const (
	kindFunction = 0
	kindGlobal   = 3
)

func (m *module) section(id int, r *reader) error {
	read := map[int]func(*reader) error{typeSection: m.typeSignatures, importSection: m.imports,
		functionSection: m.functionTypes, tableSection: tables, memorySection: memories, globalSection: m.globalTypes,
		exportSection: m.exports, startSection: m.starts, elementSection: m.elements, dataCountSection: dataCount,
		dataSection: data}[id]
	if read == nil {
		return nil // the code section is read when it is metered
	}
	err := read(r)
	switch {
	case r.err != nil: // report the first fault, because values read after it are meaningless
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
		m.work += work(typeWork + valueWork*(s.params+s.results))
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
		r.byte() // the type of its items
		if n := r.size(); n > maxTable {
			return fmt.Errorf("the table has %d items, more than %d", n, maxTable)
		}
	}
	return nil
}

func memories(r *reader) error {
	for range r.items("memories", 1) {
		r.size() // the engine limits memories
	}
	return nil
}

// size reads the limits of a table or memory, and returns its initial size.
func (r *reader) size() (least int) {
	kind := r.byte()
	if kind > 1 {
		r.fail("a table or memory of another kind than WebAssembly 1.0 has")
		return 0
	}
	least = r.u32()
	if kind == 1 {
		r.u32() // the greatest size
	}
	return least
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
		return fmt.Errorf("it starts with function %d, which has %d parameters and %d results", m.start-1, s.params,
			s.results)
	}
	return nil
}

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

// reference reads a function that may be called through a table. It must be the module's own: a call of an imported
// function costs more than a call through a table.
func (m *module) reference(r *reader) int {
	n := r.u32()
	if n < m.imported {
		r.fail("it refers to the imported function %d other than to call it", n)
	}
	return n
}

// constant skips the expression of an initial value or an offset: a constant and an end.
func (r *reader) constant() {
	if op := int(r.byte()); !r.literal(op) {
		r.fail("an initial value begins with %#x: it is not a constant", op)
	}
	if r.byte() != opEnd {
		r.fail("an initial value is not one constant")
	}
}

// literal reads the immediate of an instruction that pushes a constant. It returns false for any other instruction.
func (r *reader) literal(op int) bool {
	switch op {
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
		return false
	}
	return true
}
