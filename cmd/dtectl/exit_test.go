package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dted/config"
)

// TestExitStatus: RUNBOOK's table of exit statuses, for a box whose appliance does not run.
func TestExitStatus(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.Must(b.Store().Close(), (&config.TokenFile{Secret: config.Secret()}).Save(b.Config.Tokens),
		config.WriteFile(b.At("list"), []byte("no code\n")))
	for line, want := range map[string]int{
		"token list": 0, "fsck": 0, "audit": 0, "completion fish": 0, "recover --dry-run": 0, "tls new --replace": 0,
		"token revoke 9": 1, "token grant 1 boleta": 1, "token rotate 9": 1, "fsck --archive": 1,
		"init --certificate list": 1,
		"invalidate --from-list list --kind 2 --reason x --responsible x": 80, "fsck --read": 1,
		"queue": 6, "contingency end": 6, "contingency start --cause 5 --reason x": 6, "contingency report": 6,
		"delivery list": 6, "delivery retry --all": 6, "rules list": 6,
		"rules rollback dte01 2 1.0.0 --reason x": 6, "rules cancel dte01 2 1.0.0 --reason x": 6,
		"rules reinstate dte01 2 1.0.0 --reason x": 6, "rules acknowledge --reason x": 6,
		"rules shadow show": 6, "rules shadow stop": 6, "rules documents 1.0.0": 6, "certify": 6,
		"token": 80, "tokens list": 80, "rules push": 80, "completion tcsh": 80, "contingency start --cause x": 80,
	} {
		args := strings.Fields(line)
		for i, a := range args {
			if a == "list" && i > 1 {
				args[i] = b.At("list")
			}
		}
		said, err := dtectl(b, args...)
		got := 0
		var parse *kong.ParseError
		switch {
		case errors.As(err, &parse):
			got = parse.ExitCode()
		case err != nil:
			got = shownError{err}.ExitCode()
		}
		if got != want {
			t.Errorf("dtectl %s ends with %d, want %d: %v\n%s", line, got, want, err, said)
		}
	}
}
