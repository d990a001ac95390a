package simulator_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestLogin(t *testing.T) {
	b := open(t)
	status, body := b.form(url.Values{"user": {nit}, "pwd": {password}})
	var out struct {
		Status string
		Body   struct {
			User, Token, TokenType string
			Rol                    map[string]any
			Roles                  []string
		}
	}
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatal(err)
	}
	if status != 200 || out.Status != "OK" || out.Body.User != nit || out.Body.TokenType != "Bearer" ||
		len(out.Body.Roles) != 1 ||
		out.Body.Rol["codigo"] != "ROLE_USER" {
		t.Errorf("%d %s", status, body)
	}
	token, ok := strings.CutPrefix(out.Body.Token, "Bearer ")
	parts := strings.Split(token, ".")
	if !ok || len(parts) != 3 {
		t.Fatalf("token %q", out.Body.Token)
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	var c struct{ Iat, Exp int64 }
	if err != nil || json.Unmarshal(claims, &c) != nil || c.Iat != noon.Unix() || c.Exp-c.Iat != 48*3600 {
		t.Errorf("claims %s", claims)
	}
}

func TestLogin_Refused(t *testing.T) {
	b := open(t)
	for want, v := range map[string]url.Values{
		"Usuario no valido":      {"user": {"06140000000000"}, "pwd": {password}},
		"Credenciales invalidas": {"user": {nit}, "pwd": {"otra"}},
	} {
		status, body := b.form(v)
		var out struct{ Status, Error, Message string }
		// MT1 §4.1: over HTTP 200.
		if err := json.Unmarshal(body, &out); err != nil || status != 200 || out.Status != "ERROR" ||
			out.Error != "Unauthorized" || out.Message != want {
			t.Errorf("%d %s", status, body)
		}
	}
	// Only a form is read.
	resp, err := b.http.Post(b.url+"/seguridad/auth", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := b.read(resp); status != http.StatusUnsupportedMediaType {
		t.Error(status)
	}
}

func TestToken_Expires(t *testing.T) {
	b := open(t)
	b.clock.set(noon.Add(48*time.Hour - time.Second))
	if a := b.lookup("01", code("01", 1)); a.status != 400 {
		t.Error("a second before:", a)
	}
	b.clock.set(noon.Add(48 * time.Hour))
	if a := b.lookup("01", code("01", 1)); a.status != http.StatusUnauthorized {
		t.Error("at its end:", a)
	}
	b.login(nit)
	if a := b.lookup("01", code("01", 1)); a.status != 400 {
		t.Error("renewed:", a)
	}
}

func TestHeaders(t *testing.T) {
	b := open(t)
	for name, c := range map[string]struct {
		header, value string
		want          int
	}{
		"as it should be":   {"Accept", "*/*", 400},
		"charset":           {"Content-Type", "application/json; charset=utf-8", 400},
		"no token":          {"Authorization", "", 401},
		"bearer twice":      {"Authorization", "Bearer " + b.token, 401},
		"no bearer":         {"Authorization", strings.TrimPrefix(b.token, "Bearer "), 401},
		"somebody's":        {"Authorization", b.token + "A", 401},
		"no user agent":     {"User-Agent", "", 401},
		"not declared JSON": {"Content-Type", "text/plain", 415},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, b.url+"/fesv/recepciondte", strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", b.token)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(c.header, c.value)
			resp, err := b.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if status, body := b.read(resp); status != c.want {
				t.Errorf("%d %s, want %d", status, body, c.want)
			}
		})
	}
	resp, err := b.http.Get(b.url + "/fesv/recepciondte")
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := b.read(resp); status != http.StatusMethodNotAllowed {
		t.Error("GET:", status)
	}
}
