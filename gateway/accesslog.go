package gateway

import (
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/gateway/door"
	"dtegate/gateway/reply"
)

// Keys of what is known of a request when it is answered.
const (
	loggedToken  = "log.token"
	loggedCode   = "log.code"
	loggedAlways = "log.always" // though it changes nothing
)

// Lines of the access log: so many at once, and so many a second for long. What is beyond is counted, and the next line
// says how many are missing: a flood must not fill the disk that the store is on.
const (
	requestLines = 50
	requestBurst = 2000
	refusalLines = 1
	refusalBurst = 60
)

// accessLog writes a line for each request of a till that changes or sends something, and for each that is refused for
// want of a token. A line holds no body, no token and no text of a request's but its path.
type accessLog struct {
	log     *slog.Logger // nil: nothing is written
	now     func() time.Time
	lines   map[string]*door.Buckets // by kind
	dropped *prometheus.CounterVec

	mu      sync.Mutex
	missing map[string]int // lines that were not written since the last one, by kind
}

// Kinds of line.
const (
	lineRequest = "request"
	lineRefused = "refused"
)

func newAccessLog(o Options) *accessLog {
	a := &accessLog{now: o.Now, missing: make(map[string]int),
		lines: map[string]*door.Buckets{lineRequest: door.NewBuckets(requestLines, time.Second, requestBurst),
			lineRefused: door.NewBuckets(refusalLines, time.Second, refusalBurst)},
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_access_log_dropped_total",
			Help: "Lines of the access log that were left out because there were too many, by kind: request, refused."},
			[]string{"kind"})}
	for _, kind := range []string{lineRequest, lineRefused} {
		a.dropped.WithLabelValues(kind)
	}
	if o.AccessLog {
		a.log = o.Logger
	}
	return a
}

// writeLine writes the line of a request that is over, if it is one to be logged.
func (a *accessLog) writeLine(ctx *fasthttp.RequestCtx, route string, took time.Duration) {
	t, _ := ctx.UserValue(loggedToken).(*Token)
	if a.log == nil || t == nil || (!ctx.IsPost() || route == "/dte/documentos-info") &&
		ctx.UserValue(loggedAlways) == nil {
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
	a.write(ctx, lineRequest, "request", attrs)
}

// refused writes the line of a request without a good token.
func (a *accessLog) refused(ctx *fasthttp.RequestCtx, listener string, given bool) {
	if a.log == nil {
		return
	}
	a.write(ctx, lineRefused, "no token", []slog.Attr{slog.String("listener", listener), slog.Bool("given", given),
		slog.String("method", reply.TerminalText(string(ctx.Method()))),
		slog.String("path", reply.TerminalText(string(ctx.Path()))), slog.String("remote", ctx.RemoteIP().String())})
}

func (a *accessLog) write(ctx *fasthttp.RequestCtx, kind, message string, attrs []slog.Attr) {
	if a.full(kind) {
		return
	}
	if n := a.take(kind); n > 0 {
		attrs = append(attrs, slog.Int("missing", n))
	}
	a.log.LogAttrs(ctx, slog.LevelInfo, message, attrs...)
}

// full counts a line that there is no room for.
func (a *accessLog) full(kind string) bool {
	wait := a.lines[kind].Take(kind, a.now())
	if wait == 0 {
		return false
	}
	a.dropped.WithLabelValues(kind).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missing[kind]++
	return true
}

func (a *accessLog) take(kind string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.missing[kind]
	a.missing[kind] = 0
	return n
}

// flush tells of the lines that are missing at the end.
func (a *accessLog) flush() {
	for _, kind := range []string{lineRequest, lineRefused} {
		if n := a.take(kind); n > 0 {
			a.log.Info("access log", "kind", kind, "missing", n)
		}
	}
}

type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refusals *prometheus.CounterVec
}

// The listeners, as a label.
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

func (m *metrics) countAnswer(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status/100)+"xx").Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}
