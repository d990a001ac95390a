package gateway

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dtegate/gateway/door"
	"dtegate/gateway/exchange"
)

// Keys of what is known of a request when it is answered.
const (
	loggedToken  = "log.token"
	loggedCode   = "log.code"
	loggedAlways = "log.always" // though it changes nothing
)

// Lines of the access log: so many at once, and so many a second for long. What is beyond is counted, and the next line says
// how many are missing: a flood must not fill the disk that the store is on.
const (
	requestLines = 50
	requestBurst = 2000
	refusalLines = 1
	refusalBurst = 60
)

// accessLog writes a line for each request of a till that changes or sends something, and for each that is refused for want
// of a token. A line holds no body, no token and no text of a request's but its path.
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
	a := &accessLog{now: o.Now, lines: map[string]*door.Buckets{lineRequest: door.NewBuckets(requestLines, requestBurst), lineRefused: door.NewBuckets(refusalLines, refusalBurst)},
		missing: make(map[string]int),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_access_log_dropped_total",
			Help: "Lines of the access log that were left out because there were too many, by kind: request, refused."}, []string{"kind"})}
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
	if a.log == nil || t == nil || (!ctx.IsPost() || route == "/dte/documentos-info") && ctx.UserValue(loggedAlways) == nil {
		return
	}
	code, _ := ctx.UserValue(loggedCode).(string)
	if code == "" {
		code, _ = ctx.UserValue("codigoGeneracion").(string)
	}
	attrs := []slog.Attr{slog.Int64("token", t.ID), slog.Int64("point_of_sale", t.Point.ID), slog.String("route", route), slog.String("code", exchange.TerminalText(code)),
		slog.Int("status", ctx.Response.StatusCode()), slog.Duration("took", took.Round(time.Microsecond)), slog.String("remote", ctx.RemoteIP().String())}
	if kind, _ := ctx.UserValue(exchange.ErrorKind).(string); kind != "" {
		attrs = append(attrs, slog.String("error", kind))
	}
	a.write(ctx, lineRequest, "request", attrs)
}

// refused writes the line of a request without a good token.
func (a *accessLog) refused(ctx *fasthttp.RequestCtx, listener string, given bool) {
	if a.log == nil {
		return
	}
	a.write(ctx, lineRefused, "no token", []slog.Attr{slog.String("listener", listener), slog.Bool("given", given), slog.String("method", exchange.TerminalText(string(ctx.Method()))),
		slog.String("path", exchange.TerminalText(string(ctx.Path()))), slog.String("remote", ctx.RemoteIP().String())})
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
