package document

import "slices"

// voucher checks a 03: prices without VAT, which the summary adds.
var voucher = []func(*Document) *Refusal{checkReceiver, totals, taxed, charged, vouched, sized}

// checkReceiver checks the receiver, who is a taxpayer (observed: "[receptor.nit] NIT CONTRIBUYENTE NO EXISTE"; its
// code was not published).
func checkReceiver(d *Document) *Refusal {
	r, field := d.Root.Object("receptor"), "nit"
	if _, has := r[field]; !has { // a note of DTE 2.0 identifies by kind and number
		if bad := named(d); bad != nil || r.Text("tipoDocumento") != "36" {
			return bad
		}
		field = "numDocumento"
	}
	nit := r.Text(field)
	if !digits(nit, 9, 14) {
		return Misshapen("receptor." + field)
	}
	if len(d.taxpayers) > 0 && !d.taxpayers[nit] {
		return &Refusal{Code: "003", Class: "13", Text: "[receptor." + field + "] NIT CONTRIBUYENTE NO EXISTE"}
	}
	return nil
}

// charged checks the VAT: every taxed item carries tax 20, and the summary carries the VAT of the amount after the
// global discount.
func charged(d *Document) *Refusal {
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		if it.number("ventaGravada").Sign() > 0 && !slices.Contains(it.texts("tributos"), "20") {
			if d.Root.Object("resumen").Null("tributos") {
				return lacking("resumen.tributos")
			}
			return lacking("cuerpoDocumento.tributos", item(i+1, "tributos"))
		}
	}
	sum := d.Root.Object("resumen")
	base := sub(sum.number("totalGravada"), sum.number("descuGravada"))
	for _, t := range sum.Objects("tributos") { // that 20 is among them if an item bears it, taxed has checked
		if t.Text("codigo") == "20" && !near(t.number("valor"), rounded(product(base, d.law.VAT), 2)) {
			return miscalculated("resumen.tributos.codigo.20")
		}
	}
	return nil
}

// vouched checks what is to be paid. MH publishes two conventions for montoTotalOperacion: with the withholding and the
// perception in it (MF2 p.47) or without (every sealed v3 document). totalPagar is the same in both, so both pass.
func vouched(d *Document) *Refusal {
	sum := d.Root.Object("resumen")
	perception, withholding := sum.number(d.withheld("ivaPerci")), sum.number(d.withheld("ivaRete"))
	base := sub(sum.number("totalGravada"), sum.number("descuGravada"))
	if r := First(d.onePercent("ivaPerci", base), d.onePercent("ivaRete", base), d.notBoth()); r != nil {
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
func (d *Document) notBoth() *Refusal {
	sum := d.Root.Object("resumen")
	perception, withholding := d.withheld("ivaPerci"), d.withheld("ivaRete")
	if sum.number(perception).Sign() > 0 && sum.number(withholding).Sign() > 0 {
		return NotAllowed("resumen." + perception)
	}
	return nil
}
