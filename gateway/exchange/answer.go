package exchange

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// ForOperators marks a request of the operators' listener: who reads its answer reads English.
const ForOperators = "operators"

// ErrorKind is the key under which a request keeps the code of its error, for the access log.
const ErrorKind = "log.error"

// Fail answers with the error envelope.
func Fail(ctx *fasthttp.RequestCtx, p *problem.Problem) {
	ctx.SetUserValue(ErrorKind, p.Type)
	if ctx.UserValue(ForOperators) != nil {
		p = p.InEnglish()
	} else {
		p = p.InSpanish()
	}
	if p.RetryAfter > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(p.RetryAfter.Seconds())))))
	}
	if p.Status == fasthttp.StatusUnauthorized {
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	}
	Answer(ctx, p.Status, reply.Problem(nil, p)) // what the body was may be shared
}

// Answer answers with JSON.
func Answer(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.SetBodyRaw(body)
}

// Show answers with a value as JSON.
func Show(ctx *fasthttp.RequestCtx, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	Answer(ctx, status, append(b, '\n'))
	return nil
}

// Secure forbids a page everything but its own style: no script, no frame, nothing from elsewhere.
func Secure(ctx *fasthttp.RequestCtx, policy string) {
	header := &ctx.Response.Header
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
}
