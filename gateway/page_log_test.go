package gateway

import (
	"go/ast"
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
	level   string // Warn, Error, Info, Debug
	message string
	literal bool // the message stands in the sources
	call    *ast.CallExpr
	around  []ast.Node // what the call stands in, the outermost first
}

// logCalls finds every call of the appliance that writes a line of the log: dted and all that it is made of.
func logCalls(t *testing.T) (list []logCall) {
	t.Helper()
	set := token.NewFileSet()
	for _, folder := range []string{"engine", "gateway", "storage", "rules", "cmd/dted"} {
		root := filepath.Join("..", filepath.FromSlash(folder))
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

// logWriters are the methods that write a line, with the place of its message. error is storage's perMinute.
var logWriters = map[string]int{"Warn": 0, "Error": 0, "Info": 0, "Debug": 0, "error": 0, "WarnContext": 1, "ErrorContext": 1, "InfoContext": 1, "Log": 2, "LogAttrs": 2}

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
		l := logCall{at: set.Position(c.Pos()).String(), level: strings.TrimSuffix(f.Sel.Name, "Context"), call: c, around: append([]ast.Node(nil), around...)}
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

// TestLogged: every warning and error of the sources has its sentence in Spanish, and every sentence its message. A message
// must stand in the sources as it is: what differs from line to line is an attribute.
func TestLogged(t *testing.T) {
	found := make(map[string]bool)
	for _, c := range logCalls(t) {
		switch {
		case c.level == "Info" || c.level == "Debug" || c.level == "info" || strings.Contains(c.at, "perminute.go"): // which passes a message on
		case !c.literal:
			t.Errorf("%s: the message is put together: the page cannot know it", c.at)
		case logged[c.message] == "":
			t.Errorf("%s: %q has no Spanish", c.at, c.message)
		default:
			found[c.message] = true
		}
	}
	for message, text := range logged {
		if !found[message] {
			t.Errorf("nothing logs %q", message)
		}
		if english := regexp.MustCompile(`(?i)\b(the|is|not|of|and|store|disk|rule)\b`).FindString(text); english != "" || strings.HasSuffix(text, ".") {
			t.Errorf("%q: %q is no Spanish sentence of the page", message, text)
		}
	}
	if len(found) < 80 {
		t.Errorf("only %d messages were found", len(found))
	}
}
