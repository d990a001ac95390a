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

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
	"dtegate/rules/bundle"
)

// issuing is the form and the handler of one document type. A new description of the type gets a new issuing.
type issuing struct {
	form   *form.Form
	answer fasthttp.RequestHandler
}

// issuingRoute adds POST /dte/{tipo} for documents of any type. It answers 405 to a path that only GET has, else 404.
func (g *Gateway) issuingRoute(r reply.Router) {
	r.POST("/dte/{tipo}", func(ctx *fasthttp.RequestCtx) {
		path, _ := ctx.UserValue("tipo").(string)
		switch t := g.o.Types(path); {
		case t != nil:
			g.issuing(t).answer(ctx)
		case slices.Contains(r.List()[fasthttp.MethodGet], "/dte/"+path):
			r.MethodNotAllowed(ctx)
		default:
			r.NotFound(ctx)
		}
	})
	otherMethod := r.MethodNotAllowed
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) {
		path, under := strings.CutPrefix(string(ctx.Path()), "/dte/")
		if under && !strings.Contains(path, "/") && g.o.Types(path) == nil &&
			!slices.Contains(r.List()[fasthttp.MethodGet], "/dte/"+path) &&
			!slices.Contains(r.List()[fasthttp.MethodPost], "/dte/"+path) {
			r.NotFound(ctx)
			return
		}
		otherMethod(ctx)
	}
}

func (g *Gateway) issuing(t *bundle.Type) *issuing {
	if have, there := g.doors.Load(t); there {
		return have.(*issuing)
	}
	i := &issuing{form: form.New(t)}
	i.answer = g.handle("/dte/"+t.Path, func(c *call) error { return g.issue(c, i.form) })
	have, _ := g.doors.LoadOrStore(t, i)
	return have.(*issuing)
}

func (g *Gateway) issue(c *call, f *form.Form) error {
	if validates(c.ctx) {
		return g.validate(c, f)
	}
	if g.o.RequireKey && len(c.ctx.Request.Header.Peek("Idempotency-Key")) == 0 {
		return &refusal.Error{Code: refusal.CodeValidation,
			Message: "La venta no lleva Idempotency-Key, y este equipo la exige: sin ella, un reintento emite la " +
				"venta dos veces",
			Faults: []dte.Fault{{Path: "Idempotency-Key", Code: dte.FaultRequired,
				Message: "Es obligatoria en este equipo"}}}
	}
	return g.make(c, f, fasthttp.StatusCreated, g.o.Sales.Issue)
}

// validate answers a creation request that has Prefer: validate, with the sale's amounts or with all its faults. It
// stores nothing and uses no number.
func (g *Gateway) validate(c *call, f *form.Form) error {
	var v *engine.Validation
	_, err := g.attempt(c, f, func(ctx context.Context, req engine.Request) (_ *record.View, err error) {
		v, err = g.o.Sales.Validate(ctx, req)
		return nil, err
	})
	if err != nil {
		return err
	}
	body, err := reply.Validation(v)
	if err != nil {
		return err
	}
	c.ctx.Response.Header.Set("Preference-Applied", preferValidate)
	return c.answer(body)
}

// errNoValidation refuses Prefer: validate in a POST that creates no document, such as the closing of a day.
var errNoValidation = problem.ForTill(refusal.CodeValidation,
	"Prefer: validate solo se admite al emitir: no se cambió nada")

// correct answers POST /dte/correccion/:codigoGeneracion. The body is the corrected sale, in the form of the bundle
// that computes it: the form of a later generation may differ. The token needs the permission for the document's type.
func (g *Gateway) correct(c *call) error {
	r, err := g.o.Documents.Document(c.deadline, c.code, c.caller)
	if err != nil {
		return err
	}
	return g.make(c, form.New(g.o.Sales.TypeOf(r)), fasthttp.StatusOK, func(ctx context.Context,
		req engine.Request) (*record.View, error) {
		return g.o.Sales.Correct(ctx, c.code, req)
	})
}

// make reads a sale with a form, makes its document with the function do, and answers with the record and a status.
func (g *Gateway) make(c *call, f *form.Form, status int, do func(context.Context,
	engine.Request) (*record.View, error)) error {
	r, err := g.attempt(c, f, do)
	if err != nil {
		return err
	}
	now := g.o.Now()
	g.daily.add(dte.Date(now), c.token.ID, r.Stored, now) // a repeated sale has stored nothing
	return answerRecord(c.ctx, status, r)
}

// attempt reads a sale with a form and calls the function do with it. The error names all faults of the sale.
func (g *Gateway) attempt(c *call, f *form.Form,
	do func(context.Context, engine.Request) (*record.View, error)) (*record.View, error) {
	if err := c.token.permit(f.Type); err != nil {
		return nil, err
	}
	req := engine.Request{Document: f.Type.Document, Caller: c.caller}
	d, err := g.read(c.ctx, f, &req)
	if err != nil {
		return nil, err
	}
	// A repeated sale must get its first answer, even if the token's quota is used up, if today's form would refuse the
	// sale, or if the type's bundle has ended and the form no longer exists.
	wait := g.daily.left(c.token.ID, g.o.Now())
	if refused := wait > 0 || len(d.Faults) > 0 || f.Type.Form == nil; refused && c.code == (dte.Code{}) &&
		!validates(c.ctx) {
		if r, err := g.o.Sales.Repeated(c.deadline, req); r != nil || err != nil {
			return r, err
		}
	}
	if wait > 0 {
		return nil, g.overQuota(wait)
	}
	if f.Type.Form == nil { // the type's bundle was removed: no form describes a request for a new document
		return nil, problem.ForTill(refusal.CodeTypeClosed, "Las reglas de esta sucursal no tienen ya el documento "+
			f.Type.Name)
	}
	if len(d.Faults) > 0 { // add the faults that the rules find
		d.MergeMore(func(unread []string) []dte.Fault {
			req.Unread = unread
			return g.o.Sales.Check(c.deadline, req)
		})
		return nil, d.Refusal()
	}
	r, err := do(c.deadline, req)
	if refused, ok := errors.AsType[*refusal.Error](err); ok && len(refused.Faults) > 0 {
		d.Merge(refused.Faults)
		if refused.Code == refusal.CodeValidation {
			return nil, d.Refusal()
		}
		return nil, problem.Renamed(err, func([]dte.Fault) []dte.Fault { return d.Faults })
	}
	return r, err
}

// read reads a sale with a form into req. It copies what it keeps: fasthttp reuses the bytes.
func (g *Gateway) read(ctx *fasthttp.RequestCtx, f *form.Form, req *engine.Request) (*form.Filled, error) {
	key, err := reply.SingleHeader(&ctx.Request.Header, "Idempotency-Key")
	if err != nil {
		return nil, err
	}
	if key != nil {
		unprintable := func(r rune) bool { return r < 0x20 || r > 0x7e }
		if len(key) == 0 || len(key) > 255 || strings.ContainsFunc(string(key), unprintable) {
			return nil, problem.ForTill(refusal.CodeValidation,
				"Idempotency-Key lleva de 1 a 255 caracteres ASCII imprimibles")
		}
		req.IdempotencyKey = string(key)
	}
	if req.Wait, err = preference(ctx); err != nil {
		return nil, err
	}
	v, err := reply.Body(ctx)
	if err != nil {
		return nil, err
	}
	d := f.Fill(v, g.o.PaymentCodes)
	req.Body, req.Facts, req.Origin = v, d.Facts, d.Origin
	req.TestContingency, req.Warnings = d.TestContingency, d.Warnings
	return d, nil
}

// preferValidate is the preference of a till that wants only the amounts or the faults of a sale, and no document.
const preferValidate = "validate"

// preferences returns the preferences of a request (RFC 7240). Callers ignore unknown preferences, as the RFC requires.
func preferences(ctx *fasthttp.RequestCtx) (list []string) {
	for _, header := range ctx.Request.Header.PeekAll("Prefer") {
		list = append(list, strings.Split(string(header), ",")...)
	}
	return list
}

func validates(ctx *fasthttp.RequestCtx) bool {
	return slices.ContainsFunc(preferences(ctx),
		func(p string) bool { return strings.EqualFold(strings.TrimSpace(p), preferValidate) })
}

// preference returns how long the till wants to wait for MH: N seconds for Prefer: wait=N, else 0.
func preference(ctx *fasthttp.RequestCtx) (time.Duration, error) {
	for _, p := range preferences(ctx) {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
		if err != nil || n < 1 || time.Duration(n)*time.Second > maxWait {
			return 0, problem.ForTill(refusal.CodeValidation, "Prefer: wait lleva segundos, de 1 a 60")
		}
		ctx.Response.Header.Set("Preference-Applied", "wait="+strconv.Itoa(n))
		return time.Duration(n) * time.Second, nil
	}
	return 0, nil
}

// invalidate answers POST /dte/invalidacion/:codigoGeneracion with the record and its invalidation.
func (g *Gateway) invalidate(c *call) error {
	if !slices.Contains(c.token.Permissions, engine.PermissionInvalidate) {
		return problem.ForTill(refusal.CodePermission, "El token no tiene el permiso "+engine.PermissionInvalidate)
	}
	v, err := reply.Body(c.ctx)
	if err != nil {
		return err
	}
	req, d := form.Invalidation(v)
	req.Code, req.Caller = c.code, c.caller
	if len(d.Faults) > 0 {
		d.MergeMore(func([]string) []dte.Fault {
			return form.OfInvalidation(g.o.Sales.CheckInvalidation(c.deadline, req))
		})
		return d.Refusal()
	}
	now := g.o.Now()
	if wait := g.daily.left(c.token.ID, now); wait > 0 {
		return g.overQuota(wait)
	}
	r, err := g.o.Sales.Invalidate(c.deadline, req)
	if err != nil {
		return problem.Renamed(err, form.OfInvalidation)
	}
	g.daily.add(dte.Date(now), c.token.ID, r.Stored, now)
	if i := r.Invalidation; i != nil && i.Estado == record.EstadoRejected {
		c.ctx.SetUserValue(loggedCode, r.Code)
		return c.answer(reply.InvalidationRefused(r))
	}
	return answerRecord(c.ctx, fasthttp.StatusOK, r)
}

// How many resends of one document, and by one token, are accepted in a minute on average; this many are also the most
// at once. A looping till must not fill somebody's inbox.
const (
	resendsOfDocument = 5
	resendsByToken    = 30
)

// resend answers POST /dte/resend/:codigoGeneracion (SPEC 4.8). The body may be missing.
func (g *Gateway) resend(c *call) error {
	email := ""
	if len(c.ctx.PostBody()) > 0 {
		v, err := reply.Body(c.ctx)
		if err != nil {
			return err
		}
		address, d := form.Resend(v)
		if len(d.Faults) > 0 {
			return d.Refusal()
		}
		email = address
	}
	now, code := g.o.Now(), c.code.String()
	wait := g.resendsBy.Take(strconv.FormatInt(c.token.ID, 10), now)
	if wait == 0 { // a refused attempt must not count for the document
		wait = g.resends.Take(code, now)
	}
	if wait > 0 {
		return problem.TooMany(wait, fmt.Sprintf("Demasiados reenvíos: como máximo %d por documento y %d por token "+
			"en un minuto", resendsOfDocument, resendsByToken))
	}
	r, err := g.o.Outbox.Resend(c.deadline, c.code, email, c.caller)
	if err != nil { // nothing was sent: the attempt does not count for the document
		g.resends.GiveBack(code)
		return err
	}
	return c.answer(reply.Resent(r))
}
