package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// origin is the original document whose goods return, with its amounts in 1e-8.
type origin struct {
	params       []int64
	net          int64        // 1 + the rate of VAT; a price divided by net is without VAT
	total, descu [kinds]int64 // whole cents, in 1e-8
	devuelto     [kinds]int64
	iva, renta   withheld
	vat          withheld // the VAT in the origin's prices, divided among the returns like a withheld tax
	invoice      bool     // the origin is a consumer invoice; otherwise an excluded-subject invoice
}

func readOrigin(in *abi.Input, out *abi.Output) (*origin, bool) {
	o := &origin{params: in.Params, net: sdk.One + in.Params[ivaRate], invoice: in.Scalars[scaTipo] == 0}
	for k := range kinds {
		o.total[k], o.descu[k] = sdk.Optional(in.Scalars[scaTotal+k]), sdk.Optional(in.Scalars[scaDescu+k])
		o.devuelto[k] = sdk.Optional(in.Scalars[scaDevuelto+k])
		if o.descu[k] < 0 || o.descu[k] > o.total[k] || o.devuelto[k] < 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: faultOrigin, Line: -1, Column: scaDescu + k})
			return nil, false
		}
	}
	if o.invoice {
		end := o.total[gravada] - o.descu[gravada]
		o.vat = withhold(end, in.Params[ivaRate], o.net)
		if said := in.Scalars[scaIva]; said >= 0 && said <= end {
			o.vat.all = said
		}
	}
	// The withheld VAT is a share of the price without VAT (art. 162 of the tax code), the withheld income tax a share
	// of the price of the services (art. 156).
	if o.invoice && sdk.Flag(in.Scalars[scaRetenIva]) {
		o.iva = withhold(o.total[gravada]-o.descu[gravada], in.Params[ivaReteRate], o.net)
	}
	if !o.invoice && sdk.Flag(in.Scalars[scaRenta]) {
		o.renta = withhold(o.total[compra]-o.descu[compra], in.Params[rentaRate], sdk.One)
	}
	return o, true
}

// vatOf returns the VAT of this event's taxed amount, in whole cents: the origin's VAT on all goods returned so far,
// less the origin's VAT on the goods returned before this event. Together the returns give back the charged VAT to the
// cent. MF2 p.54 allows the result to differ by a cent from lines, the sum of the lines' VAT. When the last cent of the
// base is returned, the difference can be 1.1 cents: vatOf then adds the part over a cent to *most, the largest VAT of
// a line, because each line has a tolerance too. vatOf returns lines, rounded to cents, if the origin is not a consumer
// invoice, if that part exceeds a cent, or if *most would become negative.
func (o *origin) vatOf(amount, lines int64, most *int64) int64 {
	before := o.devuelto[gravada]
	shared := o.vat.upTo(before+amount) - o.vat.upTo(before)
	far := max(shared-lines-cent, 0) + min(shared-lines+cent, 0)
	if !o.invoice || far > cent || far < -cent || *most+far < 0 {
		return sdk.Round2(lines)
	}
	*most += far
	return shared
}

// withheld is a tax (all) on the origin's amount end. upTo divides it among the returns; back is this event's part.
type withheld struct{ all, end, rate, net, back int64 }

func withhold(end, rate, net int64) withheld {
	all, _ := sdk.Cents(end, rate, net) // no overflow, because the rate is below one
	return withheld{all, end, rate, net, 0}
}

// upTo returns the tax on the first part of the origin, up to the amount base, in whole cents. The tax on any part is a
// difference of two such values: all parts together therefore have exactly the withheld tax, in any order. If base is
// at most a cent below the end, upTo returns the whole tax: the origin's total is rounded and its lines are not.
func (w *withheld) upTo(base int64) int64 {
	if base >= w.end-cent {
		return w.all
	}
	tax, _ := sdk.Cents(base, w.rate, w.net)
	return min(tax, w.all)
}

// take adds to back the share of the whole tax that falls on the part of the origin from one amount to another. It
// returns the share that the line shows, in whole cents: at most a cent above the tax computed on the part alone. MF2
// p.54 allows this cent for a line and for the sum of lines.
func (w *withheld) take(from, to int64) int64 {
	if w.all == 0 {
		return 0
	}
	tax := w.upTo(to) - w.upTo(from)
	w.back += tax
	most, _ := sdk.MulDiv(to-from, w.rate, w.net) // no overflow, because the rate is below one
	return min(tax, (most+cent)/cent*cent)
}

// line computes one returned line. Each value is the part of the origin's value returned up to and including this
// event, less the part returned before: any sequence of returns therefore adds up to exactly the origin's values.
func (o *origin) line(row, result []int64, taxes *[4]int64) (kind, fault, column int) {
	now, before, all := row[colCantidad], sdk.Optional(row[colDevuelta]), row[colOrigen]
	if now <= 0 {
		return 0, faultQuantity, colCantidad
	}
	kind, amount, ok := o.kind(row)
	if !ok || all <= 0 || before < 0 {
		return 0, faultOrigin, colOrigen
	}
	if now > all-before {
		return 0, faultOver, colCantidad
	}
	if now != all && (row[colCodTributo] != 0 || sdk.Optional(row[colNoGravado]) != 0) {
		return 0, faultWhole, colCantidad // MF2 pp.30 and 33: the quantity of such a line is 1
	}
	part := func(whole, quantity int64) int64 {
		switch {
		case whole == 0 || quantity == 0:
			return 0
		case quantity == all:
			return whole
		}
		n, _ := sdk.MulDiv(whole, quantity, all) // cannot overflow: at most whole
		return n
	}
	back := func(whole int64) int64 { return part(whole, before+now) - part(whole, before) }

	start := sdk.Optional(row[colAcumulado])
	start, end := start-o.share(kind, start), start+amount-o.share(kind, start+amount)
	paid := end - start // the price of the line after its share of the global discount
	result[outMonto+kind] = back(paid)
	result[outDescuento] = back(sdk.Optional(row[colDescuento]) + amount - paid)
	if row[colCodTributo] != 0 && result[outDescuento] != 0 {
		return 0, faultTaxDiscount, colCodTributo // MF2 p.45 requires a line discount, p.33 forbids it on a tax
	}
	result[outNoGravado] = back(sdk.Optional(row[colNoGravado]))
	switch kind {
	case gravada:
		// For information only: the VAT in a price that includes VAT is price × 13/113.
		result[outIva], _ = sdk.MulDiv(result[outMonto+gravada], o.params[ivaRate], o.net)
		result[outIvaRete] = o.iva.take(start+part(paid, before), start+part(paid, before+now))
	case compra:
		result[outRenta] = o.renta.take(start+part(paid, before), start+part(paid, before+now))
	}
	if result[outTributos] = row[colTributos]; row[colTributos] == 0 { // almost every line
		return kind, -1, -1
	}
	// Taxes of CAT-015 section 1 are outside the VAT's base. As on the invoice, 59 is a share of the price without VAT,
	// before the global discount. The other taxes are amounts for each unit.
	for i, t := range [...]struct{ of, rate, by int64 }{{amount, o.params[turismoRate], o.net},
		{all, o.params[salidaAmount], sdk.One},
		{all, o.params[fovialRate], sdk.One}, {all, o.params[cotransRate], sdk.One}} {
		if row[colTributos]>>i&1 == 0 {
			continue
		}
		tax, ok1 := sdk.MulDiv(t.of, t.rate, t.by)
		sum, ok2 := sdk.Add(taxes[i], back(tax))
		if !ok1 || !ok2 {
			return 0, faultOverflow, colTributos
		}
		taxes[i] = sum
	}
	return kind, -1, -1
}

// kind returns the kind and amount of a line of the origin; ok is false if the amounts contradict each other.
func (o *origin) kind(row []int64) (kind int, amount int64, ok bool) {
	kind = gravada
	if !o.invoice {
		kind = compra
	}
	for k := range kinds {
		n := sdk.Optional(row[colMonto+k])
		if n == 0 {
			continue
		}
		if n < 0 || amount != 0 || (k == compra) == o.invoice {
			return 0, 0, false
		}
		kind, amount = k, n
	}
	gross, ok := sdk.Times(row[colOrigen], row[colPrecio])
	descu, start := sdk.Optional(row[colDescuento]), sdk.Optional(row[colAcumulado])
	if !ok || row[colPrecio] < 0 || descu < 0 || descu > gross+cent || start < 0 ||
		amount > 0 && start > o.total[kind]+cent-amount {
		return 0, 0, false
	}
	// MF2 p.54 allows a line's amount to differ by a cent from its computation.
	return kind, amount, (gross-descu-amount) <= cent && (gross-descu-amount) >= -cent
}

// share returns, to 8 decimals, the part of the global discount on a kind that falls on the kind's first lines. of is
// the sum of the amounts of these lines.
func (o *origin) share(kind int, of int64) int64 {
	if o.descu[kind] == 0 {
		return 0
	}
	n, _ := sdk.MulDiv(o.descu[kind], of, o.total[kind]) // no overflow, because the discount is at most the total
	return n
}

// rounded sets each sum to whole cents: the rounded sum of all returns up to this event, less the rounded sum of the
// earlier returns. If each event rounded its own sum, the events could return more than the origin has. A sum is
// rounded by itself only if the difference would take the totals together more than a cent from the sums of this
// event's lines (MH's tolerance, MF2 p.54). rounded returns false if more was returned than the origin has.
func (o *origin) rounded(sums *[kinds]int64) bool {
	var off int64
	for k := range sums {
		if o.devuelto[k] > o.total[k]-o.descu[k]+cent-sums[k] {
			return false
		}
		alone := sdk.Round2(sums[k])
		apart := sdk.Round2(o.devuelto[k]+sums[k]) - sdk.Round2(o.devuelto[k]) - alone
		if off+apart <= cent && off+apart >= -cent {
			alone += apart
			off += apart
		}
		sums[k] = alone
	}
	return true
}
