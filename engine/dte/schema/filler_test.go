package schema

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"dtegate/engine/dte"
)

// small is a schema in MH's manner with one of everything.
const small = `{"$schema":"http://json-schema.org/draft-07/schema#","title":"t","type":"object","properties":{
 "identificacion":{"type":"object","properties":{
   "version":{"type":"integer","const":2},"tipoMoneda":{"type":"string","enum":["USD"]},
   "codigoGeneracion":{"type":"string","pattern":"^[A-F0-9]{4}$"},"fecEmi":{"type":"string","format":"date"},
   "tipoOperacion":{"type":"integer","enum":[1,2]},"motivoContin":{"type":["string","null"],"minLength":1}},
   "additionalProperties":false,"required":["version","tipoMoneda","codigoGeneracion","fecEmi","tipoOperacion","motivoContin"],
   "allOf":[{"if":{"properties":{"tipoOperacion":{"const":1}}},"then":{"properties":{"motivoContin":{"type":"null"}}},
     "else":{"properties":{"motivoContin":{"type":"string"}}}}]},
 "sujetoExcluido":{"type":["object","null"],"properties":{
   "nombre":{"type":"string","minLength":2,"maxLength":5},"correo":{"type":["string","null"],"format":"email"},
   "direccion":{"type":["object","null"],"properties":{"departamento":{"type":"string"},"municipio":{"type":"string"}},
     "additionalProperties":false,"required":["departamento","municipio"]}},
   "additionalProperties":false,"required":["nombre","correo","direccion"]},
 "cuerpoDocumento":{"type":"array","minItems":1,"maxItems":30,"uniqueItems":true,"items":{"type":"object","properties":{
   "numItem":{"type":"integer","minimum":1,"maximum":2000},"cantidad":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":100000000000,"multipleOf":0.00000001},
   "uniMedida":{"type":"integer"},"codigo":{"type":["string","null"],"maxLength":25},"ventaGravada":{"type":"number","minimum":0,"multipleOf":1e-8},
   "tributos":{"type":["array","null"],"items":{"type":"string","maxLength":2},"uniqueItems":true}},
   "additionalProperties":false,"required":["numItem","cantidad","uniMedida","codigo","ventaGravada","tributos"]}},
 "resumen":{"type":"object","properties":{
   "totalPagar":{"type":"number","multipleOf":0.01,"minimum":0},"totalLetras":{"type":"string","minLength":1,"maxLength":200},
   "tributos":{"type":["array","null"],"items":{"type":"object","properties":{"codigo":{"type":"string"},"descripcion":{"type":"string"},"valor":{"type":"number"}},
     "additionalProperties":false,"required":["codigo","descripcion","valor"]}},
   "pagos":{"type":["array","null"],"minItems":1,"items":{"type":"object","properties":{"codigo":{"type":"string"},"montoPago":{"type":"number"}},
     "additionalProperties":false,"required":["codigo","montoPago"]}},
   "nota":{"type":["string","null"]}},
   "additionalProperties":false,"required":["totalPagar","totalLetras","tributos","pagos"]}},
 "additionalProperties":false,"required":["identificacion","sujetoExcluido","cuerpoDocumento","resumen"]}`

const smallOverlay = `{"total":"totalPagar","taxes":{"path":"resumen.tributos","catalogue":"CAT-015"},
 "from":[{"path":"resumen.totalLetras","words":"totalPagar","reason":"r"},
  {"path":"resumen.pagos[].montoPago","fact":"resumen.pagos[].montoPago","amount":"totalPagar","reason":"r"},
  {"path":"sujetoExcluido","fact":"receptor","reason":"r"}],
 "add":[{"path":"cuerpoDocumento[]","schema":{"if":{"properties":{"uniMedida":{"const":99}},"required":["uniMedida"]},"then":{"properties":{"cantidad":{"const":1}}}},"reason":"r"},
  {"path":"resumen","schema":{"oneOf":[{"properties":{"totalPagar":{"maximum":1000}}},{"properties":{"nota":{"type":"string"}},"required":["nota"]}]},"reason":"r"}],
 "catalogue":[{"path":"cuerpoDocumento[].uniMedida","catalogue":"CAT-014"},{"path":"sujetoExcluido.direccion.departamento","catalogue":"CAT-012"},
  {"path":"sujetoExcluido.direccion.municipio","catalogue":"CAT-013","parent":"departamento"},{"path":"cuerpoDocumento[].tributos[]","catalogue":"CAT-015"}]}`

const smallCatalogues = `{"version":"1","source":"s","catalogues":{
 "CAT-012":{"name":"Departamento","values":{"06":"San Salvador","05":"La Libertad"}},
 "CAT-013":{"name":"Municipio","values":{"06/23":"SAN SALVADOR CENTRO","05/23":"LA LIBERTAD NORTE"}},
 "CAT-014":{"name":"Unidad de Medida","values":{"59":"Unidad","99":"Otra"}},
 "CAT-015":{"name":"Tributos","values":{"20":"Impuesto al Valor Agregado 13%","D1":"FOVIAL"}}}}`

var smallOutputs = Outputs{
	Lines:   []Output{{"ventaGravada", false}, {"tributos", true}, {"otroCampo", false}},
	Summary: []string{"totalPagar", "otroTotal"}, Taxes: []string{"20", "D1"},
}

const smallFacts = `{"identificacion":{"codigoGeneracion":"AB12","fecEmi":"2026-11-21","tipoOperacion":1},
 "receptor":{"nombre":"Ñandú","direccion":{"municipio":"23","departamento":"06"}},
 "cuerpoDocumento":[{"numItem":1,"cantidad":2.50,"uniMedida":59,"tipoImpuesto":"GRAVADO"},{"numItem":2,"cantidad":1e0,"uniMedida":99,"codigo":"A\"1"}],
 "resumen":{"pagos":[{"codigo":"01"}]},"isRetenIva":false}`

func smallFiller(t testing.TB) *Filler {
	t.Helper()
	cat, err := dte.ParseCatalogues([]byte(smallCatalogues))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Compile([]byte(small), []byte(smallOverlay), smallOutputs, cat)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func smallComputed() *Computed {
	return &Computed{N: 2, Lines: []int64{10 * dte.Scale, 1, 0, 5 * dte.Scale / 2, 3, 0},
		Summary: []int64{1413 * dte.Scale / 100, 0}, Taxes: []TaxAmount{{1, 20_000_000}}}
}

func parse(t testing.TB, text string) dte.Value {
	t.Helper()
	v, err := dte.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestFill_TakesEachValueFromItsSource(t *testing.T) {
	f := smallFiller(t)
	got, faults := f.Fill([]byte("> "), parse(t, smallFacts), smallComputed(), FillOptions{Catalogues: true})
	if faults != nil {
		t.Fatal(faults)
	}
	const want = `> {"identificacion":{"version":2,"tipoMoneda":"USD","codigoGeneracion":"AB12","fecEmi":"2026-11-21","tipoOperacion":1,"motivoContin":null},` +
		`"sujetoExcluido":{"nombre":"Ñandú","correo":null,"direccion":{"departamento":"06","municipio":"23"}},` +
		`"cuerpoDocumento":[{"numItem":1,"cantidad":2.5,"uniMedida":59,"codigo":null,"ventaGravada":10,"tributos":["20"]},` +
		`{"numItem":2,"cantidad":1,"uniMedida":99,"codigo":"A\"1","ventaGravada":2.5,"tributos":["20","D1"]}],` +
		`"resumen":{"totalPagar":14.13,"totalLetras":"CATORCE 13/100 USD","tributos":[{"codigo":"D1","descripcion":"FOVIAL","valor":0.2}],"pagos":[{"codigo":"01","montoPago":14.13}]}}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if faults := f.Check(got[2:]); faults != nil {
		t.Errorf("Check refuses what Fill wrote: %v", faults)
	}
	if f.Total() != "totalPagar" || f.Version() != 2 {
		t.Errorf("total %q, version %d", f.Total(), f.Version())
	}
}

func TestFill_OtherSources(t *testing.T) {
	f := smallFiller(t)
	for name, x := range map[string]struct {
		facts, replace string
		computed       func(*Computed)
		want           string
	}{
		"no receptor, null": {`"receptor"`, `"nadie"`, nil, `"sujetoExcluido":null`},
		"null receptor":     {`"receptor":{"nombre":"Ñandú","direccion":{"municipio":"23","departamento":"06"}}`, `"receptor":null`, nil, `"sujetoExcluido":null`},
		"fact before amount": {`{"codigo":"01"}`, `{"codigo":"01","montoPago":14.12}`, nil,
			`"montoPago":14.12}`},
		"no payments, null": {`"pagos":[{"codigo":"01"}]`, ``, nil, `"pagos":null}`},
		"optional fact, written": {`"pagos"`, `"nota":"n","pagos"`,
			func(c *Computed) { c.Summary[0] = 2000 * dte.Scale }, `,"nota":"n"}`},
		"optional null fact, written": {`"pagos"`, `"nota":null,"pagos"`, nil, `,"nota":null}`},
		"no taxes, null":              {"", "", func(c *Computed) { c.Taxes = nil }, `"tributos":null,"pagos"`},
		"empty set, null": {"", "", func(c *Computed) { c.Lines[1] = 0 },
			`"ventaGravada":10,"tributos":null}`},
		"module before fact of a line": {`"numItem":1`, `"numItem":1,"ventaGravada":7`, nil, `"ventaGravada":10`},
		"module before fact of totals": {`"pagos"`, `"totalPagar":7,"pagos"`, nil, `"totalPagar":14.13`},
		"an empty text is a fact":      {`"codigo":"A\"1"`, `"codigo":""`, nil, `"codigo":""`},
		"the other branch": {`"tipoOperacion":1`, `"tipoOperacion":2,"motivoContin":"sin luz"`, nil,
			`"motivoContin":"sin luz"`},
		"any but one of": {`"pagos"`, `"nota":"n","pagos"`,
			func(c *Computed) { c.Summary[0] = 1001 * dte.Scale }, `"totalPagar":1001,`},
	} {
		c := smallComputed()
		if x.computed != nil {
			x.computed(c)
		}
		got, faults := f.Fill(nil, parse(t, strings.Replace(smallFacts, x.facts, x.replace, 1)), c,
			FillOptions{Catalogues: true})
		if faults != nil || !strings.Contains(string(got), x.want) {
			t.Errorf("%s: %v\n%s\nlacks %s", name, faults, got, x.want)
		}
	}
}

func TestFill_Faults(t *testing.T) {
	f := smallFiller(t)
	for name, x := range map[string]struct {
		facts, replace string
		computed       func(*Computed)
		want           []string
	}{
		"required": {`"codigoGeneracion":"AB12",`, ``, nil,
			[]string{"identificacion.codigoGeneracion: REQUIRED: es obligatorio"}},
		"required of the fact's name": {`"nombre":"Ñandú",`, ``, nil,
			[]string{"receptor.nombre: REQUIRED: es obligatorio: debe ser un texto de 2 a 5 caracteres"}},
		"null where none may be": {`"fecEmi":"2026-11-21"`, `"fecEmi":null`, nil,
			[]string{"identificacion.fecEmi: TYPE: es obligatorio: debe ser una fecha como 2026-12-31"}},
		"text for number": {`"cantidad":2.50`, `"cantidad":"2.50"`, nil,
			[]string{"cuerpoDocumento[0].cantidad: TYPE: debe ser un número, y vino el texto «2.50»"}},
		"list for text": {`"codigo":"A\"1"`, `"codigo":[1]`, nil,
			[]string{"cuerpoDocumento[1].codigo: TYPE: debe ser un texto de a lo más 25 caracteres, y vino una lista"}},
		"text for object": {`"resumen":{"pagos":[{"codigo":"01"}]}`, `"resumen":"x"`, nil,
			[]string{"resumen: TYPE: debe llevar sus datos por separado, y vino el texto «x»"}},
		"fraction for integer": {`"numItem":1`, `"numItem":1.5`, nil,
			[]string{"cuerpoDocumento[0].numItem: TYPE: debe ser un número entero, y vino el número 1.5"}},
		"pattern": {`AB12`, `ab12`, nil,
			[]string{"identificacion.codigoGeneracion: PATTERN: «ab12» no está escrito como lo pide Hacienda"}},
		"date": {`2026-11-21`, `2026-02-29`, nil,
			[]string{"identificacion.fecEmi: FORMAT: «2026-02-29» no es una fecha como 2026-12-31"}},
		"email": {`"nombre":"Ñandú"`, `"nombre":"Ñandú","correo":"a@"`, nil,
			[]string{"receptor.correo: FORMAT: «a@» no es una dirección de correo como nombre@dominio.com"}},
		"too long, in characters": {`Ñandú`, `Ñandúes`, nil,
			[]string{"receptor.nombre: LENGTH: tiene 7 caracteres y debe tener de 2 a 5 caracteres"}},
		"too short, in characters": {`Ñandú`, `Ñ`, nil,
			[]string{"receptor.nombre: LENGTH: tiene 1 carácter y debe " +
				"tener de 2 a 5 caracteres"}},
		"empty": {`Ñandú`, ``, nil, []string{"receptor.nombre: LENGTH: está vacío y debe tener " +
			"de 2 a 5 caracteres"}},
		"enum": {`"tipoOperacion":1`, `"tipoOperacion":3,"motivoContin":"x"`, nil,
			[]string{"identificacion.tipoOperacion: ENUM: 3 no se admite como tipo de transmisión: debe ser 1 " +
				"(normal) o 2 (contingencia)"}},
		"const": {`"identificacion":{`, `"identificacion":{"version":1,`, nil,
			[]string{"identificacion.version: ENUM: 1 no se admite como versión del formato: debe ser 2"}},
		"exclusive minimum": {`2.50`, `0`, nil, []string{"cuerpoDocumento[0].cantidad: RANGE: 0 no se " +
			"admite: debe ser mayor que 0"}},
		"maximum": {`"numItem":2`, `"numItem":2001`, nil,
			[]string{"cuerpoDocumento[1].numItem: RANGE: 2001 no se admite: debe ser al menos 1 y a lo más 2000"}},
		"nine decimals": {`2.50`, `0.123456789`, nil,
			[]string{"cuerpoDocumento[0].cantidad: PRECISION: 0.123456789 tiene más de 8 decimales"}},
		"nine decimals of an integer": {`"numItem":1`, `"numItem":0.123456789`, nil,
			[]string{"cuerpoDocumento[0].numItem: PRECISION: 0.123456789 tiene más de 8 decimales"}},
		"astronomic": {`2.50`, `1e99`, nil,
			[]string{"cuerpoDocumento[0].cantidad: RANGE: 1e99 no está por debajo de 92,000,000,000"}},
		"cents of the module": {``, ``, func(c *Computed) { c.Summary[0] = 1_500_000 },
			[]string{"resumen.totalPagar: CONTRADICTION: 0.015 debe tener a lo más 2 decimales"}},
		"too few": {`"pagos":[{"codigo":"01"}]`, `"pagos":[]`, nil,
			[]string{"resumen.pagos: COUNT: tiene 0 elementos y debe tener al menos 1 elemento"}},
		"condition": {`"tipoOperacion":1`, `"tipoOperacion":1,"motivoContin":"x"`, nil,
			[]string{"identificacion.motivoContin: CONDITION: no debe llevar ningún dato, cuando el tipo de " +
				"transmisión es 1 (normal)"}},
		"condition's other branch": {`"tipoOperacion":1`, `"tipoOperacion":2`, nil,
			[]string{"identificacion.motivoContin: CONDITION: es obligatorio, salvo cuando el tipo de transmisión es " +
				"1 (normal)"}},
		"our condition": {`1e0`, `2`, nil, []string{"cuerpoDocumento[1].cantidad: CONDITION: 2 no se " +
			"admite aquí: debe ser 1, cuando la unidad de medida es 99"}},
		"none of": {``, ``, func(c *Computed) { c.Summary[0] = 1001 * dte.Scale },
			[]string{"resumen: CONDITION: debe cumplirse solo una de estas condiciones: el total a pagar es a lo más " +
				"1000; se indica la nota"}},
		"both of": {`"pagos"`, `"nota":"n","pagos"`, nil,
			[]string{"resumen: CONDITION: debe cumplirse solo una de estas condiciones: el total a pagar es a lo más " +
				"1000; se indica la nota"}},
		"not in the catalogue": {`"uniMedida":59`, `"uniMedida":60`, nil,
			[]string{"cuerpoDocumento[0].uniMedida: CATALOGUE: «60» no está en el catálogo de Hacienda: unidad de " +
				"medida (CAT-014)"}},
		"not in that departamento": {`"municipio":"23"`, `"municipio":"14"`, nil,
			[]string{"receptor.direccion.municipio: CATALOGUE: «14» no está en el catálogo de Hacienda: municipio " +
				"(CAT-013) del departamento 06"}},
		"many at once": {`{"codigoGeneracion":"AB12","fecEmi":"2026-11-21","tipoOperacion":1}`,
			`{"codigoGeneracion":1,"tipoOperacion":1}`, nil, []string{
				"identificacion.fecEmi: REQUIRED: es obligatorio: debe ser una fecha como 2026-12-31",
				"identificacion.codigoGeneracion: TYPE: debe ser un texto, y vino el número 1"}},
	} {
		c := smallComputed()
		if x.computed != nil {
			x.computed(c)
		}
		if x.facts != "" && !strings.Contains(smallFacts, x.facts) {
			t.Fatalf("%s: the facts have no %s", name, x.facts)
		}
		got, faults := f.Fill(nil, parse(t, strings.Replace(smallFacts, x.facts, x.replace, 1)), c,
			FillOptions{Catalogues: true})
		var lines []string
		for _, fault := range faults {
			lines = append(lines, fault.Error())
		}
		if strings.Join(lines, "\n") != strings.Join(x.want, "\n") || got != nil {
			t.Errorf("%s: %s\n%s\nwant\n%s", name, got, strings.Join(lines, "\n"), strings.Join(x.want, "\n"))
		}
	}
}

// TestFill_CountBesideItems: a list that is too long is reported together with the faults in it.
func TestFill_CountBesideItems(t *testing.T) {
	f := smallFiller(t)
	list := `{"numItem":1,"cantidad":2.50,"uniMedida":59,"tipoImpuesto":"GRAVADO"}`
	c, more := smallComputed(), list
	for i := 3; i <= 31; i++ {
		more += strings.Replace(","+list, `"numItem":1`, fmt.Sprintf(`"numItem":%d`, i), 1)
	}
	more = strings.Replace(more, `"cantidad":2.50`, `"cantidad":0`, 1)
	for c.N = 31; len(c.Lines) < 31*3; {
		c.Lines = append(c.Lines, c.Lines[:3]...)
	}
	_, faults := f.Fill(nil, parse(t, strings.Replace(smallFacts, list, more, 1)), c, FillOptions{Catalogues: true})
	var got []string
	for _, fault := range faults {
		got = append(got, fault.Path+" "+fault.Code)
	}
	for _, want := range []string{"cuerpoDocumento COUNT", "cuerpoDocumento[0].cantidad RANGE"} {
		if !slices.Contains(got, want) {
			t.Errorf("%v lacks %s", got, want)
		}
	}
}

func TestFill_MissingObjectNamesItsMembers(t *testing.T) {
	f := smallFiller(t)
	_, faults := f.Fill(nil, parse(t, `{"receptor":{}}`), nil, FillOptions{})
	var paths []string
	for _, fault := range faults {
		paths = append(paths, fault.Path+" "+fault.Code)
	}
	want := "cuerpoDocumento REQUIRED,identificacion.codigoGeneracion REQUIRED,identificacion.fecEmi REQUIRED," +
		"identificacion.tipoOperacion REQUIRED,receptor.nombre REQUIRED"
	if got := strings.Join(paths, ","); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestFill_WithoutAnswerChecksWhatIsThere(t *testing.T) {
	f := smallFiller(t)
	if _, faults := f.Fill(nil, parse(t, smallFacts), nil, FillOptions{Catalogues: true}); faults != nil {
		t.Errorf("%v", faults)
	}
	bad := strings.Replace(smallFacts, `"numItem":1`, `"numItem":0`, 1)
	if _, faults := f.Fill(nil, parse(t, bad), nil, FillOptions{}); len(faults) != 1 ||
		faults[0].Path != "cuerpoDocumento[0].numItem" {
		t.Errorf("%v", faults)
	}
}

func TestFill_CapsFaults(t *testing.T) {
	f := smallFiller(t)
	var lines []string
	for i := range 30 {
		lines = append(lines, fmt.Sprintf(`{"numItem":%d,"cantidad":-1,"uniMedida":1,"codigo":7}`, i+3000))
	}
	facts := parse(t, `{"identificacion":{"codigoGeneracion":"AB12","fecEmi":"2026-11-21","tipoOperacion":1},"cuerpoDocumento":[`+strings.Join(lines, ",")+`]}`)
	for most, want := range map[int]int{0: 50, 1: 1, 7: 7, 1000: 120} {
		if _, faults := f.Fill(nil, facts, nil, FillOptions{MaxFaults: most, Catalogues: true}); len(faults) != want {
			t.Errorf("at most %d: %d faults", most, len(faults))
		}
	}
}

func TestFill_RefusesAnAnswerOfAnotherShape(t *testing.T) {
	f := smallFiller(t)
	for name, change := range map[string]func(*Computed) (code string){
		"fewer lines":            func(c *Computed) string { c.N, c.Lines = 1, c.Lines[:3]; return dte.FaultCount },
		"short lines":            func(c *Computed) string { c.Lines = c.Lines[:5]; return dte.FaultCount },
		"short summary":          func(c *Computed) string { c.Summary = c.Summary[:1]; return dte.FaultCount },
		"a tax not named":        func(c *Computed) string { c.Taxes[0].Tax = 2; return dte.FaultCount },
		"a negative tax":         func(c *Computed) string { c.Taxes[0].Tax = -1; return dte.FaultCount },
		"a line's tax not named": func(c *Computed) string { c.Lines[1] |= 4; return Contradiction },
		"a line's taxes below 0": func(c *Computed) string { c.Lines[4] = -1; return Contradiction },
	} {
		c := smallComputed()
		code := change(c)
		if got, faults := f.Fill(nil, parse(t, smallFacts), c, FillOptions{}); got != nil || len(faults) != 1 ||
			faults[0].Code != code {
			t.Errorf("%s: %s, %v", name, got, faults)
		}
	}
}

func TestCheck_CompleteDocument(t *testing.T) {
	f := smallFiller(t)
	whole, _ := f.Fill(nil, parse(t, smallFacts), smallComputed(), FillOptions{})
	for name, x := range map[string][3]string{
		"unknown member": {`"version":2`, `"version":2,"isRetenIva":true`,
			"identificacion.isRetenIva: UNKNOWN: el campo no existe en este documento"},
		"the fact's path": {`"nombre":"Ñandú"`, `"nombre":"N"`,
			"receptor.nombre: LENGTH: tiene 1 carácter y debe tener de 2 a 5 caracteres"},
		"left out": {`"totalPagar":14.13,`, ``, "resumen.totalPagar: REQUIRED: es obligatorio"},
		"the same item": {`["20","D1"]`, `["20","20"]`, "cuerpoDocumento[1].tributos[1]: DUPLICATE: repite el " +
			"elemento 0"},
		"not JSON": {`}}`, `}`, "SYNTAX: el JSON está incompleto"},
		"a name twice": {`"version":2`, `"version":2,"version":2`,
			"identificacion.version: DUPLICATE: el campo está dos veces"},
	} {
		faults := f.Check([]byte(strings.Replace(string(whole), x[0], x[1], 1)))
		if len(faults) != 1 || faults[0].Error() != x[2] {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

func TestCheck_RepeatedItems(t *testing.T) {
	f := smallFiller(t)
	whole, _ := f.Fill(nil, parse(t, smallFacts), smallComputed(), FillOptions{})
	document := parse(t, string(whole))
	line := document.Get("cuerpoDocumento").Index(0)
	for _, n := range []int{3, 12, 13, 30} {
		var lines []dte.Value
		for i := range n {
			lines = append(lines, line.With("numItem", dte.Int(int64(i+1))))
		}
		if faults := f.Check(document.With("cuerpoDocumento", dte.Arr(lines...)).Append(nil)); faults != nil {
			t.Errorf("%d different lines: %v", n, faults)
		}
		lines[n-1] = line.With("numItem", dte.Num(2*dte.Scale))
		faults := f.Check(document.With("cuerpoDocumento", dte.Arr(lines...)).Append(nil))
		if want := fmt.Sprintf("cuerpoDocumento[%d]: DUPLICATE: repite el elemento 1", n-1); len(faults) != 1 ||
			faults[0].Error() != want {
			t.Errorf("%d lines: %v, want %s", n, faults, want)
		}
	}
}

// A pooled run must not show one document's values in another's.
func TestFill_Concurrently(t *testing.T) {
	f := smallFiller(t)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			facts := parse(t, strings.Replace(smallFacts, "AB12", fmt.Sprintf("A%d00", g), 1))
			c := smallComputed()
			c.Summary[0] = int64(g+1) * dte.Scale
			want := fmt.Sprintf(`"totalLetras":"%s"`, dte.AppendWords(nil, dte.Amount(c.Summary[0])))
			bad := parse(t, `{"cuerpoDocumento":[{}]}`)
			for range 200 {
				got, faults := f.Fill(nil, facts, c, FillOptions{Catalogues: true})
				if faults != nil || !strings.Contains(string(got), fmt.Sprintf("A%d00", g)) ||
					!strings.Contains(string(got), want) {
					t.Errorf("%d: %s %v", g, got, faults)
					return
				}
				if _, faults := f.Fill(nil, bad, nil, FillOptions{}); len(faults) == 0 {
					t.Error("took nothing for a document")
					return
				}
			}
		})
	}
	group.Wait()
}

// No JSON may make the filler panic, and it must accept what it writes.
func FuzzFill(f *testing.F) {
	filler := smallFiller(f)
	whole, _ := filler.Fill(nil, parse(f, smallFacts), smallComputed(), FillOptions{})
	f.Add(whole)
	f.Add([]byte(smallFacts))
	f.Add([]byte(`{"cuerpoDocumento":[[[[[[1]]]]],{"tributos":[["20"]]}],"resumen":{"pagos":[{}]},"receptor":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		filler.Check(data)
		facts, err := dte.Parse(data)
		if err != nil {
			return
		}
		c := &Computed{N: facts.Get("cuerpoDocumento").Len(), Summary: []int64{dte.Scale, 0}}
		c.Lines = make([]int64, c.N*len(smallOutputs.Lines))
		filler.Fill(nil, facts, nil, FillOptions{Catalogues: true})
		got, faults := filler.Fill(nil, facts, c, FillOptions{Catalogues: true})
		if (got == nil) != (len(faults) > 0) {
			t.Fatalf("%s and %v", got, faults)
		}
		if got != nil {
			if faults := filler.Check(got); faults != nil {
				t.Fatalf("wrote %s, which has %v", got, faults)
			}
		}
	})
}
