package adminapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/rulestore"
	"dtegate/gateway/problem"
	"dtegate/storage"
)

// MaxBundle is the largest rule bundle that is accepted, in bytes.
const MaxBundle = 16 << 20

func order(ctx *fasthttp.RequestCtx) rulestore.Order {
	q := ctx.QueryArgs()
	return rulestore.Order{Who: cmp.Or(text(ctx, "who"), ctx.RemoteIP().String()), Reason: text(ctx, "reason"),
		Dry: q.GetBool("dry"), FewerCases: q.GetBool("fewer_cases")}
}

// pushRule answers POST /admin/rules: it activates the bundle in the body, and answers with the steps of the
// activation: 200, or 422 if a step failed. ?dry=1 changes nothing; otherwise ?reason= is required. ?fewer_cases=1
// permits fewer golden cases than the predecessor has. An activation continues if the caller hangs up.
func (o *Routes) pushRule(ctx *fasthttp.RequestCtx) (any, error) {
	by := order(ctx)
	if by.Reason == "" && !by.Dry {
		return nil, rulestore.ErrReason
	}
	return activated(ctx)(o.Rules.Activate(context.Background(), ctx.PostBody(), by))
}

// activated returns a function that makes the answer from the results of Activate or Shadow, and describes the act.
func activated(ctx *fasthttp.RequestCtx) func(*rulestore.Activation, error) (any, error) {
	return func(a *rulestore.Activation, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		detail := text(ctx, "reason")
		if a.Refused != "" {
			detail = strings.TrimSpace(detail + " (" + a.Refused + ": " + a.Error + ")")
			ctx.SetStatusCode(fasthttp.StatusUnprocessableEntity)
		}
		concerns(ctx, a.Rule.Name+" "+a.Rule.Version, detail)
		return a, nil
	}
}

func (o *Routes) listRules(*fasthttp.RequestCtx) (any, error) { return o.Rules.List(), nil }

// stepRule returns the handler of POST /admin/rules/rollback, reinstate and cancel
// {"name","schema","version","expired"}; ?reason= is required. expired, only for rollback, permits a return to a bundle
// whose last day has passed.
func stepRule(step func(context.Context, rulestore.Target, rulestore.Order) (*rulestore.StepBack,
	error)) func(*fasthttp.RequestCtx) (any, error) {
	return func(ctx *fasthttp.RequestCtx) (any, error) {
		t, err := asked[rulestore.Target](ctx, `{"name","schema","version","expired"}`)
		if err != nil {
			return nil, err
		}
		concerns(ctx, t.Name+" "+t.Version, text(ctx, "reason"))
		back, err := step(context.Background(), t, order(ctx))
		if err == nil && back.Expired != "" {
			concerns(ctx, t.Name+" "+t.Version, strings.TrimSpace(text(ctx, "reason")+" (expired on "+back.Expired+
				", as ordered)"))
		}
		return back, err
	}
}

// acknowledgeRule answers POST /admin/rules/acknowledge: a person accepts an automatic return to an earlier bundle.
// ?reason= is required.
func (o *Routes) acknowledgeRule(ctx *fasthttp.RequestCtx) (any, error) {
	concerns(ctx, "", text(ctx, "reason"))
	return o.Rules.Acknowledge(context.Background(), order(ctx))
}

// shadowRule answers POST /admin/rules/shadow?documents=1000&for=24h: the bundle in the body shadows live sales.
func (o *Routes) shadowRule(ctx *fasthttp.RequestCtx) (any, error) {
	documents, err := number(ctx, "documents", 1000, 1, math.MaxInt)
	if err != nil {
		return nil, err
	}
	long, err := time.ParseDuration(cmp.Or(text(ctx, "for"), "24h"))
	if err != nil || long <= 0 || long > 31*24*time.Hour {
		return nil, problem.WrongQuery("for", "a time like 24h, at most 744h")
	}
	return activated(ctx)(o.Rules.Shadow(context.Background(), ctx.PostBody(), documents, long))
}

// showShadow answers GET /admin/rules/shadow, and stopShadow its DELETE, with the shadow's results.
func (o *Routes) showShadow(*fasthttp.RequestCtx) (any, error) {
	if seen := o.Rules.Shadowed(); seen != nil {
		return seen, nil
	}
	return nil, problem.ForOperator("NOT_FOUND", "No rule has been a shadow since the start")
}

func (o *Routes) stopShadow(ctx *fasthttp.RequestCtx) (any, error) {
	o.Rules.StopShadow()
	return o.showShadow(ctx)
}

func (o *Routes) period(ctx *fasthttp.RequestCtx) (rulestore.DocumentPeriod, error) {
	p := rulestore.DocumentPeriod{From: text(ctx, "from"), To: cmp.Or(text(ctx, "to"), dte.Date(o.front.Now()))}
	if err := p.Check(); err != nil {
		return p, problem.WrongQuery("from, to", err.Error())
	}
	return p, nil
}

// Line is one line of a streamed answer: a finding, the progress, the result, or the error that ended the stream.
type Line struct {
	Differs  *rulestore.Comparison     `json:"differs,omitempty"`
	Progress *Progress                 `json:"progress,omitempty"`
	Totals   *rulestore.BacktestTotals `json:"totals,omitempty"`
	Replayed map[string]int            `json:"replayed,omitempty"`
	Refused  *rulestore.Activation     `json:"refused,omitempty"`
	Found    *outbox.ArchiveFinding    `json:"found,omitempty"`
	Checked  *outbox.ArchiveTotals     `json:"checked,omitempty"`
	Backup   *storage.Backup           `json:"backup,omitempty"`
	Error    string                    `json:"error,omitempty"`
}

// Progress is the number of documents so far (in a check of the archive: of objects; in a backup: of bytes), with the
// day of the latest document or the total number (Of).
type Progress struct {
	Documents int    `json:"documents"`
	Day       string `json:"day,omitempty"`
	Of        int    `json:"of,omitempty"`
}

// backtestRule answers POST /admin/rules/backtest?from=&to= (default of to: today) with a stream of lines {"differs"}
// and {"progress"}, and a last line {"totals"}, {"refused"} or {"error"}. The stream ends when the caller hangs up.
func (o *Routes) backtestRule(ctx *fasthttp.RequestCtx) (any, error) {
	p, err := o.period(ctx)
	if err != nil {
		return nil, err
	}
	bundle := append([]byte(nil), ctx.PostBody()...) // the request ends before the stream
	return o.stream(ctx, func(ctx context.Context, send func(Line) error) error {
		totals, a, err := o.Rules.Backtest(ctx, bundle, p, rulestore.BacktestReport{
			Differs: func(c *rulestore.Comparison) error { return send(Line{Differs: c}) },
			Progress: func(n int, day string) error {
				return send(Line{Progress: &Progress{Documents: n, Day: day}})
			}})
		switch {
		case err != nil:
			return err
		case totals == nil:
			return send(Line{Refused: a})
		}
		return send(Line{Totals: totals})
	})
}

// replayRule answers GET /admin/rules/replay: with ?code=, a comparison; with ?from=&to=, a stream like backtestRule's.
func (o *Routes) replayRule(ctx *fasthttp.RequestCtx) (any, error) {
	if text(ctx, "code") != "" {
		code, err := code(ctx)
		if err != nil {
			return nil, err
		}
		return o.Rules.Replay(context.Background(), code)
	}
	p, err := o.period(ctx)
	if err != nil {
		return nil, err
	}
	return o.stream(ctx, func(ctx context.Context, send func(Line) error) error {
		results, n := make(map[string]int), 0
		err := o.Rules.ReplayPeriod(ctx, p, func(c *rulestore.Comparison) error {
			results[c.Result]++
			if n++; n%1000 == 0 {
				if err := send(Line{Progress: &Progress{Documents: n, Day: c.Date}}); err != nil {
					return err
				}
			}
			if c.Result == rulestore.MadeSame {
				return nil
			}
			return send(Line{Differs: c})
		})
		if err != nil {
			return err
		}
		return send(Line{Replayed: results})
	})
}

// ruleDocuments answers GET /admin/rules/documents?rule=&name=&from=&to=&after=&limit= with a page of the documents
// that a bundle computed. rule is the bundle's version, or the first digits of its digest.
func (o *Routes) ruleDocuments(ctx *fasthttp.RequestCtx) (any, error) {
	m := rulestore.Made{Rule: text(ctx, "rule"), Name: text(ctx, "name"), From: text(ctx, "from"), To: text(ctx, "to")}
	after, err := number(ctx, "after", 0, 0, math.MaxInt)
	if err != nil {
		return nil, err
	}
	if m.Limit, err = number(ctx, "limit", 500, 1, 5000); err != nil {
		return nil, err
	}
	m.After = uint64(after)
	if err := m.Check(); err != nil {
		return nil, problem.WrongQuery("rule, from, to, limit", err.Error())
	}
	return o.Rules.Documents(o.front.Serving, m)
}

// stream answers with the lines that work sends. It ends early if the caller reads nothing for a minute or the gateway
// stops.
func (o *Routes) stream(ctx *fasthttp.RequestCtx, work func(context.Context, func(Line) error) error) (any, error) {
	conn := ctx.Conn()
	ctx.SetContentType("application/x-ndjson")
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		send := func(l Line) error { return writeLine(conn, w, l) }
		if err := work(o.front.Serving, send); err != nil {
			_ = send(Line{Error: err.Error()}) // the caller may be gone
		}
	})
	return nil, nil
}

func writeLine(conn net.Conn, w *bufio.Writer, l Line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encoding a line: %w", err)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return err
	}
	if l.Differs != nil {
		return nil // there may be many: the writer flushes only a full buffer
	}
	return w.Flush()
}
