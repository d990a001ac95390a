package gateway

import (
	"errors"
	"strconv"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
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
	b := append(ctx.Response.Body()[:0], `{"status":"error","type":`...)
	b = text(b, p.Type)
	b = text(append(b, `,"message":`...), p.Message)
	if len(p.RequiredFields) > 0 {
		b = texts(append(b, `,"requiredFields":`...), p.RequiredFields)
	}
	if p.Document != "" {
		b = text(append(b, `,"codigoGeneracion":`...), p.Document)
	}
	b = append(b, `,"errors":[`...)
	for i, f := range p.Faults {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, `{"path":`...), f.Path)
		b = text(append(b, `,"code":`...), f.Code)
		b = append(text(append(b, `,"message":`...), f.Message), '}')
	}
	b = append(b, `]}`...)
	if p.RetryAfter > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(max(1, int(p.RetryAfter.Seconds()))))
	}
	if p.Status == fasthttp.StatusUnauthorized {
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	}
	answer(ctx, p.Status, b)
}

func answer(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.SetBodyRaw(body)
}

// text and texts write JSON strings through the vocabulary's encoder.
func text(b []byte, s string) []byte { return dte.Str(s).Append(b) }

func texts(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(b, s)
	}
	return append(b, ']')
}
