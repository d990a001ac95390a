package config

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCheckURL(t *testing.T) {
	for text, good := range map[string]bool{
		"https://apitest.dtes.mh.gob.sv": true, "HTTPS://mh.gob.sv": true, "https://mh.gob.sv:8443/x": true,
		"https://[2001:db8::1]": true,
		"http://127.0.0.1":      true, "http://127.0.0.1:8082": true, "HTTP://127.0.0.1:1": true, "http://127.9.9.9": true,
		"http://localhost:8080": true,
		"http://[::1]:80":       true,

		"http://mh.gob.sv": false, "HTTP://mh.gob.sv": false, "http://10.0.0.1": false, "http://[2001:db8::1]": false,
		"http://127.0.0.1@evil.com": false, "http://127.0.0.1:80@evil.com": false,
		"https://user:secret@mh.gob.sv": false,
		"http://127.0.0.1.evil.com":     false, "http://localhost.evil.com": false, "http://localhost.": false,
		"http://127.0.0.1.": false,
		"http://LOCALHOST":  false, "http://[::ffff:127.0.0.1]": false, "http://[::1%25eth0]": false,
		"http://2130706433": false, "http://127.1": false,
		"http://0177.0.0.1": false, "http://0x7f.0.0.1": false, "http://0.0.0.0": false, "http://[::]": false,
		"http://128.0.0.1": false,
		"http://":          false, "http:///x": false, "http:127.0.0.1": false, "//127.0.0.1": false, "127.0.0.1:80": false,
		"": false, "mh.gob.sv": false,
		"ftp://127.0.0.1": false, "ws://127.0.0.1": false, "file:///etc/passwd": false,
		"http://127.0.0.1\\@evil.com": false, "http://evil.com\\@127.0.0.1": false,
		"http://evil.com#@127.0.0.1": false, "http://evil.com?@127.0.0.1": false, "http://127.0.0.1\n.evil.com": false,
		" http://127.0.0.1":           false,
		"http://127.0.0.1%2eevil.com": false, "http://①②⑦.0.0.1": false, "http://127。0。0。1": false,
	} {
		if err := CheckURL(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// For spellings of URLs that are put together from pieces: every URL accepted in plain HTTP leads to the loopback
// interface, whatever surrounds the host, and no accepted URL names a user.
func TestCheckURL_Spellings(t *testing.T) {
	pieces := func(t *rapid.T, name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	taken, plain := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		host := pieces(t, "host", "127.0.0.1", "127.0.0.2", "127.1", "2130706433", "0x7f000001", "0177.0.0.1",
			"localhost", "LocalHost", "[::1]", "[0:0:0:0:0:0:0:1]",
			"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::1%25lo]", "0.0.0.0", "[::]", "10.0.0.1", "evil.com",
			"[2001:db8::1]", "①27.0.0.1",
			fmt.Sprintf("%d.%d.%d.%d", rapid.IntRange(0, 260).Draw(t, "a"), rapid.IntRange(0, 260).Draw(t, "b"),
				rapid.IntRange(0, 9).Draw(t, "c"), rapid.IntRange(0, 9).Draw(t, "d")))
		usual := rapid.Bool().Draw(t, "usual") // otherwise hardly any is accepted
		if usual && rapid.Bool().Draw(t, "here") {
			host = pieces(t, "here's", "127.0.0.1", "localhost", "[::1]")
		}
		text := pieces(t, "scheme", "http", "https", "HTTP", "hTTp", "HtTpS", "ftp", "", "http+unix") + pieces(t,
			"colon", "://", ":", "//", ":///", "://\\") +
			pieces(t, "user", "", "", "", "127.0.0.1@", "user:pass@", "127.0.0.1:80@", "@", "localhost%40") +
			host + pieces(t, "tail", "", "", "", ".", ".evil.com", "%00", "%2e", "\t", "。com") +
			pieces(t, "port", "", "", ":80", ":", ":99999", ":80@evil.com", ":x") + pieces(t, "path", "", "/", "/x",
			"?a=b", "#f", "\\@evil.com", "/../")
		if usual {
			text = pieces(t, "usual scheme", "http", "https", "HTTP", "HtTpS", "ftp") + "://" + host + pieces(t,
				"usual port", "", ":80") + pieces(t, "usual path", "", "/", "/x")
		}
		if err := CheckURL(text); err != nil {
			return
		}
		taken++
		u, err := url.Parse(text)
		if err != nil || u.User != nil {
			t.Fatalf("%q is taken: %v", text, err)
		}
		if strings.EqualFold(u.Scheme, "https") {
			return
		}
		plain++
		// The dialled host is the name localhost, or an address that the kernel routes to the loopback interface.
		ip := net.ParseIP(u.Hostname())
		if u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			t.Fatalf("%q is taken and goes to %q", text, u.Hostname())
		}
	})
	if (taken == 0 || plain == 0) && !testing.Short() {
		t.Errorf("%d were taken, %d of them plain: the property says nothing", taken, plain)
	}
}

// Every setting with an address outside refuses plain HTTP in production, by its name, and accepts it in the test
// ambiente and on this machine.
func TestLoad_Production(t *testing.T) {
	for _, c := range []struct {
		ambiente, mh, archive, links string
		pathStyle                    bool
		refused                      []string
	}{
		{"01", "https://mh.gob.sv", "https://s3.example.com", "https://dte.example.com", false, nil},
		{"01", "http://127.0.0.1:8082", "http://[::1]:9000", "http://localhost:8080", true, nil},
		{"00", "http://mh.gob.sv", "http://s3.example.com", "http://dte.example.com", false, nil},
		{"01", "http://mh.gob.sv", "http://s3.example.com", "http://dte.example.com", true,
			[]string{"authority.url: is plain HTTP", "archive.endpoint: is plain HTTP",
				"api.public_url: is plain HTTP"}},
		{"01", "https://u:p@mh.gob.sv", "", "", true, []string{"authority.url: must not hold a user"}},
		{"01", "https://mh.gob.sv", "http://127.0.0.1:9000", "", false, []string{"archive.path_style"}},
	} {
		cfg := &Config{Ambiente: c.ambiente, Authority: Authority{URL: c.mh}, API: API{PublicURL: c.links}}
		if c.archive != "" {
			cfg.Archive = &Archive{Endpoint: c.archive, PathStyle: c.pathStyle}
		}
		err := cfg.checkProduction()
		if (err == nil) != (c.refused == nil) {
			t.Errorf("%+v: %v", c, err)
		}
		for _, text := range c.refused {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%+v does not say %s: %v", c, text, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("the error quotes a password: %v", err)
		}
	}
}
