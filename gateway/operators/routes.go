package operators

import (
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"dtegate/gateway/exchange"
)

// Router returns a router with all routes.
func (o *Routes) Router() exchange.Router {
	r := exchange.NewRouter()
	rules, deliveries := ruleRoutes{o.Rules, o.front.Now, o.front.Serving}, deliveryRoutes{o.Deliveries, o.front.Logger, o.front.Serving}
	tokens, backups := tokenRoutes{o.Keeper}, backupRoutes{o.Backups}
	r.Read("/metrics", fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(o.front.Registry, promhttp.HandlerOpts{})))
	r.Read("/livez", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("ok\n") })
	r.Read("/readyz", o.readyz)
	r.Read("/status", o.status)
	r.Read("/", o.page)
	r.POST("/admin/contingency", o.administered(o.declare))
	r.DELETE("/admin/contingency", o.administered(o.lift))
	r.Read("/admin/contingency/report", o.administered(o.technicalReport))
	r.POST("/admin/contingency/report", o.administered(o.noteTechnicalReport))
	r.Read("/admin/audit", o.administered(o.listActs))
	r.POST("/admin/backup", o.administered(backups.beginBackup))
	r.Read("/admin/backup", o.administered(backups.showBackup))
	r.Read("/admin/books", o.administered(o.monthPage))
	r.Read("/admin/tokens", o.administered(tokens.listTokens))
	r.POST("/admin/tokens", o.administered(tokens.newToken))
	r.POST("/admin/tokens/{id}/rotate", o.administered(tokens.rotateToken))
	r.DELETE("/admin/tokens/{id}", o.administered(tokens.revokeToken))
	r.Read("/admin/rules", o.administered(rules.listRules))
	r.POST("/admin/rules", o.administered(rules.pushRule))
	r.POST("/admin/rules/rollback", o.administered(rules.rollbackRule))
	r.POST("/admin/rules/reinstate", o.administered(rules.reinstateRule))
	r.POST("/admin/rules/cancel", o.administered(rules.cancelRule))
	r.POST("/admin/rules/acknowledge", o.administered(rules.acknowledgeRule))
	r.POST("/admin/rules/shadow", o.administered(rules.shadowRule))
	r.Read("/admin/rules/shadow", o.administered(rules.showShadow))
	r.DELETE("/admin/rules/shadow", o.administered(rules.stopShadow))
	r.POST("/admin/rules/backtest", o.administered(rules.backtestRule))
	r.Read("/admin/rules/replay", o.administered(rules.replayRule))
	r.Read("/admin/rules/documents", o.administered(rules.ruleDocuments))
	r.POST("/admin/invalidation", o.administered(o.recallDocument))
	r.POST("/admin/invalidation/check", o.administered(o.appraiseRecall))
	r.Read("/admin/delivery", o.administered(deliveries.showGivenUp))
	r.POST("/admin/delivery/retry", o.administered(deliveries.retryDelivery))
	r.POST("/admin/delivery/forget", o.administered(deliveries.forgetDelivery))
	r.Read("/admin/archive/check", o.administered(deliveries.checkArchive))
	return r
}
