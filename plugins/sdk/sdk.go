// Package sdk is what a rule's author links: the module's entry points, exact money and the description.
//
// A rule is plain Go: a Description and a function that fills an Output from an Input. main.go hands both to
// Register; rule.go is ordinary code that tests call natively.
package sdk

import "dtegate/rules/abi"

// Evaluate computes one document. It must fill every field of out (Lines, Summary; Taxes and Faults as they apply)
// and must not keep anything between calls. out's slices are empty and reusable.
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

// answer runs the rule over an encoded input and writes the answer over it; -1 for an input that makes no sense.
func answer(buffer []byte, length int, in *abi.Input, out *abi.Output) int {
	if length < 0 || length > len(buffer) || abi.DecodeInput(buffer[:length], in) != nil {
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
	size := abi.OutputSize(len(out.Lines), 1, len(out.Summary), len(out.Taxes))
	if size > len(buffer) {
		return -1
	}
	return len(abi.AppendOutput(buffer[:0], out, width))
}
