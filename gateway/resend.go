package gateway

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/exchange"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// Resends in a minute: of a document, and by a token. A till that loops must not fill somebody's inbox.
const (
	resendsOfDocument = 5
	resendsByToken    = 30
)

// resend answers POST /dte/resend/:codigoGeneracion (SPEC 4.8). The body may be missing.
func (g *documentRoutes) resend(ctx *fasthttp.RequestCtx, t *Token) error {
	code, err := pathCode(ctx)
	if err != nil {
		return err
	}
	email := ""
	if len(ctx.PostBody()) > 0 {
		v, err := exchange.Body(ctx)
		if err != nil {
			return err
		}
		address, d := form.Resend(v)
		if len(d.Faults) > 0 {
			return exchange.Invalid(d)
		}
		email = address
	}
	now := g.o.Now()
	wait := max(g.resends.take(code.String(), resendsOfDocument, now), g.resends.take(strconv.FormatInt(t.ID, 10), resendsByToken, now))
	if wait > 0 {
		return &problem.Problem{Status: fasthttp.StatusTooManyRequests, Type: "RATE_LIMITED", RetryAfter: wait,
			Message: "Demasiados reenvíos: como máximo " + strconv.Itoa(resendsOfDocument) + " por documento y " + strconv.Itoa(resendsByToken) + " por token en un minuto"}
	}
	deadline, cancel := context.WithTimeout(context.Background(), g.o.Deadline)
	defer cancel()
	r, err := g.o.Documents.Resend(deadline, code, email, g.caller(ctx, t))
	if err != nil {
		return err
	}
	exchange.Answer(ctx, fasthttp.StatusOK, reply.Resent(r))
	return nil
}

// limiter counts what happened under a name in the last minute.
type limiter struct {
	mu   sync.Mutex
	seen map[string][]time.Time // oldest first
}

// take counts one more, or returns how long to wait until there is room for it.
func (l *limiter) take(name string, most int, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = make(map[string][]time.Time)
	}
	if len(l.seen) > 10_000 { // names that are over
		for k, times := range l.seen {
			if now.Sub(times[len(times)-1]) >= time.Minute {
				delete(l.seen, k)
			}
		}
	}
	times := l.seen[name]
	for len(times) > 0 && now.Sub(times[0]) >= time.Minute {
		times = times[1:]
	}
	if len(times) >= most {
		l.seen[name] = times
		return max(time.Second, times[0].Add(time.Minute).Sub(now))
	}
	l.seen[name] = append(times, now)
	return 0
}
