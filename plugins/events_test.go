package plugins_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
)

func TestEvents_SchemaAgrees(t *testing.T) {
	for _, x := range []struct{ bundle, published, examples string }{
		{"invalidacion/v2", "prev-generation/anulacion-schema-v2.json", "invalidacion/prev_v2_*.json"},
		{"invalidacion/v3", "v3/invalidacion-schema-v3.json", "invalidacion/v3_*.json"},
		{"contingencia/v4", "v4/contingencia-schema-v4.json", "contingencia/v4_*.json"},
	} {
		t.Run(x.bundle, func(t *testing.T) { plugintest.SchemaAgrees(t, x.bundle, x.published, x.examples) })
	}
	t.Run("contingencia/v3", func(t *testing.T) {
		var documents []dte.Value
		for _, kind := range []int{1, 5} {
			documents = append(documents, fill(t, "contingencia/v3", contingency(kind, 3)))
		}
		plugintest.SchemaAgreesOn(t, "contingencia/v3", "prev-generation/contingencia-schema-v3.json", documents...)
	})
}

// Every example of an event can be made again, complete, from its own facts.
func TestEvents_Examples(t *testing.T) {
	for name, document := range examples(t, "invalidacion/*.json", "contingencia/*.json") {
		bundle := fmt.Sprintf("contingencia/v%s", document.Get("identificacion").Get("version").Text())
		if document.Get("documento").Exists() {
			bundle = "invalidacion" + bundle[len("contingencia"):]
		}
		parts, _ := plugintest.Parts(t, bundle)
		ours := fill(t, bundle, plugintest.FactsOf(t, parts["overlay.json"], document))
		for _, difference := range plugintest.Differences(ours, document, "") {
			t.Errorf("%s: %s", name, difference)
		}
	}
}

func fill(t *testing.T, bundle string, facts dte.Value) dte.Value {
	t.Helper()
	filler, _ := plugintest.EventFiller(t, bundle)
	b, faults := filler.Fill(nil, facts, nil, schema.FillOptions{Catalogues: true})
	if len(faults) > 0 {
		t.Fatalf("%s: %v", bundle, faults)
	}
	return plugintest.Read(t, b)
}

// contingency are the facts of a report of so many documents.
func contingency(kind, documents int) dte.Value {
	facts := plugintest.BaseFacts("01")
	emisor := facts.Get("emisor")
	for name, text := range map[string]string{"nombreResponsable": "Ana Pérez", "tipoDocResponsable": "13", "numeroDocResponsable": "012345678"} {
		emisor = emisor.With(name, dte.Str(text))
	}
	id := facts.Get("identificacion").With("fTransmision", dte.Str("2026-12-02")).With("hTransmision", dte.Str("20:00:00"))
	reason := dte.Null()
	if kind == 5 {
		reason = dte.Str("Falla del sistema")
	}
	var list []dte.Value
	for i := range documents {
		list = append(list, dte.Obj(dte.Member{Name: "noItem", Value: dte.Int(int64(i + 1))}, dte.Member{Name: "tipoDoc", Value: dte.Str("01")},
			dte.Member{Name: "codigoGeneracion", Value: dte.Str(fmt.Sprintf("FF84E5DB-79C5-42CE-B415-%012X", i))}))
	}
	motive := dte.Obj(dte.Member{Name: "tipoContingencia", Value: dte.Int(int64(kind))}, dte.Member{Name: "motivoContingencia", Value: reason},
		dte.Member{Name: "fInicio", Value: dte.Str("2026-12-02")}, dte.Member{Name: "fFin", Value: dte.Str("2026-12-02")},
		dte.Member{Name: "hInicio", Value: dte.Str("08:00:00")}, dte.Member{Name: "hFin", Value: dte.Str("19:30:00")})
	return dte.Obj(dte.Member{Name: "identificacion", Value: id}, dte.Member{Name: "emisor", Value: emisor},
		dte.Member{Name: "detalleDTE", Value: dte.Arr(list...)}, dte.Member{Name: "motivo", Value: motive})
}

// invalidation are the facts of an event that rescinds a 03.
func invalidation() dte.Value {
	facts := plugintest.BaseFacts("03")
	texts := func(pairs ...string) (m []dte.Member) {
		for i := 0; i < len(pairs); i += 2 {
			m = append(m, dte.Member{Name: pairs[i], Value: dte.Str(pairs[i+1])})
		}
		return m
	}
	document := dte.Obj(texts("tipoDte", "03", "codigoGeneracion", "A945DD9E-15F7-479C-82C6-E4195ED35B5E", "selloRecibido", "202689BD636C47B74FC7F154B1ACFCB91CA2AB12",
		"numeroControl", "DTE-03-M001P001-000000000000001", "fecEmi", "2026-12-02", "tipoDocumento", "36", "numDocumento", "06140202801028", "nombre", "Receptor, S.A.")...).
		With("codigoGeneracionR", dte.Null()).With("telefono", dte.Null()).With("correo", dte.Str("a@example.com"))
	motive := dte.Obj(texts("motivoAnulacion", "Se rescinde", "nombreResponsable", "Ana Pérez", "tipDocResponsable", "13", "numDocResponsable", "012345678",
		"nombreSolicita", "Luis Díaz", "tipDocSolicita", "13", "numDocSolicita", "012345679")...).With("tipoAnulacion", dte.Int(2))
	return dte.Obj(dte.Member{Name: "identificacion", Value: facts.Get("identificacion")}, dte.Member{Name: "emisor", Value: facts.Get("emisor")},
		dte.Member{Name: "documento", Value: document}, dte.Member{Name: "motivo", Value: motive})
}

func TestEvents_Refuse(t *testing.T) {
	const another = `"4A508562-1DDD-47A9-AAF4-C9F76C6BEC95"`
	both := map[string]string{
		`{"documento":{"codigoGeneracionR":` + another + `}}`: "documento.codigoGeneracionR",
		`{"motivo":{"tipoAnulacion":1}}`:                      "documento.codigoGeneracionR",
		`{"motivo":{"tipoAnulacion":4}}`:                      "motivo.tipoAnulacion",
		`{"motivo":{"tipoAnulacion":3,"motivoAnulacion":null},"documento":{"codigoGeneracionR":` + another + `}}`: "motivo.motivoAnulacion",
		`{"documento":{"selloRecibido":"x"}}`:                                       "documento.selloRecibido",
		`{"documento":{"codigoGeneracion":"a945dd9e-15f7-479c-82c6-e4195ed35b5e"}}`: "documento.codigoGeneracion",
		`{"documento":{"numeroControl":null}}`:                                      "documento.numeroControl",
		`{"motivo":{"nombreResponsable":null}}`:                                     "motivo.nombreResponsable",
	}
	for _, bundle := range []string{"invalidacion/v2", "invalidacion/v3"} {
		filler, _ := plugintest.EventFiller(t, bundle)
		plugintest.Refusals(t, filler, invalidation(), both)
	}
	v3, _ := plugintest.EventFiller(t, "invalidacion/v3")
	plugintest.Refusals(t, v3, invalidation(), map[string]string{
		`{"documento":{"tipoDte":"18"}}`: "documento.numeroControl",
		`{"documento":{"tipoDte":"05","codigoGeneracionR":` + another + `},"motivo":{"tipoAnulacion":1}}`: "documento.codigoGeneracionR",
		`{"motivo":{"tipDocResponsable":"99"}}`:                                                           "motivo.tipDocResponsable",
		`{"documento":{"tipoDocumento":"xx"}}`:                                                            "documento.tipoDocumento",
		`{"emisor":{"nit":"0614-180494-103-5"}}`:                                                          "emisor.nit",
	})
	for _, bundle := range []string{"contingencia/v3", "contingencia/v4"} {
		filler, _ := plugintest.EventFiller(t, bundle)
		if _, faults := filler.Fill(nil, contingency(1, 1000), nil, schema.FillOptions{Catalogues: true}); len(faults) > 0 {
			t.Errorf("%s: 1000 documents: %v", bundle, faults)
		}
		if _, faults := filler.Fill(nil, contingency(1, 1001), nil, schema.FillOptions{Catalogues: true}); len(faults) == 0 || faults[0].Path != "detalleDTE" {
			t.Errorf("%s: 1001 documents: %v", bundle, faults)
		}
		plugintest.Refusals(t, filler, contingency(5, 2), map[string]string{
			`{"motivo":{"motivoContingencia":null}}`:                                       "motivo.motivoContingencia",
			`{"motivo":{"tipoContingencia":6}}`:                                            "motivo.tipoContingencia",
			`{"motivo":{"fFin":"2026-02-30"}}`:                                             "motivo.fFin",
			`{"motivo":{"hFin":"24:00:00"}}`:                                               "motivo.hFin",
			`{"emisor":{"nombreResponsable":null}}`:                                        "emisor.nombreResponsable",
			`{"emisor":{"tipoEstablecimiento":"99"}}`:                                      "emisor.tipoEstablecimiento",
			`{"detalleDTE":[{"codigoGeneracion":"ff84e5db-79c5-42ce-b415-000000000000"}]}`: "detalleDTE[0].codigoGeneracion",
		})
	}
}

// Every document type that an invalidation can meet has its window in the bundle, and a source for the window.
func TestEvents_Windows(t *testing.T) {
	types := map[string]map[string]bool{"invalidacion/v2": {}, "invalidacion/v3": {}}
	for _, name := range slices.Concat(plugins.Names, plugins.Further) {
		switch m := manifest(t, name); {
		case m.Kind != "document":
		case m.Validity["01"].Until == "":
			types["invalidacion/v3"][m.Document] = true
		default:
			types["invalidacion/v2"][m.Document] = true
		}
	}
	for name, documents := range types {
		has := map[string]bool{}
		for _, p := range manifest(t, name).Params {
			if kind, found := strings.CutPrefix(p.Name, "window"); found && p.Value != "0" && p.Source != "" {
				has[kind[len(kind)-2:]] = true
			}
		}
		if !maps.Equal(has, documents) {
			t.Errorf("%s has windows for %v, and the documents are %v", name, has, documents)
		}
	}
}
