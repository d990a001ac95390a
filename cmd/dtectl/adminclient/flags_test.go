package adminclient_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
)

// TestFlags: each flag replaces what the configuration says, alone too.
func TestFlags(t *testing.T) {
	var asked string
	served := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked = name + " " + r.Header.Get("Authorization")
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	own, other := served("own"), served("other")
	b := barebox.New(t, "127.0.0.1:1")
	text, err := os.ReadFile(b.Options.Config)
	b.Must(err, config.WriteFile(b.Options.Config, []byte(strings.Replace(string(text), `ops = {listen = "127.0.0.1:0"`,
		`ops = {listen = "`+strings.TrimPrefix(own, "http://")+`"`, 1))),
		config.WriteFile(b.At("named"), []byte("named\n")))
	for want, f := range map[string]adminclient.Flags{"own Bearer " + barebox.AdminToken: {},
		"own Bearer named": {TokenFile: b.At("named")}, "other Bearer " + barebox.AdminToken: {Gateway: other},
		"other Bearer named": {Gateway: other, TokenFile: b.At("named")}} {
		g, err := f.ProvideGateway(b.Options)
		b.Must(err)
		resp, err := g.Send(t.Context(), http.MethodGet, "/status", nil, nil)
		b.Must(err, resp.Body.Close())
		if asked != want {
			t.Errorf("%+v: %s, want %s", f, asked, want)
		}
	}
}
