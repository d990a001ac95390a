package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/gateway/certificate"
)

// A listener that others can reach does not start without a certificate, unless the configuration allows it.
func TestLAN_NoPlainHTTP(t *testing.T) {
	b := newBranch(t)
	t.Setenv("DTED_API_ADDR", "0.0.0.0:0")
	start := func() error {
		cfg, err := config.Load(filepath.Join(b.dir, "dted.toml"))
		if err != nil {
			t.Fatal(err)
		}
		d, err := open(context.Background(), cfg, slog.New(slog.DiscardHandler))
		if err == nil {
			d.wired(t, cfg)
			d.close()
		}
		return err
	}
	if err := start(); err == nil || !strings.Contains(err.Error(), "dtectl tls new") || !strings.Contains(err.Error(),
		`tls = "off"`) {
		t.Errorf("starts with %v", err)
	}
	b.reconfigure("rate = 100000", `tls = "off", rate = 100000`)
	if err := start(); err != nil {
		t.Errorf("with tls off: %v", err)
	}
}

// TLS on both listeners: a till that trusts the box's authority can sell, a client with plain HTTP or an old TLS
// cannot; another certificate is served without a restart; half a handshake delays nobody; dtectl connects.
func TestLAN(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.reconfigure("rate = 100000", `tls = "on", rate = 100000`)
	b.reconfigure("ops = {", `ops = {tls = "on", `)
	if said, ok := b.dtectl("tls", "new"); !ok || !strings.Contains(said, "pin ") {
		t.Fatalf("dtectl tls new: %s", said)
	}
	own := &certificate.Own{Folder: filepath.Join(b.dir, "tls"), Now: time.Now, Write: config.WriteFile}
	authority, err := own.Authority()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	till := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	b.launch()
	defer b.stop()
	soon(t, "the appliance is ready", func() bool {
		resp, err := till.Get("https://" + b.ops + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	sell := func() *http.Response {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, "https://"+b.api+"/dte/dte01", strings.NewReader(sale01))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("x-api-token", testToken+"1")
		resp, err := till.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("%d %s %v", resp.StatusCode, body, err)
		}
		return resp
	}
	first := sell().TLS.PeerCertificates[0]

	resp, err := http.Get("http://" + b.api + "/dte/information")
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(said), "HTTPS") {
		t.Errorf("plain HTTP: %d %s", resp.StatusCode, said)
	}
	if _, err := tls.Dial("tcp", b.api, &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is taken")
	}
	if _, err := http.Get("https://" + b.api + "/dte/information"); err == nil {
		t.Error("a stranger's client believes the box's certificate")
	}

	// Half a handshake, from one connection less than one address may have.
	var idle []net.Conn
	began := time.Now()
	for range 60 {
		c, err := net.Dial("tcp", b.api)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte{0x16, 3, 1, 2, 0, 1}) // the head of a ClientHello
		idle = append(idle, c)
	}
	sell()
	for _, c := range idle {
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.ReadAll(c); os.IsTimeout(err) {
			t.Fatal("half a handshake is waited for")
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("half a handshake held its place for %v", took)
	}

	if err := own.Renew(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the new certificate is served", func() bool {
		till.CloseIdleConnections()
		return sell().TLS.PeerCertificates[0].SerialNumber.Cmp(first.SerialNumber) != 0
	})
	if said, ok := b.dtectl("queue"); !ok {
		t.Errorf("dtectl queue over TLS: %s", said)
	}
	pin := certificate.Fingerprint(authority)
	b.write("a.token", []byte(testAdmin))
	args := []string{"rules", "list", "--gateway", "https://" + b.ops, "--token-file", filepath.Join(b.dir, "a.token"),
		"--pin"}
	if said, ok := b.dtectl(append(args, pin)...); !ok {
		t.Errorf("with the authority's pin: %s", said)
	}
	if said, ok := b.dtectl(append(args, strings.Repeat("0", 64))...); ok || !strings.Contains(said, "pinned") {
		t.Errorf("with another's pin: %s", said)
	}
	ops, err := till.Get("https://" + b.ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer ops.Body.Close()
	metrics, _ := io.ReadAll(ops.Body)
	for _, want := range []string{`dte_tls_certificate_expiry_timestamp_seconds{certificate="api"} `,
		`dte_tls_certificate_expiry_timestamp_seconds{certificate="ca"} `,
		`dte_tls_certificate_broken{certificate="ops"} 0`,
		`dte_http_refused_total{listener="api",reason="handshake"} `} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(string(metrics), `dte_http_refused_total{listener="api",reason="handshake"} 0`) {
		t.Error("no refused handshake is counted")
	}
}
