// Package oracletest counts the tests that need MH's own documents. Those lie beside the checkout, in ../shared, and
// not in it: without them such a test has nothing to compare with. A suite that skips them by mistake looks as green as
// one that runs them; so the Makefile names a folder in DTE_ORACLE_SKIPS, each of these tests leaves a line there, and
// the suite ends with their number.
package oracletest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// folderVariable names the folder; none is counted without it.
const folderVariable = "DTE_ORACLE_SKIPS"

// Skip skips a test that has nothing to compare with.
func Skip(t testing.TB) {
	t.Helper()
	Without(t)
	t.Skip("MH's documents are not beside the checkout")
}

// Without counts a test that goes on without what it would compare with.
func Without(t testing.TB) {
	t.Helper()
	t.Log("MH's documents are not beside the checkout")
	folder := os.Getenv(folderVariable)
	if folder == "" {
		return
	}
	// A file for each process: packages run beside each other.
	f, err := os.OpenFile(filepath.Join(folder, fmt.Sprint(os.Getpid())), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, t.Name())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Errorf("counting a skipped test: %v", err)
	}
}

// Folder is the folder beside the checkout that holds what MH has published; a test that needs it skips without it.
func Folder(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(Checkout(t), "..", "shared", "mh")
	if _, err := os.Stat(dir); err != nil {
		Skip(t)
	}
	return dir
}

// Checkout is the folder that go.mod lies in.
func Checkout(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}
