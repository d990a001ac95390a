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
	"books.go make":                "the day on which the files are made",
	"books.go sources":             "a backup is read, without a configuration",
	"books.go collect":             "a pause",
	"demo/demo.go supervise":       "how long a start takes",
	"doctor/doctor.go Run":         "the box's clock is a field of it: branchNow",
	"doctor/box.go timeSync":       "how long a write takes",
	"doctor/net.go authority":      "how long a connection takes",
	"export.go open":               "a backup is read, without a configuration",
	"setup/init.go Run":            "a certificate of MH, before there is a configuration",
	"invalidate.go one":            "the pace of what is sent",
	"demo/new.go day":              "the demonstration's own calendar",
	"demo/new.go makeTaxpayer":     "a certificate of the demonstration",
	"demo/new.go New":              "the demonstration's own calendar",
	"bundles/backtest.go progress": "a share of the work: the branch's clock is not known here",
	"bundles/push.go push":         "how long a branch is waited for",
	"setup/tls.go Run":             "the name of a folder",
}

// TestBranchClock: a verb that reads the clock reads the branch's, or stands in the list with its reason.
func TestBranchClock(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range [...]string{"operator", "disk", "doctor", "setup", "bundles", "demo"} {
		list, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil || len(list) == 0 {
			t.Fatalf("%s: %d files, %v", room, len(list), err)
		}
		names = append(names, list...)
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
