package tilltest

import (
	"net/http"
	"strings"
	"testing"

	"dtegate/engine"
)

// wrongCodes are sales with a code that MH's catalogue does not have, and the path that names it.
var wrongCodes = []struct{ path, example, from, to, fault string }{
	{"dte01", "dte01", `"tipoDocumento": "13"`, `"tipoDocumento": "ZZ"`, "receptor.tipoDocumento"},
	{"dte01", "dte01", `"cantidad": 2`, `"uniMedida": 77, "cantidad": 2`, "items[0].uniMedida"},
	{"dte03", "dte03", `"departamento": "05"`, `"departamento": "77"`, "receptor.direccion.departamento"},
	{"dte03", "dte03", `"departamento": "05"`, `"departamento": "` + strings.Repeat("5", 4000) + `"`,
		"receptor.direccion.departamento"},
	{"dte03", "dte03", `"municipio": "28"`, `"municipio": "77"`, "receptor.direccion.municipio"},
	{"dte03", "dte03", `"distrito": "11"`, `"distrito": "77"`, "receptor.direccion.distrito"},
	{"dte03", "dte03", `"codActividad": "62010"`, `"codActividad": "77777"`, "receptor.codActividad"},
	{"dte07", "dte07", `"tipoDte": "03"`, `"tipoDte": "77"`, "cuerpoDocumento[0].tipoDte"},
}

// TestCodes: a code that MH's catalogue does not have is a 400 with its path, online as in contingency, and spends no
// number. While MH answers, it decides about codes of payments and of their terms.
func TestCodes(t *testing.T) {
	b := Open(t, "00", days["DTE 2.0"])
	for _, c := range wrongCodes {
		last := b.Store.LastID()
		a := b.Post(c.path, []byte(example(t, c.example, c.from, c.to)))
		named := false
		for _, f := range a.Faults {
			named = named || f.Path == c.fault && len(f.Message) < 200
		}
		if a.Status != http.StatusBadRequest || !named || b.Store.LastID() != last {
			t.Errorf("%.80s: %.300s", c.to, a)
		}
	}
	for from, to := range map[string]string{`"codigo": "13"`: `"codigo": "77"`, `"plazo": "01"`: `"plazo": "77"`} {
		if a := b.Post("dte03", []byte(example(t, "dte03", from, to))); a.Status != http.StatusCreated ||
			a.Estado != "REJECTED" {
			t.Errorf("%s: %s", to, a)
		}
	}
}

// TestCodes_Pass: where the box passes codes on, MH decides about them.
func TestCodes_Pass(t *testing.T) {
	b := OpenWith(t, "00", days["DTE 2.0"], func(o *engine.Options) { o.PassCodes = true })
	for _, c := range wrongCodes {
		a := b.Post(c.path, []byte(example(t, c.example, c.from, c.to)))
		if a.Status != http.StatusCreated || a.Estado != "REJECTED" {
			t.Errorf("%.80s: %.300s", c.to, a)
		}
	}
}

// TestCodes_Lists: a till reads every catalogue, by its name.
func TestCodes_Lists(t *testing.T) {
	b := Open(t, "00", days["DTE 2.0"])
	if all := b.Get("catalogos"); !strings.Contains(string(all.Body),
		`{"catalogo":"CAT-014","nombre":"Unidad de Medida"}`) {
		t.Errorf("%s", all.Body)
	}
	if one := b.Get("catalogos/cat-014"); !strings.Contains(string(one.Body), `{"codigo":"59","texto":"Unidad"}`) {
		t.Errorf("%.500s", one.Body)
	}
	if none := b.Get("catalogos/CAT-999"); none.Status != http.StatusNotFound || none.Type != "NOT_FOUND" {
		t.Errorf("%s", none)
	}
}

// TestNoteOnInvoice: in the generation in which MH takes notes only against vouchers, a note against an invoice is
// refused at the counter with the code of the specification.
func TestNoteOnInvoice(t *testing.T) {
	b := Open(t, "00", days["before"])
	invoice := b.Post("dte01", []byte(example(t, "dte01")))
	for _, note := range []string{"dte05", "dte06"} {
		a := b.Post(note, []byte(example(t, note, "ORIGINAL", invoice.Code)))
		if a.Status != http.StatusBadRequest || a.Type != "INVALID_ORIGIN_TYPE" {
			t.Errorf("%s: %s", note, a)
		}
	}
}
