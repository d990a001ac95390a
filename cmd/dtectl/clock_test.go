package main

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// boxClock is where the box's clock is meant, by file and function, and why. All else reads the branch's, config.Now: in a
// rehearsal of a later day the two differ.
var boxClock = map[string]string{
	"books.go make":              "the day on which the files are made",
	"books.go sources":           "a backup is read, without a configuration",
	"books.go collect":           "a pause",
	"demo.go supervise":          "how long a start takes",
	"doctor.go Run":              "the box's clock is a field of it: branchNow",
	"doctor_box.go timeSync":     "how long a write takes",
	"doctor_net.go authority":    "how long a connection takes",
	"export.go open":             "a backup is read, without a configuration",
	"init.go Run":                "a certificate of MH, before there is a configuration",
	"invalidate.go one":          "the pace of what is sent",
	"newdemo.go day":             "the demonstration's own calendar",
	"newdemo.go makeTaxpayer":    "a certificate of the demonstration",
	"newdemo.go newDemo":         "the demonstration's own calendar",
	"rules_backtest.go progress": "a share of the work: the branch's clock is not known here",
	"rules_push.go push":         "how long a branch is waited for",
	"rules_push.go newGauge":     "how often a line is drawn",
	"rules_push.go show":         "how often a line is drawn",
	"tls.go Run":                 "the name of a folder",
}

// TestBranchClock: a verb that reads the clock reads the branch's, or stands in the list with its reason.
func TestBranchClock(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(boxClock)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := goparser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			where := name
			if f, ok := d.(*ast.FuncDecl); ok {
				where += " " + f.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok || s.Sel.Name != "Now" {
					return true
				}
				if p, ok := s.X.(*ast.Ident); ok && p.Name == "time" {
					if boxClock[where] == "" {
						t.Errorf("%s reads the box's clock: read config.Now, or say here why not", where)
					}
					delete(left, where)
				}
				return true
			})
		}
	}
	for _, where := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("%s does not read the clock any more", where)
	}
}
