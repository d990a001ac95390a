package sdk

import (
	"strconv"

	"dtegate/rules/abi"
)

// JSON encodes a description. By hand: encoding/json would be half of a guest's size.
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

// text quotes a string; descriptions hold no control characters.
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
