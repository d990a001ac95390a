package document

// purchase checks a 14: a taxpayer's purchase from somebody who is not registered for VAT.
var purchase = []func(*Document) *Refusal{named, checkPurchase}

// checkPurchase checks the summary. The income tax withheld is a tenth of the services of natural persons. The document
// does not show which items these are; therefore any amount up to a tenth of the whole passes.
func checkPurchase(d *Document) *Refusal {
	sum := d.Root.Object("resumen")
	if r := d.expect("totalCompra", d.sums("compra")); r != nil {
		return r
	}
	if sum.number("descu").Cmp(sum.number("totalCompra")) > 0 {
		return NotAllowed("resumen.descu")
	}
	if r := d.expect("subTotal", sub(sum.number("totalCompra"), sum.number("descu"))); r != nil {
		return r
	}
	if !sum.Null("totalDescu") { // v1 lets it be null
		if r := d.expect("totalDescu", add(d.sums("montoDescu"), sum.number("descu"))); r != nil {
			return r
		}
	}
	if most := rounded(product(sum.number("subTotal"), d.law.Income), 2); sum.number("reteRenta").Cmp(add(most,
		cent)) > 0 {
		return miscalculated("resumen.reteRenta")
	}
	return First(
		d.onePercent("ivaRete", sum.number("subTotal")),
		d.expect("totalPagar", floored(sub(sum.number("subTotal"), sum.number("reteRenta"), sum.number("ivaRete1")))),
	)
}
