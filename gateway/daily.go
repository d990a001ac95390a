package gateway

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/gateway/problem"
)

// daily counts what each token has had stored on a day of El Salvador, so that no till fills the disk. After a restart
// recall reads it from the store.
type daily struct {
	most int64 // bytes of a token

	mu   sync.Mutex
	day  string
	used map[int64]int64
}

// left is nil while a token may store more, else how long it must wait.
func (d *daily) left(token int64, now time.Time) (wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn(now)
	if d.used[token] < d.most {
		return 0
	}
	local := now.In(dte.Zone)
	midnight := time.Date(local.Year(), local.Month(), local.Day()+1, 0, 0, 0, 0, dte.Zone)
	return midnight.Sub(now)
}

func (d *daily) add(token, bytes int64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn(now)
	d.used[token] += bytes
}

// recalled adds what a token had stored on a day, unless that is over.
func (d *daily) recalled(day string, token, bytes int64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turn(now); d.day == day {
		d.used[token] += bytes
	}
}

// turn begins another day. The caller holds mu.
func (d *daily) turn(now time.Time) {
	if day := dte.Date(now); day != d.day {
		d.day, d.used = day, make(map[int64]int64)
	}
}

// affords refuses a sale, before its body is decoded, of a token that has used up its share of the disk.
func (g *front) affords(t *Token) error {
	if wait := g.daily.left(t.ID, g.o.Now()); wait > 0 {
		g.metrics.refused(listenerAPI, "daily")
		return &problem.Problem{Status: fasthttp.StatusTooManyRequests, Type: "QUOTA_EXCEEDED", RetryAfter: wait,
			Message: "Este token ya guardó hoy todo lo que se le permite: avise a quien administra el equipo"}
	}
	return nil
}

// affordsLarge refuses a body of n bytes, more than 32 KiB, of a token that sends such too fast. It is asked before the body
// is read: a flood of them costs the others nothing.
func (g *front) affordsLarge(token int64, n int) error {
	if wait := g.large.TakeMany(strconv.FormatInt(token, 10), n>>10, g.o.Now()); wait > 0 {
		return problem.TooMany(wait, "Demasiadas ventas grandes seguidas con este token")
	}
	return nil
}

// keeps counts what a sale has had stored. One that was there already costs nothing.
func (g *front) keeps(t *Token, r *record.View) { g.daily.add(t.ID, r.Stored, g.o.Now()) }

// recall adds what the tokens had stored today before the start.
func (g *front) recall(ctx context.Context) {
	if g.o.Usage == nil {
		return
	}
	now := g.o.Now()
	used, err := g.o.Usage(ctx, dte.Date(now))
	if err != nil {
		if ctx.Err() == nil {
			g.o.Logger.Error("the tokens' bytes of today begin anew", "error", err)
		}
		return
	}
	for token, bytes := range used {
		g.daily.recalled(dte.Date(now), token, bytes, g.o.Now())
	}
}
