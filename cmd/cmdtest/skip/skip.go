// Package skip records that a test does not run here, and why: the last line of make test counts the reasons
// (cmd/cmdtest/summary). A suite that skips by mistake looks as green as a suite that runs.
package skip

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// MHDocuments is the reason of tests that compare with MH's own documents. These are beside the checkout, in ../shared.
const MHDocuments = "MH's documents"

// Mark finds the reason in a test's output.
var Mark = regexp.MustCompile(`: skip \[(.+?)\] `)

// Test skips a test. The reason is what is missing, or the target of make that runs the test.
func Test(t testing.TB, reason string, why ...any) {
	t.Helper()
	t.Skip(said(reason, why))
}

// Part counts a test that continues without a part of it.
func Part(t testing.TB, reason string, why ...any) {
	t.Helper()
	t.Log(said(reason, why))
}

func said(reason string, why []any) string {
	return fmt.Sprintf("skip [%s] %s", reason, fmt.Sprint(why...))
}

// Short skips a test that takes too long under the race detector.
func Short(t testing.TB) {
	t.Helper()
	if testing.Short() {
		Test(t, "-short")
	}
}

// Unless skips a test that a target of make runs.
func Unless(t testing.TB, wanted bool, target string) {
	t.Helper()
	if !wanted {
		Test(t, target)
	}
}

// Program is the path of a program that is installed here; without it the test skips.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Test(t, name, "is not installed")
	}
	return path
}

// Folder returns the folder beside the checkout with MH's publications; without it the test skips.
func Folder(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(Checkout(t), "..", "shared", "mh")
	if _, err := os.Stat(dir); err != nil {
		Test(t, MHDocuments)
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
