// Module dte04 computes the remission note (DTE-04).
package main

import (
	"slices"

	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Params, in the order of the description.
const (
	ivaRate = iota
	turismoRate
	salidaAmount
	fovialRate
	cotransRate
)

// Faults after those of a sale.
const (
	faultNoGravado = sdk.FaultNothing + 1 + iota
	faultMixed
)

// description describes the remission note: goods in transit before a sale, or without a sale. Prices are without VAT.
var description = &abi.Description{
	Name: "dte04",
	Params: []abi.Param{{Name: "ivaRate", Unit: "ratio"}, {Name: "turismoRate", Unit: "ratio"},
		{Name: "salidaAmount", Unit: "USD"},
		{Name: "fovialRate", Unit: "USD per gallon"}, {Name: "cotransRate", Unit: "USD per gallon"}},
	Scalars:     sdk.SaleScalars()[:sdk.ScaPagos], // nothing is paid
	Columns:     sdk.SaleColumns(sdk.ExportTaxes),
	LineOutputs: sdk.SaleOutputs(),
	Summary:     sdk.SaleSummary("montoTotalOperacion"),
	Taxes:       sdk.ExportTaxes,
	Faults: append(sdk.SaleFaults(),
		abi.FaultText{Code: "NO_GRAVADO_NOT_TAKEN", Message: "Este documento no lleva montos no gravados"},
		abi.FaultText{Code: "EXPORT_AND_DOMESTIC",
			Message: "Lo que se remite para exportación (C3) va en una nota de remisión aparte"}),
}

var layout = sdk.Layout{Columns: sdk.ColTributos + 1, Outputs: sdk.OutTributos + 1, Net: sdk.One,
	Default: 1 << sdk.TaxIVA, TaxBit: append(slices.Clone(sdk.TaxBits), sdk.TaxExport)}

// evaluate computes a remission note as a sale that is not paid (MF2 pp.32-35, 45). Goods for export (C3) have no VAT.
func evaluate(in *abi.Input, out *abi.Output) {
	var s sdk.Sale
	if !s.Lines(&layout, in, out, sdk.RatesOf(in.Params[turismoRate:])) {
		return
	}
	for i := range in.N {
		if out.Lines[i*layout.Outputs+sdk.OutNoGravado] != 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: faultNoGravado, Line: i, Column: sdk.ColNoGravado})
			return
		}
	}
	if s.Named>>sdk.TaxExport&1 == 0 {
		// No overflow, because the rate is below one.
		s.Taxes[sdk.TaxIVA], _ = sdk.Cents(s.Gravada-s.DescuGravada, in.Params[ivaRate], sdk.One)
	} else if s.Named>>sdk.TaxIVA&1 != 0 { // with both taxes, a global discount would have two bases
		out.Faults = append(out.Faults, abi.Fault{Code: faultMixed, Line: -1, Column: -1})
		return
	}
	taxes, _, ok := s.Close(out, 0, 0)
	if !ok {
		return
	}
	s.Append(out, s.SubTotal+taxes)
}

func init() { sdk.Register(description, evaluate) }

func main() {}
