package config

import (
	"strings"
	"testing"
)

// TestCheckOrigin: every origin that a browser may send is accepted, and nothing that would never match, or would match
// many.
func TestCheckOrigin(t *testing.T) {
	for text, good := range map[string]bool{
		"https://caja.example.com": true, "http://caja.lan": true, "https://caja.example.com:8443": true,
		"http://192.168.1.5:3000":    true,
		"https://[2001:db8::1]:8443": true, "http://localhost:5173": true, "https://xn--caf-dma.example": true,

		"*": false, "null": false, "": false, "https://*": false, "https://*.example.com": false,
		"caja.example.com": false, "//caja.example.com": false,
		"https://caja.example.com/": false, "https://caja.example.com/pos": false, "https://caja.example.com?x": false,
		"https://caja.example.com#x": false,
		"https://CAJA.example.com":   false, "HTTPS://caja.example.com": false, "https://user@caja.example.com": false,
		"https://caja.example.com:443": false,
		"http://caja.example.com:80":   false, "http://caja.example.com:": false, "http://caja.example.com:0": false,
		"http://caja.example.com:99999": false,
		"http://caja.example.com:080":   false, "https://café.example": false, "https://caja example.com": false,
		"https://a.com https://b.com": false,
		"https://a.com,https://b.com": false, "ftp://caja.example.com": false, "file:///caja.html": false,
		"chrome-extension://abc": false, "https://": false,
		"https://[2001:DB8::1]": false, "https://[2001:db8:0:0:0:0:0:1]": false, "https://[fe80::1%25eth0]": false,
		"https://caja..example.com": false,
		" https://caja.example.com": false, "https://caja.example.com\n": false, "javascript:alert(1)": false,
	} {
		if err := checkOrigin(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestLoad_Origins: the loader, which dted and dtectl doctor share, names the origin that it refuses.
func TestLoad_Origins(t *testing.T) {
	c := &Config{API: API{BrowserOrigins: []string{"https://caja.example.com", "https://caja.example.com/pos"}}}
	want := `api.browser_origins: is "https://caja.example.com/pos", must be scheme, host and port alone`
	if err := prepare(c, "", "/"); !strings.Contains(err.Error(), want) {
		t.Errorf("%q is not in %v", want, err)
	}
	c.API.BrowserOrigins = c.API.BrowserOrigins[:1]
	if err := prepare(c, "", "/"); strings.Contains(err.Error(), "origins") {
		t.Error(err)
	}
}
