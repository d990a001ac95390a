package simulator

import (
	"fmt"
	"math/big"
	"slices"
)

// invoice checks a 01 v2: prices include VAT, which is only shown.
var invoice = []func(*Simulator, *document) *refusal{identified, withoutVAT, totals, taxed, included, invoiced}

// identification is the operation, in USD, from which a consumer must be named (CT art. 114 and 119-G b, DGII notice
// of 2024-09-05). FE v2 itself has no threshold.
var identification = big.NewRat(25_000, 1)

// identified checks who the consumer is: kind and number of document come together and in their form.
func identified(_ *Simulator, d *document) *refusal {
	r := d.root.object("receptor")
	kind, number := r.text("tipoDocumento"), r.text("numDocumento")
	if kind == "" && number == "" {
		if d.root.object("resumen").number("montoTotalOperacion").Cmp(identification) >= 0 {
			return lacking("receptor.numDocumento")
		}
		return nil
	}
	switch {
	case kind == "":
		return lacking("receptor.tipoDocumento")
	case number == "":
		return lacking("receptor.numDocumento")
	case !slices.Contains(receiverDocuments, kind):
		return notAllowed("receptor.tipoDocumento")
	}
	switch kind {
	case "36": // NIT, or the DUI that replaced it for persons
		if !digits(number, 9, 14) {
			return misshapen("receptor.numDocumento")
		}
	case "13": // DUI: nine digits, without the hyphen that v1 wanted
		if !digits(number, 9) {
			return misshapen("receptor.numDocumento")
		}
	}
	return nil
}

// withoutVAT refuses 20 and C3 in an invoice, as a matter of the schema (observed: 096).
func withoutVAT(_ *Simulator, d *document) *refusal {
	for i, it := range d.root.objects("cuerpoDocumento") {
		for j, code := range it.texts("tributos") {
			if code == "20" || code == "C3" {
				return unschemed(invalid(fmt.Sprintf("/cuerpoDocumento/%d/tributos/%d", i, j)))
			}
		}
	}
	for i, t := range d.root.object("resumen").objects("tributos") {
		if code := t.text("codigo"); code == "20" || code == "C3" {
			return unschemed(invalid(fmt.Sprintf("/resumen/tributos/%d/codigo", i)))
		}
	}
	return nil
}

// included checks the VAT that the prices contain: 13/113 of each taxed line, not 13 % of it.
func included(_ *Simulator, d *document) *refusal {
	for i, it := range d.root.objects("cuerpoDocumento") {
		if !it.null("codTributo") {
			if !it.null("tributos") {
				return notAllowed("cuerpoDocumento.tributos", item(i+1, "tributos")) // ME: null beside codTributo
			}
			continue // nothing is published about the VAT of a tax
		}
		if want := rounded(times(it.number("ventaGravada"), 13, 113), 8); !near(want, it.number("ivaItem")) {
			return miscalculated("cuerpoDocumento.ivaItem",
				item(i+1, "El iva calculado es diferente, se esperaba "+want.FloatString(8)))
		}
	}
	sum := d.root.object("resumen")
	return d.expect("totalIva", sub(d.sums("ivaItem"), times(sum.number("descuGravada"), 13, 113))) // ME field 89
}

func invoiced(_ *Simulator, d *document) *refusal {
	sum := d.root.object("resumen")
	base := times(sub(sum.number("totalGravada"), sum.number("descuGravada")), 100, 113)
	total := add(sum.number("subTotal"), d.levied())
	return first(
		d.onePercent("ivaRete", base),
		d.expect("montoTotalOperacion", total),
		d.expect("totalPagar", floored(add(sub(total, sum.number("ivaRete")), sum.number("totalNoGravado")))),
	)
}
