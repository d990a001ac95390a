package document

// giveback checks a retorno (18) by itself; the registry looks up the originals.
var giveback = []func(*Document) *Refusal{
	itself, operated, recipient, numbered, checkOneType, originated, itemised, withoutVAT, taxed, returned,
}

// recipient checks who gets the goods or money back. The retorno may name nobody if the original names nobody.
func recipient(d *Document) *Refusal {
	r := d.Root.Object("documento")
	if r.Text("tipoDocumento") == "" && r.Text("numDocumento") == "" {
		return nil
	}
	return d.identity(r, "documento", "tipoDocumento", "numDocumento", false)
}

// originated checks documentoRelacionado: its documents are of one type, 01, 11 or 14 (MF2 pp.26-28). Every item must
// name one of them, and use a column of that type.
func originated(d *Document) *Refusal {
	related := d.Root.Objects("documentoRelacionado")
	codes := make(map[string]bool)
	kind := related[0].Text("tipoDocumento")
	for _, rel := range related {
		switch code := rel.Text("codigoGeneracion"); {
		case rel.Text("tipoDocumento") != kind, kind != "01" && kind != "11" && kind != "14":
			return NotAllowed("documentoRelacionado.tipoDocumento")
		case !codeForm.MatchString(code):
			return Misshapen("documentoRelacionado.codigoGeneracion")
		case codes[code]:
			return NotAllowed("documentoRelacionado.codigoGeneracion")
		default:
			codes[code] = true
		}
	}
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		if !codes[it.Text("codigoGeneracion")] {
			return NotAllowed("cuerpoDocumento.codigoGeneracion",
				item(i+1, "codigoGeneracion no figura en documentoRelacionado"))
		}
		foreign := []string{"compra"}
		if kind == "14" {
			foreign = sales
		}
		for _, column := range foreign {
			if it.number(column).Sign() != 0 {
				return NotAllowed("cuerpoDocumento."+column, item(i+1, column))
			}
		}
	}
	return nil
}

// returned checks the amounts. ivaItem only informs: it is zero, or the VAT that the line includes.
func returned(d *Document) *Refusal {
	for i, it := range d.Root.Objects("cuerpoDocumento") {
		n, taxed := i+1, it.number("ventaGravada")
		if vat := it.number("ivaItem"); vat.Sign() != 0 && !near(vat, product(taxed, d.law.included())) {
			return miscalculated("cuerpoDocumento.ivaItem", item(n, "ivaItem"))
		}
		if most := d.law.net(product(taxed, d.law.Withheld)); it.number("ivaRete").Cmp(add(most, cent)) > 0 {
			return miscalculated("cuerpoDocumento.ivaRete", item(n, "ivaRete"))
		}
		if most := product(it.number("compra"), d.law.Income); it.number("reteRenta").Cmp(add(most, cent)) > 0 {
			return miscalculated("cuerpoDocumento.reteRenta", item(n, "reteRenta"))
		}
	}
	sum := d.Root.Object("resumen")
	if r := First(
		d.expect("totalNoSuj", d.sums("ventaNoSuj")),
		d.expect("totalExenta", d.sums("ventaExenta")),
		d.expect("totalGravada", d.sums("ventaGravada")),
		d.expect("totalCompraExcluidos", d.sums("compra")),
		d.expect("totalSeguro", d.sums("seguro")),
		d.expect("totalFlete", d.sums("flete")),
		d.expect("ivaRete", d.sums("ivaRete")),
		d.expect("reteRenta", d.sums("reteRenta")),
		d.expect("totalNoGravado", d.sums("noGravado")),
		d.expect("totalIva", d.sums("ivaItem")),
	); r != nil {
		return r
	}
	goods := add(sum.number("totalNoSuj"), sum.number("totalExenta"), sum.number("totalGravada"),
		sum.number("totalCompraExcluidos"))
	total := add(sum.number("subTotalVentas"), d.levied(), sum.number("totalSeguro"), sum.number("totalFlete"))
	kept := add(sum.number("ivaRete"), sum.number("reteRenta"))
	return First(
		d.expect("subTotalVentas", goods),
		d.expect("montoTotalOperacion", total),
		d.expect("totalPagar", floored(add(sub(total, kept), sum.number("totalNoGravado")))),
	)
}
