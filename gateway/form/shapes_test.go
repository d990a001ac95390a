package form

import (
	"strings"
	"testing"

	"dtegate/engine/dte"
)

const (
	originA = "FF84E5DB-79C5-42CE-B415-EC510C53EFB5"
	originB = "0F84E5DB-79C5-42CE-B415-EC510C53EFB5"
)

func decodeText(t *testing.T, document, body string) *Filled {
	t.Helper()
	v, err := dte.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return Documents[document].Fill(v, nil)
}

// The payload's names and the client library's give the same facts (SPEC 4.3, 4.4, 4.5).
func TestDecode_BothShapes(t *testing.T) {
	line := `"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1`
	for name, c := range map[string]struct{ document, payload, client string }{
		"excluded subject": {"14",
			`{"sujetoExcluido":{"tipoDocumento":"13","numDocumento":"012345678","nombre":"Ana"},"applyrent":true,` +
				line + `}`,
			`{"receptor":{"tipoDocumento":"13","numDocumento":"012345678","nombre":"Ana"},"applyrent":true,` + line +
				`}`},
		"credit note": {"05", `{"codigoGeneracion":"` + originA + `",` + line + `}`,
			`{"tipoDte":"05","documentoRelacionado":{"codigoGeneracion":"` + originA + `"},` + line + `}`},
		"withholding": {"07", `{"receptor":{"tipoDocumento":"36","numDocumento":"06140202801028","nombre":"Ana","correo":"a@example.com"},
			"cuerpoDocumento":[{"numItem":1,"tipoDte":"03","tipoGeneracion":2,"numDocumento":"` + originA + `","fechaEmision":"2026-12-01","montoSujetoGrav":100,"codigoRetencionMH":"22","ivaRetenido":1,"descripcion":"Retención de IVA sobre el documento ` + originA + `"}]}`,
			`{"receptor":{"tipoDocumento":"36","numDocumento":"06140202801028","nombre":"Ana","correo":"a@example.com"},
			"items":[{"tipoDocRelacionado":"03","numDocRelacionado":"` + originA + `","fechaDocRelacionado":"2026-12-01","montoSujetoRetencion":100,"codigoRetencion":"22","montoRetenido":1}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := decodeText(t, c.document, c.payload), decodeText(t, c.document, c.client)
			if len(a.Faults)+len(b.Faults) > 0 {
				t.Fatal(a.Faults, b.Faults)
			}
			for _, member := range []string{"receptor", "resumen"} {
				if x, y := string(a.Facts.Get(member).Append(nil)), string(b.Facts.Get(member).Append(nil)); x != y {
					t.Errorf("%s: %s, %s", member, x, y)
				}
			}
			for _, m := range a.Facts.Get("cuerpoDocumento").Index(0).Members() {
				if y := b.Facts.Get("cuerpoDocumento").Index(0).Get(m.Name); string(y.Append(nil)) != string(
					m.Value.Append(nil)) {
					t.Errorf("%s: %s, %s", m.Name, m.Value.Append(nil), y.Append(nil))
				}
			}
			if a.Origin != nil && (a.Origin.Code != b.Origin.Code || a.Origin.Code.String() != originA) {
				t.Errorf("origins %v, %v", a.Origin, b.Origin)
			}
		})
	}
}

// A request that mixes the shapes in a contradictory way is refused, and both members are named.
func TestDecode_Contradictions(t *testing.T) {
	line := `"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1`
	for name, c := range map[string]struct {
		document, body string
		want           []string
	}{
		"two subjects": {"14", `{"sujetoExcluido":{"nombre":"Ana"},"receptor":{"nombre":"Eva"},"applyrent":false,` +
			line + `}`, []string{"sujetoExcluido", "receptor"}},
		"two originals": {"05", `{"codigoGeneracion":"` + originA +
			`","documentoRelacionado":{"codigoGeneracion":"` + originB + `"},` + line + `}`,
			[]string{"codigoGeneracion", "documentoRelacionado.codigoGeneracion"}},
		"no original": {"06", `{` + line + `}`, []string{"codigoGeneracion"}},
		"other type": {"06", `{"tipoDte":"05","codigoGeneracion":"` + originA + `",` + line + `}`,
			[]string{"tipoDte"}},
		"no code": {"06", `{"codigoGeneracion":"` + originA[1:] + `",` + line + `}`,
			[]string{"codigoGeneracion"}},
		"two bodies": {"07",
			`{"receptor":{"tipoDocumento":"36","numDocumento":"1","nombre":"A","correo":"a@b.c"},"cuerpoDocumento":[{}],"items":[{"numItem":1}]}`, []string{"cuerpoDocumento", "items", "cuerpoDocumento[0].tipoDte", "items[0].montoRetenido"}},
		"out of order": {"07",
			`{"receptor":{"tipoDocumento":"36","numDocumento":"1","nombre":"A","correo":"a@b.c"},"cuerpoDocumento":[{"numItem":2,"tipoDte":"03","tipoGeneracion":1,"numDocumento":"1","fechaEmision":"2026-12-01","montoSujetoGrav":1,"codigoRetencionMH":"22","ivaRetenido":1,"descripcion":"x"}]}`, []string{"cuerpoDocumento[0].numItem"}},
		"return of naught": {"18", `{"documentoOrigen":"` + originA +
			`","items":[{"numItem":1,"cantidadRetorno":0}],"motivo":""}`, []string{"items[0].cantidadRetorno",
			"motivo"}},
		"empty return": {"18", `{"documentoOrigen":"x","items":[],"motivo":"m"}`, []string{"documentoOrigen",
			"items"}},
		"long motive": {"18", `{"documentoOrigen":"` + originA +
			`","items":[{"numItem":1,"cantidadRetorno":1}],"motivo":"` + strings.Repeat("ñ", 151) + `"}`,
			[]string{"motivo"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decodeText(t, c.document, c.body)
			paths := make(map[string]bool)
			for _, f := range d.Faults {
				paths[f.Path] = true
			}
			for _, want := range c.want {
				if !paths[want] {
					t.Errorf("no fault at %s in %v", want, d.Faults)
				}
			}
		})
	}
}

// Members that neither MH's layout nor the amounts know travel in the appendix.
func TestDecode_Appendix(t *testing.T) {
	d := decodeText(t, "05", `{"codigoGeneracion":"`+originA+
		`","motivo":"Rebaja","motivoModificacion":2,"montoAjuste":10.5,"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`)
	got := string(d.Facts.Get("apendice").Append(nil))
	want := `[{"campo":"motivo","etiqueta":"Motivo","valor":"Rebaja"},{"campo":"motivoModificacion","etiqueta":"Motivo de la modificación","valor":"2"},{"campo":"montoAjuste","etiqueta":"Monto del ajuste","valor":"10.5"}]`
	if len(d.Faults) > 0 || got != want {
		t.Errorf("%v %s", d.Faults, got)
	}
	d = decodeText(t, "18", `{"documentoOrigen":"`+originA+
		`","items":[{"numItem":1,"cantidadRetorno":1}],"motivo":"m","apendice":[{"campo":"caja","etiqueta":"Caja","valor":"7"}]}`)
	if got := d.Facts.Get("apendice"); len(d.Faults) > 0 || got.Len() != 2 ||
		got.Index(1).Get("campo").Text() != "caja" {
		t.Errorf("%v %s", d.Faults, got.Append(nil))
	}
}

// Faults are reported under the names that the request used.
func TestRequestPath_Shapes(t *testing.T) {
	for _, c := range []struct{ document, body, fact, want string }{
		{"14", `{"sujetoExcluido":{}}`, "receptor.direccion.distrito", "sujetoExcluido.direccion.distrito"},
		{"14", `{"receptor":{}}`, "receptor.nombre", "receptor.nombre"},
		{"07", `{"items":[]}`, "cuerpoDocumento[2].ivaRetenido", "items[2].montoRetenido"},
		{"07", `{"cuerpoDocumento":[]}`, "cuerpoDocumento[2].numeroDocumento", "cuerpoDocumento[2].numDocumento"},
		{"18", `{}`, "cuerpoDocumento[0].cantidad", "items[0].cantidadRetorno"},
		{"18", `{}`, "origen", "documentoOrigen"},
		{"05", `{"codigoGeneracion":"x"}`, "origen.tipoDte", "codigoGeneracion"},
		{"05", `{"documentoRelacionado":{}}`, "origen", "documentoRelacionado.codigoGeneracion"},
		{"05", `{}`, "cuerpoDocumento", "items"},
	} {
		if got := decodeText(t, c.document, c.body).requestPath(c.fact); got != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.document, c.body, c.fact, got, c.want)
		}
	}
}

func TestPosition(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "7": 7, "42": 42, "1999": 1999} {
		if got := position(text); got != want {
			t.Errorf("%s is position %d", text, got)
		}
	}
}

// Donated money says how it was handed over, and donated goods do not; a line of a remission names its document.
func TestDecode_Further(t *testing.T) {
	const gift = `{"receptor":{"tipoDocumento":"36","numDocumento":"06140202801028","nombre":"A","codDomiciliado":1,"codPais":"SV"},"otrosDocumentos":[{"codDocAsociado":1,"descDocumento":"Res","detalleDocumento":"123"}],"items":[{"tipoDonacion":1,"cantidad":1,"descripcion":"d","valorUnitario":5}]`
	d := decodeText(t, "15", gift+`,"pagos":[{"codigo":"01","referencia":"x","montoPago":2},{"codigo":"05","referencia":"TR-1","montoPago":3}]}`)
	got := string(d.Facts.Get("resumen").Get("pagos").Append(nil))
	want := `[{"codigo":"01","montoPago":2,"referencia":null},{"codigo":"05","montoPago":3,"referencia":"TR-1"}]`
	if len(d.Faults) > 0 || got != want {
		t.Errorf("%v %s", d.Faults, got)
	}
	if path := d.requestPath("resumen.pagos[1].codigo"); path != "pagos[1].codigo" {
		t.Error(path)
	}
	d = decodeText(t, "15", gift+`}`)
	if len(d.Faults) > 0 || d.Facts.Get("resumen").Get("pagos").Exists() || d.requestPath("resumen.pagos") != "pagos" {
		t.Errorf("%v %s", d.Faults, d.requestPath("resumen.pagos"))
	}
	d = decodeText(t, "04", `{"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1,"numeroDocumento":"S-1"}]}`)
	if line := d.Facts.Get("cuerpoDocumento").Index(0); line.Get("numeroDocumento").Text() != "S-1" {
		t.Errorf("%s", line.Append(nil))
	}
}
