package mutant

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
)

// Checker finds out whether mutants compile, without the compiler.
type Checker struct {
	root     string
	fset     *token.FileSet
	packages map[string]listed // by folder from the root
	from     types.Importer
}

type listed struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
}

// NewChecker asks go for the files of the packages in the folders and below them, and builds their imports.
func NewChecker(root string, folders []string) (*Checker, error) {
	args := []string{"list", "-deps", "-export", "-json=ImportPath,Export,Dir,GoFiles"}
	for _, f := range folders {
		args = append(args, "./"+f+"/...")
	}
	c := exec.Command("go", args...)
	c.Dir, c.Stderr = root, os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, err
	}
	k := &Checker{root: root, fset: token.NewFileSet(), packages: make(map[string]listed)}
	export := make(map[string]string)
	for d := json.NewDecoder(out); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		export[p.ImportPath] = p.Export
		if dir, err := filepath.Rel(root, p.Dir); err == nil && filepath.IsLocal(dir) {
			k.packages[dir] = p
		}
	}
	k.from = importer.ForCompiler(k.fset, "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(export[name])
	})
	return k, c.Wait()
}

// Compiles reports whether a mutant compiles; false for a file that is not compiled on this machine.
func (k *Checker) Compiles(m *Made) error {
	p, ok := k.packages[path.Dir(m.File)]
	if !ok || !slices.Contains(p.GoFiles, path.Base(m.File)) {
		return fmt.Errorf("%s is not compiled here", m.File)
	}
	changed, err := m.Apply(k.root)
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		var text any
		if name == path.Base(m.File) {
			text = changed[m.File]
		}
		f, err := parser.ParseFile(k.fset, filepath.Join(p.Dir, name), text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: k.from}
	_, err = conf.Check(p.ImportPath, k.fset, files, nil)
	return err
}
