package gateway

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
	"dtegate/rules/bundle"
)

// closing answers GET /dte/cierre with the Z of a closed day, or the current X, as JSON or as a ticket.
func (g *Gateway) closing(c *call) error {
	q := &c.query
	date := g.closingDay(q)
	point := c.token.Point.ID
	if q.text("puntoVenta") != "propio" {
		point = q.number("puntoVenta", 10, 1, math.MaxInt64, point, dte.FaultFormat,
			"Debe ser propio o el número de un punto de venta")
	}
	kind := q.pick("clase", "", "X")
	format := q.pick("format", "json", "json", "view", "download", "escpos")
	layout := q.pick("layout", layouts[1], layouts[1:]...)
	if err := q.err(); err != nil {
		return err
	}
	leave, err := g.closes(c)
	if err != nil {
		return err
	}
	defer leave()
	x, err := g.o.Documents.Closing(c.deadline, date, kind == "X", point, c.caller, g.o.Now())
	if err != nil {
		return err
	}
	if format == "json" {
		return answerClosing(c.ctx, fasthttp.StatusOK, x)
	}
	b, err := g.o.Outbox.PrintSlip(c.deadline, c.caller, x.Slip(), layout, format == "escpos")
	if err != nil {
		return err
	}
	printedFile(c.ctx, format, "cierre-"+x.Establishment+x.PointOfSale+"-"+x.Date, b)
	return nil
}

// closeDay answers POST /dte/cierre: it closes a day of the token's point of sale (201), or returns its Z (200).
// Only a token that issues documents may close: a Z takes a number and is final.
func (g *Gateway) closeDay(c *call) error {
	q := &c.query
	date := g.closingDay(q)
	if body := bytes.TrimSpace(c.ctx.PostBody()); len(body) > 0 && string(body) != "{}" && string(body) != "null" {
		q.fault("", dte.FaultUnknown, "El cierre no lleva cuerpo: el día va en la dirección, ?fecha=AAAA-MM-DD")
	}
	if err := q.err(); err != nil {
		return err
	}
	if !slices.ContainsFunc(c.token.Permissions, func(p string) bool {
		return !slices.Contains(bundle.OwnPermissions, p)
	}) {
		return problem.ForTill(refusal.CodePermission, "El token no emite documentos: no puede cerrar un día")
	}
	leave, err := g.closes(c)
	if err != nil {
		return err
	}
	defer leave()
	z, made, err := g.o.Sales.CloseDay(c.deadline, date, c.caller)
	if err != nil {
		return err
	}
	status := fasthttp.StatusOK
	if made {
		status = fasthttp.StatusCreated
	}
	return answerClosing(c.ctx, status, z)
}

func (g *Gateway) closingDay(q *query) string {
	today := dte.Date(g.o.Now())
	date, _ := q.day("fecha", today)
	if len(q.faults) == 0 && date > today {
		q.fault("fecha", dte.FaultRange, "Ese día aún no llega")
	}
	return date
}

// closes checks that a token may read every type of document, because a closing shows all types, and waits for the
// token's turn (see reads). The caller must call leave.
func (g *Gateway) closes(c *call) (leave func(), err error) {
	if !c.caller.ReadsAll() {
		return nil, problem.ForTill(refusal.CodePermission,
			"El cierre muestra documentos de todos los tipos: el token necesita el permiso "+record.PermissionRead)
	}
	return g.reads(c)
}

func answerClosing(ctx *fasthttp.RequestCtx, status int, x *documents.Closing) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	reply.Answer(ctx, status, append(append([]byte(`{"status":"success","data":`), b...), '}'))
	return nil
}

// codeLists answers GET /dte/catalogos with the names of MH's catalogues in force, and GET /dte/catalogos/:catalogo
// with the codes of one catalogue, for a till's forms.
func (g *Gateway) codeLists(c *call) error {
	lists := g.o.Sales.CodeLists()
	name, one := c.ctx.UserValue("catalogo").(string)
	if !one {
		return c.answer(reply.CodeLists(lists))
	}
	list := lists.List(strings.ToUpper(name))
	if list == nil {
		return problem.ForTill("NOT_FOUND", "No hay un catálogo con ese nombre: GET /dte/catalogos los nombra todos")
	}
	return c.answer(reply.CodeList(lists.Version(), list))
}
