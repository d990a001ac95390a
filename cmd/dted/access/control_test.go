package access

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dted/config"
	"dtegate/engine/audit"
	"dtegate/engine/recordmac"
	"dtegate/engine/sign"
	"dtegate/gateway"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/certificate"
	"dtegate/storage"
)

// TestControl: tokens and certificates are changed by an operator, by hand and while the appliance is stopped. Each
// change takes effect once and is in the trail once, with who made it; a file that cannot be used changes nothing.
func TestControl(t *testing.T) {
	folder := t.TempDir()
	cfg := &config.Config{Branch: config.Branch{ID: 3}, Tokens: filepath.Join(folder, "tokens.toml"),
		Points: []config.Point{{ID: 1, Establishment: "M001", PointOfSale: "P001"}},
		TLS:    config.TLS{Folder: filepath.Join(folder, "tls")},
		API:    config.API{Listener: config.Listener{Listen: "127.0.0.1:8080", TLS: "on"}},
		Ops:    config.Ops{Listener: config.Listener{Listen: "127.0.0.1:9090"}}}
	written := time.Now()
	write := func(text string) {
		t.Helper()
		written = written.Add(time.Second) // another stamp than the file before
		if err := errors.Join(os.WriteFile(cfg.Tokens, []byte(text), 0o600), os.Chtimes(cfg.Tokens, written,
			written)); err != nil {
			t.Fatal(err)
		}
	}
	write("secret = \"" + config.Secret() + "\"\n")
	own := cfg.BoxAuthority()
	if err := own.Create(); err != nil {
		t.Fatal(err)
	}
	o := storage.Options{Dir: "/data", MarkPath: "/mark", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler),
		Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	trail := audit.New(store, "00", recordmac.New(), time.Now)
	var log bytes.Buffer
	var published []int // sizes of the tables that the gateway got
	open := func() *Control {
		t.Helper()
		file, err := config.LoadTokens(cfg.Tokens)
		if err != nil {
			t.Fatal(err)
		}
		a, err := Open(cfg, &config.Inputs{Tokens: file, Key: new(sign.Key)}, trail, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		a.Publish = func(gateway.TokenTable) { published = append(published, len(a.file.Tokens)) }
		return a
	}
	seen := 0
	acts := func(want ...string) {
		t.Helper()
		list, err := trail.Acts(100)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, act := range list[:len(list)-seen] { // the newest comes first
			got = append(got, fmt.Sprint(act.What, " ", act.Target, " by ", act.Who, " from ", act.From, " ", act.Outcome))
		}
		seen = len(list)
		slices.Reverse(got)
		for i, w := range want {
			want[i] = w + " " + audit.Done
			if strings.HasSuffix(w, "!") {
				want[i] = strings.TrimSuffix(w, "!") + " " + audit.Refused
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the trail has %q, want %q", got, want)
		}
	}
	pin := func() string {
		t.Helper()
		authority, err := own.Authority()
		if err != nil {
			t.Fatal(err)
		}
		return certificate.Fingerprint(authority)
	}
	gauges := func(a *Control) (broken, damaged float64) {
		values := metrictest.Values(t, a)
		if values["dte_tls_certificate_expiry_timestamp_seconds/api"] == 0 ||
			values["dte_tls_certificate_expiry_timestamp_seconds/ca"] == 0 {
			t.Errorf("ends: %v", values)
		}
		return values["dte_token_file_broken"], values["dte_tls_certificate_broken/ca"]
	}

	a := open()
	acts("token.found  by the installation from the token file, while stopped",
		"tls.found "+pin()+" by the installation from the TLS folder, while stopped")
	if a.TLS("api") == nil || a.TLS("ops") != nil || len(a.Tokens().([]config.Token)) != 0 {
		t.Error("the tills' listener is not encrypted, the operators' is, or there are tokens")
	}

	// An operator.
	by := adminapi.By{Who: "ana", From: "10.0.0.9"}
	if _, err := a.NewToken(by, "caja", 1, []string{"ANULACION"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.RotateToken(by, 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := a.NewToken(by, "caja 2", 9, []string{"REENVIO"}); !errors.Is(err, adminapi.ErrTokenFault) {
		t.Errorf("at an unknown point of sale: %v", err)
	}
	if _, err := a.RotateToken(by, 5, 0); !errors.Is(err, adminapi.ErrNoToken) {
		t.Errorf("a token that does not exist: %v", err)
	}
	if _, err := a.RevokeToken(by, 6); !errors.Is(err, adminapi.ErrNoToken) {
		t.Errorf("a token that does not exist: %v", err)
	}
	if _, err := a.NewToken(by, "caja 2", 1, []string{"REENVIO"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.RevokeToken(by, 2); err != nil {
		t.Fatal(err)
	}
	acts("token.new 1 by ana from 10.0.0.9", "token.rotate 1 by ana from 10.0.0.9", "token.new  by ana from 10.0.0.9!",
		"token.rotate 5 by ana from 10.0.0.9!", "token.revoke 6 by ana from 10.0.0.9!", "token.new 2 by ana from 10.0.0.9",
		"token.revoke 2 by ana from 10.0.0.9")
	if !slices.Equal(published, []int{0, 1, 1, 2, 2}) {
		t.Errorf("the gateway got tables of %v tokens", published)
	}

	// By hand, while it runs: an operator's next change is not ascribed the other's.
	byHand := func(was, now string) {
		t.Helper()
		data, err := os.ReadFile(cfg.Tokens)
		if err != nil {
			t.Fatal(err)
		}
		write(strings.Replace(string(data), was, now, 1)) // a permission of token 1
	}
	byHand("ANULACION", "REENVIO")
	if _, err := a.RotateToken(by, 1, 0); err != nil {
		t.Fatal(err)
	}
	acts("token.changed 1 by somebody from the token file", "token.rotate 1 by ana from 10.0.0.9")
	a.look()
	acts()

	// A file that cannot be used, and one that could not be used by its content.
	whole, err := os.ReadFile(cfg.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"secret = 1", strings.Replace(string(whole), "point_of_sale = 1", "point_of_sale = 9", 1)} {
		log.Reset()
		write(text)
		before := len(published)
		a.look()
		a.look()
		if broken, _ := gauges(a); broken != 1 || strings.Count(log.String(), "the token file cannot be used") != 1 ||
			len(published) != before || len(a.Tokens().([]config.Token)) != 2 {
			t.Errorf("%.10q: broken %v, %d tables:\n%s", text, broken, len(published)-before, &log)
		}
	}
	write(string(whole))
	a.look()
	if broken, _ := gauges(a); broken != 0 {
		t.Error("the file is whole again, and broken")
	}
	acts()

	// The certificates, while it runs: another authority, and a certificate that is due.
	if err := os.RemoveAll(cfg.TLS.Folder); err != nil {
		t.Fatal(err)
	}
	a.lan.renewal = time.Time{}
	a.lookAtCertificates()
	if _, damaged := gauges(a); damaged != 1 {
		t.Error("an authority that is gone is not broken")
	}
	if err := own.Create(); err != nil {
		t.Fatal(err)
	}
	a.lookAtCertificates()
	acts("tls.replace " + pin() + " by somebody from the TLS folder")
	if _, damaged := gauges(a); damaged != 1 || time.Until(a.lan.renewal) < 59*time.Minute {
		t.Errorf("the authority is looked at again in %v", time.Until(a.lan.renewal))
	}
	if err := os.Remove(own.ServerFile()); err != nil {
		t.Fatal(err)
	}
	a.lan.renewal = time.Time{}
	a.lookAtCertificates()
	acts("tls.renew  by dted from the box")
	if _, damaged := gauges(a); damaged != 0 {
		t.Error("a renewed certificate is broken")
	}

	// While it is stopped.
	byHand("REENVIO", "CONSULTA")
	if err := os.RemoveAll(cfg.TLS.Folder); err != nil {
		t.Fatal(err)
	}
	if err := own.Create(); err != nil {
		t.Fatal(err)
	}
	open()
	acts("token.changed 1 by somebody from the token file, while stopped",
		"tls.replace "+pin()+" by somebody from the TLS folder, while stopped")
	open()
	acts()
}
