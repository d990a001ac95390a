package adminapi

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/books"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// recallDocument answers POST /admin/invalidation?code=: it invalidates a document, and answers with the outcome. The
// body of the request is that of the tills' route. With ?again=1 it sends another event if MH refused the first.
func (o *Routes) recallDocument(ctx *fasthttp.RequestCtx) (any, error) {
	again := ctx.QueryArgs().GetBool("again")
	return o.withdraw(ctx, func(ctx context.Context, req engine.InvalidationRequest) (*engine.Appraisal, error) {
		return o.Engine.Recall(ctx, req, again)
	})
}

// appraiseRecall answers POST /admin/invalidation/check?code= with the outcome that an invalidation would have.
func (o *Routes) appraiseRecall(ctx *fasthttp.RequestCtx) (any, error) {
	return o.withdraw(ctx, o.Engine.Appraise)
}

func (o *Routes) withdraw(ctx *fasthttp.RequestCtx, do func(context.Context,
	engine.InvalidationRequest) (*engine.Appraisal, error)) (any, error) {
	code, err := code(ctx)
	if err != nil {
		return nil, err
	}
	v, err := reply.Body(ctx)
	if err != nil {
		return nil, err
	}
	req, d := form.Invalidation(v)
	if len(d.Faults) > 0 {
		return nil, d.Refusal()
	}
	concerns(ctx, code.String(), req.Reason)
	req.Code, req.Caller = code, record.Caller{Operator: true, From: ctx.RemoteIP().String()}
	deadline, cancel := context.WithTimeout(context.Background(), o.front.Deadline)
	defer cancel()
	a, err := do(deadline, req)
	if err != nil {
		return nil, problem.Renamed(err, form.OfInvalidation)
	}
	if a.Verdict != engine.RecallInvalidated {
		concerns(ctx, code.String(), req.Reason+" ("+a.Verdict+")")
	}
	a.Faults = problem.InEnglish(&refusal.Error{Faults: form.OfInvalidation(a.Faults)}).Faults
	return a, nil
}

// declare answers POST /admin/contingency: an operator declares a contingency, with cause and reason.
func (o *Routes) declare(ctx *fasthttp.RequestCtx) (any, error) {
	v, err := reply.Body(ctx)
	if err != nil {
		return nil, err
	}
	cause, reason, d := form.Declaration(v)
	if len(d.Faults) > 0 {
		return nil, d.Refusal()
	}
	concerns(ctx, "cause "+strconv.FormatInt(cause, 10), reason)
	return o.statusAfter(o.Engine.Contingency().Declare(context.Background(), cause, reason))
}

// lift answers DELETE /admin/contingency: it ends the declaration. The contingency ends when MH answers.
func (o *Routes) lift(*fasthttp.RequestCtx) (any, error) {
	return o.statusAfter(o.Engine.Contingency().Lift(context.Background()))
}

func (o *Routes) statusAfter(err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return o.Status(), nil
}

// technicalReport answers GET /admin/contingency/report with the records' data for MH's technical report.
func (o *Routes) technicalReport(*fasthttp.RequestCtx) (any, error) {
	return o.Engine.Contingency().TechnicalReport(context.Background())
}

// noteTechnicalReport answers POST /admin/contingency/report: the operator confirms that MH has the report.
func (o *Routes) noteTechnicalReport(ctx *fasthttp.RequestCtx) (any, error) {
	v, err := reply.Body(ctx)
	if err != nil {
		return nil, err
	}
	reference, d := form.ReportNote(v)
	if len(d.Faults) > 0 {
		return nil, d.Refusal()
	}
	concerns(ctx, "technical report", reference)
	return o.statusAfter(o.Engine.Contingency().NoteTechnicalReport(context.Background(), reference))
}

// maxGivenUp limits the given-up deliveries in an answer, and the documents to retry or forget in a request.
const maxGivenUp = 1000

// GivenUp is the answer of GET /admin/delivery.
type GivenUp struct {
	Failures []outbox.Failure `json:"failures"`
}

func (o *Routes) showGivenUp(*fasthttp.RequestCtx) (any, error) {
	list, err := o.Engine.Outbox().GivenUp(maxGivenUp)
	return GivenUp{list}, err
}

// retryDelivery answers POST /admin/delivery/retry {"codes":[…],"archive":false}: it retries the given-up deliveries of
// the documents. With archive, it also archives again the files that the archive has lost.
func (o *Routes) retryDelivery(ctx *fasthttp.RequestCtx) (any, error) {
	return o.settleDelivery(ctx, "retried", o.Engine.Outbox().Retry)
}

// forgetDelivery answers POST /admin/delivery/forget {"codes":[…]}: it removes the documents' given-up deliveries.
func (o *Routes) forgetDelivery(ctx *fasthttp.RequestCtx) (any, error) {
	return o.settleDelivery(ctx, "forgotten", func(ctx context.Context, code dte.Code, _ bool) (int, error) {
		return o.Engine.Outbox().Forget(ctx, code)
	})
}

func (o *Routes) settleDelivery(ctx *fasthttp.RequestCtx, done string, settle func(context.Context, dte.Code,
	bool) (int, error)) (any, error) {
	const form = `{"codes":[…]}`
	given, err := asked[struct {
		Codes   []string
		Archive bool
	}](ctx, form)
	if err != nil {
		return nil, err
	}
	if len(given.Codes) == 0 || len(given.Codes) > maxGivenUp {
		return nil, wrongBody(form, "1 to "+strconv.Itoa(maxGivenUp)+" codes")
	}
	concerns(ctx, strings.Join(given.Codes, " "), "")
	total := 0
	for _, text := range given.Codes {
		code, err := dte.ParseCode(text)
		if err != nil {
			return nil, problem.WrongQuery("codes", err.Error())
		}
		n, err := settle(context.Background(), code, given.Archive)
		if err != nil {
			return nil, err
		}
		total += n
	}
	ctx.SetUserValue(actIdle, total == 0)
	o.front.Logger.Info("delivery settled", "what", done, "codes", len(given.Codes), "first", given.Codes[0], "steps",
		total)
	return map[string]int{done: total}, nil
}

// checkArchive answers GET /admin/archive/check?read=1&shared=1 with a stream of lines {"found"} and {"progress"}, and
// a last line {"checked"} or {"error"}.
func (o *Routes) checkArchive(ctx *fasthttp.RequestCtx) (any, error) {
	c := &outbox.ArchiveCheck{Read: ctx.QueryArgs().GetBool("read"), Shared: ctx.QueryArgs().GetBool("shared")}
	return o.stream(ctx, func(ctx context.Context, send func(Line) error) error {
		c.Found = func(f outbox.ArchiveFinding) error { return send(Line{Found: &f}) }
		c.Progress = func(done, total int64) error {
			return send(Line{Progress: &Progress{Documents: int(done), Of: int(total)}})
		}
		totals, err := o.Engine.Outbox().CheckArchive(ctx, c)
		if err != nil {
			return err
		}
		return send(Line{Checked: totals})
	})
}

// monthPage answers GET /admin/books?month=2026-11&after=0 with one page of the month's documents, a few MiB at most,
// and GET /admin/books?code=… with one document. Page by page, a large month occupies neither a connection nor memory
// for long.
func (o *Routes) monthPage(ctx *fasthttp.RequestCtx) (any, error) {
	if text(ctx, "code") != "" {
		code, err := code(ctx)
		if err != nil {
			return nil, err
		}
		d, err := o.Books.Document(code)
		if err != nil {
			return nil, fmt.Errorf("document %s: %w", code, err)
		}
		return &documents.MonthPage{Documents: []books.Document{*d}, Done: 1, Total: 1}, nil
	}
	after, err := number(ctx, "after", 0, 0, math.MaxInt)
	if err != nil {
		return nil, err
	}
	asked := text(ctx, "month")
	if !documents.IsMonth(asked) {
		return nil, problem.WrongQuery("month", "a month like 2026-11")
	}
	return o.Books.Page(asked, uint64(after))
}

// makeBackup answers POST /admin/backup {"dir":"/…"} with a stream of lines {"progress"}, and a last line {"backup"} or
// {"error"}. It copies the store into a new folder on the appliance while the branch issues, one copy at a time. The
// backup continues if the caller hangs up.
func (o *Routes) makeBackup(ctx *fasthttp.RequestCtx) (any, error) {
	const form = `{"dir":"/…"}`
	given, err := asked[struct{ Dir string }](ctx, form)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(given.Dir) {
		return nil, wrongBody(form, "the full path of a folder on the appliance")
	}
	concerns(ctx, given.Dir, "")
	if !o.backing.TryLock() {
		return nil, problem.ForOperator("BACKUP_UNDER_WAY", "Another backup is under way")
	}
	return o.stream(ctx, func(ctx context.Context, send func(Line) error) error {
		defer o.backing.Unlock()
		shown := int64(-1) // the last share sent, in thousandths
		made, err := o.Backup(ctx, given.Dir, func(done, total int64) {
			if share := 1000 * done / total; share != shown {
				shown = share
				_ = send(Line{Progress: &Progress{Documents: int(done), Of: int(total)}}) // the caller may be gone
			}
		})
		if err != nil {
			o.front.Logger.Error("backup failed", "dir", given.Dir, "error", err)
			return err
		}
		o.front.Logger.Info("backup made", "dir", given.Dir, "documents", made.Documents, "bytes", made.Bytes)
		return send(Line{Backup: made})
	})
}
