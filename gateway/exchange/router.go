package exchange

import (
	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"dtegate/gateway/problem"
)

// Router finds the handler of a request. If there is no such path or method, it answers with a problem.
type Router struct{ *router.Router }

// NewRouter returns a router without routes.
func NewRouter() Router {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		Fail(ctx, problem.ForTill(fasthttp.StatusNotFound, "NOT_FOUND", "No existe esta ruta"))
	}
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) {
		Fail(ctx, problem.ForTill(fasthttp.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "Esta ruta no admite el método"))
	}
	return Router{r}
}

// Read adds a route for GET and HEAD. The answer to HEAD has no body.
func (r Router) Read(path string, h fasthttp.RequestHandler) {
	r.GET(path, h)
	r.HEAD(path, h)
}
