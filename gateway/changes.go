package gateway

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/register"
	"dtegate/gateway/exchange"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// maxWait is the longest that a request may ask to wait.
const maxWait = 60 * time.Second

// changes answers GET /dte/cambios?desde=CURSOR&wait=SECONDS: results that came after the till was answered, in order. A
// till keeps siguiente and asks again from there.
func (g *documentRoutes) changes(ctx *fasthttp.RequestCtx, t *Token) error {
	q := ctx.QueryArgs()
	var faults []dte.Fault
	var after uint64
	if v := string(q.Peek("desde")); v != "" {
		n, err := strconv.ParseUint(v, 36, 63)
		if err != nil {
			faults = append(faults, dte.Fault{Path: "desde", Code: dte.FaultFormat, Message: "No es un cursor: use el siguiente de la respuesta anterior"})
		}
		after = n
	}
	wait := 0
	if v := string(q.Peek("wait")); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || time.Duration(n)*time.Second > maxWait {
			faults = append(faults, dte.Fault{Path: "wait", Code: dte.FaultRange, Message: "Debe ser un número de segundos, de 0 a 60"})
		}
		wait = n
	}
	if err := problem.WrongParameters(faults); err != nil {
		return err
	}
	until, cancel := context.WithTimeout(g.serving, time.Duration(wait)*time.Second)
	defer cancel()
	list, next, err := g.o.Documents.Changes(until, after, g.caller(ctx, t))
	if errors.Is(err, register.ErrCursor) {
		return problem.WrongParameters([]dte.Fault{{Path: "desde", Code: dte.FaultRange,
			Message: "El cursor no es de este equipo, o el equipo fue restaurado: empiece de nuevo, sin desde"}})
	}
	if err != nil {
		return err
	}
	exchange.Answer(ctx, fasthttp.StatusOK, reply.Changes(list, next))
	return nil
}
