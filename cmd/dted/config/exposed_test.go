package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every secret of the configuration is checked: each setting that names a secret file. A file's mode that admits others
// counts only if its folder admits them.
func TestExposed(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range Settings() {
		if strings.HasSuffix(name, "_file") || slices.Contains([]string{"tokens", "box_key", "api.key", "ops.key",
			"key.file"}, name) {
			names = append(names, name)
		}
	}
	at := func(name string) string {
		path := filepath.Join(folder, name)
		if !slices.Contains(names, name) || os.WriteFile(path, []byte("x"), 0o600) != nil {
			t.Fatalf("no %s", name)
		}
		return path
	}
	c := &Config{Tokens: at("tokens"), BoxKey: at("box_key"),
		Mail:    &Mail{PasswordFile: at("mail.password_file")},
		Archive: &Archive{SecretFile: at("archive.secret_file")},
		Webhook: &Webhook{SecretFile: at("webhook.secret_file")},
		Fleet:   &Fleet{Store: &Archive{SecretFile: at("fleet.store.secret_file")}}}
	c.API.Key, c.Ops.Key, c.Ops.AdminTokenFile = at("api.key"), at("ops.key"), at("ops.admin_token_file")
	c.Authority.PasswordFile, c.Key.File, c.Key.PassphraseFile = at("authority.password_file"), at("key.file"),
		at("key.passphrase_file")
	if faults, sound := c.Exposed(); faults != nil || sound != len(names) {
		t.Errorf("%v, %d sound", faults, sound)
	}
	for _, name := range names {
		path := filepath.Join(folder, name)
		for mode, open := range map[os.FileMode]bool{0o644: true, 0o640: true, 0o604: true, 0o602: true, 0o400: false} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			faults, _ := c.Exposed()
			if (len(faults) == 1) != open || open && (Setting(faults[0]) != name ||
				!strings.Contains(faults[0].Error(), "chmod 600 "+path)) {
				t.Errorf("%s, mode %o: %v", name, mode, faults)
			}
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(folder, names[0]), 0o440); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	if faults, _ := c.Exposed(); faults != nil {
		t.Errorf("in a folder that is closed to others: %v", faults)
	}
}
