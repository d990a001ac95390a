package gateway

import (
	"errors"
	"os"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/exchange"
	"dtegate/gateway/problem"
)

// unreadable answers what fasthttp could not read as a request. It closes the connection.
func (g *front) unreadable(listener string) func(*fasthttp.RequestCtx, error) {
	return func(ctx *fasthttp.RequestCtx, err error) {
		var small *fasthttp.ErrSmallBuffer
		var p error
		switch {
		case errors.As(err, &small):
			g.metrics.refused(listener, "size")
			p = problem.ForTill(fasthttp.StatusRequestHeaderFieldsTooLarge, "TOO_LARGE", "Los encabezados superan 16 KiB")
		case errors.Is(err, os.ErrDeadlineExceeded):
			g.metrics.refused(listener, "slow")
			p = errSlow
		default:
			g.metrics.refused(listener, "malformed")
			p = errMalformed
		}
		if listener == listenerOps {
			ctx.SetUserValue(exchange.ForOperators, true)
		}
		g.refuse(ctx, listener, p)
		ctx.SetConnectionClose()
	}
}

var (
	errSlow      = problem.ForTill(fasthttp.StatusRequestTimeout, "TIMEOUT", "La solicitud no llegó completa a tiempo")
	errMalformed = problem.ForTill(fasthttp.StatusBadRequest, "VALIDATION_ERROR", "La solicitud HTTP no puede leerse")
)
