package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
	"dtegate/gateway/door"
	"dtegate/gateway/exchange"
	"dtegate/gateway/problem"
)

// Token is what a till's token is bound to. The token itself is not stored.
type Token struct {
	ID          int64
	Hash        [32]byte // HMAC-SHA-256 of the token under the table's secret
	Point       seller.Point
	Permissions []string
	Until       time.Time // the end of a token that was rotated; zero: none
}

// TokenTable finds tokens by their keyed hash. Therefore neither the table nor the time of a look-up discloses a token.
type TokenTable struct {
	secret []byte
	byHash map[[32]byte]*Token
}

// NewTokenTable returns a table of tokens. secret is the key of their hashes.
func NewTokenTable(secret []byte, tokens []Token) TokenTable {
	t := TokenTable{secret: secret, byHash: make(map[[32]byte]*Token, len(tokens))}
	for i := range tokens {
		t.byHash[tokens[i].Hash] = &tokens[i]
	}
	return t
}

func (t *TokenTable) find(token string, now time.Time) *Token {
	mac := hmac.New(sha256.New, t.secret)
	mac.Write([]byte(token))
	// An attacker who cannot compute the HMAC learns nothing from how long a map takes to miss.
	k := t.byHash[[32]byte(mac.Sum(nil))]
	if k != nil && !k.Until.IsZero() && !now.Before(k.Until) {
		return nil
	}
	return k
}

// SetTokens replaces the table of tokens. Requests that were already admitted continue.
func (g *front) SetTokens(t TokenTable) { g.tokens.Store(&t) }

// credential is the token of x-api-token or Authorization: Bearer (SPEC section 5); "" when there is none.
func credential(header *fasthttp.RequestHeader) (token string, err error) {
	own, err := exchange.SingleHeader(header, "x-api-token")
	if err != nil {
		return "", err
	}
	authorization, err := exchange.SingleHeader(header, "Authorization")
	if err != nil {
		return "", err
	}
	token = string(own)
	scheme, bearer, _ := strings.Cut(string(authorization), " ")
	bearer = strings.TrimSpace(bearer)
	if !strings.EqualFold(scheme, "Bearer") {
		bearer = ""
	}
	switch {
	case token != "" && bearer != "" && token != bearer:
		return "", problem.ForTill(fasthttp.StatusBadRequest, refusal.CodeValidation, "x-api-token y Authorization llevan tokens distintos")
	case token == "":
		token = bearer
	}
	return token, nil
}

// sender is the token that a request's headers bear.
func (g *front) sender(header *fasthttp.RequestHeader) (id int64, ok bool) {
	token, err := credential(header)
	if err != nil || token == "" {
		return 0, false
	}
	t := g.tokens.Load().find(token, g.o.Now())
	if t == nil {
		return 0, false
	}
	return t.ID, true
}

// authenticate finds the caller. A token of another branch is unknown here, as any other wrong one.
func (g *front) authenticate(ctx *fasthttp.RequestCtx) (*Token, error) {
	token, err := credential(&ctx.Request.Header)
	if err != nil {
		return nil, err
	}
	if token != "" {
		if t := g.tokens.Load().find(token, g.o.Now()); t != nil {
			door.Trust(ctx.Conn(), t.ID)
			ctx.SetUserValue(loggedToken, t)
			return t, nil
		}
	}
	return nil, g.wrong(ctx, listenerAPI, token != "", "Falta el token, o no es válido (x-api-token o Authorization: Bearer)")
}

// requireToken refuses a caller without a good token.
func (g *front) requireToken(ctx *fasthttp.RequestCtx) error {
	_, err := g.authenticate(ctx)
	return err
}

// wrong refuses a caller without a good token; one who goes on trying is told to wait.
func (g *front) wrong(ctx *fasthttp.RequestCtx, listener string, given bool, message string) error {
	if listener == listenerOps && given {
		g.logins.Failed(door.AddressOf(ctx.RemoteAddr()).String())
	}
	g.access.refused(ctx, listener, given)
	if given {
		if wait := g.wrongs.Take(door.NetworkOf(ctx.RemoteAddr()), g.o.Now()); wait > 0 {
			g.metrics.refused(listener, "wrong_tokens")
			return problem.TooMany(wait, "Demasiados tokens que no son válidos desde esta dirección")
		}
	}
	g.metrics.refused(listener, "token")
	return problem.ForTill(fasthttp.StatusUnauthorized, "UNAUTHORIZED", message)
}

// stranger paces a request that takes no token: by the network that it comes from, and all strangers together.
func (g *front) stranger(ctx *fasthttp.RequestCtx) error {
	now := g.o.Now()
	if wait := max(g.strange.Take(door.NetworkOf(ctx.RemoteAddr()), now), g.allStrange.Take("", now)); wait > 0 {
		g.metrics.refused(listenerAPI, "strangers")
		return problem.TooMany(wait, "Demasiadas solicitudes sin token")
	}
	return nil
}

// paced refuses a token that asks too much.
func (g *front) paced(t *Token) error {
	if wait := g.pace.Take(strconv.FormatInt(t.ID, 10), g.o.Now()); wait > 0 {
		g.metrics.refused(listenerAPI, "rate")
		return problem.TooMany(wait, "Demasiadas solicitudes con este token")
	}
	return nil
}

// caller is a token as the engine knows it, with what the configuration lets it read and mail.
func (g *front) caller(ctx *fasthttp.RequestCtx, t *Token) seller.Caller {
	return seller.Caller{TokenID: t.ID, Point: t.Point, Permissions: t.Permissions, From: ctx.RemoteIP().String(),
		OwnTypes:    g.o.Access.OwnTypes && !slices.Contains(t.Permissions, seller.PermissionRead),
		MailsOthers: g.o.Access.MailAnywhere || slices.Contains(t.Permissions, seller.PermissionMail)}
}

// Access is what every token may do besides issuing, whatever its own permissions are.
type Access struct {
	// OwnTypes: without CONSULTA a token reads only the types of documents that it may issue.
	OwnTypes bool
	// MailAnywhere: any token may mail a document to an address that it does not bear; else only one with REENVIO.
	MailAnywhere bool
}

// permit refuses a document type that the token may not issue. A return takes the permission of its origin, which the
// engine knows.
func (t *Token) permit(document string) error {
	if p := record.Permission(document); p != "" && !slices.Contains(t.Permissions, p) {
		return problem.ForTill(fasthttp.StatusForbidden, refusal.CodePermission, "El token no tiene el permiso "+p)
	}
	return nil
}
