package authority

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrCredentials means that MH refuses the user or the password. A retry is useless.
var ErrCredentials = errors.New("MH refuses the credentials")

// Refusals with a known remedy. Both are ErrCredentials.
var (
	ErrPasswordExpired = fmt.Errorf("%w: the password of MH's API has expired", ErrCredentials)       // code 103
	ErrPasswordChange  = fmt.Errorf("%w: the password of MH's API has to be changed", ErrCredentials) // codes 104, 105
)

const (
	// refusalPause is the wait after refused credentials, because MH locks accounts until a person unlocks them.
	refusalPause = time.Minute
	// tokenMargin is the longest time between the renewal of a token and the token's end.
	tokenMargin = time.Hour
)

// current returns the valid token, or a recent refusal of the credentials, or neither.
func (c *Client) current() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Now()
	switch {
	case c.token != "" && now.Before(c.expires):
		return c.token, nil
	case c.refusal != nil && now.Before(c.refused.Add(refusalPause)):
		return "", c.refusal
	}
	return "", nil
}

// authorize returns a token that should be valid. All callers that need a new token share one login. The login outlives
// its first caller; each caller waits as long as its ctx.
func (c *Client) authorize(ctx context.Context) (string, error) {
	if token, err := c.current(); token != "" || err != nil {
		return token, err
	}
	done := c.logins.DoChan("login", func() (any, error) {
		if token, err := c.current(); token != "" || err != nil {
			return token, err // another login has just ended
		}
		return c.login(context.WithoutCancel(ctx))
	})
	select {
	case r := <-done:
		token, _ := r.Val.(string)
		return token, r.Err
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for a login: %w", ctx.Err())
	}
}

// Refused returns MH's latest refusal of the credentials ([ErrCredentials]), or nil after a good login.
func (c *Client) Refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal
}

// forget discards a token that MH refused, unless it has already been replaced.
func (c *Client) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token {
		c.token = ""
	}
}

// login posts the credentials (MT1 §4.1) and keeps the token or the refusal.
func (c *Client) login(ctx context.Context) (string, error) {
	form := url.Values{"user": {c.options.NIT}, "pwd": {string(c.options.Password)}}.Encode()
	status, answer, _, err := c.request(ctx, http.MethodPost, "/seguridad/auth", "application/x-www-form-urlencoded",
		"", []byte(form))
	if err != nil {
		c.metrics.logins.WithLabelValues("unknown").Inc()
		return "", err
	}
	token, err := readLogin(status, answer)
	now := c.options.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, ErrCredentials):
		c.refusal, c.refused = err, now
		c.metrics.logins.WithLabelValues("refused").Inc()
		return "", err
	case err != nil:
		c.metrics.logins.WithLabelValues("unknown").Inc()
		return "", err
	}
	c.metrics.logins.WithLabelValues("ok").Inc()
	c.refusal = nil
	longest := 47 * time.Hour // an hour less than MH grants (MT1 §3)
	if c.options.Ambiente == "01" {
		longest = 23 * time.Hour
	}
	c.token, c.expires = token, now.Add(tokenLife(token, longest))
	c.metrics.expiry.Set(float64(c.expires.Unix()))
	return token, nil
}

// readLogin reads MH's answer to a login. MH sends errors with HTTP 200 and status ERROR, or with HTTP 401.
func readLogin(status int, answer []byte) (token string, err error) {
	r, _ := readAnswer(answer)
	body, _ := readAnswer(r["body"])          // an unreadable body has no token
	_ = json.Unmarshal(body["token"], &token) // not body.text, which cuts long texts
	if status == http.StatusOK && r.text("status") == "OK" && token != "" {
		// MH's token begins with "Bearer ", a word that MH refuses if it is sent twice.
		return "Bearer " + strings.TrimPrefix(token, "Bearer "), nil
	}
	said := strings.Join(strings.Fields(fmt.Sprint(r.text("codigo"), " ", r.text("codigoMsg"), " ",
		body.text("codigo"), " ", r.text("error"), " ", r.text("message"), " ", body.text("mensaje"))), " ")
	if len(said) > 200 {
		said = strings.ToValidUTF8(said[:200], "")
	}
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden ||
		(status == http.StatusOK && r.text("status") == "ERROR" && r.text("error") == "Unauthorized")
	return "", fmt.Errorf("%w: HTTP %d: %s", refusal(said, refused), status, said)
}

// authCode finds a code of MT2 anywhere in the answer: the manuals do not show which member has it.
var authCode = regexp.MustCompile(`\b1(?:0[0-9]|1[01])\b`)

func refusal(said string, refused bool) error {
	switch authCode.FindString(said) {
	case "100", "101", "106", "110", "111": // wrong user, ask support, wrong credentials, malformed request
		return ErrCredentials
	case "103":
		return ErrPasswordExpired
	case "104", "105":
		return ErrPasswordChange
	case "102", "109": // MH could not authenticate, or could not make the token
		return ErrAnswer
	}
	if refused {
		return ErrCredentials
	}
	return ErrAnswer
}

// tokenLife returns how long a token is used: limit or, if shorter, the token's own life (MT2: configurable) less a
// margin. The own life is exp less iat, because MH's clock may differ from the box's.
func tokenLife(token string, limit time.Duration) time.Duration {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return limit
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return limit
	}
	var claims struct{ Iat, Exp int64 }
	if json.Unmarshal(payload, &claims) != nil || claims.Iat <= 0 || claims.Exp <= claims.Iat {
		return limit
	}
	life := time.Duration(min(claims.Exp-claims.Iat, int64(limit/time.Second))) * time.Second
	if life == limit {
		return limit
	}
	return life - min(tokenMargin, life/10)
}

// CheckPassword returns an error, which does not quote p, if p misses a requirement of MH's API (MT2: 13 to 25
// characters; letters, digits and others). MH may accept p anyway, if the account is older than the requirement.
func CheckPassword(p string) error {
	var letter, digit, other bool
	for _, r := range p {
		switch {
		case unicode.IsLetter(r):
			letter = true
		case unicode.IsDigit(r):
			digit = true
		default:
			other = true
		}
	}
	n := utf8.RuneCountInString(p)
	switch {
	case n < 13:
		return errors.New("it has fewer than 13 characters")
	case n > 25:
		return errors.New("it has more than 25 characters")
	case !letter:
		return errors.New("it has no letter")
	case !digit:
		return errors.New("it has no digit")
	case !other:
		return errors.New("it has letters and digits alone")
	}
	return nil
}
