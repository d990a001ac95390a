package sdk

import (
	"math/bits"

	"dtegate/rules/abi"
)

// Sale has the sums of a sale's lines and global discounts, in 1e-8.
type Sale struct {
	NoSuj, Exenta, Gravada                int64 // totals of the lines, in whole cents
	DescuNoSuj, DescuExenta, DescuGravada int64
	SubTotalVentas, SubTotal              int64
	Percent, TotalDescu                   int64
	NoGravado                             int64
	Taxes                                 [MaxTaxes]int64 // CAT-015 section 1, in whole cents; the rule sets the IVA
	Named                                 int64           // set of the taxes that lines name

	sums        [3]int64 // of the lines, by ColImpuesto
	descu, sold int64    // descu is the sum of the lines' discounts; sold is 0 if no line has an amount
}

func (s *Sale) total(l *Layout, in *abi.Input, out *abi.Output) bool {
	if s.NoGravado != 0 && s.sold == 0 {
		out.Faults = append(out.Faults, abi.Fault{Code: FaultNothing, Line: -1, Column: -1})
		return false
	}
	s.Gravada, s.Exenta, s.NoSuj = Round2(s.sums[Gravado]), Round2(s.sums[Exento]), Round2(s.sums[NoSujeto])
	s.NoGravado = Round2(s.NoGravado)
	if s.Named>>1 != 0 { // a tax other than the IVA
		for i := range s.Taxes {
			s.Taxes[i] = Round2(s.Taxes[i])
		}
	}
	var global int64
	if !l.NoDiscounts {
		var ok bool
		if global, ok = s.discounts(in, out); !ok {
			return false
		}
	}
	s.SubTotalVentas, s.TotalDescu = s.Gravada+s.Exenta+s.NoSuj, s.descu+global
	if !small(s.Gravada | s.Exenta | s.NoSuj | s.descu | global) {
		var ok1, ok2, ok3 bool
		s.SubTotalVentas, ok1 = Add(s.Gravada, s.Exenta)
		s.SubTotalVentas, ok2 = Add(s.SubTotalVentas, s.NoSuj)
		s.TotalDescu, ok3 = Add(s.descu, global)
		if !ok1 || !ok2 || !ok3 {
			return s.overflows(out, -1)
		}
	}
	s.TotalDescu = Round2(s.TotalDescu)
	s.SubTotal = s.SubTotalVentas - global
	if global > 0 {
		hundredths, _ := MulDiv(global, 100*100, s.SubTotalVentas) // rounded once
		s.Percent = hundredths * Cent
	}
	return true
}

// discounts reads and checks the global discounts. global is the sum of these discounts.
func (s *Sale) discounts(in *abi.Input, out *abi.Output) (global int64, ok bool) {
	s.DescuGravada, s.DescuExenta = Optional(in.Scalars[ScaDescuGravada]), Optional(in.Scalars[ScaDescuExenta])
	s.DescuNoSuj = Optional(in.Scalars[ScaDescuNoSuj])
	if s.DescuGravada|s.DescuExenta|s.DescuNoSuj == 0 { // almost every sale
		return 0, true
	}
	for i, d := range [...]struct{ discount, total int64 }{{s.DescuGravada, s.Gravada}, {s.DescuExenta, s.Exenta},
		{s.DescuNoSuj, s.NoSuj}} {
		switch {
		case d.discount < 0 || d.discount > d.total:
			out.Faults = append(out.Faults, abi.Fault{Code: FaultGlobalDiscount, Line: -1, Column: ScaDescuGravada + i})
		case d.discount%Cent != 0:
			out.Faults = append(out.Faults, abi.Fault{Code: FaultCents, Line: -1, Column: ScaDescuGravada + i})
		}
	}
	// No overflow: each discount is at most its total, and the sum of the totals does not overflow.
	return s.DescuGravada + s.DescuExenta + s.DescuNoSuj, len(out.Faults) == 0
}

// small reports whether the sum of any twelve of some amounts fits an int64. Its parameter is the bitwise or of the
// amounts. No amount may be negative.
func small(amounts int64) bool { return uint64(amounts)>>59 == 0 }

// Close returns the sum of the taxes, and pay: the subtotal with taxes, perception and NoGravado, less the retention.
// pay is totalPagar, but may be below zero. A rule may change Taxes before Close, for a levy with a minimum or a free
// quantity.
func (s *Sale) Close(out *abi.Output, perci, rete int64) (taxes, pay int64, ok bool) {
	t := &s.Taxes
	taxes = t[TaxIVA] + t[TaxTurismo] + t[TaxSalida] + t[TaxFovial] + t[TaxCotrans]
	pay = s.SubTotal + taxes + perci - rete + s.NoGravado
	if s.Named>>len(Taxes) == 0 && small(s.SubTotal|t[TaxIVA]|t[TaxTurismo]|t[TaxSalida]|t[TaxFovial]|t[TaxCotrans]|
		perci|rete|(s.NoGravado^s.NoGravado>>63)) {
		return taxes, pay, true
	}
	taxes, pay, ok = 0, s.SubTotal, true
	for _, n := range t {
		var ok1, ok2 bool
		taxes, ok1 = Add(taxes, n)
		pay, ok2 = Add(pay, n)
		ok = ok && ok1 && ok2
	}
	for _, n := range [...]int64{perci, -rete, s.NoGravado} {
		var ok1 bool
		pay, ok1 = Add(pay, n)
		ok = ok && ok1
	}
	if !ok {
		s.overflows(out, -1)
	}
	return taxes, pay, ok
}

// Payments adds a fault and returns false if the payments do not add up to the amount to pay.
func Payments(in *abi.Input, out *abi.Output, pay int64) bool {
	if sum := in.Scalars[ScaPagos]; sum != abi.Absent && sum != pay {
		out.Faults = append(out.Faults, abi.Fault{Code: FaultPayments, Line: -1, Column: ScaPagos})
		return false
	}
	return true
}

// Append writes the amounts of SaleSummary, then the rule's own amounts, and the taxes.
func (s *Sale) Append(out *abi.Output, own ...int64) {
	out.Summary = append(out.Summary, s.NoSuj, s.Exenta, s.Gravada, s.SubTotalVentas, s.DescuNoSuj, s.DescuExenta,
		s.DescuGravada, s.Percent, s.TotalDescu, s.SubTotal)
	out.Summary = append(out.Summary, own...)
	s.AppendTaxes(out)
}

// AppendTaxes appends to out the taxes that lines name, with their amounts.
func (s *Sale) AppendTaxes(out *abi.Output) {
	for named := uint64(s.Named); named != 0; named &= named - 1 {
		i := bits.TrailingZeros64(named)
		out.Taxes = append(out.Taxes, abi.Tax{Tax: i, Amount: s.Taxes[i]})
	}
}

// Flag reads a flag that may be absent.
func Flag(n int64) bool { return n == 1 }
