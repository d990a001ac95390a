package gateway

import (
	"context"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

var person = required("nombre", "tipoDocumento", "numDocumento")

// invalidation is the body of POST /dte/invalidacion/:codigoGeneracion.
var invalidation = &endpoint{fields: []field{
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

// invalidate answers POST /dte/invalidacion/:codigoGeneracion with the record, its invalidation added.
func (g *Gateway) invalidate(ctx *fasthttp.RequestCtx, t *Token) error {
	if !slices.Contains(t.Permissions, engine.PermissionInvalidate) {
		return problem(fasthttp.StatusForbidden, refusal.CodePermission, "El token no tiene el permiso "+engine.PermissionInvalidate)
	}
	code, err := pathCode(ctx)
	if err != nil {
		return err
	}
	v, err := body(ctx)
	if err != nil {
		return err
	}
	d := invalidation.decode(v, nil)
	who := func(name string) engine.Person {
		p := d.facts.Get(name)
		return engine.Person{Name: p.Get("nombre").Text(), DocumentType: p.Get("tipoDocumento").Text(), Document: p.Get("numDocumento").Text()}
	}
	kind, _ := d.facts.Get("tipoAnulacion").Int()
	replacement := d.facts.Get("codigoGeneracionReemplazo").Text()
	if c, err := dte.ParseCode(replacement); err == nil {
		replacement = c.String() // MH wants upper case
	}
	req := engine.InvalidationRequest{Code: code, Kind: kind, Reason: d.facts.Get("motivo").Text(),
		Responsible: who("responsable"), Applicant: who("solicita"), Replacement: replacement, Caller: g.caller(ctx, t)}
	deadline, cancel := context.WithTimeout(context.Background(), g.o.Deadline)
	defer cancel()
	if len(d.faults) > 0 {
		if !d.full() {
			d.merge(renamedFaults(g.o.Engine.CheckInvalidation(deadline, req), invalidationNames))
		}
		return invalidation.invalid(d.faults)
	}
	r, err := g.o.Engine.Invalidate(deadline, req)
	if err != nil {
		return renamed(err, invalidationNames)
	}
	answerRecord(ctx, fasthttp.StatusOK, r)
	return nil
}

// appendInvalidation is what a record shows of the event that takes it back.
func appendInvalidation(b []byte, i *record.Invalidation) []byte {
	b = text(append(b, `{"codigoGeneracion":`...), i.Code)
	b = text(append(b, `,"estado":`...), i.Estado)
	b = dte.Int(i.Kind).Append(append(b, `,"tipoAnulacion":`...))
	b = text(append(b, `,"motivo":`...), i.Reason)
	b = optional(append(b, `,"codigoGeneracionReemplazo":`...), i.Replacement)
	sello := ""
	if i.Response != nil {
		sello = i.Response.SelloRecibido
	}
	b = append(b, `,"tokenId":`...)
	if i.TokenID == 0 {
		b = append(b, `null`...)
	} else {
		b = strconv.AppendInt(b, i.TokenID, 10)
	}
	b = optional(append(b, `,"selloRecibido":`...), sello)
	b = append(i.At.UTC().AppendFormat(append(b, `,"createdAt":"`...), "2006-01-02T15:04:05.000Z"), '"')
	return append(appendResponse(append(b, `,"respuestaMh":`...), i.Response), '}')
}
