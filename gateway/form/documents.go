package form

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/seller"
)

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

// This file holds the requests that make no document.

var person = required("nombre", "tipoDocumento", "numDocumento")

// invalidation is the body of POST /dte/invalidacion/:codigoGeneracion.
var invalidation = &Form{fields: []field{
	{name: "tipoAnulacion", shape: isInteger, required: true, min: amount(1), max: amount(3)},
	{name: "motivo", required: true},
	{name: "responsable", shape: isObject, required: true, person: true, members: person},
	{name: "solicita", shape: isObject, required: true, person: true, members: person},
	{name: "codigoGeneracionReemplazo"},
}}

// invalidationNames are the request's names of the event's facts.
var invalidationNames = map[string]string{
	"motivo.tipoAnulacion": "tipoAnulacion", "motivo.motivoAnulacion": "motivo", "documento.codigoGeneracionR": "codigoGeneracionReemplazo",
	"motivo.nombreResponsable": "responsable.nombre", "motivo.tipDocResponsable": "responsable.tipoDocumento", "motivo.numDocResponsable": "responsable.numDocumento",
	"motivo.nombreSolicita": "solicita.nombre", "motivo.tipDocSolicita": "solicita.tipoDocumento", "motivo.numDocSolicita": "solicita.numDocumento",
}

// Invalidation reads a request to invalidate a document. The document's code is not in the body, but in the path.
func Invalidation(body dte.Value) (engine.InvalidationRequest, *Filled) {
	d := invalidation.Fill(body, nil)
	who := func(name string) seller.Person {
		p := d.Facts.Get(name)
		return seller.Person{Name: p.Get("nombre").Text(), DocumentType: p.Get("tipoDocumento").Text(), Document: p.Get("numDocumento").Text()}
	}
	kind, _ := d.Facts.Get("tipoAnulacion").Int()
	replacement := d.Facts.Get("codigoGeneracionReemplazo").Text()
	if c, err := dte.ParseCode(replacement); err == nil {
		replacement = c.String() // MH wants upper case
	}
	return engine.InvalidationRequest{Kind: kind, Reason: d.Facts.Get("motivo").Text(),
		Responsible: who("responsable"), Applicant: who("solicita"), Replacement: replacement}, d
}

// OfInvalidation returns the faults of an invalidation's event with the names of the request.
func OfInvalidation(faults []dte.Fault) []dte.Fault {
	faults = slices.Clone(faults)
	for i := range faults {
		if name, ok := invalidationNames[faults[i].Path]; ok {
			faults[i].Path = name
		}
	}
	return faults
}

// lookup is the body of POST /dte/documentos-info.
var lookup = &Form{fields: []field{{name: "codigosGeneracion", shape: isTexts, required: true, limit: maxCodes}}}

// Lookup reads the codes of the documents that are asked for.
func Lookup(body dte.Value) ([]dte.Code, *Filled) {
	d := lookup.Fill(body, nil)
	list := d.Facts.Get("codigosGeneracion")
	codes := make([]dte.Code, list.Len())
	for i := range codes {
		codes[i] = d.code(list.Index(i), index("codigosGeneracion", i))
	}
	return codes, d
}

// resend is the body of POST /dte/resend/:codigoGeneracion.
var resend = &Form{fields: []field{{name: "email"}}}

// Resend reads the address to which a document is to be mailed, "" for the customer's own address.
func Resend(body dte.Value) (address string, _ *Filled) {
	d := resend.Fill(body, nil)
	address = d.Facts.Get("email").Text()
	if hasValue(body.Get("email")) && len(d.Faults) == 0 && !outbox.Mailable(address) {
		d.fault("email", dte.FaultFormat, "No es una dirección de correo")
	}
	return address, d
}

// The bodies of POST /admin/contingency and POST /admin/contingency/report.
var (
	declaration = &Form{fields: []field{{name: "cause", shape: isInteger, required: true}, {name: "reason", required: true}}}
	reportNote  = &Form{fields: []field{{name: "reference", required: true}}}
)

// Declaration reads the contingency that an operator declares: its cause (CAT-005) and reason.
func Declaration(body dte.Value) (cause int64, reason string, d *Filled) {
	d = declaration.Fill(body, nil)
	cause, _ = d.Facts.Get("cause").Int()
	return cause, d.Facts.Get("reason").Text(), d
}

// ReportNote reads MH's reference of a technical report.
func ReportNote(body dte.Value) (reference string, d *Filled) {
	d = reportNote.Fill(body, nil)
	return d.Facts.Get("reference").Text(), d
}

// This file holds what the tables of Documents cannot say: one thing under two names, and the documents that a request
// refers to.

// alternatives checks the pairs of which one member is due.
func (d *Filled) alternatives() {
	for _, pair := range d.form.either {
		a, b := d.body.Get(pair[0]), d.body.Get(pair[1])
		switch {
		case !hasValue(a) && !hasValue(b):
			d.fault(pair[0], dte.FaultRequired, "Es obligatorio (o "+pair[1]+")")
		case hasValue(a) && hasValue(b) && a.Kind() == b.Kind() && !bytes.Equal(a.Append(nil), b.Append(nil)):
			d.contradict(pair[0], pair[1])
		}
	}
}

// maxEntry is the longest value of an entry of the appendix, in characters.
const maxEntry = 150

// entry is a member of the request as an entry of the appendix.
func (d *Filled) entry(f *field, v dte.Value) dte.Value {
	s := v.Text()
	if n := utf8.RuneCountInString(s); n == 0 || n > maxEntry {
		d.fault(f.name, dte.FaultLength, fmt.Sprintf("Lleva de 1 a %d caracteres", maxEntry))
	}
	d.entries = append(d.entries, f.name)
	return dte.Obj(dte.Member{Name: "campo", Value: dte.Str(f.name)}, dte.Member{Name: "etiqueta", Value: dte.Str(f.label)}, dte.Member{Name: "valor", Value: dte.Str(s)})
}

// append puts entries before the request's own.
func (d *Filled) append(entries []dte.Value) {
	if len(entries) == 0 {
		return
	}
	own := d.Facts.Get("apendice")
	for i := range own.Len() {
		entries = append(entries, own.Index(i))
	}
	d.Facts = d.Facts.With("apendice", dte.Arr(entries...))
}

// shape finishes what depends on the type of document.
func (d *Filled) shape() {
	d.specialUnits()
	switch d.form.Document {
	case "05", "06":
		d.noteOrigin()
	case "07":
		d.withholdings()
	case "18":
		d.Origin = &engine.Origin{Code: d.code(d.body.Get("documentoOrigen"), "documentoOrigen")}
	}
}

// noteOrigin reads which document a note adjusts, from the payload's name, the client library's, or both.
func (d *Filled) noteOrigin() {
	if t := d.body.Get("tipoDte"); hasValue(t) && t.Text() != d.form.Document {
		d.fault("tipoDte", dte.FaultCondition, "Esta dirección emite documentos de tipo "+d.form.Document)
	}
	plain, related := d.body.Get("codigoGeneracion"), d.body.Get("documentoRelacionado")
	inner := related.Get("codigoGeneracion")
	if hasValue(plain) && hasValue(inner) && !strings.EqualFold(plain.Text(), inner.Text()) {
		d.contradict("codigoGeneracion", "documentoRelacionado.codigoGeneracion")
	}
	d.Origin = &engine.Origin{Document: related.Get("tipoDte").Text(), Date: related.Get("fechaEmision").Text()}
	if hasValue(plain) {
		d.Origin.Code = d.code(plain, "codigoGeneracion")
	} else {
		d.Origin.Code = d.code(inner, "documentoRelacionado.codigoGeneracion")
	}
}

// maxWithholdings is the most lines of a withholding voucher (FACTS §1.8).
const maxWithholdings = 500

// withholdings numbers the lines of a withholding voucher, and fills what the client library's shape does not have: a
// document number that is a generation code is an electronic one (CAT-007).
func (d *Filled) withholdings() {
	name := "cuerpoDocumento"
	if !hasValue(d.body.Get(name)) {
		name = "items"
	}
	lines := d.Facts.Get("cuerpoDocumento")
	items := make([]dte.Value, lines.Len())
	for i := range items {
		v := lines.Index(i)
		if n, ok := v.Get("numItem").Int(); ok && n != int64(i+1) {
			d.fault(index(name, i)+".numItem", dte.FaultCondition, fmt.Sprintf("Los ítems se numeran en orden desde 1: debe ser %d", i+1))
		}
		v = v.With("numItem", dte.Int(int64(i+1)))
		kind := int64(1)
		if c, err := dte.ParseCode(v.Get("numeroDocumento").Text()); err == nil {
			kind = 2
			v = v.With("numeroDocumento", dte.Str(c.String()))
		}
		if !v.Get("tipoGeneracion").Exists() {
			v = v.With("tipoGeneracion", dte.Int(kind))
		}
		_, noCode := dte.ParseCode(v.Get("numeroDocumento").Text())
		if n, _ := v.Get("tipoGeneracion").Int(); n == 2 && noCode != nil && v.Get("numeroDocumento").Exists() {
			d.fault(d.requestPath(index("cuerpoDocumento", i)+".numeroDocumento"), dte.FaultPattern,
				"Un documento electrónico se nombra con su código de generación; si solo tiene el número, indíquelo como de papel (1)")
		}
		if !v.Get("descripcion").Exists() {
			v = v.With("descripcion", dte.Str("Retención de IVA sobre el documento "+v.Get("numeroDocumento").Text()))
		}
		items[i] = v
	}
	if len(items) > 0 {
		d.Facts = d.Facts.With("cuerpoDocumento", dte.Arr(items...))
	}
}

// specialUnits gives lines that are a tax or a charge beside the tax base the unit that MH wants of them (MF2 pp.30, 33),
// where the request states none.
func (d *Filled) specialUnits() {
	asked, lines := d.body.Get("items"), d.Facts.Get("cuerpoDocumento")
	if asked.Len() != lines.Len() {
		return // some are no objects, and that is told
	}
	var items []dte.Value
	for i := range lines.Len() {
		line := lines.Index(i)
		charge, _ := line.Get("noGravado").Amount()
		if hasValue(asked.Index(i).Get("uniMedida")) || charge == 0 && line.Get("codTributo").Text() == "" {
			continue
		}
		if items == nil {
			items = make([]dte.Value, lines.Len())
			for j := range items {
				items[j] = lines.Index(j)
			}
		}
		items[i] = line.With("uniMedida", dte.Int(otherUnit))
	}
	if items != nil {
		d.Facts = d.Facts.With("cuerpoDocumento", dte.Arr(items...))
	}
}

const otherUnit = 99 // CAT-014
