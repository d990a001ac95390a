package plugins_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
)

var updateVersions = flag.Bool("update-versions", false, "write testdata/versions.json anew")

const versionsFile = "testdata/versions.json"

// edition is a bundle as the golden file lists it.
type edition struct {
	Version string `json:"version"`
	Sources string `json:"sources"` // SHA-256, see sourcesOf
}

// TestVersions: two bundles of one version are the same bundle. Changed sources need another version.
func TestVersions(t *testing.T) {
	golden := make(map[string]edition)
	if b, err := os.ReadFile(versionsFile); err == nil {
		if err := json.Unmarshal(b, &golden); err != nil {
			t.Fatal(err)
		}
	} else if !*updateVersions {
		t.Fatal(err)
	}
	now := make(map[string]edition)
	for _, name := range slices.Concat(plugins.Names, plugins.Further) {
		p, err := sourcesOf(name)
		if err != nil {
			t.Fatal(err)
		}
		now[name] = p
		switch before, known := golden[name]; {
		case p == before:
		case known && p.Version == before.Version:
			t.Errorf("what %s is made of has changed, and it is still version %s: bump the version in plugins/%s/manifest.json", name, p.Version, name)
		case !*updateVersions:
			t.Errorf("%s is version %s, the golden file has %q: go test ./plugins -run TestVersions -update-versions", name, p.Version, before.Version)
		}
	}
	if len(golden) > len(now) && !*updateVersions {
		t.Errorf("the golden file has bundles that are gone: %v", slices.Sorted(maps.Keys(golden)))
	}
	if !*updateVersions || t.Failed() {
		return
	}
	b, err := json.MarshalIndent(now, "", "  ")
	if err == nil {
		err = os.WriteFile(versionsFile, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sourcesOf reads a bundle's version and hashes its sources: its JSON files without layout, the manifest without the
// version, and its module's Go code, with all packages of this repository that it imports, without comments and layout.
func sourcesOf(name string) (p edition, err error) {
	h := sha256.New()
	for _, part := range bundle.TypeParts { // shared by the generations
		if b, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.FromSlash(name)), part)); err == nil {
			fmt.Fprintf(h, "%s\n%s\n", part, b)
		}
	}
	err = filepath.WalkDir(filepath.FromSlash(name), func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && file != filepath.FromSlash(name) {
			if _, of := os.Stat(filepath.Join(file, "manifest.json")); of == nil { // another bundle
				return fs.SkipDir
			}
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".json") {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if d.Name() == "manifest.json" {
			var m map[string]json.RawMessage
			if err := json.Unmarshal(b, &m); err != nil {
				return err
			}
			if err := json.Unmarshal(m["version"], &p.Version); err != nil {
				return err
			}
			delete(m, "version")
			if b, err = json.Marshal(m); err != nil {
				return err
			}
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, b); err != nil {
			return err
		}
		fmt.Fprintf(h, "%s\n%s\n", filepath.ToSlash(file), compact.Bytes())
		return nil
	})
	if err != nil {
		return p, err
	}
	if module := path.Dir(name); module != "." {
		made := make(map[string]bool)
		if err := hashCode(h, "plugins/"+module, made); err != nil {
			return p, err
		}
		delete(made, "plugins/"+module)
		for folder := range made {
			if !slices.Contains(plugintest.Made, folder) {
				return p, fmt.Errorf("%s is made of %s, which plugintest.Made does not name", name, folder)
			}
		}
	}
	p.Sources = fmt.Sprintf("%x", h.Sum(nil))
	return p, nil
}

// hashCode hashes a package of this repository and those that it imports, each once. A folder without Go code is no module.
func hashCode(h io.Writer, folder string, seen map[string]bool) error {
	if seen[folder] {
		return nil
	}
	seen[folder] = true
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*.go"))
	if err != nil {
		return err
	}
	var imports []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s/%s\n", folder, filepath.Base(file))
		if err := printer.Fprint(h, token.NewFileSet(), &ast.File{Name: f.Name, Decls: f.Decls}); err != nil {
			return err
		}
		for _, spec := range f.Imports {
			if at, err := strconv.Unquote(spec.Path.Value); err == nil && strings.HasPrefix(at, "dtegate/") {
				imports = append(imports, strings.TrimPrefix(at, "dtegate/"))
			}
		}
	}
	slices.Sort(imports)
	for _, at := range slices.Compact(imports) {
		if err := hashCode(h, at, seen); err != nil {
			return err
		}
	}
	return nil
}
