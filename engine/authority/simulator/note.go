package simulator

import (
	"math/big"
	"regexp"
)

// note checks a 05 or 06 by itself; what it adjusts is looked up when it is registered.
var note = []func(*registry, *document) *refusal{checkReceiver, linked, totals, taxed, charged, adjusted}

var codeForm = regexp.MustCompile(`^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$`)

// linked checks documentoRelacionado, and that every item names one of its documents. MH adjusts 03 and 07 only (ME,
// MF2); that an invoice passes too, with lax_origins alone, is the product's API, not MH.
func linked(s *registry, d *document) *refusal {
	lax := s.Hostilities().LaxOrigins
	for _, rel := range d.root.objects("documentoRelacionado") {
		kind, generation := rel.text("tipoDocumento"), rel.integer("tipoGeneracion")
		switch {
		case kind != "03" && kind != "07" && (!lax || kind != "01"):
			return notAllowed("documentoRelacionado.tipoDocumento")
		case generation != physical && generation != electronic:
			return notAllowed("documentoRelacionado.tipoGeneracion")
		case generation == electronic && !codeForm.MatchString(rel.text("numeroDocumento")):
			return misshapen("documentoRelacionado.numeroDocumento")
		}
	}
	for i, it := range d.root.objects("cuerpoDocumento") {
		if d.relation(it.text("numeroDocumento")) == nil {
			return notAllowed("cuerpoDocumento.numeroDocumento", item(i+1, "numeroDocumento no figura en documentoRelacionado"))
		}
	}
	return nil
}

// CAT-007: how a related document was made.
const (
	physical   = 1
	electronic = 2
)

// relation is the entry of documentoRelacionado with a number; nil when there is none.
func (d *document) relation(number string) object {
	for _, rel := range d.root.objects("documentoRelacionado") {
		if rel.text("numeroDocumento") == number {
			return rel
		}
	}
	return nil
}

// adjustsWithholding tells an item of a note that adjusts a 07: it has no sale, its amounts are in totalIva and
// ivaRete.
func (d *document) adjustsWithholding(it object) bool {
	return (d.tipo == "05" || d.tipo == "06") && d.relation(it.text("numeroDocumento")).text("tipoDocumento") == "07"
}

// adjusted checks what a note is worth. In DTE 2.0 montoTotalOperacion is without withholding and perception (MF2
// p.48: 101.70 where 95.80 is to be paid); before it, both conventions of 03 were sealed, and there is no totalPagar.
func adjusted(_ *registry, d *document) *refusal {
	sum := d.root.object("resumen")
	perception, withholding := sum.number(d.withheld("ivaPerci")), sum.number(d.withheld("ivaRete"))
	base := sub(sum.number("totalGravada"), sum.number("descuGravada"))
	gross := add(sum.number("subTotalVentas"), d.levied())
	if d.previous {
		gross = add(sum.number("subTotal"), d.levied())
		net := sub(add(gross, perception), withholding)
		if r := first(d.onePercent("ivaPerci", base), d.onePercent("ivaRete", base), d.notBoth()); r != nil {
			return r
		}
		if stated := sum.number("montoTotalOperacion"); !near(stated, gross) && !near(stated, net) {
			return miscalculated("resumen.montoTotalOperacion")
		}
		return nil
	}
	// What is withheld on an adjusted 07 is no percentage of a sale.
	withheld, ofWithholding := new(big.Rat), false
	for _, it := range d.root.objects("cuerpoDocumento") {
		if d.adjustsWithholding(it) {
			withheld.Add(withheld, it.number("ivaRete"))
			ofWithholding = true
		}
	}
	code := sum.text("codigoRetencionMH")
	if (ofWithholding || code != "") && !d.law.lists("CAT-006", withholdings, code) {
		return notAllowed("resumen.codigoRetencionMH")
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
	return first(
		d.onePercent("ivaPerci", base),
		d.notBoth(),
		d.expect("montoTotalOperacion", gross),
		d.expect("totalPagar", floored(add(sub(add(gross, perception), withholding), sum.number("totalNoGravado")))),
	)
}
