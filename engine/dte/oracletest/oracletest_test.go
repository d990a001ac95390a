package oracletest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A test that has nothing to compare with leaves a line, and one that skips for it is skipped.
func TestSkip(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(folderVariable, folder)
	t.Run("skips", func(t *testing.T) { Skip(t); t.Error("went on") })
	t.Run("goes on", func(t *testing.T) { Without(t) })
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	if b, err := os.ReadFile(files[0]); err != nil || string(b) != "TestSkip/skips\nTestSkip/goes_on\n" {
		t.Errorf("%q %v", b, err)
	}
}

// TestCounted: whatever file of tests looks into the folder beside the checkout counts what it skips.
func TestCounted(t *testing.T) {
	looks := regexp.MustCompile(`"shared", "mh"|shared/mh/`)
	root, found := filepath.Join("..", "..", ".."), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "var" ||
				name == "oracletest" || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil || !looks.Match(b) {
			return err
		}
		found++
		if !bytes.Contains(b, []byte("oracletest.Skip(t)")) && !bytes.Contains(b, []byte("oracletest.Without(t)")) {
			t.Errorf("%s looks for MH's documents and does not count what it skips", path)
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d files, %v", found, err)
	}
}
