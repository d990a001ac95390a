// Package plugintest gives tests the rule modules of this repository, built once, and bundles of those modules, signed
// by a key of its own.
package plugintest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

// Signer signs test bundles.
func Signer() bundle.Signer {
	return bundle.Signer{ID: "test", Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))}
}

// Key is the public half of Signer.
func Key() bundle.Key {
	return bundle.Key{ID: "test", Public: Signer().Private.Public().(ed25519.PublicKey)}
}

// Root returns the folder of go.mod.
func Root(t testing.TB) string {
	t.Helper()
	return skip.Checkout(t)
}

var built sync.Map // what Parts made, by name

type source struct {
	parts    map[string][]byte
	manifest bundle.Manifest
}

// Parts reads and builds a plugin, once a process. Builds of different processes take turns. The caller must not change
// the parts.
func Parts(t testing.TB, name string) (map[string][]byte, bundle.Manifest) {
	t.Helper()
	if s, ok := built.Load(name); ok {
		return s.(source).parts, s.(source).manifest
	}
	root := Root(t)
	build := filepath.Join(root, "var", "build")
	if err := os.MkdirAll(build, 0o755); err != nil {
		t.Fatal(err)
	}
	module, _, _ := strings.Cut(name, "/")
	lock, err := os.OpenFile(filepath.Join(build, module+".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() // which also releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	from, wasm, now := plugins.Source{Root: root, Build: build}, filepath.Join(build, module+".wasm"), time.Now()
	if current(root, module, wasm, lock) {
		from.Module = wasm
	}
	parts, m, err := from.Parts(context.Background(), name)
	if err == nil && from.Module == "" && parts["module.wasm"] != nil {
		err = errors.Join(os.Chtimes(wasm, now, now), os.Chtimes(lock.Name(), now, now))
	}
	if err != nil {
		t.Fatal(err)
	}
	built.Store(name, source{parts, m})
	return parts, m
}

// Made lists the sources of every module besides its own folder; TestVersions checks the list.
var Made = []string{"plugins/sdk", "rules/abi"}

// current reports whether a test process compiled the module, by this toolchain, after the last change of its sources.
// Asking the toolchain would take a tenth of a second of processor time, in each test process and for each module. A
// compiled module and its lock have the time at which the compilation began.
func current(root, module, wasm string, lock *os.File) bool {
	code, err := os.ReadFile(wasm)
	if err != nil || !bytes.Contains(code, []byte(runtime.Version())) {
		return false
	}
	made, of := time.Time{}, []string{filepath.Join(root, "go.mod"), filepath.Join(root, "plugins", "build.go")}
	if info, err := lock.Stat(); err == nil {
		made = info.ModTime()
	}
	if info, err := os.Stat(wasm); err != nil || !info.ModTime().Equal(made) {
		return false
	}
	for _, folder := range append([]string{"plugins/" + module}, Made...) {
		files, _ := filepath.Glob(filepath.Join(root, folder, "*.go"))
		of = append(of, append(files, filepath.Join(root, folder))...)
	}
	return !slices.ContainsFunc(of, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.ModTime().Before(made)
	})
}
