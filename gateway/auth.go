package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/door"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
	"dtegate/rules/bundle"
)

// Token is a till's token as the gateway knows it: the token itself is stored only as a hash.
type Token struct {
	ID          int64
	Hash        [32]byte // HMAC-SHA-256 of the token under the table's secret
	Point       record.Point
	Permissions []string
	Until       time.Time // when a rotated token ends; zero: never
}

// TokenTable finds a token by its keyed hash, so that neither the table nor the time of a look-up discloses a token.
type TokenTable struct {
	secret []byte
	macs   *sync.Pool // of hash.Hash under secret; nil: a table without tokens
	byHash map[[32]byte]*Token
}

// NewTokenTable returns a table of tokens. secret is the HMAC key of the hashes.
func NewTokenTable(secret []byte, tokens []Token) TokenTable {
	t := TokenTable{secret: secret, macs: &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }},
		byHash: make(map[[32]byte]*Token, len(tokens))}
	for i := range tokens {
		t.byHash[tokens[i].Hash] = &tokens[i]
	}
	return t
}

func (t *TokenTable) find(token string, now time.Time) *Token {
	if t.macs == nil {
		return nil
	}
	mac := t.macs.Get().(hash.Hash)
	defer t.macs.Put(mac)
	mac.Reset()
	mac.Write([]byte(token))
	// An attacker who cannot compute the HMAC learns nothing from the time of a failed map look-up.
	k := t.byHash[[32]byte(mac.Sum(nil))]
	if k != nil && !k.Until.IsZero() && !now.Before(k.Until) {
		return nil
	}
	return k
}

// SetTokens replaces the table of tokens. Admitted requests continue; only GET /dte/cambios checks its token again.
func (g *Gateway) SetTokens(t TokenTable) { g.tokens.Store(&t) }

// credential returns the token in x-api-token or in Authorization: Bearer (SPEC section 5), or "".
func credential(header *fasthttp.RequestHeader) (token string, err error) {
	own, err := reply.SingleHeader(header, "x-api-token")
	if err != nil {
		return "", err
	}
	authorization, err := reply.SingleHeader(header, "Authorization")
	if err != nil {
		return "", err
	}
	token = string(own)
	scheme, bearer, _ := strings.Cut(string(authorization), " ")
	bearer = strings.TrimSpace(bearer)
	if !strings.EqualFold(scheme, "Bearer") {
		bearer = ""
	}
	switch {
	case token != "" && bearer != "" && token != bearer:
		return "", problem.ForTill(refusal.CodeValidation, "x-api-token y Authorization llevan tokens distintos")
	case token == "":
		token = bearer
	}
	return token, nil
}

// sender returns the id of the token in a request's headers; ok is false if there is no known token.
func (g *Gateway) sender(header *fasthttp.RequestHeader) (id int64, ok bool) {
	token, err := credential(header)
	if err != nil || token == "" {
		return 0, false
	}
	t := g.tokens.Load().find(token, g.o.Now())
	if t == nil {
		return 0, false
	}
	return t.ID, true
}

// authenticate returns the caller's token. Another branch's token is refused like an unknown token.
func (g *Gateway) authenticate(ctx *fasthttp.RequestCtx) (*Token, error) {
	token, err := credential(&ctx.Request.Header)
	if err != nil {
		return nil, err
	}
	if token != "" {
		if t := g.tokens.Load().find(token, g.o.Now()); t != nil {
			door.Trust(ctx.Conn(), t.ID)
			ctx.SetUserValue(loggedToken, t)
			return t, nil
		}
	}
	return nil, g.wrong(ctx, listenerAPI, token != "", "Falta el token, o no es válido (x-api-token o Authorization: "+
		"Bearer)")
}

func (g *Gateway) requireToken(ctx *fasthttp.RequestCtx) error {
	_, err := g.authenticate(ctx)
	return err
}

// wrong refuses a caller without a good token. given: the caller sent a wrong token; after many, the caller must wait.
func (g *Gateway) wrong(ctx *fasthttp.RequestCtx, listener string, given bool, message string) error {
	if listener == listenerOps && given {
		g.logins.Failed(door.AddressOf(ctx.RemoteAddr()).String())
	}
	g.access.refused(ctx, listener, given)
	if given {
		if wait := g.wrongs.Take(door.NetworkOf(ctx.RemoteAddr()), g.o.Now()); wait > 0 {
			g.metrics.refused(listener, "wrong_tokens")
			return problem.TooMany(wait, "Demasiados tokens que no son válidos desde esta dirección")
		}
	}
	g.metrics.refused(listener, "token")
	return problem.ForTill("UNAUTHORIZED", message)
}

// stranger limits the rate of requests that need no token: from each network, and from all networks together.
func (g *Gateway) stranger(ctx *fasthttp.RequestCtx) error {
	now := g.o.Now()
	if wait := max(g.strange.Take(door.NetworkOf(ctx.RemoteAddr()), now), g.allStrange.Take("", now)); wait > 0 {
		g.metrics.refused(listenerAPI, "strangers")
		return problem.TooMany(wait, "Demasiadas solicitudes sin token")
	}
	return nil
}

func (g *Gateway) paced(t *Token) error {
	if wait := g.pace.Take(strconv.FormatInt(t.ID, 10), g.o.Now()); wait > 0 {
		g.metrics.refused(listenerAPI, "rate")
		return problem.TooMany(wait, "Demasiadas solicitudes con este token")
	}
	return nil
}

// caller returns a token's caller in the engine's form, with its rights to read and to mail.
func (g *Gateway) caller(ctx *fasthttp.RequestCtx, t *Token) record.Caller {
	return record.Caller{TokenID: t.ID, Point: t.Point, Permissions: t.Permissions, From: ctx.RemoteIP().String(),
		OwnTypes:    g.o.Access.OwnTypes && !slices.Contains(t.Permissions, record.PermissionRead),
		MailsOthers: g.o.Access.MailAnywhere || slices.Contains(t.Permissions, record.PermissionMail)}
}

// Access has the settings for what all tokens may do besides issuing.
type Access struct {
	// OwnTypes: a token without the permission CONSULTA reads only the types of documents that it may issue.
	OwnTypes bool
	// MailAnywhere: without REENVIO, a token may mail a document to an address that the document does not contain.
	MailAnywhere bool
}

// permit refuses a document type that the token may not issue. A return needs no permission of its own: the engine
// requires the permission for the returned document's type.
func (t *Token) permit(kind *bundle.Type) error {
	if p := kind.Permission; p != "" && !slices.Contains(t.Permissions, p) {
		return problem.ForTill(refusal.CodePermission, "El token no tiene el permiso "+p)
	}
	return nil
}

// Pages of listed origins may use the tills' API from a browser (CORS, fetch.spec.whatwg.org §3.2). No page may use the
// operators' listener. No answer allows cookies: tills send their token in a header.

// Methods and headers that a page of a listed origin may use. Browsers let a page send or read some of these headers
// only if the answer names them. TestContract_Origins compares the lists of headers with the contract.
const (
	allowedMethods = "GET, HEAD, POST"
	allowedHeaders = "x-api-token, Authorization, Content-Type, Idempotency-Key, If-None-Match, Prefer"
	exposedHeaders = "Content-Disposition, ETag, Location, Preference-Applied, Retry-After, WWW-Authenticate"
	preflightLife  = "7200" // seconds; Chromium keeps no preflight's answer longer
)

// origins are the pages that may use the tills' API, as Origin names them. Without any, no answer has CORS headers.
type origins struct {
	listed []string
	count  *prometheus.CounterVec
}

func newOrigins(listed []string, r prometheus.Registerer) *origins {
	o := &origins{listed: listed, count: record.NewCounters("dte_http_origins_total", "Requests of browser pages at "+
		"the tills' listener, by whether api.browser_origins lists their origin (listed, other).", "origin", "listed",
		"other")}
	r.MustRegister(o.count)
	return o
}

// handler adds CORS headers (see tellOrigin) to all answers of h, including refusals. It also answers a listed page's
// preflight: the OPTIONS request without a token that a browser sends before the real request.
func (o *origins) handler(h fasthttp.RequestHandler) fasthttp.RequestHandler {
	if len(o.listed) == 0 {
		return h
	}
	return func(ctx *fasthttp.RequestCtx) {
		origin := o.listedOrigin(ctx)
		if origin == "" || !isPreflight(ctx) {
			h(ctx)
		} else {
			ctx.SetStatusCode(fasthttp.StatusNoContent)
			header := &ctx.Response.Header
			header.Set("Access-Control-Allow-Methods", allowedMethods)
			header.Set("Access-Control-Allow-Headers", allowedHeaders)
			header.Set("Access-Control-Max-Age", preflightLife)
		}
		tellOrigin(ctx, origin)
	}
}

// unreadable adds CORS headers to the answer to an unreadable request, if its header Origin is readable.
func (o *origins) unreadable(h func(*fasthttp.RequestCtx, error)) func(*fasthttp.RequestCtx, error) {
	if len(o.listed) == 0 {
		return h
	}
	return func(ctx *fasthttp.RequestCtx, err error) {
		origin := o.listedOrigin(ctx)
		h(ctx, err)
		tellOrigin(ctx, origin)
	}
}

// tellOrigin lets the page of a listed origin read an answer; origin is "" for any other page.
func tellOrigin(ctx *fasthttp.RequestCtx, origin string) {
	header := &ctx.Response.Header
	header.Add("Vary", "Origin") // a cache must not give a page the answer that another page received
	if origin != "" {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", exposedHeaders)
	}
}

// isPreflight reports whether a request is a browser's preflight, without a body.
func isPreflight(ctx *fasthttp.RequestCtx) bool {
	header := &ctx.Request.Header
	return header.IsOptions() && len(header.Peek("Access-Control-Request-Method")) > 0 &&
		(ctx.RequestBodyStream() == nil || header.ContentLength() == 0) && !ambiguous(header)
}

// listedOrigin returns the Origin of a request if it is listed and the only one, else "".
func (o *origins) listedOrigin(ctx *fasthttp.RequestCtx) string {
	all := ctx.Request.Header.PeekAll("Origin")
	switch {
	case len(all) == 0: // the request comes from no page
		return ""
	case len(all) == 1 && slices.Contains(o.listed, string(all[0])):
		o.count.WithLabelValues("listed").Inc()
		return string(all[0])
	}
	o.count.WithLabelValues("other").Inc()
	return ""
}

// Limits are the limits of one token.
type Limits struct {
	Rate  int // requests a second on average, default 50
	Burst int // requests at once, default 200
	// Large is how many bytes a second on average a token may send in sales over 32 KiB; at once, eight times as many,
	// but at least 1 MiB. Default 1 MiB: a sale of 2,000 lines each second.
	Large int64
	// Daily is how many bytes of documents a token may store in a day of El Salvador, default 1 GiB.
	Daily int64
}

// wrongBurst is how many wrong tokens a network may send at once; then one a second. Good tokens are still accepted.
const wrongBurst = 60

// Requests without a token (/docs, /openapi.json, a PDF link) that a network may send: each second, and at once.
const (
	strangersRate  = 5
	strangersBurst = 40
)

// A token that repeats requests without waiting for Retry-After gets slower refusals, because answering a flood would
// slow the other tills. It gets insistBurst refusals (429) at once, and insistRate a second on average; before each
// further 429 the gateway waits insistPause. A connection answers one request at a time, and door.Places.PerToken
// limits a token's connections.
const (
	insistRate  = 10 // refusals a second, by token
	insistBurst = 40
	insistPause = 250 * time.Millisecond
)

// slow pauses before a 429 if the token has received too many.
func (g *Gateway) slow(token int64) {
	if g.insistent.Take(strconv.FormatInt(token, 10), g.o.Now()) > 0 {
		_ = fairqueue.Sleep(g.serving, insistPause) // when the gateway stops, the pause ends
	}
}
