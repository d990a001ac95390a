package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
)

// issuersFile writes a key and a file that names it.
func issuersFile(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	write(t, filepath.Join(dir, "not-a-key.pem"), "hello")
	path := filepath.Join(dir, "issuers.json")
	write(t, path, body)
	return path
}

func write(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
}

const one = `[{"nit":"06141804941035","password":"una-clave.2026","publicKey":"key.pem","nrc":"2233445","activities":["47521"]}]`

func TestReadIssuers(t *testing.T) {
	issuers, err := readIssuers(issuersFile(t, one))
	if err != nil || len(issuers) != 1 {
		t.Fatal(issuers, err)
	}
	if i := issuers[0]; i.NIT != "06141804941035" || i.NRC != "2233445" || i.Activities[0] != "47521" ||
		i.PublicKey.Size() != 256 {
		t.Errorf("%+v", i)
	}
	for name, body := range map[string]string{
		"empty":        `[]`,
		"no key":       `[{"nit":"1","password":"x"}]`,
		"unknown":      `[{"nit":"1","password":"x","publicKey":"key.pem","ncr":"1"}]`,
		"short":        `[{"nit":"1","password":"x","publicKey":"key.pem"}]`,
		"missing file": `[{"nit":"1","password":"una-clave.2026","publicKey":"other.pem"}]`,
		"not a key":    `[{"nit":"1","password":"una-clave.2026","publicKey":"not-a-key.pem"}]`,
		"not a list":   `{}`,
	} {
		if got, err := readIssuers(issuersFile(t, body)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := readIssuers(""); err == nil {
		t.Error("no file named")
	}
}

// The whole program: an issuer logs in on one port, the other port shows counts, and the program ends with its context.
func TestRun(t *testing.T) {
	protocol, manage := cmdtest.Port(t), cmdtest.Port(t)
	t.Setenv("DTESIM_ADDR", protocol)
	t.Setenv("DTESIM_MANAGE_ADDR", manage)
	t.Setenv("DTESIM_SMTP_ADDR", cmdtest.Port(t))
	ctx, cancel := context.WithCancel(t.Context())
	up := make(chan struct{})
	log := slog.New(slog.NewTextHandler(began(up), nil))
	done := make(chan error, 1)
	file := issuersFile(t, one)
	go func() {
		done <- run(ctx, options{issuers: file, seed: 1, production: true, ahead: 24 * time.Hour}, log)
	}()
	select {
	case <-up: // it listens before it logs
	case err := <-done:
		t.Fatal(err)
	}
	resp, err := http.PostForm("http://"+protocol+"/seguridad/auth", url.Values{"user": {"06141804941035"},
		"pwd": {"una-clave.2026"}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(body), `"status":"OK"`) {
		t.Errorf("%s %v", body, err)
	}
	resp, err = http.Get("http://" + manage + "/received")
	if err != nil {
		t.Fatal(err)
	}
	var counts map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&counts); err != nil || len(counts) != 6 || counts["documents"] != 0.0 {
		t.Errorf("%v %v", counts, err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// began closes itself at the first write.
type began chan struct{}

func (s began) Write(p []byte) (int, error) {
	select {
	case <-s:
	default:
		close(s)
	}
	return len(p), nil
}

// A rehearsal of production is only for this machine.
func TestRun_RehearsalElsewhere(t *testing.T) {
	t.Setenv("DTESIM_ADDR", "0.0.0.0:0")
	t.Setenv("DTESIM_MANAGE_ADDR", "127.0.0.1:0")
	t.Setenv("DTESIM_SMTP_ADDR", "127.0.0.1:0")
	err := run(t.Context(), options{issuers: issuersFile(t, one), seed: 1, production: true},
		slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "this machine alone") {
		t.Error(err)
	}
}
