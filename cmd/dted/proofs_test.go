package main

import (
	"bytes"
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/plugins/plugintest"
)

// The tests that ARCHITECTURE.md names as proofs exist.
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
	// each row of these tables names its proof
	for _, section := range []string{"## What is promised, and what proves it", "## Media", "## After a failed sync",
		"## What an attacker can do"} {
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

// The Go files that the documents and the package comments name exist.
func TestProofs_NamedFiles(t *testing.T) {
	root := plugintest.Root(t)
	// of all Go files: the path from the root, and its last part
	paths, bases := make(map[string]bool), make(map[string]bool)
	comments := make(map[string]string) // package comments, by path
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "var" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) &&
			path != root {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		paths[relative], bases[d.Name()] = true, true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if file.Doc != nil {
			comments[relative] = file.Doc.Text()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	names, checked := regexp.MustCompile(`[\w/]*\w\.go\b`), 0
	for file, text := range comments {
		// the kit's comment speaks of a rule's own files
		file = strings.Replace(file, "plugins/sdk/", "plugins/dte01/", 1)
		for _, name := range names.FindAllString(text, -1) {
			if checked++; !paths[name] && !paths[filepath.Join(filepath.Dir(file), name)] {
				t.Errorf("%s names %s, and there is no such file", file, name)
			}
		}
	}
	quoted := regexp.MustCompile("`([\\w/]+\\.go)`")
	for _, document := range []string{"ARCHITECTURE.md", "RATIONALE.md", "README.md", "deploy/RUNBOOK.md",
		"deploy/TILLS.md", "deploy/PROOF.md", "engine/fleet/README.md", "engine/books/README.md"} {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range quoted.FindAllSubmatch(text, -1) {
			if checked++; !paths[string(name[1])] && (bytes.ContainsRune(name[1], '/') || !bases[string(name[1])]) {
				t.Errorf("%s names %s, and there is no such file", document, name[1])
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d files are named", checked)
	}
}

// TestWhereIsWhat: the table of folders in ARCHITECTURE names every package that is not for tests, and the table's
// files exist.
func TestWhereIsWhat(t *testing.T) {
	root := plugintest.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Where is what\n")
	table, _, _ = strings.Cut(table, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	named := make(map[string]bool)
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.Contains(cells[1], "---") || strings.Contains(cells[1], "folder") {
			continue
		}
		first := ""
		for _, folder := range quoted.FindAllStringSubmatch(cells[1], -1) {
			first = cmp.Or(first, folder[1])
			named[folder[1]] = true
		}
		for _, room := range quoted.FindAllStringSubmatch(cells[2], -1) {
			named[first+"/"+room[1]], named[room[1]] = true, true
		}
		for _, file := range quoted.FindAllStringSubmatch(cells[3], -1) {
			if _, err := os.Stat(filepath.Join(root, first, file[1])); err != nil {
				t.Errorf("%s: %v", first, err)
			}
		}
	}
	for folder := range layers {
		if strings.HasPrefix(folder, "plugins/") || strings.HasSuffix(folder, "test") || strings.Contains(folder,
			"/example/") {
			continue
		}
		if !named[folder] {
			t.Errorf("%s is not in the table", folder)
		}
	}
}
