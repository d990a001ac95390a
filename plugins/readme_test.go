package plugins_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
)

// block is a fenced block of the README with the last file that the text before it names.
var block = regexp.MustCompile("(?s)```(go|json|sh)\n(.*?)```")
var file = regexp.MustCompile("`(plugins/recibo/[^`]+\\.[a-z]+)`")

// The tutorial of the README, followed to the letter in a copy of the checkout.
func TestREADME(t *testing.T) {
	root, copied := plugintest.Root(t), t.TempDir()
	text, err := os.ReadFile(filepath.Join(root, "plugins", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(copied, "plugins"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rules", "engine", "storage", "cmd", "plugins/sdk", "plugins/plugintest"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(copied, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(copied, "plugins", "catalogues"), os.DirFS(filepath.Join(root, "plugins", "catalogues"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum", "plugins/build.go"} {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(copied, name), b)
	}
	lesson, _, _ := bytes.Cut(text, []byte("\n## A law before its day\n")) // the rest, which TestLaw of dtectl follows
	text = lesson
	files, commands, at := 0, 0, 0
	for _, m := range block.FindAllSubmatchIndex(text, -1) {
		kind, body := string(text[m[2]:m[3]]), text[m[4]:m[5]]
		named := file.FindAllSubmatch(text[at:m[0]], -1)
		at = m[1]
		if kind == "sh" {
			for line := range strings.Lines(string(body)) {
				cmd := exec.Command("sh", "-c", line)
				cmd.Dir, cmd.Env = copied, append(os.Environ(), "GOFLAGS=-trimpath") // so that go's cache serves any folder
				if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "ok") {
					t.Errorf("%s%v\n%s", line, err, out)
				}
				commands++
			}
			continue
		}
		if len(named) == 0 {
			t.Fatalf("no file is named before %.60s", body)
		}
		write(t, filepath.Join(copied, string(named[len(named)-1][1])), body)
		files++
	}
	if files != 8 || commands != 1 {
		t.Errorf("the README has %d files and %d commands", files, commands)
	}
}

// TestREADME_Manifest: the README's table of a manifest's members names all that a manifest can have.
func TestREADME_Manifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(plugintest.Root(t), "plugins", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| member | what it says |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed, members []string
	for row := range strings.Lines(table) {
		name, _, _ := strings.Cut(strings.TrimPrefix(row, "| `"), "`")
		listed = append(listed, name)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[bundle.Manifest]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		members = append(members, name)
	}
	if !found || !slices.Equal(listed, members) {
		t.Errorf("the README lists %q, a manifest has %q", listed, members)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
