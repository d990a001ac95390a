// Package asmtest assembles small WebAssembly modules by hand, so that tests have guests that no compiler would make.
package asmtest

import (
	"maps"
	"slices"
)

// Types of values.
const (
	I32 = 0x7f
	I64 = 0x7e
	F64 = 0x7c
)

// Instructions without immediates, and the first byte of those that have some.
const (
	Unreachable = 0x00
	Block       = 0x02
	Loop        = 0x03
	If          = 0x04
	Else        = 0x05
	End         = 0x0b
	Br          = 0x0c
	BrIf        = 0x0d
	Return      = 0x0f
	Call        = 0x10
	Drop        = 0x1a
	LocalGet    = 0x20
	LocalSet    = 0x21
	LocalTee    = 0x22
	GlobalGet   = 0x23
	GlobalSet   = 0x24
	I32Load     = 0x28
	I64Load     = 0x29
	I32Load8U   = 0x2d
	I32Store    = 0x36
	I64Store    = 0x37
	I32Eqz      = 0x45
	I32LtS      = 0x48
	I32LtU      = 0x49
	I32GtU      = 0x4b
	I64Eqz      = 0x50
	I64Ne       = 0x52
	I64LtS      = 0x53
	I32Add      = 0x6a
	I32Sub      = 0x6b
	I32Mul      = 0x6c
	I64Add      = 0x7c
	I64Sub      = 0x7d
	I64Mul      = 0x7e
	I32WrapI64  = 0xa7
	I64ExtendU  = 0xad
	Empty       = 0x40 // the type of a block without results
)

// Function of a module. It is exported under Export, if that is not "".
type Function struct {
	Export          string
	Params, Results []byte
	Locals          []byte
	Code            []byte // without the last end
}

// Import of a function.
type Import struct {
	Module, Name    string
	Params, Results []byte
}

// Module to assemble. Function indexes begin with the imports. It exports its memory as "memory", unless NoMemory.
type Module struct {
	Types     [][]byte // types of blocks (see Type); Bytes adds the types of functions
	Imports   []Import
	Functions []Function
	Globals   [][]byte // type, mutable, initial expression with its end
	Pages     int      // pages of memory
	NoMemory  bool
	Table     []int // functions in the table
	Tables    int   // further tables, each of 100,000 items
	Start     int   // 1 + the index of the start function; 0: there is none
	Data      map[int]string
	Exports   [][]byte // further exports: see Name
	Custom    []byte   // content of a custom section, with its name
}

// Bytes returns the module in binary form.
func (m Module) Bytes() []byte {
	types := slices.Clone(m.Types)
	var imports, functions, exports, bodies, data [][]byte
	typed := func(params, results []byte) []byte {
		t := Type(params, results)
		at := slices.IndexFunc(types, func(o []byte) bool { return string(o) == string(t) })
		if at < 0 {
			at = len(types)
			types = append(types, t)
		}
		return Unsigned(at)
	}
	for _, i := range m.Imports {
		imports = append(imports, Join(Name(i.Module), Name(i.Name), []byte{0}, typed(i.Params, i.Results)))
	}
	if !m.NoMemory {
		exports = append(exports, Join(Name("memory"), []byte{2, 0}))
	}
	for i, f := range m.Functions {
		functions = append(functions, typed(f.Params, f.Results))
		var locals [][]byte
		for _, t := range f.Locals {
			locals = append(locals, []byte{1, t})
		}
		bodies = append(bodies, vec(Join(Vector(locals...), f.Code, []byte{End})))
		if f.Export != "" {
			exports = append(exports, Join(Name(f.Export), []byte{0}, Unsigned(len(m.Imports)+i)))
		}
	}
	exports = append(exports, m.Exports...)
	for _, at := range slices.Sorted(maps.Keys(m.Data)) {
		data = append(data, Join([]byte{0}, I32Const(at), []byte{End}, Name(m.Data[at])))
	}
	out := Join([]byte("\x00asm\x01\x00\x00\x00"), section(1, types), section(2, imports), section(3, functions))
	var tables [][]byte
	if m.Table != nil {
		tables = append(tables, Join([]byte{0x70, 0}, Unsigned(len(m.Table))))
	}
	for range m.Tables {
		tables = append(tables, Join([]byte{0x70, 0}, Unsigned(100_000)))
	}
	out = Join(out, section(4, tables))
	if !m.NoMemory {
		out = Join(out, section(5, [][]byte{Join([]byte{0}, Unsigned(m.Pages))}))
	}
	out = Join(out, section(6, m.Globals), section(7, exports))
	if m.Start > 0 {
		out = Join(out, []byte{8}, vec(Unsigned(m.Start-1)))
	}
	if m.Table != nil {
		var elements [][]byte
		for _, f := range m.Table {
			elements = append(elements, Unsigned(f))
		}
		out = Join(out, section(9, [][]byte{Join([]byte{0}, I32Const(0), []byte{End}, Vector(elements...))}))
	}
	out = Join(out, section(10, bodies), section(11, data))
	if m.Custom != nil {
		out = Join(out, []byte{0}, vec(m.Custom))
	}
	return out
}

func section(id byte, items [][]byte) []byte {
	if len(items) == 0 {
		return nil
	}
	return Join([]byte{id}, vec(Vector(items...)))
}

// Type is the type of a function, or of a block.
func Type(params, results []byte) []byte { return Join([]byte{0x60}, vec(params), vec(results)) }

// vec is a count and then the bytes.
func vec(b []byte) []byte { return Join(Unsigned(len(b)), b) }

// Vector is a count and then the items.
func Vector(items ...[]byte) []byte {
	return Join(append([][]byte{Unsigned(len(items))}, items...)...)
}

// Join concatenates code.
func Join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// Name is a string as modules encode it.
func Name(s string) []byte { return vec([]byte(s)) }

// Op is an instruction, and then its indexes or bytes.
func Op(op byte, immediates ...int) []byte {
	b := []byte{op}
	for _, n := range immediates {
		b = append(b, Unsigned(n)...)
	}
	return b
}

// I32Const and I64Const push a number.
func I32Const(n int) []byte   { return append([]byte{0x41}, Signed(int64(n))...) }
func I64Const(n int64) []byte { return append([]byte{0x42}, Signed(n)...) }

// Unsigned is n ≥ 0 in LEB128.
func Unsigned(n int) []byte {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// Signed is n in signed LEB128.
func Signed(n int64) []byte {
	var b []byte
	for ; n < -0x40 || n >= 0x40; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n)&0x7f)
}
