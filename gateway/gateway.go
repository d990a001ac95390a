// Package gateway serves HTTP: the tills' API and the operators' listener. It translates between HTTP and package
// engine, which issues the documents. fasthttp's RequestCtx never leaves this folder.
package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/door"
	"dtegate/gateway/form"
	"dtegate/gateway/page"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
	"dtegate/rules/bundle"
)

// Sales makes, corrects and invalidates documents. *engine.Engine implements it.
type Sales interface {
	Issue(context.Context, engine.Request) (*record.View, error)
	Repeated(context.Context, engine.Request) (*record.View, error)
	Check(context.Context, engine.Request) []dte.Fault
	Validate(context.Context, engine.Request) (*engine.Validation, error)
	Correct(context.Context, dte.Code, engine.Request) (*record.View, error)
	Invalidate(context.Context, engine.InvalidationRequest) (*record.View, error)
	CheckInvalidation(context.Context, engine.InvalidationRequest) []dte.Fault
	TypeOf(*record.View) *bundle.Type
	CodeLists() *dte.Catalogues
	CloseDay(ctx context.Context, date string, c record.Caller) (z *documents.Closing, made bool, err error)
}

// Documents finds issued documents. *documents.Register implements it.
type Documents interface {
	Document(context.Context, dte.Code, record.Caller) (*record.View, error)
	Infos(context.Context, []dte.Code, record.Caller) ([]documents.Info, error)
	List(context.Context, documents.Filter, record.Caller) (*documents.Listing, error)
	Changes(context.Context, uint64, record.Caller) ([]documents.Late, uint64, error)
	Closing(ctx context.Context, date string, asX bool, point int64, c record.Caller,
		now time.Time) (*documents.Closing, error)
}

// Outbox prints and mails issued documents, and makes links to them. *outbox.Outbox implements it.
type Outbox interface {
	Printed(ctx context.Context, code dte.Code, c record.Caller, layout string, escpos bool) ([]byte, error)
	Archivo(context.Context, dte.Code, record.Caller) ([]byte, error)
	Link(ctx context.Context, code dte.Code, c record.Caller, layout string, life time.Duration) (string, error)
	Resend(ctx context.Context, code dte.Code, to string, c record.Caller) (*outbox.Resent, error)
	PrintSlip(ctx context.Context, c record.Caller, s pdf.Slip, layout string, escpos bool) ([]byte, error)
}

// Options are the options of New.
type Options struct {
	Sales     Sales
	Documents Documents
	Outbox    Outbox
	Operators adminapi.Options // read and changed by the operators' listener
	Tokens    TokenTable
	Issuer    reply.Information
	Logger    *slog.Logger
	Now       func() time.Time
	Registry  *prometheus.Registry
	// Types returns the document type that POST /dte/<path> issues, or nil. Default: all known types.
	Types func(path string) *bundle.Type
	// Issued returns the document types that the branch issues today, for the contract. Default: all known types.
	Issued func() []*bundle.Type
	// The fields from here to Access are settings: see deploy/dted.toml.
	PaymentCodes   map[string]string
	RequireKey     bool
	Slug           string // first part of the paths in dteJsonUrl and dtePdfUrl; if empty, these paths are not served
	PublicURL      string
	Origins        []string
	APITLS, OpsTLS *tls.Config // nil: plain HTTP
	Limits         Limits
	Access         Access
	// Usage returns how many bytes each token stored on a day until the program's start. nil: the counts begin at 0.
	Usage    func(ctx context.Context, day string) (map[int64]int64, error)
	Deadline time.Duration // of a request, default 60 s; all attempts to reach MH take less
}

// Gateway serves the tills and the operators.
type Gateway struct {
	api *fasthttp.Server
	ops *fasthttp.Server

	o       Options
	metrics *metrics
	tokens  atomic.Pointer[TokenTable]

	pace       *door.Buckets    // requests by token
	wrongs     *door.Buckets    // wrong tokens by network
	strange    *door.Buckets    // requests that need no token, by network
	allStrange *door.Buckets    // requests that need no token, of all networks together
	large      *door.Buckets    // KiB of large sales, by token
	daily      daily            // bytes stored, by token
	insistent  *door.Buckets    // 429s, by token
	readers    *fairqueue.Queue // turns of the requests that read many documents
	resends    *door.Buckets    // resends of a document
	resendsBy  *door.Buckets    // resends by token
	doors      sync.Map         // *bundle.Type → *issuing
	contract   atomic.Pointer[contractPages]
	access     *accessLog
	logins     *door.Logins

	serving context.Context // ends when the gateway stops accepting requests
	stop    context.CancelFunc
}

// New returns a Gateway that does not listen yet: see Serve and ServeOps.
func New(o Options) *Gateway {
	o.Logger, o.Deadline = cmp.Or(o.Logger, slog.Default()), cmp.Or(o.Deadline, time.Minute)
	if o.Types == nil {
		o.Types = record.TypeAt
	}
	if o.Issued == nil {
		o.Issued = record.Known
	}
	o.Registry = cmp.Or(o.Registry, prometheus.NewRegistry())
	allowance := fairqueue.Allowance{Burst: 30 * time.Second, Share: .25}
	g := &Gateway{o: o, metrics: newMetrics(o.Registry),
		readers: fairqueue.New(fairqueue.Options{Slots: 4, Each: 2, Waiting: 16, Now: o.Now, Allowance: allowance})}
	g.serving, g.stop = context.WithCancel(context.Background())
	g.SetTokens(o.Tokens)
	g.bound()
	g.api = g.server(&side{name: listenerAPI, places: door.Tills, sender: g.sender, admit: g.requireToken,
		pace: g.affordsLarge, bound: func(*fasthttp.RequestHeader) (int, time.Duration) { return reply.MaxBody, 0 }},
		g.routes().Handler)
	pages := newOrigins(o.Origins, o.Registry)
	g.api.Handler, g.api.ErrorHandler = pages.handler(g.api.Handler), pages.unreadable(g.api.ErrorHandler)
	ops := adminapi.New(o.Operators, adminapi.Front{Logger: o.Logger, Now: o.Now, Registry: o.Registry,
		Deadline: o.Deadline, Serving: g.serving, Refuse: g.refuse,
		Wrong: func(ctx *fasthttp.RequestCtx, given bool, message string) error {
			return g.wrong(ctx, listenerOps, given, message)
		}})
	g.ops = g.server(&side{name: listenerOps, places: door.Operators, sender: ops.Sender, admit: ops.Admit,
		bound: func(h *fasthttp.RequestHeader) (int, time.Duration) {
			if strings.HasPrefix(string(h.RequestURI()), "/admin/rules") {
				return adminapi.MaxBundle, 2 * time.Minute // an upload over a slow link needs time
			}
			return reply.MaxBody, 0
		}}, g.ownHost(ops.Router().Handler))
	return g
}

func (g *Gateway) bound() {
	o := g.o
	g.pace = door.NewBuckets(cmp.Or(o.Limits.Rate, 50), time.Second, cmp.Or(o.Limits.Burst, 200))
	g.wrongs = door.NewBuckets(1, time.Second, wrongBurst)
	large := max(1, int(cmp.Or(o.Limits.Large, 1<<20)>>10))
	g.large = door.NewBuckets(large, time.Second, max(8*large, reply.MaxBody>>10))
	g.daily.most = cmp.Or(o.Limits.Daily, 1<<30)
	g.insistent = door.NewBuckets(insistRate, time.Second, insistBurst)
	g.strange = door.NewBuckets(strangersRate, time.Second, strangersBurst)
	g.allStrange = door.NewBuckets(4*strangersRate, time.Second, 4*strangersBurst)
	g.resends = door.NewBuckets(resendsOfDocument, time.Minute, resendsOfDocument)
	g.resendsBy = door.NewBuckets(resendsByToken, time.Minute, resendsByToken)
	g.access = newAccessLog(o)
	var note func(context.Context, audit.Act) error
	if o.Operators.Audit != nil {
		note = o.Operators.Audit.Record
	}
	g.logins = door.NewLogins(note, o.Logger, o.Now)
	o.Registry.MustRegister(g.logins.Counter())
}

// ownHost refuses requests without TLS to the operators' listener that name another host (see door.OwnHost).
func (g *Gateway) ownHost(h fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if !ctx.IsTLS() && !door.OwnHost(ctx.LocalAddr(), string(ctx.Host())) {
			g.metrics.refused(listenerOps, "host")
			reply.Fail(ctx, errHost)
			return
		}
		h(ctx)
	}
}

var errHost = problem.ForOperator("NOT_FOUND",
	"Host names another machine: open the page by localhost or by its address")

type side struct {
	name   string
	places door.Places
	// sender returns the id of the token in a request's headers; the memory for bodies is shared by id. ok is false for
	// a stranger, a caller without a good token: the gateway does not read a stranger's body.
	sender func(*fasthttp.RequestHeader) (id int64, ok bool)
	admit  func(*fasthttp.RequestCtx) error // refuses a stranger
	pace   func(id int64, n int) error      // see door.NewBodies
	// bound returns the largest size of a body, in bytes, and how long it may take to arrive; 0 means 15 s.
	bound func(*fasthttp.RequestHeader) (most int, long time.Duration)
}

// server sets fasthttp's timeouts, because by default there are no timeouts, and its size limits. Concurrency is above
// package door's limit, because a worker may outlive its connection. received reads only known senders' bodies.
func (g *Gateway) server(l *side, h fasthttp.RequestHandler) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      g.recovered(l.name, g.received(l, h)),
		ErrorHandler:                 g.unreadable(l.name),
		HeaderReceived:               l.announced,
		ConnState:                    g.access.answered,
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true, // fasthttp would write a form's files to the disk
		ReadTimeout:                  15 * time.Second,
		WriteTimeout:                 g.o.Deadline + 15*time.Second,
		IdleTimeout:                  2 * time.Minute,
		MaxRequestBodySize:           reply.MaxBody,
		Concurrency:                  2*l.places.All + 64,
		ReadBufferSize:               16 << 10, // bytes of headers
		WriteBufferSize:              16 << 10, // bytes: a whole issued document
		NoDefaultServerHeader:        true,
		SecureErrorLogMessage:        true, // without it, a parse error logs the request and its token
		CloseOnShutdown:              true,
		TCPKeepalive:                 true,
		Logger:                       fastLogger{g.o.Logger},
	}
}

// fastLogger logs fasthttp's messages at the debug level, without arguments: they may quote a request.
type fastLogger struct{ log *slog.Logger }

func (l fastLogger) Printf(format string, _ ...any) { l.log.Debug("fasthttp", "format", format) }

// Serve answers the tills until ctx ends. It then accepts no request, and waits at most 10 s for the requests in hand.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener) error {
	defer context.AfterFunc(ctx, g.stop)()
	defer g.access.flush()
	var recall sync.WaitGroup
	recall.Go(func() { g.recall(g.serving) })
	defer recall.Wait()
	defer g.stop()
	return serve(ctx, g.api, door.Listen(ln, g.o.APITLS, door.Tills,
		func(reason string) { g.metrics.refused(listenerAPI, reason) }))
}

func (g *Gateway) ServeOps(ctx context.Context, ln net.Listener) error {
	within, stop := context.WithCancel(ctx)
	var logins sync.WaitGroup
	logins.Go(func() { g.logins.Run(within) })
	defer logins.Wait()
	defer stop()
	return serve(ctx, g.ops, door.Listen(ln, g.o.OpsTLS, door.Operators,
		func(reason string) { g.metrics.refused(listenerOps, reason) }))
}

func serve(ctx context.Context, s *fasthttp.Server, ln net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.ShutdownWithContext(finish)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // some requests still wait for MH; the next start settles their documents
	}
	return err
}

func (g *Gateway) routes() reply.Router {
	r := reply.NewRouter()
	g.issuingRoute(r)
	r.POST("/dte/invalidacion/{codigoGeneracion}", g.handle("/dte/invalidacion", g.invalidate))
	r.POST("/dte/correccion/{codigoGeneracion}", g.handle("/dte/correccion", g.correct))
	r.POST("/dte/documentos-info", g.handle("/dte/documentos-info", g.infos))
	r.Read("/dte/documentos", g.handle("/dte/documentos", g.list, filters...))
	r.Read("/dte/catalogos", g.handle("/dte/catalogos", g.codeLists))
	r.Read("/dte/catalogos/{catalogo}", g.handle("/dte/catalogos", g.codeLists))
	r.Read("/dte/cierre", g.handle("/dte/cierre", g.closing, "fecha", "puntoVenta", "clase", "format", "layout"))
	r.POST("/dte/cierre", g.handle("/dte/cierre", g.closeDay, "fecha"))
	r.Read("/dte/cambios", g.handle("/dte/cambios", g.changes, "desde", "wait"))
	r.Read("/dte/information", g.handle("/dte/information", g.information))
	r.Read("/dte/documento/{codigoGeneracion}", g.handle("/dte/documento", g.document))
	r.Read("/dte/pdf/{codigoGeneracion}", g.handle("/dte/pdf", g.printed, "format", "layout"))
	r.Read("/dte/json/{codigoGeneracion}", g.handle("/dte/json", g.archivo))
	r.Read("/dte/descarga/{codigoGeneracion}", g.measured("/dte/descarga", g.linked))
	r.POST("/dte/resend/{codigoGeneracion}", g.handle("/dte/resend", g.resend))
	if g.o.Slug != "" {
		r.Read("/"+g.o.Slug+"/DTES/{ruta:*}", g.handle("/DTES", g.storedFile))
	}
	for _, path := range []string{"/openapi.json", "/docs"} {
		r.Read(path, g.measured(path, g.publicPage))
	}
	return r
}

// call is a request of an authenticated till.
type call struct {
	ctx      *fasthttp.RequestCtx
	deadline context.Context // does not end when the till hangs up: begun work is finished
	token    *Token
	caller   record.Caller
	code     dte.Code // codigoGeneracion in the path, if the route has one
	query    query
}

func (c *call) answer(body []byte) error {
	reply.Answer(c.ctx, fasthttp.StatusOK, body)
	return nil
}

// handle returns a handler that authenticates the caller, calls h, measures the request, and turns errors into HTTP
// answers. names are the query parameters of the route.
func (g *Gateway) handle(route string, h func(*call) error, names ...string) fasthttp.RequestHandler {
	return g.measured(route, func(ctx *fasthttp.RequestCtx) error {
		token, err := g.authenticate(ctx)
		if err == nil {
			err = g.paced(token)
		}
		if err == nil {
			err = reply.CheckQuery(ctx, names)
		}
		own := strings.TrimPrefix(route, "/dte/")
		if err == nil && ctx.IsPost() && validates(ctx) && slices.Contains(bundle.OwnPaths, own) {
			err = errNoValidation
		}
		if err != nil {
			return err
		}
		c := &call{ctx: ctx, token: token, caller: g.caller(ctx, token), query: query{args: ctx.QueryArgs()}}
		if ctx.UserValue("codigoGeneracion") != nil {
			if c.code, err = pathCode(ctx); err != nil {
				return err
			}
		}
		var cancel context.CancelFunc
		c.deadline, cancel = context.WithTimeout(context.Background(), g.o.Deadline)
		defer cancel()
		return h(c)
	})
}

// measured returns a handler that requires no token, calls h, measures each request, and answers errors.
func (g *Gateway) measured(route string, h func(*fasthttp.RequestCtx) error) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		began := time.Now()
		g.metrics.inFlight.Inc()
		defer func() {
			g.metrics.inFlight.Dec()
			g.metrics.requests.WithLabelValues(route, strconv.Itoa(ctx.Response.StatusCode()/100)+"xx").Inc()
			g.metrics.latency.WithLabelValues(route).Observe(time.Since(began).Seconds())
			g.access.writeLine(ctx, route, time.Since(began))
		}()
		if err := h(ctx); err != nil {
			g.refuse(ctx, route, err)
		}
	}
}

// recovered answers 500 when a handler panics, so that the process goes on. It also marks the operators' requests.
func (g *Gateway) recovered(listener string, h fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if listener == listenerOps {
			ctx.SetUserValue(reply.ForOperators, true)
		}
		defer func() {
			if v := recover(); v != nil {
				g.o.Logger.Error("a request panicked", "path", string(ctx.Path()), "panic", v, "stack",
					string(debug.Stack()))
				reply.Fail(ctx, problem.ForTill("INTERNAL", "Error interno"))
			}
		}()
		h(ctx)
	}
}

//go:embed openapi.json
var contractBase []byte

//go:embed openapi.es.json
var contractSpanish []byte

// OpenAPI returns the tills' contract as OpenAPI 3.1: every route, request, answer and error code. issued are the types
// of documents that the branch issues; lang is the language of the texts, es or en. The tests of this package compare
// the contract with the routes; the tests of cmd/dted compare every request and answer with the contract.
func OpenAPI(issued []*bundle.Type, lang string) ([]byte, error) {
	return form.Contract(contractBase, issued, record.Known(), contractTexts()[lang])
}

// contractTexts returns, for each language but English, a map from the contract's English texts to that language.
var contractTexts = sync.OnceValue(func() map[string]map[string]string {
	var spanish map[string]string
	if err := json.Unmarshal(contractSpanish, &spanish); err != nil {
		panic(err) // cannot happen: the file is part of the program, and tests would find a fault
	}
	return map[string]map[string]string{"es": spanish}
})

// contractPages are the contract's pages for one set of types: GET /openapi.json, and GET /docs for people.
type contractPages struct {
	issued []*bundle.Type
	pages  map[string]fixedPage // by path and language: "/docs es"
}

// fixedPage is a page that is the same for every caller. tag is its ETag, policy its Content-Security-Policy.
type fixedPage struct {
	name, kind, tag, policy string
	body                    []byte
}

// contractPages returns the pages for the types that the branch issues today. New types get new pages.
func (g *Gateway) contractPages() (*contractPages, error) {
	issued := g.o.Issued()
	if have := g.contract.Load(); have != nil && slices.Equal(have.issued, issued) {
		return have, nil
	}
	made := &contractPages{issued: issued, pages: make(map[string]fixedPage)}
	for _, lang := range []string{"en", "es"} {
		text, err := OpenAPI(issued, lang)
		if err != nil {
			return nil, fmt.Errorf("making the contract: %w", err)
		}
		docs := page.Reference(text, contractTexts()[lang])
		made.pages["/openapi.json "+lang] = fixedPage{name: "openapi.json", kind: "application/json; charset=utf-8",
			tag: tagOf(text), body: text}
		made.pages["/docs "+lang] = fixedPage{name: "docs.html", kind: "text/html; charset=utf-8",
			policy: page.ReferencePolicy, tag: tagOf(docs), body: docs}
	}
	g.contract.Store(made)
	return made, nil
}

// publicPage serves a page of the contract to anybody, at the rate that the method stranger permits. By default, /docs
// is in Spanish, and /openapi.json, which programs read, in English.
func (g *Gateway) publicPage(ctx *fasthttp.RequestCtx) error {
	if err := cmp.Or(g.stranger(ctx), reply.CheckQuery(ctx, []string{"lang"})); err != nil {
		return err
	}
	made, err := g.contractPages()
	if err != nil {
		return err
	}
	path, otherwise := string(ctx.Path()), "es"
	if path == "/openapi.json" {
		otherwise = "en"
	}
	p := made.pages[path+" "+reply.Language(ctx, otherwise)]
	respondTagged(ctx, p.kind, "inline", p.name, p.tag, p.body)
	ctx.Response.Header.Add("Vary", "Accept-Language")
	if p.policy != "" {
		reply.Secure(ctx, p.policy)
	}
	return nil
}

// refuse answers a request with an error. The log gets the details that the till must not see.
func (g *Gateway) refuse(ctx *fasthttp.RequestCtx, route string, err error) {
	e, ok := errors.AsType[*refusal.Error](err)
	if !ok {
		e = &refusal.Error{Code: refusal.CodeInternal, Message: "Error interno", Err: err}
	}
	if _, busy := errors.AsType[*fairqueue.Busy](e.Err); busy {
		g.metrics.refused(listenerAPI, "printing")
	} else if e.Err != nil {
		g.o.Logger.Error("request failed", "route", route, "type", e.Code, "error", e.Err)
	}
	t, known := ctx.UserValue(loggedToken).(*Token)
	if known && problem.Status(e.Code) == fasthttp.StatusTooManyRequests {
		g.slow(t.ID)
	}
	reply.Fail(ctx, e)
}

// answerRecord answers with a record. The connection reuses a buffer of up to 32 KiB for its next answer; a larger
// buffer would occupy memory for an idle till.
func answerRecord(ctx *fasthttp.RequestCtx, status int, r *record.View) error {
	const kept = 32 << 10 // bytes
	ctx.SetUserValue(loggedCode, r.Code)
	size := reply.RecordSize(r)
	if size > kept {
		reply.Answer(ctx, status, reply.Record(make([]byte, 0, size), r))
		return nil
	}
	b := slices.Grow(ctx.Response.SwapBody(nil)[:0], size)
	reply.Answer(ctx, status, nil)
	ctx.Response.SwapBody(reply.Record(b, r))
	return nil
}
