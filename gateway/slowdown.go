package gateway

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// insistence slows the refusals of a token that asks again without waiting as Retry-After told it: answering a flood takes the
// machine from those who sell. A token is told to wait so often at once, and so often a second for long, as fast as it asks;
// each 429 beyond takes longer. A connection answers one request at a time and a token has a bounded number of connections
// (door.Places.PerToken), so this bounds the flood.
const (
	insistRate  = 10 // refusals a second of a token
	insistBurst = 40
	insistPause = 250 * time.Millisecond
)

// slow pauses before a token's 429 when the token goes on asking.
func (g *front) slow(token int64) {
	if g.insistent.Take(strconv.FormatInt(token, 10), g.o.Now()) == 0 {
		return
	}
	pause := time.NewTimer(insistPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-g.serving.Done():
	}
}

// slowed is slow for an answered request.
func (g *front) slowed(ctx *fasthttp.RequestCtx, status int) {
	if t, known := ctx.UserValue(loggedToken).(*Token); known && status == fasthttp.StatusTooManyRequests {
		g.slow(t.ID)
	}
}
