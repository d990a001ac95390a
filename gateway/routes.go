package gateway

import (
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

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
