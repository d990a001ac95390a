package document

import (
	"math/big"
	"slices"
)

// sums adds a column over the items.
func (d *Document) sums(column string) *big.Rat {
	total := new(big.Rat)
	for _, it := range d.Root.Objects("cuerpoDocumento") {
		total.Add(total, it.number(column))
	}
	return total
}

// expect compares a field of the summary with the expected value, at two decimals. It skips a field that the generation
// does not have: the schema checks which fields exist.
func (d *Document) expect(field string, want *big.Rat) *Refusal {
	sum := d.Root.Object("resumen")
	if _, has := sum[field]; !has || near(rounded(want, 2), sum.number(field)) {
		return nil
	}
	return miscalculated("resumen." + field)
}

// First returns the first refusal of a list of checks already made.
func First(all ...*Refusal) *Refusal {
	for _, r := range all {
		if r != nil {
			return r
		}
	}
	return nil
}

// withheld returns the generation's name of ivaRete or ivaPerci: ivaRete1 and ivaPerci1 before DTE 2.0.
func (d *Document) withheld(field string) string {
	if d.Previous {
		return field + "1"
	}
	return field
}

// totals checks the part of the summary that all sales share, from the items as transmitted (MF2 pp.52-54). A field
// that depends on other fields of the summary is computed from their transmitted values, which are checked before it.
func totals(d *Document) *Refusal {
	sum := d.Root.Object("resumen")
	discounts := add(sum.number("descuNoSuj"), sum.number("descuExenta"), sum.number("descuGravada"))
	if r := First(
		d.expect("totalNoSuj", d.sums("ventaNoSuj")),
		d.expect("totalExenta", d.sums("ventaExenta")),
		d.expect("totalGravada", d.sums("ventaGravada")),
		d.expect("totalNoGravado", d.sums("noGravado")),
		d.expect("subTotalVentas", add(sum.number("totalNoSuj"), sum.number("totalExenta"),
			sum.number("totalGravada"))),
	); r != nil {
		return r
	}
	for _, pair := range [][2]string{{"descuNoSuj", "totalNoSuj"}, {"descuExenta", "totalExenta"}, {"descuGravada",
		"totalGravada"}} {
		if sum.number(pair[0]).Cmp(sum.number(pair[1])) > 0 {
			return NotAllowed("resumen." + pair[0])
		}
	}
	return First(
		// ME: the lines already include item discounts; subTotal does not repeat them (the most frequent refusal).
		d.expect("subTotal", sub(sum.number("subTotalVentas"), discounts)),
		d.expect("totalDescu", add(d.sums("montoDescu"), discounts)),
	)
}

// taxed checks that the summary lists the taxes of the items, each once, and no other taxes. It also checks the amounts
// of taxes whose rate is in the catalogue or in a law.
func taxed(d *Document) *Refusal {
	listed := make(map[string]bool)
	for _, t := range d.Root.Object("resumen").Objects("tributos") {
		code := t.Text("codigo")
		if !d.law.lists("CAT-015", summaryTaxes, code) && !slices.Contains(informativeTaxes, code) || listed[code] {
			return NotAllowed("resumen.tributos.codigo")
		}
		listed[code] = true
	}
	units, byGallon := make(map[string]*big.Rat), make(map[string]bool)
	used := make(map[string]bool)
	for _, it := range d.Root.Objects("cuerpoDocumento") {
		for _, code := range it.texts("tributos") {
			if !listed[code] {
				return lacking("resumen.tributos")
			}
			if !used[code] {
				used[code], units[code], byGallon[code] = true, new(big.Rat), true
			}
			units[code].Add(units[code], it.number("cantidad"))
			byGallon[code] = byGallon[code] && it.Integer("uniMedida") == gallon
		}
	}
	for _, t := range d.Root.Object("resumen").Objects("tributos") {
		code := t.Text("codigo")
		if !used[code] {
			return lacking("cuerpoDocumento.tributos")
		}
		rate, known := d.law.PerUnit[code]
		if !known && byGallon[code] {
			rate, known = d.law.PerGallon[code]
		}
		if known && !near(rounded(product(units[code], rate), 2), t.number("valor")) {
			return miscalculated("resumen.tributos.codigo." + code)
		}
	}
	return nil
}

// levied adds the taxes of the summary that are part of the total. The taxes of CAT-015 section 3 only inform.
func (d *Document) levied() *big.Rat {
	total := new(big.Rat)
	for _, t := range d.Root.Object("resumen").Objects("tributos") {
		if !slices.Contains(informativeTaxes, t.Text("codigo")) {
			total.Add(total, t.number("valor"))
		}
	}
	return total
}

// onePercent accepts a withholding or perception of zero, or of one percent of its base (CT art. 162, 163). Whether it
// is due depends on facts about the parties that a document does not contain; see sized.
func (d *Document) onePercent(field string, base *big.Rat) *Refusal {
	field = d.withheld(field)
	got := d.Root.Object("resumen").number(field)
	if got.Sign() == 0 || near(got, rounded(product(base, d.law.Withheld), 2)) {
		return nil
	}
	return miscalculated("resumen." + field)
}

// leastBase is the amount without VAT from which one percent is withheld or perceived, in USD (CT art. 162).
var leastBase = big.NewRat(100, 1)

// sized refuses, with strict_base, one percent of an invoice or voucher of less than leastBase. A note is exempt,
// because its original's amount decides: MF2 pp.47-48 withholds 0.90 of 90.00. Code 007, ours.
func sized(d *Document) *Refusal {
	if !d.Habits.StrictBase {
		return nil
	}
	sum := d.Root.Object("resumen")
	base := sub(sum.number("totalGravada"), sum.number("descuGravada"))
	if d.Tipo == "01" { // prices include VAT
		base = d.law.net(base)
	}
	for _, field := range []string{"ivaRete", "ivaPerci"} {
		if field = d.withheld(field); sum.number(field).Sign() > 0 && base.Cmp(d.law.LeastBase) < 0 {
			return NotAllowed("resumen."+field, "El monto sujeto es menor de "+d.law.LeastBase.FloatString(2))
		}
	}
	return nil
}

// floored returns r, or zero for a negative r: no document asks for a negative amount.
func floored(r *big.Rat) *big.Rat {
	if r.Sign() < 0 {
		return zero
	}
	return r
}
