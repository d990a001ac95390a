package form

import (
	"slices"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/seller"
)

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
