package exchange

import (
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/problem"
)

// TestFail: an error that comes behind an answer leaves the bytes of that one as they are: other requests may share them.
func TestFail(t *testing.T) {
	shared := []byte("a page that every request is given, longer than an error is; a page that every request is given, longer than an error is")
	kept := string(shared)
	ctx := new(fasthttp.RequestCtx)
	Answer(ctx, fasthttp.StatusOK, shared)
	Fail(ctx, &problem.Problem{Status: fasthttp.StatusInternalServerError, Type: "INTERNAL", Message: "x"})
	if string(shared) != kept {
		t.Errorf("the page is now %s", shared)
	}
}

// TestFail_RetryAfter: who waits as long as he was told is not early.
func TestFail_RetryAfter(t *testing.T) {
	for wait, want := range map[time.Duration]string{0: "", time.Millisecond: "1", time.Second: "1", 1900 * time.Millisecond: "2", 2999 * time.Millisecond: "3", time.Minute: "60"} {
		ctx := new(fasthttp.RequestCtx)
		Fail(ctx, &problem.Problem{Status: fasthttp.StatusTooManyRequests, RetryAfter: wait})
		if got := string(ctx.Response.Header.Peek("Retry-After")); got != want {
			t.Errorf("%v: %q", wait, got)
		}
	}
}
