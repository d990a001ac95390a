package sdk

import (
	"slices"

	"dtegate/rules/abi"
)

// Layout says how a rule reads lines: the number of its columns and outputs, and how a price turns into a base.
type Layout struct {
	Columns, Outputs int
	// TaxBit maps bit i of ColTributos to an index of Taxes.
	TaxBit []int
	// Net is One when prices are without VAT, One plus the VAT's rate when they include it.
	Net int64
	// DefaultIVA adds tax 20 to every taxed line (03, 05, 06); 01 forbids it.
	DefaultIVA bool
	// Levies are taxes of the rule's own beside those of Taxes.
	Levies []Levy
	// NoDiscounts is for documents without global discounts, whose scalars have none.
	NoDiscounts bool
}

// Levy is a tax on the lines that name it, outside the VAT's base: Of × Rate ÷ By, rounded to cents once for the document.
type Levy struct {
	Tax      int   // index in the description's Taxes, len(Taxes) or more and below MaxTaxes
	Of       int   // the line's column, ColCantidad for so much a unit; OfAmount: its amount
	Rate, By int64 // in 1e-8; By is One, or Layout.Net for a share of the price without VAT
}

// OfAmount is a levy on the amount of a line, its discount taken off.
const OfAmount = -1

// Zeroed is out.Lines before it is computed: n zeros, in one stroke.
func Zeroed(lines []int64, n int) []int64 {
	lines = slices.Grow(lines[:0], n)[:n]
	clear(lines)
	return lines
}

// Lines computes every line of a sale and its totals. What is wrong goes to out.Faults, and it is false.
//
// The loop is the cost of a rule: each turn and each branch that is taken costs a guest a check of its limit. So
// it computes in one go what almost every line is: taxed, cantidad × precioUni − montoDescu (MF2 p.45: the discount is
// the line's), of an ordinary size. It leaves every other to odd.
func (s *Sale) Lines(l *Layout, in *abi.Input, out *abi.Output, r *Rates) bool {
	out.Lines = Zeroed(out.Lines, in.N*l.Outputs)
	var iva int64 // the set of what a taxed line names by itself
	if l.DefaultIVA {
		iva = 1 << TaxIVA
	}
	rows, results := in.Lines, out.Lines
	for i := range in.N {
		row, result := (*[ColTributos + 1]int64)(rows), (*[OutTributos + 1]int64)(results)
		rows, results = rows[l.Columns:], results[l.Outputs:]
		gross, ok := times(row[ColCantidad], row[ColPrecio])
		descu := optional(row[ColDescuento])
		amount := gross - descu
		other := row[ColImpuesto] | row[ColCodTributo] | row[ColTributos] | row[ColNoGravado]<<1
		if !ok || other != 0 || row[ColTipoItem] == 4 || row[ColCantidad] == 0 || descu < 0 || amount < 0 {
			if !s.odd(l, i, row, result, out, r) {
				return false
			}
			continue
		}
		result[OutGravada], result[OutDescuento] = amount, descu
		named := iva & (-amount >> 63) // none on an amount of zero
		result[OutTributos] = named
		s.Named |= named
		s.sold |= amount
		s.sums[Gravado] += amount
		s.descu += descu
		if uint64(s.sums[Gravado]) > Max || uint64(s.descu) > Max { // neither term is negative
			return s.overflows(out, i)
		}
	}
	return len(out.Faults) == 0 && s.total(l, in, out)
}

// odd is a line that is not plain: exempt, with taxes or charges of its own, very large, or wrong. It is false when the
// totals overflow.
//
//go:noinline
func (s *Sale) odd(l *Layout, i int, row *[ColTributos + 1]int64, result *[OutTributos + 1]int64, out *abi.Output, r *Rates) bool {
	amount, fault, column := lineAmount(row)
	if fault >= 0 {
		out.Faults = append(out.Faults, abi.Fault{Code: fault, Line: i, Column: column})
		return true
	}
	kind := row[ColImpuesto]
	result[[...]int{OutGravada, OutExenta, OutNoSuj}[kind]] = amount
	result[OutDescuento], result[OutNoGravado] = optional(row[ColDescuento]), optional(row[ColNoGravado])
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

// lineAmount is cantidad × precioUni − montoDescu, or a fault with its column.
func lineAmount(row *[ColTributos + 1]int64) (amount int64, fault, column int) {
	quantity, price, descu := row[ColCantidad], row[ColPrecio], optional(row[ColDescuento])
	switch {
	case quantity <= 0:
		return 0, FaultQuantity, ColCantidad
	case price < 0:
		return 0, FaultPrice, ColPrecio
	case (row[ColCodTributo] != 0) != (row[ColTipoItem] == 4),
		row[ColCodTributo] != 0 && (quantity != One || row[ColUnidad] != 99 || descu != 0 || row[ColImpuesto] != Gravado || optional(row[ColNoGravado]) != 0):
		return 0, FaultTaxLine, ColCodTributo // MF2 pp.33-34
	}
	gross, ok := Times(quantity, price)
	if !ok {
		return 0, FaultOverflow, ColPrecio
	}
	if descu < 0 || descu > gross {
		return 0, FaultDiscount, ColDescuento
	}
	if optional(row[ColNoGravado]) != 0 && (gross != 0 || quantity != One || row[ColUnidad] != 99 || row[ColTributos] != 0) {
		return 0, FaultNoGravado, ColNoGravado // MF2 p.30
	}
	return gross - descu, -1, -1
}

// taxes adds the line's taxes of CAT-015 section 1, which are outside the VAT's base, and names them on the line.
func (s *Sale) taxes(l *Layout, row *[ColTributos + 1]int64, result *[OutTributos + 1]int64, amount int64, r *Rates) (fault, column int) {
	var named int64
	for bit, tax := range l.TaxBit {
		if row[ColTributos]>>bit&1 != 0 {
			named |= 1 << tax
		}
	}
	if row[ColCodTributo] != 0 && named&^(1<<TaxIVA) != 0 {
		return FaultTaxLine, ColTributos // MF2 p.34: of a tax only the VAT
	}
	if row[ColImpuesto] == Gravado {
		if l.DefaultIVA && amount > 0 {
			named |= 1 << TaxIVA
		}
	} else if named&(1<<TaxIVA) != 0 {
		return FaultTaxOnExempt, ColTributos
	}
	if named&(1<<TaxFovial|1<<TaxCotrans) != 0 && row[ColUnidad] != 22 {
		return FaultGallons, ColUnidad
	}
	result[OutTributos] = named
	s.Named |= named
	for _, t := range [...]Levy{{TaxTurismo, OfAmount, r.Turismo, l.Net}, // the tax on lodging is on the price without VAT
		{TaxSalida, ColCantidad, r.Salida, One}, {TaxFovial, ColCantidad, r.Fovial, One}, {TaxCotrans, ColCantidad, r.Cotrans, One}} {
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

// levy adds a tax of a line that names it; false: it overflows.
func (s *Sale) levy(t *Levy, named int64, row *[ColTributos + 1]int64, amount int64) bool {
	if named>>t.Tax&1 == 0 {
		return true
	}
	of := amount
	if t.Of != OfAmount {
		of = optional(row[t.Of])
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

func optional(n int64) int64 {
	if n == abi.Absent {
		return 0
	}
	return n
}
