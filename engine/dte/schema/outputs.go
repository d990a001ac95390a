package schema

import (
	"slices"

	"dtegate/engine/dte"
)

// OutputKind is the form of one answer of a rule module.
type OutputKind uint8

// The forms of an answer.
const (
	OutAmount OutputKind = iota // in 1e-8
	OutSet                      // bit i stands for Outputs.Taxes[i]; written as the array of their codes, null when empty
)

// Output names one answer per line.
type Output struct {
	Name string // of the member of cuerpoDocumento[]
	Kind OutputKind
}

// Outputs says by name what a rule module answers. A name that the schema does not know is not written: one module
// serves both generations of its document.
type Outputs struct {
	Lines   []Output // members of cuerpoDocumento[]
	Summary []string // members of resumen, always amounts
	Taxes   []string // codes of CAT-015
}

// TaxAmount is one row of the summary's taxes.
type TaxAmount struct {
	Tax    int // indexes Outputs.Taxes
	Amount dte.Amount
}

// Computed is one answer of a rule module, in the order of Outputs.
type Computed struct {
	N       int     // lines
	Lines   []int64 // N rows of len(Outputs.Lines)
	Summary []int64
	Taxes   []TaxAmount
}

// NamedOutputs returns the amounts that an overlay names of a module's answer: with them a layout is compiled whose module
// nobody runs.
func NamedOutputs(overlay []byte) (out Outputs, err error) {
	o, err := parseOverlay(overlay)
	if err != nil {
		return out, err
	}
	for _, e := range o.from {
		for _, name := range []string{e.amount, e.words} {
			if name != "" && !slices.Contains(out.Summary, name) {
				out.Summary = append(out.Summary, name)
			}
		}
	}
	if o.total != "" && !slices.Contains(out.Summary, o.total) {
		out.Summary = append(out.Summary, o.total)
	}
	return out, nil
}
