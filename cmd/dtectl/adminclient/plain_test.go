package adminclient

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/gateway/certificate"
)

// Nothing is sent in plain HTTP over a network, whatever the source of the appliance's address, and nothing after a
// redirect.
func TestPlainHTTP(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const says = "is plain HTTP to \"10.255.255.1\""
	flags := Flags{Gateway: "http://10.255.255.1:8081", TokenFile: token}
	if _, err := flags.ProvideGateway(&Options{}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("--gateway: %v", err)
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
	g := &Gateway{URL: box.URL, token: "secret", client: http.DefaultClient}
	if _, err := g.Send(t.Context(), http.MethodPost, "/admin/rules", url.Values{}, []byte("x")); err == nil ||
		reached {
		t.Errorf("a redirect was followed: %v, %v", reached, err)
	}
}

// TestPinned: the pin names the server's certificate, or the authority in the chain that has signed it.
func TestPinned(t *testing.T) {
	made := func() (leaf tls.Certificate, pins [2]string) {
		own := &certificate.Own{Folder: filepath.Join(t.TempDir(), "tls"), Names: []string{"127.0.0.1"},
			Now: time.Now, Write: config.WriteFile}
		if err := own.Create(); err != nil {
			t.Fatal(err)
		}
		leaf, err := tls.LoadX509KeyPair(own.ServerFile(), own.ServerFile())
		authority, err2 := own.Authority()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		leaf.Certificate = [][]byte{leaf.Certificate[0], authority.Raw}
		return leaf, [2]string{certificate.Fingerprint(leaf.Leaf), certificate.Fingerprint(authority)}
	}
	served, pins := made()
	foreign, others := made()
	mixed := served
	mixed.Certificate = [][]byte{served.Certificate[0], foreign.Certificate[1]}
	for name, c := range map[string]struct {
		chain tls.Certificate
		pin   string
		good  bool
	}{
		"certificate": {served, pins[0], true}, "authority": {served, pins[1], true},
		"as people write it":  {served, "sha256:" + strings.ToUpper(pins[1]), true},
		"another certificate": {served, others[0], false}, "another authority": {served, others[1], false},
		"an authority that signed nothing": {mixed, others[1], false},
	} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{c.chain}}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		client, err := pinned(c.pin)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Get(server.URL); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
		client.CloseIdleConnections()
		server.Close()
	}
	for _, pin := range []string{"", "ab", pins[0][2:], pins[0] + "00"} {
		if _, err := pinned(pin); err == nil {
			t.Errorf("%q is taken", pin)
		}
	}
}
