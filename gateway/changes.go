package gateway

import (
	"context"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/dte"
)

// maxWait is the longest that a request may ask to wait.
const maxWait = 60 * time.Second

// changes answers GET /dte/cambios?desde=CURSOR&wait=SECONDS: results that came after the till was answered, in order. A
// till keeps siguiente and asks again from there.
func (g *Gateway) changes(ctx *fasthttp.RequestCtx, t *Token) error {
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
			faults = append(faults, dte.Fault{Path: "wait", Code: dte.FaultRange, Message: "Segundos, de 0 a 60"})
		}
		wait = n
	}
	for key := range q.All() {
		if name := string(key); name != "desde" && name != "wait" {
			faults = append(faults, dte.Fault{Path: name, Code: dte.FaultUnknown, Message: "No se conoce; los parámetros son desde, wait"})
		}
	}
	if len(faults) > 0 {
		return &Problem{Status: fasthttp.StatusBadRequest, Type: engine.CodeValidation, Message: "La consulta no es válida", Faults: faults}
	}
	until, cancel := context.WithTimeout(g.serving, time.Duration(wait)*time.Second)
	defer cancel()
	list, next, err := g.o.Engine.Changes(until, after, t.caller())
	if err != nil {
		return err
	}
	b := append([]byte(nil), `{"status":"success","data":{"cambios":[`...)
	for i, l := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, `{"cursor":`...), strconv.FormatUint(l.Cursor, 36))
		b = text(append(b, `,"codigoGeneracion":`...), l.Code)
		b = text(append(b, `,"numeroControl":`...), l.ControlNumber)
		b = text(append(b, `,"tipo":`...), l.Tipo)
		b = text(append(b, `,"estado":`...), l.Estado)
		b = optional(append(b, `,"selloRecibido":`...), l.Sello)
		b = optional(append(b, `,"descripcionMsg":`...), l.Text)
		b = append(strconv.AppendInt(append(b, `,"pointOfSaleId":`...), l.PointID, 10), '}')
	}
	b = text(append(b, `],"siguiente":`...), strconv.FormatUint(next, 36))
	answer(ctx, fasthttp.StatusOK, append(b, `}}`...))
	return nil
}
