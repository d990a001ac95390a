// Module dte15 computes the donation voucher (DTE-15).
package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

const (
	columns, outputs = 4, 2
	colTipo          = 3 // the kind of donation, CAT-026
	money            = 1 // value of colTipo: a donation of money
)

const faultPayments = sdk.FaultOverflow + 1

// description describes the donation voucher. The donee issues it, and nothing is sold.
var description = &abi.Description{
	Name:    "dte15",
	Scalars: sdk.Amounts("resumen.pagos[].montoPago"),
	Columns: []abi.Field{
		{Name: "cantidad", Kind: "amount", Required: true},
		{Name: "valorUni", Kind: "amount", Required: true},
		{Name: "depreciacion", Kind: "amount"},
		{Name: "tipoDonacion", Kind: "integer", Required: true},
	},
	LineOutputs: sdk.Amounts("depreciacion", "valor"),
	Summary:     []string{"valorTotal", "efectivo"},
	Faults: []abi.FaultText{
		sdk.FaultQuantity: sdk.SaleFaults()[sdk.FaultQuantity],
		sdk.FaultPrice:    sdk.SaleFaults()[sdk.FaultPrice],
		sdk.FaultDiscount: {Code: "DEPRECIATION_ABOVE_VALUE",
			Message: "La depreciación debe estar entre cero y el valor de la línea"},
		sdk.FaultOverflow: sdk.SaleFaults()[sdk.FaultOverflow],
		faultPayments:     {Code: "PAYMENTS_NOT_MONEY", Message: "Los pagos deben sumar lo donado en efectivo"},
	},
}

// evaluate sums a donation: value times quantity, less depreciation (MF2 pp.51-52). The payments must add up to the
// donated money.
func evaluate(in *abi.Input, out *abi.Output) {
	total, _, ok := sdk.Priced(in, out, columns, outputs)
	if !ok {
		return
	}
	var given int64
	for i := range in.N {
		if in.Lines[i*columns+colTipo] == money {
			given += out.Lines[i*outputs+1] // cannot overflow: it is at most the sum of all lines
		}
	}
	given = sdk.Round2(given)
	if sum := in.Scalars[0]; sum != abi.Absent && sum != given {
		out.Faults = append(out.Faults, abi.Fault{Code: faultPayments, Line: -1, Column: 0})
		return
	}
	out.Summary = append(out.Summary, sdk.Round2(total), given)
}

func init() { sdk.Register(description, evaluate) }

func main() {}
