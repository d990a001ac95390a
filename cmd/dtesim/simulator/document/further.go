package document

import (
	"math/big"
	"slices"
)

// This file checks the types that few taxpayers issue: 04, 08, 09, 11 and 15 (MF2 pp.29-52; ME, the field manuals of
// the previous generation: DTE 2.0 kept their arithmetic).

var (
	remission   = []func(*Document) *Refusal{named, totals, taxed, remitted}
	exportation = []func(*Document) *Refusal{named, destined, exported}
	donation    = []func(*Document) *Refusal{named, qualified, donated}
	liquidation = []func(*Document) *Refusal{checkReceiver, settledSales}
	statement   = []func(*Document) *Refusal{checkReceiver, stated}
)

// bears reports whether an item names a tax.
func (it Object) bears(code string) bool { return slices.Contains(it.texts("tributos"), code) }

// remitted checks a 04: every taxed item bears VAT, or the 0 % of an export. Goods that are only remitted are not paid.
func remitted(d *Document) *Refusal {
	// CAT-025
	if title := d.Root.Object("receptor").Text("bienTitulo"); !slices.Contains(words("01 02 03 04 05"), title) {
		return NotAllowed("receptor.bienTitulo")
	}
	if r := d.under("01", "03", "11"); r != nil {
		return r
	}
	abroad := 0
	items, related := d.Root.Objects("cuerpoDocumento"), d.Root.Objects("documentoRelacionado")
	for i, it := range items {
		switch {
		case len(related) > 0 && it.bears("C3") != (related[0].Text("tipoDocumento") == "11") &&
			it.number("ventaGravada").Sign() != 0:
			return NotAllowed("cuerpoDocumento.tributos", item(i+1, "tributos"))
		case it.number("ventaGravada").Sign() == 0 || it.bears("20"):
		case it.bears("C3"):
			abroad++
		default:
			return lacking("cuerpoDocumento.tributos", item(i+1, "tributos"))
		}
	}
	sum := d.Root.Object("resumen")
	base := sub(sum.number("totalGravada"), sum.number("descuGravada"))
	for _, t := range sum.Objects("tributos") {
		want := new(big.Rat)
		switch t.Text("codigo") {
		case "20":
			if want = product(base, d.law.VAT); abroad > 0 {
				return NotAllowed("resumen.tributos.codigo") // one discount cannot apply to both
			}
		case "C3":
		default:
			continue
		}
		if !near(t.number("valor"), rounded(want, 2)) {
			return miscalculated("resumen.tributos.codigo." + t.Text("codigo"))
		}
	}
	return d.expect("montoTotalOperacion", add(sum.number("subTotal"), d.levied()))
}

// preceded checks the remission notes or liquidations that gave rise to a sale.
func preceded(d *Document) *Refusal { return d.under("04", "08", "09") }

// under checks the documents that gave rise to a 01, 03, 04 or 11: all of them have the same type, which is in types,
// and each item names one of these documents (NV2 Anexo IV nos. 14-17; MF2 pp.37-38).
func (d *Document) under(types ...string) *Refusal {
	if d.Previous { // fe-fc-v1, fe-ccf-v3 and fe-nr-v3 list their types
		return nil
	}
	var numbers []string
	for _, rel := range d.Root.Objects("documentoRelacionado") {
		if kind := rel.Text("tipoDocumento"); !slices.Contains(types, kind) {
			return NotAllowed("documentoRelacionado.tipoDocumento")
		}
		types = []string{rel.Text("tipoDocumento")}
		numbers = append(numbers, rel.Text("numeroDocumento"))
	}
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		if named := !it.Null("numeroDocumento"); named != (len(numbers) > 0) || named && !slices.Contains(numbers,
			it.Text("numeroDocumento")) {
			return NotAllowed("cuerpoDocumento.numeroDocumento", item(i+1, "numeroDocumento"))
		}
	}
	return nil
}

// destined checks where the goods of an 11 leave the country. Services have neither customs office, nor regime, nor
// INCOTERM.
func destined(d *Document) *Refusal {
	emisor, sum := d.Root.Object("emisor"), d.Root.Object("resumen")
	kind := emisor.Integer("tipoItemExpor")
	if kind < 1 || kind > 3 || kind == 3 && !d.Previous {
		return NotAllowed("emisor.tipoItemExpor")
	}
	for _, field := range []string{"recintoFiscal", "tipoRegimen", "regimen"} {
		switch {
		case kind == 2 && !emisor.Null(field):
			return NotAllowed("emisor." + field)
		case kind != 2 && !d.Previous && emisor.Null(field):
			return lacking("emisor." + field)
		}
	}
	if r := d.under("04"); r != nil {
		return r
	}
	for _, field := range []string{"codIncoterms", "descIncoterms"} {
		switch {
		case kind == 2 && !sum.Null(field):
			return NotAllowed("resumen." + field)
		case kind != 2 && sum.Null(field):
			return lacking("resumen." + field)
		}
	}
	for _, paper := range d.Root.Objects("otrosDocumentos") {
		carrier := paper.Integer("codDocAsociado") == 4 // CAT-021
		for _, field := range []string{"placaTrans", "modoTransp", "numConductor", "nombreConductor"} {
			if carrier == paper.Null(field) {
				return NotAllowed("otrosDocumentos." + field)
			}
		}
	}
	return nil
}

// exported checks the amounts of an 11: montoTotalOperacion includes insurance and freight (ME field 68, and published
// refusals).
func exported(d *Document) *Refusal {
	sum := d.Root.Object("resumen")
	discount := "descuGravada"
	if d.Previous {
		discount = "descuento"
	}
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		if it.number("ventaGravada").Sign() > 0 && it.Null("codTributo") && !it.bears("C3") {
			return lacking("cuerpoDocumento.tributos", item(i+1, "tributos")) // MF2 p.33: listed although it is 0.00
		}
	}
	if _, has := sum["tributos"]; has {
		if r := taxed(d); r != nil {
			return r
		}
	}
	for _, t := range sum.Objects("tributos") {
		if t.Text("codigo") == "20" || t.Text("codigo") == "C3" && t.number("valor").Sign() != 0 {
			return NotAllowed("resumen.tributos.codigo")
		}
	}
	if r := First(d.expect("totalGravada", d.sums("ventaGravada")), d.expect("totalNoGravado",
		d.sums("noGravado"))); r != nil {
		return r
	}
	if sum.number(discount).Cmp(sum.number("totalGravada")) > 0 {
		return NotAllowed("resumen." + discount)
	}
	total := add(sub(sum.number("totalGravada"), sum.number(discount)), sum.number("seguro"), sum.number("flete"),
		d.levied())
	return First(
		d.expect("totalDescu", add(d.sums("montoDescu"), sum.number(discount))),
		d.expect("montoTotalOperacion", total),
		d.expect("totalPagar", floored(add(total, sum.number("totalNoGravado")))),
	)
}

// qualified checks that a donee names the resolution by which it may receive donations (MF2 p.41).
func qualified(d *Document) *Refusal {
	own := false
	for _, paper := range d.Root.Objects("otrosDocumentos") {
		kind := paper.Integer("codDocAsociado")
		if kind != 1 && kind != 2 {
			return NotAllowed("otrosDocumentos.codDocAsociado")
		}
		own = own || kind == 1
	}
	if !own {
		return lacking("otrosDocumentos.codDocAsociado")
	}
	return nil
}

// donated checks a 15 (MF2 pp.51-52). Only donations of money count as paid.
func donated(d *Document) *Refusal {
	depreciation := "tipoDepreciacion"
	if d.Previous {
		depreciation = "depreciacion"
	}
	money := new(big.Rat)
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		n, kind := i+1, it.Integer("tipoDonacion")
		switch {
		case kind < 1 || kind > 3: // CAT-026: money, goods, services
			return NotAllowed("cuerpoDocumento.tipoDonacion", item(n, "tipoDonacion"))
		case kind != 2 && it.Integer("uniMedida") != otherUnit:
			return NotAllowed("cuerpoDocumento.uniMedida", item(n, "uniMedida"))
		case kind != 2 && it.number(depreciation).Sign() != 0:
			return NotAllowed("cuerpoDocumento."+depreciation, item(n, depreciation))
		case kind == 1 && it.number("cantidad").Cmp(one) != 0:
			return NotAllowed("cuerpoDocumento.cantidad", item(n, "cantidad"))
		}
		want := rounded(sub(product(it.number("valorUni"), it.number("cantidad")), it.number(depreciation)), 8)
		if !near(want, it.number("valor")) {
			return miscalculated("cuerpoDocumento.valor", item(n, "valor CALCULO INCORRECTO, se esperaba "+
				want.FloatString(8)))
		}
		if kind == 1 {
			money.Add(money, it.number("valor"))
		}
	}
	sum, paid := d.Root.Object("resumen"), new(big.Rat)
	for _, p := range sum.Objects("pagos") {
		if !d.law.lists("CAT-017", payments, p.Text("codigo")) {
			return NotAllowed("resumen.pagos.codigo")
		}
		paid.Add(paid, p.number("montoPago"))
	}
	if sum.Null("pagos") != (money.Sign() == 0) { // ME field 54
		return lacking("resumen.pagos")
	}
	if !near(paid, rounded(money, 2)) {
		return miscalculated("resumen.pagos.montoPago")
	}
	return d.expect("valorTotal", d.sums("valor"))
}

// settledSales checks an 08 (MF2 p.43; ME fields 43-60). Invalidated documents have negative amounts; only the totals
// of the kinds of sale may be negative.
func settledSales(d *Document) *Refusal {
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		switch {
		case !slices.Contains(words("01 03 05 06 11 18"), it.Text("tipoDte")):
			return NotAllowed("cuerpoDocumento.tipoDte", item(i+1, "tipoDte"))
		case it.Text("tipoDte") == "11" && it.number("ventaGravada").Sign() != 0,
			it.Text("tipoDte") != "11" && it.Text("tipoDte") != "18" && it.number("exportaciones").Sign() != 0:
			return NotAllowed("cuerpoDocumento.exportaciones", item(i+1, "exportaciones")) // ME fields 45, 46
		case it.Integer("tipoGeneracion") == electronic && !codeForm.MatchString(it.Text("numeroDocumento")):
			return Misshapen("cuerpoDocumento.numeroDocumento")
		case !near(it.number("ivaItem"), rounded(product(it.number("ventaGravada"), d.law.VAT), 8)):
			return miscalculated("cuerpoDocumento.ivaItem", item(i+1, "ivaItem"))
		case it.number("ventaGravada").Sign() != 0 != it.bears("20"),
			it.number("exportaciones").Sign() != 0 != it.bears("C3"):
			return lacking("cuerpoDocumento.tributos", item(i+1, "tributos"))
		}
	}
	sum := d.Root.Object("resumen")
	if r := First(taxed(d), d.expect("totalNoSuj", d.sums("ventaNoSuj")), d.expect("totalExenta",
		d.sums("ventaExenta")),
		d.expect("totalGravada", d.sums("ventaGravada")), d.expect("exportacion", d.sums("exportaciones")),
		d.expect("totalExportacion", d.sums("exportaciones"))); r != nil {
		return r
	}
	for _, t := range sum.Objects("tributos") {
		switch want := floored(rounded(product(sum.number("totalGravada"), d.law.VAT), 2)); {
		case t.number("valor").Sign() < 0, t.Text("codigo") == "C3" && t.number("valor").Sign() != 0,
			t.Text("codigo") == "20" && !near(want, t.number("valor")):
			return miscalculated("resumen.tributos.codigo." + t.Text("codigo"))
		}
	}
	if sum.number("ivaPerci").Sign() < 0 {
		return NotAllowed("resumen.ivaPerci")
	}
	sold := floored(add(sum.number("totalNoSuj"), sum.number("totalExenta"), sum.number("totalGravada"),
		d.sums("exportaciones")))
	return First(
		d.expect("subTotalVentas", sold),
		d.expect("montoTotalOperacion", add(sum.number("subTotalVentas"), d.levied())),
		d.expect("total", add(sum.number("montoTotalOperacion"), sum.number("ivaPerci"))),
	)
}

// perceivedOfCards is the share that an administrator of cards perceives of its payments (CT art. 162-A).
var perceivedOfCards = big.NewRat(2, 100)

// stated checks a 09. Its cuerpoDocumento is one object (ME fields 41-56).
func stated(d *Document) *Refusal {
	body := d.Root.Object("cuerpoDocumento")
	if body.Text("periodoLiquidacionFechaFin") < body.Text("periodoLiquidacionFechaInicio") {
		return NotAllowed("cuerpoDocumento.periodoLiquidacionFechaFin")
	}
	if !slices.Contains(establishments, d.Root.Object("receptor").Text("tipoEstablecimiento")) {
		return NotAllowed("receptor.tipoEstablecimiento")
	}
	gross := sub(body.number("valorOperaciones"), body.number("montoSinPercepcion"))
	for _, field := range []struct {
		name string
		want *big.Rat
	}{
		{"subTotal", gross},
		{"montoSujetoPercepcion", d.law.net(gross)},
		{"iva", product(body.number("montoSujetoPercepcion"), d.law.VAT)},
		{"ivaPercibido", product(body.number("montoSujetoPercepcion"), perceivedOfCards)},
		{"ivaComision", product(body.number("comision"), d.law.VAT)},
		{"liquidoApagar", sub(body.number("valorOperaciones"), body.number("ivaPercibido"), body.number("comision"),
			body.number("ivaComision"))},
	} {
		if !near(rounded(field.want, 2), body.number(field.name)) {
			return miscalculated("cuerpoDocumento." + field.name)
		}
	}
	return nil
}
