package sdk

import (
	"slices"

	"dtegate/rules/abi"
)

// Columns of every sale with items, in this order. A rule may add others after them.
const (
	ColCantidad = iota
	ColPrecio
	ColDescuento
	ColImpuesto
	ColNoGravado
	ColTipoItem
	ColUnidad
	ColCodTributo
	ColTributos
)

// Values of ColImpuesto.
const (
	Gravado = iota
	Exento
	NoSujeto
)

// Amounts describes optional inputs, or outputs, of the kind amount.
func Amounts(names ...string) []abi.Field {
	fields := make([]abi.Field, len(names))
	for i, name := range names {
		fields[i] = abi.Field{Name: name, Kind: "amount"}
	}
	return fields
}

// SaleColumns describes the columns of a sale. tributos are the taxes that a line may name.
func SaleColumns(tributos []string) []abi.Field {
	return []abi.Field{
		{Name: "cantidad", Kind: "amount", Required: true},
		{Name: "precioUni", Kind: "amount", Required: true},
		{Name: "montoDescu", Kind: "amount"},
		{Name: "tipoImpuesto", Kind: "enum", Values: []string{"GRAVADO", "EXENTO", "NO_SUJETO"}},
		{Name: "noGravado", Kind: "amount"},
		{Name: "tipoItem", Kind: "integer"},
		{Name: "uniMedida", Kind: "integer"},
		{Name: "codTributo", Kind: "enum", Values: []string{"", "A8", "57", "90", "A6"}}, // CAT-015 section 2
		{Name: "tributos", Kind: "set", Values: tributos},
	}
}

// Scalars of every sale, in this order.
const (
	ScaRetencion = iota
	ScaDescuGravada
	ScaDescuExenta
	ScaDescuNoSuj
	ScaPagos
	ScaReceptor
	ScaPercepcion
)

// SaleScalars describes the scalars of a sale. The sum of the payments is absent when no payment names an amount.
func SaleScalars() []abi.Field {
	return []abi.Field{
		{Name: "isRetenIva", Kind: "flag"},
		{Name: "descuentoGlobal.gravada", Kind: "amount"},
		{Name: "descuentoGlobal.exenta", Kind: "amount"},
		{Name: "descuentoGlobal.noSujeta", Kind: "amount"},
		{Name: "resumen.pagos[].montoPago", Kind: "amount"},
		{Name: "receptor.numDocumento", Kind: "present"},
		{Name: "isPerciIva", Kind: "flag"},
	}
}

// Faults of a sale: indexes of SaleFaults. A code is never reused for another meaning.
const (
	FaultQuantity = iota
	FaultPrice
	FaultDiscount
	FaultOverflow
	FaultNoGravado
	FaultTaxLine
	FaultTaxOnExempt
	FaultGallons
	FaultGlobalDiscount
	FaultCents
	FaultPayments
	FaultReceptor
	FaultBothRetentions
	WarnRetention
	FaultNothing
)

// SaleFaults are the texts of a sale's faults.
func SaleFaults() []abi.FaultText {
	return []abi.FaultText{
		FaultQuantity: {Code: "QUANTITY_NOT_POSITIVE", Message: "La cantidad debe ser mayor que cero"},
		FaultPrice:    {Code: "PRICE_NEGATIVE", Message: "El precio no puede ser negativo"},
		FaultDiscount: {Code: "DISCOUNT_ABOVE_LINE",
			Message: "El descuento debe estar entre cero y el monto de la línea"},
		FaultOverflow: {Code: "AMOUNT_OVERFLOW",
			Message: "El monto, o la suma hasta esta línea, supera 92,000,000,000.00"},
		FaultNoGravado: {Code: "NO_GRAVADO_LINE",
			Message: "Un cargo no gravado va en una línea con cantidad 1, precio 0 y unidad de medida 99, sin " +
				"descuento ni tributos"},
		FaultTaxLine: {Code: "TAX_LINE",
			Message: "Un tributo va en una línea gravada con cantidad 1, tipo de ítem 4 y unidad de medida 99, sin " +
				"descuento, otros tributos ni cargo no gravado"},
		FaultTaxOnExempt: {Code: "TAX_ON_EXEMPT_LINE",
			Message: "Una línea que no es gravada no lleva el IVA (tributo 20)"},
		FaultGallons: {Code: "TAX_NEEDS_GALLONS",
			Message: "FOVIAL y COTRANS se calculan por galón: la unidad de medida debe ser 22"},
		FaultGlobalDiscount: {Code: "GLOBAL_DISCOUNT_ABOVE_TOTAL",
			Message: "El descuento global debe estar entre cero y el total que descuenta"},
		FaultCents: {Code: "GLOBAL_DISCOUNT_CENTS",
			Message: "El descuento global lleva a lo sumo dos decimales"},
		FaultPayments: {Code: "PAYMENTS_NOT_TOTAL", Message: "Los pagos deben sumar el total a pagar"},
		FaultReceptor: {Code: "RECEPTOR_NOT_IDENTIFIED",
			Message: "Desde este monto el cliente debe identificarse con su nombre y su documento"},
		FaultBothRetentions: {Code: "RETENTION_AND_PERCEPTION",
			Message: "Una operación no lleva retención y percepción de IVA a la vez"},
		WarnRetention: {Code: "RETENTION_BELOW_THRESHOLD",
			Message: "Se aplicó la retención de IVA por debajo del monto desde el que la ley la exige", Warning: true},
		FaultNothing: {Code: "NOTHING_SOLD",
			Message: "Un cargo no gravado necesita al menos otra línea con venta"},
	}
}

// Line outputs of a sale, in this order. A rule may add others after them.
const (
	OutNoSuj = iota
	OutExenta
	OutGravada
	OutDescuento
	OutNoGravado
	OutPsv
	OutTributos
)

// SaleOutputs describes the line outputs of a sale.
func SaleOutputs() []abi.Field {
	return append(Amounts("ventaNoSuj", "ventaExenta", "ventaGravada", "montoDescu", "noGravado", "psv"),
		abi.Field{Name: "tributos", Kind: "set"})
}

// SaleSummary returns the names of the amounts in a sale's summary, followed by the names in own (see Sale.Append).
func SaleSummary(own ...string) []string {
	return append([]string{"totalNoSuj", "totalExenta", "totalGravada", "subTotalVentas", "descuNoSuj", "descuExenta",
		"descuGravada", "porcentajeDescuento", "totalDescu", "subTotal"}, own...)
}

// Taxes are the taxes of CAT-015 that sales compute, in the order of the summary. TaxBits are the indexes of these
// taxes, for Layout.TaxBit.
var (
	Taxes   = []string{"20", "59", "71", "D1", "C8"}
	TaxBits = []int{TaxIVA, TaxTurismo, TaxSalida, TaxFovial, TaxCotrans}
)

const (
	TaxIVA = iota
	TaxTurismo
	TaxSalida
	TaxFovial
	TaxCotrans
	TaxExport
)

// ExportTaxes are Taxes and C3, the VAT of 0 % that only exports and remission notes may have (MF2 p.32).
var ExportTaxes = append(slices.Clone(Taxes), "C3")

// MaxTaxes is how many taxes a rule may have, including the rule's own levies.
const MaxTaxes = 16

// Rates are the rates of the taxes of CAT-015 section 1, in 1e-8.
type Rates struct{ Turismo, Salida, Fovial, Cotrans int64 }

// RatesOf reads the rates from the first four items of params.
func RatesOf(params []int64) *Rates { return &Rates{params[0], params[1], params[2], params[3]} }
