package gateway

import (
	"errors"
	"slices"

	"github.com/valyala/fasthttp"

	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/exchange"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// refuse makes HTTP of an error. What is not meant for the till goes to the log.
func (g *front) refuse(ctx *fasthttp.RequestCtx, route string, err error) {
	var p *problem.Problem
	var e *refusal.Error
	switch {
	case errors.As(err, &p):
	case errors.As(err, &e):
		p = problem.From(e)
		if e.Code == refusal.CodeBusy {
			g.metrics.refused(listenerAPI, "printing")
		}
		if e.Err != nil {
			g.o.Logger.Error("request failed", "route", route, "type", e.Code, "error", e.Err)
		}
	default:
		g.o.Logger.Error("request failed", "route", route, "error", err)
		p = problem.ForTill(fasthttp.StatusInternalServerError, refusal.CodeInternal, "Error interno")
	}
	g.slowed(ctx, p.Status)
	exchange.Fail(ctx, p)
}

// answerRecord answers with a record. Its connection keeps the buffer for the next one, unless it is so large that idle
// tills should not hold one each.
func answerRecord(ctx *fasthttp.RequestCtx, status int, r *record.View) {
	const kept = 32 << 10 // bytes
	ctx.SetUserValue(loggedCode, r.Code)
	size := reply.RecordSize(r)
	if size > kept {
		exchange.Answer(ctx, status, reply.Record(make([]byte, 0, size), r))
		return
	}
	b := slices.Grow(ctx.Response.SwapBody(nil)[:0], size)
	exchange.Answer(ctx, status, nil)
	ctx.Response.SwapBody(reply.Record(b, r))
}
