package gateway

import "dtegate/engine/dte"

// shape is what a member of a request must be.
type shape uint8

const (
	isText shape = iota
	isNumber
	isInteger
	isFlag
	isObject
	isList  // of objects
	isTexts // a list of texts
)

// field is one member of a request: its name there, the fact that it becomes, and what it must be.
type field struct {
	name     string
	fact     string // "" for the same name
	shape    shape
	required bool
	min, max *dte.Amount // bounds of numbers and integers, inclusive
	above    bool        // min is exclusive
	preset   dte.Value   // the fact when the member is absent
	members  []field     // of an object, or of each object of a list
	loose    bool        // members that are not known are dropped, not refused (any receptor)
	limit    int         // most items of a list
	numbered bool        // each item gets numItem
	place    place       // where the fact goes
}

// place is the object of the facts that a top-level member belongs to.
type place uint8

const (
	inRoot place = iota
	inResumen
	inPagos // one object, the only one of resumen.pagos
	nowhere // read by the gateway itself
)

func (f *field) factName() string {
	if f.fact != "" {
		return f.fact
	}
	return f.name
}

func amount(n int64) *dte.Amount { a := dte.Amount(n) * dte.Scale; return &a }

// plain are texts that may be there.
func plain(names ...string) []field {
	fs := make([]field, len(names))
	for i, n := range names {
		fs[i] = field{name: n}
	}
	return fs
}

// required are texts that must be there.
func required(names ...string) []field {
	fs := plain(names...)
	for i := range fs {
		fs[i].required = true
	}
	return fs
}

var direccion = field{name: "direccion", shape: isObject, loose: true, members: plain("departamento", "municipio", "distrito", "complemento")}

// item is SPEC 2.6 with the extensions: tributos, codTributo, noGravado.
var item = []field{
	{name: "descripcion", required: true},
	{name: "cantidad", shape: isNumber, required: true, min: amount(0), above: true},
	{name: "precioUnitario", fact: "precioUni", shape: isNumber, required: true, min: amount(0)},
	{name: "codigo"},
	{name: "montoDescu", shape: isNumber, min: amount(0)},
	{name: "tipoImpuesto"},
	{name: "uniMedida", shape: isInteger, min: amount(1), max: amount(99), preset: dte.Int(59)},
	{name: "tipoItem", shape: isInteger, min: amount(1), max: amount(4), preset: dte.Int(1)},
	{name: "tributos", shape: isTexts, limit: 20},
	{name: "codTributo"},
	{name: "noGravado", shape: isNumber},
}

var payment = []field{
	{name: "codigo", required: true}, {name: "plazo"}, {name: "periodo", shape: isInteger, min: amount(1)}, {name: "referencia"},
}

// sale are the members that every sale has (SPEC 4.1, 4.2), behind the receptor.
var sale = []field{
	{name: "items", fact: "cuerpoDocumento", shape: isList, required: true, members: item, limit: maxItems, numbered: true},
	{name: "condicionOperacion", shape: isInteger, required: true, min: amount(1), max: amount(3), place: inResumen},
	{name: "pago", shape: isObject, members: payment, place: inPagos},
	{name: "pagos", shape: isList, members: append([]field{{name: "montoPago", shape: isNumber, min: amount(0)}}, payment...), limit: 99, place: inResumen},
	{name: "observaciones", place: inResumen},
	{name: "descuentoGlobal", shape: isObject, members: []field{{name: "gravada", shape: isNumber, min: amount(0)}, {name: "exenta", shape: isNumber, min: amount(0)}, {name: "noSujeta", shape: isNumber, min: amount(0)}}},
	{name: "testContingencia", shape: isFlag, place: nowhere},
}

// endpoint is one creation endpoint.
type endpoint struct {
	document string
	fields   []field
	receptor []string // SPEC's requiredFields, whose lack has a code of its own
}

var endpoints = map[string]*endpoint{
	"01": {document: "01", fields: append([]field{
		{name: "receptor", shape: isObject, required: true, loose: true, members: append(plain("tipoDocumento", "numDocumento", "nombre", "telefono", "correo"), direccion)},
	}, sale...)},
	"03": {document: "03", receptor: []string{"tipoDocumento", "numDocumento", "nit", "nombre"}, fields: append([]field{
		{name: "receptor", shape: isObject, required: true, loose: true, members: append(append(required("tipoDocumento", "numDocumento", "nit", "nombre"), plain("nrc",
			"codActividad", "descActividad", "nombreComercial", "telefono", "correo")...), direccion)},
		{name: "isRetenIva", shape: isFlag},
		{name: "isPerciIva", shape: isFlag},
	}, sale...)},
}
