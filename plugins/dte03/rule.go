// Module dte03 computes the tax credit voucher (DTE-03).
package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Params, in the order of the description.
const (
	ivaRate = iota
	ivaReteRate
	ivaPerciRate
	reteThreshold
	turismoRate
	salidaAmount
	fovialRate
	cotransRate
)

// description describes the tax credit voucher. Prices are without VAT. operacionBruta is not in the document: the
// overlay of the previous generation uses it for montoTotalOperacion.
var description = &abi.Description{
	Name: "dte03",
	Params: []abi.Param{{Name: "ivaRate", Unit: "ratio"}, {Name: "ivaReteRate", Unit: "ratio"},
		{Name: "ivaPerciRate", Unit: "ratio"}, {Name: "reteThreshold", Unit: "USD"},
		{Name: "turismoRate", Unit: "ratio"}, {Name: "salidaAmount", Unit: "USD"},
		{Name: "fovialRate", Unit: "USD per gallon"}, {Name: "cotransRate", Unit: "USD per gallon"}},
	Scalars:     sdk.SaleScalars(),
	Columns:     sdk.SaleColumns(sdk.Taxes),
	LineOutputs: sdk.SaleOutputs(),
	Summary: sdk.SaleSummary("ivaPerci", "ivaRete", "montoTotalOperacion", "totalNoGravado", "totalPagar",
		"saldoFavor", "operacionBruta"),
	Taxes:  sdk.Taxes,
	Faults: sdk.SaleFaults(),
}

var layout = sdk.Layout{Columns: sdk.ColTributos + 1, Outputs: sdk.OutTributos + 1, TaxBit: sdk.TaxBits, Net: sdk.One,
	Default: 1 << sdk.TaxIVA}

// evaluate computes a tax credit voucher (MF2 pp.46-54).
func evaluate(in *abi.Input, out *abi.Output) {
	var s sdk.Sale
	if !s.Lines(&layout, in, out, sdk.RatesOf(in.Params[turismoRate:])) {
		return
	}
	base := s.Gravada - s.DescuGravada
	percent := func(param int) int64 {
		n, _ := sdk.Cents(base, in.Params[param], sdk.One) // no overflow, because rates are below one
		return n
	}
	s.Taxes[sdk.TaxIVA] = percent(ivaRate)
	var rete, perci int64
	retains, perceives := sdk.Flag(in.Scalars[sdk.ScaRetencion]), sdk.Flag(in.Scalars[sdk.ScaPercepcion])
	switch {
	case retains && perceives:
		out.Faults = append(out.Faults, abi.Fault{Code: sdk.FaultBothRetentions, Line: -1, Column: sdk.ScaPercepcion})
		return
	case retains:
		rete = percent(ivaReteRate)
		if base < in.Params[reteThreshold] { // art. 162 of the tax code
			out.Faults = append(out.Faults, abi.Fault{Code: sdk.WarnRetention, Line: -1, Column: sdk.ScaRetencion})
		}
	case perceives:
		perci = percent(ivaPerciRate)
	}
	taxes, pay, ok := s.Close(out, perci, rete)
	if !ok {
		return
	}
	// In DTE 2.0, the retention is subtracted from montoTotalOperacion (MF2 p.47: 697.50 + 90.68 − 6.98 = 781.20). In
	// the previous generation it is not subtracted; the overlay of that generation uses operacionBruta. totalPagar is
	// the same in both generations.
	operation := pay - s.NoGravado
	toPay := max(0, pay)
	if !sdk.Payments(in, out, toPay) {
		return
	}
	s.Append(out, perci, rete, operation, s.NoGravado, toPay, min(0, pay), s.SubTotal+taxes)
}

func init() { sdk.Register(description, evaluate) }

func main() {}
