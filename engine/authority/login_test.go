package authority

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine/redacted"
)

// wireFunc is MH without a network, for fake time.
type wireFunc func(*http.Request) (*http.Response, error)

func (f wireFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}
}

func offline(f wireFunc) *Client {
	return New(Options{BaseURL: "http://mh.example", NIT: "06140101901019", Password: "secreto", Ambiente: "00",
		UserAgent: "dtegate", Now: time.Now, Transport: f})
}

// While MH's login hangs, everybody waits for the same login, and nobody longer than its time-out.
func TestLogin_HangingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logins atomic.Int32
		client := offline(func(r *http.Request) (*http.Response, error) {
			logins.Add(1)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		began := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if o := client.Submit(t.Context(), Submission{Code: testCode}); o.Kind != Unknown || o.Sent ||
					!errors.Is(o.Err, context.DeadlineExceeded) {
					t.Errorf("got %+v", o)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 8*time.Second || logins.Load() != 1 {
			t.Fatalf("50 callers waited %v for %d logins", took, logins.Load())
		}
	})
}

// The caller that began the shared login hangs up: it returns at once, and the others still get their token.
func TestLogin_OutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := offline(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(3 * time.Second):
				return reply(200, `{"status":"OK","body":{"token":"Bearer t"}}`), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := client.authorize(ctx); !errors.Is(err, context.DeadlineExceeded) ||
				time.Since(began) != time.Second {
				t.Errorf("the first: %v after %v", err, time.Since(began))
			}
		})
		wg.Go(func() {
			time.Sleep(500 * time.Millisecond)
			if _, err := client.authorize(t.Context()); err != nil || time.Since(began) != 3*time.Second {
				t.Errorf("the second: %v after %v", err, time.Since(began))
			}
		})
		wg.Wait()
	})
}

// Refused credentials are not tried again for a minute: MH locks accounts.
func TestLogin_RefusalIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins := 0
		client := offline(func(*http.Request) (*http.Response, error) {
			logins++
			return reply(200, `{"status":"ERROR","error":"Unauthorized","message":"Usuario no valido"}`), nil
		})
		submit := func() {
			t.Helper()
			if o := client.Submit(t.Context(), Submission{Code: testCode}); o.Kind != Unknown || o.Sent ||
				!errors.Is(o.Err, ErrCredentials) {
				t.Fatalf("got %+v", o)
			}
		}
		for range 10 {
			submit()
		}
		if logins != 1 {
			t.Fatalf("%d logins with refused credentials", logins)
		}
		time.Sleep(refusalPause)
		submit()
		if logins != 2 {
			t.Fatalf("%d logins after the pause", logins)
		}
	})
}

// A password that works again ends the pause.
func TestLogin_SuccessEndsTheRefusal(t *testing.T) {
	good, logins := false, 0
	client := offline(func(r *http.Request) (*http.Response, error) {
		switch {
		case r.URL.Path != "/seguridad/auth" && logins < 3:
			return reply(401, ""), nil
		case r.URL.Path != "/seguridad/auth":
			return reply(200, body("PROCESADO", `"`+goodSeal+`"`, "001")), nil
		case !good:
			return reply(401, ""), nil
		}
		logins++
		return reply(200, fmt.Sprintf(`{"status":"OK","body":{"token":"Bearer t%d"}}`, logins)), nil
	})
	if o := client.Submit(t.Context(), Submission{Code: testCode}); !errors.Is(o.Err, ErrCredentials) {
		t.Fatalf("got %+v", o)
	}
	good = true
	if _, err := client.login(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.Submit(t.Context(), Submission{Code: testCode}) // 401, a login, 401
	if o := client.Submit(t.Context(), Submission{Code: testCode}); o.Kind != Accepted {
		t.Fatalf("got %+v after %d logins", o, logins)
	}
}

// A fault unrelated to the credentials is tried again at once.
func TestLogin_FaultIsNotRemembered(t *testing.T) {
	logins := 0
	client := offline(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != "/seguridad/auth" {
			return reply(200, body("PROCESADO", `"`+goodSeal+`"`, "001")), nil
		}
		if logins++; logins == 1 {
			return reply(503, "<html>"), nil
		}
		return reply(200, `{"status":"OK","body":{"token":"Bearer t"}}`), nil
	})
	if o := client.Submit(t.Context(), Submission{Code: testCode}); o.Kind != Unknown || o.Sent ||
		errors.Is(o.Err, ErrCredentials) {
		t.Fatalf("got %+v", o)
	}
	if o := client.Submit(t.Context(), Submission{Code: testCode}); o.Kind != Accepted {
		t.Fatalf("got %+v", o)
	}
}

func TestReadLogin(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
		token  string
		want   error
	}{
		"token with its Bearer": {200, `{"status":"OK","body":{"token":"Bearer a.b.c","tokenType":"Bearer"}}`,
			"Bearer a.b.c", nil},
		"token without": {200, `{"status":"OK","body":{"token":"a.b.c"}}`, "Bearer a.b.c", nil},
		"the manual's error": {200, `{"status":"ERROR","error":"Unauthorized","message":"Usuario no valido"}`,
			"", ErrCredentials},
		"401":      {401, `{"status":401,"error":"Unauthorized"}`, "", ErrCredentials},
		"403 page": {403, `<html>`, "", ErrCredentials},
		"103 in codigoMsg": {200, `{"status":"ERROR","codigoMsg":"103","message":"Contraseña expirada"}`, "",
			ErrPasswordExpired},
		"103 as a number": {401, `{"status":"ERROR","codigo":103}`, "", ErrPasswordExpired},
		"103 in the body": {200, `{"status":"ERROR","body":{"codigo":"103","mensaje":"Contraseña expirada"}}`,
			"", ErrPasswordExpired},
		"104 in the message": {200,
			`{"status":"ERROR","error":"Unauthorized","message":"104 - Cambio de contraseña"}`, "", ErrPasswordChange},
		"106":                   {200, `{"status":"ERROR","error":"106"}`, "", ErrCredentials},
		"109, MH's own trouble": {200, `{"status":"ERROR","error":"109"}`, "", ErrAnswer},
		"an error of another kind": {200, `{"status":"ERROR","error":"Internal Server Error","message":"timeout"}`, "",
			ErrAnswer},
		"500":                       {500, `{"status":500,"error":"Internal Server Error"}`, "", ErrAnswer},
		"a token over another code": {500, `{"status":"OK","body":{"token":"Bearer t"}}`, "", ErrAnswer},
		"no token":                  {200, `{"status":"OK","body":{}}`, "", ErrAnswer},
		"a body of another type":    {200, `{"status":"OK","body":"Bearer t"}`, "", ErrAnswer},
		"a page":                    {200, `<html>mantenimiento</html>`, "", ErrAnswer},
		"nothing":                   {200, ``, "", ErrAnswer},
		"a redirect":                {302, ``, "", ErrAnswer},
		"a number that is no code":  {200, `{"status":"ERROR","error":"x","message":"1030 intentos"}`, "", ErrAnswer},
	} {
		token, err := readLogin(c.status, []byte(c.answer))
		if token != c.token || !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v", name, token, err)
		}
	}
	for _, err := range []error{ErrPasswordExpired, ErrPasswordChange} {
		if !errors.Is(err, ErrCredentials) {
			t.Errorf("%v is not ErrCredentials", err)
		}
	}
}

func TestTokenLife(t *testing.T) {
	jwt := func(claims string) string {
		return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
	}
	const limit = 47 * time.Hour
	for token, want := range map[string]time.Duration{
		"Bearer opaque":                    limit,
		"Bearer a.***.c":                   limit,
		jwt(`{"iat":1000,"exp":1600}`):     9 * time.Minute,
		jwt(`{"iat":1000,"exp":87400}`):    23 * time.Hour,
		jwt(`{"iat":1000,"exp":9999999}`):  limit,
		jwt(`{"iat":1600,"exp":1000}`):     limit,
		jwt(`{"exp":1000}`):                limit,
		jwt(`{"iat":1,"exp":9e18}`):        limit,
		jwt(`{"iat":1,"exp":9e99}`):        limit,
		jwt(`{"iat":-9e18,"exp":9e18}`):    limit,
		jwt(`{"iat":"1000","exp":"1600"}`): limit,
	} {
		if got := tokenLife(token, limit); got != want {
			t.Errorf("%s: %v, want %v", token, got, want)
		}
	}
}

func TestToken_RenewedWhenItsTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins := 0
		client := offline(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/seguridad/auth" {
				logins++
				return reply(200, fmt.Sprintf(`{"status":"OK","body":{"token":"Bearer t%d"}}`, logins)), nil
			}
			return reply(200, body("PROCESADO", `"`+goodSeal+`"`, "001")), nil
		})
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 1}, {47*time.Hour - time.Second, 1}, {time.Second, 2}, {time.Hour, 2}} {
			time.Sleep(step.after)
			if o := client.Submit(t.Context(), Submission{Code: testCode}); o.Kind != Accepted || logins != step.want {
				t.Fatalf("%+v after %d logins, want %d", o, logins, step.want)
			}
		}
		got, want := metrictest.Value(t, client, "dte_authority_token_expiry_timestamp_seconds"),
			float64(time.Now().Add(46*time.Hour).Unix())
		if got != want {
			t.Errorf("the metric says %v, want %v", got, want)
		}
	})
}

// A hundred requests whose token dies at once cause one login.
func TestToken_DiesUnderManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logins, requests atomic.Int32
		client := offline(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/seguridad/auth" {
				return reply(200, fmt.Sprintf(`{"status":"OK","body":{"token":"Bearer t%d"}}`, logins.Add(1))), nil
			}
			// Most of the refusals arrive long after the token was renewed.
			time.Sleep(time.Duration(requests.Add(1)) * time.Millisecond)
			switch {
			case r.Header.Get("Authorization") != "Bearer t2":
				return reply(401, ""), nil
			}
			return reply(200, body("PROCESADO", `"`+goodSeal+`"`, "001")), nil
		})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if o := client.Submit(t.Context(), Submission{Code: testCode}); o.Kind != Accepted {
					t.Errorf("got %+v", o)
				}
			})
		}
		wg.Wait()
		if logins.Load() != 2 {
			t.Fatalf("%d logins", logins.Load())
		}
	})
}

func TestClient_ShowsNoSecret(t *testing.T) {
	client := offline(nil)
	client.token = "Bearer secreto"
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "client", client, "options", client.options, "password",
		client.options.Password)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "client", client, "password", client.options.Password)
	j, err := json.Marshal(struct{ P redacted.Text }{client.options.Password})
	if err != nil {
		t.Fatal(err)
	}
	shown := log.String() + string(j)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		shown += fmt.Sprintf(verb, client) + fmt.Sprintf(verb, client.options.Password) + fmt.Sprintf(verb,
			struct{ P redacted.Text }{client.options.Password})
	}
	for _, secret := range []string{"secreto", "7365637265746f"} {
		if strings.Contains(shown, secret) {
			t.Errorf("shown in %s", shown)
		}
	}
}

// MH's time is the time of its latest answer, plus the time since then.
func TestClient_Time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
		client := offline(func(*http.Request) (*http.Response, error) {
			r := reply(http.StatusInternalServerError, "")
			r.Header = http.Header{"Date": {said.Format(http.TimeFormat)}}
			return r, nil
		})
		if at := client.Time(); !at.IsZero() {
			t.Errorf("before an answer it is %v", at)
		}
		for range 2 {
			client.Query(t.Context(), "01", testCode)
			time.Sleep(90 * time.Second)
			if at := client.Time(); !at.Equal(said.Add(90 * time.Second)) {
				t.Errorf("it is %v, and was %v", at, said)
			}
			said = said.Add(-time.Hour) // MH's clock is set
		}
	})
}
