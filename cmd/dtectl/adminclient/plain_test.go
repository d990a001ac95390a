package adminclient

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
