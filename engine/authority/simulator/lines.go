package simulator

import (
	"slices"
)

// This file holds what MF2 says of special lines and of the sections that all types share. Each check names its page.

// besides are the amounts that a line outside the tax base has at 0.00 beside its columns (MF2 p.30), where its type has
// them.
var besides = []string{"montoDescu", "psv", "ivaItem", "ivaPerci", "totalIva", "ivaRete", "reteRenta", "seguro", "flete"}

// levies checks the taxes that a line names. MF2 pp.32-35: C3 is for exports alone (FEXE, and NRE and CLE, which are not
// received here), D4 for MH itself. A line that is a tax (section 2) has neither discount nor suggested price nor charge,
// its amount is taxed, and it names tax 20 alone, or none at all where prices include VAT (pp.33-34). Code 007.
func (d *document) levies(it object, n int) *refusal {
	named := it.texts("tributos")
	for _, code := range named {
		if code == "D4" || code == "C3" && d.tipo != "01" && d.tipo != "18" { // in those two C3 is a matter of the schema
			return notAllowed("cuerpoDocumento.tributos", item(n, "tributos"))
		}
	}
	if it.null("codTributo") {
		return nil
	}
	if it.text("codTributo") == "D4" {
		return notAllowed("cuerpoDocumento.codTributo", item(n, "codTributo"))
	}
	for _, other := range []string{"montoDescu", "ventaNoSuj", "ventaExenta", "psv", "noGravado"} {
		if it.number(other).Sign() != 0 {
			return notAllowed("cuerpoDocumento."+other, item(n, other))
		}
	}
	var want []string
	if d.tipo != "01" && d.tipo != "18" && it.number("ventaGravada").Sign() > 0 {
		want = []string{"20"}
	}
	if !slices.Equal(named, want) {
		return notAllowed("cuerpoDocumento.tributos", item(n, "tributos"))
	}
	return nil
}

// numbered checks that the items count from 1 on: "número de ítem que corresponda en secuencia con el anterior" (MF2
// pp.30 and 33). Code 007.
func numbered(_ *registry, d *document) *refusal {
	for i, it := range d.root.objects("cuerpoDocumento") {
		if it.integer("numItem") != i+1 {
			return notAllowed("cuerpoDocumento.numItem", item(i+1, "numItem"))
		}
	}
	return nil
}

// checkOneType checks that the documents of documentoRelacionado are of one type (MF2 p.37; p.26 for a retorno). Code 007.
func checkOneType(_ *registry, d *document) *refusal {
	related := d.root.objects("documentoRelacionado")
	for _, rel := range related {
		if rel.text("tipoDocumento") != related[0].text("tipoDocumento") {
			return notAllowed("documentoRelacionado.tipoDocumento")
		}
	}
	return nil
}

// cash is CAT-017's code of notes and coins.
const cash = "01"

// settledBy checks how a payment is described (MF2 pp.49-51): a term and its number of periods come together, and notes
// and coins have no reference ("deberá enviar campo con null"). The sealed documents of the generation before have an
// empty reference there. Code 007, or 003 for a half pair.
func (d *document) settledBy(p object) *refusal {
	switch {
	case p.text("codigo") == cash && !p.null("referencia") && !(d.previous && p.text("referencia") == ""):
		return notAllowed("resumen.pagos.referencia")
	case p.null("plazo") && !p.null("periodo"):
		return lacking("resumen.pagos.plazo")
	case !p.null("plazo") && p.null("periodo"):
		return lacking("resumen.pagos.periodo")
	}
	return nil
}

// sameIssuer checks that an event says of its issuer what the document says that it is applied to (MF2 p.8: "los datos
// del emisor deben ser los mismos detallados en el DTE al que se le aplique"). Code 007.
func (d *document) sameIssuer(o *record) *refusal {
	now, was := d.root.object("emisor"), o.read().root.object("emisor")
	for _, pair := range [][2]string{{"nombre", "nombre"}, {"codEstableMH", "codEstable"}, {"codPuntoVentaMH", "codPuntoVenta"}} {
		said := was.text(pair[0])
		if said == "" {
			said = was.text(pair[1]) // DTE 2.0 documents call MH's codes so
		}
		if got := now.text(pair[0]); said != "" && got != "" && got != said {
			return notAllowed("emisor."+pair[0], "Difiere del emisor del documento "+o.code())
		}
	}
	return nil
}

// sameReceiver checks that a retorno says of the receiver what its origin says (MF2 p.28, step 1), and that it is for the
// same third party (p.26). A DUI may have lost its hyphen between generations. Code 007.
func (d *document) sameReceiver(o *record) *refusal {
	origin := o.read()
	was, _ := origin.receiver()
	now, _ := d.receiver()
	for _, field := range []string{"tipoDocumento", "numDocumento", "nombre"} {
		if got, want := now.text(field), was.text(field); got != want && (field != "numDocumento" || unhyphened(got) != unhyphened(want)) {
			return notAllowed("documento."+field, "No es el receptor del documento relacionado")
		}
	}
	if d.root.object("ventaTercero").text("nit") != origin.root.object("ventaTercero").text("nit") {
		return notAllowed("ventaTercero.nit", "No es el tercero del documento relacionado")
	}
	return nil
}

// sameTaxpayer checks that a note is to the taxpayer of its original (MF2 p.31: adjusting a document keeps its "NIT
// (Receptor)", unless a merger is named in fusion). An invoice may have named nobody. Code 007.
func (d *document) sameTaxpayer(o *record) *refusal {
	was, _ := o.read().receiver()
	now, name := d.receiver()
	if d.root.object("identificacion").text("fusion") != "" {
		return nil
	}
	named := false
	for _, before := range []string{was.text("nit"), was.text("numDocumento")} {
		for _, after := range []string{now.text("nit"), now.text("numDocumento")} {
			if before != "" && unhyphened(before) == unhyphened(after) {
				return nil
			}
		}
		named = named || before != ""
	}
	if !named {
		return nil
	}
	field := "numDocumento"
	if _, has := now["nit"]; has {
		field = "nit"
	}
	return notAllowed(name+"."+field, "No es el receptor del documento relacionado")
}
