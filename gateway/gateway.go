// Package gateway is HTTP in: the tills' API and the operators' listener. It knows requests, answers and their names;
// what they mean is the engine's. fasthttp's RequestCtx never leaves it.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/dte"
)

// Engine is what the gateway asks of the engine.
type Engine interface {
	Issue(context.Context, engine.Request) (*engine.Record, error)
	Document(context.Context, dte.Code, engine.Caller) (*engine.Record, error)
	Check(context.Context, engine.Request) []dte.Fault
	Correct(context.Context, dte.Code, engine.Request) (*engine.Record, error)
	Invalidate(context.Context, engine.InvalidationRequest) (*engine.Record, error)
	Infos(context.Context, []dte.Code, engine.Caller) ([]engine.Info, error)
	List(context.Context, engine.Filter, engine.Caller) (*engine.Listing, error)
	Changes(context.Context, uint64, engine.Caller) ([]engine.Late, uint64, error)
	Declare(ctx context.Context, cause int64, reason string) error
	Lift(context.Context) error
	Printed(ctx context.Context, code dte.Code, c engine.Caller, layout string, escpos bool) ([]byte, error)
	Archivo(context.Context, dte.Code, engine.Caller) ([]byte, error)
	Link(ctx context.Context, code dte.Code, c engine.Caller, layout string, life time.Duration) (string, error)
	Resend(ctx context.Context, code dte.Code, to string, c engine.Caller) (*engine.Resent, error)
}

// Options of New.
type Options struct {
	Engine   Engine
	Rules    Rules
	Tokens   TokenTable
	Issuer   Information
	Logger   *slog.Logger
	Now      func() time.Time
	Ready    func() error // nil when the branch can issue
	Status   func() any   // what /status shows, as JSON
	Registry *prometheus.Registry
	// AdminToken is the SHA-256 of the admin token; zero lets nobody in.
	AdminToken [32]byte
	// PaymentCodes maps a till's own payment codes to CAT-017; codes that are not in it pass.
	PaymentCodes map[string]string
	// Slug is the first element of the documents' paths; empty: they are not served.
	Slug string
	// PublicURL is where the tills' listener is reached from outside, "https://dte.example.com"; empty: as the request
	// that asks for a link says.
	PublicURL string
	// Deadline of a request, default 60 s: longer than MH's retry policy.
	Deadline time.Duration
}

// Limits of a request (DESIGN: beyond, 413 or 400 with the limit named).
const (
	maxBody  = 1 << 20 // bytes
	maxItems = 2000
)

// Gateway serves the tills and the operators.
type Gateway struct {
	o       Options
	metrics *metrics
	api     *fasthttp.Server
	ops     *fasthttp.Server
	info    []byte // the emisor of GET /dte/information
	resends limiter

	serving context.Context // ends when the gateway takes no more requests
	stop    context.CancelFunc
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
	g := &Gateway{o: o, metrics: newMetrics(o.Registry), info: o.Issuer.encode()}
	g.serving, g.stop = context.WithCancel(context.Background())
	g.api = g.server(g.routes(), 4096, 64)
	g.ops = g.server(g.opsRoutes(), 64, 16)
	g.ops.MaxRequestBodySize = maxBundle
	g.ops.ReadTimeout = 2 * time.Minute // a bundle comes from far away
	return g
}

// server sets every limit of fasthttp, whose own are none.
func (g *Gateway) server(h fasthttp.RequestHandler, connections, perIP int) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:               h,
		ErrorHandler:          g.parseError,
		ReadTimeout:           15 * time.Second,
		WriteTimeout:          g.o.Deadline + 15*time.Second,
		IdleTimeout:           2 * time.Minute,
		MaxRequestBodySize:    maxBody,
		Concurrency:           connections,
		MaxConnsPerIP:         perIP,
		ReadBufferSize:        16 << 10, // bytes of headers
		NoDefaultServerHeader: true,
		SecureErrorLogMessage: true, // else a parse error logs the request, token and all
		CloseOnShutdown:       true,
		TCPKeepalive:          true,
		Logger:                fastLogger{g.o.Logger},
	}
}

// fastLogger sends fasthttp's own words, which may quote a request, to the debug level.
type fastLogger struct{ log *slog.Logger }

func (l fastLogger) Printf(format string, _ ...any) { l.log.Debug("fasthttp", "format", format) }

// Serve answers the tills until ctx ends; then it takes no more requests and finishes those in flight.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener) error {
	defer context.AfterFunc(ctx, g.stop)()
	return serve(ctx, g.api, ln)
}

// ServeOps answers the operators until ctx ends.
func (g *Gateway) ServeOps(ctx context.Context, ln net.Listener) error { return serve(ctx, g.ops, ln) }

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
