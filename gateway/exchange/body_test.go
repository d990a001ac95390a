package exchange

import (
	"errors"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"dtegate/gateway/problem"
)

// TestBody: a body is plain, strict JSON of at most 1 MiB, or is refused as what it is.
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
		var p *problem.Problem
		if refused := errors.As(err, &p); refused != (c.refused != "") || refused && (p.Type != c.refused || p.Status != c.status) || !refused && (err != nil || !v.Get("a").Exists()) {
			t.Errorf("%s %s %.20s: %v", c.kind, c.encoding, c.body, err)
		}
	}
}
