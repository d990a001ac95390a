package gateway

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/gateway/door"
	"dtegate/gateway/reply"
)

// Keys of a request's user values for its log line.
const (
	loggedToken  = "log.token"
	loggedCode   = "log.code"
	loggedAlways = "log.always" // log the request although it changes nothing
)

// Limits of the access log: lines a second on average, and lines at once. Further lines are only counted, so that a
// flood does not fill the store's disk; the next written line states their number.
const (
	requestLines = 50
	requestBurst = 2000
	refusalLines = 1
	refusalBurst = 60
)

// accessLog writes a line for each request of a till that may change or send something, and for each request refused
// for lack of a valid token, up to a number of lines a second. A line has no text of the client's request other than
// the method, the path or route, and the code of a document.
type accessLog struct {
	log      *slog.Logger
	now      func() time.Time
	requests lines
	refusals lines
	due      sync.Map // net.Conn → func() that writes the line of its request: a request has at most one line
}

type lines struct {
	kind    string
	pace    *door.Buckets
	missing atomic.Int64 // lines left out since the last written line
}

func newAccessLog(o Options) *accessLog {
	a := &accessLog{log: o.Logger, now: o.Now}
	a.requests.kind, a.requests.pace = "request", door.NewBuckets(requestLines, time.Second, requestBurst)
	a.refusals.kind, a.refusals.pace = "refused", door.NewBuckets(refusalLines, time.Second, refusalBurst)
	return a
}

// writeLine writes the line of a finished request with a good token if it may change something, or has loggedAlways.
func (a *accessLog) writeLine(ctx *fasthttp.RequestCtx, route string, took time.Duration) {
	t, _ := ctx.UserValue(loggedToken).(*Token)
	if t == nil || (!ctx.IsPost() || route == "/dte/documentos-info") && ctx.UserValue(loggedAlways) == nil {
		return
	}
	code, _ := ctx.UserValue(loggedCode).(string)
	if code == "" {
		code, _ = ctx.UserValue("codigoGeneracion").(string)
	}
	attrs := []slog.Attr{slog.Int64("token", t.ID), slog.Int64("point_of_sale", t.Point.ID), slog.String("route",
		route), slog.String("code", reply.TerminalText(code)),
		slog.Int("status", ctx.Response.StatusCode()), slog.Duration("took", took.Round(time.Microsecond)),
		slog.String("remote", ctx.RemoteIP().String())}
	if kind, _ := ctx.UserValue(reply.ErrorKind).(string); kind != "" {
		attrs = append(attrs, slog.String("error", kind))
	}
	a.write(ctx, &a.requests, "request", attrs)
}

// refused writes the line of a request without a good token. given: the request had a wrong token.
func (a *accessLog) refused(ctx *fasthttp.RequestCtx, listener string, given bool) {
	a.write(ctx, &a.refusals, "no token", []slog.Attr{slog.String("listener", listener), slog.Bool("given", given),
		slog.String("method", reply.TerminalText(string(ctx.Method()))),
		slog.String("path", reply.TerminalText(string(ctx.Path()))), slog.String("remote", ctx.RemoteIP().String())})
}

func (a *accessLog) write(ctx *fasthttp.RequestCtx, l *lines, message string, attrs []slog.Attr) {
	if l.pace.Take("", a.now()) > 0 {
		l.missing.Add(1)
		return
	}
	if n := l.missing.Swap(0); n > 0 {
		attrs = append(attrs, slog.Int64("missing", n))
	}
	a.due.Store(ctx.Conn(), func() { a.log.LogAttrs(context.Background(), slog.LevelInfo, message, attrs...) })
}

// answered writes the line of a connection's request once the answer was sent, or the connection is closed: no till
// waits for the log.
func (a *accessLog) answered(c net.Conn, _ fasthttp.ConnState) {
	if write, ok := a.due.LoadAndDelete(c); ok {
		write.(func())()
	}
}

// flush logs, when the gateway stops, how many lines are missing from the log.
func (a *accessLog) flush() {
	for _, l := range []*lines{&a.requests, &a.refusals} {
		if n := l.missing.Swap(0); n > 0 {
			a.log.Info("access log", "kind", l.kind, "missing", n)
		}
	}
}

type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refusals *prometheus.CounterVec
}

// Values of the label listener.
const (
	listenerAPI = "api"
	listenerOps = "ops"
)

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_http_requests_total",
			Help: "Requests of tills by route and status class (2xx, 4xx, 5xx)."}, []string{"route", "class"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dte_http_request_duration_seconds",
			Help: "Time to answer a till's request, by route.", Buckets: []float64{.001, .002, .003, .005, .01, .025,
				.05, .1, .25, .5, 1, 2.5, 8, 32, 64}}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dte_http_requests_in_flight",
			Help: "Requests of tills being answered."}),
	}
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_http_refused_total",
		Help: "Requests and connections that were refused before anything was done for them."}, []string{"listener",
		"reason"})
	for _, listener := range []string{listenerAPI, listenerOps} {
		for _, reason := range []string{"token", "wrong_tokens", "strangers", "rate", "address_connections",
			"connections", "stranger", "address_stranger", "handshake", "size", "bodies", "body_share", "large",
			"daily", "printing", "readers", "slow", "malformed"} {
			m.refusals.WithLabelValues(listener, reason)
		}
	}
	r.MustRegister(m.requests, m.latency, m.inFlight, m.refusals)
	return m
}

func (m *metrics) refused(listener, reason string) {
	m.refusals.WithLabelValues(listener, reason).Inc()
}
