package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
)

func TestCompileSchema_Refuses(t *testing.T) {
	cat, err := dte.ParseCatalogues([]byte(smallCatalogues))
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct{ old, replacement, want string }{
		"unknown keyword": {`"format":"email"`, `"contentEncoding":"x"`,
			`schema of sujetoExcluido.correo: contentEncoding: keyword is not understood; drop in overlay.json can leave out a keyword of MH's file`},
		"unknown keyword in a list": {`"maxLength":25`, `"maxLenght":25`,
			`schema of cuerpoDocumento[].codigo: maxLenght: keyword is not understood; drop in overlay.json can leave out a keyword of MH's file`},
		"unknown keyword in a then": {`{"motivoContin":{"type":"null"}}`, `{"motivoContin":{"trype":"null"}}`,
			`schema of identificacion.motivoContin: trype`},
		"unknown format": {`"format":"email"`, `"format":"uri"`,
			`schema of sujetoExcluido.correo: format: format "uri" is not understood`},
		"unknown type": {`"type":"integer","const":2`, `"type":"int","const":2`, `unknown type "int"`},
		"no type": {`{"type":"integer","const":2}`, `{"const":2}`,
			`schema of identificacion.version: needs a type`},
		"lookahead elsewhere": {`^[A-F0-9]{4}$`, `^[A-F0-9]{4}(?!x)$`,
			`schema of identificacion.codigoGeneracion: pattern`},
		"back-reference": {`^[A-F0-9]{4}$`, `^(.)\\1$`,
			`schema of identificacion.codigoGeneracion: pattern`},
		"negative length": {`"maxLength":25`, `"maxLength":-1`,
			`schema of cuerpoDocumento[].codigo: maxLength: not a count`},
		"bound as text": {`"maximum":2000`, `"maximum":"2000"`,
			`schema of cuerpoDocumento[].numItem: maximum: not a JSON number`},
		"multiple of zero": {`"multipleOf":0.01`, `"multipleOf":0`,
			`schema of resumen.totalPagar: multipleOf: not above zero`},
		"list without items": {`"items":{"type":"string","maxLength":2},`, ``,
			`schema of cuerpoDocumento[].tributos: a list needs items`},
		"object or text": {`"sujetoExcluido":{"type":["object","null"]`, `"sujetoExcluido":{"type":["object","string"]`,
			`schema of sujetoExcluido: an object or a list may allow no other type than null`},
		"enum of objects": {`"enum":["USD"]`, `"enum":[{}]`,
			`schema of identificacion.tipoMoneda: enum: only texts`},
		"then without if": {`"if":{"properties":{"tipoOperacion":{"const":1}}},`, ``,
			`schema of identificacion: then or else without if`},
		"additional properties": {`"additionalProperties":false,"required":["version"`,
			`"additionalProperties":{},"required":["version"`,
			`schema of identificacion: additionalProperties: only true and false`},
		"places without end": {`"codigo":{`, places(mostPlaces) + `"codigo":{`, `the layout has more than 500 places`},
		"long pattern": {`^[A-F0-9]{4}$`, strings.Repeat("a", mostPattern+1),
			`schema of identificacion.codigoGeneracion: pattern: has more than 1000 bytes`},
		"large patterns": {`^[A-F0-9]{4}$`, strings.Repeat(".{0,999}", 30),
			`schema of identificacion.codigoGeneracion: pattern: pattern "` + strings.Repeat(".{0,999}", 30) +
				`": the patterns of the layout have more than 2000 states`},
		"not JSON": {`"title":"t"`, `"title":"t","title":"u"`, `reading schema: JSON at byte`},
		"module's answer": {`"ventaGravada":{"type":"number"`, `"ventaGravada":{"type":"string"`,
			`schema of cuerpoDocumento[].ventaGravada: the module's output has another type`},
	} {
		if !strings.Contains(small, x.old) {
			t.Fatalf("%s: no %s", name, x.old)
		}
		_, err := Compile([]byte(strings.Replace(small, x.old, x.replacement, 1)), []byte(smallOverlay), smallOutputs,
			cat)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s", name, err, x.want)
		}
	}
	for overlay, want := range map[string]string{
		`{"form":[]}`:      `unknown member "form"`,
		`[]`:               `not an object`,
		`{"from":{}}`:      `from is not a list`,
		`{"total":"gran"}`: `overlay: total: neither module nor schema has "gran"`,
		`{"from":[{"path":"resumen.totalLetras","words":"totalPagar"}]}`:                                              `from[0] "resumen.totalLetras": needs a reason`,
		`{"from":[{"path":"resumen.nada","words":"totalPagar","reason":"r"}]}`:                                        `the schema has no resumen.nada`,
		`{"from":[{"path":"resumen.totalLetras","words":"nada","reason":"r"}]}`:                                       `the module has no summary output "nada"`,
		`{"from":[{"path":"resumen.totalLetras","amount":"nada","reason":"r"}]}`:                                      `the module has no summary output "nada"`,
		`{"from":[{"path":"resumen.totalLetras","reason":"r"}]}`:                                                      `needs either words, or fact or amount`,
		`{"from":[{"path":"resumen.totalLetras","words":"totalPagar","value":1,"reason":"r"}]}`:                       `needs either words, or fact or amount`,
		`{"from":[{"path":"resumen.totalLetras","value":{},"reason":"r"}]}`:                                           `value: only texts`,
		`{"from":[{"path":"resumen.totalLetras","value":1,"form":"##","reason":"r"}]}`:                                `form needs a fact`,
		`{"from":[{"path":"resumen.totalLetras","fact":"a","when":{"fact":"b","is":"c"},"reason":"r"}]}`:              `form needs a fact`,
		`{"from":[{"path":"resumen.totalLetras","fact":"a","form":"-","reason":"r"}]}`:                                `has no #`,
		`{"from":[{"path":"resumen.totalLetras","fact":"a","form":"#","when":{"fact":"b"},"reason":"r"}]}`:            `when: needs a fact and the text`,
		`{"from":[{"path":"resumen.totalLetras","fact":"a","form":"#","when":{"fact":"b","not":"c"},"reason":"r"}]}`:  `when: unknown member "not"`,
		`{"from":[{"path":"resumen.totalLetras","fact":"a","form":"#","when":{"fact":"b[]","is":"c"},"reason":"r"}]}`: `when has more lists`,
		`{"from":[{"path":"resumen.totalLetras","fact":"a[].b","reason":"r"}]}`:                                       `a[].b has more lists`,
		`{"from":[{"path":"resumen.totalLetras","fact":"a[0].b","reason":"r"}]}`:                                      `path "a[0].b"`,
		`{"from":[{"path":"resumen.totalLetras","fact":"a","reason":"r","other":1}]}`:                                 `unknown member "other"`,
		`{"drop":[{"path":"resumen.totalLetras","keyword":"pattern","reason":"r"}]}`:                                  `resumen.totalLetras has no "pattern" to drop`,
		`{"drop":[{"path":"resumen.totalLetras","keyword":"minLength"}]}`:                                             `needs a reason`,
		`{"add":[{"path":"resumen.nada","schema":{},"reason":"r"}]}`:                                                  `overlay: add: the schema has no resumen.nada`,
		`{"add":[{"path":"resumen","schema":{"mininum":1},"reason":"r"}]}`:                                            `overlay: add: schema of resumen: mininum: keyword is not understood; drop in overlay.json can leave out a keyword of MH's file`,
		`{"add":[{"path":"resumen","schema":1,"reason":"r"}]}`:                                                        `schema of resumen is not an object`,
		`{"taxes":{"path":"resumen.pagos","catalogue":"CAT-015"}}`:                                                    `overlay: taxes: resumen.pagos is not the schema's list`,
		`{"taxes":{"path":"resumen.nota","catalogue":"CAT-015"}}`:                                                     `overlay: taxes: resumen.nota is not the schema's list`,
		`{"taxes":{"path":"resumen.tributos","catalogue":"CAT-012"}}`:                                                 `overlay: taxes: CAT-012 has no code "20"`,
		`{"catalogue":[{"path":"resumen.nada","catalogue":"CAT-014"}]}`:                                               `overlay: catalogue: the schema has no resumen.nada`,
		`{"catalogue":[{"path":"resumen.nota","catalogue":"CAT-099"}]}`:                                               `there is no "CAT-099"`,
		`{"catalogue":[{"path":"sujetoExcluido.direccion.municipio","catalogue":"CAT-013","parent":"region"}]}`:       `has no neighbour "region"`,
	} {
		if _, err := Compile([]byte(small), []byte(overlay), smallOutputs, cat); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", overlay, err, want)
		}
	}
}

// TestCompile_AnyPlace: a bundle with anything in any place of its schema or overlay is compiled or refused, and fills or
// refuses a document; it never takes the box down.
func TestCompile_AnyPlace(t *testing.T) {
	cat, err := dte.ParseCatalogues([]byte(smallCatalogues))
	if err != nil {
		t.Fatal(err)
	}
	facts, tried := parse(t, smallFacts), 0
	try := func(schema, overlay []byte) {
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("%v\n%s\n%s", v, schema, overlay)
			}
		}()
		tried++
		if f, err := Compile(schema, overlay, smallOutputs, cat); err == nil {
			f.Fill(nil, facts, smallComputed(), FillOptions{Catalogues: true})
			_, _ = f.Meets(Requirements{Computed: true}), f.Maker("resumen.totalPagar", facts)
		}
	}
	anyPlace(t, small, func(schema []byte) { try(schema, []byte(smallOverlay)) })
	anyPlace(t, smallOverlay, func(overlay []byte) { try([]byte(small), overlay) })
	if tried < 1000 {
		t.Errorf("only %d bundles were tried", tried)
	}
}

// anyPlace calls do with a JSON value in which one place has another value.
func anyPlace(t *testing.T, text string, do func([]byte)) {
	var root any
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	var walk func(v any, set func(any))
	walk = func(v any, set func(any)) {
		for _, other := range []any{nil, true, -1, 1e300, "", "x", "[]", "a..b", []any{}, []any{nil}, map[string]any{}} {
			set(other)
			changed, _ := json.Marshal(root)
			do(changed)
		}
		set(v)
		switch v := v.(type) {
		case map[string]any:
			for name, x := range maps.Clone(v) {
				walk(x, func(other any) { v[name] = other })
			}
		case []any:
			for i, x := range v {
				walk(x, func(other any) { v[i] = other })
			}
		}
	}
	walk(root, func(other any) { root = other })
}

// The layout's keyword is dropped and those of conditions stay; if only conditions have it, those are dropped.
func TestCompileSchema_Drop(t *testing.T) {
	const identification = `{"identificacion":{"codigoGeneracion":"AB12","fecEmi":"2026-11-21","tipoOperacion":1},"sujetoExcluido":null}`
	for name, x := range map[string]struct{ path, keyword, old, replacement string }{
		"layout":      {"identificacion.codigoGeneracion", "pattern", `"AB12"`, `"other"`},
		"all at once": {"identificacion", "allOf", `"tipoOperacion":1`, `"tipoOperacion":2`},
		"conditions":  {"identificacion.tipoOperacion", "const", `"tipoOperacion":1`, `"tipoOperacion":2`},
		"length": {"identificacion.motivoContin", "minLength", `"tipoOperacion":1`,
			`"tipoOperacion":2,"motivoContin":""`},
		"layout's only": {"identificacion.motivoContin", "type", "", ""},
	} {
		facts := parse(t, strings.Replace(identification, x.old, x.replacement, 1))
		for _, dropped := range []bool{false, true} {
			overlay := "{}"
			if dropped {
				overlay = `{"drop":[{"path":"` + x.path + `","keyword":"` + x.keyword + `","reason":"r"}]}`
			}
			f, err := Compile([]byte(small), []byte(overlay), Outputs{}, nil)
			if x.old == "" && dropped {
				if err == nil {
					t.Errorf("%s: the layout lost its type and was taken", name)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			_, faults := f.Fill(nil, facts, nil, FillOptions{})
			breach := slices.ContainsFunc(faults, func(f dte.Fault) bool {
				return strings.HasPrefix(f.Path,
					"identificacion.")
			})
			if breach == dropped && x.old != "" {
				t.Errorf("%s: dropped %v: %v", name, dropped, faults)
			}
		}
	}
}

func TestParseCatalogues_Published(t *testing.T) {
	data, err := os.ReadFile("../../../plugins/catalogues/catalogues.json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := dte.ParseCatalogues(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range [][3]string{
		{"CAT-014", "59", "Unidad"}, {"CAT-012", "06", "San Salvador"}, {"CAT-013", "06/23", "SAN SALVADOR CENTRO"},
		{"CAT-008", "06/14", "SAN SALVADOR"}, {"CAT-015", "20", "Impuesto al Valor Agregado 13%"}, {"CAT-017", "01",
			"Billetes y monedas"},
		{"CAT-013", "09/10", "CABAÑAS ESTE"}, {"CAT-012", "00", "Otro (Para extranjeros)"},
	} {
		if got, ok := c.Lookup(x[0], x[1]); got != x[2] || !ok {
			t.Errorf("%s %s: %q, %v", x[0], x[1], got, ok)
		}
	}
	for _, x := range [][2]string{{"CAT-014", "60"}, {"CAT-013", "06/14"}, {"CAT-013", "23"}, {"CAT-099", "1"}} {
		if got, ok := c.Lookup(x[0], x[1]); ok {
			t.Errorf("%s %s: %q", x[0], x[1], got)
		}
	}
	if c.Version() != "1.1" {
		t.Errorf("version %q", c.Version())
	}
	var none *dte.Catalogues
	if _, ok := none.Lookup("CAT-014", "59"); ok {
		t.Error("nothing has codes")
	}
	for _, bad := range []string{`[]`, `{}`, `{"version":"1","source":"s"}`,
		`{"version":"1","source":"s","catalogues":{"CAT-001":{"values":{"1":"x"}}}}`,
		`{"version":"1","source":"s","catalogues":{"CAT-001":{"name":"n","values":{"1":2}}}}`,
		`{"version":"1","source":"s","catalogues":{"CAT-001":{"name":"n","values":{"1":"` + strings.Repeat("x", 501) + `"}}}}`,
		`{"version":"1","source":"s","catalogues":{"CAT-001":{"name":"n","values":{"` + strings.Repeat("1", 21) + `":"x"}}}}`} {
		if _, err := dte.ParseCatalogues([]byte(bad)); err == nil {
			t.Errorf("took %s", bad)
		}
	}
}

// places returns n further members of an object.
func places(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"q%d":{"type":"null"},`, i)
	}
	return b.String()
}
