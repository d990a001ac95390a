package reply

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/refusal"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
)

// TestFail: an error that comes after an answer leaves the bytes of that answer as they are: other requests may share
// them.
func TestFail(t *testing.T) {
	shared := []byte("a page that every request is given, longer than an error is; a page that every request is " +
		"given, longer than an error is")
	kept := string(shared)
	ctx := new(fasthttp.RequestCtx)
	Answer(ctx, fasthttp.StatusOK, shared)
	Fail(ctx, &refusal.Error{Code: refusal.CodeInternal, Message: "x"})
	if string(shared) != kept {
		t.Errorf("the page is now %s", shared)
	}
}

// TestFail_RetryAfter: a client that waits as long as it was told is not early.
func TestFail_RetryAfter(t *testing.T) {
	for wait, want := range map[time.Duration]string{0: "", time.Millisecond: "1", time.Second: "1",
		1900 * time.Millisecond: "2", 2999 * time.Millisecond: "3", time.Minute: "60"} {
		ctx := new(fasthttp.RequestCtx)
		Fail(ctx, &refusal.Error{Code: refusal.CodeBusy, RetryAfter: wait})
		if got := string(ctx.Response.Header.Peek("Retry-After")); got != want {
			t.Errorf("%v: %q", wait, got)
		}
	}
}

// TestBody: a body is plain, strict JSON of at most 1 MiB, or the refusal says what it is.
func TestBody(t *testing.T) {
	whole := `{"a":"` + strings.Repeat("x", MaxBody-8) + `"}`
	for _, c := range []struct {
		kind, encoding, body, refused string
		status                        int
	}{
		{"application/json", "", `{"a":1}`, "", 0},
		{"", "", `{"a":1}`, "", 0},
		{"Application/JSON; charset=utf-8", "identity", `{"a":1}`, "", 0},
		{"application/json", "", whole, "", 0},
		{"application/json", "", whole + " ", "TOO_LARGE", fasthttp.StatusRequestEntityTooLarge},
		{"text/plain", "", `{"a":1}`, "UNSUPPORTED_MEDIA_TYPE", fasthttp.StatusUnsupportedMediaType},
		{"application/json", "gzip", `{"a":1}`, "UNSUPPORTED_MEDIA_TYPE", fasthttp.StatusUnsupportedMediaType},
		{"application/json", "", `{"a":1`, "VALIDATION_ERROR", fasthttp.StatusBadRequest},
		{"application/json", "", `{"a":1,"a":2}`, "VALIDATION_ERROR", fasthttp.StatusBadRequest},
	} {
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.Header.SetContentType(c.kind)
		if c.encoding != "" {
			ctx.Request.Header.Set("Content-Encoding", c.encoding)
		}
		ctx.Request.SetBodyString(c.body)
		v, err := Body(ctx)
		var e *refusal.Error
		if refused := errors.As(err, &e); refused != (c.refused != "") || refused && (e.Code != c.refused ||
			problem.Status(e.Code) != c.status) || !refused && (err != nil || !v.Get("a").Exists()) {
			t.Errorf("%s %s %.20s: %v", c.kind, c.encoding, c.body, err)
		}
	}
}

// TestFail_Headers: whom an error is for decides its language; a client without a token learns how to give one.
func TestFail_Headers(t *testing.T) {
	for _, c := range []struct {
		e         *refusal.Error
		operators bool
		want      string
	}{
		{problem.ForTill("UNAUTHORIZED", "Falta el token"), false, "401 Bearer Falta el token"},
		{problem.ForTill("UNAUTHORIZED", "Falta el token"), true, "401 Bearer " + meaning(t, "UNAUTHORIZED")},
		{problem.ForTill("NOT_FOUND", "No existe"), false, "404  No existe"},
		{problem.ForOperator("NOT_FOUND", "No rule"), true, "404  No rule"},
		{&refusal.Error{Code: "NOT_FOUND", Message: "No existe", English: "It is gone"}, true, "404  It is gone"},
	} {
		ctx := new(fasthttp.RequestCtx)
		if c.operators {
			ctx.SetUserValue(ForOperators, true)
		}
		Fail(ctx, c.e)
		header := &ctx.Response.Header
		got := fmt.Sprintf("%d %s ", ctx.Response.StatusCode(), header.Peek("WWW-Authenticate"))
		message := `"message":"` + strings.TrimPrefix(c.want, got) + `"`
		if !strings.HasPrefix(c.want, got) || !strings.Contains(string(ctx.Response.Body()), message) ||
			ctx.UserValue(ErrorKind) != c.e.Code || string(header.Peek("Cache-Control")) != "no-store" {
			t.Errorf("%+v: %s%s, want %s", c.e, got, ctx.Response.Body(), c.want)
		}
	}
}

func meaning(t *testing.T, name string) string {
	c, ok := problem.Find(name)
	if !ok {
		t.Fatal(name)
	}
	return c.Meaning.EN
}

// TestCheckQuery: a parameter is one that the route has, once.
func TestCheckQuery(t *testing.T) {
	for _, c := range []struct{ names, query, want string }{
		{"", "", ""}, {"a b", "a=1&b=2", ""}, {"a b", "b=", ""}, {"a b", "c=1", "c UNKNOWN"},
		{"", "a=1", "a UNKNOWN"},
		{"a", "a=1&a=1", "a DUPLICATE"}, {"a", "a=1&a=2&a=3", "a DUPLICATE a DUPLICATE"},
		{"a b", "A=1&b=1&b", "A UNKNOWN b DUPLICATE"},
	} {
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.SetRequestURI("/x?" + c.query)
		var got []string
		var e *refusal.Error
		if errors.As(CheckQuery(ctx, strings.Fields(c.names)), &e) {
			for _, f := range e.Faults {
				got = append(got, f.Path, f.Code)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q of %q: %q, want %q", c.query, c.names, got, c.want)
		}
	}
	ctx := new(fasthttp.RequestCtx)
	ctx.Request.SetRequestURI("/x?" + strings.Repeat("x=1&", form.MaxFaults+1))
	var e *refusal.Error
	if errors.As(CheckQuery(ctx, nil), &e); e == nil || len(e.Faults) != form.MaxFaults {
		t.Errorf("%+v", e)
	}
}

// TestTerminalText: what comes from outside is one short printable line.
func TestTerminalText(t *testing.T) {
	for text, want := range map[string]string{" a b ": "a b", "a\x1b[2J\nb\x00": "a[2Jb", "ñ\u202ea": "ña",
		strings.Repeat("a", 200): strings.Repeat("a", 200), strings.Repeat("a", 201): strings.Repeat("a", 200),
		strings.Repeat("a", 199) + "ñ": strings.Repeat("a", 199)} {
		if got := TerminalText(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestLanguage: the parameter counts before the header, and the first known language of each.
func TestLanguage(t *testing.T) {
	for _, c := range []struct{ query, header, want string }{
		{"", "", "?"}, {"", "es-SV,en;q=0.5", "es"}, {"", "fr, EN-us;q=0.8, es", "en"}, {"lang=en", "es", "en"},
		{"lang=fr", "es", "es"}, {"lang=ES", "", "es"}, {"", "esp", "?"},
	} {
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.SetRequestURI("/x?" + c.query)
		ctx.Request.Header.Set("Accept-Language", c.header)
		if got := Language(ctx, "?"); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestBody_Where: a fault of the syntax says its line and column, counted in characters.
func TestBody_Where(t *testing.T) {
	for body, want := range map[string]string{`{"a":1,"a":2}`: "línea 1, columna", "{\n \"ñ\":x}": "línea 2, columna 6",
		"{": "línea 1, columna 2"} {
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.SetBodyString(body)
		var e *refusal.Error
		if _, err := Body(ctx); !errors.As(err, &e) || len(e.Faults) != 1 || !strings.Contains(e.Faults[0].Message, want) {
			t.Errorf("%q: %+v", body, e)
		}
	}
}

// TestSingleHeader: a header twice is refused, even with one value.
func TestSingleHeader(t *testing.T) {
	var h fasthttp.RequestHeader
	for n, want := range []string{"<nil>", "<nil>", "VALIDATION_ERROR"} {
		v, err := SingleHeader(&h, "Idempotency-Key")
		if refused := fmt.Sprint(err); !strings.HasPrefix(refused, want) || n == 1 && string(v) != "a" {
			t.Errorf("%d: %q %v", n, v, err)
		}
		h.Add("Idempotency-Key", "a")
	}
}
