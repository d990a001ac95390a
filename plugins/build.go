// Package plugins builds the rule bundles of this repository: each folder beside it is one document type, with one
// module, and below it a folder for each generation of MH's schema that the module serves.
package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"dtegate/rules/bundle"
)

// Names of the bundles that a branch needs: a folder a generation.
var Names = []string{
	"catalogues",
	"dte01/v1", "dte01/v2", "dte03/v3", "dte03/v4", "dte05/v3", "dte05/v4", "dte06/v3", "dte06/v4", "dte07/v2", "dte14/v1", "dte14/v2",
	"retorno/v1", "invalidacion/v2", "invalidacion/v3", "contingencia/v3", "contingencia/v4",
}

// Compile builds a module with the plain Go toolchain. root is the module's root folder. It is quick when out is up
// to date.
func Compile(ctx context.Context, root, name, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", out, "./plugins/"+name)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", name, err, b)
	}
	return nil
}

// Parts reads a bundle's parts and manifest from its source folder ("dte01/v2"); module.wasm, if the folder above it has
// a main.go, is compiled to the folder build.
func Parts(ctx context.Context, root, name, build string) (map[string][]byte, bundle.Manifest, error) {
	var m bundle.Manifest
	folder := filepath.Join(root, "plugins", name)
	parts := make(map[string][]byte)
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".json") {
			return err
		}
		rel, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		parts[filepath.ToSlash(rel)], err = os.ReadFile(file)
		return err
	})
	if err != nil {
		return nil, m, fmt.Errorf("reading %s: %w", name, err)
	}
	if err := json.Unmarshal(parts["manifest.json"], &m); err != nil {
		return nil, m, fmt.Errorf("reading the manifest of %s: %w", name, err)
	}
	delete(parts, "manifest.json")
	module := path.Dir(name)
	if _, err := os.Stat(filepath.Join(root, "plugins", module, "main.go")); errors.Is(err, fs.ErrNotExist) {
		return parts, m, nil
	}
	wasm := filepath.Join(build, module+".wasm")
	if err := Compile(ctx, root, module, wasm); err != nil {
		return nil, m, err
	}
	parts["module.wasm"], err = os.ReadFile(wasm)
	return parts, m, err
}
