// Package sdk is the library for authors of rules. It has the module's entry points, exact arithmetic with money, and
// the parts that sales have in common.
//
// A rule is plain Go: a Description of its inputs and outputs, and a function that fills an Output from an Input. init
// passes both to Register; tests call the function natively. Amounts are int64 in 1e-8 units.
//
//	Times MulDiv Cents Round2 LessPart Shares Add   exact arithmetic: half away from zero; reports overflow
//	Zeroed Optional                                 the rows of an answer before they are computed; optional amounts
//	Priced                                          lines of a quantity, a price and a discount (14, 15)
//	Sale and Layout, SaleColumns …                  lines, taxes and discounts of a sale (01, 03, 04, 11)
//	Note                                            a whole credit or debit note (05, 06)
package sdk

import (
	"strconv"

	"dtegate/rules/abi"
)

// Evaluate computes one document. The slices of out are empty at first. Evaluate appends a row of outputs for each
// line, every summary amount and the taxes that apply. Any fault except a warning makes the amounts ignored. in and
// out are valid only during the call, and a rule must keep nothing between calls.
type Evaluate func(in *abi.Input, out *abi.Output)

var (
	description []byte
	width       int
	evaluate    Evaluate
	warnings    []bool
)

// Register sets the rule of this module. Call Register once, from init.
func Register(d *abi.Description, e Evaluate) {
	description, width, evaluate = JSON(d), len(d.LineOutputs), e
	for _, f := range d.Faults {
		warnings = append(warnings, f.Warning)
	}
}

// answer runs the rule on the first length bytes of message, overwrites them with the answer and returns the answer's
// length in bytes; -1 if the input is malformed.
func answer(message []int64, length int, in *abi.Input, out *abi.Output) int {
	if !read(message, length, in) {
		return -1
	}
	out.Lines, out.Summary, out.Taxes, out.Faults = out.Lines[:0], out.Summary[:0], out.Taxes[:0], out.Faults[:0]
	evaluate(in, out)
	for _, f := range out.Faults {
		if !warnings[f.Code] { // the document is refused: write no amounts
			out.Lines, out.Summary, out.Taxes = out.Lines[:0], out.Summary[:0], out.Taxes[:0]
			break
		}
	}
	return write(message, out, width)
}

// A message is a header of four words, then integers (rules/abi/README.md). The buffer is a slice of integers. The
// slices of an Input point into the buffer, therefore nothing is decoded.
const headerWords = 4

// read makes the slices of in point into a message. length is the length of the message in bytes. read returns false if
// the message is malformed.
func read(message []int64, length int, in *abi.Input) bool {
	if length < 8*headerWords || length > 8*len(message) || message[0] != abi.Magic|abi.Version<<32 {
		return false
	}
	params, scalars := int(uint32(message[1])), int(uint32(message[1]>>32))
	columns, lines := int(uint32(message[2])), int(uint32(message[2]>>32))
	rest := message[headerWords : length/8]
	if lines > abi.MaxLines || length != 8*(headerWords+params+scalars+columns*lines) {
		return false
	}
	in.N = lines
	in.Params, rest = rest[:params:params], rest[params:]
	in.Scalars, in.Lines = rest[:scalars:scalars], rest[scalars:]
	return true
}

// write overwrites a message with an answer and returns the answer's length in bytes, or -1 if the answer does not fit.
func write(message []int64, out *abi.Output, lineOutputs int) int {
	faults := out.Faults[:min(len(out.Faults), abi.MaxFaults)]
	words := headerWords + len(out.Lines) + len(out.Summary) + 2*len(out.Taxes) + 2*len(faults)
	if words > len(message) {
		return -1
	}
	lines := 0
	if lineOutputs > 0 {
		lines = len(out.Lines) / lineOutputs
	}
	message[0] = abi.Magic | abi.Version<<32
	message[1] = pair(lineOutputs, lines)
	message[2] = pair(len(out.Summary), len(out.Taxes))
	message[3] = pair(len(faults), 0)
	rest := message[headerWords:]
	rest = rest[copy(rest, out.Lines):]
	rest = rest[copy(rest, out.Summary):]
	for i, t := range out.Taxes {
		rest[2*i], rest[2*i+1] = int64(t.Tax), t.Amount
	}
	rest = rest[2*len(out.Taxes):]
	for i, f := range faults {
		rest[2*i], rest[2*i+1] = pair(f.Code, f.Line), pair(f.Column, 0)
	}
	return 8 * words
}

// pair returns two 32-bit integers in one word, the first in the lower half.
func pair(low, high int) int64 { return int64(uint32(low)) | int64(high)<<32 }

// JSON encodes a description. It does not use encoding/json: that package would be half of a guest's size.
func JSON(d *abi.Description) []byte {
	b := append([]byte(`{"abi":`), strconv.Itoa(abi.Version)...)
	b = append(b, `,"name":`...)
	b = text(b, d.Name)
	b = list(b, "params", len(d.Params), func(b []byte, i int) []byte {
		b = text(append(b, `{"name":`...), d.Params[i].Name)
		return append(text(append(b, `,"unit":`...), d.Params[i].Unit), '}')
	})
	b = fields(b, "scalars", d.Scalars)
	b = fields(b, "columns", d.Columns)
	b = fields(b, "line_outputs", d.LineOutputs)
	b = texts(b, "summary", d.Summary)
	b = texts(b, "taxes", d.Taxes)
	b = list(b, "faults", len(d.Faults), func(b []byte, i int) []byte {
		f := d.Faults[i]
		b = text(append(b, `{"code":`...), f.Code)
		b = text(append(b, `,"message":`...), f.Message)
		return append(strconv.AppendBool(append(b, `,"warning":`...), f.Warning), '}')
	})
	return append(b, '}')
}

func fields(b []byte, name string, fs []abi.Field) []byte {
	return list(b, name, len(fs), func(b []byte, i int) []byte {
		f := fs[i]
		b = text(append(b, `{"name":`...), f.Name)
		b = text(append(b, `,"kind":`...), f.Kind)
		b = strconv.AppendBool(append(b, `,"required":`...), f.Required)
		return append(texts(b, "values", f.Values), '}')
	})
}

func texts(b []byte, name string, ss []string) []byte {
	return list(b, name, len(ss), func(b []byte, i int) []byte { return text(b, ss[i]) })
}

func list(b []byte, name string, n int, item func([]byte, int) []byte) []byte {
	b = append(text(append(b, ','), name), ':', '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, i)
	}
	return append(b, ']')
}

// text quotes a string. Descriptions have no control characters.
func text(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}
