package setup

import (
	"os"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dted/config"
	"dtegate/engine/sign"
)

// The installation makes the admin token or keeps an existing one, as it keeps the tills' tokens and the passphrase; a
// verb makes another admin token. It is never shown on a screen.
func TestAdminToken(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	read := func() string {
		data, err := os.ReadFile(b.Config.Ops.AdminTokenFile)
		b.Must(err)
		if info, err := os.Stat(b.Config.Ops.AdminTokenFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		return strings.TrimSpace(string(data))
	}
	b.Must(os.Remove(b.Config.Ops.AdminTokenFile), os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	key, err := sign.Generate(2048)
	b.Must(err, Prepare(b.Config, key, true))
	first := read()
	b.Must(config.EditTokens(b.Config.Tokens, func(f *config.TokenFile) error {
		_, _, err := f.Add(b.Config, "caja", 1, []string{"ANULACION"}, "ana", b.Config.Now())
		return err
	}))
	kept := func() (list []string) {
		for _, file := range []string{b.Config.Tokens, b.Config.Key.PassphraseFile} {
			data, err := os.ReadFile(file)
			b.Must(err)
			list = append(list, string(data))
		}
		return list
	}
	before := kept()
	b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark), Prepare(b.Config, key, true))
	if after := kept(); !slices.Equal(before, after) {
		t.Errorf("tokens and passphrase were %q and are %q", before, after)
	}
	if again := read(); len(first) != 64 || again != first {
		t.Errorf("made %q, then %q", first, again)
	}
	text, err := barebox.Output(t, func() error { return new(tokenAdmin).Run(b.Config) })
	if second := read(); err != nil || second == first || len(second) != 64 || strings.Contains(text, second) ||
		!strings.Contains(text, "restart") {
		t.Errorf("%q, %v", text, err)
	}
}
