// Package gateway serves HTTP: the tills' API and the operators' listener. It knows requests, answers and their names; package
// engine decides what they mean. fasthttp's RequestCtx never leaves this folder.
package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/fair"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/register"
	"dtegate/engine/seller"
	"dtegate/gateway/door"
	"dtegate/gateway/exchange"
	"dtegate/gateway/operators"
	"dtegate/gateway/reply"
)

// Sales makes documents from requests, corrects them and invalidates them. The engine has these methods.
type Sales interface {
	Issue(context.Context, engine.Request) (*record.View, error)
	Check(context.Context, engine.Request) []dte.Fault
	Correct(context.Context, dte.Code, engine.Request) (*record.View, error)
	Invalidate(context.Context, engine.InvalidationRequest) (*record.View, error)
	CheckInvalidation(context.Context, engine.InvalidationRequest) []dte.Fault
}

// Documents finds issued documents, and prints, mails and links them. The engine and its register have these methods.
type Documents interface {
	Document(context.Context, dte.Code, seller.Caller) (*record.View, error)
	Infos(context.Context, []dte.Code, seller.Caller) ([]register.Info, error)
	List(context.Context, register.Filter, seller.Caller) (*register.Listing, error)
	Changes(context.Context, uint64, seller.Caller) ([]register.Late, uint64, error)
	Printed(ctx context.Context, code dte.Code, c seller.Caller, layout string, escpos bool) ([]byte, error)
	Archivo(context.Context, dte.Code, seller.Caller) ([]byte, error)
	Link(ctx context.Context, code dte.Code, c seller.Caller, layout string, life time.Duration) (string, error)
	Resend(ctx context.Context, code dte.Code, to string, c seller.Caller) (*outbox.Resent, error)
}

// Options of New.
type Options struct {
	Sales     Sales
	Documents Documents
	Operators operators.Options // what the operators' listener answers with
	Tokens    TokenTable
	Issuer    reply.Information
	Logger    *slog.Logger
	Now       func() time.Time
	Registry  *prometheus.Registry
	// PaymentCodes maps a till's own payment codes to CAT-017; codes that are not in it pass.
	PaymentCodes map[string]string
	// Slug is the first element of the documents' paths; empty: they are not served.
	Slug string
	// PublicURL is where the tills' listener is reached from outside, "https://dte.example.com"; empty: as the request
	// that asks for a link says.
	PublicURL string
	// Origins are the pages that may use the tills' API from a browser, each as a browser writes it in Origin ("https://caja.example.com"). Default: none.
	Origins []string
	// APITLS and OpsTLS encrypt the listeners; nil: plain HTTP.
	APITLS, OpsTLS *tls.Config
	// Limits of a token.
	Limits Limits
	// Usage returns how many bytes each token had stored on a day (yyyy-mm-dd) before the start; nil: nobody knows.
	Usage func(ctx context.Context, day string) (map[int64]int64, error)
	// Access is what tokens may do beside issuing.
	Access Access
	// AccessLog writes a line for each request of a till that changes something, and for each refused one without a token.
	AccessLog bool
	// Deadline of a request, default 60 s: longer than MH's retry policy.
	Deadline time.Duration
}

// Gateway serves the tills and the operators.
type Gateway struct {
	*front
	*saleRoutes
	*documentRoutes

	api *fasthttp.Server
	ops *fasthttp.Server
}

// front is what each route asks first: who it is, and how much of it there may be. It also tells what is wrong.
type front struct {
	o          Options
	metrics    *metrics
	tokens     atomic.Pointer[TokenTable]
	pace       *door.Buckets // requests by token
	wrongs     *door.Buckets // wrong tokens by network
	strange    *door.Buckets // requests that take no token, by network
	allStrange *door.Buckets // and all together
	large      *door.Buckets // KiB of large sales, by token
	daily      daily         // bytes stored, by token
	insistent  *door.Buckets // 429s, by token
	access     *accessLog
	logins     *door.Logins

	serving context.Context // ends when the gateway takes no more requests
	stop    context.CancelFunc
}

// saleRoutes make documents, correct them and take them back.
type saleRoutes struct{ *front }

// documentRoutes find what was issued, and hand it over.
type documentRoutes struct {
	*front
	info    []byte      // the emisor of GET /dte/information
	readers *fair.Queue // who list documents
	resends limiter
}

// New returns a gateway; it listens to nothing.
func New(o Options) *Gateway {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Deadline == 0 {
		o.Deadline = time.Minute
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	f := newFront(o)
	g := &Gateway{front: f, saleRoutes: &saleRoutes{f}, documentRoutes: &documentRoutes{front: f, info: o.Issuer.Encode(),
		readers: fair.New(fair.Options{Slots: 4, Each: 2, Waiting: 16, Now: o.Now, Allowance: fair.Allowance{Burst: 30 * time.Second, Share: .25}})}}
	g.api = g.server(listenerAPI, door.Tills.All, g.routes().Handler, g.sender, g.requireToken, g.affordsLarge, func(*fasthttp.RequestHeader) (int, time.Duration) { return exchange.MaxBody, 0 })
	pages := newOrigins(o.Origins, o.Registry)
	g.api.Handler, g.api.ErrorHandler = pages.handler(g.api.Handler), pages.unreadable(g.api.ErrorHandler)
	ops := operators.New(o.Operators, operators.Front{Logger: o.Logger, Now: o.Now, Registry: o.Registry, Deadline: o.Deadline, Serving: f.serving, Refuse: f.refuse,
		Wrong: func(ctx *fasthttp.RequestCtx, given bool, message string) error {
			return f.wrong(ctx, listenerOps, given, message)
		}})
	g.ops = g.server(listenerOps, door.Operators.All, ops.Router().Handler, ops.Sender, ops.Admit, nil, func(h *fasthttp.RequestHeader) (int, time.Duration) {
		if strings.HasPrefix(string(h.RequestURI()), "/admin/rules") {
			return operators.MaxBundle, 2 * time.Minute // a bundle comes from far away
		}
		return exchange.MaxBody, 0
	})
	return g
}

func newFront(o Options) *front {
	f := &front{o: o, metrics: newMetrics(o.Registry)}
	f.serving, f.stop = context.WithCancel(context.Background())
	f.SetTokens(o.Tokens)
	f.pace = door.NewBuckets(cmp.Or(o.Limits.Rate, 50), cmp.Or(o.Limits.Burst, 200))
	f.wrongs = door.NewBuckets(1, wrongBurst)
	large := max(1, int(cmp.Or(o.Limits.Large, 1<<20)>>10))
	f.large, f.daily.most = door.NewBuckets(large, max(8*large, exchange.MaxBody>>10)), cmp.Or(o.Limits.Daily, 1<<30)
	f.insistent = door.NewBuckets(insistRate, insistBurst)
	f.strange, f.allStrange = door.NewBuckets(strangersRate, strangersBurst), door.NewBuckets(4*strangersRate, 4*strangersBurst)
	f.access = newAccessLog(o)
	var note func(context.Context, audit.Act) error
	if o.Operators.Audit != nil {
		note = o.Operators.Audit.Record
	}
	f.logins = door.NewLogins(note, o.Logger, o.Now)
	o.Registry.MustRegister(f.access.dropped, f.logins.Counter())
	return f
}

// server sets every limit of fasthttp, whose own are none. Connections are bounded at the door; a worker may outlive its
// connection for a moment. Bodies are streamed to received, which reads those of known senders and no others: bound
// returns how large one may be, and how long it may take if not 15 s.
func (g *Gateway) server(listener string, connections int, h fasthttp.RequestHandler, from sender, admit func(*fasthttp.RequestCtx) error, pace func(id int64, n int) error, bound func(*fasthttp.RequestHeader) (int, time.Duration)) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      g.recovered(listener, g.received(listener, from, admit, pace, bound, h)),
		ErrorHandler:                 g.unreadable(listener),
		HeaderReceived:               announced(from, bound),
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true, // it would write a form's files to the disk
		ReadTimeout:                  15 * time.Second,
		WriteTimeout:                 g.o.Deadline + 15*time.Second,
		IdleTimeout:                  2 * time.Minute,
		MaxRequestBodySize:           exchange.MaxBody,
		Concurrency:                  2*connections + 64,
		ReadBufferSize:               16 << 10, // bytes of headers
		WriteBufferSize:              16 << 10, // an issued document at once
		NoDefaultServerHeader:        true,
		SecureErrorLogMessage:        true, // else a parse error logs the request, token and all
		CloseOnShutdown:              true,
		TCPKeepalive:                 true,
		Logger:                       fastLogger{g.o.Logger},
	}
}

// fastLogger sends fasthttp's own words, which may quote a request, to the debug level.
type fastLogger struct{ log *slog.Logger }

func (l fastLogger) Printf(format string, _ ...any) { l.log.Debug("fasthttp", "format", format) }

// Serve answers the tills until ctx ends. Then it accepts no more requests, and finishes those in progress.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener) error {
	defer context.AfterFunc(ctx, g.stop)()
	defer g.access.flush()
	recalled := make(chan struct{})
	go func() { defer close(recalled); g.recall(g.serving) }()
	defer func() { g.stop(); <-recalled }()
	return serve(ctx, g.api, door.Listen(ln, g.o.APITLS, door.Tills, func(reason string) { g.metrics.refused(listenerAPI, reason) }))
}

// ServeOps answers the operators until ctx ends.
func (g *Gateway) ServeOps(ctx context.Context, ln net.Listener) error {
	within, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); g.logins.Run(within) }()
	defer func() { stop(); <-done }()
	return serve(ctx, g.ops, door.Listen(ln, g.o.OpsTLS, door.Operators, func(reason string) { g.metrics.refused(listenerOps, reason) }))
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
		err = nil // requests that MH still holds up; the engine leaves them to the next start
	}
	return err
}
