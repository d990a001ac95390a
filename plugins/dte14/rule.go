package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Params, in the order of the description.
const rentaRate = 0

// Columns, in the order of the description.
const (
	colCantidad = iota
	colPrecio
	colDescuento
)

// Scalars, in the order of the description.
const (
	scaRenta = iota
	scaDescu
	scaPagos
)

// Line outputs, in the order of the description.
const (
	outDescuento = iota
	outCompra
)

// Faults: indexes of the description's. Those of a sale keep their codes.
const (
	faultQuantity = iota
	faultPrice
	faultDiscount
	faultOverflow
	faultGlobalDiscount
	faultCents
	faultPayments
)

const cent = sdk.One / 100

// description of the excluded-subject invoice: the buyer issues it, and no VAT is charged.
var description = &abi.Description{
	Name:   "dte14",
	Params: []abi.Param{{Name: "rentaRate", Unit: "ratio"}},
	Scalars: []abi.Field{
		{Name: "applyrent", Kind: "flag"},
		{Name: "descuentoGlobal.compra", Kind: "amount"},
		{Name: "resumen.pagos[].montoPago", Kind: "amount"},
	},
	Columns: []abi.Field{
		{Name: "cantidad", Kind: "amount", Required: true},
		{Name: "precioUni", Kind: "amount", Required: true},
		{Name: "montoDescu", Kind: "amount"},
		// Every line is a purchase: the word is checked, so that a misspelt one is told, and means nothing.
		{Name: "tipoImpuesto", Kind: "enum", Values: []string{"", "GRAVADO", "SUJETO_EXCLUIDO", "EXENTO", "NO_SUJETO"}},
	},
	LineOutputs: []abi.Field{{Name: "montoDescu", Kind: "amount"}, {Name: "compra", Kind: "amount"}},
	Summary:     []string{"totalCompra", "descu", "totalDescu", "subTotal", "reteRenta", "totalPagar"},
	Faults: []abi.FaultText{
		faultQuantity:       {Code: "QUANTITY_NOT_POSITIVE", Message: "La cantidad debe ser mayor que cero"},
		faultPrice:          {Code: "PRICE_NEGATIVE", Message: "El precio no puede ser negativo"},
		faultDiscount:       {Code: "DISCOUNT_ABOVE_LINE", Message: "El descuento debe estar entre cero y el monto de la línea"},
		faultOverflow:       {Code: "AMOUNT_OVERFLOW", Message: "El monto, o la suma hasta esta línea, supera 92,000,000,000.00"},
		faultGlobalDiscount: {Code: "GLOBAL_DISCOUNT_ABOVE_TOTAL", Message: "El descuento global debe estar entre cero y el total que descuenta"},
		faultCents:          {Code: "GLOBAL_DISCOUNT_CENTS", Message: "El descuento global lleva a lo sumo dos decimales"},
		faultPayments:       {Code: "PAYMENTS_NOT_TOTAL", Message: "Los pagos deben sumar el total a pagar"},
	},
}

// evaluate computes an excluded-subject invoice (MF2 pp.45-54).
func evaluate(in *abi.Input, out *abi.Output) {
	var bought, discounts int64
	columns, outputs := len(description.Columns), len(description.LineOutputs)
	out.Lines = sdk.Zeroed(out.Lines, in.N*outputs)
	for i := range in.N {
		row := in.Lines[i*columns : (i+1)*columns]
		gross, fault, column := line(row)
		if fault >= 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: fault, Line: i, Column: column})
			continue
		}
		result := out.Lines[i*outputs:]
		result[outDescuento] = optional(row[colDescuento])
		result[outCompra] = gross - result[outDescuento]
		var ok1, ok2 bool
		bought, ok1 = sdk.Add(bought, result[outCompra])
		discounts, ok2 = sdk.Add(discounts, result[outDescuento])
		if !ok1 || !ok2 {
			out.Faults = append(out.Faults, abi.Fault{Code: faultOverflow, Line: i, Column: -1})
			return
		}
	}
	if len(out.Faults) > 0 {
		return
	}
	summary(in, out, sdk.Round2(bought), discounts)
}

// line is cantidad × precioUni (MF2 p.45: the discount is the line's), or a fault with its column.
func line(row []int64) (gross int64, fault, column int) {
	switch {
	case row[colCantidad] <= 0:
		return 0, faultQuantity, colCantidad
	case row[colPrecio] < 0:
		return 0, faultPrice, colPrecio
	}
	gross, ok := sdk.Times(row[colCantidad], row[colPrecio])
	if !ok {
		return 0, faultOverflow, colPrecio
	}
	if descu := optional(row[colDescuento]); descu < 0 || descu > gross {
		return 0, faultDiscount, colDescuento
	}
	return gross, -1, -1
}

// summary closes the document. total is in cents, discounts those of the lines.
func summary(in *abi.Input, out *abi.Output, total, discounts int64) {
	refuse := func(code, scalar int) {
		out.Faults = append(out.Faults, abi.Fault{Code: code, Line: -1, Column: scalar})
	}
	descu := optional(in.Scalars[scaDescu])
	switch {
	case descu < 0 || descu > total:
		refuse(faultGlobalDiscount, scaDescu)
		return
	case descu%cent != 0:
		refuse(faultCents, scaDescu)
		return
	}
	totalDescu, ok := sdk.Add(discounts, descu)
	if !ok {
		refuse(faultOverflow, -1)
		return
	}
	subTotal := total - descu
	var renta int64
	if sdk.Flag(in.Scalars[scaRenta]) { // art. 156 of the tax code: on the amount of the operation
		renta, _ = sdk.Cents(subTotal, in.Params[rentaRate], sdk.One) // a rate below one: within the subtotal
	}
	pay := subTotal - renta
	if sum := in.Scalars[scaPagos]; sum != abi.Absent && sum != pay {
		refuse(faultPayments, scaPagos)
		return
	}
	out.Summary = append(out.Summary, total, descu, sdk.Round2(totalDescu), subTotal, renta, pay)
}

func optional(n int64) int64 {
	if n == abi.Absent {
		return 0
	}
	return n
}
