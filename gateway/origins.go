package gateway

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// This file lets pages of listed origins use the tills' API from a browser (CORS, fetch.spec.whatwg.org §3.2). The operators'
// listener never does. A till shows its token in a header, so the answer never allows a browser's own credentials (cookies),
// and no origin is allowed that is not listed.

// What a page may send and read beyond what browsers allow every page. TestContract_Origins compares both lists with the
// headers of the contract.
const (
	allowedMethods = "GET, HEAD, POST"
	allowedHeaders = "x-api-token, Authorization, Content-Type, Idempotency-Key, If-None-Match, Prefer"
	exposedHeaders = "Content-Disposition, ETag, Location, Preference-Applied, Retry-After, WWW-Authenticate"
	preflightLife  = "7200" // seconds; no browser keeps an answer longer
)

// origins are the pages that may use the tills' API, as browsers write them in Origin. Empty: none, and no answer speaks of
// origins.
type origins struct {
	listed []string
	count  *prometheus.CounterVec
}

func newOrigins(listed []string, r prometheus.Registerer) *origins {
	o := &origins{listed: listed, count: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_http_origins_total",
		Help: "Requests of browser pages at the tills' listener, by whether api.browser_origins lists their origin (listed, other)."}, []string{"origin"})}
	o.count.WithLabelValues("listed")
	o.count.WithLabelValues("other")
	r.MustRegister(o.count)
	return o
}

// handler is a handler whose answers, refusals too, say which page may read them. It answers the question that a browser asks
// ahead of a request (preflight), which bears no token.
func (o *origins) handler(h fasthttp.RequestHandler) fasthttp.RequestHandler {
	if len(o.listed) == 0 {
		return h
	}
	return func(ctx *fasthttp.RequestCtx) {
		origin, listed := o.listedOrigin(ctx)
		if !listed || !isPreflight(ctx) {
			h(ctx)
			tellOrigin(ctx, origin)
			return
		}
		ctx.SetStatusCode(fasthttp.StatusNoContent)
		tellOrigin(ctx, origin)
		header := &ctx.Response.Header
		header.Set("Access-Control-Allow-Methods", allowedMethods)
		header.Set("Access-Control-Allow-Headers", allowedHeaders)
		header.Set("Access-Control-Max-Age", preflightLife)
	}
}

// unreadable is handler for what fasthttp could not read as a request: its headers may be there all the same.
func (o *origins) unreadable(h func(*fasthttp.RequestCtx, error)) func(*fasthttp.RequestCtx, error) {
	if len(o.listed) == 0 {
		return h
	}
	return func(ctx *fasthttp.RequestCtx, err error) {
		origin, _ := o.listedOrigin(ctx)
		h(ctx, err)
		tellOrigin(ctx, origin)
	}
}

// tellOrigin lets the page of a listed origin read an answer; origin is "" for any other.
func tellOrigin(ctx *fasthttp.RequestCtx, origin string) {
	header := &ctx.Response.Header
	header.Add("Vary", "Origin") // a cache must not give one page the answer of another
	if origin != "" {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", exposedHeaders)
	}
}

// isPreflight reports whether a browser asks ahead of a request. What comes with a body is no such question, and is left to
// received.
func isPreflight(ctx *fasthttp.RequestCtx) bool {
	header := &ctx.Request.Header
	return header.IsOptions() && len(header.Peek("Access-Control-Request-Method")) > 0 &&
		(ctx.RequestBodyStream() == nil || header.ContentLength() == 0) && !ambiguous(header)
}

// listedOrigin is the origin of a request if it is listed, else "". A request with two origins has none.
func (o *origins) listedOrigin(ctx *fasthttp.RequestCtx) (origin string, listed bool) {
	all := ctx.Request.Header.PeekAll("Origin")
	switch {
	case len(all) == 0: // no page's
		return "", false
	case len(all) == 1 && slices.Contains(o.listed, string(all[0])):
		o.count.WithLabelValues("listed").Inc()
		return string(all[0]), true
	}
	o.count.WithLabelValues("other").Inc()
	return "", false
}
