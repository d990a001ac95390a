package plugins_test

import (
	"strings"

	"dtegate/engine/dte"
)

// ask turns a document back into the request that a till would have sent: the lines without their amounts, the parties,
// and the flags and global discounts that the summary shows.
func ask(document dte.Value) dte.Value {
	above := func(names ...string) dte.Value {
		for _, name := range names {
			if a, err := document.Get("resumen").Get(name).Amount(); err == nil && a != 0 {
				return dte.Bool(true)
			}
		}
		return dte.Bool(false)
	}
	summary := document.Get("resumen")
	var said []dte.Member
	for _, m := range document.Members() {
		if m.Name != "sujetoExcluido" && m.Name != "documento" { // a till says receptor
			said = append(said, m)
		}
	}
	facts := dte.Obj(said...).With("isRetenIva", above("ivaRete", "ivaRete1")).With("isPerciIva", above("ivaPerci", "ivaPerci1")).With("applyrent", above("reteRenta"))
	facts = facts.With("descuentoGlobal", dte.Obj(dte.Member{Name: "gravada", Value: summary.Get("descuGravada")}, dte.Member{Name: "exenta", Value: summary.Get("descuExenta")},
		dte.Member{Name: "noSujeta", Value: summary.Get("descuNoSuj")}, dte.Member{Name: "compra", Value: summary.Get("descu")}))
	facts = facts.With("origen", dte.Obj(dte.Member{Name: "tipoDte", Value: document.Get("documentoRelacionado").Index(0).Get("tipoDocumento")}))
	for _, name := range []string{"receptor", "sujetoExcluido", "documento"} { // what generations and types call it
		receptor := document.Get(name)
		if receptor.Kind() != dte.KindObject {
			continue
		}
		if number := receptor.Get("numDocumento"); number.Kind() == dte.KindString {
			receptor = receptor.With("numDocumento", dte.Str(strings.ReplaceAll(number.Text(), "-", "")))
		}
		facts = facts.With("receptor", receptor)
	}
	var lines []dte.Value
	for i := range document.Get("cuerpoDocumento").Len() {
		line := document.Get("cuerpoDocumento").Index(i)
		for name, kind := range map[string]string{"ventaExenta": "EXENTO", "ventaNoSuj": "NO_SUJETO"} {
			if a, _ := line.Get(name).Amount(); a != 0 {
				line = line.With("tipoImpuesto", dte.Str(kind))
			}
		}
		lines = append(lines, line)
	}
	facts = facts.With("cuerpoDocumento", dte.Arr(lines...))
	if document.Get("identificacion").Get("tipoEvento").Text() == "18" {
		return askReturn(facts)
	}
	return facts
}

// askReturn makes a return event that takes back all of its origin.
func askReturn(facts dte.Value) dte.Value {
	emisor, summary := facts.Get("emisor"), facts.Get("resumen")
	facts = facts.With("emisor", emisor.With("codEstable", emisor.Get("codEstableMH")).With("codPuntoVenta", emisor.Get("codPuntoVentaMH")))
	origin := facts.Get("origen").With("totalCompra", summary.Get("totalCompraExcluidos"))
	for _, name := range []string{"totalNoSuj", "totalExenta", "totalGravada"} {
		origin = origin.With(name, summary.Get(name))
	}
	var lines []dte.Value
	for i := range facts.Get("cuerpoDocumento").Len() {
		line := facts.Get("cuerpoDocumento").Index(i)
		line = line.With("cantidadOrigen", line.Get("cantidad"))
		for _, name := range []string{"montoDescu", "ventaNoSuj", "ventaExenta", "ventaGravada", "compra", "noGravado"} {
			line = line.With(name+"Origen", line.Get(name))
		}
		lines = append(lines, line)
	}
	return facts.With("origen", origin).With("cuerpoDocumento", dte.Arr(lines...))
}
