package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
)

// Token is what a till's token is bound to. The token itself is kept nowhere.
type Token struct {
	ID          int64
	Hash        [32]byte // HMAC-SHA-256 of the token under the table's secret
	Point       engine.Point
	Permissions []string
}

// TokenTable finds tokens by their keyed hash, so that neither the table nor the time of a look-up tells a token.
type TokenTable struct {
	secret []byte
	byHash map[[32]byte]*Token
}

// NewTokenTable makes a table.
func NewTokenTable(secret []byte, tokens []Token) TokenTable {
	t := TokenTable{secret: secret, byHash: make(map[[32]byte]*Token, len(tokens))}
	for i := range tokens {
		t.byHash[tokens[i].Hash] = &tokens[i]
	}
	return t
}

func (t *TokenTable) find(token string) *Token {
	mac := hmac.New(sha256.New, t.secret)
	mac.Write([]byte(token))
	// An attacker who cannot compute the HMAC learns nothing from how long a map takes to miss.
	return t.byHash[[32]byte(mac.Sum(nil))]
}

// authenticate finds the caller by x-api-token or Authorization: Bearer (SPEC section 5).
func (g *Gateway) authenticate(ctx *fasthttp.RequestCtx) (*Token, error) {
	header := &ctx.Request.Header
	token := string(header.Peek("x-api-token"))
	scheme, bearer, _ := strings.Cut(string(header.Peek("Authorization")), " ")
	bearer = strings.TrimSpace(bearer)
	if !strings.EqualFold(scheme, "Bearer") {
		bearer = ""
	}
	switch {
	case token != "" && bearer != "" && token != bearer:
		return nil, problem(fasthttp.StatusBadRequest, engine.CodeValidation, "x-api-token y Authorization llevan tokens distintos")
	case token == "":
		token = bearer
	}
	if token != "" {
		if t := g.o.Tokens.find(token); t != nil {
			return t, nil
		}
	}
	return nil, problem(fasthttp.StatusUnauthorized, "UNAUTHORIZED", "Falta el token, o no es válido (x-api-token o Authorization: Bearer)")
}

func (t *Token) caller() engine.Caller {
	return engine.Caller{TokenID: t.ID, Point: t.Point, Permissions: t.Permissions}
}

// permit refuses a document type that the token may not issue. A return takes the permission of its origin, which the
// engine knows.
func (t *Token) permit(document string) error {
	if p := engine.Permission(document); p != "" && !slices.Contains(t.Permissions, p) {
		return problem(fasthttp.StatusForbidden, engine.CodePermission, "El token no tiene el permiso "+p)
	}
	return nil
}
