package adminapi

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// Keeper makes and ends tokens, and records that in the trail. When a method returns, its change is in force.
type Keeper interface {
	Tokens() []TokenInfo
	NewToken(By, TokenInfo) (TokenInfo, string, error)
	RotateToken(by By, id int64, grace time.Duration) (TokenInfo, string, error)
	RevokeToken(By, int64) (TokenInfo, error)
}

// By names who wants a change, and from which address.
type By struct{ Who, From string }

// TokenInfo is what the box knows of a token. It does not know the token itself.
type TokenInfo struct {
	ID            int64     `json:"id"`
	Name          string    `json:"name"`
	Point         int64     `json:"point_of_sale"`
	Permissions   []string  `json:"permissions"`
	Made          time.Time `json:"made,omitzero"`
	MadeBy        string    `json:"made_by,omitempty"`
	Rotated       time.Time `json:"rotated,omitzero"`
	RotatedBy     string    `json:"rotated_by,omitempty"`
	PreviousUntil time.Time `json:"previous_until,omitzero"` // the token before the rotation is good until then
	Revoked       time.Time `json:"revoked,omitzero"`
	RevokedBy     string    `json:"revoked_by,omitempty"`
}

// Errors of a Keeper that are the caller's.
var (
	ErrNoToken    = errors.New("no such token")
	ErrTokenFault = errors.New("not a token")
)

// tokenRoutes answers /admin/tokens.
type tokenRoutes struct{ keeper Keeper }

// listTokens answers GET /admin/tokens, the revoked ones included.
func (r tokenRoutes) listTokens(ctx *fasthttp.RequestCtx) error {
	return reply.Show(ctx, fasthttp.StatusOK, map[string]any{"tokens": r.keeper.Tokens()})
}

// madeToken is a token, this once.
type madeToken struct {
	TokenInfo
	Token string `json:"token"`
}

// newToken answers POST /admin/tokens {"name","point_of_sale","permissions"} with the token, this once.
func (r tokenRoutes) newToken(ctx *fasthttp.RequestCtx) error {
	var asked struct {
		Name        string   `json:"name"`
		Point       int64    `json:"point_of_sale"`
		Permissions []string `json:"permissions"`
	}
	if err := json.Unmarshal(ctx.PostBody(), &asked); err != nil {
		return problem.ForOperator(fasthttp.StatusBadRequest, refusal.CodeValidation,
			`The body is {"name","point_of_sale","permissions"}: `+err.Error())
	}
	info, token, err := r.keeper.NewToken(callerOf(ctx), TokenInfo{Name: reply.TerminalText(asked.Name),
		Point: asked.Point, Permissions: asked.Permissions})
	if err != nil {
		return tokenError(err)
	}
	return reply.Show(ctx, fasthttp.StatusCreated, madeToken{info, token})
}

// rotateToken answers POST /admin/tokens/{id}/rotate {"grace":"24h"} with the new token, this once. The old one stays
// good for the grace, default none.
func (r tokenRoutes) rotateToken(ctx *fasthttp.RequestCtx) error {
	id, err := tokenID(ctx)
	if err != nil {
		return err
	}
	var asked struct {
		Grace string `json:"grace"`
	}
	var grace time.Duration
	if len(ctx.PostBody()) > 0 {
		if err = json.Unmarshal(ctx.PostBody(), &asked); err == nil && asked.Grace != "" {
			grace, err = time.ParseDuration(asked.Grace)
		}
		if err != nil {
			return problem.ForOperator(fasthttp.StatusBadRequest, refusal.CodeValidation,
				`The body is {"grace":"24h"}: `+err.Error())
		}
	}
	info, token, err := r.keeper.RotateToken(callerOf(ctx), id, grace)
	if err != nil {
		return tokenError(err)
	}
	return reply.Show(ctx, fasthttp.StatusOK, madeToken{info, token})
}

// revokeToken answers DELETE /admin/tokens/{id}.
func (r tokenRoutes) revokeToken(ctx *fasthttp.RequestCtx) error {
	id, err := tokenID(ctx)
	if err != nil {
		return err
	}
	info, err := r.keeper.RevokeToken(callerOf(ctx), id)
	if err != nil {
		return tokenError(err)
	}
	return reply.Show(ctx, fasthttp.StatusOK, info)
}

func tokenID(ctx *fasthttp.RequestCtx) (int64, error) {
	text, _ := ctx.UserValue("id").(string)
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, problem.WrongQuery("id", "the number of a token")
	}
	return id, nil
}

func callerOf(ctx *fasthttp.RequestCtx) By {
	return By{Who: callerName(ctx), From: ctx.RemoteIP().String()}
}

func tokenError(err error) error {
	switch {
	case errors.Is(err, ErrNoToken):
		return problem.ForOperator(fasthttp.StatusNotFound, "NO_SUCH_TOKEN", err.Error())
	case errors.Is(err, ErrTokenFault):
		return problem.ForOperator(fasthttp.StatusBadRequest, refusal.CodeValidation, err.Error())
	}
	return err
}
