package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/fair"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/register"
	"dtegate/engine/seller"
	"dtegate/gateway/exchange"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// infos answers POST /dte/documentos-info (SPEC 4.10), in the order of the request.
func (g *documentRoutes) infos(ctx *fasthttp.RequestCtx, t *Token) error {
	v, err := exchange.Body(ctx)
	if err != nil {
		return err
	}
	codes, d := form.Lookup(v)
	if len(d.Faults) > 0 {
		return exchange.Invalid(d)
	}
	deadline, cancel := context.WithTimeout(context.Background(), g.o.Deadline)
	defer cancel()
	found, err := g.o.Documents.Infos(deadline, codes, g.caller(ctx, t))
	if err != nil {
		return err
	}
	exchange.Answer(ctx, fasthttp.StatusOK, reply.Infos(found))
	return nil
}

// Limits of a page of GET /dte/documentos.
const (
	pageDefault = 100
	pageMax     = 500
)

// list answers GET /dte/documentos: the documents of a time, by date, point of sale, type and state, page by page, and
// what all of them add up to.
func (g *documentRoutes) list(ctx *fasthttp.RequestCtx, t *Token) error {
	f, faults := g.filter(ctx.QueryArgs(), t)
	if err := problem.WrongParameters(faults); err != nil {
		return err
	}
	c := g.caller(ctx, t)
	if readable := c.Readable(); readable != nil {
		if len(f.Documents) == 0 {
			f.Documents = readable
		}
		if len(f.Documents) == 0 || slices.ContainsFunc(f.Documents, func(d string) bool { return !slices.Contains(readable, d) }) {
			return problem.ForTill(fasthttp.StatusForbidden, refusal.CodePermission, "El token no puede leer documentos de este tipo: necesita el permiso "+seller.PermissionRead)
		}
	}
	deadline, cancel := context.WithTimeout(context.Background(), g.o.Deadline)
	defer cancel()
	leave, err := g.readers.Enter(deadline, t.ID)
	var busy *fair.Busy
	switch {
	case errors.As(err, &busy):
		g.metrics.refused(listenerAPI, "readers")
		return problem.TooMany(busy.Wait, "Demasiadas listas a la vez con este token")
	case err != nil:
		return &problem.Problem{Status: fasthttp.StatusServiceUnavailable, Type: refusal.CodeUnavailable, RetryAfter: time.Second, Message: "Hay demasiadas listas a la vez"}
	}
	defer leave()
	found, err := g.o.Documents.List(deadline, f, c)
	if err != nil {
		return err
	}
	exchange.Answer(ctx, fasthttp.StatusOK, reply.Listing(found))
	return nil
}

// filters are the members of the query of GET /dte/documentos.
var filters = []string{"desde", "hasta", "puntoVenta", "tipo", "estado", "cursor", "limite"}

var states = []string{record.EstadoProcessed, record.EstadoRejected, record.EstadoContingency, record.EstadoInvalidated}

// filter reads the query: desde and hasta (days of El Salvador, today by default), puntoVenta (own, all, or an id), tipo
// (types of CAT-002, separated by commas), estado, cursor, limite.
func (g *documentRoutes) filter(q *fasthttp.Args, t *Token) (register.Filter, []dte.Fault) {
	var faults []dte.Fault
	fault := func(name, message string) {
		faults = append(faults, dte.Fault{Path: name, Code: dte.FaultFormat, Message: message})
	}
	today := dte.Date(g.o.Now())
	day := func(name, preset string) (string, time.Time) {
		s := preset
		if v := q.Peek(name); len(v) > 0 {
			s = string(v)
		}
		at, err := time.Parse(time.DateOnly, s)
		if err != nil {
			fault(name, "Debe ser una fecha AAAA-MM-DD")
		}
		return s, at
	}
	f := register.Filter{Limit: pageDefault}
	var from, to time.Time
	f.From, from = day("desde", today)
	f.To, to = day("hasta", max(f.From, today))
	if len(faults) == 0 && (to.Before(from) || to.Sub(from) > (register.MaxDays-1)*24*time.Hour) {
		fault("hasta", fmt.Sprintf("Debe estar entre desde y %d días después", register.MaxDays-1))
	}
	number := func(name string, base int, low, high int64, into *int64) {
		v := string(q.Peek(name))
		if v == "" {
			return
		}
		n, err := strconv.ParseInt(v, base, 64)
		if err != nil || n < low || n > high {
			fault(name, "No es válido")
			return
		}
		*into = n
	}
	limit := int64(pageDefault)
	number("limite", 10, 1, pageMax, &limit)
	f.Limit = int(limit)
	number("cursor", 36, 1, 1<<62, &f.After)
	if p := string(q.Peek("puntoVenta")); p == "propio" {
		f.PointID = t.Point.ID
	} else {
		number("puntoVenta", 10, 1, 1<<62, &f.PointID)
	}
	if v := string(q.Peek("tipo")); v != "" {
		f.Documents = strings.Split(v, ",")
		for _, d := range f.Documents {
			if record.Tipo(d) == "" {
				fault("tipo", "Cada tipo debe ser uno de 01, 03, 05, 06, 07, 14, 18")
				break
			}
		}
	}
	if f.Estado = string(q.Peek("estado")); f.Estado != "" && !slices.Contains(states, f.Estado) {
		fault("estado", "Debe ser uno de "+strings.Join(states, ", "))
	}
	return f, faults
}
