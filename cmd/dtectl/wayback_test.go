package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dted/config"
)

// TestWayBack: the runbook's way back to the version before, with a box that uses what 1.0.0 does not know. The first
// doctor names it, the second no longer; and the version before refuses the store of this one and changes nothing: the
// store opens again once the layout is this version's.
func TestWayBack(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	text, err := os.ReadFile(b.Options.Config)
	b.Must(err, config.WriteFile(b.At("hook"), []byte("secret\n")), config.WriteFile(b.Options.Config,
		append([]byte("webhook = {url = \"https://erp.example.com\", secret_file = \"hook\"}\n"+
			"authority.patience = \"4s\"\n"), regexp.MustCompile(`(?m)^authority = \{(.*)\}$`).ReplaceAll(text,
			[]byte("authority.url = \"http://127.0.0.1:1\"\nauthority.password_file = \"authority.password\""))...)))
	s := b.Store()
	b.Must(s.Beat(time.Now(), time.Time{}), s.Close())
	layout := func(version byte) {
		t.Helper()
		db, err := pebble.Open(b.Config.Data, &pebble.Options{FormatMajorVersion: pebble.FormatWALSyncChunks})
		b.Must(err, db.Set([]byte("\x01layout"), []byte{0, 0, 0, version}, pebble.Sync), db.Close())
	}
	named := regexp.MustCompile(`before you install an earlier version, remove these settings: (.*)`)
	var says []string
	for _, c := range barebox.RunbookCommands(t, "Install") {
		if len(c) < 2 || c[0] != "dtectl" {
			if slices.Contains(c, "--allow-downgrades") { // the version before takes the box
				kept, err := os.ReadFile(b.Options.Config)
				b.Must(err, config.WriteFile(b.Options.Config, regexp.MustCompile(
					`(?m)^(webhook|authority\.patience) = .*\n`).ReplaceAll(kept, nil)))
				layout(1)
			}
			continue
		}
		said, _ := types(b, t, c[1])
		says = append(says, said)
	}
	if len(says) != 2 {
		t.Fatalf("the runbook has %d orders of dtectl", len(says))
	}
	if m := named.FindStringSubmatch(says[0]); m == nil || !strings.HasPrefix(m[1],
		"authority.patience (since 1.1.0), webhook (since 1.1.0)") {
		t.Errorf("doctor names %q:\n%s", m, says[0])
	}
	if named.MatchString(says[1]) || !strings.Contains(says[1], "another version of dted wrote the store") {
		t.Errorf("doctor of the version before:\n%s", says[1])
	}
	layout(2)
	if said, _ := types(b, t, "doctor"); !strings.Contains(said, "opens and agrees with its mark") {
		t.Errorf("this version, again:\n%s", said)
	}
}
