package gateway

import (
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"dtegate/gateway/exchange"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
)

// routes are the tills' routes, all of them.
func (g *Gateway) routes() exchange.Router {
	r := exchange.NewRouter()
	for document, path := range map[string]string{"01": "/dte/dte01", "03": "/dte/dte03", "05": "/dte/dte05", "06": "/dte/dte06",
		"07": "/dte/dte07", "14": "/dte/dte14", "18": "/dte/retorno"} {
		r.POST(path, g.handle(path, g.issue(form.Documents[document])))
	}
	r.POST("/dte/invalidacion/{codigoGeneracion}", g.handle("/dte/invalidacion", g.invalidate))
	r.POST("/dte/correccion/{codigoGeneracion}", g.handle("/dte/correccion", g.correct))
	r.POST("/dte/documentos-info", g.handle("/dte/documentos-info", g.infos))
	r.Read("/dte/documentos", g.handle("/dte/documentos", g.list, filters...))
	r.Read("/dte/cambios", g.handle("/dte/cambios", g.changes, "desde", "wait"))
	r.Read("/dte/information", g.handle("/dte/information", g.information))
	r.Read("/dte/documento/{codigoGeneracion}", g.handle("/dte/documento", g.document))
	r.Read("/dte/pdf/{codigoGeneracion}", g.handle("/dte/pdf", g.printed, "format", "layout"))
	r.Read("/dte/json/{codigoGeneracion}", g.handle("/dte/json", g.archivo))
	r.Read("/dte/descarga/{codigoGeneracion}", g.measured("/dte/descarga", g.linked))
	r.POST("/dte/resend/{codigoGeneracion}", g.handle("/dte/resend", g.resend))
	if g.o.Slug != "" {
		r.Read("/"+g.o.Slug+"/DTES/{ruta:*}", g.handle("/DTES", g.storedFile))
	}
	r.Read("/openapi.json", g.measured("/openapi.json", g.publicPage(contractPage)))
	r.Read("/docs", g.measured("/docs", g.publicPage(docsPage)))
	return r
}

// opsRoutes are the operators' routes.
func (g *Gateway) opsRoutes() exchange.Router {
	r := exchange.NewRouter()
	rules, deliveries := ruleRoutes{g.o.Rules, g.o.Now, g.serving}, deliveryRoutes{g.o.Deliveries, g.o.Logger, g.serving}
	tokens, backups := tokenRoutes{g.o.Keeper}, backupRoutes{g.o.Backups}
	r.Read("/metrics", fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(g.o.Registry, promhttp.HandlerOpts{})))
	r.Read("/livez", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("ok\n") })
	r.Read("/readyz", g.readyz)
	r.Read("/status", g.status)
	r.Read("/", g.page)
	r.POST("/admin/contingency", g.administered(g.declare))
	r.DELETE("/admin/contingency", g.administered(g.lift))
	r.Read("/admin/contingency/report", g.administered(g.technicalReport))
	r.POST("/admin/contingency/report", g.administered(g.noteTechnicalReport))
	r.Read("/admin/audit", g.administered(g.listActs))
	r.POST("/admin/backup", g.administered(backups.beginBackup))
	r.Read("/admin/backup", g.administered(backups.showBackup))
	r.Read("/admin/books", g.administered(g.monthPage))
	r.Read("/admin/tokens", g.administered(tokens.listTokens))
	r.POST("/admin/tokens", g.administered(tokens.newToken))
	r.POST("/admin/tokens/{id}/rotate", g.administered(tokens.rotateToken))
	r.DELETE("/admin/tokens/{id}", g.administered(tokens.revokeToken))
	r.Read("/admin/rules", g.administered(rules.listRules))
	r.POST("/admin/rules", g.administered(rules.pushRule))
	r.POST("/admin/rules/rollback", g.administered(rules.rollbackRule))
	r.POST("/admin/rules/reinstate", g.administered(rules.reinstateRule))
	r.POST("/admin/rules/cancel", g.administered(rules.cancelRule))
	r.POST("/admin/rules/acknowledge", g.administered(rules.acknowledgeRule))
	r.POST("/admin/rules/shadow", g.administered(rules.shadowRule))
	r.Read("/admin/rules/shadow", g.administered(rules.showShadow))
	r.DELETE("/admin/rules/shadow", g.administered(rules.stopShadow))
	r.POST("/admin/rules/backtest", g.administered(rules.backtestRule))
	r.Read("/admin/rules/replay", g.administered(rules.replayRule))
	r.Read("/admin/rules/documents", g.administered(rules.ruleDocuments))
	r.POST("/admin/invalidation", g.administered(g.recallDocument))
	r.POST("/admin/invalidation/check", g.administered(g.appraiseRecall))
	r.Read("/admin/delivery", g.administered(deliveries.showGivenUp))
	r.POST("/admin/delivery/retry", g.administered(deliveries.retryDelivery))
	r.POST("/admin/delivery/forget", g.administered(deliveries.forgetDelivery))
	r.Read("/admin/archive/check", g.administered(deliveries.checkArchive))
	return r
}

// handler answers a request of an authenticated till, or returns what is wrong.
type handler func(*fasthttp.RequestCtx, *Token) error

// handle authenticates, measures, and makes HTTP of errors. query are the members that the route's query may have.
func (g *front) handle(route string, h handler, query ...string) fasthttp.RequestHandler {
	return g.measured(route, func(ctx *fasthttp.RequestCtx) error {
		token, err := g.authenticate(ctx)
		if err == nil {
			err = g.paced(token)
		}
		if err == nil {
			err = exchange.CheckQuery(ctx, query)
		}
		if err != nil {
			return err
		}
		return h(ctx, token)
	})
}

// measured is handle for whoever has no token.
func (g *front) measured(route string, h func(*fasthttp.RequestCtx) error) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		began := time.Now()
		g.metrics.inFlight.Inc()
		defer func() {
			g.metrics.inFlight.Dec()
			g.metrics.countAnswer(route, ctx.Response.StatusCode(), time.Since(began))
			g.access.writeLine(ctx, route, time.Since(began))
		}()
		if err := h(ctx); err != nil {
			g.refuse(ctx, route, err)
		}
	}
}

// recovered answers 500 when a handler panics: fasthttp would end the process.
func (g *front) recovered(listener string, h fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if listener == listenerOps {
			ctx.SetUserValue(exchange.ForOperators, true)
		}
		defer func() {
			if v := recover(); v != nil {
				g.o.Logger.Error("a request panicked", "path", string(ctx.Path()), "panic", v, "stack", string(debug.Stack()))
				exchange.Fail(ctx, problem.ForTill(fasthttp.StatusInternalServerError, "INTERNAL", "Error interno"))
			}
		}()
		h(ctx)
	}
}
