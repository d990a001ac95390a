package form

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/rules/bundle"
)

// saleMembers are the members of every sale (SPEC 4.1, 4.2), except receptor.
var saleMembers = []field{
	{name: "items", fact: linesFact, shape: isList, required: true, members: item, limit: maxItems, numbered: true},
	{name: "condicionOperacion", shape: isInteger, required: true, min: amount(1), max: amount(3), place: inResumen},
	{name: "pago", shape: isObject, members: payment, place: inPagos},
	{name: "pagos", shape: isList, members: append([]field{{name: "montoPago", shape: isNumber, min: amount(0)}},
		payment...), limit: 99,
		place: inResumen},
	remarks,
}

// Members that several types have.
var (
	remarks   = field{name: "observaciones", place: inResumen, blank: true, lines: true}
	inTest    = field{name: "testContingencia", shape: isFlag, place: nowhere} // every type has this member
	retention = []field{{name: "isRetenIva", shape: isFlag}, {name: "isPerciIva", shape: isFlag}}
	// appendix is apendice. MH permits ten entries; the gateway needs one of them.
	appendix = field{name: ownEntries, shape: isList, members: required("campo", "etiqueta", "valor"), limit: 9}
	// consumer and taxpayer are the members of receptor, which has two kinds (SPEC 2.5).
	consumer = append(plain("tipoDocumento", "numDocumento", "nombre", "telefono", "correo"), direccion)
	taxpayer = append(plain("tipoDocumento", "numDocumento", "nit", "nrc", "nombre", "codActividad", "descActividad",
		"nombreComercial", "telefono", "correo"), direccion)
)

const (
	linesFact  = "cuerpoDocumento"
	ownEntries = "apendice"
)

// New compiles the form of a type, which bundle.ParseType has checked. A type without a form gets an empty form.
func New(t *bundle.Type) *Form {
	f := &Form{Type: t, bundle: *cmp.Or(t.Form, new(bundle.Form))}
	for i := range f.bundle.Members {
		m := &f.bundle.Members[i]
		f.fields = append(f.fields, fieldsOf(m)...)
		if f.bundle.ReceptorError && m.Name == "receptor" {
			f.receptor = m.Due
		}
	}
	f.fields = append(f.fields, inTest)
	return f
}

// fieldsOf returns the fields for a member of a form. A member with Use can stand for a whole group of fields.
func fieldsOf(m *bundle.Member) []field {
	switch m.Use {
	case "sale", "items":
		group := slices.Clone(saleMembers)
		if m.Use == "items" {
			group = group[:1]
		}
		for i := range m.Extra {
			group[0].members = append(slices.Clip(group[0].members), fieldsOf(&m.Extra[i])...)
		}
		return group
	case "retention":
		return retention
	case "observaciones":
		return []field{remarks}
	case "appendix":
		return []field{appendix}
	case "discounts":
		d := field{name: "descuentoGlobal", shape: isObject}
		for _, name := range m.Due {
			d.members = append(d.members, field{name: name, shape: isNumber, min: amount(0)})
		}
		return []field{d}
	}
	f := field{name: m.Name, required: m.Required, above: m.Above, person: m.Person, limit: m.Limit,
		numbered: m.Numbered, blank: m.Blank, lines: m.Lines, label: m.Label, equals: m.Equals, min: bound(m.Min),
		max: bound(m.Max), shape: shape(max(0, slices.Index(bundle.Shapes, m.Shape)))}
	if f.place, f.fact = target(m.To); f.place == inPagos && f.shape == isList {
		f.place, f.fact = inResumen, "pagos"
	}
	if len(m.Default) > 0 {
		f.preset, _ = dte.Parse(m.Default)
	}
	for _, inner := range [][]bundle.Member{m.Members, m.Extra} {
		for i := range inner {
			f.members = append(f.members, fieldsOf(&inner[i])...)
		}
	}
	if group := map[string][]field{"consumer": consumer, "taxpayer": taxpayer,
		"address": direccion.members}[m.Use]; group != nil {
		f.shape, f.loose, f.person = isObject, true, m.Use != "address"
		f.members = append(slices.Clone(group), f.members...)
		for i := range f.members {
			f.members[i].required = f.members[i].required || slices.Contains(m.Due, f.members[i].name)
		}
	}
	if f.shape == isList && f.limit == 0 {
		f.limit = maxItems
	}
	return []field{f}
}

// target returns where in the facts a form's member with a certain To (to) is put: the place, and the fact's name
// there. An empty name stands for the member's own name.
func target(to string) (place, string) {
	switch {
	case to == bundle.ToNone:
		return nowhere, ""
	case to == bundle.ToAppendix:
		return inApendice, ""
	case to == bundle.ToPayments:
		return inPagos, ""
	case strings.HasPrefix(to, bundle.ToSummary):
		return inResumen, to[len(bundle.ToSummary):]
	case strings.HasPrefix(to, bundle.ToLine):
		return inLine, to[len(bundle.ToLine):]
	}
	return inRoot, to
}

func bound(n json.Number) *dte.Amount {
	a, err := dte.ParseAmount(string(n))
	if err != nil {
		return nil
	}
	return &a
}

var person = required("nombre", "tipoDocumento", "numDocumento")

// invalidation is the body of POST /dte/invalidacion/:codigoGeneracion.
var invalidation = &Form{fields: []field{
	{name: "tipoAnulacion", shape: isInteger, required: true, min: amount(1), max: amount(3)},
	{name: "motivo", required: true},
	{name: "responsable", shape: isObject, required: true, person: true, members: person},
	{name: "solicita", shape: isObject, required: true, person: true, members: person},
	{name: "codigoGeneracionReemplazo"},
}}

// invalidationNames maps paths in the event to paths in the request.
var invalidationNames = map[string]string{
	"motivo.tipoAnulacion": "tipoAnulacion", "motivo.motivoAnulacion": "motivo",
	"documento.codigoGeneracionR": "codigoGeneracionReemplazo",
	"motivo.nombreResponsable":    "responsable.nombre", "motivo.tipDocResponsable": "responsable.tipoDocumento",
	"motivo.numDocResponsable": "responsable.numDocumento",
	"motivo.nombreSolicita":    "solicita.nombre", "motivo.tipDocSolicita": "solicita.tipoDocumento",
	"motivo.numDocSolicita": "solicita.numDocumento",
}

// Invalidation reads a request to invalidate a document. The path has the document's code.
func Invalidation(body dte.Value) (engine.InvalidationRequest, *Filled) {
	d := invalidation.Fill(body, nil)
	who := func(name string) record.Person {
		p := d.Facts.Get(name)
		return record.Person{Name: p.Get("nombre").Text(), DocumentType: p.Get("tipoDocumento").Text(),
			Document: p.Get("numDocumento").Text()}
	}
	kind, _ := d.Facts.Get("tipoAnulacion").Int()
	replacement := d.Facts.Get("codigoGeneracionReemplazo").Text()
	if c, err := dte.ParseCode(replacement); err == nil {
		replacement = c.String() // MH demands upper case
	}
	return engine.InvalidationRequest{Kind: kind, Reason: d.Facts.Get("motivo").Text(),
		Responsible: who("responsable"), Applicant: who("solicita"), Replacement: replacement}, d
}

// OfInvalidation returns the faults of an invalidation's event, with their paths replaced by paths in the request.
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

func Lookup(body dte.Value) ([]dte.Code, *Filled) {
	d := lookup.Fill(body, nil)
	var codes []dte.Code
	for i, code := range d.Facts.Get("codigosGeneracion").Items() {
		codes = append(codes, d.code(code, index("codigosGeneracion", i)))
	}
	return codes, d
}

// resend is the body of POST /dte/resend/:codigoGeneracion.
var resend = &Form{fields: []field{{name: "email"}}}

// Resend reads the address to which a document must be mailed; "" means the address in the document.
func Resend(body dte.Value) (address string, _ *Filled) {
	d := resend.Fill(body, nil)
	address = d.Facts.Get("email").Text()
	if body.Get("email").Present() && len(d.Faults) == 0 && !outbox.Mailable(address) {
		d.fault("email", dte.FaultFormat, "No es una dirección de correo")
	}
	return address, d
}

// The bodies of POST /admin/contingency and POST /admin/contingency/report.
var (
	declaration = &Form{fields: []field{{name: "cause", shape: isInteger, required: true}, {name: "reason",
		required: true}}}
	reportNote = &Form{fields: []field{{name: "reference", required: true}}}
)

func Declaration(body dte.Value) (cause int64, reason string, d *Filled) {
	d = declaration.Fill(body, nil)
	cause, _ = d.Facts.Get("cause").Int()
	return cause, d.Facts.Get("reason").Text(), d
}

func ReportNote(body dte.Value) (reference string, d *Filled) {
	d = reportNote.Fill(body, nil)
	return d.Facts.Get("reference").Text(), d
}

// alternatives checks pairs of members: a request has at least one of a pair, and two given members must be equal. It
// refuses pago beside pagos.
func (d *Filled) alternatives() {
	if d.body.Get("pago").Present() && d.body.Get("pagos").Present() {
		d.fault("pago", dte.FaultCondition, "Indique pago o pagos, no los dos")
		d.fault("pagos", dte.FaultCondition, "Indique pago o pagos, no los dos")
	}
	for _, pair := range d.form.bundle.Either {
		a, b := d.body.Get(pair[0]), d.body.Get(pair[1])
		switch {
		case !a.Present() && !b.Present():
			d.fault(pair[0], dte.FaultRequired, "Es obligatorio (o "+pair[1]+")")
		case a.Kind() == b.Kind() && !bytes.Equal(a.Append(nil), b.Append(nil)):
			d.contradict(pair[0], pair[1])
		}
	}
}

// maxEntry is the longest value of an entry of the appendix, in characters.
const maxEntry = 150

func (d *Filled) entry(f *field, v dte.Value) dte.Value {
	s := v.Text()
	if n := utf8.RuneCountInString(s); n == 0 || n > maxEntry {
		d.fault(f.name, dte.FaultLength, fmt.Sprintf("Lleva de 1 a %d caracteres", maxEntry))
	}
	d.entries = append(d.entries, f.name)
	return dte.Texts("campo", f.name, "etiqueta", f.label, "valor", s)
}

// append puts entries before the entries of the request's own apendice.
func (d *Filled) append(entries []dte.Value) {
	if len(entries) == 0 {
		return
	}
	d.Facts = d.Facts.With("apendice", dte.Arr(append(entries, d.Facts.Get("apendice").Items()...)...))
}

func (d *Filled) finish() {
	d.specialUnits()
	if slices.Contains(d.form.bundle.Does, "withholding") {
		d.withholdings()
	}
	if d.form.bundle.Origin != "" {
		d.readOrigin()
	}
}

// readOrigin reads the reference to the original document. The origin member, the related object, or both may name it.
func (d *Filled) readOrigin() {
	plain, related := d.body.Get(d.form.bundle.Origin), d.body.Get(d.form.bundle.Related)
	inner, innerPath := related.Get("codigoGeneracion"), d.form.bundle.Related+".codigoGeneracion"
	if plain.Present() && inner.Present() && !strings.EqualFold(plain.Text(), inner.Text()) {
		d.contradict(d.form.bundle.Origin, innerPath)
	}
	d.Origin = &engine.Origin{Document: related.Get("tipoDte").Text(), Date: related.Get("fechaEmision").Text()}
	if plain.Present() {
		d.Origin.Code = d.code(plain, d.form.bundle.Origin)
	} else {
		d.Origin.Code = d.code(inner, innerPath)
	}
}

// withholdings numbers the lines of a withholding voucher, and adds the members that the tills' client library does not
// send. A document whose number is a codigoGeneracion is electronic (CAT-007: 2).
func (d *Filled) withholdings() {
	name := "cuerpoDocumento"
	if !d.body.Get(name).Present() {
		name = "items"
	}
	items := slices.Clone(d.Facts.Get(linesFact).Items())
	for i, v := range items {
		if n, ok := v.Get("numItem").Int(); ok && n != int64(i+1) {
			d.fault(index(name, i)+".numItem", dte.FaultCondition,
				fmt.Sprintf("Los ítems se numeran en orden desde 1: debe ser %d", i+1))
		}
		v = v.With("numItem", dte.Int(int64(i+1)))
		kind := int64(1)
		c, noCode := dte.ParseCode(v.Get("numeroDocumento").Text())
		if noCode == nil {
			kind = 2
			v = v.With("numeroDocumento", dte.Str(c.String()))
		}
		if !v.Get("tipoGeneracion").Exists() {
			v = v.With("tipoGeneracion", dte.Int(kind))
		}
		if n, _ := v.Get("tipoGeneracion").Int(); n == 2 && noCode != nil && v.Get("numeroDocumento").Exists() {
			d.fault(d.requestPath(index(linesFact, i)+".numeroDocumento"), dte.FaultPattern,
				"Un documento electrónico se nombra con su código de generación; si solo tiene el número, indíquelo "+
					"como de papel (1)")
		}
		if !v.Get("descripcion").Exists() {
			v = v.With("descripcion", dte.Str("Retención de IVA sobre el documento "+v.Get("numeroDocumento").Text()))
		}
		items[i] = v
	}
	d.setLines(items)
}

func (d *Filled) setLines(lines []dte.Value) {
	if len(lines) > 0 {
		d.Facts = d.Facts.With(linesFact, dte.Arr(lines...))
	}
}

// specialUnits sets a missing uniMedida to 99 in each line that is a tax or an untaxed charge (MF2 pp.30, 33).
func (d *Filled) specialUnits() {
	asked, lines := d.body.Get("items").Items(), d.Facts.Get(linesFact).Items()
	if len(asked) != len(lines) {
		return // no items, or a list that was not read to its end: its faults are already reported
	}
	var changed []dte.Value // nil until a line changes
	for i, line := range lines {
		charge, _ := line.Get("noGravado").Amount()
		if asked[i].Get("uniMedida").Present() || charge == 0 && line.Get("codTributo").Text() == "" {
			continue
		}
		if changed == nil {
			changed = slices.Clone(lines)
		}
		changed[i] = line.With("uniMedida", dte.Int(otherUnit))
	}
	d.setLines(changed)
}

const otherUnit = 99 // CAT-014
