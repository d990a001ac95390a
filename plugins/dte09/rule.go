// Module dte09 computes the accounting document of a liquidation (DTE-09).
package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Params, in the order of the description.
const (
	ivaRate = iota
	perciRate
)

// Columns, in the order of the description.
const (
	colValor = iota
	colSin
	colComision
)

// Faults: indexes into the description's Faults.
const (
	faultOne = iota
	faultAmount
	faultSin
	faultCommission
)

// description describes the accounting document of a liquidation. With it, a card company pays a shop's card sales,
// less the perceived VAT and the commission. The document's body is one object: one line here. MH's schema has
// no summary.
var description = &abi.Description{
	Name:   "dte09",
	Params: []abi.Param{{Name: "ivaRate", Unit: "ratio"}, {Name: "ivaPercibidoRate", Unit: "ratio"}},
	Columns: append([]abi.Field{{Name: "valorOperaciones", Kind: "amount", Required: true}},
		sdk.Amounts("montoSinPercepcion", "comision")...),
	LineOutputs: sdk.Amounts("montoSinPercepcion", "subTotal", "iva", "montoSujetoPercepcion", "ivaPercibido",
		"comision", "ivaComision", "liquidoApagar"),
	Summary: []string{"liquidoApagar"},
	Faults: []abi.FaultText{
		faultOne: {Code: "ONE_LIQUIDATION", Message: "Un documento contable liquida un solo período"},
		faultAmount: {Code: "LIQUIDATION_AMOUNT",
			Message: "El monto no es negativo y lleva a lo sumo dos decimales"},
		faultSin: {Code: "EXEMPT_NOT_BELOW_AMOUNT",
			Message: "Lo no sujeto a percepción debe ser menor que el valor de las operaciones"},
		faultCommission: {Code: "NOTHING_LEFT_TO_PAY",
			Message: "La percepción, la comisión y su IVA no dejan nada que pagar"},
	},
}

// evaluate computes the liquidation (ME fields 45-56). Sales include VAT, and the perception is a share of the sales
// without VAT.
func evaluate(in *abi.Input, out *abi.Output) {
	refuse := func(code, column int) {
		out.Faults = append(out.Faults, abi.Fault{Code: code, Line: 0, Column: column})
	}
	if in.N != 1 {
		out.Faults = append(out.Faults, abi.Fault{Code: faultOne, Line: -1, Column: -1})
		return
	}
	value, exempt, commission := in.Lines[colValor], sdk.Optional(in.Lines[colSin]), sdk.Optional(in.Lines[colComision])
	for column, n := range [...]int64{value, exempt, commission} {
		if n < 0 || n > sdk.Max || n%sdk.Cent != 0 {
			refuse(faultAmount, column)
		}
	}
	if exempt >= value {
		refuse(faultSin, colSin)
	}
	if len(out.Faults) > 0 {
		return
	}
	subTotal := value - exempt
	net, _ := sdk.Cents(subTotal, sdk.One, sdk.One+in.Params[ivaRate]) // no overflow: it is below the subtotal
	perceived, _ := sdk.Cents(net, in.Params[perciRate], sdk.One)
	tax, _ := sdk.Cents(commission, in.Params[ivaRate], sdk.One)
	paid := value - perceived - commission - tax
	if paid <= 0 {
		refuse(faultCommission, colComision)
		return
	}
	out.Lines = append(out.Lines, exempt, subTotal, subTotal-net, net, perceived, commission, tax, paid)
	out.Summary = append(out.Summary, paid)
}

func init() { sdk.Register(description, evaluate) }

func main() {}
