package document

import (
	"math/big"
	"slices"
)

// withholding checks a 07: VAT that a buyer withheld. The documents that it lists belong to suppliers and are not
// looked up.
var withholding = []func(*Document) *Refusal{named, retained}

// retained checks every line and the totals. It ignores totalIva, which only informs: documents with 0.00 were sealed.
func retained(d *Document) *Refusal {
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		n, code := i+1, it.Text("codigoRetencionMH")
		if kind := it.Text("tipoDte"); kind != "" && !slices.Contains(DocumentTypes, kind) {
			return NotAllowed("cuerpoDocumento.tipoDte", item(n, "tipoDte"))
		}
		generated, number := "tipoGeneracion", "numeroDocumento"
		if d.Previous {
			generated, number = "tipoDoc", "numDocumento"
		}
		switch generation := it.Integer(generated); {
		case it.Null(generated):
		case generation != Physical && generation != electronic:
			return NotAllowed("cuerpoDocumento."+generated, item(n, generated))
		case generation == electronic && !codeForm.MatchString(it.Text(number)):
			return Misshapen("cuerpoDocumento." + number)
		}
		if !d.law.lists("CAT-006", withholdings, code) {
			return NotAllowed("cuerpoDocumento.codigoRetencionMH", item(n, "codigoRetencionMH"))
		}
		rate, fixed := map[string]*big.Rat{"22": d.law.Withheld, "C4": d.law.VAT}[code] // CAT-006; C9 has no fixed rate
		if !fixed {
			continue
		}
		want := rounded(new(big.Rat).Mul(it.number("montoSujetoGrav"), rate), 2)
		if !near(want, it.number("ivaRetenido")) {
			return miscalculated("cuerpoDocumento.ivaRetenido",
				item(n, "ivaRetenido CALCULO INCORRECTO, se esperaba "+want.FloatString(2)))
		}
	}
	return First(
		d.expect("totalSujetoRetencion", d.sums("montoSujetoGrav")),
		d.expect("totalIvaRetenido", d.sums("ivaRetenido")),
		d.expect("totalIVAretenido", d.sums("ivaRetenido")),
	)
}
