package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"dtegate/engine/contingency"
	"dtegate/gateway/door"
	"dtegate/gateway/exchange"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
)

// administered lets only the holder of the admin token in (Authorization: Bearer), and records what he does.
func (g *operatorRoutes) administered(h func(*fasthttp.RequestCtx) error) fasthttp.RequestHandler {
	h = g.recorded(h)
	return func(ctx *fasthttp.RequestCtx) {
		route := string(ctx.Path())
		if err := g.admin(ctx); err != nil {
			g.refuse(ctx, route, err)
			return
		}
		err := h(ctx)
		line := []any{"method", string(ctx.Method()), "path", route, "remote", ctx.RemoteIP().String()}
		if err != nil {
			line = append(line, "error", problem.OperatorText(err))
		}
		g.o.Logger.Info("admin", line...)
		if err != nil {
			g.refuse(ctx, route, err)
		}
	}
}

// administers tells whether a request's headers bear the admin token.
func (g *operatorRoutes) administers(h *fasthttp.RequestHeader) bool {
	scheme, token, _ := strings.Cut(string(h.Peek("Authorization")), " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return g.o.AdminToken != [32]byte{} && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(given[:], g.o.AdminToken[:]) == 1
}

// operator is the one sender of bodies on the operators' listener.
func (g *operatorRoutes) operator(h *fasthttp.RequestHeader) (id int64, ok bool) {
	return operatorID, g.administers(h)
}

// operatorID stands for a token's id on the operators' listener; those of tokens are positive.
const operatorID = -1

func (g *operatorRoutes) admin(ctx *fasthttp.RequestCtx) error {
	if !g.administers(&ctx.Request.Header) {
		return g.wrong(ctx, listenerOps, len(ctx.Request.Header.Peek("Authorization")) > 0, "Falta el token de administración, o no es válido")
	}
	door.Trust(ctx.Conn(), operatorID)
	return nil
}

// Contingency is what an operator says of contingencies.
type Contingency interface {
	Declare(ctx context.Context, cause int64, reason string) error
	Lift(context.Context) error
	TechnicalReport(context.Context) (*contingency.TechnicalReport, error)
	NoteTechnicalReport(ctx context.Context, reference string) error
}

// declare answers POST /admin/contingency: the operator says that the branch is in contingency, and why.
func (g *operatorRoutes) declare(ctx *fasthttp.RequestCtx) error {
	v, err := exchange.Body(ctx)
	if err != nil {
		return err
	}
	cause, reason, d := form.Declaration(v)
	if len(d.Faults) > 0 {
		return exchange.Invalid(d)
	}
	concerns(ctx, "cause "+strconv.FormatInt(cause, 10), reason)
	if err := g.o.Contingency.Declare(context.Background(), cause, reason); err != nil {
		return err
	}
	g.status(ctx)
	return nil
}

// lift answers DELETE /admin/contingency: from now on MH's own answer ends it.
func (g *operatorRoutes) lift(ctx *fasthttp.RequestCtx) error {
	if err := g.o.Contingency.Lift(context.Background()); err != nil {
		return err
	}
	g.status(ctx)
	return nil
}

// technicalReport answers GET /admin/contingency/report: what the records say for the technical report of a contingency.
func (g *operatorRoutes) technicalReport(ctx *fasthttp.RequestCtx) error {
	r, err := g.o.Contingency.TechnicalReport(context.Background())
	if err != nil {
		return err
	}
	return exchange.Show(ctx, fasthttp.StatusOK, r)
}

// noteTechnicalReport answers POST /admin/contingency/report: the operator says that MH has the report.
func (g *operatorRoutes) noteTechnicalReport(ctx *fasthttp.RequestCtx) error {
	v, err := exchange.Body(ctx)
	if err != nil {
		return err
	}
	reference, d := form.ReportNote(v)
	if len(d.Faults) > 0 {
		return exchange.Invalid(d)
	}
	concerns(ctx, "technical report", reference)
	if err := g.o.Contingency.NoteTechnicalReport(context.Background(), reference); err != nil {
		return err
	}
	g.status(ctx)
	return nil
}
