package exchange

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// ForOperators is the key of the user value that marks a request of the operators' listener. Its answers are English.
const ForOperators = "operators"

// ErrorKind is the key of the user value in which a request keeps the code of its error, for the access log.
const ErrorKind = "log.error"

// Fail sends the error envelope. Retry-After is rounded up to whole seconds.
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

// Answer sends JSON. body must not change until the answer is sent.
func Answer(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.SetBodyRaw(body)
}

// Show sends a value as JSON.
func Show(ctx *fasthttp.RequestCtx, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	Answer(ctx, status, append(b, '\n'))
	return nil
}

// Secure sets the headers of a page. policy is its Content-Security-Policy, see page.StatusPolicy.
func Secure(ctx *fasthttp.RequestCtx, policy string) {
	header := &ctx.Response.Header
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
}
