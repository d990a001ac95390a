package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// origin is what the whole of the origin says, in 1e-8.
type origin struct {
	params       []int64
	net          int64        // by which a price with VAT is divided
	total, descu [kinds]int64 // in cents
	devuelto     [kinds]int64
	iva, renta   withheld
	vat          withheld // the VAT that the origin's prices include: shared out as a withheld tax is
	invoice      bool     // a consumer invoice; else an excluded-subject invoice
}

// readOrigin reads the scalars.
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
	// Art. 162 of the tax code: of the price without VAT; art. 156: of what was paid for the services.
	if o.invoice && sdk.Flag(in.Scalars[scaRetenIva]) {
		o.iva = withhold(o.total[gravada]-o.descu[gravada], in.Params[ivaReteRate], o.net)
	}
	if !o.invoice && sdk.Flag(in.Scalars[scaRenta]) {
		o.renta = withhold(o.total[compra]-o.descu[compra], in.Params[rentaRate], sdk.One)
	}
	return o, true
}

// vatOf is the VAT of this event's taxed amount, in cents: the origin's VAT on everything that has come back by now,
// less its VAT on what had come back before. Together the returns give back what was charged, to the cent. Each return
// must stay within a cent of lines, the sum of its own lines (MF2 p.54). The last cent of the base can take it a tenth
// of a cent further: vatOf moves most, the VAT of the line with the most VAT, by as much; a line has its own tolerance.
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

// withheld shares out a tax that was withheld from the whole of the origin.
type withheld struct{ all, end, rate, net int64 }

func withhold(end, rate, net int64) withheld {
	all, _ := sdk.Cents(end, rate, net) // a rate below one: within the base
	return withheld{all, end, rate, net}
}

// upTo is the tax, in cents, of the origin's first so many dollars. Taken as a difference between two places it sums
// to exactly what was withheld, however the origin comes back. The last cent of the base ends it: the origin's total
// is rounded, its lines are not.
func (w *withheld) upTo(base int64) int64 {
	if base >= w.end-cent {
		return w.all
	}
	tax, _ := sdk.Cents(base, w.rate, w.net)
	return min(tax, w.all)
}

// line computes one returned line. Each of its values is a difference of what the line has given back after and before
// this event, so that any sequence of returns sums to exactly what the origin has.
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
		n, _ := sdk.MulDiv(whole, quantity, all) // at most the whole
		return n
	}
	back := func(whole int64) int64 { return part(whole, before+now) - part(whole, before) }

	start := sdk.Optional(row[colAcumulado])
	start, end := start-o.share(kind, start), start+amount-o.share(kind, start+amount)
	paid := end - start // for the line, after its share of the global discount
	result[outMonto+kind] = back(paid)
	result[outDescuento] = back(sdk.Optional(row[colDescuento]) + amount - paid)
	if row[colCodTributo] != 0 && result[outDescuento] != 0 {
		return 0, faultTaxDiscount, colCodTributo // MF2 p.45 wants it as the line's discount, p.33 no discount on a tax
	}
	result[outNoGravado] = back(sdk.Optional(row[colNoGravado]))
	switch kind {
	case gravada:
		// The VAT inside a price that includes it, informative: price × 13/113.
		result[outIva], _ = sdk.MulDiv(result[outMonto+gravada], o.params[ivaRate], o.net)
		result[outIvaRete] = o.iva.upTo(start+part(paid, before+now)) - o.iva.upTo(start+part(paid, before))
	case compra:
		result[outRenta] = o.renta.upTo(start+part(paid, before+now)) - o.renta.upTo(start+part(paid, before))
	}
	if result[outTributos] = row[colTributos]; row[colTributos] == 0 { // almost every line
		return kind, -1, -1
	}
	// Taxes of CAT-015 section 1 are outside the VAT's base: 59 is of the price without VAT, before the global
	// discount, as on the invoice; the others are by the unit.
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

// kind is what a line of the origin is, and its amount; ok is false when the origin's figures contradict each other.
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
	// MF2 p.54 lets a line's amount be a cent off.
	return kind, amount, (gross-descu-amount) <= cent && (gross-descu-amount) >= -cent
}

// share is what the global discount takes of the first so many dollars of a kind, to 8 decimals.
func (o *origin) share(kind int, of int64) int64 {
	if o.descu[kind] == 0 {
		return 0
	}
	n, _ := sdk.MulDiv(o.descu[kind], of, o.total[kind]) // the discount is at most the total: at most of
	return n
}

// rounded turns the sums of the lines into cents, as the difference between what has come back after and before this
// event: cents that each event rounded up by itself would give back more than the origin has. Together the totals
// stay within MH's tolerance of a cent (MF2 p.54) from what the lines of this event alone add up to. It is false when
// more has come back than the origin has.
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
