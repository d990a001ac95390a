package record

import (
	"fmt"

	"dtegate/engine/dte"
)

// NormalMarks are the marks of a normal document; a document issued in contingency has ContingencyMarks (MF2 p.18; NV2
// Anexo IV n.º 9).
var NormalMarks = []dte.Member{
	{Name: "tipoModelo", Value: dte.Int(1)},
	{Name: "tipoOperacion", Value: dte.Int(1)},
	{Name: "tipoContingencia", Value: dte.Null()},
	{Name: "motivoContin", Value: dte.Null()},
}

// ContingencyMarks returns the marks of a document issued in contingency. cause is CAT-005; motive is text if the cause
// is 5 (other), and null otherwise.
func ContingencyMarks(cause int64, motive string) []dte.Member {
	m := []dte.Member{
		{Name: "tipoModelo", Value: dte.Int(2)},
		{Name: "tipoOperacion", Value: dte.Int(2)},
		{Name: "tipoContingencia", Value: dte.Int(cause)},
		{Name: "motivoContin", Value: dte.Null()},
	}
	if cause == 5 {
		m[3].Value = dte.Str(motive)
	}
	return m
}

// ReplaceMarks returns a signed document with other marks. Every other byte stays: the contingency form of a normal
// document keeps the code, number, date and amounts.
func ReplaceMarks(document []byte, marks []dte.Member) ([]byte, error) {
	v, err := dte.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("reading the normal form: %w", err)
	}
	return v.With("identificacion", v.Get("identificacion").Set(marks...)).Append(nil), nil
}
