package gateway

import (
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
)

// invalidate answers POST /dte/invalidacion/:codigoGeneracion with the record, its invalidation added.
func (g *saleRoutes) invalidate(ctx *fasthttp.RequestCtx, t *Token) error {
	if !slices.Contains(t.Permissions, engine.PermissionInvalidate) {
		return problem.ForTill(fasthttp.StatusForbidden, refusal.CodePermission, "El token no tiene el permiso "+engine.PermissionInvalidate)
	}
	code, err := pathCode(ctx)
	if err != nil {
		return err
	}
	v, err := body(ctx)
	if err != nil {
		return err
	}
	req, d := form.Invalidation(v)
	req.Code, req.Caller = code, g.caller(ctx, t)
	deadline, cancel := g.deadline()
	defer cancel()
	if len(d.Faults) > 0 {
		d.MergeMore(func([]string) []dte.Fault { return form.OfInvalidation(g.o.Sales.CheckInvalidation(deadline, req)) })
		return invalid(d)
	}
	r, err := g.o.Sales.Invalidate(deadline, req)
	if err != nil {
		return problem.Renamed(err, form.OfInvalidation)
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
