package gateway

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"sync"

	"github.com/valyala/fasthttp"
)

// OpenAPI is the contract with the tills: every route, request, answer and error code, as OpenAPI 3.1. The tests of this
// package compare it with the tables of endpoints, and those of cmd/dted hold every request and answer of theirs against
// it.
//
//go:embed openapi.json
var OpenAPI []byte

// contract answers GET /openapi.json, for anybody.
func (g *Gateway) contract(ctx *fasthttp.RequestCtx) error {
	file(ctx, "application/json; charset=utf-8", "inline", "openapi.json", OpenAPI)
	return nil
}

var docsPage = sync.OnceValue(renderDocs)

// docs answers GET /docs: the contract, to read.
func (g *Gateway) docs(ctx *fasthttp.RequestCtx) error {
	file(ctx, "text/html; charset=utf-8", "inline", "docs.html", docsPage())
	secure(ctx, docsStyle)
	return nil
}

// secure forbids a page everything but its own style: no script, no frame, nothing from elsewhere.
func secure(ctx *fasthttp.RequestCtx, style string) {
	sum := sha256.Sum256([]byte(style))
	header := &ctx.Response.Header
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
}
