// Package adminapi answers the operators' listener in English: metrics, readiness, the status page, and /admin.
package adminapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"dtegate/engine"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/gateway/door"
	"dtegate/gateway/page"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
	"dtegate/storage"
)

type route struct {
	method, path string
	// act is the name of the act in the audit trail. "": the route changes nothing, or its handler records the act.
	act string
	// handle returns the answer, or nil if it has written the answer itself.
	handle func(*fasthttp.RequestCtx) (any, error)
}

func (o *Routes) administration() []route {
	return []route{
		{"POST", "/admin/contingency", "contingency.declare", o.declare},
		{"DELETE", "/admin/contingency", "contingency.lift", o.lift},
		{"GET", "/admin/contingency/report", "", o.technicalReport},
		{"POST", "/admin/contingency/report", "contingency.report", o.noteTechnicalReport},
		{"GET", "/admin/audit", "", o.listActs},
		{"POST", "/admin/backup", "store.backup", o.makeBackup},
		{"GET", "/admin/books", "", o.monthPage},
		{"GET", "/admin/tokens", "", o.listTokens},
		{"POST", "/admin/tokens", "", o.newToken}, // Keeper records the acts of these three routes
		{"POST", "/admin/tokens/{id}/rotate", "", o.rotateToken},
		{"DELETE", "/admin/tokens/{id}", "", o.revokeToken},
		{"GET", "/admin/rules", "", o.listRules},
		{"POST", "/admin/rules", "rules.push", o.pushRule},
		{"POST", "/admin/rules/rollback", "rules.rollback", stepRule(o.Rules.Rollback)},
		{"POST", "/admin/rules/reinstate", "rules.reinstate", stepRule(o.Rules.Reinstate)},
		{"POST", "/admin/rules/cancel", "rules.cancel", stepRule(o.Rules.Cancel)},
		{"POST", "/admin/rules/acknowledge", "rules.acknowledge", o.acknowledgeRule},
		{"POST", "/admin/rules/shadow", "rules.shadow", o.shadowRule},
		{"GET", "/admin/rules/shadow", "", o.showShadow},
		{"DELETE", "/admin/rules/shadow", "rules.shadow.stop", o.stopShadow},
		{"POST", "/admin/rules/backtest", "", o.backtestRule},
		{"GET", "/admin/rules/replay", "", o.replayRule},
		{"GET", "/admin/rules/documents", "", o.ruleDocuments},
		{"POST", "/admin/invalidation", "document.invalidate", o.recallDocument},
		{"POST", "/admin/invalidation/check", "", o.appraiseRecall},
		{"GET", "/admin/delivery", "", o.showGivenUp},
		{"POST", "/admin/delivery/retry", "delivery.retry", o.retryDelivery},
		{"POST", "/admin/delivery/forget", "delivery.forget", o.forgetDelivery},
		{"GET", "/admin/archive/check", "", o.checkArchive},
	}
}

func (o *Routes) Router() reply.Router {
	r := reply.NewRouter()
	r.Read("/metrics", fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(o.front.Registry,
		promhttp.HandlerOpts{})))
	r.Read("/livez", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("ok\n") })
	r.Read("/readyz", o.readyz)
	r.Read("/status", o.status)
	r.Read("/", o.page)
	for _, a := range o.administration() {
		if a.method == "GET" {
			r.Read(a.path, o.administered(a))
		} else {
			r.Handle(a.method, a.path, o.administered(a))
		}
	}
	return r
}

// administered returns a handler that admits only callers with the admin token, and records the act.
func (o *Routes) administered(a route) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		path := string(ctx.Path())
		if err := o.Admit(ctx); err != nil {
			o.front.Refuse(ctx, path, err)
			return
		}
		err := o.recorded(ctx, a)
		line := []any{"method", string(ctx.Method()), "path", path, "remote", ctx.RemoteIP().String()}
		if err != nil {
			line = append(line, "error", problem.OperatorText(err))
		}
		o.front.Logger.Info("admin", line...)
		if err != nil {
			o.front.Refuse(ctx, path, err)
		}
	}
}

func (a *route) answer(ctx *fasthttp.RequestCtx) error {
	shown, err := a.handle(ctx)
	if err != nil || shown == nil {
		return asProblem(err)
	}
	return reply.Show(ctx, ctx.Response.StatusCode(), shown)
}

// asProblem turns an error that the caller has caused into a problem; other errors are unchanged.
func asProblem(err error) error {
	switch {
	case errors.Is(err, rulestore.ErrReason):
		return problem.WrongQuery("reason", "why, for the branch's record")
	case errors.Is(err, rulestore.ErrExpired):
		return problem.ForOperator("RULE_EXPIRED", err.Error())
	case errors.Is(err, rulestore.ErrNoSuchRule), errors.Is(err, rulestore.ErrNothingToAcknowledge):
		return problem.ForOperator("NO_SUCH_RULE", err.Error())
	case errors.Is(err, ErrNoToken):
		return problem.ForOperator("NO_SUCH_TOKEN", err.Error())
	case errors.Is(err, ErrTokenFault):
		return problem.ForOperator(refusal.CodeValidation, err.Error())
	case errors.Is(err, documents.ErrNotFound):
		return problem.ForOperator(refusal.CodeNotFound, err.Error())
	}
	return err
}

// asked decodes the body of a request. form describes the right body in the error message.
func asked[T any](ctx *fasthttp.RequestCtx, form string) (v T, err error) {
	if err = json.Unmarshal(ctx.PostBody(), &v); err != nil {
		err = wrongBody(form, err.Error())
	}
	return v, err
}

func wrongBody(form, why string) error {
	return problem.ForOperator(refusal.CodeValidation, "The body must be "+form+": "+why)
}

func text(ctx *fasthttp.RequestCtx, name string) string { return string(ctx.QueryArgs().Peek(name)) }

// number returns a parameter of the query: a whole number from least to most, or absent if the query lacks it.
func number(ctx *fasthttp.RequestCtx, name string, absent, least, most int) (int, error) {
	given := text(ctx, name)
	if given == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < least || n > most {
		return 0, problem.WrongQuery(name, fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n, nil
}

func code(ctx *fasthttp.RequestCtx) (dte.Code, error) {
	c, err := dte.ParseCode(text(ctx, "code"))
	if err != nil {
		return c, problem.WrongQuery("code", err.Error())
	}
	return c, nil
}

func (o *Routes) administers(h *fasthttp.RequestHeader) bool {
	scheme, token, _ := strings.Cut(string(h.Peek("Authorization")), " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return o.AdminToken != [32]byte{} && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(given[:],
		o.AdminToken[:]) == 1
}

// Sender returns the same id for all callers with the admin token: together they have one share of the memory for
// bodies. ok is false for other callers.
func (o *Routes) Sender(h *fasthttp.RequestHeader) (id int64, ok bool) {
	return operatorID, o.administers(h)
}

// operatorID is the token id of all operators; the ids of tills' tokens are positive.
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

// Options are the options of New.
type Options struct {
	Engine   *engine.Engine
	Rules    *rulestore.Store
	Ready    func() error          // returns nil if the branch can issue
	Status   func() any            // returns the state for /status, as a value for JSON
	Overview func() *page.Overview // returns the state for the page at /
	// AdminToken is the SHA-256 of the admin token; a zero AdminToken admits nobody.
	AdminToken [32]byte
	Keeper     Keeper // makes and ends tokens
	Audit      Audit  // records what operators do
	// Backup copies the store into a new folder: see storage.Store.Backup.
	Backup func(ctx context.Context, dir string, progress storage.Progress) (*storage.Backup, error)
	Books  *documents.MonthReader // reads the documents for the accountant's books
}

// Front contains what both listeners use.
type Front struct {
	Logger   *slog.Logger
	Now      func() time.Time
	Registry *prometheus.Registry
	Deadline time.Duration   // time that a request may take
	Serving  context.Context // ends when the gateway stops accepting requests
	// Refuse answers a request with an error.
	Refuse func(ctx *fasthttp.RequestCtx, route string, err error)
	// Wrong refuses a caller without the admin token. given: the caller has sent a wrong token.
	Wrong func(ctx *fasthttp.RequestCtx, given bool, message string) error
}

// Routes are the routes of the operators' listener.
type Routes struct {
	Options
	front   Front
	board   page.Status
	backing sync.Mutex // held during a backup
}

func New(o Options, f Front) *Routes { return &Routes{Options: o, front: f} }

// readyz answers 200 when the branch can issue, even while MH is down.
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

func (o *Routes) page(ctx *fasthttp.RequestCtx) {
	header := &ctx.Response.Header
	header.SetContentType("text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept-Language")
	reply.Secure(ctx, page.StatusPolicy)
	ctx.SetBody(o.board.Get(reply.Language(ctx, "es"), o.front.Now(), o.Overview))
}
