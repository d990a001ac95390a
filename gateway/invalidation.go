package gateway

import (
	"slices"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/exchange"
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
	v, err := exchange.Body(ctx)
	if err != nil {
		return err
	}
	req, d := form.Invalidation(v)
	req.Code, req.Caller = code, g.caller(ctx, t)
	deadline, cancel := g.deadline()
	defer cancel()
	if len(d.Faults) > 0 {
		d.MergeMore(func([]string) []dte.Fault { return form.OfInvalidation(g.o.Sales.CheckInvalidation(deadline, req)) })
		return exchange.Invalid(d)
	}
	r, err := g.o.Sales.Invalidate(deadline, req)
	if err != nil {
		return problem.Renamed(err, form.OfInvalidation)
	}
	answerRecord(ctx, fasthttp.StatusOK, r)
	return nil
}
