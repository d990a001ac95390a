// Module retorno computes the return event (type 18).
package main

import (
	"slices"

	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Params, in the order of the description.
const (
	ivaRate = iota
	ivaReteRate
	rentaRate
	turismoRate
	salidaAmount
	fovialRate
	cotransRate
)

// Kinds of lines of the origin. Scalars, columns and outputs with an amount for each kind have this order.
const (
	noSuj = iota
	exenta
	gravada
	compra
	kinds
)

// Scalars, in the order of the description.
const (
	scaTipo     = 0
	scaTotal    = 1                // the origin's total of each kind
	scaDescu    = scaTotal + kinds // the global discount on each kind
	scaRetenIva = scaDescu + kinds // flag: VAT was withheld, 1 % of the price without VAT
	scaRenta    = scaRetenIva + 1  // flag: income tax was withheld, 10 % of the price
	scaDevuelto = scaRenta + 1     // the amount of each kind that earlier returns gave back
	scaIva      = scaDevuelto + kinds
)

// Columns, in the order of the description.
const (
	colCantidad = iota
	colPrecio
	colTributos
	colOrigen
	colDevuelta
	colDescuento
	colMonto // the first of the amounts by kind
)

const (
	colNoGravado = colMonto + kinds + iota
	colAcumulado
	colCodTributo
)

// Line outputs, in the order of the description.
const (
	outMonto     = 0 // the first of the amounts by kind
	outDescuento = kinds + iota - 1
	outNoGravado
	outIva
	outIvaRete
	outRenta
	outTributos
)

// Faults: indexes into the description's Faults.
const (
	faultQuantity = iota
	faultOver
	faultOverflow
	faultOrigin
	faultWhole
	faultNothing
	faultTaxDiscount
)

const cent = sdk.One / 100

// tributos of CAT-015 section 1 that a consumer invoice may name.
var tributos = []string{"59", "71", "D1", "C8"}

// description describes the return event. Every input except cantidad comes from the origin and its earlier returns.
// The amounts of a line are those before the origin's global discount.
var description = &abi.Description{
	Name: "retorno",
	Params: []abi.Param{{Name: "ivaRate", Unit: "ratio"}, {Name: "ivaReteRate", Unit: "ratio"},
		{Name: "rentaRate", Unit: "ratio"}, {Name: "turismoRate", Unit: "ratio"}, {Name: "salidaAmount", Unit: "USD"},
		{Name: "fovialRate", Unit: "USD per gallon"}, {Name: "cotransRate", Unit: "USD per gallon"}},
	Scalars: slices.Concat(
		[]abi.Field{{Name: "origen.tipoDte", Kind: "enum", Required: true, Values: []string{"01", "14"}}},
		sdk.Amounts("origen.totalNoSuj", "origen.totalExenta", "origen.totalGravada", "origen.totalCompra",
			"origen.descuNoSuj", "origen.descuExenta", "origen.descuGravada", "origen.descu"),
		[]abi.Field{{Name: "isRetenIva", Kind: "flag"}, {Name: "applyrent", Kind: "flag"}},
		sdk.Amounts("devuelto.ventaNoSuj", "devuelto.ventaExenta", "devuelto.ventaGravada", "devuelto.compra",
			"origen.totalIva")),
	Columns: []abi.Field{
		{Name: "cantidad", Kind: "amount", Required: true},
		{Name: "precioUni", Kind: "amount", Required: true},
		{Name: "tributos", Kind: "set", Values: tributos},
		{Name: "cantidadOrigen", Kind: "amount", Required: true},
		{Name: "cantidadDevuelta", Kind: "amount"},
		{Name: "montoDescuOrigen", Kind: "amount"},
		{Name: "ventaNoSujOrigen", Kind: "amount"}, {Name: "ventaExentaOrigen", Kind: "amount"},
		{Name: "ventaGravadaOrigen", Kind: "amount"}, {Name: "compraOrigen", Kind: "amount"},
		{Name: "noGravadoOrigen", Kind: "amount"},
		// acumuladoOrigen is the sum of the origin's preceding lines with the same kind of amount as this line. With it
		// the rule divides a tax or discount on the whole origin exactly among the lines.
		{Name: "acumuladoOrigen", Kind: "amount"},
		{Name: "codTributo", Kind: "enum", Values: []string{"", "A8", "57", "90", "A6"}}, // CAT-015 section 2
	},
	LineOutputs: slices.Concat(
		sdk.Amounts("ventaNoSuj", "ventaExenta", "ventaGravada", "compra", "montoDescu", "noGravado", "ivaItem",
			"ivaRete", "reteRenta"),
		[]abi.Field{{Name: "tributos", Kind: "set"}}, sdk.Amounts("psv", "seguro", "flete")), // psv to flete are 0
	Summary: []string{"totalNoSuj", "totalExenta", "totalGravada", "totalCompraExcluidos", "subTotalVentas",
		"totalSeguro", "totalFlete", "montoTotalOperacion", "ivaRete", "reteRenta", "totalNoGravado", "totalPagar",
		"totalNoOnerosas", "totalIva", "saldoFavor"},
	Taxes: tributos,
	Faults: []abi.FaultText{
		faultQuantity: {Code: "QUANTITY_NOT_POSITIVE", Message: "La cantidad debe ser mayor que cero"},
		faultOver: {Code: "OVER_RETURN",
			Message: "La cantidad, con las devoluciones anteriores, supera la del documento de origen"},
		faultOverflow: {Code: "AMOUNT_OVERFLOW",
			Message: "El monto, o la suma hasta esta línea, supera 92,000,000,000.00"},
		faultOrigin: {Code: "ORIGIN_MISMATCH",
			Message: "Los montos del documento de origen no concuerdan entre sí"},
		faultWhole: {Code: "RETURN_WHOLE_LINE",
			Message: "Una línea que es un tributo o un cargo no gravado se devuelve entera: cantidad 1"},
		faultNothing: {Code: "NOTHING_RETURNED",
			Message: "Un cargo no gravado solo se devuelve junto con otra línea que tenga venta"},
		faultTaxDiscount: {Code: "RETURN_DISCOUNTED_TAX",
			Message: "Un tributo con parte de un descuento global no se devuelve por línea: invalide el documento"},
	},
}

// evaluate computes a return event (MF2 pp.26-28; the schema of the event).
func evaluate(in *abi.Input, out *abi.Output) {
	o, ok := readOrigin(in, out)
	if !ok {
		return
	}
	var sums [kinds]int64
	var taxes [4]int64
	var named, noGravado, iva, back int64
	most := new(int64) // the VAT of the line with the most VAT
	charges := false   // a line is outside the tax base
	columns, outputs := len(description.Columns), len(description.LineOutputs)
	out.Lines = sdk.Zeroed(out.Lines, in.N*outputs)
	for i := range in.N {
		row := in.Lines[i*columns : (i+1)*columns]
		result := out.Lines[i*outputs : (i+1)*outputs]
		kind, fault, column := o.line(row, result, &taxes)
		if fault >= 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: fault, Line: i, Column: column})
			continue
		}
		var ok1, ok2 bool
		sums[kind], ok1 = sdk.Add(sums[kind], result[outMonto+kind])
		noGravado, ok2 = sdk.Add(noGravado, result[outNoGravado])
		if !ok1 || !ok2 {
			out.Faults = append(out.Faults, abi.Fault{Code: faultOverflow, Line: i, Column: -1})
			return
		}
		// No overflow: the values are parts of the lines' amounts, whose sum does not overflow.
		iva += result[outIva]
		if result[outIva] > *most {
			most = &result[outIva]
		}
		named |= result[outTributos]
		back |= result[outMonto+kind]
		charges = charges || result[outNoGravado] != 0
	}
	if charges && back == 0 { // MF2 p.29 then requires another line with an amount above zero
		out.Faults = append(out.Faults, abi.Fault{Code: faultNothing, Line: -1, Column: -1})
	}
	if len(out.Faults) > 0 {
		return
	}
	vat := o.vatOf(sums[gravada], iva, most)
	if !o.rounded(&sums) {
		out.Faults = append(out.Faults, abi.Fault{Code: faultOrigin, Line: -1, Column: -1})
		return
	}
	subTotal := sums[noSuj]
	for _, n := range sums[exenta:] {
		subTotal, ok = add(ok, subTotal, n)
	}
	operation := subTotal
	for i := range taxes {
		if named>>i&1 != 0 {
			taxes[i] = sdk.Round2(taxes[i])
			out.Taxes = append(out.Taxes, abi.Tax{Tax: i, Amount: taxes[i]})
			operation, ok = add(ok, operation, taxes[i])
		}
	}
	noGravado = sdk.Round2(noGravado)
	pay, ok := add(ok, operation-o.iva.back-o.renta.back, noGravado)
	if !ok {
		out.Faults = append(out.Faults, abi.Fault{Code: faultOverflow, Line: -1, Column: -1})
		return
	}
	out.Summary = append(out.Summary, sums[noSuj], sums[exenta], sums[gravada], sums[compra], subTotal, 0, 0,
		operation, o.iva.back, o.renta.back, noGravado, max(0, pay), 0, vat, min(0, pay))
}

func add(ok bool, a, b int64) (int64, bool) {
	sum, fits := sdk.Add(a, b)
	return sum, ok && fits
}

func init() { sdk.Register(description, evaluate) }

func main() {}
