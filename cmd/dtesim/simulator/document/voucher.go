package document

import "slices"

// voucher checks a 03: prices exclude VAT, and the summary adds it.
var voucher = []func(*Document) *Refusal{preceded, checkReceiver, totals, taxed, charged, vouched, sized}

// checkReceiver checks that the receiver is a taxpayer (observed: "[receptor.nit] NIT CONTRIBUYENTE NO EXISTE"; the
// code of this refusal was not published).
func checkReceiver(d *Document) *Refusal {
	r, field := d.Root.Object("receptor"), "nit"
	if _, has := r[field]; !has { // a note of DTE 2.0 has kind and number
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
	for _, t := range sum.Objects("tributos") { // taxed has checked that 20 is listed if an item bears it
		if t.Text("codigo") == "20" && !near(t.number("valor"), rounded(product(base, d.law.VAT), 2)) {
			return miscalculated("resumen.tributos.codigo.20")
		}
	}
	return nil
}

// vouched checks the amount to be paid. montoTotalOperacion may include withholding and perception (MF2 p.47) or
// exclude them (every sealed v3 document): MH publishes both conventions, and totalPagar is the same in both.
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

// notBoth refuses perception together with withholding: CT art. 162 and 163 exclude each other.
func (d *Document) notBoth() *Refusal {
	sum := d.Root.Object("resumen")
	perception, withholding := d.withheld("ivaPerci"), d.withheld("ivaRete")
	if sum.number(perception).Sign() > 0 && sum.number(withholding).Sign() > 0 {
		return NotAllowed("resumen." + perception)
	}
	return nil
}
