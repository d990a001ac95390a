package gateway

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/browsertest"
	"dtegate/gateway/reply"
)

const page1, page2 = "https://caja.example.com", "http://192.168.1.5:3000"

// raw sends the lines of a request and reads its answer.
func raw(t *testing.T, url, request string) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write([]byte(strings.ReplaceAll(request, "\n", "\r\n"))); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	return resp
}

// aboutOrigins are the headers of an answer that speak of origins.
func aboutOrigins(h http.Header) (list []string) {
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			list = append(list, name+": "+strings.Join(h[name], "|"))
		}
	}
	slices.Sort(list)
	return list
}

// selling is a gateway whose till "may" has every permission, for the listed pages.
func selling(listed ...string) *Gateway {
	secret := []byte("secret of the test")
	all := []string{"FACTURA_CONSUMIDOR_FINAL"}
	return New(Options{Sales: new(said), Documents: new(said), Outbox: new(said), Slug: "tienda", Now: time.Now,
		Origins: listed, Access: Access{OwnTypes: true},
		Tokens: NewTokenTable(secret, []Token{{ID: 1, Hash: keyed("may", secret), Permissions: all}}),
		Issuer: reply.Information{}})
}

const preflight = "OPTIONS /dte/dte01 HTTP/1.1\nHost: x\nOrigin: %s\nAccess-Control-Request-Method: " +
	"POST\nAccess-Control-Request-Headers: x-api-token,content-type,idempotency-key,prefer\n\n"

// TestOrigins: a listed page is answered under its own name, whatever becomes of its request; every other page is
// answered as if none was listed; answers that a shared cache keeps are kept by origin.
func TestOrigins(t *testing.T) {
	url := served(t, selling(page1, page2).Serve)
	for _, origin := range []string{page1, page2} {
		resp := raw(t, url, fmt.Sprintf(preflight, origin))
		want := []string{"Access-Control-Allow-Headers: " + allowedHeaders, "Access-Control-Allow-Methods: " +
			allowedMethods,
			"Access-Control-Allow-Origin: " + origin, "Access-Control-Expose-Headers: " + exposedHeaders,
			"Access-Control-Max-Age: " + preflightLife}
		if got := aboutOrigins(resp.Header); resp.StatusCode != 204 || !slices.Equal(got, want) ||
			resp.Header.Get("Vary") != "Origin" {
			t.Errorf("preflight of %s: %d %q, Vary %q", origin, resp.StatusCode, got, resp.Header["Vary"])
		}
	}
	const asked = "GET /dte/information HTTP/1.1\nHost: x\nx-api-token: may\n%s\n"
	check := func(request string, status int, origins, allowed string) {
		t.Helper()
		resp := raw(t, url, fmt.Sprintf(request, origins))
		var want []string
		if allowed != "" {
			want = []string{"Access-Control-Allow-Origin: " + allowed, "Access-Control-Expose-Headers: " +
				exposedHeaders}
		}
		if got := aboutOrigins(resp.Header); resp.StatusCode != status || !slices.Equal(got, want) ||
			!slices.Contains(resp.Header["Vary"], "Origin") {
			t.Errorf("%q, %q: %d %q, Vary %q", request, origins, resp.StatusCode, got, resp.Header["Vary"])
		}
	}
	for _, origin := range []string{"null", "*", "", "https://caja.example.com.evil.com",
		"https://evil-caja.example.com", "http://caja.example.com", "https://caja.example.com:8443",
		"https://CAJA.example.com", "https://caja.example.com/", page1 + " " + page2,
		page1 + "\nOrigin: https://evil.com", "https://evil.com\nOrigin: " + page1} {
		check(asked, 200, "Origin: "+origin+"\n", "")
	}
	for request, status := range map[string]int{
		asked: 200,
		"HEAD /openapi.json HTTP/1.1\nHost: x\n%s\n":                                                  200,
		"GET /dte/information HTTP/1.1\nHost: x\n%s\n":                                                401,
		"GET /nowhere HTTP/1.1\nHost: x\n%s\n":                                                        404,
		"DELETE /dte/information HTTP/1.1\nHost: x\n%s\n":                                             405,
		"POST /dte/dte01 HTTP/1.1\nHost: x\nx-api-token: may\nContent-Length: 1\n%s\n{":               400,
		"POST /dte/dte01 HTTP/1.1\nHost: x\nContent-Length: 1\nTransfer-Encoding: chunked\n%s\n0\n\n": 400,
		// fasthttp's own refusal
		"POST /dte/dte01 HTTP/1.1\nHost: x\nx-api-token: may\nTransfer-Encoding: chunked\n%s\nno chunk\n\n": 400,
		"OPTIONS /dte/dte01 HTTP/1.1\nHost: x\n%s\n":                                                        200,
	} {
		check(request, status, "", "")
		check(request, status, "Origin: https://evil.com\n", "")
		check(request, status, "oRiGiN: "+page2+"\n", page2)
	}
	// A preflight of another page is answered like any request for the methods of a path.
	if resp := raw(t, url, fmt.Sprintf(preflight, "https://evil.com")); len(aboutOrigins(resp.Header)) > 0 {
		t.Errorf("a page that is not listed: %v", resp.Header)
	}
}

// TestOrigins_None: without a list no answer speaks of origins, and the operators' listener never does.
func TestOrigins_None(t *testing.T) {
	for name, url := range map[string]string{"nothing listed": served(t, selling().Serve), "operators": served(t,
		selling(page1).ServeOps)} {
		for _, request := range []string{fmt.Sprintf(preflight, page1), "GET /livez HTTP/1.1\nHost: x\nOrigin: " +
			page1 + "\n\n",
			"OPTIONS /admin/tokens HTTP/1.1\nHost: x\nOrigin: " + page1 + "\nAccess-Control-Request-Method: GET\n\n",
			"GET /docs HTTP/1.1\nHost: x\nOrigin: " + page1 + "\n\n"} {
			if resp := raw(t, url, request); len(aboutOrigins(resp.Header)) > 0 || slices.Contains(resp.Header["Vary"],
				"Origin") {
				t.Errorf("%s: %q: %v", name, request, resp.Header)
			}
		}
	}
}

// TestContract_Origins: a page may send every header that the contract names for a request, and read every one that it
// names for an answer.
func TestContract_Origins(t *testing.T) {
	doc := contractOf(t)
	sent, read := map[string]bool{"content-type": true}, map[string]bool{}
	for _, s := range doc.Get("components").Get("securitySchemes").Members() {
		if s.Value.Get("in").Text() == "header" {
			sent[strings.ToLower(s.Value.Get("name").Text())] = true
		} else {
			sent["authorization"] = true
		}
	}
	for _, path := range doc.Get("paths").Members() {
		for _, o := range path.Value.Members() {
			if !strings.Contains(allowedMethods, strings.ToUpper(o.Name)) {
				t.Errorf("%s of %s is no method that a page may use", o.Name, path.Name)
			}
			for i := range o.Value.Get("parameters").Len() {
				if p := follow(t, doc, o.Value.Get("parameters").Index(i)); p.Get("in").Text() == "header" {
					sent[strings.ToLower(p.Get("name").Text())] = true
				}
			}
			for _, r := range o.Value.Get("responses").Members() {
				for _, h := range follow(t, doc, r.Value).Get("headers").Members() {
					read[strings.ToLower(h.Name)] = true
				}
			}
		}
	}
	read["location"] = true // no answer has one yet; a page could not read it
	for list, want := range map[string]map[string]bool{allowedHeaders: sent, exposedHeaders: read} {
		for _, name := range strings.Split(strings.ToLower(list), ", ") {
			if !want[name] {
				t.Errorf("%s is not in the contract", name)
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Errorf("%q lacks %v", list, want)
		}
	}
}

// TestOrigins_Browser: a real browser lets a listed page sell and read the answer's headers, and keeps another page
// out.
func TestOrigins_Browser(t *testing.T) {
	b := browsertest.New(t)
	blank := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>Caja</title>"))
	})
	till, other := httptest.NewServer(blank), httptest.NewServer(blank)
	defer till.Close()
	defer other.Close()
	url := served(t, selling(till.URL).Serve)
	const sale = `{"receptor":{"nombre":"Ana"},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`
	script := `fetch("` + url + `/dte/dte01", {method: "POST", body: JSON.stringify(` + sale + `), headers: {"x-api-token": "may", "Content-Type": "application/json", "Idempotency-Key": "1", "Prefer": "wait=5"}})
		.then(r => r.json().then(j => r.status + " " + j.status + " " + r.headers.get("Preference-Applied")), e => "kept out").catch(e => "kept out").then(s => { document.title = s })`
	for page, want := range map[string]string{till.URL: "201 success wait=5", other.URL: "kept out"} {
		b.Open(page, 800, "light")
		var ignored any
		b.Evaluate(script+"; 1", &ignored)
		title := "Caja"
		for end := time.Now().Add(30 * time.Second); title == "Caja" && time.Now().Before(end); {
			b.Evaluate("document.title", &title)
		}
		if title != want {
			t.Errorf("%s: %q, want %q", page, title, want)
		}
	}
}
