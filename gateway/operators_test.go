package gateway

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/problem"
)

// TestProblem_Spanish: a text written for operators never reaches a till: the text of the list of codes replaces it. A
// text written for tills reaches a till unchanged.
func TestProblem_Spanish(t *testing.T) {
	for _, c := range problem.All() {
		e := &refusal.Error{Code: c.Name, Message: "The text for operators", Operator: true, RetryAfter: time.Second,
			Faults: []dte.Fault{{Path: "p", Code: c.Name, Message: "Another text"}, {Path: "q", Code: "OF_A_RULE",
				Message: "A third text"}}}
		for _, operator := range []bool{true, false} {
			e.Operator = operator
			ctx := new(fasthttp.RequestCtx)
			New(Options{Logger: slog.New(slog.DiscardHandler)}).refuse(ctx, "/dte/dte01", fmt.Errorf("issuing: %w", e))
			v, err := dte.Parse(ctx.Response.Body())
			if err != nil {
				t.Fatal(err)
			}
			const otherwise = "La solicitud no se puede atender"
			spanish := cmp.Or(c.Meaning.ES, otherwise) // only operators meet the codes without Spanish texts
			want := []string{spanish, spanish, otherwise}
			if !operator {
				want = []string{e.Message, e.Faults[0].Message, e.Faults[1].Message}
			}
			faults := v.Get("errors")
			got := []string{v.Get("message").Text(), faults.Index(0).Get("message").Text(),
				faults.Index(1).Get("message").Text()}
			if !slices.Equal(got, want) || v.Get("type").Text() != c.Name ||
				faults.Index(1).Get("path").Text() != "q" || len(ctx.Response.Header.Peek("Retry-After")) == 0 {
				t.Errorf("%s: %s", c.Name, ctx.Response.Body())
			}
		}
		if e.Message != "The text for operators" || e.Faults[0].Message != "Another text" {
			t.Errorf("%s: the error itself has changed: %+v", c.Name, e)
		}
	}
}

// recorder is a trail that passes acts on.
type recorder struct {
	adminapi.Audit
	acts chan audit.Act
}

func (r recorder) Record(_ context.Context, a audit.Act) error { r.acts <- a; return nil }

// TestOperators_Logins: who sends a wrong admin token is in the trail at once.
func TestOperators_Logins(t *testing.T) {
	acts := make(chan audit.Act, 1)
	g := New(Options{Now: time.Now, Operators: adminapi.Options{AdminToken: [32]byte{1}, Audit: recorder{acts: acts}}})
	req, err := http.NewRequest("GET", served(t, g.ServeOps)+"/admin/tokens", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer wrong")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	select {
	case a := <-acts:
		if a.What != "admin.login" || a.From != "127.0.0.1" || a.Outcome != audit.Refused {
			t.Errorf("%+v", a)
		}
	case <-time.After(10 * time.Second):
		t.Error("it is not in the trail")
	}
}

// TestOperators_English: whatever the operators' listener refuses, it refuses in English.
func TestOperators_English(t *testing.T) {
	g := New(Options{Operators: adminapi.Options{AdminToken: [32]byte{1}}})
	url := served(t, g.ServeOps)
	for _, r := range [][2]string{{"GET", "/nothing"}, {"PUT", "/status"}, {"POST", "/admin/contingency"},
		{"GET", "/admin/tokens"}} {
		req, err := http.NewRequest(r[0], url+r[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		v, err := dte.Parse(answer)
		if err != nil {
			t.Fatalf("%s %s: %s", r[0], r[1], answer)
		}
		c, ok := problem.Find(v.Get("type").Text())
		if got := v.Get("message").Text(); !ok || got != c.Meaning.EN {
			t.Errorf("%s %s: %s", r[0], r[1], answer)
		}
	}
}

// TestGate_English: each error by which the box itself stops issuing has English words of its own, with the same facts.
func TestGate_English(t *testing.T) {
	var files []string
	for _, room := range [...]string{"../cmd/dted/*.go", "../cmd/dted/health/*.go", "../engine/documents/numberguard.go"} {
		list, err := filepath.Glob(room)
		if err != nil || len(list) == 0 {
			t.Fatalf("%s: %d files, %v", room, len(list), err)
		}
		files = append(files, list...)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CompositeLit)
			if !ok || c.Type == nil || nameOf(c.Type) != "Error" {
				return true
			}
			found++
			members := make(map[string]bool)
			for _, e := range c.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					members[nameOf(kv.Key)] = true
				}
			}
			if !members["Operator"] && !members["English"] {
				t.Errorf("%s: an error without English", set.Position(c.Pos()))
			}
			return true
		})
	}
	if found < 5 {
		t.Errorf("%d errors were found", found)
	}
}

// nameOf is the name of a call's function, or of a literal's type.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
