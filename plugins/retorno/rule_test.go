package main

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/plugins/plugintest"
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Every line gives back its share by exact fractions, to the rounding of its eighth decimal; what the schema and an
// independent arithmetic say of the whole, plugintest asks.
func TestRule_Agrees(t *testing.T) {
	random := func(rng *rand.Rand) dte.Value {
		o := randomOriginal(rng)
		for range rng.IntN(3) {
			if o.left() {
				o.take(t, o.some(rng))
			}
		}
		if !o.left() {
			o = randomOriginal(rng)
		}
		return o.give(o.some(rng))
	}
	plugintest.AgreeOn(t, "retorno/v1", description, evaluate, random, func(t *testing.T, doc *plugintest.Document) {
		for i := range doc.In.N {
			var got dte.Amount
			for k := range kinds {
				got += dte.Amount(doc.Out.Lines[i*len(description.LineOutputs)+outMonto+k])
			}
			want := exact(doc, i)
			off := new(big.Rat).Sub(rat(got), want)
			if off.Abs(off).Cmp(big.NewRat(3, dte.Scale)) > 0 {
				t.Errorf("line %d gives back %v, want %s", i, got, want.FloatString(9))
			}
		}
	})
}

// However a document comes back, its returns sum to what it was: the lines to the last decimal, what was withheld and the VAT to
// the cent, the totals within MH's cent; and never, on the way, to more. One event may round only a cent in all (MF2
// p.54), so that one of several kinds in it can keep a second cent.
func TestRule_ReturnsSumToTheOrigin(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 18))
	for range 3000 {
		o := randomOriginal(rng)
		var totals [kinds]dte.Amount
		var rete, renta, lineRete, noGravado, iva dte.Amount
		events := 0
		for o.left() {
			quantities := o.some(rng)
			if events++; events > 20 {
				for i, x := range o.lines {
					quantities[i] = x.quantity - x.back
				}
				quantities = o.deposits(quantities)
			}
			in, out := o.take(t, quantities)
			get := func(name string) dte.Amount { return dte.Amount(plugintest.Amount(t, description, &out, name)) }
			for k, name := range []string{"totalNoSuj", "totalExenta", "totalGravada", "totalCompraExcluidos"} {
				totals[k] += get(name)
				if totals[k] > o.total[k]-o.descu[k]+2*cent {
					t.Fatalf("%s: %v came back of %v\n%+v", name, totals[k], o.total[k]-o.descu[k], o)
				}
			}
			rete, renta, noGravado = rete+get("ivaRete"), renta+get("reteRenta"), noGravado+get("totalNoGravado")
			iva += get("totalIva")
			items := dte.Amount(0)
			for i := range in.N {
				items += dte.Amount(out.Lines[i*len(description.LineOutputs)+outIva])
			}
			if off := get("totalIva") - items; iva > o.iva || off > cent || off < -cent {
				t.Fatalf("%v of VAT came back of %v, in this event %v for items of %v\n%+v", iva, o.iva, get("totalIva"), items, o)
			}
			for i := range in.N {
				row := out.Lines[i*len(description.LineOutputs):]
				if row[outMonto+gravada] < 0 || row[outIvaRete] < 0 || row[outRenta] < 0 || row[outDescuento] < 0 {
					t.Fatalf("line %d gives back less than nothing: %v\n%+v", i, row[:len(description.LineOutputs)], o)
				}
				lineRete += dte.Amount(row[outIvaRete])
			}
		}
		withheld := func(asked bool, base dte.Amount, num, den int64) dte.Amount {
			if !asked {
				return 0
			}
			x := new(big.Rat).Mul(rat(base), big.NewRat(num*100, den))
			x.Add(x, big.NewRat(1, 2))
			return dte.Amount(new(big.Int).Quo(x.Num(), x.Denom()).Int64() * cent)
		}
		if want := withheld(o.retain, o.total[gravada]-o.descu[gravada], 1, 113); rete != want || lineRete != want {
			t.Fatalf("%v of retained VAT came back, and %v on lines, of %v\n%+v", rete, lineRete, want, o)
		}
		if want := withheld(o.renta, o.total[compra]-o.descu[compra], 1, 10); renta != want {
			t.Fatalf("%v of income tax came back of %v\n%+v", renta, want, o)
		}
		if iva != o.iva {
			t.Fatalf("%v of VAT came back of %v\n%+v", iva, o.iva, o)
		}
		for k := range kinds {
			if off := totals[k] - (o.total[k] - o.descu[k]); off > 2*cent || off < -2*cent {
				t.Fatalf("kind %d: %v came back of %v\n%+v", k, totals[k], o.total[k]-o.descu[k], o)
			}
			if off := o.returned[k] - (o.total[k] - o.descu[k]); off > cent/2 || off < -cent/2 {
				t.Fatalf("kind %d: the lines are %v of %v\n%+v", k, o.returned[k], o.total[k]-o.descu[k], o)
			}
		}
		var deposits dte.Amount
		for _, x := range o.lines {
			if x.back > 0 {
				deposits += x.noGravado
			}
		}
		if noGravado != deposits {
			t.Fatalf("%v of deposits came back of %v\n%+v", noGravado, deposits, o)
		}
	}
}

// The last line of a purchase bears the cents to which the tax before it was rounded. MH lets a line withhold a cent more
// than a tenth of its amount, and no more.
func TestRule_LastLine(t *testing.T) {
	const half = dte.Scale / 2
	o := &original{tipo: "14", renta: true, lines: []sold{
		{kind: compra, quantity: half, price: 1958 * cent, amount: 979 * cent},
		{kind: compra, quantity: half, price: 2398 * cent, descu: 120 * cent, amount: 1079 * cent, above: 979 * cent},
		{kind: compra, quantity: 11 * dte.Scale / 4, price: 2041 * cent, amount: 561275 * cent / 100, above: 2058 * cent},
	}}
	o.total[compra], o.descu[compra] = 7671*cent, 86*cent
	_, out := o.take(t, []dte.Amount{0, 0, 11 * dte.Scale / 4})
	line, total := out.Lines[outRenta], plugintest.Amount(t, description, &out, "reteRenta")
	if line != 555*cent || total != 556*cent {
		t.Errorf("the line withholds %v, the event %v", dte.Amount(line), dte.Amount(total))
	}
}

func TestSchema_Agrees(t *testing.T) {
	plugintest.SchemaAgrees(t, "retorno/v1", "v1/fe-eret-v1.json", "18/v1_*.json")
}

func TestSchema_Refuses(t *testing.T) {
	_, filler := plugintest.Load(t, "retorno/v1", "compiler")
	o := randomOriginal(rand.New(rand.NewPCG(1, 1)))
	facts := o.give(o.some(rand.New(rand.NewPCG(1, 1))))
	plugintest.Refusals(t, filler, facts, map[string]string{
		`{"documentoRelacionado":[{"tipoDocumento":"03"}]}`:                                                "documentoRelacionado[0].tipoDocumento",
		`{"documentoRelacionado":[{"codigoGeneracion":"5e5c2c40-3f78-4496-9471-4d64244f2477"}]}`:           "documentoRelacionado[0].codigoGeneracion",
		`{"documentoRelacionado":[{"fechaEmision":"2026-02-30"}]}`:                                         "documentoRelacionado[0].fechaEmision",
		`{"cuerpoDocumento":[{"codigoGeneracion":"5E5C2C40"}]}`:                                            "cuerpoDocumento[0].codigoGeneracion",
		`{"cuerpoDocumento":[{"tipoItem":5}]}`:                                                             "cuerpoDocumento[0].tipoItem",
		`{"cuerpoDocumento":[{"uniMedida":98}]}`:                                                           "cuerpoDocumento[0].uniMedida",
		`{"receptor":{"tipoDocumento":"99"}}`:                                                              "receptor.tipoDocumento",
		`{"identificacion":{"tipoContingencia":5}}`:                                                        "identificacion.tipoContingencia",
		`{"emisor":{"codEstable":"M1"}}`:                                                                   "emisor.codEstable",
		`{"apendice":[{"campo":"motivo","etiqueta":"Motivo","valor":"` + strings.Repeat("x", 151) + `"}]}`: "apendice[0].valor",
	})
}

func TestRule_Refuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var o *original
	for o == nil || o.tipo != "01" || o.total[gravada] == 0 || o.lines[0].amount == 0 {
		o = randomOriginal(rng)
	}
	whole := make([]dte.Amount, len(o.lines))
	for i, x := range o.lines {
		whole[i] = x.quantity
	}
	whole = o.deposits(whole)
	good := plugintest.InputOf(t, description, params, o.give(whole))
	for name, c := range map[string]struct {
		change func(in *abi.Input)
		want   abi.Fault
	}{
		"nothing of a line":            {func(in *abi.Input) { in.Lines[colCantidad] = 0 }, abi.Fault{Code: faultQuantity, Line: 0, Column: colCantidad}},
		"more than was sold":           {func(in *abi.Input) { in.Lines[colCantidad]++ }, abi.Fault{Code: faultOver, Line: 0, Column: colCantidad}},
		"more than is left":            {func(in *abi.Input) { in.Lines[colDevuelta] = 1 }, abi.Fault{Code: faultOver, Line: 0, Column: colCantidad}},
		"returned less than nothing":   {func(in *abi.Input) { in.Lines[colDevuelta] = -1 }, abi.Fault{Code: faultOrigin, Line: 0, Column: colOrigen}},
		"a line of two kinds":          {func(in *abi.Input) { in.Lines[colMonto], in.Lines[colMonto+exenta] = 1, 1 }, abi.Fault{Code: faultOrigin, Line: 0, Column: colOrigen}},
		"a purchase on an invoice":     {func(in *abi.Input) { in.Lines[colMonto+compra] = 1 }, abi.Fault{Code: faultOrigin, Line: 0, Column: colOrigen}},
		"a price that does not add up": {func(in *abi.Input) { in.Lines[colPrecio] += sdk.One }, abi.Fault{Code: faultOrigin, Line: 0, Column: colOrigen}},
		"a discount above its total":   {func(in *abi.Input) { in.Scalars[scaDescu+gravada] = in.Scalars[scaTotal+gravada] + 1 }, abi.Fault{Code: faultOrigin, Line: -1, Column: scaDescu + gravada}},
		"a part of a tax":              {func(in *abi.Input) { in.Lines[colCantidad], in.Lines[colCodTributo] = in.Lines[colCantidad]-1, 1 }, abi.Fault{Code: faultWhole, Line: 0, Column: colCantidad}},
		"a part of a charge":           {func(in *abi.Input) { in.Lines[colCantidad], in.Lines[colNoGravado] = in.Lines[colCantidad]-1, cent }, abi.Fault{Code: faultWhole, Line: 0, Column: colCantidad}},
		"a tax with a discount": {func(in *abi.Input) {
			in.Lines[colCodTributo] = 1
			in.Lines[colDescuento] = 0
			in.Lines[colPrecio], in.Lines[colCantidad], in.Lines[colOrigen] = in.Lines[colMonto+gravada]+in.Lines[colMonto]+in.Lines[colMonto+exenta], sdk.One, sdk.One
			for k := range kinds {
				in.Scalars[scaDescu+k] = in.Scalars[scaTotal+k]
			}
		}, abi.Fault{Code: faultTaxDiscount, Line: 0, Column: colCodTributo}},
		"a charge alone": {func(in *abi.Input) {
			in.N, in.Lines = 1, in.Lines[:len(description.Columns)]
			in.Lines[colCantidad], in.Lines[colOrigen], in.Lines[colPrecio], in.Lines[colDescuento], in.Lines[colMonto+gravada], in.Lines[colNoGravado] = sdk.One, sdk.One, 0, 0, 0, cent
			in.Lines[colMonto], in.Lines[colMonto+exenta] = 0, 0
		}, abi.Fault{Code: faultNothing, Line: -1, Column: -1}},
		"more came back than was paid": {func(in *abi.Input) { in.Scalars[scaDevuelto+gravada] = in.Scalars[scaTotal+gravada] }, abi.Fault{Code: faultOrigin, Line: -1, Column: -1}},
	} {
		in, out := good, abi.Output{}
		in.Lines, in.Scalars = slices.Clone(good.Lines), slices.Clone(good.Scalars)
		c.change(&in)
		if evaluate(&in, &out); len(out.Faults) != 1 || out.Faults[0] != c.want {
			t.Errorf("%s: %+v, want %+v", name, out.Faults, c.want)
		}
	}
	var out abi.Output
	if evaluate(&good, &out); len(out.Faults) > 0 {
		t.Errorf("the return itself is refused: %+v", out.Faults)
	}
}

// The example that gives one of two units back, from the invoice that it names.
func TestExample_OfItsOrigin(t *testing.T) {
	origin := plugintest.Examples(t, "01/v2_anonymous_16_40.json")["v2_anonymous_16_40.json"]
	event := plugintest.Examples(t, "18/v1_return_of_fe_item.json")["v1_return_of_fe_item.json"]
	number := func(v dte.Value, name string) dte.Amount { a, _ := v.Get(name).Amount(); return a }
	line := origin.Get("cuerpoDocumento").Index(0)
	o := &original{tipo: "01", lines: []sold{{kind: gravada, quantity: number(line, "cantidad"), price: number(line, "precioUni"), amount: number(line, "ventaGravada")}}}
	o.total[gravada] = number(origin.Get("resumen"), "totalGravada")
	_, out := o.take(t, []dte.Amount{dte.Scale})
	for i, name := range description.Summary {
		if want := number(event.Get("resumen"), name); dte.Amount(out.Summary[i]) != want {
			t.Errorf("%s is %v, want %v", name, dte.Amount(out.Summary[i]), want)
		}
	}
}
