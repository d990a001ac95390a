package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func newTokenFile(t *testing.T) (string, *Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.toml")
	if err := (&TokenFile{Secret: Secret()}).Save(path); err != nil {
		t.Fatal(err)
	}
	return path, &Config{Points: []Point{{ID: 1}, {ID: 2}}}
}

// A token's life: made, rotated with a grace, revoked. Its id is never reused, and no file contains its secret.
func TestTokens(t *testing.T) {
	path, cfg := newTokenFile(t)
	at := time.Date(2026, 11, 21, 12, 0, 0, 5, time.UTC)
	var secrets []string
	edit := func(change func(*TokenFile) error) *TokenFile {
		t.Helper()
		if err := EditTokens(path, change); err != nil {
			t.Fatal(err)
		}
		f, err := LoadTokens(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets {
			if strings.Contains(string(text), s) {
				t.Fatal("a token is in the file")
			}
		}
		return f
	}
	add := func(f *TokenFile) error {
		_, secret, err := f.Add(cfg, "caja", 2, []string{"ANULACION"}, "ana", at)
		secrets = append(secrets, secret)
		return err
	}
	f := edit(add)
	first := f.Tokens[0]
	if first.ID != 1 || first.Point != 2 || first.MadeBy != "ana" || !first.Made.Equal(at.Truncate(time.Second)) ||
		first.Hash != f.hash(secrets[0]) {
		t.Errorf("made: %+v", first)
	}
	rotate := func(grace time.Duration) *TokenFile {
		return edit(func(f *TokenFile) error {
			_, secret, err := f.Rotate(1, grace, "eva", at)
			secrets = append(secrets, secret)
			return err
		})
	}
	f = rotate(time.Hour)
	k := f.Tokens[0]
	if k.Hash != f.hash(secrets[1]) || k.PreviousHash != first.Hash ||
		!k.PreviousUntil.Equal(at.Add(time.Hour).Truncate(time.Second)) || k.RotatedBy != "eva" {
		t.Errorf("rotated: %+v", k)
	}
	f = rotate(0)
	if k := f.Tokens[0]; k.PreviousHash != "" || !k.PreviousUntil.IsZero() {
		t.Errorf("rotated without a grace: %+v", k)
	}
	rotate(time.Hour)
	f = edit(func(f *TokenFile) error { _, err := f.Revoke(1, "leo", at); return err })
	if k := f.Tokens[0]; k.Active() || k.Hash+k.PreviousHash != "" || !k.PreviousUntil.IsZero() || k.RevokedBy != "leo" {
		t.Errorf("revoked: %+v", k)
	}
	if f = edit(add); f.Tokens[1].ID != 2 {
		t.Errorf("the id of a revoked token was given again: %+v", f.Tokens)
	}
	before, _ := os.ReadFile(path)
	for name, wrong := range map[string]func(*TokenFile) error{
		"revoked twice":  func(f *TokenFile) error { _, err := f.Revoke(1, "", at); return err },
		"rotated after":  func(f *TokenFile) error { _, _, err := f.Rotate(1, 0, "", at); return err },
		"unknown":        func(f *TokenFile) error { _, err := f.Revoke(9, "", at); return err },
		"endless grace":  func(f *TokenFile) error { _, _, err := f.Rotate(2, MaxGrace+1, "", at); return err },
		"negative grace": func(f *TokenFile) error { _, _, err := f.Rotate(2, -1, "", at); return err },
		"unknown point": func(f *TokenFile) error {
			_, _, err := f.Add(cfg, "x", 3, Permissions, "",
				at)
			return err
		},
		"unknown right": func(f *TokenFile) error {
			_, _, err := f.Add(cfg, "x", 1, []string{"ROOT"}, "",
				at)
			return err
		},
		"misspelt grant":  func(f *TokenFile) error { _, err := f.Grant(2, []string{"NOTA_CREDIT0"}); return err },
		"grant of a cry":  func(f *TokenFile) error { _, err := f.Grant(2, []string{"exportación"}); return err },
		"without a right": func(f *TokenFile) error { _, _, err := f.Add(cfg, "x", 1, nil, "", at); return err },
		"without a name":  func(f *TokenFile) error { _, _, err := f.Add(cfg, "", 1, Permissions, "", at); return err },
	} {
		if err := EditTokens(path, wrong); err == nil || strings.Contains(name, "revoked") &&
			!errors.Is(err, ErrNoToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("an edit that failed changed the file")
	}
	// The permission of a new type is granted in addition to the token's others, once.
	for range 2 {
		if err := EditTokens(path, func(f *TokenFile) error {
			_, err := f.Grant(2,
				[]string{"ALQUILER"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	file, err := LoadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	granted, err := file.find(2)
	if n := len(granted.Permissions); err != nil || n < 2 || granted.Permissions[n-1] != "ALQUILER" ||
		granted.Permissions[n-2] == "ALQUILER" {
		t.Errorf("%+v %v", granted, err)
	}
}

// Two processes that edit at once lose nothing of each other's changes.
func TestEditTokens_Together(t *testing.T) {
	path, cfg := newTokenFile(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := EditTokens(path, func(f *TokenFile) error {
				_, _, err := f.Add(cfg, "caja", 1, Permissions, "", time.Now())
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if f, err := LoadTokens(path); err != nil || len(f.Tokens) != 20 || f.Tokens[19].ID != 20 {
		t.Errorf("%v, %v", f, err)
	}
}

// Outside the box itself a listener is encrypted, unless the configuration turns that off.
func TestEncrypted(t *testing.T) {
	for _, c := range []struct {
		listen string
		l      Listener
		want   bool
	}{
		{"127.0.0.1:8080", Listener{}, false}, {"[::1]:8080", Listener{}, false}, {"localhost:8080", Listener{},
			false},
		{"0.0.0.0:8080", Listener{}, true}, {":8080", Listener{}, true}, {"10.0.0.5:8080", Listener{}, true},
		{"caja.example:8080", Listener{}, true},
		{"0.0.0.0:8080", Listener{TLS: "off"}, false}, {"127.0.0.1:8080", Listener{TLS: "on"}, true},
		{"127.0.0.1:8080", Listener{Certificate: "a", Key: "b"}, true},
	} {
		c.l.Listen = c.listen
		if got := c.l.Encrypted(); got != c.want {
			t.Errorf("%+v: %v", c.l, got)
		}
	}
	for _, wrong := range []Listener{{TLS: "of"}, {Certificate: "a"}, {Key: "b"}, {TLS: "off", Certificate: "a",
		Key: "b"}} {
		c := &Config{API: API{Listener: wrong}}
		if err := errors.Join(prepare(c, "", ""), c.check()); !strings.Contains(err.Error(), "api.tls: is") &&
			!strings.Contains(err.Error(), "api.certificate, api.key: ") {
			t.Errorf("%+v passes", wrong)
		}
	}
}
