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

// boxClock is where dted means the box's clock, by file and function, and why. All else reads the branch's, config.Now: in a
// rehearsal of a later day the two differ.
var boxClock = map[string]string{
	"access/lan.go look":          "a certificate of TLS ends by the clock of those who connect",
	"access/lan.go renew":         "a certificate of TLS ends by the clock of those who connect",
	"box/clock.go newClock":       "the time that passes, which no setting of a clock alters",
	"box/disk.go newDisk":         "how long ago the disk was asked",
	"box/gate.go Admit":           "the chain's agent notes by the box's clock in which year it asked: see openFleet",
	"box/gate.go Run":             "how long ago MH was asked for the time",
	"box/pulse.go Run":            "how long a start takes",
	"config/open.go BoxAuthority": "a certificate of TLS ends by the clock of those who connect",
	"config/rehearsal.go Now":     "the branch's clock is made of it",
	"fleet.go openFleet":          "the centre compares what a box says with its own clock, and directors' orders end by it",
	"fleet.go openShipper":        "how long ago a piece was shipped, and the centre compares when",
	"askarchive.go newWitness":    "how long a sale waits",
}

// TestBranchClock: what reads the clock reads the branch's, or stands in the list with its reason. A clock that is handed on
// (Now: time.Now) is read too.
func TestBranchClock(t *testing.T) {
	var names []string
	for _, room := range [...]string{".", "access", "box", "config", "start"} {
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
			where := filepath.ToSlash(name)
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
