package gateway

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sync"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/exchange"
	"dtegate/gateway/page"
)

// OpenAPI is the contract with the tills, as OpenAPI 3.1: every route, request, answer and error code. The tests of this
// package compare it with the tables of endpoints. The tests of cmd/dted compare every request and answer with it.
var OpenAPI = unpacked()

// packed is openapi.json, made by gzip: dted is to stay small. TestContract_Packed tells when they differ.
//
//go:embed openapi.json.gz
var packed []byte

// unpacked returns the contract. It is part of the program: a fault in it is found by the tests.
func unpacked() []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return text
}

// fixedPage is a page that is the same for everybody: made once, with its tag and policy.
type fixedPage struct {
	name, kind, tag, policy string
	body                    []byte
}

func newPage(name, kind, policy string, body []byte) *fixedPage {
	return &fixedPage{name: name, kind: kind, tag: tagOf(body), policy: policy, body: body}
}

var (
	contractPage = sync.OnceValue(func() *fixedPage {
		return newPage("openapi.json", "application/json; charset=utf-8", "", OpenAPI)
	})
	docsPage = sync.OnceValue(func() *fixedPage {
		return newPage("docs.html", "text/html; charset=utf-8", page.ReferencePolicy, page.Reference(OpenAPI))
	})
)

// publicPage serves a page to anybody, at the pace of strangers: GET /openapi.json, and GET /docs, which is the contract to read.
func (g *documentRoutes) publicPage(of func() *fixedPage) func(*fasthttp.RequestCtx) error {
	return func(ctx *fasthttp.RequestCtx) error {
		if err := g.stranger(ctx); err != nil {
			return err
		}
		p := of()
		respondTagged(ctx, p.kind, "inline", p.name, p.tag, p.body)
		if p.policy != "" {
			exchange.Secure(ctx, p.policy)
		}
		return nil
	}
}
