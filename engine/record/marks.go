package record

import (
	"fmt"

	"dtegate/engine/dte"
)

// The marks that tell a normal document from one issued in contingency (MF2 p.18; NV2 Anexo IV n.º 9).
var NormalMarks = []dte.Member{
	{Name: "tipoModelo", Value: dte.Int(1)},
	{Name: "tipoOperacion", Value: dte.Int(1)},
	{Name: "tipoContingencia", Value: dte.Null()},
	{Name: "motivoContin", Value: dte.Null()},
}

// ContingencyMarks: cause is CAT-005; the motive is text when the cause is 5 (other) and null otherwise.
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

// ReplaceMarks returns a signed document with the marks replaced and every other byte as it was: the contingency form of
// a normal document keeps its code, number, date and amounts.
func ReplaceMarks(document []byte, marks []dte.Member) ([]byte, error) {
	v, err := dte.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("reading the normal form: %w", err)
	}
	return v.With("identificacion", v.Get("identificacion").Set(marks...)).Append(nil), nil
}
