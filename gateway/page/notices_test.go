package page

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// logCall is a call in the sources that writes a line of the log.
type logCall struct {
	at      string // file:line
	file    string
	level   string // Warn, Error, Info, Debug
	message string
	literal bool // the message stands in the sources
	call    *ast.CallExpr
	around  []ast.Node // what the call stands in, the outermost first
}

// logCalls finds every call of the appliance that writes a line of the log, in dted and all that it is made of.
func logCalls(t *testing.T) (list []logCall) {
	t.Helper()
	set := token.NewFileSet()
	for _, folder := range []string{"engine", "gateway", "storage", "rules", "cmd/dted"} {
		root := filepath.Join("..", "..", filepath.FromSlash(folder))
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			name := d.Name()
			switch {
			case err != nil:
				return err
			case d.IsDir() && (strings.HasSuffix(name, "test") || name == "simulator" || name == "testdata"):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			list = append(list, logCallsOf(set, file)...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// logWriters are the methods that write a line, with the place of its message.
var logWriters = map[string]int{"Warn": 0, "Error": 0, "Info": 0, "Debug": 0, "WarnContext": 1,
	"ErrorContext": 1, "InfoContext": 1, "Log": 2, "LogAttrs": 2}

// loggers are the names that loggers have in the sources.
var loggers = regexp.MustCompile(`^(log|logger|Logger|slog)$`)

func logCallsOf(set *token.FileSet, file *ast.File) (list []logCall) {
	var around []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		around = append(around, n)
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := c.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		at, ok := logWriters[f.Sel.Name]
		if !ok || len(c.Args) <= at || !loggers.MatchString(nameOf(f.X)) {
			return true
		}
		l := logCall{at: set.Position(c.Pos()).String(), file: set.Position(c.Pos()).Filename,
			level: strings.TrimSuffix(f.Sel.Name, "Context"), call: c, around: append([]ast.Node(nil), around...)}
		if at == 2 { // Log and LogAttrs take their level
			l.level = strings.TrimPrefix(nameOf(c.Args[1]), "Level")
		}
		if lit, ok := c.Args[at].(*ast.BasicLit); ok {
			l.literal = true
			l.message, _ = strconv.Unquote(lit.Value)
		}
		list = append(list, l)
		return true
	})
	return list
}

// nameOf is the last name of an expression.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestLogged: every warning and error of the sources has its sentence in Spanish, and every sentence its message. A
// message must stand in the sources as a literal: what differs from line to line is an attribute.
func TestLogged(t *testing.T) {
	found := make(map[string]bool)
	for _, c := range logCalls(t) {
		switch {
		case c.level == "Info" || c.level == "Debug" || c.level == "info":
		case !c.literal:
			t.Errorf("%s: the message is put together: the page cannot know it", c.at)
		case logged[c.message] == "":
			t.Errorf("%s: %q has no Spanish", c.at, c.message)
		default:
			found[c.message] = true
		}
	}
	infos := make(map[string]bool)
	for _, c := range logCalls(t) {
		infos[c.message] = infos[c.message] || c.level == "Info"
	}
	for end, begin := range Ends {
		if !infos[end] || logged[begin] == "" {
			t.Errorf("%q is not logged, or does not end the trouble %q", end, begin)
		}
	}
	for message, text := range logged {
		if !found[message] {
			t.Errorf("nothing logs %q", message)
		}
		if english := regexp.MustCompile(`(?i)\b(the|is|not|of|and|store|disk|rule)\b`).FindString(
			text); english != "" || strings.HasSuffix(text, ".") {
			t.Errorf("%q: %q is no Spanish sentence of the page", message, text)
		}
	}
	if len(found) < 80 {
		t.Errorf("only %d messages were found", len(found))
	}
}

// neverNil are errors that are never nil where they are logged, and texts.
var neverNil = map[string]bool{
	// texts
	"engine/rulestore/activation.go a.Error": true, "storage/create.go message": true,
	"engine/fleet/ship/unshipped.go why":     true,
	"rules/host.go err":                      true, // cacheFailed is called with a failure
	"gateway/gateway.go err":                 true, // refuse is called with an error
	"engine/rulestore/autorollback.go cause": true, // RetryWithPrevious is called with what failed
}

// TestLogged_Errors: a line of the log has an error only where there is one: a value logged as "error" is compared with
// nil around the call, or is a text.
func TestLogged_Errors(t *testing.T) {
	seen := 0
	for _, c := range logCalls(t) {
		for i, arg := range c.call.Args {
			if lit, ok := arg.(*ast.BasicLit); !ok || lit.Value != `"error"` || i == 0 || i+1 == len(c.call.Args) {
				continue
			}
			seen++
			what := printed(c.call.Args[i+1])
			if what != "" && !proven(what, c) && !neverNil[strings.TrimPrefix(filepath.ToSlash(c.file), "../../")+" "+
				what] {
				t.Errorf("%s: %s may be nil, and the line would say error=<nil>", c.at, what)
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d errors are logged", seen)
	}
}

// printed is a name, with what it is a member of; "" for a call, a literal or an operation.
func printed(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if of := printed(e.X); of != "" {
			return of + "." + e.Sel.Name
		}
	}
	return ""
}

// proven tells whether a call stands where a name cannot be nil: in a body or case whose condition compares the name
// with nil or asks what error it is; in a switch whose first case is nil; where the name's method is called; or behind
// an if that leaves the function when the name is nil.
func proven(name string, c logCall) bool {
	for _, n := range c.around { // the name's method is called, which would panic
		f, ok := n.(*ast.FuncDecl)
		called := false
		if ok {
			ast.Inspect(f.Body, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				called = called || ok && s.Sel.Name == "Error" && printed(s.X) == name
				return true
			})
		}
		if called {
			return true
		}
	}
	compared := regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(name) + ` != nil|errors\.(Is|As)\(` +
		regexp.QuoteMeta(name) + `,`)
	for i := len(c.around) - 1; i > 0; i-- {
		within := c.around[i]
		switch n := c.around[i-1].(type) {
		case *ast.IfStmt:
			if within == ast.Node(n.Body) && compared.MatchString(source(n.Cond)) {
				return true
			}
		case *ast.RangeStmt: // lists of errors hold errors
			if n.Value != nil && printed(n.Value) == name {
				return true
			}
		case *ast.SwitchStmt: // its first case is nil
			if first := n.Body.List[0].(*ast.CaseClause); first != c.around[i+1] && len(first.List) == 1 &&
				source(first.List[0]) == name+" == nil" {
				return true
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				if compared.MatchString(source(e)) {
					return true
				}
			}
		case *ast.BlockStmt:
			for _, s := range n.List {
				if s.End() > within.Pos() {
					break
				}
				if leave, ok := s.(*ast.IfStmt); ok && leaves(leave.Body) &&
					regexp.MustCompile(`^`+regexp.QuoteMeta(name)+` == nil\b`).MatchString(source(leave.Cond)) {
					return true
				}
			}
		}
	}
	return false
}

// leaves tells whether a block ends by leaving the one that it stands in.
func leaves(b *ast.BlockStmt) bool {
	switch last := b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return last.Tok == token.CONTINUE
	}
	return false
}

// source is an expression as the sources have it.
func source(e ast.Expr) string {
	var b strings.Builder
	_ = format.Node(&b, token.NewFileSet(), e)
	return b.String()
}
