// Package abi is the flat binary interface between the gateway and a rule module: the bytes that cross the WebAssembly
// boundary for one document. README.md describes it for authors in other languages. Guests link this package, so it
// imports very little.
package abi

import (
	"encoding/binary"
	"math"
	"unsafe"
)

const (
	// Version is the version of the interface. A module declares the version that it uses.
	Version = 1
	// Magic begins every message: "DTE1" read as little endian.
	Magic = 0x31455444
	// Absent is the value of an optional input that is missing in the facts.
	Absent = math.MinInt64
	// MaxLines is the largest number of lines of a document (MH's schemas: cuerpoDocumento has maxItems 2000).
	MaxLines = 2000
	// MaxFaults is the largest number of faults in an answer. Further faults are left out.
	MaxFaults = 50
	// MaxWide is the largest number of params, scalars, columns, line outputs, summary fields or taxes.
	MaxWide = 256
	// MaxSet is the largest number of values of a set. Each value is a bit of a mask that must stay positive.
	MaxSet = 62

	// Header is the length of a message's header, in bytes.
	Header = 32
)

// Field is a named input, or a named value of each line.
//
// The name of a scalar is the path of a fact ("resumen.condicionOperacion"); the name of a column is a member of a line
// ("cantidad"). Kinds of inputs: "amount" (1e-8 units), "integer", "flag" (0 or 1), "enum" (index into Values), "set"
// (bit i is Values[i], at most 62), "present" (1 if the fact exists). An absent enum is 0: its first value is the
// default. A scalar whose path contains "[]" is a sum over a list. Kinds of line outputs: "amount", and "set" (bit i is
// Taxes[i] of the Description).
type Field struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`
	Values   []string `json:"values,omitempty"`
	Required bool     `json:"required,omitempty"`
}

// Param is a rate or threshold that the bundle's manifest gives, in 1e-8 units.
type Param struct {
	Name string `json:"name"`
	Unit string `json:"unit"` // for people: "ratio", "USD", "USD per gallon"
}

// FaultText is a fault's code and its message for people. A code never changes, and is never reused. A document with
// only warnings is accepted.
type FaultText struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Warning bool   `json:"warning,omitempty"`
}

// Description is a module's description of itself.
type Description struct {
	ABI         int         `json:"abi"`
	Name        string      `json:"name"`
	Params      []Param     `json:"params"`
	Scalars     []Field     `json:"scalars"`
	Columns     []Field     `json:"columns"`
	LineOutputs []Field     `json:"line_outputs"`
	Summary     []string    `json:"summary"`
	Taxes       []string    `json:"taxes"` // codes of CAT-015
	Faults      []FaultText `json:"faults"`
}

// Input is one document in the form that a module reads. Lines has N rows, one after the other.
type Input struct {
	Params, Scalars, Lines []int64
	N                      int
}

// Tax is the amount of one tax in the document's summary. The field Tax indexes the Description's Taxes.
type Tax struct {
	Tax    int
	Amount int64
}

// Fault is a fault of the facts. Code indexes the Description's Faults. Column indexes Columns if Line is 0 or more,
// otherwise Scalars. A Line of -1 means no line, a Column of -1 no column.
type Fault struct{ Code, Line, Column int }

// Output is the module's answer. Lines has one row for each line of the input, one after the other.
type Output struct {
	Lines, Summary []int64
	Taxes          []Tax
	Faults         []Fault
}

// AppendInput appends the encoded input to dst.
func AppendInput(dst []byte, in *Input) []byte {
	columns := 0
	if in.N > 0 {
		columns = len(in.Lines) / in.N
	}
	for _, n := range [...]uint32{Magic, Version, uint32(len(in.Params)), uint32(len(in.Scalars)), uint32(columns),
		uint32(in.N), 0, 0} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	for _, ints := range [...][]int64{in.Params, in.Scalars, in.Lines} {
		dst = append(dst, Bytes(ints)...)
	}
	return dst
}

// OutputSize returns the largest size of an answer, in bytes, for n lines of a module with these numbers of line
// outputs, summary fields and taxes.
func OutputSize(n, lineOutputs, summary, taxes int) int {
	return Header + 8*(n*lineOutputs+summary+2*taxes) + 16*MaxFaults
}

// Bytes returns the memory of integers as bytes. The machine must be little endian, as the interface is.
func Bytes(ints []int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(ints))), 8*len(ints))
}
