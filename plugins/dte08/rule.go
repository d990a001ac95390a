// Module dte08 computes the liquidation voucher (DTE-08).
package main

import (
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

// Columns, in the order of the description: the sales of each document, its other taxes, and its perceived VAT.
const (
	colGravada  = 2
	colExportac = 3
	colTax      = 4 // the first of the columns of other taxes
	colPerci    = colTax + 4
	columns     = colPerci + 1
)

// Line outputs, in the order of the description.
const (
	outIva = colTax + iota
	outTributos
	outputs
)

// others lists the taxes of the columns from colTax on, as indexes into sdk.ExportTaxes.
var others = [...]int{sdk.TaxTurismo, sdk.TaxSalida, sdk.TaxFovial, sdk.TaxCotrans}

// Faults: indexes into the description's Faults.
const (
	faultEmpty = iota
	faultPerception
	faultOverflow
)

// description describes the liquidation voucher. With it, the seller of another taxpayer's goods lists the documents of
// these sales. Amounts of an invalidated document are below zero.
var description = &abi.Description{
	Name:   "dte08",
	Params: []abi.Param{{Name: "ivaRate", Unit: "ratio"}},
	Columns: sdk.Amounts("ventaNoSuj", "ventaExenta", "ventaGravada", "exportaciones", "turismo", "salida", "fovial",
		"cotrans", "ivaPerci"),
	LineOutputs: append(sdk.Amounts("ventaNoSuj", "ventaExenta", "ventaGravada", "exportaciones", "ivaItem"),
		abi.Field{Name: "tributos", Kind: "set"}),
	Summary: []string{"totalNoSuj", "totalExenta", "totalGravada", "exportacion", "subTotalVentas",
		"montoTotalOperacion", "ivaPerci", "total"},
	Taxes: sdk.ExportTaxes,
	Faults: []abi.FaultText{
		faultEmpty: {Code: "LIQUIDATION_LINE_EMPTY", Message: "La línea no informa ningún monto"},
		faultPerception: {Code: "PERCEPTION_NEGATIVE",
			Message: "El IVA percibido de los documentos no suma menos de cero"},
		faultOverflow: {Code: "AMOUNT_OVERFLOW", Message: "La suma hasta esta línea supera 92,000,000,000.00"},
	},
}

// evaluate adds up a liquidation (MF2 p.43; ME fields 43-60). subTotalVentas and taxes below zero are written as zero.
func evaluate(in *abi.Input, out *abi.Output) {
	out.Lines = sdk.Zeroed(out.Lines, in.N*outputs)
	var sums [columns]int64
	var named int64
	for i := range in.N {
		row, result := in.Lines[i*columns:], out.Lines[i*outputs:]
		empty := true
		for c := range columns {
			n := sdk.Optional(row[c])
			empty = empty && n == 0
			sum, ok := sdk.Add(sums[c], n)
			if !ok {
				out.Faults = append(out.Faults, abi.Fault{Code: faultOverflow, Line: i, Column: c})
				return
			}
			sums[c] = sum
			switch {
			case c < colTax:
				result[c] = n
			case c < colPerci && n != 0:
				result[outTributos] |= 1 << others[c-colTax]
			}
		}
		if empty {
			out.Faults = append(out.Faults, abi.Fault{Code: faultEmpty, Line: i, Column: -1})
			continue
		}
		if result[colGravada] != 0 {
			result[outTributos] |= 1 << sdk.TaxIVA
		}
		if result[colExportac] != 0 {
			result[outTributos] |= 1 << sdk.TaxExport
		}
		result[outIva], _ = sdk.MulDiv(result[colGravada], in.Params[ivaRate], sdk.One) // informative
		named |= result[outTributos]
	}
	for c := range sums {
		sums[c] = sdk.Round2(sums[c])
	}
	if sums[colPerci] < 0 {
		out.Faults = append(out.Faults, abi.Fault{Code: faultPerception, Line: -1, Column: -1})
	}
	if len(out.Faults) == 0 {
		summary(in, out, &sums, named)
	}
}

const ivaRate = 0

func summary(in *abi.Input, out *abi.Output, sums *[columns]int64, named int64) {
	var all int64
	ok := true
	sum := func(n int64) {
		var fits bool
		all, fits = sdk.Add(all, n)
		ok = ok && fits
	}
	for _, n := range sums[:colTax] {
		sum(n)
	}
	sold := max(0, all)
	all = sold
	iva, _ := sdk.Cents(sums[colGravada], in.Params[ivaRate], sdk.One) // no overflow, because the rate is below one
	var taxes [sdk.TaxExport + 1]int64
	taxes[sdk.TaxIVA] = max(0, iva)
	for i, tax := range others {
		taxes[tax] = max(0, sums[colTax+i])
	}
	for tax, n := range taxes {
		sum(n)
		if named>>tax&1 != 0 {
			out.Taxes = append(out.Taxes, abi.Tax{Tax: tax, Amount: n})
		}
	}
	operation := all
	sum(sums[colPerci])
	if !ok {
		out.Faults = append(out.Faults, abi.Fault{Code: faultOverflow, Line: -1, Column: -1})
		return
	}
	out.Summary = append(out.Summary, sums[0], sums[1], sums[colGravada], sums[colExportac], sold, operation,
		sums[colPerci], all)
}

func init() { sdk.Register(description, evaluate) }

func main() {}
