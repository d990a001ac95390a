package reply

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/refusal"
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
