package simulator

import (
	"math/big"
	"slices"
)

// withholding checks a 07: VAT that a buyer kept back. The documents that it lists are its suppliers' own and are not
// looked up.
var withholding = []func(*registry, *document) *refusal{named, retained}

// retained checks every line and the totals. totalIva only informs, and 0.00 was sealed: it is not compared.
func retained(_ *registry, d *document) *refusal {
	for i, it := range d.root.objects("cuerpoDocumento") {
		n, code := i+1, it.text("codigoRetencionMH")
		if kind := it.text("tipoDte"); kind != "" && !slices.Contains(documentTypes, kind) {
			return notAllowed("cuerpoDocumento.tipoDte", item(n, "tipoDte"))
		}
		switch generation := it.integer("tipoGeneracion"); {
		case it.null("tipoGeneracion"):
		case generation != physical && generation != electronic:
			return notAllowed("cuerpoDocumento.tipoGeneracion", item(n, "tipoGeneracion"))
		case generation == electronic && !codeForm.MatchString(it.text("numeroDocumento")):
			return misshapen("cuerpoDocumento.numeroDocumento")
		}
		if !d.law.lists("CAT-006", withholdings, code) {
			return notAllowed("cuerpoDocumento.codigoRetencionMH", item(n, "codigoRetencionMH"))
		}
		rate, fixed := map[string]*big.Rat{"22": d.law.Withheld, "C4": d.law.VAT}[code] // CAT-006; C9 has none
		if !fixed {
			continue
		}
		want := rounded(new(big.Rat).Mul(it.number("montoSujetoGrav"), rate), 2)
		if !near(want, it.number("ivaRetenido")) {
			return miscalculated("cuerpoDocumento.ivaRetenido",
				item(n, "ivaRetenido CALCULO INCORRECTO, se esperaba "+want.FloatString(2)))
		}
	}
	return first(
		d.expect("totalSujetoRetencion", d.sums("montoSujetoGrav")),
		d.expect("totalIvaRetenido", d.sums("ivaRetenido")),
	)
}
