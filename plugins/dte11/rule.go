// Module dte11 computes the export invoice (DTE-11).
package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Params, in the order of the description.
const (
	fovialRate = iota
	cotransRate
)

// Scalars after those of a sale.
const (
	scaSeguro = sdk.ScaPercepcion + 1 + iota
	scaFlete
)

const faultCarriage = sdk.FaultNothing + 1

// description describes the export invoice. Its VAT is 0 % (C3).
var description = &abi.Description{
	Name: "dte11",
	Params: []abi.Param{{Name: "fovialRate", Unit: "USD per gallon"},
		{Name: "cotransRate", Unit: "USD per gallon"}},
	Scalars:     append(sdk.SaleScalars(), sdk.Amounts("resumen.seguro", "resumen.flete")...),
	Columns:     columns(),
	LineOutputs: sdk.SaleOutputs(),
	Summary: []string{"totalGravada", "descuGravada", "porcentajeDescuento", "totalDescu", "seguro", "flete",
		"montoTotalOperacion", "totalNoGravado", "totalPagar", "saldoFavor"},
	Taxes: sdk.ExportTaxes,
	Faults: append(sdk.SaleFaults(),
		abi.FaultText{Code: "CARRIAGE_CENTS",
			Message: "El seguro y el flete no son negativos y llevan a lo sumo dos decimales"}),
}

// columns returns the columns of a sale. Every line is taxed, at 0 %.
func columns() []abi.Field {
	all := sdk.SaleColumns([]string{"D1", "C8", "C3"})
	all[sdk.ColImpuesto].Values = all[sdk.ColImpuesto].Values[:1]
	return all
}

var layout = sdk.Layout{Columns: sdk.ColTributos + 1, Outputs: sdk.OutTributos + 1, Net: sdk.One,
	Default: 1 << sdk.TaxExport, TaxBit: []int{sdk.TaxFovial, sdk.TaxCotrans, sdk.TaxExport}}

// evaluate computes an export invoice, with insurance and freight (MF2 pp.29-36, 45; ME fields 62-70).
func evaluate(in *abi.Input, out *abi.Output) {
	seguro, flete := sdk.Optional(in.Scalars[scaSeguro]), sdk.Optional(in.Scalars[scaFlete])
	for i, n := range [...]int64{seguro, flete} {
		if n < 0 || n%sdk.Cent != 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: faultCarriage, Line: -1, Column: scaSeguro + i})
		}
	}
	var s sdk.Sale
	rates := sdk.Rates{Fovial: in.Params[fovialRate], Cotrans: in.Params[cotransRate]}
	if !s.Lines(&layout, in, out, &rates) {
		return
	}
	taxes, pay, ok1 := s.Close(out, 0, 0)
	carriage, ok2 := sdk.Add(seguro, flete)
	pay, ok3 := sdk.Add(pay, carriage)
	operation, ok4 := sdk.Add(s.SubTotal+taxes, carriage)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		out.Faults = append(out.Faults, abi.Fault{Code: sdk.FaultOverflow, Line: -1, Column: -1})
		return
	}
	toPay := max(0, pay)
	if !sdk.Payments(in, out, toPay) {
		return
	}
	out.Summary = append(out.Summary, s.Gravada, s.DescuGravada, s.Percent, s.TotalDescu, seguro, flete, operation,
		s.NoGravado, toPay, min(0, pay))
	s.AppendTaxes(out)
}

func init() { sdk.Register(description, evaluate) }

func main() {}
