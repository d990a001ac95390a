package gateway

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/contingency"
	"dtegate/engine/documents"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/page"
)

// TestPage_Served: the language is the query's, else the browser's; a page is made once per page.StatusLife; it may
// load nothing.
func TestPage_Served(t *testing.T) {
	now := time.Date(2026, 12, 4, 14, 0, 0, 0, time.UTC)
	looks := 0
	url := served(t, New(Options{Now: func() time.Time { return now },
		Operators: adminapi.Options{Overview: func() *page.Overview {
			looks++
			return &page.Overview{At: now, Started: now, Ambiente: "00", Branch: 1,
				Owed: &engine.Backlog{Backlog: contingency.Backlog{At: now}}, Today: documents.Today{Partial: true}}
		}}}).ServeOps)
	for _, c := range []struct{ query, accept, want string }{
		{"", "", "es"}, {"", "en-GB,en;q=0.9,es;q=0.1", "en"}, {"", "fr, es;q=0.5", "es"}, {"?lang=en", "es", "en"},
		{"?lang=fr", "es-SV", "es"},
	} {
		req, _ := http.NewRequest(http.MethodGet, url+"/"+c.query, nil)
		req.Header.Set("Accept-Language", c.accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b [200]byte
		n, _ := resp.Body.Read(b[:])
		_ = resp.Body.Close()
		if !strings.Contains(string(b[:n]), `<html lang="`+c.want+`"`) ||
			!strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") ||
			resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %s %v", c, b[:n], resp.Header)
		}
	}
	if looks != 2 {
		t.Errorf("made %d pages of two languages", looks)
	}
	now = now.Add(page.StatusLife)
	if resp, err := http.Get(url); err != nil || resp.Body.Close() != nil || looks != 3 {
		t.Errorf("after %v: %d pages, %v", page.StatusLife, looks, err)
	}
}

// served runs a listener of a gateway until the test ends, and gives its address.
func served(t *testing.T, serve func(context.Context, net.Listener) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}
