package document

import (
	"math/big"
	"regexp"
)

// note checks a 05 or 06 by itself; the registry looks up the originals.
var note = []func(*Document) *Refusal{checkReceiver, linked, totals, taxed, charged, adjusted}

var codeForm = regexp.MustCompile(`^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$`)

// linked checks documentoRelacionado, and that every item names one of its documents. MH lets notes adjust 03 and 07
// only (ME, MF2). With lax_origins an invoice passes too: the product's API admits it, MH does not.
func linked(d *Document) *Refusal {
	for _, rel := range d.Root.Objects("documentoRelacionado") {
		kind, generation := rel.Text("tipoDocumento"), rel.Integer("tipoGeneracion")
		switch {
		case kind != "03" && kind != "07" && (!d.Habits.LaxOrigins || kind != "01"):
			return NotAllowed("documentoRelacionado.tipoDocumento")
		case generation != Physical && generation != electronic:
			return NotAllowed("documentoRelacionado.tipoGeneracion")
		case generation == electronic && !codeForm.MatchString(rel.Text("numeroDocumento")):
			return Misshapen("documentoRelacionado.numeroDocumento")
		}
	}
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		if d.relation(it.Text("numeroDocumento")) == nil {
			return NotAllowed("cuerpoDocumento.numeroDocumento",
				item(i+1, "numeroDocumento no figura en documentoRelacionado"))
		}
	}
	return nil
}

// CAT-007: how a related document was made.
const (
	Physical   = 1
	electronic = 2
)

// relation returns the entry of documentoRelacionado with a number, or nil.
func (d *Document) relation(number string) Object {
	for _, rel := range d.Root.Objects("documentoRelacionado") {
		if rel.Text("numeroDocumento") == number {
			return rel
		}
	}
	return nil
}

// adjustsWithholding reports whether an item of a note adjusts a 07. Such an item has no sale; its amounts are in
// totalIva and ivaRete.
func (d *Document) adjustsWithholding(it Object) bool {
	return (d.Tipo == "05" || d.Tipo == "06") && d.relation(it.Text("numeroDocumento")).Text("tipoDocumento") == "07"
}

// adjusted checks the totals of a note. In DTE 2.0 montoTotalOperacion excludes withholding and perception (MF2 p.48:
// 101.70, with 95.80 to be paid). Before DTE 2.0, both conventions of 03 were sealed, and there is no totalPagar.
func adjusted(d *Document) *Refusal {
	sum := d.Root.Object("resumen")
	perception, withholding := sum.number(d.withheld("ivaPerci")), sum.number(d.withheld("ivaRete"))
	base := sub(sum.number("totalGravada"), sum.number("descuGravada"))
	gross := add(sum.number("subTotalVentas"), d.levied())
	if d.Previous {
		gross = add(sum.number("subTotal"), d.levied())
		net := sub(add(gross, perception), withholding)
		if r := First(d.onePercent("ivaPerci", base), d.onePercent("ivaRete", base), d.notBoth()); r != nil {
			return r
		}
		if stated := sum.number("montoTotalOperacion"); !near(stated, gross) && !near(stated, net) {
			return miscalculated("resumen.montoTotalOperacion")
		}
		return nil
	}
	// The withholding of an adjusted 07 is not a percentage of the note's sales.
	withheld, ofWithholding := new(big.Rat), false
	for _, it := range d.Root.Objects("cuerpoDocumento") {
		if d.adjustsWithholding(it) {
			withheld.Add(withheld, it.number("ivaRete"))
			ofWithholding = true
		}
	}
	code := sum.Text("codigoRetencionMH")
	if (ofWithholding || code != "") && !d.law.lists("CAT-006", withholdings, code) {
		return NotAllowed("resumen.codigoRetencionMH")
	}
	rest := sub(withholding, withheld)
	if !near(rest, zero) && !near(rest, rounded(product(base, d.law.Withheld), 2)) {
		return miscalculated("resumen.ivaRete")
	}
	// Items may omit these three fields; if they state them, the summary must be their sum.
	for _, field := range []string{"ivaPerci", "ivaRete", "totalIva"} {
		if stated := d.sums(field); stated.Sign() > 0 {
			if r := d.expect(field, stated); r != nil {
				return r
			}
		}
	}
	return First(
		d.onePercent("ivaPerci", base),
		d.notBoth(),
		d.expect("montoTotalOperacion", gross),
		d.expect("totalPagar", floored(add(sub(add(gross, perception), withholding), sum.number("totalNoGravado")))),
	)
}
