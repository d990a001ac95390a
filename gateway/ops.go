package gateway

import (
	"encoding/json"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/exchange"
	"dtegate/gateway/problem"
)

// readyz is 200 when the branch can issue. MH being down does not make it unready.
func (g *operatorRoutes) readyz(ctx *fasthttp.RequestCtx) {
	if err := g.o.Ready(); err != nil {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.SetBodyString(problem.OperatorText(err) + "\n")
		return
	}
	ctx.SetBodyString("ok\n")
}

func (g *operatorRoutes) status(ctx *fasthttp.RequestCtx) {
	b, err := json.MarshalIndent(g.o.Status(), "", "  ")
	if err != nil {
		g.refuse(ctx, "/status", err)
		return
	}
	exchange.Answer(ctx, fasthttp.StatusOK, append(b, '\n'))
}
