package adminapi

import (
	"context"
	"errors"

	"github.com/valyala/fasthttp"

	"dtegate/engine/audit"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// Audit records the acts of operators. *audit.Trail implements it.
type Audit interface {
	Begin(context.Context, audit.Act) (*audit.Open, error)
	End(context.Context, *audit.Open) error
	Record(context.Context, audit.Act) error
	Acts(limit int) ([]audit.Act, error)
}

// Keys of the user values in which a handler describes its act for the audit trail.
const (
	actTarget = "act.target"
	actDetail = "act.detail"
	actIdle   = "act.idle" // the request changed nothing
)

func concerns(ctx *fasthttp.RequestCtx, target, detail string) {
	ctx.SetUserValue(actTarget, target)
	ctx.SetUserValue(actDetail, detail)
}

// recorded does the act of a request, and records it in the audit trail: the beginning before the act, the outcome
// after. If the beginning cannot be recorded, the act is not done.
func (o *Routes) recorded(ctx *fasthttp.RequestCtx, a route) error {
	if o.Audit == nil || a.act == "" {
		return a.answer(ctx)
	}
	what := a.act
	if ctx.QueryArgs().GetBool("dry") {
		what += ".dry"
	}
	open, err := o.Audit.Begin(context.Background(), audit.Act{Who: callerName(ctx), From: ctx.RemoteIP().String(),
		What: what})
	if err != nil {
		return &refusal.Error{Code: refusal.CodeUnavailable, Message: "The act cannot be recorded, and is not done",
			Operator: true, Err: err}
	}
	err = a.answer(ctx)
	open.Target, open.Detail = callerText(ctx, actTarget), callerText(ctx, actDetail)
	open.Outcome, open.Error = outcome(ctx, err)
	if failed := o.Audit.End(context.Background(), open); failed != nil {
		o.front.Logger.Error("the outcome of an act is not recorded", "act", what, "error", failed)
	}
	return err
}

// outcome returns a request's outcome for the audit trail, and why the request was refused or failed.
func outcome(ctx *fasthttp.RequestCtx, err error) (outcome, reason string) {
	var e *refusal.Error
	switch {
	case errors.As(err, &e):
		reason = e.Code + ": " + problem.InEnglish(e).Message
		if problem.Status(e.Code) < fasthttp.StatusInternalServerError {
			return audit.Refused, reason
		}
	case err != nil:
		reason = err.Error()
	case ctx.Response.StatusCode() >= fasthttp.StatusBadRequest:
		return audit.Refused, ""
	case ctx.UserValue(actIdle) == true:
		return audit.Nothing, ""
	default:
		return audit.Done, ""
	}
	return audit.Failed, reason
}

// callerName returns the name that the caller gives in ?who=, "admin" by default.
func callerName(ctx *fasthttp.RequestCtx) string {
	if name := reply.TerminalText(text(ctx, "who")); name != "" {
		return name
	}
	return "admin"
}

func callerText(ctx *fasthttp.RequestCtx, key string) string {
	s, _ := ctx.UserValue(key).(string)
	return reply.TerminalText(s)
}

const maxActs = 10_000

func (o *Routes) listActs(ctx *fasthttp.RequestCtx) (any, error) {
	limit, err := number(ctx, "limit", 100, 1, maxActs)
	if err != nil {
		return nil, err
	}
	list, err := o.Audit.Acts(limit)
	for i := range list {
		list[i].State = nil
	}
	return map[string]any{"acts": list}, err
}
