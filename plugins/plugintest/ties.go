package plugintest

import (
	"math/big"
	"slices"
	"testing"

	"dtegate/engine/dte"
	"dtegate/rules/abi"
)

// Random numbers are never exact halves; real prices often give them. A tie document has one to three lines with a
// quantity and a price. Their product, total, VAT or withholding is an exact half, or differs from a half by 1e-8.

// tie returns a quantity and a price of a tie document, both in 1e-8.
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
	default: // several lines that give half a cent together: 3 at 0.335
		quantity, price = 3*dte.Scale, odd*cent/2
	}
	if g.IntN(4) == 0 {
		price += 2*g.Int64N(2) - 1 // just above the half, or below
	}
	return quantity, price
}

// exactly recomputes the totals of a sale or note by fractions, each rounded once, half away from zero (MF2 pp.45-54).
// It shares no code with the rules. It returns how many of the numbers that it rounded were exact halves.
func exactly(t *testing.T, i int, d *abi.Description, c *Case, out *abi.Output) (ties int) {
	t.Helper()
	e := &exact{t: t, document: i, d: d, in: &c.In, out: out}
	for line := range c.In.N {
		e.line(line)
	}
	for n, want := range e.totals() {
		if want != nil {
			e.check(d.Summary[n], out.Summary[n], want)
		}
	}
	for _, tax := range out.Taxes {
		if d.Taxes[tax.Tax] == "20" {
			e.check("tax 20", tax.Amount, e.round(new(big.Rat).Mul(e.base, big.NewRat(13, 100)), 2))
		}
	}
	return e.ties
}

// exact is a document as it is recomputed.
type exact struct {
	t        *testing.T
	document int
	d        *abi.Description
	in       *abi.Input
	out      *abi.Output

	sums                   [3]big.Rat // of the lines: taxed, exempt, not subject
	discount, charges, vat big.Rat
	base                   *big.Rat // of tax 20, once the totals are known
	ties                   int
}

// inside is the share of VAT in a price that includes VAT.
var inside = big.NewRat(13, 113)

func rat(n int64) *big.Rat {
	if n == abi.Absent {
		return new(big.Rat)
	}
	return big.NewRat(n, dte.Scale)
}

// column returns a fact of a line; scalar returns a fact of the document, or 0 without the fact.
func (e *exact) column(line int, name string) int64 {
	return e.in.Lines[line*len(e.d.Columns)+slices.IndexFunc(e.d.Columns, func(f abi.Field) bool { return f.Name == name })]
}

func (e *exact) scalar(name string) *big.Rat {
	if n := slices.IndexFunc(e.d.Scalars, func(f abi.Field) bool { return f.Name == name }); n >= 0 {
		return rat(e.in.Scalars[n])
	}
	return new(big.Rat)
}

// output returns an output of the rule for a line, or false if the rule has no such output.
func (e *exact) output(line int, name string) (int64, bool) {
	n := slices.IndexFunc(e.d.LineOutputs, func(f abi.Field) bool { return f.Name == name })
	if n < 0 {
		return 0, false
	}
	return e.out.Lines[line*len(e.d.LineOutputs)+n], true
}

func (e *exact) round(n *big.Rat, decimals int) *big.Rat {
	rounded, tie := halfUp(n, decimals)
	if tie {
		e.ties++
	}
	return rounded
}

func (e *exact) check(name string, got int64, want *big.Rat) {
	e.t.Helper()
	if rat(got).Cmp(want) != 0 {
		e.t.Errorf("document %d: %s is %s, want %s", e.document, name, rat(got).FloatString(8), want.FloatString(8))
	}
}

// line adds a line to the sums.
func (e *exact) line(line int) {
	e.t.Helper()
	gross := e.round(new(big.Rat).Mul(rat(e.column(line, "cantidad")), rat(e.column(line, "precioUni"))), 8)
	amount := gross.Sub(gross, rat(e.column(line, "montoDescu")))
	kind := e.column(line, "tipoImpuesto")
	got, _ := e.output(line, [...]string{"ventaGravada", "ventaExenta", "ventaNoSuj"}[kind])
	e.check("a line's amount", got, amount)
	e.sums[kind].Add(&e.sums[kind], amount)
	e.discount.Add(&e.discount, rat(e.column(line, "montoDescu")))
	e.charges.Add(&e.charges, rat(e.column(line, "noGravado")))
	if got, has := e.output(line, "ivaItem"); has {
		of := new(big.Rat)
		if kind == 0 {
			of = e.round(new(big.Rat).Mul(amount, inside), 8)
		}
		e.check("ivaItem", got, of)
		e.vat.Add(&e.vat, of)
	}
}

// totals are the expected amounts of the summary, in its order; nil for an amount that is not recomputed.
func (e *exact) totals() []*big.Rat {
	taxed, exempt, free := e.round(&e.sums[0], 2), e.round(&e.sums[1], 2), e.round(&e.sums[2], 2)
	subtotal := new(big.Rat).Add(taxed, new(big.Rat).Add(exempt, free))
	off := e.scalar("descuentoGlobal.gravada")
	global := new(big.Rat).Add(off, new(big.Rat).Add(e.scalar("descuentoGlobal.exenta"), e.scalar("descuentoGlobal.noSujeta")))
	e.base = new(big.Rat).Sub(taxed, off)
	want := map[string]*big.Rat{"totalGravada": taxed, "totalExenta": exempt, "totalNoSuj": free, "subTotalVentas": subtotal,
		"totalDescu": e.round(new(big.Rat).Add(&e.discount, global), 2), "totalNoGravado": e.round(&e.charges, 2),
		"subTotal":            new(big.Rat).Sub(subtotal, global),
		"porcentajeDescuento": e.round(new(big.Rat).Quo(new(big.Rat).Mul(global, big.NewRat(100, 1)), subtotal), 2),
		"totalIva":            e.round(new(big.Rat).Sub(&e.vat, new(big.Rat).Mul(off, inside)), 2)}
	list := make([]*big.Rat, len(e.d.Summary))
	for n, name := range e.d.Summary {
		list[n] = want[name]
	}
	return list
}

// halfUp rounds to decimals, half away from zero; tie reports whether the number was an exact half.
func halfUp(exact *big.Rat, decimals int) (n *big.Rat, tie bool) {
	n, _ = new(big.Rat).SetString(exact.FloatString(decimals)) // FloatString rounds halves away from zero
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)
	twice := new(big.Rat).Mul(new(big.Rat).Sub(exact, n), new(big.Rat).SetInt(unit.Lsh(unit, 1)))
	return n, twice.Abs(twice).Cmp(big.NewRat(1, 1)) == 0
}
