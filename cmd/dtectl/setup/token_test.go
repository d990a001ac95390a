package setup

import (
	"os"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
)

// The output for a new token lists what it may do and what not; a lost token file is replaced only on request, and no
// new id is one that records know.
func TestToken_New(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	standard := strings.Split(
		"FACTURA_CONSUMIDOR_FINAL,CREDITO_FISCAL,NOTA_CREDITO,NOTA_DEBITO,SUJETO_EXCLUIDO,COMPROBANTE_RETENCION", ",")
	b.Must((&config.TokenFile{Secret: config.Secret()}).Save(b.Config.Tokens))
	both := func(command func() error) (string, error) { // the standard error too
		return barebox.Output(t, func() error {
			defer func(f *os.File) { os.Stderr = f }(os.Stderr)
			os.Stderr = os.Stdout
			return command()
		})
	}
	make := func(newFile bool) (string, error) {
		return both(func() error {
			return (&tokenNew{PointOfSale: 1, Name: "caja-1", Permission: standard, NewFile: newFile}).Run(b.Config)
		})
	}
	says := func(text string, id string) {
		t.Helper()
		if !strings.Contains(text, "token "+id+" (caja-1) of point of sale 1 may: "+strings.Join(standard, " ")) ||
			!strings.Contains(text, " ANULACION CONSULTA REENVIO; dtectl token grant ") ||
			!strings.Contains(text, "mode 600") {
			t.Error(text)
		}
	}
	text, err := make(false)
	b.Must(err)
	says(text, "1")
	if _, err := make(true); err == nil || !strings.Contains(err.Error(), "only replace a lost file") {
		t.Errorf("a file that is there: %v", err)
	}
	b.Must(os.Remove(b.Config.Tokens))
	if _, err := make(false); err == nil || !strings.Contains(err.Error(), "--new-file") {
		t.Errorf("a lost file: %v", err)
	}
	text, err = make(true)
	b.Must(err)
	says(text, time.Now().In(dte.Zone).Format("060102")+"01")
	file, err := config.LoadTokens(b.Config.Tokens)
	b.Must(err)
	if info, err := os.Stat(b.Config.Tokens); err != nil || info.Mode().Perm() != 0o600 || len(file.Tokens) != 1 {
		t.Errorf("%v %v %d", info, err, len(file.Tokens))
	}
	text, err = both(func() error { return (&tokenRotate{ID: file.Tokens[0].ID, Grace: time.Hour}).Run(b.Config) })
	if err != nil || !strings.Contains(text, "the old token stays valid until ") {
		t.Errorf("%s %v", text, err)
	}
}

// TestToken_Permissions: permissions are given and taken one by one; a revocation without a permission ends the token.
func TestToken_Permissions(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.Must((&config.TokenFile{Secret: config.Secret()}).Save(b.Config.Tokens))
	_, _, err := NewToken(b.Config, 1, "caja-1", []string{"ANULACION", "CONSULTA", "REENVIO"})
	b.Must(err)
	for _, c := range []struct {
		run  func(*config.Config) error
		says string
	}{
		{(&tokenRevoke{ID: 1, Permission: []string{"CONSULTA"}}).Run, "may: ANULACION REENVIO\n"},
		{(&tokenRevoke{ID: 1, Permission: []string{"CONSULTA"}}).Run, ""},
		{(&tokenGrant{ID: 1, Permission: []string{"CONSULTA"}}).Run, "may: ANULACION REENVIO CONSULTA\n"},
		{(&tokenRevoke{ID: 1, Permission: []string{"ANULACION", "REENVIO"}}).Run, "may: CONSULTA\n"},
		{(&tokenRevoke{ID: 1}).Run, "token 1 (caja-1) is revoked\n"},
		{(&tokenGrant{ID: 1, Permission: []string{"ANULACION"}}).Run, ""},
	} {
		text, err := barebox.Output(t, func() error { return c.run(b.Config) })
		if (err == nil) != (c.says != "") || !strings.HasSuffix(text, c.says) {
			t.Errorf("%q, %v, want %q", text, err, c.says)
		}
	}
}

// TestToken_Lived: the list tells what happened to a token, and of the old secret while it is valid.
func TestToken_Lived(t *testing.T) {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, dte.Zone)
	const day = "2026-11-30 08:00:00 -06:00"
	before := now.Add(-time.Hour)
	for want, token := range map[string]config.Token{
		"":           {},
		day + " ana": {Made: before, MadeBy: "ana"},
		day + " ana, rotated " + day + " eva": {Made: before, MadeBy: "ana", Rotated: before, RotatedBy: "eva",
			PreviousUntil: before},
		"rotated " + day + " eva, old token valid until 2026-11-30 10:00:00 -06:00": {Rotated: before, RotatedBy: "eva",
			PreviousUntil: now.Add(time.Hour)},
		day + " ana, revoked " + day + " leo": {Made: before, MadeBy: "ana", Revoked: before, RevokedBy: "leo"},
	} {
		if got := lived(&token, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
