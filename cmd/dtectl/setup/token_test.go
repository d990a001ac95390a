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
