package operators

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/door"
	"dtegate/gateway/problem"
)

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
	return o.AdminToken != [32]byte{} && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(given[:], o.AdminToken[:]) == 1
}

// Sender returns one id for all callers with the admin token, because their bodies count as those of one sender. ok is false
// for other callers.
func (o *Routes) Sender(h *fasthttp.RequestHeader) (id int64, ok bool) {
	return operatorID, o.administers(h)
}

// operatorID stands for a token's id on the operators' listener; those of tokens are positive.
const operatorID = -1

// Admit refuses a caller without the admin token.
func (o *Routes) Admit(ctx *fasthttp.RequestCtx) error {
	if !o.administers(&ctx.Request.Header) {
		return o.front.Wrong(ctx, len(ctx.Request.Header.Peek("Authorization")) > 0, "Falta el token de administración, o no es válido")
	}
	door.Trust(ctx.Conn(), operatorID)
	return nil
}
