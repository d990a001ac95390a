package gateway

import (
	"context"
	"errors"
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
	"dtegate/engine/shelf"
	"dtegate/gateway/codes"
	"dtegate/gateway/problem"
)

// TestProblem_Spanish: what was written for operators never reaches a till: the list of codes speaks instead. What was written for tills
// reaches a till as it is.
func TestProblem_Spanish(t *testing.T) {
	for _, c := range codes.All() {
		e := &refusal.Error{Code: c.Name, Message: "The text for operators", Operator: true, RetryAfter: time.Second,
			Faults: []dte.Fault{{Path: "p", Code: c.Name, Message: "Another text"}, {Path: "q", Code: "OF_A_RULE", Message: "A third text"}}}
		for _, operator := range []bool{true, false} {
			e.Operator = operator
			ctx := new(fasthttp.RequestCtx)
			New(Options{Logger: slog.New(slog.DiscardHandler)}).refuse(ctx, "/dte/dte01", fmt.Errorf("issuing: %w", e))
			v, err := dte.Parse(ctx.Response.Body())
			if err != nil {
				t.Fatal(err)
			}
			want := []string{c.Meaning.ES, c.Meaning.ES, "La solicitud no se puede atender"}
			if !operator {
				want = []string{e.Message, e.Faults[0].Message, e.Faults[1].Message}
			}
			faults := v.Get("errors")
			got := []string{v.Get("message").Text(), faults.Index(0).Get("message").Text(), faults.Index(1).Get("message").Text()}
			if !slices.Equal(got, want) || v.Get("type").Text() != c.Name || faults.Index(1).Get("path").Text() != "q" || len(ctx.Response.Header.Peek("Retry-After")) == 0 {
				t.Errorf("%s: %s", c.Name, ctx.Response.Body())
			}
		}
		if e.Message != "The text for operators" || e.Faults[0].Message != "Another text" {
			t.Errorf("%s: the error itself has changed: %+v", c.Name, e)
		}
	}
}

// TestOperators_English: whatever the operators' listener refuses, it refuses in English.
func TestOperators_English(t *testing.T) {
	g := New(Options{AdminToken: [32]byte{1}})
	url := served(t, g.ServeOps)
	for _, r := range [][2]string{{"GET", "/nothing"}, {"PUT", "/status"}, {"POST", "/admin/contingency"}, {"GET", "/admin/tokens"}} {
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
		c, ok := codes.Find(v.Get("type").Text())
		if got := v.Get("message").Text(); !ok || got != c.Meaning.EN {
			t.Errorf("%s %s: %s", r[0], r[1], answer)
		}
	}
}

// TestOutcome_English: no text for tills is in what the trail says of an error.
func TestOutcome_English(t *testing.T) {
	for _, c := range codes.All() {
		e := &refusal.Error{Code: c.Name, Message: "Texto para la caja", Err: errors.New("the cause")}
		if _, reason := outcome(new(fasthttp.RequestCtx), e); reason != c.Name+": "+c.Meaning.EN {
			t.Errorf("%s in the trail: %s", c.Name, reason)
		}
	}
	if _, reason := outcome(new(fasthttp.RequestCtx), &problem.Problem{Status: http.StatusUnauthorized, Type: "UNAUTHORIZED", Message: "Falta el token"}); strings.Contains(reason, "Falta") {
		t.Error(reason)
	}
}

// TestGate_English: each error by which the box itself stops issuing has its own words in English, with the same facts.
func TestGate_English(t *testing.T) {
	files, err := filepath.Glob("../cmd/dted/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range append(files, "../engine/witness.go") {
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

// TestDelivery_Idle: a retry or a forgetting that found nothing to do is no act that was done.
func TestDelivery_Idle(t *testing.T) {
	for n, want := range map[int]string{0: audit.Nothing, 2: audit.Done} {
		r := deliveryRoutes{log: slog.New(slog.DiscardHandler)}
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.SetBodyString(`{"codes":["3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01"]}`)
		err := r.settleDelivery(ctx, "retried", func(context.Context, dte.Code, bool) (int, error) { return n, nil })
		if got, reason := outcome(ctx, err); err != nil || got != want || reason != "" {
			t.Errorf("%d steps: %s %s %v", n, got, reason, err)
		}
	}
}

// TestDelivery_Fails: what could not be settled is not told as done, and what is no code is named.
func TestDelivery_Fails(t *testing.T) {
	r := deliveryRoutes{log: slog.New(slog.DiscardHandler)}
	const code = "3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01"
	broken := errors.New("broken")
	for body, want := range map[string]string{
		`{"codes":["` + code + `"]}`:     "broken",
		`{"codes":["` + code + `","x"]}`: "codes",
		`{"codes":[]}`:                   "The body is",
		`{"codes":"x"}`:                  "The body is",
	} {
		ctx, calls := new(fasthttp.RequestCtx), 0
		ctx.Request.SetBodyString(body)
		err := r.settleDelivery(ctx, "retried", func(context.Context, dte.Code, bool) (int, error) {
			if calls++; want == "broken" {
				return 1, broken
			}
			return 1, nil
		})
		var p *problem.Problem
		if errors.As(err, &p) && want != "broken" {
			if text := fmt.Sprint(p.InEnglish().Message, p.Faults); !strings.Contains(text, want) {
				t.Errorf("%s: %s", body, text)
			}
		} else if !errors.Is(err, broken) || want != "broken" {
			t.Errorf("%s: %v", body, err)
		}
		if len(ctx.Response.Body()) > 0 {
			t.Errorf("%s is answered with %s", body, ctx.Response.Body())
		}
	}
}

// nameOf is the name of what a call calls, or a literal is of.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// acting is a trail that remembers how much was asked of it.
type acting struct {
	Audit
	limit int
}

func (a *acting) Acts(limit int) ([]audit.Act, error) { a.limit = limit; return nil, nil }

// TestActs_Limit: how many acts are shown is asked for, or is a hundred; what is no such number is refused by its name.
func TestActs_Limit(t *testing.T) {
	for query, want := range map[string]int{"": 100, "limit=": 100, "limit=1": 1, "limit=10000": maxActs, "limit=0": 0, "limit=10001": 0, "limit=-1": 0, "limit=x": 0} {
		trail := &acting{}
		g := New(Options{Audit: trail, AdminToken: [32]byte{1}, Logger: slog.New(slog.DiscardHandler)})
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.SetRequestURI("/admin/audit?" + query)
		err := (&operatorRoutes{front: g.front}).listActs(ctx)
		var p *problem.Problem
		if refused := errors.As(err, &p); trail.limit != want || refused != (want == 0) || refused && p.Faults[0].Path != "limit" {
			t.Errorf("%q: %d acts, %v", query, trail.limit, err)
		}
	}
}

// TestDelivery_Most: one request settles a thousand documents, and no more.
func TestDelivery_Most(t *testing.T) {
	r := deliveryRoutes{log: slog.New(slog.DiscardHandler)}
	for n, want := range map[int]int{maxGivenUp: maxGivenUp, maxGivenUp + 1: 0} {
		ctx, calls := new(fasthttp.RequestCtx), 0
		ctx.Request.SetBodyString(`{"codes":[` + strings.Repeat(`"3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01",`, n-1) + `"3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01"]}`)
		err := r.settleDelivery(ctx, "retried", func(context.Context, dte.Code, bool) (int, error) { calls++; return 1, nil })
		if calls != want || (err == nil) != (want > 0) {
			t.Errorf("of %d documents %d were settled: %v", n, calls, err)
		}
	}
}

// TestStep_Expired: the trail says of a step back to a rule whose dates are over that it was ordered so.
func TestStep_Expired(t *testing.T) {
	for expired, want := range map[string]string{"": "a wrong rate", "2026-11-15": "a wrong rate (expired on 2026-11-15, as ordered)"} {
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.SetRequestURI("/admin/rules/rollback?reason=a+wrong+rate")
		ctx.Request.SetBodyString(`{"name":"dte01","schema":2,"version":"2.1.1","expired":true}`)
		err := stepRule(ctx, func(context.Context, shelf.Target, shelf.Order) (*shelf.StepBack, error) {
			return &shelf.StepBack{Expired: expired}, nil
		})
		if err != nil || ctx.UserValue(actTarget) != "dte01 2.1.1" || ctx.UserValue(actDetail) != want {
			t.Errorf("%q: %v, %v, %v", expired, ctx.UserValue(actTarget), ctx.UserValue(actDetail), err)
		}
	}
}
