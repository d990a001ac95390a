// Module dte01 computes the consumer invoice (DTE-01).
package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Params, in the order of the description.
const (
	ivaRate = iota
	ivaReteRate
	reteThreshold
	identification
	turismoRate
	salidaAmount
	fovialRate
	cotransRate
)

// tributos lists the taxes that a line of a consumer invoice may name. VAT (20) is not among them: MH refuses a line
// that names it (096).
var tributos = []string{"59", "71", "D1", "C8"}

const ivaItem = sdk.OutTributos + 1

// description describes the consumer invoice. Prices include VAT.
var description = &abi.Description{
	Name: "dte01",
	Params: []abi.Param{{Name: "ivaRate", Unit: "ratio"}, {Name: "ivaReteRate", Unit: "ratio"},
		{Name: "reteThreshold", Unit: "USD"}, {Name: "identificationThreshold", Unit: "USD"},
		{Name: "turismoRate", Unit: "ratio"}, {Name: "salidaAmount", Unit: "USD"},
		{Name: "fovialRate", Unit: "USD per gallon"}, {Name: "cotransRate", Unit: "USD per gallon"}},
	Scalars:     sdk.SaleScalars(),
	Columns:     sdk.SaleColumns(tributos),
	LineOutputs: append(sdk.SaleOutputs(), sdk.Amounts("ivaItem")...),
	Summary: sdk.SaleSummary("ivaRete", "montoTotalOperacion", "totalNoGravado", "totalPagar", "totalIva",
		"saldoFavor"),
	Taxes:  sdk.Taxes,
	Faults: sdk.SaleFaults(),
}

// taxBits are the indexes in sdk.Taxes of the taxes in tributos, in that order.
var taxBits = [...]int{sdk.TaxTurismo, sdk.TaxSalida, sdk.TaxFovial, sdk.TaxCotrans}

// evaluate computes a consumer invoice (MF2 pp.45-54; ME field 89 for totalIva).
func evaluate(in *abi.Input, out *abi.Output) {
	rate := in.Params[ivaRate]
	net := sdk.One + rate
	layout := &sdk.Layout{Columns: sdk.ColTributos + 1, Outputs: ivaItem + 1, TaxBit: taxBits[:], Net: net}
	var s sdk.Sale
	if !s.Lines(layout, in, out, sdk.RatesOf(in.Params[turismoRate:])) {
		return
	}
	// The VAT in a price that includes it is price × 13/113, to 8 decimals for each line, and never price × 13 %.
	iva := sdk.Shares(out.Lines, layout.Outputs, sdk.OutGravada, ivaItem, rate, net)
	var rete int64
	if sdk.Flag(in.Scalars[sdk.ScaRetencion]) {
		base := s.Gravada - s.DescuGravada
		rete, _ = sdk.Cents(base, in.Params[ivaReteRate], net)
		if net, _ := sdk.MulDiv(base, sdk.One, net); net < in.Params[reteThreshold] {
			out.Faults = append(out.Faults, abi.Fault{Code: sdk.WarnRetention, Line: -1, Column: sdk.ScaRetencion})
		}
	}
	taxes, pay, ok := s.Close(out, 0, rete)
	if !ok {
		return
	}
	operation := s.SubTotal + taxes
	if operation >= in.Params[identification] && in.Scalars[sdk.ScaReceptor] != 1 {
		out.Faults = append(out.Faults, abi.Fault{Code: sdk.FaultReceptor, Line: -1, Column: sdk.ScaReceptor})
		return
	}
	toPay := max(0, pay)
	if !sdk.Payments(in, out, toPay) {
		return
	}
	iva = max(0, sdk.LessPart(iva, s.DescuGravada, rate, net))
	s.Append(out, rete, operation, s.NoGravado, toPay, iva, min(0, pay))
}

func init() { sdk.Register(description, evaluate) }

func main() {}
