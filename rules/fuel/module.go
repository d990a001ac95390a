package fuel

import (
	"errors"
	"fmt"
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

// order in which sections stand.
var order = [...]int{typeSection: 1, importSection: 2, functionSection: 3, tableSection: 4, memorySection: 5, globalSection: 6,
	exportSection: 7, startSection: 8, elementSection: 9, dataCountSection: 10, codeSection: 11, dataSection: 12}

type section struct {
	id   int
	body []byte
}

// signature is how many parameters and results functions of a type have.
type signature struct{ params, results int }

// module is what metering needs to know of a module.
type module struct {
	sections  []section
	types     []signature
	imported  int   // imported functions come first in the index space
	functions []int // type of each function
	globals   int   // metering adds two behind them
	start     int   // 1 + the function that starts the module
	bodies    []*scan
	work      work // of compiling it
}

func parse(wasm []byte) (*module, error) {
	r := &reader{b: wasm}
	if string(r.bytes(len(magic))) != magic {
		return nil, errors.New("it is not a WebAssembly module of version 1")
	}
	m := new(module)
	last := 0
	for r.left() > 0 && r.err == nil {
		id := int(r.byte())
		body := r.bytes(r.u32())
		if r.err != nil {
			break
		}
		if id >= len(order) {
			return nil, fmt.Errorf("it has a section %d, which rules do not use", id)
		}
		if id == custom {
			continue // for debuggers; an engine that reads one believes its counts
		}
		if order[id] <= last {
			return nil, fmt.Errorf("section %d stands twice or out of order", id)
		}
		last = order[id]
		m.sections = append(m.sections, section{id, body})
		if err := m.section(id, &reader{b: body}); err != nil {
			return nil, fmt.Errorf("section %d: %w", id, err)
		}
	}
	return m, r.err
}

// encode writes the module out, metered.
func (m *module) encode(start int64) ([]byte, error) {
	out := []byte(magic)
	added, exported := false, false
	add := func(id int, body []byte) {
		out = append(appendU32(append(out, byte(id)), len(body)), body...)
	}
	for _, s := range m.sections {
		body := s.body
		if order[s.id] > order[globalSection] && !added {
			add(globalSection, appendGlobals(appendU32(nil, 2), start))
			added = true
		}
		switch s.id {
		case globalSection:
			body, added = appendGlobals(more(body, 2), start), true
		case exportSection:
			body, exported = m.appendExports(body), true
		case startSection:
			continue // the host calls it
		case codeSection:
			var err error
			if body, err = m.code(body); err != nil {
				return nil, err
			}
		}
		add(s.id, body)
	}
	if !exported {
		return nil, errors.New("it exports nothing")
	}
	return out, nil
}

// more is a section's vector with its count increased.
func more(body []byte, by int) []byte {
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

func (m *module) appendExports(b []byte) []byte {
	add := func(name string, kind byte, index int) {
		b = append(append(b, byte(len(name))), name...)
		b = appendU32(append(b, kind), index)
	}
	if m.start > 0 {
		b = more(b, 3)
		add(StartExport, kindFunction, m.start-1)
	} else {
		b = more(b, 2)
	}
	add(Export, kindGlobal, m.globals)
	add(StackExport, kindGlobal, m.globals+1)
	return b
}
