package skip

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOnly: a test skips through this package, and so does every file that reads the folder beside the checkout. A skip
// of a library has no reason, and is counted as such.
func TestOnly(t *testing.T) {
	bare := regexp.MustCompile(`\b(t|b|tb)\.Skip(f|Now)?\(`)
	looks := regexp.MustCompile(`"shared", "mh"|shared/mh/`)
	counts := regexp.MustCompile(`skip\.(Test|Part)\(t, skip\.MHDocuments`)
	root, found := Checkout(t), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "var" ||
			name == "skip" || name == "summary" || name == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if bare.Match(b) && name != "blindspots_test.go" { // rapid's, of a drawn case
			t.Errorf("%s skips a test, and not by this package", path)
		}
		if looks.Match(b) {
			if found++; !counts.Match(b) {
				t.Errorf("%s looks for MH's documents and does not count what it skips", path)
			}
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("%d files, %v", found, err)
	}
}
