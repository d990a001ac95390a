package main

import (
	"os"
	"strings"
	"testing"

	"dtegate/engine/sign"
)

// The installation makes the admin token and keeps one that is there; a verb makes another. Nobody reads it on a screen.
func TestAdminToken(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	read := func() string {
		data, err := os.ReadFile(b.cfg.Ops.AdminTokenFile)
		b.must(err)
		if info, err := os.Stat(b.cfg.Ops.AdminTokenFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		return strings.TrimSpace(string(data))
	}
	b.must(os.Remove(b.cfg.Ops.AdminTokenFile), os.RemoveAll(b.cfg.Data), os.Remove(b.cfg.Mark))
	key, err := sign.Generate(2048)
	b.must(err, prepare(b.cfg, key))
	first := read()
	b.must(os.RemoveAll(b.cfg.Data), os.Remove(b.cfg.Mark), prepare(b.cfg, key))
	if again := read(); len(first) != 64 || again != first {
		t.Errorf("made %q, then %q", first, again)
	}
	text, err := output(t, func() error { return new(tokenAdminCommand).Run(b.top) })
	if second := read(); err != nil || second == first || len(second) != 64 || strings.Contains(text, second) || !strings.Contains(text, "restart") {
		t.Errorf("%q, %v", text, err)
	}
}
