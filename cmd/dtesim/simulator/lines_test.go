package simulator_test

import "testing"

// A line that is a tax (MF2 pp.33-34): its amount is taxed and stands alone.
func TestReception_TaxLine(t *testing.T) {
	b := open(t)
	levy := func(i int) *tree { // line 2 of the sample, 15.00, as a tax
		return sample(t, "03", i).set("cuerpoDocumento.1.tipoItem", 4).set("cuerpoDocumento.1.codTributo", "57").
			set("cuerpoDocumento.1.uniMedida", 99).set("cuerpoDocumento.1.cantidad",
			1).set("cuerpoDocumento.1.precioUni", n("15"))
	}
	b.accepted(levy(1))
	for i, c := range []struct {
		path        string
		value       any
		code, field string
	}{
		{"montoDescu", n("1"), "007", "montoDescu"},
		{"psv", n("1"), "007", "psv"},
		{"noGravado", n("1"), "007", "noGravado"},
		{"ventaExenta", n("15"), "007", "ventaExenta"},
		{"cantidad", n("2"), "007", "cantidad"},
		{"cantidad", n("0.5"), "007", "cantidad"},
		{"uniMedida", 59, "007", "uniMedida"},
		{"codTributo", "D4", "007", "codTributo"},
		{"tributos", []any{"20", "59"}, "007", "tributos"},
	} {
		b.refused(levy(10+i).set("cuerpoDocumento.1."+c.path, c.value), c.code, "[cuerpoDocumento."+c.field+banned)
	}
}

// A note goes to the taxpayer of its original (MF2 p.31), whatever kind of document identifies it, unless a merger
// explains the difference.
func TestNote_ToAnotherTaxpayer(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "03", 1))
	b.accepted(noteFor(t, "05", 1, "1", "03", code("03", 1)))
	other := func(i int) *tree {
		return noteFor(t, "05", i, "1", "03", code("03", 1)).set("receptor.numDocumento", "06142501881099")
	}
	b.refused(other(2), "007", "[receptor.numDocumento"+banned)
	b.accepted(other(3).set("identificacion.fusion", "06142501881024"))
	b.refused(noteFor(t, "05-v3", 4, "1", "03", code("03", 1)).set("receptor.nit", "06142501881099"), "007",
		"[receptor.nit"+banned)
}

// The documents that one document names are of one type (MF2 p.37).
func TestNote_OfTwoTypes(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "03", 1))
	d := noteFor(t, "05", 1, "1", "03", code("03", 1))
	related := d.get("documentoRelacionado").([]any)
	second := map[string]any{"tipoDocumento": "07", "tipoGeneracion": 1, "numeroDocumento": "A1",
		"fechaEmision": "2026-12-01"}
	b.refused(d.set("documentoRelacionado", append(related, second)), "007", "[documentoRelacionado.tipoDocumento"+
		banned)
}

// A retorno repeats its origin's issuer (MF2 p.8) and receiver (p.28).
func TestReturn_RepeatsItsOrigin(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "01", 1).set("resumen.descuGravada", n("0")).set("resumen.totalDescu",
		n("0.56")).set("resumen.subTotal", n("16.5")).
		set("resumen.montoTotalOperacion", n("16.5")).set("resumen.totalPagar", n("16.5")).set("resumen.totalIva",
		n("1.5")).set("resumen.pagos.0.montoPago", n("16.5")))
	for i, path := range []string{"emisor.nombre", "documento.nombre"} {
		b.refused(returnOf(t, i+1, 1).set(path, "Otro nombre"), "007", "["+path+banned)
	}
	b.refused(returnOf(t, 3, 1).set("emisor.codPuntoVentaMH", "P009"), "007", "[emisor.codPuntoVentaMH"+banned)
	b.refused(returnOf(t, 4, 1).set("documento.tipoDocumento", "37"), "007", "[documento.tipoDocumento"+banned)
	b.refused(returnOf(t, 5, 1).set("ventaTercero", map[string]any{"nit": "06142501881024", "nombre": "Mandante",
		"codDomiciliado": 1}), "007", "[ventaTercero.nit"+banned)
	b.accepted(returnOf(t, 6, 1))
}
