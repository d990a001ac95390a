package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/plugins/plugintest"
)

// The tests that ARCHITECTURE.md names as proofs are there.
func TestProofs(t *testing.T) {
	root := plugintest.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sources []byte
	for _, pattern := range []string{"*/*_test.go", "*/*/*_test.go", "*/*/*/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, source...)
		}
	}
	for _, section := range []string{"## Media", "## After a failed sync", "## What an attacker can do"} { // each row of these tables names its proof
		_, table, found := strings.Cut(string(text), "\n"+section+"\n")
		table, _, _ = strings.Cut(table, "\n## ")
		rows := 0
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "| ") {
				continue
			}
			if rows++; rows > 1 && !strings.Contains(line, "`Test") {
				t.Errorf("%s: a row without a test: %s", section, line)
			}
		}
		if !found || rows < 6 {
			t.Errorf("%s: %d rows", section, rows)
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)(\\*?)`").FindAllSubmatch(text, -1)
	if len(named) < 20 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, name := range named {
		is := slices.Concat([]byte("\nfunc "), name[1])
		if len(name[2]) == 0 { // TestShares_* are several
			is = append(is, '(')
		}
		if !bytes.Contains(sources, is) {
			t.Errorf("ARCHITECTURE.md names %s, and there is no such test", name[1])
		}
	}
}
