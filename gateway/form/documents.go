package form

import "slices"

// sale are the members that every sale has (SPEC 4.1, 4.2), behind the receptor. discounts are the totals that a global
// discount may lower.
func sale(discounts ...string) []field {
	var global []field
	for _, d := range discounts {
		global = append(global, field{name: d, shape: isNumber, min: amount(0)})
	}
	fs := []field{
		{name: "items", fact: "cuerpoDocumento", shape: isList, required: true, members: item, limit: maxItems, numbered: true},
		{name: "condicionOperacion", shape: isInteger, required: true, min: amount(1), max: amount(3), place: inResumen},
		{name: "pago", shape: isObject, members: payment, place: inPagos},
		{name: "pagos", shape: isList, members: append([]field{{name: "montoPago", shape: isNumber, min: amount(0)}}, payment...), limit: 99, place: inResumen},
		{name: "observaciones", place: inResumen, blank: true, lines: true},
		{name: "testContingencia", shape: isFlag, place: nowhere},
	}
	if len(global) > 0 {
		fs = append(fs, field{name: "descuentoGlobal", shape: isObject, members: global})
	}
	return fs
}

var discounts = []string{"gravada", "exenta", "noSujeta"}

// taxpayer is a receptor that is a taxpayer (SPEC 2.5); needed are the members that it must have.
func taxpayer(needed ...string) []field {
	fs := plain("tipoDocumento", "numDocumento", "nit", "nrc", "nombre", "codActividad", "descActividad", "nombreComercial", "telefono", "correo")
	for i := range fs {
		fs[i].required = slices.Contains(needed, fs[i].name)
	}
	return append(fs, direccion)
}

func party(name string, required bool, members []field) field {
	return field{name: name, fact: "receptor", shape: isObject, required: required, loose: true, person: true, members: members}
}

// retention are the flags of a sale between taxpayers.
var retention = []field{{name: "isRetenIva", shape: isFlag}, {name: "isPerciIva", shape: isFlag}}

// note is a credit or a debit note (SPEC 4.4), in the payload's names and in the client library's, which says
// documentoRelacionado where the payload says codigoGeneracion. What neither MH's layout nor the amounts know goes to the
// appendix.
func note(document string) *Form {
	return &Form{Document: document, origin: "codigoGeneracion", either: [][2]string{{"codigoGeneracion", "documentoRelacionado"}},
		fields: slices.Concat([]field{
			{name: "codigoGeneracion", place: nowhere},
			{name: "documentoRelacionado", shape: isObject, place: nowhere, members: append(required("codigoGeneracion"), plain("tipoDte", "fechaEmision")...)},
			{name: "tipoDte", place: nowhere},
			party("receptor", false, taxpayer()),
			{name: "motivo", place: inApendice, label: "Motivo"},
			{name: "motivoModificacion", shape: isInteger, min: amount(1), max: amount(99), place: inApendice, label: "Motivo de la modificación"},
			{name: "montoAjuste", shape: isNumber, min: amount(0), place: inApendice, label: "Monto del ajuste"},
		}, retention, sale())}
}

// withholding is a line of a withholding voucher as the payload says it (SPEC 4.5); withheld as the client library does.
var (
	withholding = []field{
		{name: "numItem", shape: isInteger, required: true, min: amount(1), max: amount(maxWithholdings)},
		{name: "tipoDte", required: true},
		{name: "tipoGeneracion", shape: isInteger, required: true, min: amount(1), max: amount(2)},
		{name: "numDocumento", fact: "numeroDocumento", required: true},
		{name: "fechaEmision", required: true},
		{name: "montoSujetoGrav", shape: isNumber, required: true, min: amount(0), above: true},
		{name: "codigoRetencionMH", required: true},
		{name: "ivaRetenido", shape: isNumber, required: true, min: amount(0), above: true},
		{name: "descripcion", required: true},
	}
	withheld = []field{
		{name: "numItem", shape: isInteger, min: amount(1), max: amount(maxWithholdings)},
		{name: "tipoDocRelacionado", fact: "tipoDte", required: true},
		{name: "tipoGeneracion", shape: isInteger, min: amount(1), max: amount(2)},
		{name: "numDocRelacionado", fact: "numeroDocumento", required: true},
		{name: "fechaDocRelacionado", fact: "fechaEmision", required: true},
		{name: "montoSujetoRetencion", fact: "montoSujetoGrav", shape: isNumber, required: true, min: amount(0), above: true},
		{name: "codigoRetencion", fact: "codigoRetencionMH", required: true},
		{name: "montoRetenido", fact: "ivaRetenido", shape: isNumber, required: true, min: amount(0), above: true},
		{name: "descripcion"},
	}
)

// appendix is the apendice of MH's layouts, at most ten entries.
var appendix = required("campo", "etiqueta", "valor")

// Documents are the forms of the requests that issue a document, by type of document.
var Documents = map[string]*Form{
	"01": {Document: "01", pays: true, fields: append([]field{
		party("receptor", true, append(plain("tipoDocumento", "numDocumento", "nombre", "telefono", "correo"), direccion)),
	}, sale(discounts...)...)},
	"03": {Document: "03", pays: true, receptor: []string{"tipoDocumento", "numDocumento", "nit", "nombre"}, fields: slices.Concat([]field{
		party("receptor", true, taxpayer("tipoDocumento", "numDocumento", "nit", "nombre")),
	}, retention, sale(discounts...))},
	"05": note("05"),
	"06": note("06"),
	"07": {Document: "07", either: [][2]string{{"cuerpoDocumento", "items"}}, fields: []field{
		party("receptor", true, taxpayer("tipoDocumento", "numDocumento", "nombre", "correo")),
		{name: "cuerpoDocumento", shape: isList, members: withholding, limit: maxWithholdings},
		{name: "items", fact: "cuerpoDocumento", shape: isList, members: withheld, limit: maxWithholdings},
		{name: "observaciones", place: inResumen, blank: true, lines: true},
		{name: "testContingencia", shape: isFlag, place: nowhere},
	}},
	"14": {Document: "14", pays: true, either: [][2]string{{"sujetoExcluido", "receptor"}}, fields: append([]field{
		party("sujetoExcluido", false, taxpayer("tipoDocumento", "numDocumento", "nombre")),
		party("receptor", false, taxpayer("tipoDocumento", "numDocumento", "nombre")),
		{name: "applyrent", shape: isFlag, required: true},
	}, sale("compra")...)},
	"18": {Document: "18", origin: "documentoOrigen", fields: []field{
		{name: "documentoOrigen", required: true, place: nowhere},
		{name: "items", fact: "cuerpoDocumento", shape: isList, required: true, limit: maxItems, members: []field{
			{name: "numItem", shape: isInteger, required: true},
			{name: "cantidadRetorno", fact: "cantidad", shape: isNumber, required: true, min: amount(0), above: true},
		}},
		{name: "motivo", required: true, place: inApendice, label: "Motivo"},
		{name: "apendice", shape: isList, members: appendix, limit: 9},
		{name: "testContingencia", shape: isFlag, place: nowhere},
	}},
}
