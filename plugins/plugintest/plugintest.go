// Package plugintest gives tests the rule modules of this repository, built once, and bundles of those modules, signed
// by a key of its own.
package plugintest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

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

// Root is the folder that go.mod lies in.
func Root(t testing.TB) string {
	t.Helper()
	return skip.Checkout(t)
}

var built, compiled sync.Map // what Parts made, by name; modules that are up to date

type source struct {
	parts    map[string][]byte
	manifest bundle.Manifest
}

// Parts reads and builds a plugin, once a process. Builds of different processes take turns, and the toolchain keeps
// what is up to date. The caller must not change the parts.
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
	lock, err := os.Create(filepath.Join(build, module+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() // and with it the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	from := plugins.Source{Root: root, Build: build}
	if _, ok := compiled.Load(module); ok {
		from.Module = filepath.Join(build, module+".wasm")
	}
	parts, m, err := from.Parts(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	if parts["module.wasm"] != nil {
		compiled.Store(module, true)
	}
	built.Store(name, source{parts, m})
	return parts, m
}

var bundles sync.Map // what Bundle made, by name

// Bundle builds a plugin and signs it, once a process.
//
// Its version is that of the manifest with the last two numbers 1.0, so that a new version of a shipped bundle changes no test that
// pushes an older or a newer one.
func Bundle(t testing.TB, name string) []byte {
	t.Helper()
	if b, ok := bundles.Load(name); ok {
		return b.([]byte)
	}
	parts, m := Parts(t, name)
	major, _, _ := strings.Cut(m.Version, ".")
	m.Version = major + ".1.0"
	b, err := bundle.Write(parts, m, Signer())
	if err != nil {
		t.Fatal(err)
	}
	bundles.Store(name, b)
	return b
}
