package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Nothing is sent in plain HTTP over a network, whichever way the appliance's address came, and nothing after a redirect.
func TestPlainHTTP(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := put("token", "secret\n")
	const says = "is plain HTTP to \"10.255.255.1\""
	flags := gatewayFlags{Gateway: "http://10.255.255.1:8081", TokenFile: token}
	if _, err := flags.open(&cli{}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("--gateway: %v", err)
	}
	push := &rulesPushCommand{Reason: "test", branchFlags: branchFlags{Branches: put("branches", "# all\nhttps://a.example token\nhttp://10.255.255.1:8081 token\n")}}
	if _, err := push.open(&cli{}); err == nil || !strings.Contains(err.Error(), "branches:3: ") || !strings.Contains(err.Error(), says) {
		t.Errorf("--branches: %v", err)
	}
	g := &gateway{url: "http://10.255.255.1:8081", token: "secret", client: http.DefaultClient}
	if _, err := g.send(t.Context(), http.MethodGet, "/admin/rules", nil, nil); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("send: %v", err)
	}
	if err := onThisBox("10.255.255.1", "ops.tls"); err == nil {
		t.Error("another box's ops.listen is taken")
	}
	for _, host := range []string{"127.0.0.1", "::1", "localhost"} {
		if err := onThisBox(host, "ops.tls"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	reached := false
	away := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer away.Close()
	box := httptest.NewServer(http.RedirectHandler(away.URL, http.StatusTemporaryRedirect))
	defer box.Close()
	g = &gateway{url: box.URL, token: "secret", client: http.DefaultClient}
	if _, err := g.send(t.Context(), http.MethodPost, "/admin/rules", url.Values{}, []byte("x")); err == nil || reached {
		t.Errorf("a redirect was followed: %v, %v", reached, err)
	}
}
