// Package plugins builds the rule bundles of this repository. The subfolder of a document type has one module, and a
// folder for each generation of MH's schema that the module supports.
package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"dtegate/rules/bundle"
)

// Names of the bundles that a branch needs: one folder for each generation.
var Names = []string{
	"catalogues",
	"dte01/v1", "dte01/v2", "dte03/v3", "dte03/v4", "dte05/v3", "dte05/v4", "dte06/v3", "dte06/v4", "dte07/v1",
	"dte07/v2", "dte14/v1", "dte14/v2",
	"retorno/v1", "invalidacion/v2", "invalidacion/v3", "contingencia/v3", "contingencia/v4",
}

// Further are the bundles of types that few taxpayers issue, for the branches that need them.
var Further = []string{"dte04/v3", "dte04/v4", "dte08/v1", "dte08/v2", "dte09/v1", "dte09/v2", "dte11/v1", "dte11/v3",
	"dte15/v1", "dte15/v2"}

// Compile builds a rule module with the plain Go toolchain, into a file (out). root is the folder of go.mod.
func Compile(ctx context.Context, root, name, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", out,
		"./plugins/"+name)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", name, err, b)
	}
	return nil
}

// Source is what a bundle is made from.
type Source struct {
	Root  string // the folder that contains plugins/
	Build string // folder for compiled modules
	// Module is the file of a compiled module, from any language; "": compile the Go module above the bundle's folder.
	Module string
}

// Parts reads a bundle's parts and manifest from its source folder ("dte01/v2"), as strictly as a branch reads them. It
// compiles module.wasm if s.Module is "" and the folder above the source folder has a rule.go.
func (s Source) Parts(ctx context.Context, name string) (map[string][]byte, bundle.Manifest, error) {
	var m bundle.Manifest
	folder := filepath.Join(s.Root, "plugins", name)
	parts := make(map[string][]byte)
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && file != folder && isBundle(file) {
			return fs.SkipDir // another version inside this folder: catalogues/2027 in catalogues
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		if !isPart.MatchString(filepath.ToSlash(rel)) {
			return fmt.Errorf("%s is not a part of a bundle: manifest, schema, overlay, type, form, view or "+
				"catalogues.json, or cases/*.json", rel)
		}
		parts[filepath.ToSlash(rel)], err = os.ReadFile(file)
		return err
	})
	if err != nil {
		return nil, m, fmt.Errorf("reading %s: %w", name, err)
	}
	for _, part := range bundle.TypeParts { // all generations share such a part, unless this generation has its own
		shared, err := os.ReadFile(filepath.Join(filepath.Dir(folder), part))
		if err == nil && parts[part] == nil {
			parts[part] = shared
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, m, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	if m, err = bundle.ParseManifest(parts["manifest.json"]); err != nil {
		return nil, m, fmt.Errorf("reading plugins/%s: %w", name, err)
	}
	delete(parts, "manifest.json")
	if err := inValidity(parts, m); err != nil {
		return nil, m, fmt.Errorf("plugins/%s/%w", name, err)
	}
	wasm := s.Module
	if wasm == "" {
		module := path.Dir(name)
		_, err := os.Stat(filepath.Join(s.Root, "plugins", module, "rule.go"))
		switch {
		case errors.Is(err, fs.ErrNotExist) && m.Kind == "document":
			return nil, m, fmt.Errorf("plugins/%s has no rule.go to compile: name a compiled module with --module "+
				"FILE.wasm", module)
		case errors.Is(err, fs.ErrNotExist):
			return parts, m, nil
		}
		wasm = filepath.Join(s.Build, module+".wasm")
		if err := Compile(ctx, s.Root, module, wasm); err != nil {
			return nil, m, err
		}
	}
	if parts["module.wasm"], err = os.ReadFile(wasm); err != nil {
		return nil, m, fmt.Errorf("reading the module of %s: %w", name, err)
	}
	return parts, m, nil
}

// inValidity refuses a case whose day is outside the bundle's validity in every ambiente: such a case proves nothing.
func inValidity(parts map[string][]byte, m bundle.Manifest) error {
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		var c struct {
			Facts struct {
				Identificacion struct{ FecEmi string }
			}
		}
		if !strings.HasPrefix(name, "cases/") || json.Unmarshal(parts[name], &c) != nil ||
			c.Facts.Identificacion.FecEmi == "" {
			continue // an unreadable case is reported when the case is run
		}
		day, in := c.Facts.Identificacion.FecEmi, false
		for _, w := range m.Validity {
			in = in || w.From <= day && (w.Until == "" || day <= w.Until)
		}
		if !in {
			return fmt.Errorf("%s: facts.identificacion.fecEmi: %s is outside the validity of the manifest", name, day)
		}
	}
	return nil
}

var isPart = regexp.MustCompile(`^((manifest|schema|overlay|type|form|view|catalogues)|cases/[^/]+)\.json$`)

func isBundle(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "manifest.json"))
	return err == nil
}
