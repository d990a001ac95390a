package adminclient_test

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/adminclient"
)

// TestOwnListener: the address of this box's listener, whatever address it listens at; plain HTTP does not leave the
// box, and over TLS only the box's own certificate counts.
func TestOwnListener(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	cfg := b.Config
	for _, c := range []struct{ section, listen, tls, want string }{
		{"ops", "127.0.0.1:8081", "", "http://127.0.0.1:8081"}, {"api", ":8080", "off", "http://127.0.0.1:8080"},
		{"ops", "0.0.0.0:8081", "off", "http://127.0.0.1:8081"}, {"ops", "[::]:8081", "off", "http://127.0.0.1:8081"},
		{"ops", "[::1]:8081", "", "http://[::1]:8081"}, {"ops", "8081", "off", "ops.listen: address 8081"},
		{"api", "192.0.2.77:8080", "off", "api.listen: 192.0.2.77 is not an address of this box, and api.tls is off"},
		{"ops", "192.0.2.77:8080", "on", "reading certificate"},
	} {
		l := &cfg.Ops.Listener
		if c.section == "api" {
			l = &cfg.API.Listener
		}
		l.Listen, l.TLS = c.listen, c.tls
		got, _, err := adminclient.OwnListener(cfg, c.section)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
	own := cfg.BoxAuthority()
	b.Must(own.Create())
	pair, err := tls.LoadX509KeyPair(own.ServerFile(), own.ServerFile())
	b.Must(err)
	for _, box := range []bool{true, false} { // otherwise a server of another certificate has the box's address
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		if box {
			server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		}
		server.StartTLS()
		_, port, err := net.SplitHostPort(server.Listener.Addr().String())
		b.Must(err)
		cfg.Ops.Listen, cfg.Ops.TLS = "0.0.0.0:"+port, "on"
		address, client, err := adminclient.OwnListener(cfg, "ops")
		b.Must(err)
		resp, err := client.Get(address)
		if (err == nil) != box || address != "https://127.0.0.1:"+port {
			t.Errorf("box %v: %s, %v", box, address, err)
		}
		if err == nil {
			b.Must(resp.Body.Close())
		}
		client.CloseIdleConnections()
		server.Close()
	}
}

// TestHandOver: files that root has read before the change of account are read as they were then.
func TestHandOver(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	file, later := b.At("file"), b.At("later")
	b.Must(os.WriteFile(file, []byte("root's"), 0o600))
	adminclient.HandOver([]string{file, later})
	b.Must(os.Remove(file), os.WriteFile(later, []byte("later"), 0o600))
	for name, want := range map[string]string{file: "root's", later: "later", b.At("none"): ""} {
		if text, err := adminclient.ReadNamed(name); string(text) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if !adminclient.HandedOver() {
		t.Error("no file is handed over")
	}
	if got := adminclient.ExistingAbove(b.At("none/deeper")); got != b.Dir {
		t.Errorf("%s", got)
	}
}
