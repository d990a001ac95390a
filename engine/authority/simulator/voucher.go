package simulator

import "slices"

// voucher checks a 03: prices without VAT, which the summary adds.
var voucher = []func(*registry, *document) *refusal{checkReceiver, totals, taxed, charged, vouched, sized}

// checkReceiver checks the receiver, who is a taxpayer (observed: "[receptor.nit] NIT CONTRIBUYENTE NO EXISTE"; its code
// was not published).
func checkReceiver(s *registry, d *document) *refusal {
	r, field := d.root.object("receptor"), "nit"
	if _, has := r[field]; !has { // a note of DTE 2.0 identifies by kind and number
		if bad := named(s, d); bad != nil || r.text("tipoDocumento") != "36" {
			return bad
		}
		field = "numDocumento"
	}
	nit := r.text(field)
	if !digits(nit, 9, 14) {
		return misshapen("receptor." + field)
	}
	if len(s.taxpayers) > 0 && !s.taxpayers[nit] {
		return &refusal{code: "003", class: "13", text: "[receptor." + field + "] NIT CONTRIBUYENTE NO EXISTE"}
	}
	return nil
}

// charged checks the VAT: every taxed item bears tax 20, and the summary the VAT of what is left after the global
// discount.
func charged(_ *registry, d *document) *refusal {
	for i, it := range d.root.objects("cuerpoDocumento") {
		if it.number("ventaGravada").Sign() > 0 && !slices.Contains(it.texts("tributos"), "20") {
			if d.root.object("resumen").null("tributos") {
				return lacking("resumen.tributos")
			}
			return lacking("cuerpoDocumento.tributos", item(i+1, "tributos"))
		}
	}
	sum := d.root.object("resumen")
	base := sub(sum.number("totalGravada"), sum.number("descuGravada"))
	for _, t := range sum.objects("tributos") { // that 20 is among them if an item bears it, taxed has checked
		if t.text("codigo") == "20" && !near(t.number("valor"), rounded(product(base, d.law.VAT), 2)) {
			return miscalculated("resumen.tributos.codigo.20")
		}
	}
	return nil
}

// vouched checks what is to be paid. MH publishes two conventions for montoTotalOperacion: with the withholding and
// the perception in it (MF2 p.47) or without (every sealed v3 document). totalPagar is the same in both, so both
// pass.
func vouched(_ *registry, d *document) *refusal {
	sum := d.root.object("resumen")
	perception, withholding := sum.number(d.withheld("ivaPerci")), sum.number(d.withheld("ivaRete"))
	base := sub(sum.number("totalGravada"), sum.number("descuGravada"))
	if r := first(d.onePercent("ivaPerci", base), d.onePercent("ivaRete", base), d.notBoth()); r != nil {
		return r
	}
	gross := add(sum.number("subTotal"), d.levied())
	net := sub(add(gross, perception), withholding)
	if stated := sum.number("montoTotalOperacion"); !near(stated, gross) && !near(stated, net) {
		return miscalculated("resumen.montoTotalOperacion")
	}
	net = sub(net, sum.number("reteRenta")) // v3 only
	return d.expect("totalPagar", floored(add(net, sum.number("totalNoGravado"))))
}

// notBoth: CT art. 162 and 163 exclude each other.
func (d *document) notBoth() *refusal {
	sum := d.root.object("resumen")
	perception, withholding := d.withheld("ivaPerci"), d.withheld("ivaRete")
	if sum.number(perception).Sign() > 0 && sum.number(withholding).Sign() > 0 {
		return notAllowed("resumen." + perception)
	}
	return nil
}
