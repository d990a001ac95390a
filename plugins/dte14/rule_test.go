package main

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/plugins/plugintest"
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

var generations = []string{"dte14/v1", "dte14/v2"}

// amount is a number of random size, from 1e-8 to 10^digits; often whole cents, as in a shop.
func amount(rng *rand.Rand, digits int) dte.Amount {
	n := 1 + rng.Int64N(9)
	for range rng.IntN(8 + digits) {
		n = n*10 + rng.Int64N(10)
	}
	if rng.IntN(3) == 0 {
		n = max(1, n/sdk.Cent) * sdk.Cent
	}
	return dte.Amount(n)
}

func random(rng *rand.Rand) dte.Value {
	n := 1 + rng.IntN(12)
	if rng.IntN(20) == 0 {
		n = 1 + rng.IntN(2000)
	}
	ties := rng.IntN(4) == 0
	if ties {
		n = 1 + rng.IntN(3)
	}
	var lines []dte.Value
	var total big.Int // at least so many cents
	for i := range n {
		quantity, price := amount(rng, 3), amount(rng, 3)
		if ties { // the total is half a cent (10.005), or the tax is (0.1 of 10.05)
			odd := dte.Amount(2*rng.Int64N(5000) + 1)
			quantity, price = dte.Scale, odd*[]dte.Amount{sdk.Cent / 2, 5 * sdk.Cent}[rng.IntN(2)]
		}
		line := []dte.Member{{Name: "numItem", Value: dte.Int(int64(i + 1))}, {Name: "tipoItem", Value: dte.Int(1 + rng.Int64N(3))},
			{Name: "uniMedida", Value: dte.Int(59)}, {Name: "descripcion", Value: dte.Str("Café \"ñ\"")},
			{Name: "cantidad", Value: dte.Num(quantity)}, {Name: "precioUni", Value: dte.Num(price)}}
		if gross, ok := sdk.Times(int64(quantity), int64(price)); ok && rng.IntN(3) == 0 {
			line = append(line, dte.Member{Name: "montoDescu", Value: dte.Num(dte.Amount(rng.Int64N(gross + 1)))})
		} else {
			total.Add(&total, big.NewInt(gross/sdk.Cent))
		}
		if rng.IntN(3) == 0 {
			line = append(line, dte.Member{Name: "tipoImpuesto", Value: dte.Str([]string{"GRAVADO", "SUJETO_EXCLUIDO"}[rng.IntN(2)])})
		}
		lines = append(lines, dte.Obj(line...))
	}
	facts := plugintest.BaseFacts("14").With("cuerpoDocumento", dte.Arr(lines...)).With("applyrent", dte.Bool(rng.IntN(2) == 0))
	if most := total.Int64(); most > 0 && rng.IntN(3) == 0 {
		facts = facts.With("descuentoGlobal", dte.Obj(dte.Member{Name: "compra", Value: dte.Num(dte.Amount(rng.Int64N(most+1) * sdk.Cent))}))
	}
	if rng.IntN(2) == 0 { // one payment, whose amount the rule gives
		facts = plugintest.Merge(facts, dte.Obj(dte.Member{Name: "resumen", Value: dte.Obj(dte.Member{Name: "pagos",
			Value: dte.Arr(dte.Obj(dte.Member{Name: "codigo", Value: dte.Str("01")}))})}))
	}
	return facts
}

// exact recomputes a document by fractions; it shares nothing with the rule.
func exact(t *testing.T, doc *plugintest.Document) {
	number := func(v dte.Value) *big.Rat {
		a, _ := v.Amount() // absent is zero
		return big.NewRat(int64(a), dte.Scale)
	}
	round := func(r *big.Rat, places int64) *big.Rat {
		scaled := new(big.Rat).Add(new(big.Rat).Mul(r, big.NewRat(places, 1)), big.NewRat(1, 2))
		return new(big.Rat).SetFrac(new(big.Int).Quo(scaled.Num(), scaled.Denom()), big.NewInt(places))
	}
	total, descu := new(big.Rat), new(big.Rat)
	lines := doc.Facts.Get("cuerpoDocumento")
	for i := range lines.Len() {
		x := lines.Index(i)
		gross := round(new(big.Rat).Mul(number(x.Get("cantidad")), number(x.Get("precioUni"))), dte.Scale)
		bought := gross.Sub(gross, number(x.Get("montoDescu")))
		if got := number(doc.Filled.Get("cuerpoDocumento").Index(i).Get("compra")); got.Cmp(bought) != 0 {
			t.Errorf("line %d: compra is %s, want %s", i, got.FloatString(8), bought.FloatString(8))
		}
		total.Add(total, bought)
		descu.Add(descu, number(x.Get("montoDescu")))
	}
	total = round(total, 100)
	global := number(doc.Facts.Get("descuentoGlobal").Get("compra"))
	sub := new(big.Rat).Sub(total, global)
	renta := new(big.Rat)
	if doc.Facts.Get("applyrent").Bool() {
		renta = round(new(big.Rat).Mul(sub, big.NewRat(1, 10)), 100)
	}
	pay := new(big.Rat).Sub(sub, renta)
	summary := doc.Filled.Get("resumen")
	for name, want := range map[string]*big.Rat{"totalCompra": total, "descu": global, "totalDescu": round(descu.Add(descu, global), 100),
		"subTotal": sub, "reteRenta": renta, "totalPagar": pay} {
		if got := number(summary.Get(name)); got.Cmp(want) != 0 {
			t.Errorf("%s is %s, want %s", name, got.FloatString(8), want.FloatString(8))
		}
	}
	if p := summary.Get("pagos"); p.Len() > 0 && number(p.Index(0).Get("montoPago")).Cmp(pay) != 0 {
		t.Errorf("the payment is %s", p.Index(0).Get("montoPago").Text())
	}
}

func TestRule_Agrees(t *testing.T) {
	for _, name := range generations {
		t.Run(name, func(t *testing.T) { plugintest.AgreeOn(t, name, description, evaluate, random, exact) })
	}
}

// One at 10.005 is 10.01, and a tenth of 10.05 is 1.01: half a cent is rounded up (MF2 p.52).
func TestRule_HalfACent(t *testing.T) {
	for price, want := range map[int64][3]int64{10_005: {10_010, 1_000, 9_010}, 10_050: {10_050, 1_010, 9_040}, 10_004: {10_000, 1_000, 9_000}} {
		var out abi.Output
		evaluate(&abi.Input{Params: []int64{10_000_000}, Scalars: []int64{1, abi.Absent, abi.Absent}, Lines: []int64{sdk.One, price * sdk.One / 1000, abi.Absent, 0}, N: 1}, &out)
		if len(out.Faults) > 0 {
			t.Fatalf("%d thousandths: %v", price, out.Faults)
		}
		for i, name := range []string{"totalCompra", "reteRenta", "totalPagar"} {
			if got := plugintest.Amount(t, description, &out, name); got != want[i]*sdk.One/1000 {
				t.Errorf("of %d thousandths %s is %d thousandths, want %d", price, name, got*1000/sdk.One, want[i])
			}
		}
	}
}

func TestSchema_Agrees(t *testing.T) {
	t.Run("v1", func(t *testing.T) {
		plugintest.SchemaAgrees(t, "dte14/v1", "prev-generation/fe-fse-v1.json", "14/prev_v1_*.json")
	})
	t.Run("v2", func(t *testing.T) { plugintest.SchemaAgrees(t, "dte14/v2", "v2/fe-fse-v2.json", "14/v2_*.json") })
}

// Every example comes back whole from its lines and flags. The sealed ones spell totalLetras each in its own way, which
// MH does not check.
func TestExamples(t *testing.T) {
	for i, pattern := range []string{"14/prev_v1_*.json", "14/v2_*.json"} {
		r, filler := plugintest.Load(t, generations[i], "compiler")
		for name, doc := range plugintest.Examples(t, pattern) {
			facts := plugintest.FactsOf(t, r.Bundle.Parts["overlay.json"], doc)
			renta, _ := doc.Get("resumen").Get("reteRenta").Amount()
			facts = facts.With("applyrent", dte.Bool(renta > 0)).
				With("descuentoGlobal", dte.Obj(dte.Member{Name: "compra", Value: doc.Get("resumen").Get("descu")}))
			in := plugintest.InputOf(t, description, r.Params, facts)
			var out abi.Output
			evaluate(&in, &out)
			got := plugintest.Read(t, plugintest.Fill(t, filler, facts, description, &in, &out))
			for _, d := range plugintest.Differences(got, doc, "") {
				if i > 0 || !strings.HasPrefix(d, ".resumen.totalLetras: ") {
					t.Errorf("%s: %s", name, d)
				}
			}
		}
	}
}

func TestRule_Refuses(t *testing.T) {
	const none = abi.Absent
	type lines = []int64
	for name, c := range map[string]struct {
		scalars, lines []int64
		want           abi.Fault
	}{
		"quantity zero":         {lines{0, none, none}, lines{0, sdk.One, none, 0}, abi.Fault{Code: sdk.FaultQuantity, Line: 0, Column: sdk.ColCantidad}},
		"price negative":        {lines{0, none, none}, lines{sdk.One, -1, none, 0}, abi.Fault{Code: sdk.FaultPrice, Line: 0, Column: sdk.ColPrecio}},
		"discount above line":   {lines{0, none, none}, lines{sdk.One, sdk.One, sdk.One + 1, 0}, abi.Fault{Code: sdk.FaultDiscount, Line: 0, Column: sdk.ColDescuento}},
		"discount negative":     {lines{0, none, none}, lines{sdk.One, sdk.One, -1, 0}, abi.Fault{Code: sdk.FaultDiscount, Line: 0, Column: sdk.ColDescuento}},
		"line overflows":        {lines{0, none, none}, lines{2 * sdk.One, sdk.Max, none, 0}, abi.Fault{Code: sdk.FaultOverflow, Line: 0, Column: sdk.ColPrecio}},
		"sum overflows":         {lines{0, none, none}, lines{sdk.One, sdk.Max, none, 0, sdk.One, 1, none, 0}, abi.Fault{Code: sdk.FaultOverflow, Line: 1, Column: -1}},
		"global above total":    {lines{0, sdk.One + sdk.Cent, none}, lines{sdk.One, sdk.One, none, 0}, abi.Fault{Code: faultGlobalDiscount, Line: -1, Column: scaDescu}},
		"global negative":       {lines{0, -sdk.Cent, none}, lines{sdk.One, sdk.One, none, 0}, abi.Fault{Code: faultGlobalDiscount, Line: -1, Column: scaDescu}},
		"global below a cent":   {lines{0, 1, none}, lines{sdk.One, sdk.One, none, 0}, abi.Fault{Code: faultCents, Line: -1, Column: scaDescu}},
		"payments gross":        {lines{1, none, sdk.One}, lines{sdk.One, sdk.One, none, 0}, abi.Fault{Code: faultPayments, Line: -1, Column: scaPagos}},
		"payments a cent short": {lines{0, none, sdk.One - sdk.Cent}, lines{sdk.One, sdk.One, none, 0}, abi.Fault{Code: faultPayments, Line: -1, Column: scaPagos}},
	} {
		var out abi.Output
		evaluate(&abi.Input{Params: []int64{10_000_000}, Scalars: c.scalars, Lines: c.lines, N: len(c.lines) / 4}, &out)
		if len(out.Faults) != 1 || out.Faults[0] != c.want {
			t.Errorf("%s: %v, want %v", name, out.Faults, c.want)
		}
	}
	// The same code means the same thing on every type.
	for _, f := range description.Faults {
		for _, s := range sdk.SaleFaults() {
			if s.Code == f.Code && s.Message != f.Message {
				t.Errorf("%s: %q is not the sale's text", f.Code, f.Message)
			}
		}
	}
}

func TestSchema_Refuses(t *testing.T) {
	facts := random(rand.New(rand.NewPCG(1, 1)))
	for _, name := range generations {
		_, filler := plugintest.Load(t, name, "compiler")
		plugintest.Refusals(t, filler, facts, map[string]string{
			`{"receptor":{"numDocumento":"01234567-8"}}`:      "receptor.numDocumento",
			`{"receptor":{"nombre":null}}`:                    "receptor.nombre",
			`{"receptor":{"direccion":{"municipio":"99"}}}`:   "receptor.direccion.municipio",
			`{"cuerpoDocumento":[{"tipoItem":4}]}`:            "cuerpoDocumento[0].tipoItem",
			`{"resumen":{"condicionOperacion":4}}`:            "resumen.condicionOperacion",
			`{"identificacion":{"motivoContin":"por gusto"}}`: "identificacion.motivoContin",
			`{"resumen":{"condicionOperacion":2,"pagos":[{"codigo":"01","montoPago":1,"plazo":null,"periodo":null}]}}`: "resumen.pagos[0].plazo",
		})
	}
}
