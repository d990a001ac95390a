package tilltest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/plugins/plugintest"
)

// days on which the counter is tested: one in each generation of MH's layouts.
var days = map[string]time.Time{
	"before":  time.Date(2025, 11, 3, 14, 0, 0, 0, time.UTC),
	"DTE 2.0": time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC),
}

// example is a request of deploy/examples; the pairs replace texts of it.
func example(t testing.TB, name string, pairs ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "examples", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(data), pairs[i]) {
			t.Fatalf("%s has no %s", name, pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(string(data))
}

// consumer is an invoice to a receiver.
func consumer(receptor string) string {
	return `{"receptor":` + receptor + `,"items":[{"descripcion":"Café","cantidad":1,"precioUnitario":1.13}],"condicionOperacion":1}`
}

// refusals are requests that MH would refuse, or that nobody can have meant: each is a 400 with these paths.
var refusals = []struct {
	name, path, body, code string
	paths                  []string
	later                  bool // of DTE 2.0 only
}{
	{"kind without number", "dte01", consumer(`{"tipoDocumento":"37"}`), "REQUIRED", []string{"receptor.numDocumento"},
		false},
	{"passport without number", "dte01", consumer(`{"tipoDocumento":"03","nombre":"Ana"}`), "REQUIRED",
		[]string{"receptor.numDocumento"}, false},
	{"resident without number", "dte01", consumer(`{"tipoDocumento":"02","numDocumento":null}`), "REQUIRED",
		[]string{"receptor.numDocumento"}, false},
	{"number of no form without kind", "dte01", consumer(`{"numDocumento":"A123"}`), "REQUIRED",
		[]string{"receptor.tipoDocumento"}, false},
	{"blank kind", "dte01", consumer(`{"tipoDocumento":"","numDocumento":"043216789"}`), "LENGTH",
		[]string{"receptor.tipoDocumento"}, false},
	{"blank number", "dte01", consumer(`{"tipoDocumento":"13","numDocumento":" "}`), "LENGTH",
		[]string{"receptor.numDocumento"}, false},
	{"a DUI of eight digits", "dte01", consumer(`{"tipoDocumento":"13","numDocumento":"04321678"}`), "PATTERN",
		[]string{"receptor.numDocumento"}, false},
	{"a NIT of thirteen digits", "dte01", consumer(`{"tipoDocumento":"36","numDocumento":"0614-180494-103"}`),
		"PATTERN", []string{"receptor.numDocumento"}, false},
	{"control character", "dte01", consumer(`{"nombre":"Ana\u0007"}`), "PATTERN", []string{"receptor.nombre"}, false},
	{"line break in a name", "dte01", consumer(`{"nombre":"Ana\nMorales"}`), "PATTERN", []string{"receptor.nombre"},
		false},
	{"C1 control", "dte01", consumer(`{"nombre":"Ana\u0085"}`), "PATTERN", []string{"receptor.nombre"}, false},
	{"a space of no width", "dte01", consumer(`{"nombre":"Ana","correo":"ana\u200b@example.com"}`), "PATTERN",
		[]string{"receptor.correo"}, false},
	{"blank description", "dte01",
		`{"receptor":{},"items":[{"descripcion":" \u00a0 ","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`,
		"REQUIRED", []string{"items[0].descripcion"}, false},
	{"blank tax kind", "dte01",
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1,"tipoImpuesto":""}],"condicionOperacion":1}`, "LENGTH", []string{"items[0].tipoImpuesto"}, false},
	{"term without periods", "dte01",
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":3,"pago":{"codigo":"13","plazo":"01"}}`, "REQUIRED", []string{"pago.periodo"}, false},
	{"periods without term", "dte01",
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1,"pagos":[{"codigo":"13","periodo":2}]}`, "REQUIRED", []string{"pagos[0].plazo"}, false},
	{"payments without amounts", "dte01",
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1,` +
			`"pagos":[{"codigo":"01"},{"codigo":"02"}]}`, "REQUIRED", []string{"pagos[1].montoPago"}, false},
	{"part of a charge", "dte01",
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1},{"descripcion":"b","cantidad":0.5,"precioUnitario":0,"noGravado":1}],"condicionOperacion":1}`, "NO_GRAVADO_LINE", []string{"items[1].noGravado"}, false},
	{"charge by the unit", "dte01",
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1},{"descripcion":"b","cantidad":1,"precioUnitario":0,"noGravado":1,"uniMedida":59}],"condicionOperacion":1}`, "NO_GRAVADO_LINE", []string{"items[1].noGravado"}, false},
	{"unknown condition", "dte01",
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":4}`, "RANGE", []string{"condicionOperacion"}, false},
	{"the limit itself", "dte01",
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":92000000000}],"condicionOperacion":1}`, "RANGE", []string{"items[0].precioUnitario"}, false},
	{"charge alone", "dte01", `{"receptor":{},"items":[{"descripcion":"b","cantidad":1,"precioUnitario":0,"noGravado":1}],"condicionOperacion":1}`, "NOTHING_SOLD", []string{"items"}, false},
	{"tax with a discount", "dte01",
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":5,"tipoItem":4,"codTributo":"57","montoDescu":1}],"condicionOperacion":1}`, "TAX_LINE", []string{"items[0].codTributo"}, false},
	{"exempt tax", "dte01", `{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":5,"tipoItem":4,"codTributo":"57","tipoImpuesto":"EXENTO"}],"condicionOperacion":1}`, "TAX_LINE", []string{"items[0].codTributo"}, false},
	{"tax of a tax", "dte03", "03: 4.25, \"tributos\": [\"59\"], \"tipoItem\": 4, \"codTributo\": \"57\", " +
		"\"uniMedida\": 99", "TAX_LINE", []string{"items[0].tributos"}, false},
	{"NIT of another", "dte03", "03: NIT", "CONDITION", []string{"receptor.nit", "receptor.numDocumento"}, false},
	{"withheld of tomorrow", "dte07", "07: tomorrow", "RANGE", []string{"cuerpoDocumento[0].fechaEmision"}, true},
	{"withheld on no day", "dte07", "07: no day", "FORMAT", []string{"cuerpoDocumento[0].fechaEmision"}, true},
	{"paper number of an electronic document", "dte07", "07: number", "PATTERN",
		[]string{"cuerpoDocumento[0].numDocumento"}, true},
}

// spelt writes the requests that are an example with a change.
func spelt(t testing.TB, body string) string {
	t.Helper()
	switch rest, is := strings.CutPrefix(body, "03: 4.25"); {
	case is:
		return example(t, "dte03", `"cantidad": 40`, `"cantidad": 1`, `"precioUnitario": 4.25, "montoDescu": 10`,
			`"precioUnitario": 4.25`+rest)
	}
	switch body {
	case "03: NIT":
		return example(t, "dte03", `"nit": "06140202801028"`, `"nit": "06140202801029"`)
	case "07: tomorrow":
		return example(t, "dte07", "2026-01-15", "2026-11-24")
	case "07: no day":
		return example(t, "dte07", "2026-01-15", "2026-02-30")
	case "07: number":
		return example(t, "dte07", "5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F", "DTE-03-M001P001-000000000000001")
	}
	return body
}

// Every refusal happens at the counter: 400, the paths of the request, a stable code, and no number spent; in both
// generations, with MH and without.
func TestCounter_Refuses(t *testing.T) {
	for day, begin := range days {
		t.Run(day, func(t *testing.T) {
			t.Parallel()
			b := Open(t, "00", begin)
			for _, online := range []bool{true, false} {
				if !online {
					if err := b.Engine.Contingency().Declare(t.Context(), 3, "sin Internet"); err != nil {
						t.Fatal(err)
					}
				}
				for _, c := range refusals {
					if c.later && day == "before" {
						continue
					}
					a := b.Post(c.path, []byte(spelt(t, c.body)))
					var paths []string
					for _, f := range a.Faults {
						paths = append(paths, f.Path)
						if f.Code != c.code || f.Message == "" {
							t.Errorf("%s: %v", c.name, a)
						}
					}
					if a.Status != 400 || !slices.Equal(paths, c.paths) {
						t.Errorf("%s, online %v: %v, want 400 at %v", c.name, online, a, c.paths)
					}
				}
			}
			if a := b.Post("dte01", []byte(example(t, "dte01"))); a.Sequence != "1" {
				t.Errorf("the first number is %s: %v", a.Sequence, a)
			}
		})
	}
}

// Requests that look odd and are right: each is sealed, and says of the receiver what MH wants in the day's generation.
func TestCounter_Takes(t *testing.T) {
	b := Open(t, "00", days["DTE 2.0"])
	for _, c := range []struct{ name, path, body, shows string }{
		{"a number that says its kind", "dte01", consumer(`{"numDocumento":"04321678-9","nombre":"Ana"}`),
			`"tipoDocumento":"13","numDocumento":"043216789"`},
		{"a NIT that says its kind", "dte01", consumer(`{"numDocumento":"0614-020280-102-8","nombre":"Ana"}`),
			`"tipoDocumento":"36","numDocumento":"06140202801028"`},
		{"spaces", "dte01", consumer(`{"tipoDocumento":"13","numDocumento":" 04321678 9 "}`),
			`"numDocumento":"043216789"`},
		{"NIT and NRC as printed", "dte03", example(t, "dte03", `"06140202801028"`, `"0614-020280-102-8"`, "7654321",
			"765432-1"), `"nit":"06140202801028","nrc":"7654321"`},
		{"a charge of no unit", "dte01",
			`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1},{"descripcion":"b","cantidad":1,"precioUnitario":0,"noGravado":1}],"condicionOperacion":1}`, `"uniMedida":99`},
		{"a reference of cash", "dte01",
			`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1,"pago":{"codigo":"01","referencia":"TURNO-1"}}`, `"referencia":null`},
		{"blank remarks", "dte01",
			`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1,"codigo":""}],"condicionOperacion":1,"observaciones":" "}`, `"observaciones":null`},
		{"remarks of two lines", "dte01",
			`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1,"observaciones":"uno\ndos"}`, `"observaciones":"uno\ndos"`},
		{"a control number on paper", "dte07", example(t, "dte07",
			`"tipoGeneracion": 2, "numDocumento": "5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F"`,
			`"tipoGeneracion": 1, "numDocumento": "DTE-03-M001P001-000000000000001"`),
			`"numeroDocumento":"DTE-03-M001P001-000000000000001"`},
	} {
		if a := b.Post(c.path, []byte(c.body)); a.Estado != "PROCESSED" || !strings.Contains(a.Document, c.shows) {
			t.Errorf("%s: %v\n%s", c.name, a, a.Document)
		}
	}
}

// A total of 0.00 passes where MH's layout lets it, with a warning, and is refused where it does not.
func TestCounter_NothingToPay(t *testing.T) {
	free := `{"receptor":{},"items":[{"descripcion":"Muestra gratis","cantidad":1,"precioUnitario":0}],"condicionOperacion":1}`
	for day, begin := range days {
		b := Open(t, "00", begin)
		if a := b.Post("dte01", []byte(free)); a.Estado != "PROCESSED" || a.Total != "0.00" ||
			!slices.Contains(a.Observations, "El total del documento es 0.00") {
			t.Errorf("%s: %v %v", day, a, a.Observations)
		}
		gift := []string{`"precioUnitario": 4.25, "montoDescu": 10`, `"precioUnitario": 0`}
		if day != "before" {
			if a := b.Post("dte03", []byte(example(t, "dte03", gift...))); a.Status != 400 || len(a.Faults) != 1 ||
				a.Faults[0].Path != "condicionOperacion" {
				t.Errorf("%s: nothing is owed: %v", day, a)
			}
			gift = append(gift, `"condicionOperacion": 2`, `"condicionOperacion": 1`)
		}
		a := b.Post("dte03", []byte(example(t, "dte03", gift...)))
		if day == "before" && (a.Status != 400 || len(a.Faults) == 0 || a.Faults[0].Path != "items" ||
			!strings.Contains(a.Faults[0].Message, "monto total de la operación")) ||
			day != "before" && (a.Estado != "PROCESSED" || !slices.Contains(a.Observations,
				"El total del documento es 0.00")) {
			t.Errorf("%s: %v %v", day, a, a.Observations)
		}
	}
}

// A sale that leaves the buyer a credit is paid with the code 99, as MH demands: only the rule knows that nothing is paid.
func TestCounter_BuyersCredit(t *testing.T) {
	for day, begin := range days {
		b := Open(t, "00", begin)
		for credit, code := range map[string]string{"-20": "99", "-1": "01"} {
			a := b.Post("dte01", []byte(`{"receptor":{},"items":[{"descripcion":"Pan","cantidad":1,"precioUnitario":5},`+
				`{"descripcion":"Vale","cantidad":1,"precioUnitario":0,"noGravado":`+credit+`}],"condicionOperacion":1}`))
			if a.Estado != "PROCESSED" || !strings.Contains(a.Document, `"pagos":[{"codigo":"`+code+`"`) ||
				strings.Contains(a.Document, `"saldoFavor":0,`) != (code == "01") {
				t.Errorf("%s, %s: %v\n%s", day, credit, a, a.Document)
			}
		}
	}
}

// A note goes to the taxpayer of its original, however that taxpayer is named.
func TestCounter_NoteToAnotherTaxpayer(t *testing.T) {
	for day, begin := range days {
		t.Run(day, func(t *testing.T) {
			b := Open(t, "00", begin)
			o := b.Post("dte03", []byte(example(t, "dte03")))
			note := func(receptor string) Answer {
				return b.Post("dte05", []byte(strings.Replace(example(t, "dte05", "ORIGINAL", o.Code), "{",
					`{"receptor":`+receptor+",", 1)))
			}
			rest := `,"nrc":"7654321","nombre":"Comercial El Roble, S.A. de C.V.","codActividad":"62010","descActividad":"Programación informática",
				"direccion":{"departamento":"05","municipio":"28","distrito":"11","complemento":"Avenida"},"telefono":"22223333","correo":"compras@example.com"}`
			for _, other := range []string{`{"nit":"06140202801999"`,
				`{"tipoDocumento":"36","numDocumento":"06140202801999"`,
				`{"tipoDocumento":"13","numDocumento":"043216789","nit":"0614-020280-199-9"`} {
				a := note(other + rest)
				if a.Status != 400 || len(a.Faults) == 0 || a.Faults[0].Code != "CONDITION" ||
					!strings.HasPrefix(a.Faults[0].Path, "receptor.n") {
					t.Errorf("%s: %v", other, a)
				}
			}
			// What the till leaves out comes from the original.
			for said, member := range map[string]string{`{"correo":"otra@example.com"}`: "otra@example.com",
				`{"nit":"06140202801028"}`: "Comercial El Roble", `{"nombreComercial":"El Roblito"}`: "El Roblito"} {
				if a := note(said); a.Estado != "PROCESSED" || !strings.Contains(a.Document, member) ||
					!strings.Contains(a.Document, "06140202801028") {
					t.Errorf("%s: %v %s", said, a, a.Document)
				}
			}
			for _, same := range []string{`{"nit":"0614-020280-102-8"`,
				`{"tipoDocumento":"36","numDocumento":"06140202801028"`} {
				if a := note(same + rest); a.Estado != "PROCESSED" {
					t.Errorf("%s: %v", same, a)
				}
			}
		})
	}
}

// A return takes the lines that an invoice takes: a tax or a charge whole, and a charge beside something sold. A line
// that the origin does not have is ITEM_NOT_FOUND, whatever its number.
func TestCounter_Returns(t *testing.T) {
	b := Open(t, "00", days["DTE 2.0"])
	sale := `{"receptor":{"tipoDocumento":"13","numDocumento":"04321678-9","nombre":"Ana Morales"},"condicionOperacion":1,"items":[
		{"descripcion":"Cerveza","cantidad":6,"precioUnitario":1.5},
		{"descripcion":"Envase","cantidad":1,"precioUnitario":0,"noGravado":3},
		{"descripcion":"Impuesto","cantidad":1,"precioUnitario":0.9,"tipoItem":4,"codTributo":"57"}]}`
	o := b.Post("dte01", []byte(sale))
	if o.Estado != "PROCESSED" {
		t.Fatal(o)
	}
	for _, c := range []struct{ items, code, path string }{
		{`{"numItem":2,"cantidadRetorno":1}`, "NOTHING_RETURNED", "items"},
		{`{"numItem":2,"cantidadRetorno":0.5},{"numItem":1,"cantidadRetorno":1}`, "RETURN_WHOLE_LINE",
			"items[0].cantidadRetorno"},
		{`{"numItem":1,"cantidadRetorno":1},{"numItem":3,"cantidadRetorno":0.25}`, "RETURN_WHOLE_LINE",
			"items[1].cantidadRetorno"},
		{`{"numItem":0,"cantidadRetorno":1}`, "ITEM_NOT_FOUND", "items[0].numItem"},
		{`{"numItem":-1,"cantidadRetorno":1}`, "ITEM_NOT_FOUND", "items[0].numItem"},
		{`{"numItem":4,"cantidadRetorno":1}`, "ITEM_NOT_FOUND", "items[0].numItem"},
		{`{"numItem":5000,"cantidadRetorno":1}`, "ITEM_NOT_FOUND", "items[0].numItem"},
		{`{"numItem":1,"cantidadRetorno":7}`, "OVER_RETURN_ERROR", "items[0].cantidadRetorno"},
	} {
		a := b.Post("retorno", []byte(fmt.Sprintf(`{"documentoOrigen":%q,"items":[%s],"motivo":"Devuelto"}`, o.Code,
			c.items)))
		if a.Status != 400 || len(a.Faults) != 1 || a.Faults[0].Code != c.code || a.Faults[0].Path != c.path {
			t.Errorf("%s: %v", c.items, a)
		}
	}
	discounted := b.Post("dte01", []byte(strings.Replace(sale, `"condicionOperacion":1,`,
		`"condicionOperacion":1,"descuentoGlobal":{"gravada":1},`, 1)))
	if a := b.Post("retorno", []byte(
		fmt.Sprintf(`{"documentoOrigen":%q,"items":[{"numItem":3,"cantidadRetorno":1}],"motivo":"Devuelto"}`,
			discounted.Code))); a.Status != 400 || a.Faults[0].Code != "RETURN_DISCOUNTED_TAX" ||
		a.Faults[0].Path != "items[0]" {
		t.Error(a)
	}
	for _, motivo := range []string{"", "  ", "\u00a0"} {
		said, _ := json.Marshal(motivo)
		a := b.Post("retorno",
			[]byte(fmt.Sprintf(`{"documentoOrigen":%q,"items":[{"numItem":1,"cantidadRetorno":1}],"motivo":%s}`, o.Code,
				said)))
		if a.Status != 400 || a.Faults[0].Path != "motivo" {
			t.Errorf("%q: %v", motivo, a)
		}
	}
	a := b.Post("retorno", []byte(
		fmt.Sprintf(`{"documentoOrigen":%q,"items":[{"numItem":1,"cantidadRetorno":6},{"numItem":2,"cantidadRetorno":1},{"numItem":3,"cantidadRetorno":1}],"motivo":"Todo vuelve"}`, o.Code)))
	if a.Estado != "PROCESSED" || a.Total != o.Total || a.Sequence != "1" {
		t.Errorf("%v, the sale was %s, number %s", a, o.Total, a.Sequence)
	}
}
