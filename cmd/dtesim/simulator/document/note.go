package document

import (
	"math/big"
	"regexp"
)

// note checks a 05 or 06 by itself; what it adjusts is looked up when it is registered.
var note = []func(*Document) *Refusal{checkReceiver, linked, totals, taxed, charged, adjusted}

var codeForm = regexp.MustCompile(`^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$`)

// linked checks documentoRelacionado, and that every item names one of its documents. MH adjusts 03 and 07 only (ME,
// MF2); that an invoice passes too, with lax_origins alone, is the product's API, not MH.
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

// relation is the entry of documentoRelacionado with a number; nil when there is none.
func (d *Document) relation(number string) Object {
	for _, rel := range d.Root.Objects("documentoRelacionado") {
		if rel.Text("numeroDocumento") == number {
			return rel
		}
	}
	return nil
}

// adjustsWithholding tells an item of a note that adjusts a 07: it has no sale, its amounts are in totalIva and
// ivaRete.
func (d *Document) adjustsWithholding(it Object) bool {
	return (d.Tipo == "05" || d.Tipo == "06") && d.relation(it.Text("numeroDocumento")).Text("tipoDocumento") == "07"
}

// adjusted checks what a note is worth. In DTE 2.0 montoTotalOperacion is without withholding and perception (MF2
// p.48: 101.70 where 95.80 is to be paid); before it, both conventions of 03 were sealed, and there is no totalPagar.
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
	// What is withheld on an adjusted 07 is no percentage of a sale.
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
	// Items may leave the three to the summary; when they state them, the summary adds them up.
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
