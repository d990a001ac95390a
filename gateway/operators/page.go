package operators

import (
	"strings"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/exchange"
	"dtegate/gateway/page"
)

// page answers GET / of the operators' listener.
func (o *Routes) page(ctx *fasthttp.RequestCtx) {
	header := &ctx.Response.Header
	header.SetContentType("text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept-Language")
	exchange.Secure(ctx, page.StatusPolicy)
	ctx.SetBody(o.board.Get(language(ctx), o.front.Now(), o.Overview))
}

// language is that of ?lang=, else the first of Accept-Language that there is, else Spanish.
func language(ctx *fasthttp.RequestCtx) string {
	wanted := string(ctx.QueryArgs().Peek("lang")) + "," + string(ctx.Request.Header.Peek("Accept-Language"))
	for _, one := range strings.Split(wanted, ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(one), ";")
		tag, _, _ = strings.Cut(strings.ToLower(tag), "-")
		if tag == "es" || tag == "en" {
			return tag
		}
	}
	return "es"
}
