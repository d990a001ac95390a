package adminapi

import (
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// Keeper makes and ends tokens, and records these acts in the audit trail. When a method returns, its change is in
// force. Each method returns a token, or all tokens, as a value for JSON; only a new or rotated token has its secret.
type Keeper interface {
	Tokens() any // all tokens
	NewToken(by By, name string, point int64, permissions []string) (any, error)
	RotateToken(by By, id int64, grace time.Duration) (any, error)
	RevokeToken(by By, id int64) (any, error)
}

// By is the person who requests a change, and the address of the request.
type By struct{ Who, From string }

// Errors of a Keeper that the caller causes.
var (
	ErrNoToken    = errors.New("no such token")
	ErrTokenFault = errors.New("not a token")
)

func (o *Routes) listTokens(*fasthttp.RequestCtx) (any, error) {
	return map[string]any{"tokens": o.Keeper.Tokens()}, nil
}

// newToken answers POST /admin/tokens {"name","point_of_sale","permissions"}. Only this answer contains the secret.
func (o *Routes) newToken(ctx *fasthttp.RequestCtx) (any, error) {
	t, err := asked[struct {
		Name        string
		Point       int64 `json:"point_of_sale"`
		Permissions []string
	}](ctx, `{"name","point_of_sale","permissions"}`)
	if err != nil {
		return nil, err
	}
	ctx.SetStatusCode(fasthttp.StatusCreated)
	return o.Keeper.NewToken(callerOf(ctx), reply.TerminalText(t.Name), t.Point, t.Permissions)
}

// rotateToken answers POST /admin/tokens/{id}/rotate {"grace":"24h"}. Only this answer contains the new secret. The old
// secret stays valid for the grace, default 0.
func (o *Routes) rotateToken(ctx *fasthttp.RequestCtx) (any, error) {
	id, err := tokenID(ctx)
	if err != nil {
		return nil, err
	}
	const form = `{"grace":"24h"}`
	var grace time.Duration
	if len(ctx.PostBody()) > 0 {
		given, err := asked[struct{ Grace string }](ctx, form)
		if err == nil && given.Grace != "" {
			grace, err = time.ParseDuration(given.Grace)
		}
		if err != nil {
			return nil, wrongBody(form, err.Error())
		}
	}
	return o.Keeper.RotateToken(callerOf(ctx), id, grace)
}

func (o *Routes) revokeToken(ctx *fasthttp.RequestCtx) (any, error) {
	id, err := tokenID(ctx)
	if err != nil {
		return nil, err
	}
	return o.Keeper.RevokeToken(callerOf(ctx), id)
}

func tokenID(ctx *fasthttp.RequestCtx) (int64, error) {
	given, _ := ctx.UserValue("id").(string)
	id, err := strconv.ParseInt(given, 10, 64)
	if err != nil {
		return 0, problem.WrongQuery("id", "the number of a token")
	}
	return id, nil
}

func callerOf(ctx *fasthttp.RequestCtx) By {
	return By{Who: callerName(ctx), From: ctx.RemoteIP().String()}
}
