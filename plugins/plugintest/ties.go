package plugintest

import (
	"math/big"
	"slices"
	"testing"

	"dtegate/engine/dte"
	"dtegate/rules/abi"
)

// Random numbers are never exact halves; what shops sell often is. A tie document has one to three lines of a quantity
// and a price whose product, total, VAT or withholding is an exact half, or a unit of 1e-8 beside it.

// tie is a quantity and a price of a tie document, both in 1e-8.
func (g generator) tie() (quantity, price int64) {
	odd := 2*g.Int64N(5000) + 201
	switch g.IntN(5) {
	case 0: // the line is half a cent: 1 at 2.505
		quantity, price = dte.Scale, odd*cent/2
	case 1: // 13 % of the line, and 1 %, are half a cent: 1 at 2.50
		quantity, price = dte.Scale, odd*50*cent
	case 2: // the VAT inside is half a cent: 13/113 of 0.565
		quantity, price = dte.Scale, odd*113*cent/200
	case 3: // the ninth decimal of the line is a five: 0.5 at 2.00000001
		quantity, price = dte.Scale/2, odd*dte.Scale+1
	default: // several that are half a cent together: 3 at 0.335
		quantity, price = 3*dte.Scale, odd*cent/2
	}
	if g.IntN(4) == 0 {
		price += 2*g.Int64N(2) - 1 // just above the half, or below
	}
	return quantity, price
}

// exactly recomputes the totals of a sale or note by fractions, each rounded once, half away from zero (MF2 pp.45-54). It
// shares nothing with the rules. It returns how many of the numbers that it rounded were exact halves.
func exactly(t *testing.T, i int, d *abi.Description, c *Case, out *abi.Output) (ties int) {
	t.Helper()
	rat := func(n int64) *big.Rat {
		if n == abi.Absent {
			return new(big.Rat)
		}
		return big.NewRat(n, dte.Scale)
	}
	column := func(line int, name string) int64 {
		return c.In.Lines[line*len(d.Columns)+slices.IndexFunc(d.Columns, func(f abi.Field) bool { return f.Name == name })]
	}
	scalar := func(name string) *big.Rat {
		if n := slices.IndexFunc(d.Scalars, func(f abi.Field) bool { return f.Name == name }); n >= 0 {
			return rat(c.In.Scalars[n])
		}
		return new(big.Rat)
	}
	round := func(exact *big.Rat, decimals int) *big.Rat {
		n, tie := halfUp(exact, decimals)
		if tie {
			ties++
		}
		return n
	}
	check := func(name string, got int64, want *big.Rat) {
		t.Helper()
		if rat(got).Cmp(want) != 0 {
			t.Errorf("document %d: %s is %s, want %s", i, name, rat(got).FloatString(8), want.FloatString(8))
		}
	}
	output := func(line int, name string) (int64, bool) {
		n := slices.IndexFunc(d.LineOutputs, func(f abi.Field) bool { return f.Name == name })
		if n < 0 {
			return 0, false
		}
		return out.Lines[line*len(d.LineOutputs)+n], true
	}
	inside := big.NewRat(13, 113) // of a price that includes VAT
	sums, descu, charges, vat := [3]*big.Rat{{}, {}, {}}, new(big.Rat), new(big.Rat), new(big.Rat)
	for line := range c.In.N {
		gross := round(new(big.Rat).Mul(rat(column(line, "cantidad")), rat(column(line, "precioUni"))), 8)
		amount := gross.Sub(gross, rat(column(line, "montoDescu")))
		kind := column(line, "tipoImpuesto")
		got, _ := output(line, [...]string{"ventaGravada", "ventaExenta", "ventaNoSuj"}[kind])
		check("a line's amount", got, amount)
		sums[kind].Add(sums[kind], amount)
		descu.Add(descu, rat(column(line, "montoDescu")))
		charges.Add(charges, rat(column(line, "noGravado")))
		if got, has := output(line, "ivaItem"); has {
			of := new(big.Rat)
			if kind == 0 {
				of = round(new(big.Rat).Mul(amount, inside), 8)
			}
			check("ivaItem", got, of)
			vat.Add(vat, of)
		}
	}
	taxed, exempt, free := round(sums[0], 2), round(sums[1], 2), round(sums[2], 2)
	subtotal := new(big.Rat).Add(taxed, new(big.Rat).Add(exempt, free))
	off := scalar("descuentoGlobal.gravada")
	global := new(big.Rat).Add(off, new(big.Rat).Add(scalar("descuentoGlobal.exenta"), scalar("descuentoGlobal.noSujeta")))
	base := new(big.Rat).Sub(taxed, off)
	want := map[string]*big.Rat{"totalGravada": taxed, "totalExenta": exempt, "totalNoSuj": free, "subTotalVentas": subtotal,
		"totalDescu": round(descu.Add(descu, global), 2), "totalNoGravado": round(charges, 2),
		"subTotal":            new(big.Rat).Sub(subtotal, global),
		"porcentajeDescuento": round(new(big.Rat).Quo(new(big.Rat).Mul(global, big.NewRat(100, 1)), subtotal), 2),
		"totalIva":            round(new(big.Rat).Sub(vat, new(big.Rat).Mul(off, inside)), 2)}
	for n, name := range d.Summary {
		if want[name] != nil {
			check(name, out.Summary[n], want[name])
		}
	}
	for _, tax := range out.Taxes {
		if d.Taxes[tax.Tax] == "20" {
			check("tax 20", tax.Amount, round(base.Mul(base, big.NewRat(13, 100)), 2))
		}
	}
	return ties
}

// halfUp rounds to decimals, half away from zero; tie tells that the number was an exact half.
func halfUp(exact *big.Rat, decimals int) (n *big.Rat, tie bool) {
	n, _ = new(big.Rat).SetString(exact.FloatString(decimals)) // which rounds halves away from zero
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)
	twice := new(big.Rat).Mul(new(big.Rat).Sub(exact, n), new(big.Rat).SetInt(unit.Lsh(unit, 1)))
	return n, twice.Abs(twice).Cmp(big.NewRat(1, 1)) == 0
}
