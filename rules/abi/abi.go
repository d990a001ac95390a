// Package abi is the flat binary interface between the gateway and a rule module: the bytes that cross the WebAssembly
// boundary for one document. README.md describes it for authors in other languages. Guests link this package; therefore
// it imports very little.
package abi

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"unsafe"
)

const (
	// Version is the version of the interface. A module declares the version that it uses.
	Version = 1
	// Magic begins every message: "DTE1" read as little endian.
	Magic = 0x31455444
	// Absent is the value of an optional input that the facts do not have.
	Absent = math.MinInt64
	// MaxLines is the most lines of a document (SC8: cuerpoDocumento maxItems 2000).
	MaxLines = 2000
	// MaxFaults is the most faults of one answer; further faults are dropped.
	MaxFaults = 50
	// MaxWide is the most params, scalars, columns, line outputs, summary fields or taxes.
	MaxWide = 256
	// MaxSet is the most values of a set: bits of a mask that stays positive.
	MaxSet = 62

	header = 32
)

// Field is a named input, or a named value of each line.
//
// The name of a scalar is the path of a fact ("resumen.condicionOperacion"); the name of a column is a member of a line
// ("cantidad"). Kinds of inputs: "amount" (1e-8 units), "integer", "flag" (0 or 1), "enum" (index into Values; absent
// is 0, so the first value is the default), "set" (bit i is Values[i], at most 62), "present" (1 if the fact exists). A
// scalar's path with "[]" is the sum over a list. Kinds of line outputs: "amount", and "set" (bit i is Taxes[i] of the
// Description).
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

// FaultText is a stable code, never reused, and its message for people. A warning does not refuse the document.
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

// Input is one document in the form that a module reads. Lines is row-major, N rows.
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
// otherwise Scalars; -1 means none.
type Fault struct{ Code, Line, Column int }

// Output is the module's answer: Lines is row-major, with one row for each line of the input.
type Output struct {
	Lines, Summary []int64
	Taxes          []Tax
	Faults         []Fault
}

var (
	errShort  = errors.New("message is shorter than its header says")
	errMagic  = errors.New("message does not begin with the magic number and version")
	errCounts = errors.New("a count in the header is out of range")
)

// AppendInput encodes in.
func AppendInput(dst []byte, in *Input) []byte {
	columns := 0
	if in.N > 0 {
		columns = len(in.Lines) / in.N
	}
	for _, n := range [...]uint32{Magic, Version, uint32(len(in.Params)), uint32(len(in.Scalars)), uint32(columns),
		uint32(in.N), 0, 0} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	dst = appendInts(dst, in.Params)
	dst = appendInts(dst, in.Scalars)
	return appendInts(dst, in.Lines)
}

// DecodeInput decodes into in, reusing its slices.
func DecodeInput(b []byte, in *Input) error {
	params, scalars, columns, lines, err := counts(b)
	if err != nil {
		return err
	}
	if params > MaxWide || scalars > MaxWide || columns > MaxWide || lines > MaxLines {
		return errCounts
	}
	if len(b) != header+8*(params+scalars+columns*lines) {
		return errShort
	}
	b = b[header:]
	in.Params, b = ints(in.Params[:0], b, params)
	in.Scalars, b = ints(in.Scalars[:0], b, scalars)
	in.Lines, _ = ints(in.Lines[:0], b, columns*lines)
	in.N = lines
	return nil
}

// counts reads the header's magic, version and first four counts.
func counts(b []byte) (a, c, d, e int, err error) {
	if len(b) < header {
		return 0, 0, 0, 0, errShort
	}
	if binary.LittleEndian.Uint32(b) != Magic || binary.LittleEndian.Uint32(b[4:]) != Version {
		return 0, 0, 0, 0, errMagic
	}
	return int(binary.LittleEndian.Uint32(b[8:])), int(binary.LittleEndian.Uint32(b[12:])),
		int(binary.LittleEndian.Uint32(b[16:])), int(binary.LittleEndian.Uint32(b[20:])), nil
}

// OutputSize returns the size of the largest answer, in bytes, for n lines of a module with these numbers of line
// outputs, summary fields and taxes.
func OutputSize(n, lineOutputs, summary, taxes int) int {
	return header + 8*(n*lineOutputs+summary+2*taxes) + 16*MaxFaults
}

// AppendOutput encodes out; lineOutputs is the width of a row.
func AppendOutput(dst []byte, out *Output, lineOutputs int) []byte {
	lines := 0
	if lineOutputs > 0 {
		lines = len(out.Lines) / lineOutputs
	}
	faults := out.Faults[:min(len(out.Faults), MaxFaults)]
	for _, n := range [...]uint32{Magic, Version, uint32(lineOutputs), uint32(lines), uint32(len(out.Summary)),
		uint32(len(out.Taxes)), uint32(len(faults)), 0} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	dst = appendInts(dst, out.Lines)
	dst = appendInts(dst, out.Summary)
	for _, t := range out.Taxes {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Tax))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Amount))
	}
	for _, f := range faults {
		for _, n := range [...]int{f.Code, f.Line, f.Column, 0} {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(int32(n)))
		}
	}
	return dst
}

// DecodeOutput decodes into out, reusing its slices. The caller must check the numbers.
func DecodeOutput(b []byte, out *Output) error {
	columns, lines, summary, taxes, err := counts(b)
	if err != nil {
		return err
	}
	faults := int(binary.LittleEndian.Uint32(b[24:]))
	if columns > MaxWide || lines > MaxLines || summary > MaxWide || taxes > MaxWide || faults > MaxFaults {
		return errCounts
	}
	if len(b) != header+8*(columns*lines+summary+2*taxes)+16*faults {
		return errShort
	}
	b = b[header:]
	out.Lines, b = ints(out.Lines[:0], b, columns*lines)
	out.Summary, b = ints(out.Summary[:0], b, summary)
	out.Taxes, out.Faults = out.Taxes[:0], out.Faults[:0]
	for range taxes {
		code := int64(binary.LittleEndian.Uint64(b))
		if code < 0 || code >= MaxWide {
			return errCounts
		}
		out.Taxes = append(out.Taxes, Tax{int(code), int64(binary.LittleEndian.Uint64(b[8:]))})
		b = b[16:]
	}
	for range faults {
		at := func(i int) int { return int(int32(binary.LittleEndian.Uint32(b[i:]))) }
		out.Faults = append(out.Faults, Fault{at(0), at(4), at(8)})
		b = b[16:]
	}
	return nil
}

// Integers are copied as bytes: the interface is little endian, and so is every machine that runs the gateway or a
// guest. A loop would cost a guest a check of its fuel at each turn.
func appendInts(dst []byte, ns []int64) []byte {
	if len(ns) == 0 {
		return dst
	}
	return append(dst, unsafe.Slice((*byte)(unsafe.Pointer(&ns[0])), 8*len(ns))...)
}

func ints(dst []int64, b []byte, n int) ([]int64, []byte) {
	if n == 0 {
		return dst, b
	}
	dst = slices.Grow(dst, n)[:n]
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 8*n), b)
	return dst, b[8*n:]
}
