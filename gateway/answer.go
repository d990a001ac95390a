package gateway

import (
	"errors"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// forOperators marks a request of the operators' listener: who reads its answer reads English.
const forOperators = "operators"

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
	fail(ctx, p)
}

// fail writes the error envelope.
func fail(ctx *fasthttp.RequestCtx, p *problem.Problem) {
	ctx.SetUserValue(loggedError, p.Type)
	if ctx.UserValue(forOperators) != nil {
		p = p.InEnglish()
	} else {
		p = p.InSpanish()
	}
	if p.RetryAfter > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(max(1, int(p.RetryAfter.Seconds()))))
	}
	if p.Status == fasthttp.StatusUnauthorized {
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	}
	answer(ctx, p.Status, reply.Problem(ctx.Response.Body()[:0], p))
}

func answer(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.SetBodyRaw(body)
}

// answerRecord answers with a record. Its connection keeps the buffer for the next one, unless it is so large that idle
// tills should not hold one each.
func answerRecord(ctx *fasthttp.RequestCtx, status int, r *record.View) {
	const kept = 32 << 10 // bytes
	ctx.SetUserValue(loggedCode, r.Code)
	size := reply.RecordSize(r)
	if size > kept {
		answer(ctx, status, reply.Record(make([]byte, 0, size), r))
		return
	}
	b := slices.Grow(ctx.Response.SwapBody(nil)[:0], size)
	answer(ctx, status, nil)
	ctx.Response.SwapBody(reply.Record(b, r))
}
