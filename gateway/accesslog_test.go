package gateway

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"dtegate/engine/record"
	"dtegate/plugins"
)

// Each request that changes or sends something leaves a line, with token, point of sale, route, code and status, on
// every route; one that reads leaves none. No line holds a body or a token. Refusals without a token leave lines too, a
// bounded number.
func TestAccessLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1, 0)
	secret := []byte("secret of the test")
	permissions := []string{"ANULACION"}
	for _, kind := range plugins.Types() {
		permissions = append(permissions, kind.Permission)
	}
	g := New(Options{Sales: new(said), Documents: new(said), Outbox: new(said), Tokens: NewTokenTable(secret,
		[]Token{{ID: 77, Hash: keyed("token-that-is-secret", secret), Point: record.Point{ID: 5},
			Permissions: permissions}}),
		Slug: "tienda", Now: func() time.Time { return now }, Limits: Limits{Rate: 1, Burst: 5000},
		Logger: slog.New(slog.NewTextHandler(&out, nil))})
	url := served(t, g.Serve)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	send := func(method, path, body, token string) int {
		t.Helper()
		req, err := http.NewRequest(method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("x-api-token", token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	ask := func(method, path, body, token string) (int, string) {
		t.Helper()
		out.Reset()
		status := send(method, path, body, token)
		// The line follows the answer, and comes before the connection's next request is read.
		send("GET", "/dte/information", "", "token-that-is-secret")
		return status, out.String()
	}
	doc, changing := contractOf(t), 0
	for _, item := range doc.Get("paths").Members() {
		for _, o := range item.Value.Members() {
			method, path := strings.ToUpper(o.Name), strings.ReplaceAll(item.Name, "{codigoGeneracion}", saidCode)
			body := string(exampleOf(o.Value.Get("requestBody").Get("content").Get("application/json")).Append(nil))
			status, line := ask(method, path, body, "token-that-is-secret")
			if method == "GET" || path == "/dte/documentos-info" {
				if line != "" {
					t.Errorf("%s %s is logged: %s", method, path, line)
				}
				continue
			}
			changing++
			code := saidCode
			if path == "/dte/cierre" { // a closing is no document
				code = `""`
			}
			for _, want := range []string{"msg=request token=77 point_of_sale=5 route=" + strings.TrimSuffix(path,
				"/"+saidCode), " code=" + code, fmt.Sprintf(" status=%d took=", status), " remote=127.0.0.1"} {
				if !strings.Contains(line, want) || strings.Count(line, "\n") != 1 || status >= 300 {
					t.Errorf("%s: %d, no %q in %s", path, status, want, line)
				}
			}
			for _, never := range []string{"secret", "Ana", "example.com"} {
				if strings.Contains(line, never) {
					t.Errorf("%s: %q in %s", path, never, line)
				}
			}
		}
	}
	if changing < 10 {
		t.Errorf("only %d routes change something", changing)
	}
	if _, line := ask("GET", "/dte/pdf/"+saidCode+"?format=url", "", "token-that-is-secret"); !strings.Contains(line,
		"code="+saidCode) {
		t.Errorf("a link for anybody is not logged: %q", line)
	}
	if _, line := ask("POST", "/dte/dte01", `{}`, "token-that-is-secret"); !strings.Contains(line,
		"error=VALIDATION_ERROR") {
		t.Errorf("a refused sale: %s", line)
	}
	if _, line := ask("GET", "/dte/x%1b%5b2J%0aforged=1", "", "wrong-token"); strings.ContainsAny(strings.TrimSuffix(
		line, "\n"), "\x1b\n") {
		t.Errorf("%q", line)
	}
	lines, wrong := 0, 3*refusalBurst
	for range wrong {
		if _, line := ask("GET", "/dte/information", "", "wrong-token"); line != "" {
			lines++
			if !strings.Contains(line,
				`msg="no token" listener=api given=true method=GET path=/dte/information remote=127.0.0.1`) ||
				strings.Contains(line, "wrong-token") {
				t.Fatalf("a refusal: %s", line)
			}
		}
	}
	if lines > refusalBurst || lines < refusalBurst/2 {
		t.Errorf("%d lines of %d refusals", lines, wrong)
	}
	// What is missing is told once: by the next line, or by the end.
	now = now.Add(3 * time.Second)
	for i, want := range []string{fmt.Sprintf(" missing=%d\n", wrong-lines), "127.0.0.1\n", "127.0.0.1\n", "", ""} {
		if _, line := ask("GET", "/dte/information", "", "wrong-token"); !strings.HasSuffix(line, want) ||
			want == "" && line != "" {
			t.Errorf("line %d after the flood: %q, want the end %q", i, line, want)
		}
	}
	out.Reset()
	g.access.flush()
	g.access.flush()
	if text := out.String(); !strings.HasSuffix(text, "kind=refused missing=2\n") || strings.Count(text, "\n") != 1 {
		t.Errorf("the end does not say what is missing: %s", text)
	}
}

// held is a log that takes a line only when the test reads it.
type held chan string

func (h held) Write(line []byte) (int, error) {
	h <- string(line)
	return len(line), nil
}

// A till does not wait for its line in the log: a log that hangs does not hang a sale's answer. No line is lost, also
// of a connection that ends with the answer.
func TestAccessLog_NobodyWaits(t *testing.T) {
	out, secret := make(held), []byte("secret of the test")
	g := New(Options{Sales: new(said), Documents: new(said), Outbox: new(said), Tokens: NewTokenTable(secret,
		[]Token{{ID: 77, Hash: keyed("token", secret), Permissions: []string{"ANULACION"}}}), Now: time.Now,
		Logger: slog.New(slog.NewTextHandler(out, nil))})
	url := served(t, g.Serve)
	for _, last := range []bool{false, true} {
		req, err := http.NewRequest("POST", url+"/dte/dte01", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-api-token", "token")
		req.Close = last
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if line := <-out; !strings.Contains(line, fmt.Sprintf("msg=request token=77 point_of_sale=0 route=/dte/dte01 "+
			"code=\"\" status=%d", resp.StatusCode)) {
			t.Error(line)
		}
	}
}
