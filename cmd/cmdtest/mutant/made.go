package mutant

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Made is a mutant that a rule makes from the source by replacing one expression or statement.
type Made struct {
	File     string // from the root of the module
	Line     int
	Func     string // the function around it, with its receiver's type, or the constant
	Operator string
	Old, New string // what the source has there
	at       int    // offset of Old in the file
}

// The operators. A dropped statement and an error that is not returned are still evaluated, or at least compiled: what
// they name stays used.
const (
	opNegate   = "negate"   // the condition of an if
	opSwallow  = "swallow"  // the error that an if looks at
	opBoundary = "boundary" // < is <=, >= is >
	opEquality = "equality" // == is !=
	opLogic    = "logic"    // && is ||
	opSign     = "sign"     // + is -
	opOffByOne = "off by one"
	opDrop     = "drop"     // a statement
	opNil      = "no error" // is returned
	opSwap     = "swap"     // two arguments that follow each other
	opFlip     = "flip"     // true is false
)

var twins = map[token.Token]struct {
	operator string
	other    token.Token
}{
	token.LSS: {opBoundary, token.LEQ}, token.LEQ: {opBoundary, token.LSS}, token.GTR: {opBoundary, token.GEQ},
	token.GEQ: {opBoundary, token.GTR},
	token.EQL: {opEquality, token.NEQ}, token.NEQ: {opEquality, token.EQL}, token.LAND: {opLogic, token.LOR},
	token.LOR: {opLogic, token.LAND},
	token.ADD: {opSign, token.SUB}, token.SUB: {opSign, token.ADD},
}

func (m *Made) String() string {
	return fmt.Sprintf("%s:%d %s: %s: %s => %s", m.File, m.Line, m.Func, m.Operator, oneLine(m.Old), oneLine(m.New))
}

// Key names a mutant independently of its line.
func (m *Made) Key() string {
	return fmt.Sprintf("%s %s: %s: %s => %s", m.File, m.Func, m.Operator, oneLine(m.Old), oneLine(m.New))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Apply returns the changed file of the tree at root.
func (m *Made) Apply(root string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(text[min(m.at, len(text)):], []byte(m.Old)) {
		return nil, fmt.Errorf("%s: the file was changed meanwhile", m)
	}
	return map[string][]byte{m.File: slices.Concat(text[:m.at], []byte(m.New), text[m.at+len(m.Old):])}, nil
}

// Make returns the mutants of a folder and of those below it, by file and place. It leaves out packages for tests, the
// simulated authority, examples and generated code, and, within the code, log calls and locks: only the race detector
// notices a missing lock.
func Make(root, folder string) (list []*Made, err error) {
	err = filepath.WalkDir(filepath.Join(root, folder), func(file string, d os.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasSuffix(name, "test") || name == "simulator" || name == "sample" ||
			name == "example" || name == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		of, err := makeFile(root, file)
		list = append(list, of...)
		return err
	})
	return list, err
}

func makeFile(root, file string) ([]*Made, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(tree) {
		return nil, nil
	}
	name, err := filepath.Rel(root, file)
	if err != nil {
		return nil, err
	}
	w := &maker{file: name, text: text, fset: fset}
	for _, d := range tree.Decls {
		w.declaration(d)
	}
	slices.SortStableFunc(w.list, func(a, b *Made) int { return cmp.Compare(a.at, b.at) })
	return w.list, nil
}

// maker collects the mutants of a file.
type maker struct {
	file string
	text []byte
	fset *token.FileSet
	in   string
	list []*Made
}

func (w *maker) source(n ast.Node) string {
	return string(w.text[w.fset.Position(n.Pos()).Offset:w.fset.Position(n.End()).Offset])
}

func (w *maker) add(operator string, n ast.Node, format string, args ...any) {
	at := w.fset.Position(n.Pos())
	w.list = append(w.list, &Made{File: w.file, Line: at.Line, Func: w.in, Operator: operator, Old: w.source(n),
		New: fmt.Sprintf(format, args...), at: at.Offset})
}

func (w *maker) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Body == nil || d.Name.Name == "String" {
			return
		}
		w.in = d.Name.Name
		if d.Recv != nil {
			w.in = strings.TrimPrefix(w.source(d.Recv.List[0].Type), "*") + "." + w.in
		}
		w.function(d.Type, d.Body)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.CONST {
				w.in = v.Names[0].Name
				for _, value := range v.Values {
					ast.Inspect(value, w.literal)
				}
			}
		}
	}
}

// function makes the mutants of a body; functions inside it have their own results.
func (w *maker) function(typ *ast.FuncType, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			w.function(n.Type, n.Body)
			return false
		case *ast.ArrayType:
			return false
		case *ast.IfStmt:
			w.condition(n)
		case *ast.BinaryExpr:
			w.binary(n)
		case *ast.BlockStmt:
			w.statements(n.List)
		case *ast.CaseClause:
			w.statements(n.Body)
		case *ast.CommClause:
			w.statements(n.Body)
		case *ast.ReturnStmt:
			w.returned(typ, n)
		case *ast.CallExpr:
			if told(n) {
				return false
			}
			w.arguments(n)
		}
		return w.literal(n)
	})
}

// told reports whether a call writes a log, a text or an error's text, or holds a lock.
func told(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch s.Sel.Name {
	case "Debug", "Info", "Warn", "Error", "Log", "LogAttrs", "die", "Errorf", "Sprintf", "Fprintf", "Lock", "Unlock",
		"RLock", "RUnlock", "Grow":
		return true
	}
	of, ok := s.X.(*ast.Ident)
	return ok && of.Name == "errors"
}

func (w *maker) condition(n *ast.IfStmt) {
	if b, ok := n.Cond.(*ast.BinaryExpr); ok && b.Op == token.NEQ && isNil(b.Y) && strings.HasPrefix(w.source(b.X),
		"err") {
		w.add(opSwallow, n.Cond, "%s && false", w.source(n.Cond))
		return
	}
	w.add(opNegate, n.Cond, "!(%s)", w.source(n.Cond))
}

func isNil(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "nil"
}

func (w *maker) binary(n *ast.BinaryExpr) {
	twin, ok := twins[n.Op]
	if !ok || twin.operator == opEquality && isNil(n.Y) || twin.operator == opSign && (isText(n.X) || isText(n.Y)) {
		return
	}
	between := w.text[w.fset.Position(n.X.End()).Offset:w.fset.Position(n.Y.Pos()).Offset]
	w.add(twin.operator, n, "%s%s%s", w.source(n.X), strings.Replace(string(between), n.Op.String(),
		twin.other.String(), 1), w.source(n.Y))
}

// isText reports whether a sum contains a string.
func isText(e ast.Expr) bool {
	if b, ok := e.(*ast.BinaryExpr); ok {
		return isText(b.X) || isText(b.Y)
	}
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}

func (w *maker) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if c, ok := s.X.(*ast.CallExpr); !ok || told(c) || w.source(c.Fun) == "panic" {
				continue
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || strings.Trim(w.source(s)[:s.TokPos-s.Pos()], "_, \t") == "" {
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt:
		default:
			continue
		}
		w.add(opDrop, s, "_ = func() { %s }", w.source(s))
	}
}

// returned makes a function whose last result is an error return nil instead.
func (w *maker) returned(typ *ast.FuncType, n *ast.ReturnStmt) {
	if typ.Results == nil || len(n.Results) == 0 {
		return
	}
	fields := typ.Results.List
	last := n.Results[len(n.Results)-1]
	if id, ok := fields[len(fields)-1].Type.(*ast.Ident); !ok || id.Name != "error" ||
		typ.Results.NumFields() != len(n.Results) || isNil(last) {
		return
	}
	w.add(opNil, last, "func() error { _ = %s; return nil }()", w.source(last))
}

func (w *maker) arguments(n *ast.CallExpr) {
	// min and max: the order of their arguments does not matter
	if f, ok := n.Fun.(*ast.Ident); n.Ellipsis.IsValid() || ok && (f.Name == "min" || f.Name == "max") {
		return
	}
	for i := 1; i < len(n.Args); i++ {
		a, b := n.Args[i-1], n.Args[i]
		if fmt.Sprintf("%T", a) != fmt.Sprintf("%T", b) && !plain(a, b) || w.source(a) == w.source(b) {
			continue
		}
		at := w.fset.Position(a.Pos())
		old := string(w.text[at.Offset:w.fset.Position(b.End()).Offset])
		w.list = append(w.list, &Made{File: w.file, Line: at.Line, Func: w.in, Operator: opSwap, Old: old,
			New: w.source(b) + string(w.text[w.fset.Position(a.End()).Offset:w.fset.Position(b.Pos()).Offset]) +
				w.source(a), at: at.Offset})
	}
}

// plain reports whether all expressions are names or literals.
func plain(list ...ast.Expr) bool {
	for _, e := range list {
		switch e.(type) {
		case *ast.Ident, *ast.SelectorExpr, *ast.BasicLit:
		default:
			return false
		}
	}
	return true
}

func (w *maker) literal(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind == token.INT {
			w.add(opOffByOne, n, "(%s + 1)", n.Value)
		}
	case *ast.Ident:
		if b, err := strconv.ParseBool(n.Name); err == nil && len(n.Name) > 3 {
			w.add(opFlip, n, "%t", !b)
		}
	}
	return true
}
