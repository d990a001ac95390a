// Package sdk is what a rule's author links: the module's entry points, exact money, and what sales have in common.
//
// A rule is plain Go: a Description of what goes in and comes out, and a function that fills an Output from an Input.
// init hands both to Register; tests call the function natively. Amounts are int64 in 1e-8 units.
//
//	Times MulDiv Cents Round2 LessPart Shares Add   exact arithmetic: half away from zero, and told when too large
//	Zeroed Optional                                 the rows of an answer before they are computed; what may be absent
//	Priced                                          lines of a quantity, a price and what is taken off (14, 15)
//	Sale and Layout, SaleColumns …                  lines, taxes and discounts of a sale (01, 03, 04, 11)
//	Note                                            a credit or debit note, whole (05, 06)
package sdk

import "dtegate/rules/abi"

// Evaluate computes one document. It appends to out, whose slices come empty: a row of outputs for each line, every
// summary amount, the taxes that there are; or faults, and then amounts do not matter. in and out are good for the
// call only, and nothing may be kept between calls.
type Evaluate func(in *abi.Input, out *abi.Output)

var (
	description []byte
	width       int
	evaluate    Evaluate
	warnings    []bool
)

// Register names the rule of this module; call it once, from init.
func Register(d *abi.Description, e Evaluate) {
	description, width, evaluate = JSON(d), len(d.LineOutputs), e
	for _, f := range d.Faults {
		warnings = append(warnings, f.Warning)
	}
}

// answer runs the rule over an input of so many bytes and writes the answer over it; -1 for an input that makes no
// sense.
func answer(message []int64, length int, in *abi.Input, out *abi.Output) int {
	if !read(message, length, in) {
		return -1
	}
	out.Lines, out.Summary, out.Taxes, out.Faults = out.Lines[:0], out.Summary[:0], out.Taxes[:0], out.Faults[:0]
	evaluate(in, out)
	for _, f := range out.Faults {
		if !warnings[f.Code] { // refused: no amounts
			out.Lines, out.Summary, out.Taxes = out.Lines[:0], out.Summary[:0], out.Taxes[:0]
			break
		}
	}
	return write(message, out, width)
}
