package adminapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// Rules is what an operator can do with the rules; see package shelf.
type Rules interface {
	Activate(context.Context, []byte, rulestore.Order) (*rulestore.Activation, error)
	Rollback(context.Context, rulestore.Target, rulestore.Order) (*rulestore.StepBack, error)
	Reinstate(context.Context, rulestore.Target, rulestore.Order) (*rulestore.StepBack, error)
	Cancel(context.Context, rulestore.Target, rulestore.Order) (*rulestore.StepBack, error)
	Acknowledge(context.Context, rulestore.Order) (*rulestore.StepBack, error)
	List() *rulestore.Listing
	Shadow(ctx context.Context, bundle []byte, documents int, long time.Duration) (*rulestore.Activation, error)
	Shadowed() *rulestore.ShadowResult
	StopShadow()
	Backtest(context.Context, []byte, rulestore.DocumentPeriod, rulestore.BacktestReport) (*rulestore.BacktestTotals,
		*rulestore.Activation, error)
	Replay(context.Context, dte.Code) (*rulestore.Comparison, error)
	ReplayPeriod(context.Context, rulestore.DocumentPeriod, func(*rulestore.Comparison) error) error
	Documents(context.Context, rulestore.Made) (*rulestore.MadePage, error)
}

// MaxBundle is the largest rule bundle that is accepted, in bytes.
const MaxBundle = 16 << 20

// order is who asks and why, of the query.
func order(ctx *fasthttp.RequestCtx) rulestore.Order {
	q := ctx.QueryArgs()
	o := rulestore.Order{Who: string(q.Peek("who")), Reason: string(q.Peek("reason")), Dry: q.GetBool("dry"),
		FewerCases: q.GetBool("fewer_cases")}
	if o.Who == "" {
		o.Who = ctx.RemoteIP().String()
	}
	return o
}

// ruleRoutes answers /admin/rules.
type ruleRoutes struct {
	rules   Rules
	now     func() time.Time
	serving context.Context // ends when the gateway takes no more requests
}

// pushRule answers POST /admin/rules with the steps that the bundle in the body went through: 200, or 422 when one of
// them failed. ?reason= is required, unless ?dry=1: that changes nothing. With ?fewer_cases=1 the bundle may carry
// fewer golden cases than the bundle that it replaces. What was begun is finished, whether the caller waits or not.
func (r ruleRoutes) pushRule(ctx *fasthttp.RequestCtx) error {
	o := order(ctx)
	if o.Reason == "" && !o.Dry {
		return noReason()
	}
	a, err := r.rules.Activate(context.Background(), ctx.PostBody(), o)
	if err != nil {
		return err
	}
	return showActivation(ctx, a)
}

func showActivation(ctx *fasthttp.RequestCtx, a *rulestore.Activation) error {
	detail := string(ctx.QueryArgs().Peek("reason"))
	if a.Refused != "" {
		detail = strings.TrimSpace(detail + " (" + a.Refused + ": " + a.Error + ")")
	}
	concerns(ctx, a.Rule.Name+" "+a.Rule.Version, detail)
	status := fasthttp.StatusOK
	if a.Refused != "" {
		status = fasthttp.StatusUnprocessableEntity
	}
	return reply.Show(ctx, status, a)
}

// listRules answers GET /admin/rules: every bundle, and where it is.
func (r ruleRoutes) listRules(ctx *fasthttp.RequestCtx) error {
	return reply.Show(ctx, fasthttp.StatusOK, r.rules.List())
}

// rollbackRule answers POST /admin/rules/rollback {"name","schema","version","expired"}: expired true takes the branch
// also to a bundle whose own dates are over.
func (r ruleRoutes) rollbackRule(ctx *fasthttp.RequestCtx) error {
	return stepRule(ctx, r.rules.Rollback)
}

// reinstateRule answers POST /admin/rules/reinstate {"name","schema","version"}: a bundle that the branch had left by
// itself is put back. ?reason= is required.
func (r ruleRoutes) reinstateRule(ctx *fasthttp.RequestCtx) error {
	return stepRule(ctx, r.rules.Reinstate)
}

// cancelRule answers POST /admin/rules/cancel {"name","schema","version"}: a bundle that is to come is taken off.
// ?reason= is required.
func (r ruleRoutes) cancelRule(ctx *fasthttp.RequestCtx) error {
	return stepRule(ctx, r.rules.Cancel)
}

// acknowledgeRule answers POST /admin/rules/acknowledge: somebody knows of the return that the branch made by itself.
// ?reason= is required.
func (r ruleRoutes) acknowledgeRule(ctx *fasthttp.RequestCtx) error {
	concerns(ctx, "", string(ctx.QueryArgs().Peek("reason")))
	back, err := r.rules.Acknowledge(context.Background(), order(ctx))
	switch {
	case errors.Is(err, rulestore.ErrReason):
		return noReason()
	case errors.Is(err, rulestore.ErrNothingToAcknowledge):
		return problem.ForOperator(fasthttp.StatusConflict, "NO_SUCH_RULE", err.Error())
	case err != nil:
		return err
	}
	return reply.Show(ctx, fasthttp.StatusOK, back)
}

func stepRule(ctx *fasthttp.RequestCtx, step func(context.Context, rulestore.Target,
	rulestore.Order) (*rulestore.StepBack, error)) error {
	var t rulestore.Target
	if err := json.Unmarshal(ctx.PostBody(), &t); err != nil {
		return problem.ForOperator(fasthttp.StatusBadRequest, refusal.CodeValidation,
			`The body is {"name","schema","version","expired"}: `+err.Error())
	}
	concerns(ctx, t.Name+" "+t.Version, string(ctx.QueryArgs().Peek("reason")))
	back, err := step(context.Background(), t, order(ctx))
	switch {
	case errors.Is(err, rulestore.ErrReason):
		return noReason()
	case errors.Is(err, rulestore.ErrExpired):
		return problem.ForOperator(fasthttp.StatusConflict, "RULE_EXPIRED", err.Error())
	case errors.Is(err, rulestore.ErrNoSuchRule):
		return problem.ForOperator(fasthttp.StatusConflict, "NO_SUCH_RULE", err.Error())
	case err != nil:
		return err
	}
	if back.Expired != "" {
		concerns(ctx, t.Name+" "+t.Version, strings.TrimSpace(string(ctx.QueryArgs().Peek("reason"))+" (expired on "+
			back.Expired+", as ordered)"))
	}
	return reply.Show(ctx, fasthttp.StatusOK, back)
}

// shadowRule answers POST /admin/rules/shadow?documents=1000&for=24h: the bundle in the body computes live sales too.
func (r ruleRoutes) shadowRule(ctx *fasthttp.RequestCtx) error {
	documents, long := 1000, 24*time.Hour
	var err error
	if v := string(ctx.QueryArgs().Peek("documents")); v != "" {
		if documents, err = strconv.Atoi(v); err != nil || documents < 1 {
			return problem.WrongQuery("documents", "a whole number from 1 on")
		}
	}
	if v := string(ctx.QueryArgs().Peek("for")); v != "" {
		if long, err = time.ParseDuration(v); err != nil || long <= 0 || long > 31*24*time.Hour {
			return problem.WrongQuery("for", "a time like 24h, at most 744h")
		}
	}
	a, err := r.rules.Shadow(context.Background(), ctx.PostBody(), documents, long)
	if err != nil {
		return err
	}
	return showActivation(ctx, a)
}

// noReason refuses a change of the shelf for which nobody says why.
func noReason() error { return problem.WrongQuery("reason", "why, for the branch's record") }

// showShadow answers GET /admin/rules/shadow; stopShadow DELETE.
func (r ruleRoutes) showShadow(ctx *fasthttp.RequestCtx) error {
	seen := r.rules.Shadowed()
	if seen == nil {
		return problem.ForOperator(fasthttp.StatusNotFound, "NOT_FOUND", "No rule has been a shadow since the start")
	}
	return reply.Show(ctx, fasthttp.StatusOK, seen)
}

func (r ruleRoutes) stopShadow(ctx *fasthttp.RequestCtx) error {
	r.rules.StopShadow()
	return r.showShadow(ctx)
}

func period(ctx *fasthttp.RequestCtx, today string) (rulestore.DocumentPeriod, error) {
	p := rulestore.DocumentPeriod{From: string(ctx.QueryArgs().Peek("from")),
		To: cmp.Or(string(ctx.QueryArgs().Peek("to")), today)}
	if err := p.Check(); err != nil {
		return p, problem.WrongQuery("from, to", err.Error())
	}
	return p, nil
}

// Members of a line of a stream: what differs, how far it is, what came of it, or why it ended.
type (
	streamProgress struct {
		Documents int    `json:"documents"`
		Day       string `json:"day,omitempty"`
		Of        int    `json:"of,omitempty"`
	}
	streamLine struct {
		Differs  *rulestore.Comparison     `json:"differs,omitempty"`
		Progress *streamProgress           `json:"progress,omitempty"`
		Totals   *rulestore.BacktestTotals `json:"totals,omitempty"`
		Replayed map[string]int            `json:"replayed,omitempty"`
		Refused  *rulestore.Activation     `json:"refused,omitempty"`
		Found    *outbox.ArchiveFinding    `json:"found,omitempty"`
		Checked  *outbox.ArchiveTotals     `json:"checked,omitempty"`
		Error    string                    `json:"error,omitempty"`
	}
)

// backtestRule answers POST /admin/rules/backtest?from=&to= (default: today, by the branch's clock) with a JSON object
// a line: {"differs"}, {"progress"}, and at last {"totals"}, {"refused"} or {"error"}. It ends when the caller goes
// away.
func (r ruleRoutes) backtestRule(ctx *fasthttp.RequestCtx) error {
	p, err := period(ctx, dte.Date(r.now()))
	if err != nil {
		return err
	}
	bundle := append([]byte(nil), ctx.PostBody()...) // the request is over before the stream is
	stream(r.serving, ctx, func(ctx context.Context, send func(streamLine) error) error {
		totals, a, err := r.rules.Backtest(ctx, bundle, p, rulestore.BacktestReport{
			Differs: func(c *rulestore.Comparison) error { return send(streamLine{Differs: c}) },
			Progress: func(n int, day string) error {
				return send(streamLine{Progress: &streamProgress{Documents: n, Day: day}})
			}})
		switch {
		case err != nil:
			return err
		case totals == nil:
			return send(streamLine{Refused: a})
		}
		return send(streamLine{Totals: totals})
	})
	return nil
}

// replayRule answers GET /admin/rules/replay?code= with the comparison, or ?from=&to= with a stream as of a backtest.
func (r ruleRoutes) replayRule(ctx *fasthttp.RequestCtx) error {
	if text := string(ctx.QueryArgs().Peek("code")); text != "" {
		code, err := dte.ParseCode(text)
		if err != nil {
			return problem.WrongQuery("code", err.Error())
		}
		c, err := r.rules.Replay(context.Background(), code)
		if err != nil {
			return err
		}
		return reply.Show(ctx, fasthttp.StatusOK, c)
	}
	p, err := period(ctx, dte.Date(r.now()))
	if err != nil {
		return err
	}
	stream(r.serving, ctx, func(ctx context.Context, send func(streamLine) error) error {
		results, n := make(map[string]int), 0
		err := r.rules.ReplayPeriod(ctx, p, func(c *rulestore.Comparison) error {
			results[c.Result]++
			if n++; n%1000 == 0 {
				if err := send(streamLine{Progress: &streamProgress{Documents: n, Day: c.Date}}); err != nil {
					return err
				}
			}
			if c.Result == "identical" {
				return nil
			}
			return send(streamLine{Differs: c})
		})
		if err != nil {
			return err
		}
		return send(streamLine{Replayed: results})
	})
	return nil
}

// ruleDocuments answers GET /admin/rules/documents?rule=&name=&from=&to=&after=&limit= with a page of the documents
// that a bundle computed: rule is its version, or the first digits of its digest.
func (r ruleRoutes) ruleDocuments(ctx *fasthttp.RequestCtx) error {
	q := ctx.QueryArgs()
	m := rulestore.Made{Rule: string(q.Peek("rule")), Name: string(q.Peek("name")), From: string(q.Peek("from")),
		To: string(q.Peek("to")), Limit: 500}
	var err error
	if v := string(q.Peek("after")); v != "" {
		if m.After, err = strconv.ParseUint(v, 10, 63); err != nil {
			return problem.WrongQuery("after", "the member next of the page before")
		}
	}
	if v := string(q.Peek("limit")); v != "" {
		if m.Limit, err = strconv.Atoi(v); err != nil {
			return problem.WrongQuery("limit", "a whole number from 1 to 5000")
		}
	}
	if err := m.Check(); err != nil {
		return problem.WrongQuery("rule, from, to, limit", err.Error())
	}
	page, err := r.rules.Documents(r.serving, m)
	if err != nil {
		return err
	}
	return reply.Show(ctx, fasthttp.StatusOK, page)
}

// stream answers with lines for as long as work sends them; a caller who takes none for a minute is given up.
func stream(serving context.Context, ctx *fasthttp.RequestCtx, work func(context.Context,
	func(streamLine) error) error) {
	conn := ctx.Conn()
	ctx.SetContentType("application/x-ndjson")
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		send := func(l streamLine) error { return writeLine(conn, w, l) }
		if err := work(serving, send); err != nil {
			_ = send(streamLine{Error: err.Error()}) // nobody may be there to read it
		}
	})
}

func writeLine(conn net.Conn, w *bufio.Writer, l streamLine) error {
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
		return nil // many come at once
	}
	return w.Flush()
}
