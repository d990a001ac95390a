package simulator_test

import (
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

// noteFor returns a note of a type, 05 or 06 with a suffix, for an amount of a document; it leaves out the sample's
// withholding.
func noteFor(t testing.TB, name string, n_ int, amount string, kind, origin string) *tree {
	t.Helper()
	d := sample(t, name, n_)
	vat, _ := new(big.Rat).SetString(amount)
	gross := new(big.Rat).Mul(vat, big.NewRat(113, 100)).FloatString(2)
	tax := vat.Mul(vat, big.NewRat(13, 100)).FloatString(2)
	d.set("documentoRelacionado.0.tipoDocumento", kind).set("documentoRelacionado.0.numeroDocumento", origin)
	for path, v := range map[string]string{
		"cuerpoDocumento.0.precioUni": amount, "cuerpoDocumento.0.ventaGravada": amount, "resumen.totalGravada": amount,
		"resumen.subTotalVentas": amount, "resumen.tributos.0.valor": tax, "resumen.montoTotalOperacion": gross,
	} {
		d.set(path, n(v))
	}
	d.set("cuerpoDocumento.0.cantidad", 1).set("cuerpoDocumento.0.numeroDocumento", origin)
	if strings.Contains(name, "-") {
		return d.set("resumen.subTotal", n(amount)).set("resumen.ivaRete1", n("0"))
	}
	return d.set("resumen.totalPagar", n(gross)).set("resumen.ivaRete", n("0")).set("cuerpoDocumento.0.ivaRete", n("0"))
}

const tooMuch = "] MONTO ES MAYOR AL DOCUMENTO RELACIONADO"

// The creditable amount is the original's, plus debit notes and minus credit notes; an invalidated note no longer
// counts.
func TestNote_WithinItsOriginal(t *testing.T) {
	for _, generation := range []string{"", "-v3"} {
		t.Run("03"+generation, func(t *testing.T) {
			b := open(t)
			original := code("03", 1)
			b.accepted(sample(t, "03"+generation, 1)) // 110.00 taxed
			credit := func(n int, amount string) *tree { return noteFor(t, "05"+generation, n, amount, "03", original) }
			b.refused(credit(1, "110.02"), "007", "[resumen.totalGravada"+tooMuch)
			b.accepted(credit(2, "60"))
			b.refused(credit(3, "50.02"), "007", "[resumen.totalGravada"+tooMuch)
			b.accepted(noteFor(t, "06"+generation, 1, "20", "03", original))
			b.refused(credit(4, "70.02"), "007", "[resumen.totalGravada"+tooMuch)
			last := credit(5, "70.01") // a cent is within tolerance
			a := b.accepted(last)
			b.refused(credit(6, "0.02"), "007", "[resumen.totalGravada"+tooMuch)
			b.invalidated(invalidationOf(t, b, 1, "05", code("05", 5), a, last))
			b.accepted(credit(7, "70"))
		})
	}
}

// A global discount of the original was never paid: it cannot be credited either.
func TestNote_GlobalDiscount(t *testing.T) {
	b := open(t)
	d := sample(t, "03", 1).set("resumen.descuGravada", n("10")).set("resumen.totalDescu",
		n("14")).set("resumen.subTotal", n("100")).
		set("resumen.tributos.0.valor", n("13")).set("resumen.ivaRete", n("0")).set("resumen.montoTotalOperacion",
		n("113")).
		set("resumen.totalPagar", n("115.5")).set("resumen.pagos.0.montoPago", n("115.5"))
	b.accepted(d)
	b.refused(noteFor(t, "05", 1, "100.02", "03", code("03", 1)), "007", "[resumen.totalGravada"+tooMuch)
	b.accepted(noteFor(t, "05", 2, "100", "03", code("03", 1)))
}

// MH allows no notes on invoices; the product's API does, therefore lax_origins admits them. The invoice's prices
// include VAT.
func TestNote_AgainstAnInvoice(t *testing.T) {
	b := open(t)
	d := sample(t, "01", 1).set("resumen.descuGravada", n("0")).set("resumen.totalDescu",
		n("0.56")).set("resumen.subTotal", n("16.5")).
		set("resumen.montoTotalOperacion", n("16.5")).set("resumen.totalPagar", n("16.5")).set("resumen.totalIva",
		n("1.5")).set("resumen.pagos.0.montoPago", n("16.5"))
	b.accepted(d)
	consumer := func(d *tree) *tree {
		return d.set("receptor.tipoDocumento", "13").set("receptor.numDocumento", "041234567")
	}
	b.refused(consumer(noteFor(t, "05", 1, "11.5", "01", code("01", 1))), "007", "[documentoRelacionado.tipoDocumento"+
		banned)
	b.chaos(simulator.Chaos{LaxOrigins: true})
	// 13.00 / 1.13 = 11.50
	b.refused(consumer(noteFor(t, "05", 1, "11.53", "01", code("01", 1))), "007", "[resumen.totalGravada"+tooMuch)
	b.accepted(consumer(noteFor(t, "05", 1, "5.5", "01", code("01", 1))))
	// A retorno of the same invoice takes from the same rest: 13.00 - 5.50 × 1.13 = 6.785.
	b.refused(returnOf(t, 1, 2), "007", "[resumen.totalGravada"+tooMuch)
	b.accepted(returnOf(t, 2, 1))
}

// One percent of the sale or nothing, even if the items and the summary agree on another amount.
func TestNote_Withholding(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "03", 1))
	of := func(i int, withheld, paid string) *tree {
		return noteFor(t, "05", i, "50", "03", code("03", 1)).set("cuerpoDocumento.0.ivaRete", n(withheld)).
			set("resumen.ivaRete", n(withheld)).set("resumen.totalPagar", n(paid))
	}
	b.refused(of(1, "0.8", "55.7"), "020", "[resumen.ivaRete"+wrong)
	b.accepted(of(2, "0.5", "56"))
	b.accepted(of(3, "0", "56.5"))
}

// A note against a withholding has no sale: its amounts are in ivaRete and totalIva.
func TestNote_AgainstAWithholding(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "07", 1)) // 61.32 withheld
	of := func(i int, amount string) *tree {
		d := noteFor(t, "05", i, "0", "07", code("07", 1)).set("cuerpoDocumento.0.tributos",
			nil).set("resumen.tributos", nil)
		d.set("resumen.montoTotalOperacion", n("0")).set("resumen.totalPagar", n("0")).set("resumen.codigoRetencionMH",
			"22")
		return d.set("cuerpoDocumento.0.ivaRete", n(amount)).set("resumen.ivaRete",
			n(amount)).set("cuerpoDocumento.0.precioUni", n("354.4"))
	}
	b.refused(of(1, "61.34"), "007", "[resumen.ivaRete"+tooMuch)
	b.refused(of(2, "60").set("resumen.codigoRetencionMH", nil), "007", "[resumen.codigoRetencionMH"+banned)
	b.refused(of(3, "60").set("cuerpoDocumento.0.ventaGravada", n("1")), "007", "[cuerpoDocumento.ventaGravada"+banned)
	b.accepted(of(4, "60"))
	b.refused(of(5, "1.34"), "007", "[resumen.ivaRete"+tooMuch)
	b.accepted(of(6, "1.32"))
}

func TestNote_ItsOriginal(t *testing.T) {
	b := open(t)
	d := noteFor(t, "05", 1, "10", "03", code("03", 1))
	b.refused(d, "014", "[documentoRelacionado.numeroDocumento] NO EXISTE UN REGISTRO CON ESTE DATO")
	first := sample(t, "03", 1)
	b.refused(parse(t, first.bytes()).set("resumen.totalPagar", n("1")), "020", "[resumen.totalPagar"+wrong)
	// refused is not there
	b.refused(d, "014", "[documentoRelacionado.numeroDocumento] NO EXISTE UN REGISTRO CON ESTE DATO")
	b.accepted(first)
	day := func(date string) *tree { return parse(t, d.bytes()).set("identificacion.fecEmi", date) }
	b.refused(day("2026-12-14"), "007", "[identificacion.fecEmi"+banned) // before its original
	// Three months, and not a day more.
	b.clock.set(time.Date(2027, 3, 16, 18, 0, 0, 0, time.UTC))
	b.login(nit)
	b.refused(day("2027-03-16"), "007", "[identificacion.fecEmi"+banned)
	b.accepted(day("2027-03-15"))
	// An invalidated document allows no note.
	b.clock.set(noon)
	b.login(nit)
	other := sample(t, "03", 2)
	a := b.accepted(other)
	b.invalidated(invalidationOf(t, b, 1, "03", code("03", 2), a, other))
	b.refused(noteFor(t, "05", 2, "10", "03", code("03", 2)), "007", "[documentoRelacionado.numeroDocumento"+banned)
	// MH does not look up a paper document.
	b.accepted(noteFor(t, "05", 3, "1000", "03", "A-123").set("documentoRelacionado.0.tipoGeneracion", 1))
}

// returnOf returns some of the three units of the sample invoice 1.
func returnOf(t testing.TB, i, units int) *tree {
	t.Helper()
	amount := new(big.Rat).Mul(big.NewRat(433, 100), big.NewRat(int64(units), 1)).FloatString(2)
	vat := new(big.Rat).Mul(big.NewRat(433*13, 113*100), big.NewRat(int64(units), 1))
	d := sample(t, "18", i).set("cuerpoDocumento.0.cantidad", units)
	d.set("cuerpoDocumento.0.montoDescu", n(new(big.Rat).Mul(big.NewRat(19, 100), big.NewRat(int64(units),
		1)).FloatString(2)))
	d.set("cuerpoDocumento.0.ventaGravada", n(amount)).set("cuerpoDocumento.0.ivaItem", n(vat.FloatString(8)))
	for _, field := range []string{"totalGravada", "subTotalVentas", "montoTotalOperacion", "totalPagar"} {
		d.set("resumen."+field, n(amount))
	}
	return d.set("resumen.totalIva", n(vat.FloatString(2)))
}

func TestReturn_WithinItsOrigin(t *testing.T) {
	b := open(t)
	b.refused(returnOf(t, 1, 1), "014", "[documentoRelacionado.codigoGeneracion] NO EXISTE UN REGISTRO CON ESTE DATO")
	// Without the global discount of the sample, all three units can go back.
	b.accepted(sample(t, "01", 1).set("resumen.descuGravada", n("0")).set("resumen.totalDescu",
		n("0.56")).set("resumen.subTotal", n("16.5")).
		set("resumen.montoTotalOperacion", n("16.5")).set("resumen.totalPagar", n("16.5")).set("resumen.totalIva",
		n("1.5")).set("resumen.pagos.0.montoPago", n("16.5")))
	b.refused(returnOf(t, 2, 4), "007", "[resumen.totalGravada"+tooMuch)
	b.refused(returnOf(t, 2, 1).set("cuerpoDocumento.0.cantidad", 4).set("cuerpoDocumento.0.montoDescu", n("13.75")),
		"007", "[cuerpoDocumento.cantidad"+banned)
	b.accepted(returnOf(t, 3, 2))
	b.refused(returnOf(t, 4, 2), "007", "[resumen.totalGravada"+tooMuch)
	back := returnOf(t, 5, 1)
	a := b.accepted(back)
	b.refused(returnOf(t, 6, 1), "007", "[resumen.totalGravada"+tooMuch)
	// After the retorno is invalidated, its unit can be returned again.
	b.invalidated(invalidationOf(t, b, 1, "18", code("18", 5), a, back))
	b.accepted(returnOf(t, 7, 1))
}

// Three months, or two years for the sales of some activities.
func TestReturn_Window(t *testing.T) {
	for activity, last := range map[string]string{"47521": "2027-03-15", "47721": "2028-12-15"} {
		b := open(t)
		b.accepted(sample(t, "01", 1).set("emisor.codActividad", activity))
		day, err := time.Parse(time.DateOnly, last)
		if err != nil {
			t.Fatal(err)
		}
		b.clock.set(day.Add(42 * time.Hour))
		b.login(nit)
		b.refused(returnOf(t, 1, 1).set("identificacion.fecEmi", day.AddDate(0, 0, 1).Format(time.DateOnly)), "007",
			"[identificacion.fecEmi"+banned)
		b.accepted(returnOf(t, 1, 1).set("identificacion.fecEmi", last))
	}
}

// Several origins of one type, each named once.
func TestReturn_OfSeveral(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "01", 1))
	b.accepted(sample(t, "01", 2))
	b.accepted(sample(t, "14", 3).set("receptor.nombre", "Marta Elena Rivas"))
	of := func(i int, kind, second string) *tree {
		d := returnOf(t, i, 1)
		both := returnOf(t, i, 2)
		d.set("resumen", both.get("resumen"))
		line, rel := returnOf(t, i, 1).get("cuerpoDocumento.0"), returnOf(t, i, 1).get("documentoRelacionado.0")
		line.(map[string]any)["codigoGeneracion"], rel.(map[string]any)["codigoGeneracion"] = second, second
		rel.(map[string]any)["tipoDocumento"] = kind
		line.(map[string]any)["numItem"] = 2
		return d.set("cuerpoDocumento", []any{d.get("cuerpoDocumento.0"), line}).
			set("documentoRelacionado", []any{d.get("documentoRelacionado.0"), rel})
	}
	b.refused(of(1, "01", code("01", 1)), "007", "[documentoRelacionado.codigoGeneracion"+banned)
	b.refused(of(1, "14", code("14", 3)), "007", "[documentoRelacionado.tipoDocumento"+banned)
	b.refused(of(1, "01", code("01", 3)), "014",
		"[documentoRelacionado.codigoGeneracion] NO EXISTE UN REGISTRO CON ESTE DATO")
	b.accepted(of(1, "01", code("01", 2)))
}

func TestReturn_OfAPurchase(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "14", 1)) // 108.00 bought, 3.00 off
	of := func(i int, amount string) *tree {
		d := sample(t, "18", i).set("documentoRelacionado.0.tipoDocumento",
			"14").set("documentoRelacionado.0.codigoGeneracion", code("14", 1)).
			set("documento.nombre", "José Antonio Luna").set("cuerpoDocumento.0.codigoGeneracion", code("14", 1))
		for path, v := range map[string]string{"precioUni": amount, "cantidad": "1", "montoDescu": "0",
			"ventaGravada": "0", "ivaItem": "0", "compra": amount} {
			d.set("cuerpoDocumento.0."+path, n(v))
		}
		for field, v := range map[string]string{"totalGravada": "0", "totalIva": "0", "totalCompraExcluidos": amount,
			"subTotalVentas": amount, "montoTotalOperacion": amount, "totalPagar": amount} {
			d.set("resumen."+field, n(v))
		}
		return d
	}
	b.refused(of(1, "105.02"), "007", "[resumen.totalCompraExcluidos"+tooMuch)
	b.refused(of(1, "50").set("cuerpoDocumento.0.ventaExenta", n("1")), "007", "[cuerpoDocumento.ventaExenta"+banned)
	b.accepted(of(2, "100"))
	b.refused(of(3, "5.02"), "007", "[resumen.totalCompraExcluidos"+tooMuch)
	b.accepted(of(4, "5"))
}

// Two tills cannot both take the rest of one document, alone or in lots.
func TestReturn_Concurrently(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "01", 1)) // three units less a global discount: two can go back
	b.accepted(sample(t, "03", 1)) // 110.00
	const tills = 8
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := make(map[string]int)
	for i := range tills {
		for kind, e := range map[string]map[string]any{
			"18": envelope(returnOf(t, 10+i, 1)), "05": envelope(noteFor(t, "05", 10+i, "40", "03", code("03", 1))),
		} {
			wg.Go(func() {
				status, body, err := b.post("/fesv/recepciondte", e)
				if err != nil || status != 200 && !strings.Contains(string(body), tooMuch) {
					t.Errorf("%d %s %v", status, body, err)
				}
				if status == 200 {
					mu.Lock()
					defer mu.Unlock()
					accepted[kind]++
				}
			})
		}
	}
	wg.Wait()
	if got := fmt.Sprint(accepted); got != "map[05:2 18:2]" {
		t.Errorf("accepted %s", got)
	}
	var rest []*tree
	for i := range tills {
		rest = append(rest, noteFor(t, "05", 30+i, "14", "03", code("03", 1)))
	}
	if v := b.done(b.lot(rest...)); len(v.Procesados) != 2 { // of the 30.00 left
		t.Error(v)
	}
}
