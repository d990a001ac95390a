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

// page is a page that is the same for everybody: made once, with its tag and policy.
type page struct {
	name, kind, tag, policy string
	body                    []byte
}

func newPage(name, kind, style string, body []byte) *page {
	p := &page{name: name, kind: kind, tag: tagOf(body), body: body}
	if style != "" {
		p.policy = policy(style)
	}
	return p
}

var (
	contractPage = sync.OnceValue(func() *page {
		return newPage("openapi.json", "application/json; charset=utf-8", "", OpenAPI)
	})
	docsPage = sync.OnceValue(func() *page {
		return newPage("docs.html", "text/html; charset=utf-8", docsStyle, renderDocs())
	})
)

// open serves a page to anybody, at the pace of strangers: GET /openapi.json, and GET /docs, which is the contract to read.
func (g *Gateway) open(of func() *page) func(*fasthttp.RequestCtx) error {
	return func(ctx *fasthttp.RequestCtx) error {
		if err := g.stranger(ctx); err != nil {
			return err
		}
		p := of()
		tagged(ctx, p.kind, "inline", p.name, p.tag, p.body)
		if p.policy != "" {
			secured(ctx, p.policy)
		}
		return nil
	}
}

// secure forbids a page everything but its own style: no script, no frame, nothing from elsewhere.
func secure(ctx *fasthttp.RequestCtx, style string) { secured(ctx, policy(style)) }

// policy is the Content-Security-Policy of a page with a style of its own.
func policy(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func secured(ctx *fasthttp.RequestCtx, policy string) {
	header := &ctx.Response.Header
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
}
