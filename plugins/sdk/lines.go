package sdk

import (
	"slices"

	"dtegate/rules/abi"
)

// Layout describes how a rule reads and writes lines: the number of columns and outputs, and the taxes.
type Layout struct {
	Columns, Outputs int
	// TaxBit maps bit i of ColTributos to an index of Taxes.
	TaxBit []int
	// Net is One if prices are without VAT. If prices include VAT, Net is One plus the rate of VAT.
	Net int64
	// Default is the set of taxes of every taxed line: 20 on types 03 to 06, C3 on an export; empty on 01.
	Default int64
	// Levies are further taxes of this rule, in addition to Taxes.
	Levies []Levy
	// NoDiscounts: the document has no global discounts, and the rule no scalars for them.
	NoDiscounts bool
}

// Levy is a tax on the lines that name it, outside the VAT's base: Of × Rate ÷ By, rounded to cents once per document.
type Levy struct {
	Tax      int   // index in the description's Taxes, len(Taxes) or more and below MaxTaxes
	Of       int   // column of the line, such as ColCantidad for a levy on each unit; or OfAmount
	Rate, By int64 // in 1e-8; By is One, or Layout.Net for a share of the price without VAT
}

// OfAmount is the value of Levy.Of for a levy on the line's amount after the line's discount.
const OfAmount = -1

// Zeroed returns n zeros, in the memory of lines if it is large enough. Rules use it for out.Lines.
func Zeroed(lines []int64, n int) []int64 {
	lines = slices.Grow(lines[:0], n)[:n]
	clear(lines)
	return lines
}

// Lines computes every line of a sale and its totals. It appends faults to out.Faults and then returns false.
//
// The loop determines the cost of a rule, because a guest checks its fuel in each turn and at each taken branch. The
// loop therefore computes only plain lines, which are almost all lines: taxed, of an ordinary size, with the amount
// cantidad × precioUni − montoDescu (MF2 p.45: the discount is for the whole line). The method odd computes the others.
func (s *Sale) Lines(l *Layout, in *abi.Input, out *abi.Output, r *Rates) bool {
	out.Lines = Zeroed(out.Lines, in.N*l.Outputs)
	rows, results := in.Lines, out.Lines
	for i := range in.N {
		row, result := (*[ColTributos + 1]int64)(rows), (*[OutTributos + 1]int64)(results)
		rows, results = rows[l.Columns:], results[l.Outputs:]
		gross, ok := times(row[ColCantidad], row[ColPrecio])
		descu := Optional(row[ColDescuento])
		amount := gross - descu
		other := row[ColImpuesto] | row[ColCodTributo] | row[ColTributos] | row[ColNoGravado]<<1
		if !ok || other != 0 || row[ColTipoItem] == 4 || row[ColCantidad] == 0 || descu < 0 || amount < 0 {
			if !s.odd(l, i, row, result, out, r) {
				return false
			}
			continue
		}
		result[OutGravada], result[OutDescuento] = amount, descu
		named := l.Default & (-amount >> 63) // an amount of zero has no tax
		result[OutTributos] = named
		s.Named |= named
		s.sold |= amount
		s.sums[Gravado] += amount
		s.descu += descu
		if uint64(s.sums[Gravado]) > Max || uint64(s.descu) > Max { // both sums are 0 or more
			return s.overflows(out, i)
		}
	}
	return len(out.Faults) == 0 && s.total(l, in, out)
}

// odd computes a line that is not plain: exempt, with its own taxes or charges, very large, or wrong. It returns false
// if the totals overflow.
//
//go:noinline
func (s *Sale) odd(l *Layout, i int, row *[ColTributos + 1]int64, result *[OutTributos + 1]int64, out *abi.Output,
	r *Rates) bool {
	amount, fault, column := lineAmount(row)
	if fault >= 0 {
		out.Faults = append(out.Faults, abi.Fault{Code: fault, Line: i, Column: column})
		return true
	}
	kind := row[ColImpuesto]
	result[[...]int{OutGravada, OutExenta, OutNoSuj}[kind]] = amount
	result[OutDescuento], result[OutNoGravado] = Optional(row[ColDescuento]), Optional(row[ColNoGravado])
	s.sold |= amount
	var ok1, ok2, ok3 bool
	s.sums[kind], ok1 = Add(s.sums[kind], amount)
	s.descu, ok2 = Add(s.descu, result[OutDescuento])
	s.NoGravado, ok3 = Add(s.NoGravado, result[OutNoGravado])
	if !ok1 || !ok2 || !ok3 {
		return s.overflows(out, i)
	}
	if fault, column := s.taxes(l, row, result, amount, r); fault >= 0 {
		out.Faults = append(out.Faults, abi.Fault{Code: fault, Line: i, Column: column})
	}
	return true
}

// Priced computes lines from their first three columns: quantity, price and discount. It writes the first two outputs,
// the discount and the amount, and returns the sums of the amounts and of the discounts. Its faults are the first four
// of SaleFaults.
func Priced(in *abi.Input, out *abi.Output, columns, outputs int) (sum, off int64, ok bool) {
	out.Lines = Zeroed(out.Lines, in.N*outputs)
	for i := range in.N {
		row, result := in.Lines[i*columns:], out.Lines[i*outputs:]
		less := Optional(row[ColDescuento])
		amount, fault, column := priced(row[ColCantidad], row[ColPrecio], less)
		if fault >= 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: fault, Line: i, Column: column})
			continue
		}
		result[0], result[1] = less, amount
		var ok1, ok2 bool
		sum, ok1 = Add(sum, amount)
		off, ok2 = Add(off, less)
		if !ok1 || !ok2 {
			out.Faults = append(out.Faults, abi.Fault{Code: FaultOverflow, Line: i, Column: -1})
			return 0, 0, false
		}
	}
	return sum, off, len(out.Faults) == 0
}

// priced returns quantity × price − less, or a fault with its column. less is the discount of the whole line (MF2
// p.45).
func priced(quantity, price, less int64) (amount int64, fault, column int) {
	switch {
	case quantity <= 0:
		return 0, FaultQuantity, ColCantidad
	case price < 0:
		return 0, FaultPrice, ColPrecio
	}
	gross, ok := Times(quantity, price)
	if !ok {
		return 0, FaultOverflow, ColPrecio
	}
	if less < 0 || less > gross {
		return 0, FaultDiscount, ColDescuento
	}
	return gross - less, -1, -1
}

func lineAmount(row *[ColTributos + 1]int64) (amount int64, fault, column int) {
	quantity, descu := row[ColCantidad], Optional(row[ColDescuento])
	if quantity > 0 && row[ColPrecio] >= 0 && ((row[ColCodTributo] != 0) != (row[ColTipoItem] == 4) ||
		row[ColCodTributo] != 0 && (quantity != One || row[ColUnidad] != 99 || descu != 0 ||
			row[ColImpuesto] != Gravado || Optional(row[ColNoGravado]) != 0)) {
		return 0, FaultTaxLine, ColCodTributo // MF2 pp.33-34
	}
	amount, fault, column = priced(quantity, row[ColPrecio], descu)
	if fault >= 0 {
		return 0, fault, column
	}
	if Optional(row[ColNoGravado]) != 0 && (amount|descu != 0 || quantity != One || row[ColUnidad] != 99 ||
		row[ColTributos] != 0) {
		return 0, FaultNoGravado, ColNoGravado // MF2 p.30
	}
	return amount, -1, -1
}

// taxes adds the line's taxes of CAT-015 section 1, which are outside the VAT's base, to the totals and to the line's
// outputs.
func (s *Sale) taxes(l *Layout, row *[ColTributos + 1]int64, result *[OutTributos + 1]int64, amount int64,
	r *Rates) (fault, column int) {
	var named int64
	for bit, tax := range l.TaxBit {
		if row[ColTributos]>>bit&1 != 0 {
			named |= 1 << tax
		}
	}
	if row[ColCodTributo] != 0 && named&^(1<<TaxIVA) != 0 {
		return FaultTaxLine, ColTributos // MF2 p.34: a line that is a tax may have only VAT
	}
	if row[ColImpuesto] == Gravado {
		if amount > 0 {
			named |= l.defaults(named, row[ColCodTributo] != 0)
		}
	} else if named&(1<<TaxIVA) != 0 {
		return FaultTaxOnExempt, ColTributos
	}
	if named&(1<<TaxFovial|1<<TaxCotrans) != 0 && row[ColUnidad] != 22 {
		return FaultGallons, ColUnidad
	}
	result[OutTributos] = named
	s.Named |= named
	// The tax on lodging is a share of the price without VAT.
	for _, t := range [...]Levy{{TaxTurismo, OfAmount, r.Turismo, l.Net}, {TaxSalida, ColCantidad, r.Salida, One},
		{TaxFovial, ColCantidad, r.Fovial, One}, {TaxCotrans, ColCantidad, r.Cotrans, One}} {
		if !s.levy(&t, named, row, amount) {
			return FaultOverflow, ColTributos
		}
	}
	for i := range l.Levies {
		if !s.levy(&l.Levies[i], named, row, amount) {
			return FaultOverflow, ColTributos
		}
	}
	return -1, -1
}

// defaults returns the taxes that a taxed line has without naming them: only VAT if the line is itself a tax, and none
// if the line names C3 (MF2 pp.32-34).
func (l *Layout) defaults(named int64, isTax bool) int64 {
	switch {
	case named>>TaxExport&1 != 0:
		return 0
	case isTax:
		return l.Default & (1 << TaxIVA)
	}
	return l.Default
}

// levy adds a tax if the line names it. It returns false if the sum overflows.
func (s *Sale) levy(t *Levy, named int64, row *[ColTributos + 1]int64, amount int64) bool {
	if named>>t.Tax&1 == 0 {
		return true
	}
	of := amount
	if t.Of != OfAmount {
		of = Optional(row[t.Of])
	}
	value, ok1 := MulDiv(of, t.Rate, t.By)
	sum, ok2 := Add(s.Taxes[t.Tax], value)
	s.Taxes[t.Tax] = sum
	return ok1 && ok2
}

func (s *Sale) overflows(out *abi.Output, line int) bool {
	out.Faults = append(out.Faults, abi.Fault{Code: FaultOverflow, Line: line, Column: -1})
	return false
}

// Optional returns n, or 0 if n is absent.
func Optional(n int64) int64 {
	if n == abi.Absent {
		return 0
	}
	return n
}
