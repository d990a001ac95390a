// Package plugins builds the rule modules of this repository: each folder beside it is one, with the same file names.
package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"dtegate/rules/bundle"
)

// Names of the bundles that a branch needs, in the order of their folders.
var Names = []string{"catalogues", "dte01", "dte03"}

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

// Parts reads a bundle's parts and manifest from its source folder; module.wasm, if it has a main.go, is compiled to
// the folder build.
func Parts(ctx context.Context, root, name, build string) (map[string][]byte, bundle.Manifest, error) {
	var m bundle.Manifest
	folder := filepath.Join(root, "plugins", name)
	parts := make(map[string][]byte)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		rel, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		parts[filepath.ToSlash(rel)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return nil, m, fmt.Errorf("reading %s: %w", name, err)
	}
	if err := json.Unmarshal(parts["manifest.json"], &m); err != nil {
		return nil, m, fmt.Errorf("reading the manifest of %s: %w", name, err)
	}
	delete(parts, "manifest.json")
	if _, err := os.Stat(filepath.Join(folder, "main.go")); errors.Is(err, fs.ErrNotExist) {
		return parts, m, nil
	}
	wasm := filepath.Join(build, name+".wasm")
	if err := Compile(ctx, root, name, wasm); err != nil {
		return nil, m, err
	}
	parts["module.wasm"], err = os.ReadFile(wasm)
	return parts, m, err
}
