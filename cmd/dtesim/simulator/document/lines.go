package document

import (
	"slices"
)

// This file holds MF2's rules for special lines and for the sections that all types share. Each check names its page.

// besides are the amounts, other than the columns, that must be 0.00 on a line outside the tax base (MF2 p.30), if its
// type has them.
var besides = []string{"montoDescu", "psv", "ivaItem", "ivaPerci", "totalIva", "ivaRete", "reteRenta", "seguro",
	"flete"}

// levies checks the taxes that a line names. MF2 pp.32-35: only exports (FEXE, NRE and CLE) may name C3, and only MH
// may name D4. A line that is a tax (section 2) has neither discount nor suggested price nor charge. Its amount is
// taxed, and it names only tax 20, or no tax if prices include VAT (pp.33-34). Code 007.
func (d *Document) levies(it Object, n int) *Refusal {
	named := it.texts("tributos")
	for _, code := range named {
		// in 01 and 18 withoutVAT refuses C3
		if code == "D4" || code == "C3" && !slices.Contains(words("01 04 11 18"), d.Tipo) {
			return NotAllowed("cuerpoDocumento.tributos", item(n, "tributos"))
		}
	}
	if it.Null("codTributo") {
		return nil
	}
	if it.Text("codTributo") == "D4" {
		return NotAllowed("cuerpoDocumento.codTributo", item(n, "codTributo"))
	}
	for _, other := range []string{"montoDescu", "ventaNoSuj", "ventaExenta", "psv", "noGravado"} {
		if it.number(other).Sign() != 0 {
			return NotAllowed("cuerpoDocumento."+other, item(n, other))
		}
	}
	var want []string
	if !slices.Contains(words("01 11 18"), d.Tipo) && it.number("ventaGravada").Sign() > 0 {
		want = []string{"20"}
	}
	if !slices.Equal(named, want) {
		return NotAllowed("cuerpoDocumento.tributos", item(n, "tributos"))
	}
	return nil
}

// numbered checks that the items are numbered 1, 2, 3 …: "número de ítem que corresponda en secuencia con el anterior"
// (MF2 pp.30 and 33). Code 007.
func numbered(d *Document) *Refusal {
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		if it.Integer("numItem") != i+1 {
			return NotAllowed("cuerpoDocumento.numItem", item(i+1, "numItem"))
		}
	}
	return nil
}

// checkOneType checks that the documents of documentoRelacionado are of one type (MF2 p.37; p.26 for a retorno). Code
// 007.
func checkOneType(d *Document) *Refusal {
	related := d.Root.Objects("documentoRelacionado")
	for _, rel := range related {
		if rel.Text("tipoDocumento") != related[0].Text("tipoDocumento") {
			return NotAllowed("documentoRelacionado.tipoDocumento")
		}
	}
	return nil
}

// cash is the code of notes and coins in CAT-017.
const cash = "01"

// settledBy checks the description of a payment (MF2 pp.49-51): a term and its number of periods come together, and
// notes and coins have no reference ("deberá enviar campo con null"). Sealed documents of the previous generation have
// an empty reference. Code 007, or 003 if one member of the pair is missing.
func (d *Document) settledBy(p Object) *Refusal {
	switch {
	case p.Text("codigo") == cash && !p.Null("referencia") && !(d.Previous && p.Text("referencia") == ""):
		return NotAllowed("resumen.pagos.referencia")
	case p.Null("plazo") && !p.Null("periodo"):
		return lacking("resumen.pagos.plazo")
	case !p.Null("plazo") && p.Null("periodo"):
		return lacking("resumen.pagos.periodo")
	}
	return nil
}
