package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
)

func parsed(t *testing.T, s string) dte.Code {
	t.Helper()
	c, err := dte.ParseCode(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPass(t *testing.T) {
	now := time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	table, other := NewTokenTable([]byte("one secret"), nil), NewTokenTable([]byte("another"), nil)
	code := parsed(t, saidCode)
	pass := table.pass(code, "ticket80", 3, now.Add(linkLife))
	if layout, branch, ok := table.admit(code, pass, now.Add(linkLife-time.Second)); !ok || layout != "ticket80" ||
		branch != 3 {
		t.Errorf("in time: %s %d %v", layout, branch, ok)
	}
	for name, admit := range map[string]func() (string, int64, bool){
		"late": func() (string, int64, bool) { return table.admit(code, pass, now.Add(linkLife)) },
		"another document": func() (string, int64, bool) {
			return table.admit(parsed(t, "0F84E5DB-79C5-42CE-B415-EC510C53EFB5"), pass, now)
		},
		"another box": func() (string, int64, bool) { return other.admit(code, pass, now) },
		"another layout": func() (string, int64, bool) {
			return table.admit(code, strings.Replace(pass, "ticket80", "letter", 1), now)
		},
		"another branch": func() (string, int64, bool) {
			return table.admit(code, strings.Replace(pass, ".3.", ".4.",
				1), now)
		},
		"a longer life": func() (string, int64, bool) {
			_, rest, _ := strings.Cut(pass, ".")
			return table.admit(code, "zzzzzz."+rest, now)
		},
		"cut short": func() (string, int64, bool) { return table.admit(code, pass[:len(pass)-1], now) },
		"nothing":   func() (string, int64, bool) { return table.admit(code, "", now) },
	} {
		if _, _, ok := admit(); ok {
			t.Errorf("%s opens", name)
		}
	}
}

// TestTagged: a file has a tag, its own type and its name. A client may keep it, but must ask each time whether it is
// still valid; the answer to a client that has it leaves the file out.
func TestTagged(t *testing.T) {
	for _, held := range []string{"", `"other"`, tagOf([]byte("%PDF-"))} {
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.Header.Set("If-None-Match", held)
		file(ctx, "application/pdf", "inline", "a.pdf", []byte("%PDF-"))
		header, same := &ctx.Response.Header, held == tagOf([]byte("%PDF-"))
		want := map[string]string{"Etag": tagOf([]byte("%PDF-")), "Cache-Control": "private, no-cache"}
		if !same {
			want["Content-Disposition"], want["X-Content-Type-Options"],
				want["Content-Type"] = `inline; filename="a.pdf"`, "nosniff", "application/pdf"
		}
		for name, value := range want {
			if got := string(header.Peek(name)); got != value {
				t.Errorf("held %s: %s is %q", held, name, got)
			}
		}
		if body := string(ctx.Response.Body()); (ctx.Response.StatusCode() == fasthttp.StatusNotModified) != same ||
			(body == "") != same {
			t.Errorf("held %s: %d %q", held, ctx.Response.StatusCode(), body)
		}
	}
}

func TestMatches(t *testing.T) {
	for header, want := range map[string]bool{"": false, `"a"`: true, `W/"a"`: true, `"b", "a"`: true, "*": true,
		`"b"`: false, `a`: false} {
		if got := matches(header, `"a"`); got != want {
			t.Errorf("%s: %v", header, got)
		}
	}
}
