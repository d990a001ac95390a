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

// module is what metering needs to know of a module.
type module struct {
	sections  []section
	params    []int // number of parameters of each type
	imported  int   // imported functions come first in the index space
	functions []int // type of each function that is the module's own
	globals   int
	locals    int // of all functions
	knots     int // likewise, see maxKnots
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
			add(globalSection, appendGlobal(appendU32(nil, 1), start))
			added = true
		}
		switch s.id {
		case globalSection:
			body, added = appendGlobal(oneMore(body), start), true
		case exportSection:
			body, exported = m.appendExport(oneMore(body)), true
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

// oneMore is a section's vector with its count one up.
func oneMore(body []byte) []byte {
	r := &reader{b: body}
	n := r.u32()
	return append(appendU32(nil, n+1), body[r.at:]...)
}

func appendGlobal(b []byte, start int64) []byte {
	b = append(b, 0x7e, 1, 0x42) // a mutable i64 that begins as i64.const start
	return append(appendS64(b, start), 0x0b)
}

func (m *module) appendExport(b []byte) []byte {
	b = append(append(b, byte(len(Export))), Export...)
	return appendU32(append(b, kindGlobal), m.globals)
}
