package authority

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ErrCredentials means that MH refuses the user or the password (wrong, expired, to be changed): no retry helps.
var ErrCredentials = errors.New("MH refuses the credentials")

// Login gets a token now, whether there is one or not.
func (c *Client) Login(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.login(ctx)
}

// authorize returns a token that should be good. One login runs at a time; the others wait for it.
func (c *Client) authorize(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == "" || !c.options.Now().Before(c.expires) {
		if err := c.login(ctx); err != nil {
			return "", err
		}
	}
	return c.token, nil
}

// forget drops a token that MH refused, unless another request has replaced it already.
func (c *Client) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token {
		c.token = ""
	}
}

// login posts the credentials (MT1 §4.1). The caller holds the lock.
func (c *Client) login(ctx context.Context) error {
	form := url.Values{"user": {c.options.NIT}, "pwd": {string(c.options.Password)}}.Encode()
	status, answer, _, err := c.post(ctx, "/seguridad/auth", "application/x-www-form-urlencoded", "", []byte(form))
	if err != nil {
		c.metrics.logins.WithLabelValues("unknown").Inc()
		return err
	}
	var r struct {
		Status  string          `json:"status"`
		Message string          `json:"message"`
		Error   string          `json:"error"`
		Body    json.RawMessage `json:"body"`
	}
	var body struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(answer, &r); err == nil && r.Status == "OK" {
		_ = json.Unmarshal(r.Body, &body) // no token is told below
	}
	switch {
	case body.Token != "":
	case r.Status == "ERROR", status == 401, status == 403:
		c.metrics.logins.WithLabelValues("refused").Inc()
		return fmt.Errorf("%w: HTTP %d: %s %s", ErrCredentials, status, r.Error, r.Message)
	default:
		c.metrics.logins.WithLabelValues("unknown").Inc()
		return fmt.Errorf("%w: login: HTTP %d", ErrAnswer, status)
	}
	c.metrics.logins.WithLabelValues("ok").Inc()
	// MH's token begins with "Bearer "; sending the word twice is refused.
	c.token = "Bearer " + strings.TrimPrefix(body.Token, "Bearer ")
	c.expires = c.options.Now().Add(c.options.TokenLife)
	return nil
}
