package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSummarize: failures of a real run are printed, and skips are counted by reason, including a library's skip and a
// test that continues.
func TestSummarize(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module small\n\ngo 1.25\n",
		"a/a_test.go": `package a
import "testing"
func TestGood(t *testing.T) { t.Log("not shown") }
func TestBad(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("shown") }) }
func TestRoot(t *testing.T) { t.Skip("skip [root] only root may") }
func TestPart(t *testing.T) { t.Log("skip [MH's documents] goes on") }
func TestBare(t *testing.T) { t.Skip() }
`,
		"b/b_test.go": "package b\nimport \"testing\"\nfunc TestPanic(t *testing.T) { println(); panic(\"at once\") }\n",
		"c/c_test.go": "package c\nvar wrong int = \"text\"\n",
		"d/d_test.go": "package d\nimport \"testing\"\nfunc TestBrowser(t *testing.T) { t.Skip(\"skip [chromium] none\") }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "./...")
	cmd.Dir = dir
	events, _ := cmd.Output()
	for _, documents := range []bool{false, true} {
		var out strings.Builder
		err := summarize(strings.NewReader(string(events)), &out, documents)
		if (err != nil) != documents {
			t.Errorf("with MH's documents %t: %v", documents, err)
		}
		text := out.String()
		for _, want := range []string{`--- FAIL: TestBad/sub`, `a_test.go:4: shown`, `(?m)^FAIL\tsmall/a\t`, `panic: at once`,
			`(?m)^FAIL\tsmall/b\t`, `c_test.go:2:\d+: cannot use`, `(?m)^FAIL\tsmall/c \[build failed\]`, `(?m)^ok  \tsmall/d\t`,
			`\nskipped: 4 \(MH's documents: 1, chromium: 1, no reason: 1, root: 1\)\n$`} {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
		if strings.Contains(text, "not shown") || strings.Contains(text, "=== RUN") {
			t.Errorf("too much is printed:\n%s", text)
		}
	}
}
