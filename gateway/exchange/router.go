package exchange

import (
	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"dtegate/gateway/problem"
)

// Router finds the handler of a request. A path or a method that there is not is answered as a problem.
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

// Read adds a route that is read: by GET, and by HEAD, whose answer has no body.
func (r Router) Read(path string, h fasthttp.RequestHandler) {
	r.GET(path, h)
	r.HEAD(path, h)
}
