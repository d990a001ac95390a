package sdk

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"dtegate/rules/abi"
)

// TestLevies: eleven taxes of a rule's own beside the five of Taxes, some of so much a unit and some of the amount, come out as exact
// fractions do that are rounded once, and are in what is to be paid.
func TestLevies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, net := rapid.Int64Range(0, 5*One), One+rapid.Int64Range(0, One).Draw(t, "vat")
		l := &Layout{Columns: ColTributos + 1, Outputs: OutTributos + 1, Net: net, NoDiscounts: true}
		for tax := len(Taxes); tax < MaxTaxes; tax++ {
			levy := Levy{Tax: tax, Of: ColCantidad, Rate: rate.Draw(t, "rate"), By: One}
			if tax%2 == 0 {
				levy.Of, levy.By = OfAmount, net
			}
			l.Levies, l.TaxBit = append(l.Levies, levy), append(l.TaxBit, tax)
		}
		in := &abi.Input{N: rapid.IntRange(1, 6).Draw(t, "lines"), Scalars: make([]int64, ScaPercepcion+1)}
		want := make([]*big.Rat, MaxTaxes)
		amounts := new(big.Rat)
		for range in.N {
			row := make([]int64, l.Columns)
			row[ColCantidad], row[ColPrecio] = rapid.Int64Range(1, 50*One).Draw(t, "quantity"), rapid.Int64Range(0, 900*One).Draw(t, "price")
			row[ColTributos] = rapid.Int64Range(1, 1<<len(l.TaxBit)-1).Draw(t, "named")
			in.Lines = append(in.Lines, row...)
			gross, _ := Times(row[ColCantidad], row[ColPrecio])
			amounts.Add(amounts, big.NewRat(gross, One))
			for i, levy := range l.Levies {
				if row[ColTributos]>>i&1 == 0 {
					continue
				}
				of := row[ColCantidad]
				if levy.Of == OfAmount {
					of = gross
				}
				value, _ := MulDiv(of, levy.Rate, levy.By) // a line keeps eight decimals
				if want[levy.Tax] == nil {
					want[levy.Tax] = new(big.Rat)
				}
				want[levy.Tax].Add(want[levy.Tax], big.NewRat(value, One))
			}
		}
		var s Sale
		var out abi.Output
		if !s.Lines(l, in, &out, &Rates{}) {
			t.Fatalf("%+v", out.Faults)
		}
		if floor := rapid.Int64Range(0, 3*One).Draw(t, "floor"); s.Taxes[len(Taxes)] > 0 && want[len(Taxes)] != nil { // which a rule may write
			s.Taxes[len(Taxes)] = max(Round2(floor), s.Taxes[len(Taxes)])
			want[len(Taxes)] = big.NewRat(s.Taxes[len(Taxes)], One)
		}
		taxes, pay, ok := s.Close(&out, 0, 0)
		s.AppendTaxes(&out)
		sum := new(big.Rat)
		for _, tax := range out.Taxes {
			exact := want[tax.Tax]
			if exact == nil || big.NewRat(tax.Amount, One).FloatString(2) != exact.FloatString(2) {
				t.Fatalf("tax %d is %d, want %v", tax.Tax, tax.Amount, exact)
			}
			want[tax.Tax] = nil
			sum.Add(sum, big.NewRat(tax.Amount, One))
		}
		for tax, left := range want {
			if left != nil {
				t.Fatalf("tax %d is missing", tax)
			}
		}
		if !ok || big.NewRat(taxes, One).Cmp(sum) != 0 || pay != s.SubTotal+taxes {
			t.Fatalf("taxes %d want %v, to pay %d of %d, %v", taxes, sum, pay, s.SubTotal, ok)
		}
	})
}

// Totals near the end of what an amount may be: what fits is closed without a fault, what does not is one.
func TestClose_Overflow(t *testing.T) {
	for _, c := range []struct {
		subTotal, tax, perci int64
		ok                   bool
	}{{Max, 0, 0, true}, {Max - One, One, 0, true}, {Max, One, 0, false}, {Max, 0, One, false}, {Max - One, One / 2, One, false}} {
		var out abi.Output
		s := Sale{SubTotal: c.subTotal}
		s.Taxes[TaxIVA] = c.tax
		taxes, pay, ok := s.Close(&out, c.perci, 0)
		if ok != c.ok || ok && (len(out.Faults) > 0 || taxes != c.tax || pay != c.subTotal+c.tax+c.perci) ||
			!ok && (len(out.Faults) != 1 || out.Faults[0] != abi.Fault{Code: FaultOverflow, Line: -1, Column: -1}) {
			t.Errorf("%+v: %d %d %v, %+v", c, taxes, pay, ok, out.Faults)
		}
	}
}

// TestLines_Most: amounts and discounts may add up to Max, and to no more. A line of 1e-8 makes the difference.
func TestLines_Most(t *testing.T) {
	const part = Max / 46 // of a line that is computed without 128 bits
	for _, c := range []struct {
		lines    int
		discount int64
		more     int64
		ok       bool
	}{{46, 0, 0, true}, {46, 0, 1, false}, {46, part, 0, true}, {47, part, 0, false}, {45, part, One, true}} {
		l := &Layout{Columns: ColTributos + 1, Outputs: OutTributos + 1, Net: One, NoDiscounts: true}
		in := &abi.Input{Scalars: make([]int64, ScaPercepcion+1)}
		add := func(price, discount int64) {
			row := make([]int64, l.Columns)
			row[ColCantidad], row[ColPrecio], row[ColDescuento] = One, price, discount
			in.N, in.Lines = in.N+1, append(in.Lines, row...)
		}
		for range c.lines {
			add(part, c.discount)
		}
		if c.more > 0 {
			add(c.more, 0)
		}
		var s Sale
		var out abi.Output
		if ok := s.Lines(l, in, &out, &Rates{}); ok != c.ok || ok != (len(out.Faults) == 0) || !ok && out.Faults[0].Code != FaultOverflow {
			t.Errorf("%+v: %v, %+v", c, ok, out.Faults)
		}
	}
}
