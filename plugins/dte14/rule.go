// Module dte14 computes the excluded-subject invoice (DTE-14).
package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Params, in the order of the description.
const rentaRate = 0

// columns and outputs of a line: sdk.Priced reads the first three columns and writes both outputs.
const columns, outputs = 4, 2

// Scalars, in the order of the description.
const (
	scaRenta = iota
	scaDescu
	scaPagos
)

// Faults: indexes into the description's Faults, after those of sdk.Priced.
const (
	faultGlobalDiscount = sdk.FaultOverflow + 1 + iota
	faultCents
	faultPayments
)

// description describes the excluded-subject invoice. The buyer issues it, without VAT.
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
		// tipoImpuesto changes nothing: every line is a purchase. As an enum it refuses a misspelt word.
		{Name: "tipoImpuesto", Kind: "enum", Values: []string{"", "GRAVADO", "SUJETO_EXCLUIDO", "EXENTO", "NO_SUJETO"}},
	},
	LineOutputs: sdk.Amounts("montoDescu", "compra"),
	Summary:     []string{"totalCompra", "descu", "totalDescu", "subTotal", "reteRenta", "totalPagar"},
	Faults: append(sdk.SaleFaults()[:sdk.FaultOverflow+1],
		sdk.SaleFaults()[sdk.FaultGlobalDiscount:sdk.FaultPayments+1]...),
}

// evaluate computes an excluded-subject invoice (MF2 pp.45-54).
func evaluate(in *abi.Input, out *abi.Output) {
	bought, discounts, ok := sdk.Priced(in, out, columns, outputs)
	if ok {
		summary(in, out, sdk.Round2(bought), discounts)
	}
}

// summary computes the document's totals, in 1e-8. total is the sum of the lines, rounded to cents; discounts is the
// sum of the lines' discounts, not rounded.
func summary(in *abi.Input, out *abi.Output, total, discounts int64) {
	refuse := func(code, scalar int) {
		out.Faults = append(out.Faults, abi.Fault{Code: code, Line: -1, Column: scalar})
	}
	descu := sdk.Optional(in.Scalars[scaDescu])
	switch {
	case descu < 0 || descu > total:
		refuse(faultGlobalDiscount, scaDescu)
		return
	case descu%sdk.Cent != 0:
		refuse(faultCents, scaDescu)
		return
	}
	totalDescu, ok := sdk.Add(discounts, descu)
	if !ok {
		refuse(sdk.FaultOverflow, -1)
		return
	}
	subTotal := total - descu
	var renta int64
	if sdk.Flag(in.Scalars[scaRenta]) { // on the amount of the operation (art. 156 of the tax code)
		renta, _ = sdk.Cents(subTotal, in.Params[rentaRate], sdk.One) // no overflow, because the rate is below one
	}
	pay := subTotal - renta
	if sum := in.Scalars[scaPagos]; sum != abi.Absent && sum != pay {
		refuse(faultPayments, scaPagos)
		return
	}
	out.Summary = append(out.Summary, total, descu, sdk.Round2(totalDescu), subTotal, renta, pay)
}

func init() { sdk.Register(description, evaluate) }

func main() {}
