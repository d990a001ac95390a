// Package operators answers the operators' listener: metrics, readiness, the status page, and everything under /admin.
// Its texts are English.
package adminapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"dtegate/gateway/door"
	"dtegate/gateway/page"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// Router returns a router with all routes.
func (o *Routes) Router() reply.Router {
	r := reply.NewRouter()
	rules, deliveries := ruleRoutes{o.Rules, o.front.Now, o.front.Serving}, deliveryRoutes{o.Deliveries, o.front.Logger,
		o.front.Serving}
	tokens, backups := tokenRoutes{o.Keeper}, backupRoutes{o.Backups}
	r.Read("/metrics", fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(o.front.Registry,
		promhttp.HandlerOpts{})))
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

// administered lets only the holder of the admin token in (Authorization: Bearer), and records what he does.
func (o *Routes) administered(h func(*fasthttp.RequestCtx) error) fasthttp.RequestHandler {
	h = o.recorded(h)
	return func(ctx *fasthttp.RequestCtx) {
		route := string(ctx.Path())
		if err := o.Admit(ctx); err != nil {
			o.front.Refuse(ctx, route, err)
			return
		}
		err := h(ctx)
		line := []any{"method", string(ctx.Method()), "path", route, "remote", ctx.RemoteIP().String()}
		if err != nil {
			line = append(line, "error", problem.OperatorText(err))
		}
		o.front.Logger.Info("admin", line...)
		if err != nil {
			o.front.Refuse(ctx, route, err)
		}
	}
}

// administers reports whether a request's headers bear the admin token.
func (o *Routes) administers(h *fasthttp.RequestHeader) bool {
	scheme, token, _ := strings.Cut(string(h.Peek("Authorization")), " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return o.AdminToken != [32]byte{} && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(given[:],
		o.AdminToken[:]) == 1
}

// Sender returns one id for all callers with the admin token, because their bodies count as those of one sender. ok is
// false for other callers.
func (o *Routes) Sender(h *fasthttp.RequestHeader) (id int64, ok bool) {
	return operatorID, o.administers(h)
}

// operatorID stands for a token's id on the operators' listener; those of tokens are positive.
const operatorID = -1

// Admit refuses a caller without the admin token.
func (o *Routes) Admit(ctx *fasthttp.RequestCtx) error {
	if !o.administers(&ctx.Request.Header) {
		return o.front.Wrong(ctx, len(ctx.Request.Header.Peek("Authorization")) > 0,
			"Falta el token de administración, o no es válido")
	}
	door.Trust(ctx.Conn(), operatorID)
	return nil
}

// Options of New.
type Options struct {
	Contingency Contingency
	Deliveries  Deliveries
	Rules       Rules
	Recall      Recall                // nil: no operator invalidates documents
	Ready       func() error          // nil when the branch can issue
	Status      func() any            // what /status shows, as JSON
	Overview    func() *page.Overview // what the page at / shows
	// AdminToken is the SHA-256 of the admin token; zero lets nobody in.
	AdminToken [32]byte
	// Keeper makes and ends tokens; Audit records what operators do. Without them the admin API does neither.
	Keeper Keeper
	Audit  Audit
	// Backups makes them; nil: nobody does.
	Backups Backups
	// Books reads what the accountant files; nil: nobody may.
	Books Books
}

// Front is what both listeners share.
type Front struct {
	Logger   *slog.Logger
	Now      func() time.Time
	Registry *prometheus.Registry
	Deadline time.Duration   // of a request
	Serving  context.Context // ends when the gateway takes no more requests
	// Refuse makes HTTP of an error.
	Refuse func(ctx *fasthttp.RequestCtx, route string, err error)
	// Wrong is the refusal of a caller without the admin token; given: the caller showed another one.
	Wrong func(ctx *fasthttp.RequestCtx, given bool, message string) error
}

// Routes are the routes of the operators' listener.
type Routes struct {
	Options
	front Front
	board page.Status
}

// New returns the routes. They listen to nothing.
func New(o Options, f Front) *Routes { return &Routes{Options: o, front: f} }

// readyz is 200 when the branch can issue. MH being down does not make it unready.
func (o *Routes) readyz(ctx *fasthttp.RequestCtx) {
	if err := o.Ready(); err != nil {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.SetBodyString(problem.OperatorText(err) + "\n")
		return
	}
	ctx.SetBodyString("ok\n")
}

func (o *Routes) status(ctx *fasthttp.RequestCtx) {
	b, err := json.MarshalIndent(o.Status(), "", "  ")
	if err != nil {
		o.front.Refuse(ctx, "/status", err)
		return
	}
	reply.Answer(ctx, fasthttp.StatusOK, append(b, '\n'))
}

// page answers GET / of the operators' listener.
func (o *Routes) page(ctx *fasthttp.RequestCtx) {
	header := &ctx.Response.Header
	header.SetContentType("text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept-Language")
	reply.Secure(ctx, page.StatusPolicy)
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
