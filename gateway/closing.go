package gateway

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// closing answers GET /dte/cierre: the Z of a day if the day is closed, else the X of this moment, as JSON or as a
// ticket.
func (g *Gateway) closing(ctx *fasthttp.RequestCtx, t *Token) error {
	q := ctx.QueryArgs()
	date, faults := g.closingDay(q)
	point := t.Point.ID
	if v := string(q.Peek("puntoVenta")); v != "" && v != "propio" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 {
			faults = append(faults, dte.Fault{Path: "puntoVenta", Code: dte.FaultFormat,
				Message: "Debe ser propio o el número de un punto de venta"})
		}
		point = n
	}
	kind := string(q.Peek("clase"))
	if kind != "" && kind != "X" {
		faults = append(faults, dte.Fault{Path: "clase", Code: dte.FaultEnum,
			Message: "Debe ser X; sin clase se responde el cierre Z si el día está cerrado"})
	}
	format, layout := string(q.Peek("format")), string(q.Peek("layout"))
	if format != "" && format != "json" && !slices.Contains(formats, format) || format == "url" || format == "base64" {
		faults = append(faults, dte.Fault{Path: "format", Code: dte.FaultEnum,
			Message: "Debe ser json, view, download, escpos"})
	}
	if layout == "" {
		layout = layouts[1]
	} else if !slices.Contains(layouts[1:], layout) {
		faults = append(faults, dte.Fault{Path: "layout", Code: dte.FaultEnum, Message: "Debe ser " +
			strings.Join(layouts[1:], ", ")})
	}
	if err := problem.WrongParameters(faults); err != nil {
		return err
	}
	c, leave, err := g.closes(ctx, t)
	if err != nil {
		return err
	}
	defer leave()
	deadline, cancel := g.deadline()
	defer cancel()
	x, err := g.o.Documents.Closing(deadline, date, kind == "X", point, c, g.o.Now())
	if err != nil {
		return err
	}
	if format == "" || format == "json" {
		return answerClosing(ctx, fasthttp.StatusOK, x)
	}
	b, err := g.o.Outbox.PrintSlip(deadline, c, x.Slip(), layout, format == "escpos")
	if err != nil {
		return err
	}
	name := "cierre-" + x.Establishment + x.PointOfSale + "-" + x.Date
	switch format {
	case "view":
		file(ctx, "application/pdf", "inline", name+".pdf", b)
	case "download":
		file(ctx, "application/pdf", "attachment", name+".pdf", b)
	default:
		file(ctx, "application/octet-stream", "attachment", name+".escpos", b)
	}
	return nil
}

// closeDay answers POST /dte/cierre: it closes a day of the token's point of sale, 201, or returns the Z that is kept,
// 200.
func (g *Gateway) closeDay(ctx *fasthttp.RequestCtx, t *Token) error {
	date, faults := g.closingDay(ctx.QueryArgs())
	if body := bytes.TrimSpace(ctx.PostBody()); len(body) > 0 && string(body) != "{}" && string(body) != "null" {
		faults = append(faults, dte.Fault{Path: "", Code: dte.FaultUnknown,
			Message: "El cierre no lleva cuerpo: el día va en la dirección, ?fecha=AAAA-MM-DD"})
	}
	if err := problem.WrongParameters(faults); err != nil {
		return err
	}
	c, leave, err := g.closes(ctx, t)
	if err != nil {
		return err
	}
	defer leave()
	deadline, cancel := g.deadline()
	defer cancel()
	z, made, err := g.o.Sales.CloseDay(deadline, date, c)
	if err != nil {
		return err
	}
	status := fasthttp.StatusOK
	if made {
		status = fasthttp.StatusCreated
	}
	return answerClosing(ctx, status, z)
}

// closingDay reads fecha, today by default.
func (g *Gateway) closingDay(q *fasthttp.Args) (string, []dte.Fault) {
	today := dte.Date(g.o.Now())
	date := string(q.Peek("fecha"))
	if date == "" {
		return today, nil
	}
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return "", []dte.Fault{{Path: "fecha", Code: dte.FaultFormat, Message: "Debe ser una fecha AAAA-MM-DD"}}
	}
	if date > today {
		return "", []dte.Fault{{Path: "fecha", Code: dte.FaultRange, Message: "Ese día aún no llega"}}
	}
	return date, nil
}

// closes admits a token to a closing, which shows every type of document: leave ends its turn among those who read many
// documents.
func (g *Gateway) closes(ctx *fasthttp.RequestCtx, t *Token) (c seller.Caller, leave func(), err error) {
	if c = g.caller(ctx, t); !c.ReadsAll() {
		return c, nil, problem.ForTill(fasthttp.StatusForbidden, refusal.CodePermission,
			"El cierre muestra documentos de todos los tipos: el token necesita el permiso "+seller.PermissionRead)
	}
	leave, err = g.reads(t)
	return c, leave, err
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
// with the codes of one, for the forms of a till.
func (g *Gateway) codeLists(ctx *fasthttp.RequestCtx, _ *Token) error {
	lists := g.o.Sales.CodeLists()
	name, one := ctx.UserValue("catalogo").(string)
	if !one {
		reply.Answer(ctx, fasthttp.StatusOK, reply.CodeLists(lists))
		return nil
	}
	list := lists.List(strings.ToUpper(name))
	if list == nil {
		return problem.ForTill(fasthttp.StatusNotFound, "NOT_FOUND",
			"No hay un catálogo con ese nombre: GET /dte/catalogos los nombra todos")
	}
	reply.Answer(ctx, fasthttp.StatusOK, reply.CodeList(lists.Version(), list))
	return nil
}
