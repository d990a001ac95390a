package sdk

import "dtegate/rules/abi"

// Layout says how a rule reads lines: the number of its columns and outputs, and how a price turns into a base.
type Layout struct {
	Columns, Outputs int
	// TaxBit maps bit i of ColTributos to an index of Taxes.
	TaxBit []int
	// Net is One when prices are without VAT, One plus the VAT's rate when they include it.
	Net int64
	// DefaultIVA adds tax 20 to every taxed line (03, 05, 06); 01 forbids it.
	DefaultIVA bool
	// NoDiscounts is for documents without global discounts, whose scalars have none.
	NoDiscounts bool
}

// zeros is a row of outputs before it is computed. Copied whole: each turn of a loop costs a guest a check of its time
// limit.
var zeros [32]int64

// Lines computes every line of a sale and its totals. What is wrong goes to out.Faults, and ok is false.
func (l *Layout) Lines(in *abi.Input, out *abi.Output, r Rates) (s Sale, ok bool) {
	var sums [3]int64
	var descu, sold int64
	for i := range in.N {
		row := in.Lines[i*l.Columns : (i+1)*l.Columns]
		at := len(out.Lines)
		out.Lines = append(out.Lines, zeros[:l.Outputs]...)
		amount, fault, column := lineAmount(row)
		if fault >= 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: fault, Line: i, Column: column})
			continue
		}
		kind := row[ColImpuesto]
		result := out.Lines[at : at+l.Outputs]
		result[[...]int{OutGravada, OutExenta, OutNoSuj}[kind]] = amount
		result[OutDescuento], result[OutNoGravado] = optional(row[ColDescuento]), optional(row[ColNoGravado])
		sold |= amount
		var ok1, ok2, ok3 bool
		sums[kind], ok1 = Add(sums[kind], amount)
		descu, ok2 = Add(descu, result[OutDescuento])
		s.NoGravado, ok3 = Add(s.NoGravado, result[OutNoGravado])
		if !ok1 || !ok2 || !ok3 {
			out.Faults = append(out.Faults, abi.Fault{Code: FaultOverflow, Line: i, Column: -1})
			return s, false
		}
		if fault, column := l.taxes(row, result, amount, r, &s); fault >= 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: fault, Line: i, Column: column})
		}
	}
	if len(out.Faults) > 0 {
		return s, false
	}
	if s.NoGravado != 0 && sold == 0 {
		out.Faults = append(out.Faults, abi.Fault{Code: FaultNothing, Line: -1, Column: -1})
		return s, false
	}
	s.Gravada, s.Exenta, s.NoSuj = Round2(sums[Gravado]), Round2(sums[Exento]), Round2(sums[NoSujeto])
	s.NoGravado = Round2(s.NoGravado)
	for i := range s.Taxes {
		s.Taxes[i] = Round2(s.Taxes[i])
	}
	if !l.NoDiscounts {
		s.DescuGravada, s.DescuExenta, s.DescuNoSuj = optional(in.Scalars[ScaDescuGravada]), optional(in.Scalars[ScaDescuExenta]), optional(in.Scalars[ScaDescuNoSuj])
	}
	return s, s.discounts(out, descu)
}

// lineAmount is cantidad × precioUni − montoDescu (MF2 p.45: the discount is the line's), or a fault with its column.
func lineAmount(row []int64) (amount int64, fault, column int) {
	quantity, price, descu := row[ColCantidad], row[ColPrecio], optional(row[ColDescuento])
	switch {
	case quantity <= 0:
		return 0, FaultQuantity, ColCantidad
	case price < 0:
		return 0, FaultPrice, ColPrecio
	case (row[ColCodTributo] != 0) != (row[ColTipoItem] == 4), row[ColCodTributo] != 0 && (quantity != One || row[ColUnidad] != 99):
		return 0, FaultTaxLine, ColCodTributo
	}
	gross, ok := Times(quantity, price)
	if !ok {
		return 0, FaultOverflow, ColPrecio
	}
	if descu < 0 || descu > gross {
		return 0, FaultDiscount, ColDescuento
	}
	if optional(row[ColNoGravado]) != 0 && (gross != 0 || quantity != One || row[ColTributos] != 0) {
		return 0, FaultNoGravado, ColNoGravado // MF2 p.30
	}
	return gross - descu, -1, -1
}

// taxes adds the line's taxes of CAT-015 section 1, which are outside the VAT's base, and names them on the line.
func (l *Layout) taxes(row, result []int64, amount int64, r Rates, s *Sale) (fault, column int) {
	if row[ColTributos] == 0 { // almost every line
		if l.DefaultIVA && row[ColImpuesto] == Gravado && amount > 0 {
			result[OutTributos] = 1 << TaxIVA
			s.Named |= 1 << TaxIVA
		}
		return -1, -1
	}
	var named int64
	for bit, tax := range l.TaxBit {
		if row[ColTributos]>>bit&1 != 0 {
			named |= 1 << tax
		}
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
	for _, t := range [...]struct {
		tax        int
		rate, of   int64
		isOfAmount bool
	}{{TaxTurismo, r.Turismo, amount, true}, {TaxSalida, r.Salida, row[ColCantidad], false},
		{TaxFovial, r.Fovial, row[ColCantidad], false}, {TaxCotrans, r.Cotrans, row[ColCantidad], false}} {
		if named>>t.tax&1 == 0 {
			continue
		}
		by := int64(One)
		if t.isOfAmount {
			by = l.Net // the tax on lodging is on the price without VAT
		}
		value, ok1 := MulDiv(t.of, t.rate, by)
		sum, ok2 := Add(s.Taxes[t.tax], value)
		if !ok1 || !ok2 {
			return FaultOverflow, ColTributos
		}
		s.Taxes[t.tax] = sum
	}
	return -1, -1
}

// discounts applies the global discounts and closes the totals before tax.
func (s *Sale) discounts(out *abi.Output, lines int64) bool {
	for i, d := range [...]struct{ discount, total int64 }{{s.DescuGravada, s.Gravada}, {s.DescuExenta, s.Exenta}, {s.DescuNoSuj, s.NoSuj}} {
		switch {
		case d.discount < 0 || d.discount > d.total:
			out.Faults = append(out.Faults, abi.Fault{Code: FaultGlobalDiscount, Line: -1, Column: ScaDescuGravada + i})
		case d.discount%cent != 0:
			out.Faults = append(out.Faults, abi.Fault{Code: FaultCents, Line: -1, Column: ScaDescuGravada + i})
		}
	}
	if len(out.Faults) > 0 {
		return false
	}
	var ok1, ok2, ok3 bool
	s.SubTotalVentas, ok1 = Add(s.Gravada, s.Exenta)
	s.SubTotalVentas, ok2 = Add(s.SubTotalVentas, s.NoSuj)
	global := s.DescuGravada + s.DescuExenta + s.DescuNoSuj // each at most its total: no overflow when the totals add up
	s.TotalDescu, ok3 = Add(lines, global)
	if !ok1 || !ok2 || !ok3 {
		return overflow(out)
	}
	s.TotalDescu = Round2(s.TotalDescu)
	s.SubTotal = s.SubTotalVentas - global
	if global > 0 {
		percent, _ := MulDiv(global, 100*One, s.SubTotalVentas)
		s.Percent = Round2(percent)
	}
	return true
}

func overflow(out *abi.Output) bool {
	out.Faults = append(out.Faults, abi.Fault{Code: FaultOverflow, Line: -1, Column: -1})
	return false
}

// Close adds what the sale's taxes, retention and perception make of the subtotal. operation says what
// montoTotalOperacion holds of rete and perci; pay is totalPagar before its floor of zero. Both in cents.
func (s *Sale) Close(out *abi.Output, perci, rete int64) (taxes, pay int64, ok bool) {
	pay = s.SubTotal
	ok = true
	for _, t := range s.Taxes {
		var ok1, ok2 bool
		taxes, ok1 = Add(taxes, t)
		pay, ok2 = Add(pay, t)
		ok = ok && ok1 && ok2
	}
	for _, n := range [...]int64{perci, -rete, s.NoGravado} {
		var ok1 bool
		pay, ok1 = Add(pay, n)
		ok = ok && ok1
	}
	if !ok {
		overflow(out)
	}
	return taxes, pay, ok
}

// Payments refuses payments that do not add up to the amount to pay, when they name amounts.
func Payments(in *abi.Input, out *abi.Output, pay int64) bool {
	if sum := in.Scalars[ScaPagos]; sum != abi.Absent && sum != pay {
		out.Faults = append(out.Faults, abi.Fault{Code: FaultPayments, Line: -1, Column: ScaPagos})
		return false
	}
	return true
}

// AppendTaxes lists the taxes that lines named, with their amounts.
func (s *Sale) AppendTaxes(out *abi.Output) {
	for i, value := range s.Taxes {
		if s.Named>>i&1 != 0 {
			out.Taxes = append(out.Taxes, abi.Tax{Tax: i, Amount: value})
		}
	}
}

// Flag reads a flag that may be absent.
func Flag(n int64) bool { return n == 1 }

func optional(n int64) int64 {
	if n == abi.Absent {
		return 0
	}
	return n
}
