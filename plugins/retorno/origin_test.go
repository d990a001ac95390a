package main

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"dtegate/engine/dte"
	"dtegate/plugins/plugintest"
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Amounts that the bundle sets, in 1e-8; the schedule of a natively called rule.
var params = []int64{13_000_000, 1_000_000, 10_000_000, 5_000_000, 700_000_000, 20_000_000, 10_000_000}

const originCode = "5E5C2C40-3F78-4496-9471-4D64244F2477"

// original is a document to give back, made by an arithmetic of its own.
type original struct {
	tipo          string
	lines         []sold
	total, descu  [kinds]dte.Amount // in cents
	iva           dte.Amount        // the VAT that it charged, in cents
	retain, renta bool
	returned      [kinds]dte.Amount
}

type sold struct {
	kind                                             int
	quantity, price, descu, amount, noGravado, above dte.Amount
	fuel                                             bool
	back                                             dte.Amount
}

func randomOriginal(rng *rand.Rand) *original {
	o := &original{tipo: "01", retain: rng.IntN(3) == 0}
	if rng.IntN(3) == 0 {
		o.tipo, o.renta, o.retain = "14", rng.IntN(2) == 0, false
	}
	n := 1 + rng.IntN(6)
	if rng.IntN(20) == 0 {
		n = 1 + rng.IntN(300)
	}
	var sums [kinds]dte.Amount
	for range n {
		x := sold{kind: gravada, quantity: dte.Amount(1+rng.IntN(5)) * dte.Scale, price: dte.Amount(rng.Int64N(9_999)) * cent}
		switch k := rng.IntN(6); {
		case o.tipo == "14":
			x.kind = compra
		case k == 0:
			x.kind = noSuj
		case k == 1:
			x.kind = exenta
		}
		if rng.IntN(2) == 0 { // by weight
			x.quantity, x.price = dte.Amount(1+rng.Int64N(9*dte.Scale)), dte.Amount(rng.Int64N(200*dte.Scale))
			if rng.IntN(3) == 0 { // less than half a cent: a total may be 0
				x.quantity, x.price = dte.Amount(1+rng.Int64N(dte.Scale/100)), dte.Amount(rng.Int64N(dte.Scale))
			}
		}
		x.fuel = x.kind == gravada && rng.IntN(8) == 0
		gross, _ := sdk.Times(int64(x.quantity), int64(x.price))
		if rng.IntN(3) == 0 {
			x.descu = dte.Amount(rng.Int64N(gross + 1))
		}
		x.amount = dte.Amount(gross) - x.descu
		x.above = sums[x.kind]
		sums[x.kind] += x.amount
		o.lines = append(o.lines, x)
	}
	if o.tipo == "01" && rng.IntN(6) == 0 { // a bottle's deposit
		o.lines = append(o.lines, sold{kind: gravada, quantity: dte.Scale, noGravado: dte.Amount(rng.Int64N(2_000)-1_000) * cent, above: sums[gravada]})
	}
	for k := range sums {
		o.total[k] = dte.Amount(sdk.Round2(int64(sums[k])))
		if c := int64(o.total[k]) / cent; c > 0 && rng.IntN(3) == 0 {
			o.descu[k] = dte.Amount(rng.Int64N(c+1) * cent)
		}
	}
	if o.tipo == "01" {
		o.iva = o.charged()
	}
	return o
}

// charged is the VAT that an invoice shows: of each line to 8 decimals, less that of the global discount, half up to cents (ME field 89).
func (o *original) charged() dte.Amount {
	included, sum := big.NewRat(13, 113), new(big.Rat)
	for _, x := range o.lines {
		if x.kind == gravada {
			line := new(big.Rat).Mul(rat(x.amount), included)
			eighth, _ := new(big.Rat).SetString(line.FloatString(8))
			sum.Add(sum, eighth)
		}
	}
	sum.Sub(sum, new(big.Rat).Mul(rat(o.descu[gravada]), included))
	cents, _ := new(big.Rat).SetString(sum.FloatString(2))
	return dte.Amount(new(big.Int).Quo(new(big.Int).Mul(cents.Num(), big.NewInt(dte.Scale)), cents.Denom()).Int64())
}

// give makes the facts that give a quantity of each line back, and counts it; zero leaves a line out.
func (o *original) give(quantities []dte.Amount) dte.Value {
	member := func(name string, a dte.Amount) dte.Member { return dte.Member{Name: name, Value: dte.Num(a)} }
	var lines []dte.Value
	for i, q := range quantities {
		if q == 0 {
			continue
		}
		x := &o.lines[i]
		line := []dte.Member{{Name: "numItem", Value: dte.Int(int64(len(lines) + 1))}, {Name: "codigoGeneracion", Value: dte.Str(originCode)},
			{Name: "tipoItem", Value: dte.Int(1)}, {Name: "uniMedida", Value: dte.Int(59)}, {Name: "descripcion", Value: dte.Str("Artículo")},
			member("cantidad", q), member("cantidadDevuelta", x.back), member("cantidadOrigen", x.quantity), member("precioUni", x.price),
			member("montoDescuOrigen", x.descu), member("noGravadoOrigen", x.noGravado), member("acumuladoOrigen", x.above),
			member([...]string{"ventaNoSujOrigen", "ventaExentaOrigen", "ventaGravadaOrigen", "compraOrigen"}[x.kind], x.amount)}
		if x.fuel {
			line = append(line, dte.Member{Name: "tributos", Value: dte.Arr(dte.Str("D1"), dte.Str("C8"))})
		}
		x.back += q
		lines = append(lines, dte.Obj(line...))
	}
	facts := plugintest.BaseFacts("18").With("cuerpoDocumento", dte.Arr(lines...)).With("isRetenIva", dte.Bool(o.retain)).With("applyrent", dte.Bool(o.renta)).
		With("origen", dte.Obj(dte.Member{Name: "tipoDte", Value: dte.Str(o.tipo)},
			member("totalNoSuj", o.total[noSuj]), member("totalExenta", o.total[exenta]), member("totalGravada", o.total[gravada]), member("totalCompra", o.total[compra]),
			member("descuNoSuj", o.descu[noSuj]), member("descuExenta", o.descu[exenta]), member("descuGravada", o.descu[gravada]), member("descu", o.descu[compra]), member("totalIva", o.iva))).
		With("devuelto", dte.Obj(member("ventaNoSuj", o.returned[noSuj]), member("ventaExenta", o.returned[exenta]),
			member("ventaGravada", o.returned[gravada]), member("compra", o.returned[compra]))).
		With("documentoRelacionado", dte.Arr(dte.Obj(dte.Member{Name: "tipoDocumento", Value: dte.Str(o.tipo)},
			dte.Member{Name: "codigoGeneracion", Value: dte.Str(originCode)}, dte.Member{Name: "fechaEmision", Value: dte.Str("2026-12-01")})))
	return facts
}

// some is a part of what each line has left, of at least one line.
func (o *original) some(rng *rand.Rand) []dte.Amount {
	quantities := make([]dte.Amount, len(o.lines))
	any := false
	for i, x := range o.lines {
		left := x.quantity - x.back
		switch n := rng.IntN(4); {
		case n == 0:
			quantities[i] = left
		case n == 1:
			quantities[i] = dte.Amount(rng.Int64N(int64(left) + 1))
		case n == 2:
			quantities[i] = min(left, dte.Scale)
		}
		any = any || quantities[i] > 0
	}
	if !any {
		for i, x := range o.lines {
			quantities[i] = x.quantity - x.back
		}
	}
	return o.deposits(quantities)
}

// deposits gives back what lies outside the tax base, whole, where something sold comes back beside it, and keeps it
// otherwise (MF2 pp.29-30).
func (o *original) deposits(quantities []dte.Amount) []dte.Amount {
	beside := false
	for i, x := range o.lines {
		beside = beside || x.noGravado == 0 && x.back == 0 && quantities[i] == x.quantity && x.amount > 0 && o.descu[x.kind] < o.total[x.kind]
	}
	for i, x := range o.lines {
		if x.noGravado != 0 {
			quantities[i] = 0
			if beside {
				quantities[i] = x.quantity - x.back
			}
		}
	}
	return quantities
}

func rat(a dte.Amount) *big.Rat { return big.NewRat(int64(a), dte.Scale) }

// exact is what line i gives back: (amount − its part of the global discount) × quantity ÷ the whole, in fractions.
func exact(doc *plugintest.Document, i int) *big.Rat {
	line, origin := doc.Facts.Get("cuerpoDocumento").Index(i), doc.Facts.Get("origen")
	get := func(v dte.Value, name string) *big.Rat { a, _ := v.Get(name).Amount(); return rat(a) }
	for name, of := range map[string][2]string{"ventaNoSujOrigen": {"totalNoSuj", "descuNoSuj"}, "ventaExentaOrigen": {"totalExenta", "descuExenta"},
		"ventaGravadaOrigen": {"totalGravada", "descuGravada"}, "compraOrigen": {"totalCompra", "descu"}} {
		amount := get(line, name)
		if amount.Sign() == 0 {
			continue
		}
		paid := new(big.Rat).Set(amount)
		if total := get(origin, of[0]); total.Sign() > 0 {
			paid.Sub(paid, amount.Mul(amount, new(big.Rat).Quo(get(origin, of[1]), total)))
		}
		return paid.Mul(paid, new(big.Rat).Quo(get(line, "cantidad"), get(line, "cantidadOrigen")))
	}
	return new(big.Rat)
}

// take gives back natively, and counts what came.
func (o *original) take(t *testing.T, quantities []dte.Amount) (abi.Input, abi.Output) {
	t.Helper()
	facts := o.give(quantities)
	in := plugintest.InputOf(t, description, params, facts)
	var out abi.Output
	evaluate(&in, &out)
	if len(out.Faults) > 0 {
		t.Fatalf("refused: %s at line %d\n%s", description.Faults[out.Faults[0].Code].Code, out.Faults[0].Line, facts.Append(nil))
	}
	for i := range in.N {
		for k := range kinds {
			o.returned[k] += dte.Amount(out.Lines[i*len(description.LineOutputs)+outMonto+k])
		}
	}
	return in, out
}

func (o *original) left() bool {
	for _, x := range o.lines {
		if x.back < x.quantity && x.noGravado == 0 { // a deposit alone stays
			return true
		}
	}
	return false
}
