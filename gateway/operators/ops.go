package operators

import (
	"encoding/json"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/exchange"
	"dtegate/gateway/problem"
)

// readyz is 200 when the branch can issue. MH being down does not make it unready.
func (o *Routes) readyz(ctx *fasthttp.RequestCtx) {
	if err := o.Ready(); err != nil {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.SetBodyString(problem.OperatorText(err) + "\n")
		return
	}
	ctx.SetBodyString("ok\n")
}

func (o *Routes) status(ctx *fasthttp.RequestCtx) {
	b, err := json.MarshalIndent(o.Status(), "", "  ")
	if err != nil {
		o.front.Refuse(ctx, "/status", err)
		return
	}
	exchange.Answer(ctx, fasthttp.StatusOK, append(b, '\n'))
}
