package document

import (
	"fmt"
	"math/big"
	"slices"
)

// invoice checks a 01: prices include VAT, and totalIva only shows it.
var invoice = []func(*Document) *Refusal{preceded, identified, withoutVAT, totals, taxed, included, invoiced, sized}

// identification is the amount of an operation, in USD, from which a consumer must be named (CT art. 114 and 119-G b,
// DGII notice of 2024-09-05). The schema of FE v2 has no threshold.
var identification = big.NewRat(25_000, 1)

// identified checks the consumer's identity document: its kind and number come together and in their form.
func identified(d *Document) *Refusal {
	r := d.Root.Object("receptor")
	if r.Text("tipoDocumento") == "" && r.Text("numDocumento") == "" {
		if d.Root.Object("resumen").number("montoTotalOperacion").Cmp(d.law.Identification) >= 0 {
			return lacking("receptor.numDocumento")
		}
		return nil
	}
	return d.identity(r, "receptor", "tipoDocumento", "numDocumento", d.Previous)
}

// named checks a receiver that must be identified: in 04, 11, 14, 15, and from DTE 2.0 on in 05, 06, 07 and 08.
func named(d *Document) *Refusal {
	r, name := d.receiver()
	return d.identity(r, name, "tipoDocumento", "numDocumento", d.Previous && slices.Contains(words("04 11 15"),
		d.Tipo))
}

// identity checks the kind and the number of an identity document (CAT-022). A DUI has nine digits; if hyphens is set,
// the form 01234567-8 of 01 v1 passes too.
func (d *Document) identity(person Object, path, kindField, numberField string, hyphens bool) *Refusal {
	kind, number := person.Text(kindField), person.Text(numberField)
	switch {
	case kind == "":
		return lacking(path + "." + kindField)
	case number == "":
		return lacking(path + "." + numberField)
	case !d.law.lists("CAT-022", receiverDocuments, kind):
		return NotAllowed(path + "." + kindField)
	}
	switch kind {
	case "36": // NIT, or the DUI that replaced it for persons
		if !digits(number, 9, 14) {
			return Misshapen(path + "." + numberField)
		}
	case "13":
		if !digits(number, 9) && !(hyphens && hyphened(number)) {
			return Misshapen(path + "." + numberField)
		}
	}
	return nil
}

// withoutVAT refuses 20 and C3 in an invoice, as a matter of the schema (observed: 096).
func withoutVAT(d *Document) *Refusal {
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		for j, code := range it.texts("tributos") {
			if code == "20" || code == "C3" {
				return unschemed(invalid(fmt.Sprintf("/cuerpoDocumento/%d/tributos/%d", i, j)))
			}
		}
	}
	for i, t := range d.Root.Object("resumen").Objects("tributos") {
		if code := t.Text("codigo"); code == "20" || code == "C3" {
			return unschemed(invalid(fmt.Sprintf("/resumen/tributos/%d/codigo", i)))
		}
	}
	return nil
}

// included checks the VAT in the prices: at 13 % it is 13/113 of each taxed line, not 13 % of the line.
func included(d *Document) *Refusal {
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		if !it.Null("codTributo") {
			if !it.Null("tributos") {
				return NotAllowed("cuerpoDocumento.tributos", item(i+1, "tributos")) // ME: null beside codTributo
			}
			continue // nothing is published about the VAT of a tax
		}
		if want := rounded(product(it.number("ventaGravada"), d.law.included()), 8); !near(want, it.number("ivaItem")) {
			return miscalculated("cuerpoDocumento.ivaItem",
				item(i+1, "El iva calculado es diferente, se esperaba "+want.FloatString(8)))
		}
	}
	sum := d.Root.Object("resumen")
	// ME field 89
	return d.expect("totalIva", sub(d.sums("ivaItem"), product(sum.number("descuGravada"), d.law.included())))
}

func invoiced(d *Document) *Refusal {
	sum := d.Root.Object("resumen")
	base := d.law.net(sub(sum.number("totalGravada"), sum.number("descuGravada")))
	total := add(sum.number("subTotal"), d.levied())
	paid := sub(total, sum.number(d.withheld("ivaRete")), sum.number("reteRenta")) // reteRenta in v1 only
	return First(
		d.onePercent("ivaRete", base),
		d.expect("montoTotalOperacion", total),
		d.expect("totalPagar", floored(add(paid, sum.number("totalNoGravado")))),
	)
}
