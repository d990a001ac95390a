package tilltest

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// eve and first are the days between which MH changes generations in production.
var (
	eve   = time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	first = time.Date(2026, 12, 1, 16, 0, 0, 0, time.UTC)
)

// requests are what tills that follow SPEC send: every example, both shapes of 4.3 to 4.5, identifiers as they are
// printed, and requests that are wrong. ORIGINAL is the voucher or the invoice before.
func requests(t testing.TB) []struct{ name, path, body string } {
	note := `{"tipoDte":"%s","documentoRelacionado":{"codigoGeneracion":"VOUCHER","tipoDte":"03"},"items":[{"descripcion":"Rebaja","cantidad":1,"precioUnitario":1}],"condicionOperacion":1,"motivoModificacion":2,"observaciones":"Rebaja comercial"}`
	return []struct{ name, path, body string }{
		{"invoice", "dte01", example(t, "dte01")},
		{"invoice, minimal receptor of SPEC", "dte01",
			consumer(`{"nombre":"Ana Morales","numDocumento":"04321678-9","tipoDocumento":"13","correo":"ana@example.com"}`)},
		{"invoice, extended receptor of SPEC", "dte01", consumer(`{"nombre":"Ana Morales","numDocumento":"0614-020280-102-8","tipoDocumento":"36","correo":"ana@example.com",
			"direccion":{"departamento":"05","municipio":"28","distrito":"11","complemento":"Avenida"},"telefono":"2222-3333","nrc":"765432-1","nit":"x"}`)},
		{"invoice to nobody", "dte01", consumer(`{}`)},
		{"invoice, kind from the number", "dte01", consumer(`{"numDocumento":"043216789"}`)},
		{"invoice on credit", "dte01",
			`{"receptor":{"nombre":"Ana Morales"},"items":[{"descripcion":"a","cantidad":3,"precioUnitario":1.005,"montoDescu":0.015}],"condicionOperacion":2,"pago":{"codigo":"13","plazo":"02","periodo":3}}`},
		{"voucher", "dte03", example(t, "dte03")},
		{"voucher, as printed", "dte03", example(t, "dte03", `"06140202801028"`, `"0614-020280-102-8"`, "7654321",
			"765432-1")},
		{"voucher of a person", "dte03", example(t, "dte03",
			`"tipoDocumento": "36", "numDocumento": "06140202801028", "nit": "06140202801028"`,
			`"tipoDocumento": "13", "numDocumento": "04321678-9", "nit": "04321678-9"`)},
		{"credit note", "dte05", example(t, "dte05", "ORIGINAL", "VOUCHER")},
		{"debit note", "dte06", example(t, "dte06", "ORIGINAL", "VOUCHER")},
		{"credit note, client library", "dte05", fmt.Sprintf(note, "05")},
		{"debit note, client library", "dte06", fmt.Sprintf(note, "06")},
		{"excluded subject", "dte14", example(t, "dte14")},
		{"excluded subject, client library", "dte14", example(t, "dte14", `"sujetoExcluido"`, `"receptor"`, "043216789",
			"04321678-9")},
		{"excluded subject, NIT as printed", "dte14", example(t, "dte14",
			`"tipoDocumento": "13", "numDocumento": "043216789"`,
			`"tipoDocumento": "36", "numDocumento": "0614-020280-102-8"`)},
		{"withholding voucher", "dte07", example(t, "dte07")},
		{"half a document", "dte01", consumer(`{"tipoDocumento":"13"}`)},
		{"no such DUI", "dte01", consumer(`{"tipoDocumento":"13","numDocumento":"0432167"}`)},
		{"no receptor", "dte03",
			`{"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`},
		{"nothing", "dte01", `{}`},
		{"invalidation", "invalidacion/INVOICE", example(t, "invalidacion", "012345678", "01234567-8")},
	}
}

// The same requests on the last day of one generation and on the first of the next, in production: the same answers,
// except the version. Returns exist from that day on; before, they are refused with that reason.
func TestProduction_SameAnswers(t *testing.T) {
	b := Open(t, "01", eve)
	play := func(day string) (answers []string) {
		var voucher, invoice Answer
		for _, r := range requests(t) {
			a := b.Post(strings.ReplaceAll(r.path, "INVOICE", invoice.Code), []byte(strings.ReplaceAll(r.body,
				"VOUCHER", voucher.Code)))
			switch r.name {
			case "invoice":
				invoice = a
			case "voucher":
				voucher = a
			}
			if want := map[string]string{"2026-11-30": `"version":[123],`,
				"2026-12-01": `"version":[24],`}[day]; a.Status == 201 &&
				!regexp.MustCompile(want).MatchString(a.Document) {
				t.Errorf("%s on %s: %s", r.name, day, a.Document)
			}
			answers = append(answers, fmt.Sprintf("%s: %d %s %s %s %v %v", r.name, a.Status, a.Estado, a.Total, a.Type,
				paths(a), a.Observations))
			if a.Status/100 == 2 && a.Estado != "PROCESSED" && a.Estado != "INVALIDATED" {
				t.Errorf("%s on %s: %v", r.name, day, a)
			}
		}
		return answers
	}
	before := play("2026-11-30")
	early := b.Post("retorno", []byte(example(t, "retorno", "ORIGINAL", "5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F")))
	if early.Status != 409 || early.Type != "NOT_YET_IN_FORCE" || !strings.Contains(early.Message,
		"desde el 01/12/2026") ||
		early.Headers.Get("Retry-After") != "" {
		t.Errorf("a return before its day: %v %v", early, early.Headers)
	}
	b.Set(first)
	after := play("2026-12-01")
	for i := range before {
		if before[i] != after[i] {
			t.Errorf("on 30 November %s\non  1 December %s", before[i], after[i])
		}
	}
	was, is := closing(t, b.Get("cierre?fecha=2026-11-30")), closing(t, b.Get("cierre?fecha=2026-12-01"))
	for what, same := range map[string]bool{"documents": slices.Equal(was.Groups, is.Groups),
		"payments": slices.Equal(was.Payments, is.Payments), "net": was.Net == is.Net} {
		if !same {
			t.Errorf("the closings differ in %s:\n%+v\n%+v", what, was, is)
		}
	}
	o := b.Post("dte01", []byte(example(t, "dte01")))
	if a := b.Post("retorno", []byte(example(t, "retorno", "ORIGINAL", o.Code))); a.Estado != "PROCESSED" {
		t.Error(a)
	}
}

// A sale of the eve, with a DUI in the layout's own format, is adjusted, returned and invalidated on the day.
func TestProduction_AcrossTheSwitch(t *testing.T) {
	b := Open(t, "01", eve)
	invoice := b.Post("dte01", []byte(example(t, "dte01", "043216789", "04321678-9")))
	other := b.Post("dte01", []byte(example(t, "dte01", "043216789", "04321678-9")))
	voucher := b.Post("dte03", []byte(example(t, "dte03", `"06140202801028"`, `"0614-020280-102-8"`)))
	if !strings.Contains(invoice.Document, `"numDocumento":"04321678-9"`) {
		t.Errorf("before DTE 2.0 a DUI has its hyphen: %s", invoice.Document)
	}
	b.Set(first)
	for name, a := range map[string]Answer{
		"credit note": b.Post("dte05", []byte(example(t, "dte05", "ORIGINAL", voucher.Code))),
		"return":      b.Post("retorno", []byte(example(t, "retorno", "ORIGINAL", invoice.Code))),
		"taken back":  b.Post("invalidacion/"+other.Code, []byte(example(t, "invalidacion"))),
	} {
		if a.Estado != "PROCESSED" && a.Estado != "INVALIDATED" {
			t.Errorf("%s: %v", name, a)
		}
	}
}

// What was sold without MH on the last evening, MH refuses after midnight: it is corrected in its own generation. The
// forms of type 11 differ: an export of goods and services together, for a third party, exists only in the old one. A
// sale of the new generation is corrected by a bundle that was pushed after the sale, and in the form of that bundle.
func TestProduction_Corrections(t *testing.T) {
	var shelf *rulestore.Store
	b := OpenWith(t, "01", time.Date(2026, 12, 1, 5, 50, 0, 0, time.UTC), func(o *engine.Options) {
		shelf = rulestore.New(rulestore.Options{Store: o.Store, Host: plugintest.Host(t, "compiler"),
			Interpreter: plugintest.Host(t, "interpreter"), Keys: bundle.Keys{Pinned: []bundle.Key{plugintest.Key()}},
			Ambiente: "01", Logger: enginetest.Quiet, Now: o.Now})
		shipped := make(map[string][]byte)
		for _, name := range slices.Concat(plugins.Names, []string{"dte11/v1", "dte11/v3"}) {
			shipped[name] = plugintest.Bundle(t, name)
		}
		if err := shelf.Load(t.Context(), shipped); err != nil {
			t.Fatal(err)
		}
		o.Shelf = shelf
	})
	t.Cleanup(func() { record.Forget("11") })
	b.client = http.DefaultClient // the contract of these tests lacks type 11
	sold := func(path, body string) string {
		t.Helper()
		a := b.Post(path, []byte(body))
		if a.Estado != "CONTINGENCIA" {
			t.Fatal(a)
		}
		return a.Code
	}
	becomes := func(code, estado string) (a Answer) {
		t.Helper()
		for late := time.After(time.Minute); ; {
			change := b.Store.Announced()
			if a = b.Get("documento/" + code); a.Estado == estado {
				return a
			}
			select {
			case <-change:
			case <-late:
				t.Fatalf("never %s: %v", estado, a)
			}
		}
	}
	export := `{"receptor":{"tipoDocumento":"37","numDocumento":"GT-884512","nombre":"Distribuidora","descActividad":"Venta",
		"codPais":"GT","nombrePais":"Guatemala","complemento":"6a avenida","tipoPersona":2},"tipoItemExpor":3,
		"recintoFiscal":"02","regimen":"EX-1.1000.000","codIncoterms":"09","descIncoterms":"FOB-Libre a bordo",
		"ventaTercero":{"nit":"06140202801028","nombre":"Otro"},
		"items":[{"descripcion":"Cafe","tipoItem":1,"cantidad":1,"precioUnitario":1.13}],"condicionOperacion":1}`
	if err := b.Sim.Chaos(simulator.Chaos{Outage: true}); err != nil {
		t.Fatal(err)
	}
	exported, invoice := sold("dte11", export), sold("dte01", consumer(`{}`))
	b.Set(time.Date(2026, 12, 1, 6, 10, 0, 0, time.UTC))
	if err := shelf.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := sold("dte01", consumer(`{}`))
	if err := b.Sim.Chaos(simulator.Chaos{Reject: 3}); err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{exported, invoice, next} {
		becomes(code, "REJECTED")
	}
	mended := func(parts map[string][]byte, _ *bundle.Manifest) {
		parts["form.json"] = bytes.Replace(parts["form.json"], []byte(`"members": [`), []byte(`"members": [
			{"name": "ventaTercero", "shape": "object", "members": [{"name": "nombre", "required": true}]},`), 1)
	}
	if a := enginetest.Push(t, shelf, bundletest.Edition(t, "dte01/v2", "2.1.7", mended)); a.State != rulestore.Live {
		t.Fatalf("%+v", a)
	}
	for code, c := range map[string]struct{ body, want string }{
		exported: {export, `"version":1,.*"fecEmi":"2026-11-30".*"tipoItemExpor":3`},
		invoice:  {consumer(`{}`), `"version":1,.*"fecEmi":"2026-11-30"`},
		next: {strings.Replace(consumer(`{}`), `{`, `{"ventaTercero":{"nombre":"Otro"},`, 1),
			`"version":2,.*"fecEmi":"2026-12-01".*"ventaTercero":{.*"nombre":"Otro"`},
	} {
		body := strings.Replace(c.body, "1.13", "2.26", 1)
		for range 2 { // the first answer may be lost
			if a := b.Post("correccion/"+code, []byte(body)); a.Status != 200 || a.Code != code || a.Total != "2.26" {
				t.Fatalf("%s: %v", c.want, a)
			}
		}
		if a := becomes(code, "PROCESSED"); !regexp.MustCompile(c.want).MatchString(a.Document) {
			t.Errorf("%s: %s", c.want, a.Document)
		}
	}
}

func paths(a Answer) (all []string) {
	for _, f := range a.Faults {
		all = append(all, f.Path+" "+f.Code)
	}
	return all
}
