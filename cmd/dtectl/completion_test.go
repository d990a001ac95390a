package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/cmdtest/skip"
)

// TestCompletion: a shell offers after a verb what the verb accepts.
func TestCompletion(t *testing.T) {
	for shell, ask := range map[string]string{
		"bash": `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dtectl; echo "${COMPREPLY[@]}"`,
		"zsh": `compdef() { }; compadd() { shift; print -- ${(M)@:#${words[CURRENT]}*} }; source "$1"; shift
			words=("$@"); CURRENT=$#; _dtectl`,
		"fish": `source $argv[1]; complete -C "$argv[2..-1]"`,
	} {
		t.Run(shell, func(t *testing.T) {
			program := skip.Program(t, shell)
			var c cli
			command, err := parser(t.Context(), &c).Parse([]string{"completion", shell})
			if err != nil {
				t.Fatal(err)
			}
			script, err := barebox.Output(t, func() error { return command.Run(&c.Options) })
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "completion")
			if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			for line, want := range map[string]string{"rec": "recover", "rules pu": "push",
				"rules push --rea": "--reason", "fleet ro": "roll", "-c x.toml token gr": "grant"} {
				args := append([]string{"-c", ask}, "bash", file, "dtectl")
				if shell == "fish" {
					args = []string{"-c", ask, file, "dtectl"}
				}
				out, err := exec.Command(program, append(args, strings.Fields(line)...)...).CombinedOutput()
				if got := strings.TrimSpace(string(out)); err != nil || got != want {
					t.Errorf("%s: %v %q, want %s", line, err, got, want)
				}
			}
		})
	}
}
