package adminapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/gateway/problem"
)

// TestOutcome_English: nothing that the trail says of an error is a text for tills.
func TestOutcome_English(t *testing.T) {
	for _, c := range problem.All() {
		e := &refusal.Error{Code: c.Name, Message: "Texto para la caja", Err: errors.New("the cause")}
		if _, reason := outcome(new(fasthttp.RequestCtx), e); reason != c.Name+": "+c.Meaning.EN {
			t.Errorf("%s in the trail: %s", c.Name, reason)
		}
	}
	if _, reason := outcome(new(fasthttp.RequestCtx), &refusal.Error{Code: "UNAUTHORIZED",
		Message: "Falta el token"}); strings.Contains(reason, "Falta") {
		t.Error(reason)
	}
}

// TestDelivery_Idle: a retry or a forgetting that found nothing to do is not recorded as an act.
func TestDelivery_Idle(t *testing.T) {
	for n, want := range map[int]string{0: audit.Nothing, 2: audit.Done} {
		r := newRoutes(Options{})
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.SetBodyString(`{"codes":["3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01"]}`)
		_, err := r.settleDelivery(ctx, "retried", func(context.Context, dte.Code, bool) (int, error) { return n, nil })
		if got, reason := outcome(ctx, err); err != nil || got != want || reason != "" {
			t.Errorf("%d steps: %s %s %v", n, got, reason, err)
		}
	}
}

// TestDelivery_Fails: what could not be settled is not reported as done, and a bad list of codes is named.
func TestDelivery_Fails(t *testing.T) {
	r := newRoutes(Options{})
	const code = "3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01"
	broken := errors.New("broken")
	for body, want := range map[string]string{
		`{"codes":["` + code + `"]}`:     "broken",
		`{"codes":["` + code + `","x"]}`: "codes",
		`{"codes":[]}`:                   "The body must be",
		`{"codes":"x"}`:                  "The body must be",
	} {
		ctx, calls := new(fasthttp.RequestCtx), 0
		ctx.Request.SetBodyString(body)
		_, err := r.settleDelivery(ctx, "retried", func(context.Context, dte.Code, bool) (int, error) {
			if calls++; want == "broken" {
				return 1, broken
			}
			return 1, nil
		})
		var e *refusal.Error
		if errors.As(err, &e) && want != "broken" {
			if text := fmt.Sprint(problem.InEnglish(e).Message, e.Faults); !strings.Contains(text, want) {
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

// acting is a trail that remembers how much was asked of it.
type acting struct {
	Audit
	limit int
}

func (a *acting) Acts(limit int) ([]audit.Act, error) { a.limit = limit; return nil, nil }

// TestActs_Limit: the request says how many acts are shown, by default a hundred; a bad number is refused by its name.
func TestActs_Limit(t *testing.T) {
	for query, want := range map[string]int{"": 100, "limit=": 100, "limit=1": 1, "limit=10000": maxActs, "limit=0": 0,
		"limit=10001": 0, "limit=-1": 0, "limit=x": 0} {
		trail := &acting{}
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.SetRequestURI("/admin/audit?" + query)
		_, err := newRoutes(Options{Audit: trail, AdminToken: [32]byte{1}}).listActs(ctx)
		var e *refusal.Error
		if refused := errors.As(err, &e); trail.limit != want || refused != (want == 0) || refused &&
			e.Faults[0].Path != "limit" {
			t.Errorf("%q: %d acts, %v", query, trail.limit, err)
		}
	}
}

// TestDelivery_Archive: each document is settled as the request says, with its archived files or without them.
func TestDelivery_Archive(t *testing.T) {
	const one, two = "3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01", "3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F02"
	for member, want := range map[string]bool{"": false, `,"archive":false`: false, `,"archive":true`: true} {
		ctx, got := new(fasthttp.RequestCtx), ""
		ctx.Request.SetBodyString(`{"codes":["` + one + `","` + two + `"]` + member + `}`)
		a, err := newRoutes(Options{}).settleDelivery(ctx, "retried", func(_ context.Context, code dte.Code,
			archive bool) (int, error) {
			got += fmt.Sprintf("%s %t ", code, archive)
			return 2, nil
		})
		if err != nil || got != fmt.Sprintf("%s %t %s %t ", one, want, two, want) || fmt.Sprint(a) != "map[retried:4]" {
			t.Errorf("%s: settled %s, %v: %v", member, got, a, err)
		}
	}
}

// noted is a trail that keeps the last act as it began and as it ended.
type noted struct {
	Audit
	began, ended audit.Act
}

func (n *noted) Begin(_ context.Context, a audit.Act) (*audit.Open, error) {
	n.began = a
	return &audit.Open{Act: a}, nil
}

func (n *noted) End(_ context.Context, o *audit.Open) error { n.ended = o.Act; return nil }

// TestRecorded: the trail names who did what and how it ended; what was only tried is no act of that name.
func TestRecorded(t *testing.T) {
	for query, what := range map[string]string{"": "rules.push", "dry=1": "rules.push.dry", "dry=0": "rules.push",
		"who=ana&dry=true": "rules.push.dry"} {
		for outcome, err := range map[string]error{audit.Done: nil, audit.Failed: errors.New("disk"),
			audit.Refused: problem.ForOperator("NO_SUCH_RULE", "x")} {
			trail := &noted{}
			ctx := new(fasthttp.RequestCtx)
			ctx.Request.SetRequestURI("/admin/rules?" + query)
			push := func(ctx *fasthttp.RequestCtx) (any, error) {
				concerns(ctx, "dte01", "a rate")
				return nil, err
			}
			done := newRoutes(Options{Audit: trail}).recorded(ctx, route{act: "rules.push", handle: push})
			who := map[bool]string{true: "ana", false: "admin"}[strings.HasPrefix(query, "who")]
			if e := trail.ended; (done == nil) != (err == nil) || trail.began.What != what || e.What != what ||
				e.Who != who || e.Outcome != outcome || e.Target != "dte01" || e.Detail != "a rate" ||
				(e.Error == "") != (err == nil) {
				t.Errorf("%q, %s: %+v, %v", query, outcome, e, done)
			}
		}
	}
}

// TestDelivery_Most: one request settles a thousand documents, and no more.
func TestDelivery_Most(t *testing.T) {
	r := newRoutes(Options{})
	for n, want := range map[int]int{maxGivenUp: maxGivenUp, maxGivenUp + 1: 0} {
		ctx, calls := new(fasthttp.RequestCtx), 0
		ctx.Request.SetBodyString(`{"codes":[` + strings.Repeat(`"3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01",`, n-1) +
			`"3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01"]}`)
		_, err := r.settleDelivery(ctx, "retried", func(context.Context, dte.Code, bool) (int, error) {
			calls++
			return 1,
				nil
		})
		if calls != want || (err == nil) != (want > 0) {
			t.Errorf("of %d documents %d were settled: %v", n, calls, err)
		}
	}
}

// TestStep_Expired: the trail says of a step back to a rule whose dates are over that it was ordered so.
func TestStep_Expired(t *testing.T) {
	for expired, want := range map[string]string{"": "a wrong rate",
		"2026-11-15": "a wrong rate (expired on 2026-11-15, as ordered)"} {
		ctx := new(fasthttp.RequestCtx)
		ctx.Request.SetRequestURI("/admin/rules/rollback?reason=a+wrong+rate")
		ctx.Request.SetBodyString(`{"name":"dte01","schema":2,"version":"2.1.1","expired":true}`)
		_, err := stepRule(func(context.Context, rulestore.Target, rulestore.Order) (*rulestore.StepBack, error) {
			return &rulestore.StepBack{Expired: expired}, nil
		})(ctx)
		if err != nil || ctx.UserValue(actTarget) != "dte01 2.1.1" || ctx.UserValue(actDetail) != want {
			t.Errorf("%q: %v, %v, %v", expired, ctx.UserValue(actTarget), ctx.UserValue(actDetail), err)
		}
	}
}
