package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/barebox"
)

// TestCompletion: what bash offers behind a verb is what the verb takes.
func TestCompletion(t *testing.T) {
	var c cli
	k := parser(t.Context(), &c)
	command, err := k.Parse([]string{"completion", "bash"})
	if err != nil {
		t.Fatal(err)
	}
	script, err := barebox.Output(t, func() error { return command.Run(&c.Options) })
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "completion.bash")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string][]string{"rec": {"recover"}, "rules pu": {"push"},
		"rules push --rea": {"--reason"}, "fleet ro": {"roll"},
		"-c x.toml token gr": {"grant"}} {
		words := append([]string{"dtectl"}, strings.Fields(line)...)
		ask := `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dtectl; echo "${COMPREPLY[@]}"`
		out, err := exec.Command("bash", append([]string{"-c", ask, "bash", file}, words...)...).CombinedOutput()
		if got := strings.Fields(string(out)); err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v %s, want %v", line, err, out, want)
		}
	}
}
