package mutant

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/plugins/plugintest"
)

// part is which mutants are played: "3/8", the third eighth.
var part = flag.String("part", "", "of the seeded mutants, play this part: 3/8")

// TestMutants: each patch applies, and the test that must notice it exists.
func TestMutants(t *testing.T) {
	root := plugintest.Root(t)
	for _, m := range seeded(t) {
		if _, err := m.Apply(root); err != nil {
			t.Error(m.Name, err)
		}
		files, err := filepath.Glob(filepath.Join(root, m.Package, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(m.Test, "/")
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "func "+name+"(")
		}) {
			t.Errorf("%s: %s has no test %s", m.Name, m.Package, m.Test)
		}
	}
}

func seeded(t *testing.T) []*Mutant {
	t.Helper()
	list, err := Read("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 16 {
		t.Errorf("only %d mutants", len(list))
	}
	return list
}

// TestSeeded breaks the product in ways in which people really break it, and checks that the suite notices.
func TestSeeded(t *testing.T) {
	skip.Unless(t, *part != "" || os.Getenv("DTE_SOAK") != "", "make seeded")
	root, mine, of := plugintest.Root(t), 1, 1
	if _, err := fmt.Sscanf(*part, "%d/%d", &mine, &of); *part != "" && (err != nil || mine < 1 || mine > of) {
		t.Fatalf("part %q: %v", *part, err)
	}
	for i, m := range seeded(t) {
		if i%of != mine-1 {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			said, err := m.Run(t.Context(), root, t.TempDir())
			if err != nil {
				t.Fatalf("%s %v\n%s", m.Bug, err, said)
			}
			_, fault, _ := strings.Cut(said, "--- FAIL: ")
			t.Logf("caught: %.400s", fault)
		})
	}
}

// A module with one function and its test.
var small = map[string]string{
	"go.mod": "module small\n\ngo 1.25\n",
	"sum/sum.go": "package sum\n\n// Sum adds.\nfunc Sum(a, b int) int {\n\tc := a + b\n\n\treturn c\n}\n\nfunc " +
		"unused(a, b int) int {\n\treturn a * b\n}\n",
	"sum/sum_test.go":  "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(1, 2) != 3 {\n\t\tt.Error(\"wrong sum\")\n\t}\n}\n",
	"sum/more_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum_Sign(t *testing.T) {}\n",
}

// TestRun: a mutant is caught only by the test that it names, for the fault that it names.
func TestRun(t *testing.T) {
	root := t.TempDir()
	for name, text := range small {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const difference = "--- sum/sum.go\n-\tc := a + b\n+\tc := a - b\n"
	for name, tt := range map[string]struct{ patch, fault string }{
		"caught": {"# Subtracts.\ntest: sum TestSum\nfault: wrong sum\n\n" + difference, ""},
		"of git": {"# Subtracts.\ntest: sum TestSum\n\ndiff --git a/sum/sum.go b/sum/sum.go\nindex 1..2 " +
			"100644\n--- a/sum/sum.go\n+++ b/sum/sum.go\n@@ -3,4 +3,4 @@ package sum\n // Sum adds.\n func Sum(a, b " +
			"int) int {\n-\tc := a + b\n+\tc := a - b\n \n \treturn c\n", ""},
		"of another fault": {"# Subtracts.\ntest: sum TestSum\nfault: overflow\n\n" + difference, "another fault"},
		"survives": {"# Divides.\ntest: sum TestSum\n\n--- sum/sum.go\n-\treturn a * b\n+\treturn a / b\n",
			ErrSurvived.Error()},
		"another test": {"# Subtracts.\ntest: sum TestSum_Sign\n\n" + difference, ErrSurvived.Error()},
		"no test":      {"# Subtracts.\ntest: sum TestSu\n\n" + difference, "has no test TestSu"},
		"does not compile": {"# Divides.\ntest: sum TestSum\n\n--- sum/sum.go\n-\tc := a + b\n+\tc := a +\n",
			"cannot be tested"},
		"no longer applies": {"# Divides.\ntest: sum TestSum\n\n--- sum/sum.go\n-\tc := a ++ b\n+\tc := a / b\n",
			"0 times, not once"},
		"applies twice": {"# Turns.\ntest: sum TestSum\n\n--- sum/sum.go\n-}\n+} // end\n", "2 times, not once"},
		"nowhere":       {"# Adds.\ntest: sum TestSum\n\n--- sum/sum.go\n+// more\n", "no line says where"},
		"no such file":  {"# Adds.\ntest: sum TestSum\n\n--- sum/add.go\n-a\n+b\n", "add.go: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Mutant{Name: name}
			if err := m.parse(tt.patch); err != nil {
				t.Fatal(err)
			}
			said, err := m.Run(t.Context(), root, t.TempDir())
			if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(),
				tt.fault)) {
				t.Errorf("%v\n%s", err, said)
			}
			if name == "survives" && !errors.Is(err, ErrSurvived) {
				t.Error(err)
			}
		})
	}
}

func TestParse_Refuses(t *testing.T) {
	for patch, fault := range map[string]string{
		"# Nothing.\ntest: sum TestSum\n":                                 "no line begins with",
		"test: sum TestSum\n--- a.go\n-a\n+b\n":                           "are due",
		"# Nothing.\n--- a.go\n-a\n+b\n":                                  "are due",
		"# Nothing.\ntests: sum TestSum\n--- a.go\n-a\n+b\n":              `"tests" is not a member`,
		"# Nothing.\ntest: sum TestSum\nfault: (\n--- a.go\n-a\n+b\n":     "missing closing",
		"# Nothing.\ntest: sum TestSum\n--- a.go\n a\n":                   "changes nothing",
		"# Nothing.\ntest: sum TestSum\n--- a.go\nfunc a() {\n":           "begins with neither",
		"# Nothing.\ntest: sum TestSum\n--- a.go\n-a\n+b\n--- b.go\n b\n": "b.go: the patch changes nothing",
	} {
		if err := new(Mutant).parse(patch); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v for\n%s", err, patch)
		}
	}
}
