package form

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
)

// TestReader: each condition of a member at its bound and just beyond it: the fact, or the path and the code of the
// fault.
func TestReader(t *testing.T) {
	most := strings.Repeat("1,", 2) + "1"
	inner := []field{{name: "a", required: true}, {name: "b", fact: "c", shape: isInteger, preset: dte.Int(7)}}
	number := field{name: "n", shape: isNumber}
	bounded := field{name: "n", shape: isNumber, min: amount(-1), max: amount(3)}
	text := field{name: "n"}
	for _, c := range []struct {
		field field
		sent  string // "": the member is absent
		want  string // the fact, or its fault; "": neither
	}{
		{text, ``, ``}, {text, `null`, ``}, {text, `"x"`, `"x"`}, {text, `1`, `n TYPE`}, {text, `[]`, `n TYPE`},
		{field{name: "n", required: true}, ``, `n REQUIRED`}, {field{name: "n", required: true}, `null`, `n REQUIRED`},
		{field{name: "n", required: true}, `" "`, `n REQUIRED`}, {text, `""`, `n LENGTH`}, {text, `" \u3000"`, `n LENGTH`},
		{field{name: "n", blank: true, required: true}, `" "`, ``},
		{field{name: "n", blank: true, preset: dte.Int(1)}, `" "`, `1`},
		{field{name: "n", preset: dte.Int(1)}, ``, `1`}, {field{name: "n", preset: dte.Int(1)}, `"2"`, `"2"`},
		{text, `"a\u0000"`, `n PATTERN`}, {text, `"a\nb"`, `n PATTERN`}, {text, `"a\tb"`, `n PATTERN`},
		{text, `"a\u200b"`, `n PATTERN`}, {text, `"a\u2028b"`, `n PATTERN`}, {text, `"\ufeffa"`, `n PATTERN`},
		{text, `"a\u200db"`, "\"a\u200db\""}, {text, `"a\u00a0b"`, "\"a\u00a0b\""},
		{field{name: "n", lines: true}, `"a\r\nb"`, `"a\r\nb"`}, {field{name: "n", lines: true}, `"a\tb"`, `n PATTERN`},
		{field{name: "n", lines: true}, `"\n"`, `n LENGTH`},
		{text, `"\u2800"`, `n LENGTH`}, {text, `"\u3164"`, `n LENGTH`}, {text, `"\ufe0f"`, `n LENGTH`},
		{text, `"\u2800a"`, "\"\u2800a\""},
		{field{name: "n", equals: "SV"}, `"SV"`, `"SV"`}, {field{name: "n", equals: "SV"}, `"GT"`, `n CONDITION`},
		{field{name: "n", equals: "SV"}, `" "`, `n CONDITION`},
		{field{name: "n", shape: isFlag}, `true`, `true`}, {field{name: "n", shape: isFlag}, `false`, `false`},
		{field{name: "n", shape: isFlag}, `"true"`, `n TYPE`}, {field{name: "n", shape: isFlag}, `1`, `n TYPE`},
		{number, `1.50`, `1.5`}, {number, `-1`, `-1`}, {number, `"1"`, `n TYPE`}, {number, `true`, `n TYPE`},
		{number, `0.00000001`, `0.00000001`}, {number, `0.000000001`, `n PRECISION`},
		{number, `91999999999.99999999`, `91999999999.99999999`}, {number, `92000000000`, `n RANGE`},
		{number, `1e400`, `n RANGE`}, {number, `-92000000001`, `n RANGE`},
		{field{name: "n", shape: isInteger}, `2.0`, `2`}, {field{name: "n", shape: isInteger}, `2.5`, `n TYPE`},
		{bounded, `-1`, `-1`}, {bounded, `-1.00000001`, `n RANGE`}, {bounded, `3`, `3`}, {bounded, `3.00000001`, `n RANGE`},
		{field{name: "n", shape: isNumber, min: amount(0)}, `0`, `0`},
		{field{name: "n", shape: isNumber, min: amount(0)}, `-0.01`, `n RANGE`},
		{field{name: "n", shape: isNumber, min: amount(0), above: true}, `0`, `n RANGE`},
		{field{name: "n", shape: isNumber, min: amount(0), above: true}, `0.00000001`, `0.00000001`},
		{field{name: "n", shape: isNumber, min: amount(0), above: true, max: amount(1)}, `2`, `n RANGE`},
		{field{name: "n", shape: isTexts, limit: 3}, `["a","b","c"]`, `["a","b","c"]`},
		{field{name: "n", shape: isTexts, limit: 2}, `["a","b","c"]`, `n TYPE`},
		{field{name: "n", shape: isTexts, limit: 2}, `["a",1]`, `n[1] TYPE`},
		{field{name: "n", shape: isTexts, limit: 2}, `"a"`, `n TYPE`},
		{field{name: "n", shape: isObject, members: inner}, `{"a":"x"}`, `{"a":"x","c":7}`},
		{field{name: "n", shape: isObject, members: inner}, `{"b":1,"a":"x"}`, `{"a":"x","c":1}`},
		{field{name: "n", shape: isObject, members: inner}, `{"a":"x","c":1}`, `n.c UNKNOWN`},
		{field{name: "n", shape: isObject, members: inner, loose: true}, `{"a":"x","z":1}`, `{"a":"x","c":7}`},
		{field{name: "n", shape: isObject, members: inner}, `{}`, `n.a REQUIRED`},
		{field{name: "n", shape: isObject, members: inner}, `[]`, `n TYPE`},
		{field{name: "n", shape: isList, members: inner, limit: 2}, `[{"a":"x"},{"a":"y","b":2}]`,
			`[{"a":"x","c":7},{"a":"y","c":2}]`},
		{field{name: "n", shape: isList, members: inner, limit: 2, numbered: true}, `[{"a":"x"},{"a":"y"}]`,
			`[{"numItem":1,"a":"x","c":7},{"numItem":2,"a":"y","c":7}]`},
		{field{name: "n", shape: isList, limit: 2}, `[` + most + `]`, `n COUNT`},
		{field{name: "n", shape: isList, limit: 2}, `[]`, `n COUNT`},
		{field{name: "n", shape: isList, limit: 2}, `{}`, `n TYPE`},
		{field{name: "n", shape: isList, members: inner, limit: 2}, `[1,{"a":"x","d":1}]`, `n[0] TYPE, n[1].d UNKNOWN`},
	} {
		body := `{}`
		if c.sent != "" {
			body = `{"n":` + c.sent + `}`
		}
		d := (&Form{fields: []field{c.field}}).Fill(parsed(t, body), nil)
		got := listed(d.Faults)
		if fact := d.Facts.Get("n"); got == "" && fact.Exists() {
			got = string(fact.Append(nil))
		}
		if got != c.want {
			t.Errorf("%+v of %s: %s, want %s", c.field, c.sent, got, c.want)
		}
	}
}

func parsed(t *testing.T, text string) dte.Value {
	t.Helper()
	v, err := dte.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func listed(faults []dte.Fault) string {
	var list []string
	for _, f := range faults {
		list = append(list, f.Path+" "+f.Code)
	}
	return strings.Join(list, ", ")
}

// TestReader_Bounds: the message about a number names the bounds of its member.
func TestReader_Bounds(t *testing.T) {
	for want, f := range map[string]field{
		"Debe ser mayor que 2":        {name: "n", shape: isNumber, min: amount(2), above: true},
		"No puede ser menor que 2":    {name: "n", shape: isNumber, min: amount(2)},
		"Debe estar entre 2 y 3":      {name: "n", shape: isNumber, min: amount(2), max: amount(3)},
		"Debe ser un número entero":   {name: "n", shape: isInteger, min: amount(2), max: amount(3)},
		"Lleva a lo sumo 8 decimales": {name: "n", shape: isInteger, min: amount(2), max: amount(3), above: true},
	} {
		sent := map[string]string{"Debe ser un número entero": "1.5", "Lleva a lo sumo 8 decimales": "2.000000001"}[want]
		if sent == "" {
			sent = "1"
		}
		d := (&Form{fields: []field{f}}).Fill(parsed(t, `{"n":`+sent+`}`), nil)
		if len(d.Faults) != 1 || d.Faults[0].Message != want {
			t.Errorf("%v, want %s", d.Faults, want)
		}
	}
}

// TestReader_Person: which numbers of a person are accepted, what they become, and which kind a number without a kind
// gets.
func TestReader_Person(t *testing.T) {
	const dui, nit = "012345678", "06142907801123"
	form := &Form{fields: []field{{name: "p", shape: isObject, loose: true, person: true, members: taxpayer}}}
	for _, c := range [][2]string{
		{`{}`, `{}`}, {`{"nit":"0614-290780-112-3"}`, `{"nit":"` + nit + `"}`},
		{`{"nit":"01234567-8"}`, `{"nit":"` + dui + `"}`},
		{`{"nit":"0614"}`, `p.nit PATTERN`}, {`{"nit":"0614x"}`, `p.nit PATTERN`}, {`{"nit":null}`, `{}`},
		{`{"nrc":"1"}`, `p.nrc PATTERN`}, {`{"nrc":"1-2"}`, `{"nrc":"12"}`}, {`{"nrc":"1234567-8"}`, `{"nrc":"12345678"}`},
		{`{"nrc":"123456789"}`, `p.nrc PATTERN`}, {`{"nrc":1}`, `p.nrc TYPE`},
		{`{"numDocumento":"01234567-8"}`, `{"numDocumento":"` + dui + `","tipoDocumento":"13"}`},
		{`{"numDocumento":"0614-290780-112-3"}`, `{"numDocumento":"` + nit + `","tipoDocumento":"36"}`},
		{`{"numDocumento":"0123456789"}`, `p.tipoDocumento REQUIRED`},
		{`{"numDocumento":"A1"}`, `p.tipoDocumento REQUIRED`},
		{`{"tipoDocumento":"37"}`, `p.numDocumento REQUIRED`},
		{`{"tipoDocumento":1,"numDocumento":"A"}`, `p.tipoDocumento TYPE`},
		{`{"tipoDocumento":"13","numDocumento":1}`, `p.numDocumento TYPE`},
		{`{"tipoDocumento":"37","numDocumento":"A-1"}`, `{"tipoDocumento":"37","numDocumento":"A-1"}`},
		{`{"tipoDocumento":"13","numDocumento":"01234567-8"}`, `{"tipoDocumento":"13","numDocumento":"` + dui + `"}`},
		{`{"tipoDocumento":"13","numDocumento":"` + nit + `"}`, `p.numDocumento PATTERN`},
		{`{"tipoDocumento":"36","numDocumento":"01234567-8"}`, `{"tipoDocumento":"36","numDocumento":"` + dui + `"}`},
		{`{"tipoDocumento":"36","numDocumento":"1"}`, `p.numDocumento PATTERN`},
		{`{"tipoDocumento":"13","numDocumento":"` + dui + `","nit":"` + nit + `"}`,
			`{"tipoDocumento":"13","numDocumento":"` + dui + `","nit":"` + nit + `"}`},
		{`{"tipoDocumento":"13","numDocumento":"` + dui + `","nit":"012345679"}`,
			`p.nit CONDITION, p.numDocumento CONDITION`},
		{`{"tipoDocumento":"36","numDocumento":"` + nit + `","nit":"0614-290780-112-3"}`,
			`{"tipoDocumento":"36","numDocumento":"` + nit + `","nit":"` + nit + `"}`},
		{`{"tipoDocumento":"36","numDocumento":"` + nit + `","nit":"06142907801124"}`,
			`p.nit CONDITION, p.numDocumento CONDITION`},
		{`{"tipoDocumento":"36","numDocumento":"` + nit + `","nit":"1"}`, `p.nit PATTERN`},
		{`{"tipoDocumento":"36","numDocumento":"1","nit":"` + nit + `"}`, `p.numDocumento PATTERN`},
		{`{"tipoDocumento":"37","numDocumento":"1","nit":"` + nit + `"}`,
			`{"tipoDocumento":"37","numDocumento":"1","nit":"` + nit + `"}`},
		{`{"tipoDocumento":"37","numDocumento":"06142907801124","nit":"` + nit + `"}`,
			`{"tipoDocumento":"37","numDocumento":"06142907801124","nit":"` + nit + `"}`},
		{`{"correo":" ana@tienda.com "}`, `{"correo":"ana@tienda.com"}`}, {`{"correo":"ana"}`, `p.correo FORMAT`},
		{`{"correo":1}`, `p.correo TYPE`}, {`{"correo":null}`, `{}`}, {`{"correo":""}`, `p.correo LENGTH`},
	} {
		d := form.Fill(parsed(t, `{"p":`+c[0]+`}`), nil)
		got := listed(d.Faults)
		if got == "" {
			fact, want := d.Facts.Get("p"), parsed(t, `{}`)
			if c[1] != "" && c[1][0] == '{' {
				want = parsed(t, c[1])
			}
			if fact.Digest() == want.Digest() { // the order of members does not count
				continue
			}
			got = string(fact.Append(nil))
		}
		if got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}

// TestPayments: what a payment becomes, and which payments are refused.
func TestPayments(t *testing.T) {
	form := &Form{fields: saleMembers[1:4]}
	form.bundle.Pays = true
	codes := map[string]string{"T": "02", "E": "01"}
	for _, c := range []struct {
		sent  string
		codes map[string]string
		want  string // pagos, or the faults
		warns bool
	}{
		{`"condicionOperacion":1`, nil, `[{"codigo":"01"}]`, false},
		{`"condicionOperacion":2`, nil, `pago REQUIRED`, false}, {`"condicionOperacion":3`, nil, `pago REQUIRED`, false},
		{`"condicionOperacion":1,"pago":null,"pagos":null`, nil, `[{"codigo":"01"}]`, false},
		{`"condicionOperacion":1,"pago":{"codigo":"02"},"pagos":[{"codigo":"02"}]`, nil,
			`pago CONDITION, pagos CONDITION`, false},
		{`"condicionOperacion":1,"pago":{"codigo":"02","referencia":"r"}`, nil,
			`[{"codigo":"02","referencia":"r"}]`, false},
		{`"condicionOperacion":1,"pago":{"codigo":"01","referencia":"r"}`, nil,
			`[{"codigo":"01","referencia":null}]`, false},
		{`"condicionOperacion":1,"pago":{"codigo":"E","referencia":"r"}`, codes,
			`[{"codigo":"01","referencia":null}]`, false},
		{`"condicionOperacion":1,"pagos":[{"codigo":"T","montoPago":1},{"codigo":"05","montoPago":2.50}]`, codes,
			`[{"montoPago":1,"codigo":"02"},{"montoPago":2.5,"codigo":"05"}]`, false},
		{`"condicionOperacion":1,"pago":{"codigo":"03"}`, nil, `[{"codigo":"03"}]`, true},
		{`"condicionOperacion":1,"pagos":[{"codigo":"04"},{"codigo":"03"}]`, nil,
			`[{"codigo":"04"},{"codigo":"03"}]`, true},
		{`"condicionOperacion":1,"pago":{"codigo":"03"}`, codes, `[{"codigo":"03"}]`, false},
		{`"condicionOperacion":2,"pago":{"codigo":"02","plazo":"01","periodo":30}`, nil,
			`[{"codigo":"02","plazo":"01","periodo":30}]`, false},
		{`"condicionOperacion":2,"pago":{"codigo":"02","plazo":"01"}`, nil, `pago.periodo REQUIRED`, false},
		{`"condicionOperacion":2,"pago":{"codigo":"02","periodo":30}`, nil, `pago.plazo REQUIRED`, false},
		{`"condicionOperacion":2,"pago":{"codigo":"02","periodo":0,"plazo":"01"}`, nil, `pago.periodo RANGE`, false},
		{`"condicionOperacion":2,"pago":{"codigo":"02","periodo":3,"plazo":1}`, nil, `pago.plazo TYPE`, false},
		{`"condicionOperacion":2,"pagos":[{"codigo":"01"},{"codigo":"02","plazo":"01"}]`, nil,
			`pagos[1].periodo REQUIRED`, false},
		{`"condicionOperacion":2,"pagos":[{"montoPago":-1,"codigo":"01"}]`, nil, `pagos[0].montoPago RANGE`, false},
		{`"condicionOperacion":4`, nil, `condicionOperacion RANGE`, false},
	} {
		d := form.Fill(parsed(t, `{`+c.sent+`}`), c.codes)
		got := listed(d.Faults)
		if got == "" {
			got = string(d.Facts.Get("resumen").Get("pagos").Append(nil))
		}
		if got != c.want || len(d.Warnings) > 1 || (len(d.Warnings) > 0) != c.warns {
			t.Errorf("%s: %s %v, want %s", c.sent, got, d.Warnings, c.want)
		}
	}
}

// TestReader_Full: at most MaxFaults faults are kept, and later items are not read.
func TestReader_Full(t *testing.T) {
	for n, want := range map[int]int{MaxFaults - 1: MaxFaults - 1, MaxFaults: MaxFaults, MaxFaults + 1: MaxFaults} {
		d := (&Form{fields: []field{{name: "n", shape: isList, limit: 1000}}}).Fill(
			parsed(t, fmt.Sprintf(`{"n":[%s1]}`, strings.Repeat("1,", n-1))), nil)
		if len(d.Faults) != want || d.Facts.Get("n").Len() != min(n, MaxFaults) {
			t.Errorf("%d faults: %d, %d items", n, len(d.Faults), d.Facts.Get("n").Len())
		}
	}
}

// TestMessages: what a person reads about a text, and about a name that resembles another.
func TestMessages(t *testing.T) {
	form := &Form{fields: plain("nombre", "telefono")}
	for sent, want := range map[string]string{
		`{"nombre":"a\tb"}`:     "Va en una sola línea y sin tabuladores",
		`{"nombre":"a\u200bb"}`: "Lleva un carácter que no se puede imprimir",
		`{"nombrre":""}`:        "No se conoce este campo; ¿quiso decir nombre?",
		`{"xyzzy":""}`:          "No se conoce este campo",
	} {
		if d := form.Fill(parsed(t, sent), nil); len(d.Faults) != 1 || d.Faults[0].Message != want {
			t.Errorf("%s: %+v", sent, d.Faults)
		}
	}
}

// TestPaths: faults of facts are reported at what the till sent, and what could not be read is named by its facts.
func TestPaths(t *testing.T) {
	form := &Form{fields: append(slices.Clone(saleMembers), field{name: "receptor", shape: isObject, loose: true,
		person: true, members: consumer}, field{name: "caja", place: inApendice}, appendix)}
	for fault, want := range map[dte.Fault]string{
		{Path: "items[0].precioUnitario"}:             "[cuerpoDocumento.precioUni]",
		{Path: "items[0].descripcion"}:                "[]",
		{Path: "items"}:                               "[]",
		{Path: "condicionOperacion"}:                  "[resumen.condicionOperacion]",
		{Path: "pago.plazo"}:                          "[resumen.pagos.plazo]",
		{Path: "pago.codigo"}:                         "[]",
		{Path: "receptor.direccion.distrito"}:         "[receptor.direccion.distrito]",
		{Path: "receptor.nombre"}:                     "[]",
		{Path: "caja"}:                                "[]",
		{Path: "items[0].x", Code: dte.FaultUnknown}:  "[cuerpoDocumento]",
		{Path: "receptor.x", Code: dte.FaultUnknown}:  "[receptor]",
		{Path: "x", Code: dte.FaultUnknown}:           "[]",
		{Path: "observaciones"}:                       "[resumen.observaciones]",
		{Path: "receptor.direccion.x", Code: "OTHER"}: "[receptor.direccion]",
	} {
		d := form.Fill(parsed(t, `{"items":[{"descripcion":"a","cantidad":1}],"pago":{"codigo":"01"},`+
			`"receptor":{"nombre":"Ana","direccion":{"municipio":"01"}}}`), nil)
		d.Faults = []dte.Fault{fault}
		if got := fmt.Sprint(d.unread()); got != want {
			t.Errorf("%+v: %s, want %s", fault, got, want)
		}
	}
	for path, want := range map[string]string{"pagos[].montoPago": "pagos[0].montoPago", "pagos[].x": "pagos[0]",
		"items[].a": "items", "items[1].a": "items[1].a", "items[2].a": "items", "no.x": "no.x", "items": "items",
		"receptor.nombre": "receptor.nombre", "receptor.nrc": "receptor"} {
		body := `{"pagos":[{"montoPago":1}],"items":[{},{"a":1}],"receptor":{"nombre":"a"}}`
		d := &Filled{form: form, body: parsed(t, body)}
		if got := d.sent(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	d := &Filled{form: form, body: parsed(t, `{"items":[{}],"pagos":[{},{}]}`)}
	d.Merge([]dte.Fault{{Path: "cuerpoDocumento[0].precioUni", Code: "A", Message: "óptimo"}, {Path: "resumen.totalPagar",
		Code: "B", Message: "es malo"}, {Path: "cuerpoDocumento[0].cantidad", Code: "C"}, {Path: "resumen.pagos[].montoPago",
		Code: "D"}, {Path: "resumen.pagos[1].montoPago", Code: "E"}, {Path: "resumen.otro", Code: "F"}})
	if got := listed(d.Faults); got != "items[0].precioUnitario A, items B, pagos D" || d.Faults[0].Message != "Óptimo" ||
		d.Faults[1].Message != "El total a pagar es malo" {
		t.Errorf("%s: %+v", got, d.Faults)
	}
}

// TestMerge_Known: what the reader refused is not refused again by the rules, nor is anything below it; a name that
// only begins alike is another member.
func TestMerge_Known(t *testing.T) {
	for have, want := range map[string]string{"": "a, a.b, a[0], a[0].b, ab", "a": "a, ab", "a[0]": "a[0], a, a.b, ab",
		"a.b": "a.b, a, a[0], a[0].b, ab", "ab": "ab, a, a.b, a[0], a[0].b"} {
		d := &Filled{form: &Form{}, body: parsed(t, "{}")}
		if have != "" {
			d.fault(have, dte.FaultType, "x")
		}
		var found []dte.Fault
		for _, path := range []string{"a", "a.b", "a[0]", "a[0].b", "ab"} {
			found = append(found, dte.Fault{Path: path, Code: dte.FaultRange})
		}
		slices.Reverse(found)
		d.Merge(found)
		var got []string
		for _, f := range d.Faults {
			got = append(got, f.Path)
		}
		first := min(1, len(have))
		slices.Sort(got[first:])
		if strings.Join(got, ", ") != want {
			t.Errorf("after %q: %s, want %s", have, strings.Join(got, ", "), want)
		}
	}
	d := &Filled{form: &Form{}, body: parsed(t, "{}")}
	for i := range MaxFaults {
		d.fault(index("a", i), dte.FaultType, "x")
	}
	d.MergeMore(func([]string) []dte.Fault { t.Error("a full list asks for more"); return nil })
	if d.Merge([]dte.Fault{{Path: "b"}}); len(d.Faults) != MaxFaults {
		t.Errorf("%d faults", len(d.Faults))
	}
}
