package problem_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// told is a place in the sources that reports an error to somebody.
type told struct {
	file     string // "gateway/form/fill.go"
	line     int
	code     string // "" where another line gives it
	status   int    // 0 where another line gives it
	fault    bool   // an element of errors
	operator bool   // the text is marked as an operator's
	message  string // "…" stands for what only the request knows
	cause    bool   // an error's own text is part of the message
}

// folders are the packages whose texts and codes reach an answer. Packages whose constants others use come first.
var folders = []string{"engine/refusal", "engine/record", "gateway", "gateway/problem",
	"gateway/reply", "gateway/adminapi", "gateway/door", "gateway/form", "gateway/page", "engine", "engine/contingency",
	"engine/documents", "engine/rulestore", "engine/outbox", "engine/dte", "engine/dte/schema",
	"plugins/sdk", "plugins/dte01", "plugins/dte03", "plugins/dte05", "plugins/dte06", "plugins/dte07", "plugins/dte14",
	"plugins/retorno", "cmd/dted", "cmd/dted/health", "cmd/dted/health/clock"}

// sources is what a scan reads: the files, and the constants of each package.
type sources struct {
	t         *testing.T
	set       *token.FileSet
	constants map[string]map[string]string // package, name
	found     []told
}

// scan reads the folders and returns all that they tell.
func scan(t *testing.T) []told {
	t.Helper()
	s := &sources{t: t, set: token.NewFileSet(), constants: make(map[string]map[string]string)}
	files := make(map[string]*ast.File)
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(paths), err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(s.set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.ToSlash(filepath.Join(folder, filepath.Base(path)))] = f
			s.declare(f)
		}
	}
	for name, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				s.call(name, f.Name.Name, n)
			case *ast.CompositeLit:
				s.literal(name, f.Name.Name, n, typeName(n.Type))
			case *ast.AssignStmt:
				s.assign(name, f.Name.Name, n)
			case *ast.BasicLit: // an answer that is written out
				if m := written.FindStringSubmatch(n.Value); m != nil {
					s.found = append(s.found, told{file: name, line: s.set.Position(n.Pos()).Line, code: m[1],
						message: m[2]})
				}
			}
			return true
		})
	}
	slices.SortFunc(s.found, func(a, b told) int {
		if a.file != b.file {
			return strings.Compare(a.file, b.file)
		}
		return a.line - b.line
	})
	return s.found
}

// declare keeps the string constants and variables of a file.
func (s *sources) declare(f *ast.File) {
	known := s.constants[f.Name.Name]
	if known == nil {
		known = make(map[string]string)
		s.constants[f.Name.Name] = known
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
			for i, name := range v.Names {
				switch value := v.Values[i].(type) {
				case *ast.BasicLit:
					if value.Kind == token.STRING {
						known[name.Name], _ = strconv.Unquote(value.Value)
					}
				case *ast.SelectorExpr: // another package's constant
					if text, ok := s.constants[typeName(value.X)][value.Sel.Name]; ok {
						known[name.Name] = text
					}
				}
			}
		}
		return true
	})
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// tellers are the functions that take a text for the answer, by the place of their code and of their text; -1 for what
// they do not take.
var tellers = map[string]struct{ code, text int }{"ForTill": {0, 1}, "ForOperator": {0, 1}, "TooMany": {-1, 1},
	"Unavailable": {-1, 1}}

var faultCode = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)

// call reads a call of a function that reports: ForTill and its like by their arguments; fault, wrong, forbidden and
// digits by what their arguments look like.
func (s *sources) call(file, pkg string, c *ast.CallExpr) {
	name := typeName(c.Fun)
	at := s.set.Position(c.Pos()).Line
	if x, ok := tellers[name]; ok && len(c.Args) > x.text {
		f := told{file: file, line: at, message: s.text(pkg, c.Args[x.text]), operator: name == "ForOperator",
			cause: tellsCause(c.Args[x.text])}
		if x.code >= 0 {
			f.code = s.text(pkg, c.Args[x.code])
		}
		s.found = append(s.found, f)
		return
	}
	switch name {
	case "fault", "wrong", "Wrong", "refuse", "digits", "forbidden":
		f := told{file: file, line: at, fault: name != "refuse" && name != "forbidden"}
		for _, a := range c.Args {
			switch text := s.text(pkg, a); {
			case faultCode.MatchString(text):
				f.code = text
			case strings.Contains(text, " "):
				f.message = text
			}
			f.cause = f.cause || tellsCause(a)
		}
		if f.message != "" || f.code != "" {
			s.found = append(s.found, f)
		}
	}
}

var written = regexp.MustCompile(`"type":"([A-Z_]+)","message":"([^"]+)"`)

// assign reads e.Code, e.Message = code, text.
func (s *sources) assign(file, pkg string, a *ast.AssignStmt) {
	f := told{file: file, line: s.set.Position(a.Pos()).Line}
	for i, to := range a.Lhs {
		field, ok := to.(*ast.SelectorExpr)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			continue
		}
		text := s.text(pkg, a.Rhs[i])
		switch field.Sel.Name {
		case "Code", "Type":
			if faultCode.MatchString(text) {
				f.code = text
			}
		case "Message":
			f.message, f.cause = text, tellsCause(a.Rhs[i])
		}
		f.fault = f.fault || strings.HasPrefix(file, "engine/dte/") // all errors of these folders are faults
	}
	if f.code != "" || f.message != "" && f.message != "…" || f.cause {
		s.found = append(s.found, f)
	}
}

// literal reads an Error, a Fault or a FaultText.
func (s *sources) literal(file, pkg string, c *ast.CompositeLit, kind string) {
	switch kind {
	case "map", "Error", "Fault", "SyntaxError", "FaultText":
	case "":
		if m, ok := c.Type.(*ast.ArrayType); ok { // the elements of a list leave their type out
			for _, e := range c.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					e = kv.Value
				}
				if lit, ok := e.(*ast.CompositeLit); ok && lit.Type == nil {
					s.literal(file, pkg, lit, typeName(m.Elt))
				}
			}
		}
		return
	default:
		return
	}
	f := told{file: file, line: s.set.Position(c.Pos()).Line, fault: kind == "Fault" || kind == "FaultText" ||
		kind == "SyntaxError"}
	for _, e := range c.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok { // Fault{path, code, message}
			if kind == "Fault" && len(c.Elts) == 3 {
				f.code, f.message, f.cause = s.text(pkg, c.Elts[1]), s.text(pkg, c.Elts[2]), tellsCause(c.Elts[2])
			}
			continue
		}
		switch typeName(kv.Key) {
		case "Code", "Type":
			f.code = s.text(pkg, kv.Value)
		case "Message":
			f.message, f.cause = s.text(pkg, kv.Value), tellsCause(kv.Value)
		case "Operator":
			f.operator = typeName(kv.Value) == "true"
		case "Status":
			f.status = status(kv.Value)
		}
	}
	if f.code != "" || f.message != "" {
		s.found = append(s.found, f)
	}
}

// text is an expression's text, with "…" for what only the request knows.
func (s *sources) text(pkg string, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return text
		}
	case *ast.BinaryExpr:
		return s.text(pkg, e.X) + s.text(pkg, e.Y)
	case *ast.ParenExpr:
		return s.text(pkg, e.X)
	case *ast.Ident:
		if text, ok := s.constants[pkg][e.Name]; ok {
			return text
		}
	case *ast.SelectorExpr:
		if of := typeName(e.X); of != "" {
			if text, ok := s.constants[of][e.Sel.Name]; ok {
				return text
			}
		}
	case *ast.CallExpr:
		if typeName(e.Fun) == "Sprintf" && len(e.Args) > 0 {
			return verb.ReplaceAllString(s.text(pkg, e.Args[0]), "…")
		}
	}
	return "…"
}

// tellsCause tells whether an error's own text, which is English, is part of a message: err.Error(), or err among the
// arguments of Sprintf.
func tellsCause(message ast.Expr) (found bool) {
	ast.Inspect(message, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		found = found || typeName(c.Fun) == "Error" && len(c.Args) == 0
		for _, a := range c.Args {
			name := typeName(a)
			found = found || name == "err" || name == "Err" || strings.HasSuffix(name, "Err")
		}
		return true
	})
	return found
}

var verb = regexp.MustCompile(`%[+#.0-9]*[a-z]`)

// status is the status that fasthttp's constant names, 0 for anything else.
func status(e ast.Expr) int {
	name := strings.TrimPrefix(typeName(e), "Status")
	for n := 400; n < 600; n++ {
		words := strings.NewReplacer(" ", "", "-", "", "'", "").Replace(http.StatusText(n))
		if words != "" && strings.EqualFold(words, name) {
			return n
		}
	}
	return 0
}

// TestFolders: each package that makes refusals is scanned.
func TestFolders(t *testing.T) {
	for _, pattern := range []string{"*/*.go", "*/*/*.go", "*/*/*/*.go"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), filepath.Join("..", "..")+"/"))
			if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(folder, "test") ||
				folder == "gateway/problem" || slices.Contains(folders, folder) {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if i.Path.Value == `"dtegate/engine/refusal"` {
					t.Errorf("%s makes refusals, and is not among the folders", folder)
				}
			}
		}
	}
}
