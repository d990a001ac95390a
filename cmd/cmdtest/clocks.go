package cmdtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// BoxClock fails if a function calls time.Now or passes it on, unless meant lists the function ("box/gate.go Run") and
// the reason. It also fails if a listed function no longer does so. It checks all folders below the test's folder.
func BoxClock(t *testing.T, meant map[string]string) {
	t.Helper()
	left := maps.Clone(meant)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			where := filepath.ToSlash(path)
			if f, ok := d.(*ast.FuncDecl); ok {
				where += " " + f.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok || s.Sel.Name != "Now" {
					return true
				}
				if p, ok := s.X.(*ast.Ident); ok && p.Name == "time" {
					if meant[where] == "" {
						t.Errorf("%s reads the box's clock: read config.Now, or say here why not", where)
					}
					delete(left, where)
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("%s does not read the clock any more", where)
	}
}
