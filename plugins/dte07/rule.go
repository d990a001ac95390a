// Module dte07 computes the withholding voucher (DTE-07).
package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Params, in the order of the description.
const (
	ivaRate = iota
	rate22
	rateC4
)

// Columns, in the order of the description.
const (
	colMonto = iota
	colCodigo
	colRetenido
)

// Values of colCodigo (CAT-006).
const (
	code22 = iota
	codeC4
	codeC9
)

// Faults: indexes into the description's Faults.
const (
	faultNotPositive = iota
	faultCents
	fault22
	faultC4
	faultC9
	faultOverflow
)

// description describes the withholding voucher. The till sends the amounts; the rule checks and adds them.
var description = &abi.Description{
	Name: "dte07",
	Params: []abi.Param{{Name: "ivaRate", Unit: "ratio"}, {Name: "rate22", Unit: "ratio"},
		{Name: "rateC4", Unit: "ratio"}},
	Columns: []abi.Field{
		{Name: "montoSujetoGrav", Kind: "amount", Required: true},
		{Name: "codigoRetencionMH", Kind: "enum", Required: true, Values: []string{"22", "C4", "C9"}},
		{Name: "ivaRetenido", Kind: "amount", Required: true},
	},
	Summary: []string{"totalSujetoRetencion", "totalIva", "totalIvaRetenido"},
	Faults: []abi.FaultText{
		faultNotPositive: {Code: "WITHHOLDING_NOT_POSITIVE", Message: "El monto debe ser mayor que cero"},
		faultCents:       {Code: "WITHHOLDING_CENTS", Message: "El monto lleva a lo sumo dos decimales"},
		fault22: {Code: "WITHHELD_NOT_22",
			Message: "Con el código 22 el IVA retenido es el 1 % del monto sujeto, con a lo sumo un centavo de " +
				"diferencia"},
		faultC4: {Code: "WITHHELD_NOT_C4",
			Message: "Con el código C4 el IVA retenido es el 13 % del monto sujeto, con a lo sumo un centavo de " +
				"diferencia"},
		faultC9: {Code: "WITHHELD_ABOVE_AMOUNT",
			Message: "Con el código C9 el IVA retenido no puede superar el monto sujeto"},
		faultOverflow: {Code: "AMOUNT_OVERFLOW", Message: "La suma hasta esta línea supera 92,000,000,000.00"},
	},
}

// evaluate checks and adds up a withholding voucher (CAT-006; art. 162 of the tax code).
func evaluate(in *abi.Input, out *abi.Output) {
	var base, withheld int64
	columns := len(description.Columns)
	for i := range in.N {
		row := in.Lines[i*columns : (i+1)*columns]
		if fault, column := check(row, in.Params); fault >= 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: fault, Line: i, Column: column})
			continue
		}
		var ok1, ok2 bool
		base, ok1 = sdk.Add(base, row[colMonto])
		withheld, ok2 = sdk.Add(withheld, row[colRetenido])
		if !ok1 || !ok2 {
			out.Faults = append(out.Faults, abi.Fault{Code: faultOverflow, Line: i, Column: -1})
			return
		}
	}
	if len(out.Faults) > 0 {
		return
	}
	iva, _ := sdk.Cents(base, in.Params[ivaRate], sdk.One) // no overflow, because the rate is below one; informative
	out.Summary = append(out.Summary, base, iva, withheld)
}

// check returns the fault of a line and the fault's column, or -1 if the line has no fault.
func check(row, params []int64) (fault, column int) {
	amount, withheld := row[colMonto], row[colRetenido]
	switch {
	case amount <= 0:
		return faultNotPositive, colMonto
	case amount%sdk.Cent != 0:
		return faultCents, colMonto
	case withheld <= 0:
		return faultNotPositive, colRetenido
	case withheld%sdk.Cent != 0:
		return faultCents, colRetenido
	}
	rate, wrong := params[rate22], fault22
	switch row[colCodigo] {
	case codeC4:
		rate, wrong = params[rateC4], faultC4
	case codeC9: // special cases with other rates: check only the upper limit
		if withheld > amount {
			return faultC9, colRetenido
		}
		return -1, -1
	}
	due, ok := sdk.Cents(amount, rate, sdk.One)
	if off := withheld - due; !ok || off > sdk.Cent || off < -sdk.Cent { // MF2 p.54: tolerance of a cent
		return wrong, colRetenido
	}
	return -1, -1
}

func init() { sdk.Register(description, evaluate) }

func main() {}
