package form

import (
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

// made fills a form and returns a part of the facts, or the faults.
func made(t *testing.T, form *Form, body, fact string) string {
	t.Helper()
	d := form.Fill(parsed(t, body), nil)
	if len(d.Faults) > 0 {
		return listed(d.Faults)
	}
	return string(d.Facts.Get(fact).Append(nil))
}

// TestWithholdings: the lines of a withholding voucher get their numbers, the kind of their document and a text.
func TestWithholdings(t *testing.T) {
	const code = "0A1B2C3D-4E5F-4607-8899-AABBCCDDEEFF"
	form := &Form{fields: []field{{name: "items", fact: linesFact, shape: isList, limit: 9, members: []field{
		{name: "numItem", shape: isInteger}, {name: "numeroDocumento"}, {name: "tipoGeneracion", shape: isInteger},
		{name: "descripcion"}}}}, bundle: bundle.Form{Does: []string{"withholding"}}}
	paper := func(rest string) string { return `{"numeroDocumento":"123",` + rest + `}` }
	for _, c := range [][2]string{
		{`{"numeroDocumento":"123"}`,
			paper(`"numItem":1,"tipoGeneracion":1,"descripcion":"Retención de IVA sobre el documento 123"`)},
		{`{"numeroDocumento":"123","tipoGeneracion":1,"descripcion":"a"}`,
			paper(`"tipoGeneracion":1,"descripcion":"a","numItem":1`)},
		{`{"numeroDocumento":"123","tipoGeneracion":2}`, `items[0].numeroDocumento PATTERN`},
		{`{"tipoGeneracion":2,"descripcion":"a"}`, `{"tipoGeneracion":2,"descripcion":"a","numItem":1}`},
		{`{"descripcion":"a"}`, `{"descripcion":"a","numItem":1,"tipoGeneracion":1}`},
		{`{"numeroDocumento":"` + strings.ToLower(code) + `","descripcion":"a"}`,
			`{"numeroDocumento":"` + code + `","descripcion":"a","numItem":1,"tipoGeneracion":2}`},
		{`{"numeroDocumento":"` + code + `","tipoGeneracion":1,"descripcion":"a"}`,
			`{"numeroDocumento":"` + code + `","tipoGeneracion":1,"descripcion":"a","numItem":1}`},
		{`{"numItem":1,"descripcion":"a"}`, `{"numItem":1,"descripcion":"a","tipoGeneracion":1}`},
		{`{"numItem":2,"descripcion":"a"}`, `items[0].numItem CONDITION`},
	} {
		want := c[1]
		if want[0] == '{' {
			want = "[" + want + "]"
		}
		if got := made(t, form, `{"items":[`+c[0]+`]}`, linesFact); got != want {
			t.Errorf("%s: %s, want %s", c[0], got, want)
		}
	}
	two := `{"items":[{"numItem":1,"descripcion":"a"},{"numItem":1,"descripcion":"b"}]}`
	if got := made(t, form, two, linesFact); got != `items[1].numItem CONDITION` {
		t.Errorf("two lines of one number: %s", got)
	}
}

// TestSpecialUnits: only a line that is a tax or an untaxed charge, and names no unit, gets the unit 99.
func TestSpecialUnits(t *testing.T) {
	form := &Form{fields: []field{{name: "items", fact: linesFact, shape: isList, limit: 9, members: []field{
		{name: "uniMedida", shape: isInteger, preset: dte.Int(59)}, {name: "codTributo", blank: true},
		{name: "noGravado", shape: isNumber}}}}}
	for sent, want := range map[string]string{
		`{}`: `{"uniMedida":59}`, `{"codTributo":"20"}`: `{"uniMedida":99,"codTributo":"20"}`,
		`{"codTributo":" "}`: `{"uniMedida":59}`, `{"noGravado":0}`: `{"uniMedida":59,"noGravado":0}`,
		`{"noGravado":-1}`:                 `{"uniMedida":99,"noGravado":-1}`,
		`{"noGravado":1,"uniMedida":7}`:    `{"uniMedida":7,"noGravado":1}`,
		`{"noGravado":1,"uniMedida":null}`: `{"uniMedida":99,"noGravado":1}`,
	} {
		for _, c := range [][2]string{{sent, want}, {`{},` + sent, `{"uniMedida":59},` + want},
			{sent + `,{}`, want + `,{"uniMedida":59}`},
			{sent + `,` + sent, want + `,` + want}} {
			if got := made(t, form, `{"items":[`+c[0]+`]}`, linesFact); got != `[`+c[1]+`]` {
				t.Errorf("%s: %s, want %s", c[0], got, c[1])
			}
		}
	}
}

// TestOrigin: the origin is named by its own member, by the related object, or by both alike.
func TestOrigin(t *testing.T) {
	const a, b = "0A1B2C3D-4E5F-4607-8899-AABBCCDDEEFF", "1A1B2C3D-4E5F-4607-8899-AABBCCDDEEFF"
	related := field{name: "relacionado", shape: isObject, place: nowhere,
		members: plain("codigoGeneracion", "tipoDte", "fechaEmision")}
	both := &Form{fields: []field{{name: "origen", place: nowhere}, related},
		bundle: bundle.Form{Origin: "origen", Related: "relacionado", Either: [][]string{{"origen", "relacionado"}}}}
	alone := &Form{fields: []field{{name: "origen", place: nowhere}}, bundle: bundle.Form{Origin: "origen"}}
	of := func(code string) string {
		return `"relacionado":{"codigoGeneracion":"` + code + `","tipoDte":"03","fechaEmision":"2026-11-05"}`
	}
	for _, c := range []struct {
		form             *Form
		sent, want, kind string // want: the code, or the faults
	}{
		{both, `{"origen":"` + a + `"}`, a, ""}, {both, `{"origen":"` + strings.ToLower(a) + `"}`, a, ""},
		{both, `{` + of(a) + `}`, a, "03"}, {both, `{"origen":"` + strings.ToLower(a) + `",` + of(a) + `}`, a, "03"},
		{both, `{"origen":"` + b + `",` + of(a) + `}`, `origen CONDITION, relacionado.codigoGeneracion CONDITION`, ""},
		{both, `{"origen":"x"}`, `origen PATTERN`, ""},
		{both, `{` + of("x") + `}`, `relacionado.codigoGeneracion PATTERN`, ""},
		{both, `{}`, `origen REQUIRED`, ""}, {both, `{"origen":null,"relacionado":null}`, `origen REQUIRED`, ""},
		{both, `{"origen":1}`, `origen TYPE`, ""},
		{alone, `{"origen":"` + a + `"}`, a, ""}, {alone, `{"origen":"x"}`, `origen PATTERN`, ""},
		{alone, `{}`, "00000000-0000-0000-0000-000000000000", ""},
	} {
		d := c.form.Fill(parsed(t, c.sent), nil)
		if got := listed(d.Faults); got != "" {
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.sent, got, c.want)
			}
			continue
		}
		if d.Origin.Code.String() != c.want || d.Origin.Document != c.kind || (d.Origin.Date != "") != (c.kind != "") {
			t.Errorf("%s: %+v", c.sent, d.Origin)
		}
	}
	if (&Form{}).Fill(parsed(t, `{}`), nil).Origin != nil {
		t.Error("a request without an origin has one")
	}
	pair := &Form{fields: []field{{name: "a"}, {name: "b", fact: "a2"}, {name: "c", shape: isInteger}},
		bundle: bundle.Form{Either: [][]string{{"a", "b"}}}}
	for sent, want := range map[string]string{`{"a":"1"}`: ``, `{"b":"1"}`: ``, `{"a":"1","b":"1"}`: ``,
		`{"a":"1","b":"2"}`: `a CONDITION, b CONDITION`, `{"c":1}`: `a REQUIRED`, `{"a":null,"b":null}`: `a REQUIRED`,
		`{"a":1,"b":"1"}`: `a TYPE`} {
		if got := listed(pair.Fill(parsed(t, sent), nil).Faults); got != want {
			t.Errorf("%s: %s, want %s", sent, got, want)
		}
	}
}

// TestEntries: members that become entries of apendice come before the request's own entries.
func TestEntries(t *testing.T) {
	form := &Form{fields: []field{{name: "caja", label: "Caja", place: inApendice}, appendix}}
	own := `{"campo":"a","etiqueta":"b","valor":"c"}`
	till := `{"campo":"caja","etiqueta":"Caja","valor":"7"}`
	long := strings.Repeat("ñ", maxEntry)
	for sent, want := range map[string]string{
		`{"caja":"7"}`: `[` + till + `]`, `{"apendice":[` + own + `]}`: `[` + own + `]`, `{}`: `null`,
		`{"caja":"7","apendice":[` + own + `]}`: `[` + till + `,` + own + `]`,
		`{"caja":"` + long + `"}`:               `[` + strings.Replace(till, "7", long, 1) + `]`,
		`{"caja":"` + long + `x"}`:              `caja LENGTH`,
	} {
		if got := made(t, form, sent, "apendice"); got != want {
			t.Errorf("%s: %s, want %s", sent, got, want)
		}
	}
}

// TestFill_OneFact: two members of one fact give one fact, which the stored facts can be read with, or are refused.
func TestFill_OneFact(t *testing.T) {
	pairs := 0
	for _, kind := range plugins.Types() {
		for name, example := range kind.Form.Examples {
			for _, pair := range kind.Form.Either {
				body := parsed(t, string(example))
				given := body.Get(pair[0])
				if !given.Exists() {
					given = body.Get(pair[1])
				}
				d := New(kind).Fill(body.With(pair[0], given).With(pair[1], given), nil)
				if _, err := dte.Parse(d.Facts.Append(nil)); err != nil {
					t.Errorf("%s %s: %v", kind.Document, name, err)
				}
				pairs++
			}
		}
	}
	if pairs == 0 {
		t.Error("no type has a pair")
	}
	text := func(name, to string) bundle.Member { return bundle.Member{Name: name, To: to} }
	form := New(&bundle.Type{Form: &bundle.Form{Pays: true, Members: []bundle.Member{{Use: "sale"}, text("a", "resumen.x"),
		text("b", "resumen.x"), text("c", "c"), text("d", "c"), {Name: "e", Shape: "object", To: "resumen",
			Members: []bundle.Member{text("f", ""), text("g", "f")}}, {Name: "h", Shape: "object", To: bundle.ToPayments,
			Members: []bundle.Member{text("codigo", "")}}}}})
	const sale = `{"condicionOperacion":1,"items":[{"descripcion":"x","cantidad":1,"precioUnitario":1}]`
	for given, want := range map[string]string{`"a":"1","b":"1"`: "", `"a":"1","b":"2"`: "b CONDITION",
		`"c":"1","d":"2"`: "d CONDITION", `"e":{"f":"1","g":"2"}`: "e.g CONDITION, resumen CONDITION",
		`"e":{"f":"1"}`: "resumen CONDITION", `"h":{"codigo":"02"}`: "pagos CONDITION", `"h":{"codigo":"01"}`: "",
		`"pago":{"codigo":"01"},"pagos":[{"codigo":"02"}]`: "pago CONDITION, pagos CONDITION"} {
		d := form.Fill(parsed(t, sale+","+given+"}"), nil)
		if got := listed(d.Faults); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		} else if _, err := dte.Parse(d.Facts.Append(nil)); err != nil {
			t.Errorf("%s: %v", given, err)
		}
	}
}

// TestNew: a bundle's description of a form becomes fields with the same places, bounds and presets.
func TestNew(t *testing.T) {
	receptor := bundle.Member{Name: "receptor", Use: "consumer", Required: true, Due: []string{"nombre"}}
	of := func(errs bool) *Form {
		return New(&bundle.Type{Form: &bundle.Form{ReceptorError: errs, Members: []bundle.Member{receptor,
			{Name: "root", To: "raiz", Default: []byte(`"d"`)}, {Name: "total", Shape: "number", To: bundle.ToSummary + "suma",
				Min: "0", Max: "10", Above: true}, {Name: "line", To: bundle.ToLine + "linea"}, {Name: "none", To: bundle.ToNone},
			{Name: "entry", To: bundle.ToAppendix, Label: "L"}, {Name: "pay", Shape: "object", To: bundle.ToPayments,
				Members: []bundle.Member{{Name: "codigo", Required: true}}},
			{Name: "list", Shape: "list", Limit: 2, Numbered: true, Extra: []bundle.Member{{Name: "x"}}},
			{Name: "open", Shape: "list", Extra: []bundle.Member{{Name: "x"}}}}}})
	}
	const who = `"receptor":{"nombre":"Ana"}`
	for _, c := range [][2]string{
		{`{` + who + `}`, `{"receptor":{"nombre":"Ana"},"raiz":"d","resumen":{}}`},
		{`{` + who + `,"root":"r","total":10,"line":"l","none":"n"}`, `{"receptor":{"nombre":"Ana"},"raiz":"r",` +
			`"cuerpoDocumento":[{"linea":"l"}],"resumen":{"suma":10}}`},
		{`{` + who + `,"total":0}`, `total RANGE`}, {`{` + who + `,"total":10.01}`, `total RANGE`},
		{`{` + who + `,"total":"1"}`, `total TYPE`}, {`{` + who + `,"list":[{},{},{}]}`, `list COUNT`},
		{`{` + who + `,"list":[{"x":"a"}]}`,
			`{"receptor":{"nombre":"Ana"},"raiz":"d","list":[{"numItem":1,"x":"a"}],"resumen":{}}`},
		{`{` + who + `,"open":[{},{},{}]}`, `{"receptor":{"nombre":"Ana"},"raiz":"d","open":[{},{},{}],"resumen":{}}`},
		{`{` + who + `,"pay":{"codigo":"02"}}`,
			`{"receptor":{"nombre":"Ana"},"raiz":"d","resumen":{"pagos":[{"codigo":"02"}]}}`},
		{`{` + who + `,"entry":"e"}`, `{"receptor":{"nombre":"Ana"},"raiz":"d","resumen":{},` +
			`"apendice":[{"campo":"entry","etiqueta":"L","valor":"e"}]}`},
		{`{}`, `receptor REQUIRED`}, {`{"receptor":{}}`, `receptor.nombre REQUIRED`},
	} {
		d := of(true).Fill(parsed(t, c[0]), nil)
		got := listed(d.Faults)
		if got == "" {
			got = string(d.Facts.Append(nil))
		}
		if got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
	for _, body := range []string{`{}`, `{"receptor":{}}`} {
		for _, errs := range []bool{true, false} {
			own := of(errs).Fill(parsed(t, body), nil).Refusal().Code == "RECEPTOR_VALIDATION_ERROR"
			if own != errs {
				t.Errorf("%s: its own code %v", body, own)
			}
		}
	}
	for sent, want := range map[string]bool{`{}`: false, `{"testContingencia":true}`: true,
		`{"testContingencia":false}`: false} {
		if New(new(bundle.Type)).Fill(parsed(t, sent), nil).TestContingency != want {
			t.Errorf("%s: a test of contingency %v", sent, !want)
		}
	}
	origin := &Filled{form: new(Form), reader: reader{[]dte.Fault{{Code: refusal.CodeOriginType, Message: "m"}}}}
	if e := origin.Refusal(); e.Code != refusal.CodeOriginType || e.Message != "m" {
		t.Errorf("%+v", e)
	}
	d := of(true).Fill(parsed(t, `{`+who+`,"entry":"e"}`), nil)
	for fact, want := range map[string]string{"apendice[0].valor": "entry", "apendice[1].valor": "apendice[0].valor",
		"apendice": "apendice", "raiz": "root", "resumen.suma": "total", "cuerpoDocumento[0].linea": "line"} {
		if got := d.requestPath(fact); got != want {
			t.Errorf("%s: %s, want %s", fact, got, want)
		}
	}
}

// TestRequests: the bodies of the requests that create no document.
func TestRequests(t *testing.T) {
	const code = "0A1B2C3D-4E5F-4607-8899-AABBCCDDEEFF"
	who := `{"nombre":"Ana","tipoDocumento":"13","numDocumento":"01234567-8"}`
	whole := `{"tipoAnulacion":2,"motivo":"m","responsable":` + who + `,"solicita":` + who +
		`,"codigoGeneracionReemplazo":"` +
		strings.ToLower(code) + `"}`
	r, d := Invalidation(parsed(t, whole))
	if len(d.Faults) > 0 || r.Kind != 2 || r.Reason != "m" || r.Responsible.Document != "012345678" ||
		r.Applicant.Name != "Ana" || r.Applicant.DocumentType != "13" || r.Replacement != code {
		t.Errorf("%+v, %v", r, d.Faults)
	}
	for change, want := range map[[2]string]string{{`2`, `0`}: "tipoAnulacion RANGE", {`2`, `4`}: "tipoAnulacion RANGE",
		{`"motivo":"m",`, ``}: "motivo REQUIRED", {`"solicita":` + who + `,`, ``}: "solicita REQUIRED",
		{`"responsable":{"nombre":"Ana",`, `"responsable":{`}: "responsable.nombre REQUIRED"} {
		if _, d := Invalidation(parsed(t, strings.Replace(whole, change[0], change[1], 1))); listed(d.Faults) != want {
			t.Errorf("%v: %v", change, d.Faults)
		}
	}
	if r, _ := Invalidation(parsed(t, strings.Replace(whole, strings.ToLower(code), "x", 1))); r.Replacement != "x" {
		t.Errorf("what is no code becomes %q", r.Replacement)
	}
	given := []dte.Fault{{Path: "motivo.numDocSolicita"}, {Path: "documento.x"}}
	if got := OfInvalidation(given); got[0].Path != "solicita.numDocumento" || got[1].Path != "documento.x" ||
		given[0].Path != "motivo.numDocSolicita" {
		t.Errorf("%v of %v", got, given)
	}
	codes, d := Lookup(parsed(t, `{"codigosGeneracion":["`+code+`","x"]}`))
	if len(codes) != 2 || codes[0].String() != code || listed(d.Faults) != "codigosGeneracion[1] PATTERN" {
		t.Errorf("%v, %v", codes, d.Faults)
	}
	for sent, want := range map[string]string{`{}`: "", `{"email":null}`: "", `{"email":"ana@tienda.com"}`: "",
		`{"email":"ana"}`: "email FORMAT", `{"email":1}`: "email TYPE", `{"mail":""}`: "mail UNKNOWN"} {
		if address, d := Resend(parsed(t, sent)); listed(d.Faults) != want || want == "" && strings.Contains(sent, "@") !=
			(address == "ana@tienda.com") {
			t.Errorf("%s: %q, %v", sent, address, d.Faults)
		}
	}
	cause, reason, d := Declaration(parsed(t, `{"cause":3,"reason":"r"}`))
	if reference, n := ReportNote(parsed(t, `{"reference":"7"}`)); cause != 3 || reason != "r" || reference != "7" ||
		len(d.Faults)+len(n.Faults) > 0 {
		t.Errorf("%d %s %s", cause, reason, reference)
	}
	if d := (&Form{}).Fill(parsed(t, `[]`), nil); listed(d.Faults) != " TYPE" {
		t.Errorf("a list: %v", d.Faults)
	}
}
