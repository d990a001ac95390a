// Package reply is what answers to tills say, as JSON: records, lists, results, problems. It is the counterpart of package form, and
// knows no HTTP either.
package reply

import (
	"dtegate/engine/dte"
	"dtegate/gateway/problem"
)

// Problem appends the error envelope.
func Problem(b []byte, p *problem.Problem) []byte {
	b = append(b, `{"status":"error","type":`...)
	b = text(b, p.Type)
	b = text(append(b, `,"message":`...), p.Message)
	if len(p.RequiredFields) > 0 {
		b = texts(append(b, `,"requiredFields":`...), p.RequiredFields)
	}
	if p.Document != "" {
		b = text(append(b, `,"codigoGeneracion":`...), p.Document)
	}
	b = append(b, `,"errors":[`...)
	for i, f := range p.Faults {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, `{"path":`...), f.Path)
		b = text(append(b, `,"code":`...), f.Code)
		b = append(text(append(b, `,"message":`...), f.Message), '}')
	}
	return append(b, `]}`...)
}

// text and texts write JSON strings through the vocabulary's encoder.
func text(b []byte, s string) []byte { return dte.Str(s).Append(b) }

func texts(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(b, s)
	}
	return append(b, ']')
}

// optional writes null for an empty text.
func optional(b []byte, s string) []byte {
	if s == "" {
		return append(b, `null`...)
	}
	return text(b, s)
}
