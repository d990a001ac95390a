package adminapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// Recall invalidates documents from an operator's list.
type Recall interface {
	Appraise(context.Context, engine.InvalidationRequest) (*engine.Appraisal, error)
	Invalidate(ctx context.Context, req engine.InvalidationRequest, again bool) (*engine.Appraisal, error)
}

// Members of the answer.
type (
	recalled struct {
		Code         string         `json:"codigoGeneracion"`
		Document     string         `json:"tipoDte"`
		Control      string         `json:"numeroControl"`
		Date         string         `json:"fecEmi"`
		Total        string         `json:"total"`
		Estado       string         `json:"estado"`
		Verdict      string         `json:"verdict"`
		Until        string         `json:"until"`
		Held         int64          `json:"held"`
		Faults       []recallFault  `json:"errors"`
		Invalidation *recalledEvent `json:"invalidacion"`
	}
	recallFault struct {
		Path    string `json:"path"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	recalledEvent struct {
		Code        string   `json:"codigoGeneracion"`
		Estado      string   `json:"estado"`
		Replacement string   `json:"codigoGeneracionReemplazo"`
		Sello       string   `json:"selloRecibido"`
		CodigoMsg   string   `json:"codigoMsg"`
		Descripcion string   `json:"descripcionMsg"`
		Remarks     []string `json:"observaciones"`
	}
)

// recallDocument answers POST /admin/invalidation?code= with what came of it; the body is that of the tills' route.
// ?again=1 sends another event for a document whose event MH has refused.
func (o *Routes) recallDocument(ctx *fasthttp.RequestCtx) error {
	again := ctx.QueryArgs().GetBool("again")
	return o.withdraw(ctx, func(ctx context.Context, req engine.InvalidationRequest) (*engine.Appraisal, error) {
		return o.Recall.Invalidate(ctx, req, again)
	})
}

// appraiseRecall answers POST /admin/invalidation/check?code= with what an invalidation would come to. It changes
// nothing.
func (o *Routes) appraiseRecall(ctx *fasthttp.RequestCtx) error {
	return o.withdraw(ctx, func(ctx context.Context, req engine.InvalidationRequest) (*engine.Appraisal, error) {
		return o.Recall.Appraise(ctx, req)
	})
}

func (o *Routes) withdraw(ctx *fasthttp.RequestCtx, do func(context.Context,
	engine.InvalidationRequest) (*engine.Appraisal, error)) error {
	code, err := dte.ParseCode(string(ctx.QueryArgs().Peek("code")))
	if err != nil {
		return problem.WrongQuery("code", "the codigoGeneracion of a document")
	}
	v, err := reply.Body(ctx)
	if err != nil {
		return err
	}
	req, d := form.Invalidation(v)
	if len(d.Faults) > 0 {
		return d.Refusal()
	}
	concerns(ctx, code.String(), req.Reason)
	if o.Recall == nil {
		return problem.ForOperator(fasthttp.StatusNotFound, "NOT_FOUND", "Nothing is invalidated here")
	}
	req.Code, req.Caller = code, seller.Caller{Operator: true, From: ctx.RemoteIP().String()}
	deadline, cancel := context.WithTimeout(context.Background(), o.front.Deadline)
	defer cancel()
	a, err := do(deadline, req)
	if err != nil {
		return problem.Renamed(err, form.OfInvalidation)
	}
	if a.Verdict != engine.RecallInvalidated {
		concerns(ctx, code.String(), req.Reason+" ("+a.Verdict+")")
	}
	return reply.Show(ctx, fasthttp.StatusOK, shownRecall(a))
}

func shownRecall(a *engine.Appraisal) *recalled {
	r := &recalled{Code: a.Code, Document: a.Document, Control: a.Control, Date: a.Date, Total: a.Total,
		Estado: a.Estado, Verdict: a.Verdict, Until: a.Until, Held: a.Held,
		Faults: []recallFault{}}
	for _, f := range (&problem.Problem{Type: refusal.CodeValidation,
		Faults: form.OfInvalidation(a.Faults)}).InEnglish().Faults {
		r.Faults = append(r.Faults, recallFault{f.Path, f.Code, f.Message})
	}
	if i := a.Invalidation; i != nil {
		r.Invalidation = &recalledEvent{Code: i.Code, Estado: i.Estado, Replacement: i.Replacement}
		if i.Response != nil {
			r.Invalidation.Sello, r.Invalidation.CodigoMsg, r.Invalidation.Descripcion, r.Invalidation.Remarks =
				i.Response.SelloRecibido, i.Response.CodigoMsg, i.Response.DescripcionMsg, i.Response.Observaciones
		}
	}
	return r
}

// Contingency is what an operator can do about contingencies.
type Contingency interface {
	Declare(ctx context.Context, cause int64, reason string) error
	Lift(context.Context) error
	TechnicalReport(context.Context) (*contingency.TechnicalReport, error)
	NoteTechnicalReport(ctx context.Context, reference string) error
}

// declare answers POST /admin/contingency: the operator says that the branch is in contingency, and why.
func (o *Routes) declare(ctx *fasthttp.RequestCtx) error {
	v, err := reply.Body(ctx)
	if err != nil {
		return err
	}
	cause, reason, d := form.Declaration(v)
	if len(d.Faults) > 0 {
		return d.Refusal()
	}
	concerns(ctx, "cause "+strconv.FormatInt(cause, 10), reason)
	if err := o.Contingency.Declare(context.Background(), cause, reason); err != nil {
		return err
	}
	o.status(ctx)
	return nil
}

// lift answers DELETE /admin/contingency: from now on MH's own answer ends it.
func (o *Routes) lift(ctx *fasthttp.RequestCtx) error {
	if err := o.Contingency.Lift(context.Background()); err != nil {
		return err
	}
	o.status(ctx)
	return nil
}

// technicalReport answers GET /admin/contingency/report: what the records say for the technical report of a
// contingency.
func (o *Routes) technicalReport(ctx *fasthttp.RequestCtx) error {
	r, err := o.Contingency.TechnicalReport(context.Background())
	if err != nil {
		return err
	}
	return reply.Show(ctx, fasthttp.StatusOK, r)
}

// noteTechnicalReport answers POST /admin/contingency/report: the operator says that MH has the report.
func (o *Routes) noteTechnicalReport(ctx *fasthttp.RequestCtx) error {
	v, err := reply.Body(ctx)
	if err != nil {
		return err
	}
	reference, d := form.ReportNote(v)
	if len(d.Faults) > 0 {
		return d.Refusal()
	}
	concerns(ctx, "technical report", reference)
	if err := o.Contingency.NoteTechnicalReport(context.Background(), reference); err != nil {
		return err
	}
	o.status(ctx)
	return nil
}

// maxGivenUp is how much of what was given up one answer lists, and how many documents one request settles.
const maxGivenUp = 1000

// Deliveries is what an operator can do about mail and archive.
type Deliveries interface {
	GivenUp(limit int) ([]outbox.Failure, error)
	Retry(ctx context.Context, code dte.Code, archive bool) (int, error)
	Forget(context.Context, dte.Code) (int, error)
	CheckArchive(context.Context, *outbox.ArchiveCheck) (*outbox.ArchiveTotals, error)
}

// deliveryRoutes answers /admin/delivery and /admin/archive.
type deliveryRoutes struct {
	deliveries Deliveries
	log        *slog.Logger
	serving    context.Context // ends when the gateway takes no more requests
}

// showGivenUp answers GET /admin/delivery with what was given up.
func (r deliveryRoutes) showGivenUp(ctx *fasthttp.RequestCtx) error {
	list, err := r.deliveries.GivenUp(maxGivenUp)
	if err != nil {
		return err
	}
	return reply.Show(ctx, fasthttp.StatusOK, map[string]any{"failures": list})
}

// retryDelivery answers POST /admin/delivery/retry {"codes":[…],"archive":false}: what was given up of the documents is
// tried again; with archive, their files are put back where the archive has lost them.
func (r deliveryRoutes) retryDelivery(ctx *fasthttp.RequestCtx) error {
	return r.settleDelivery(ctx, "retried", r.deliveries.Retry)
}

// forgetDelivery answers POST /admin/delivery/forget {"codes":[…]}: what was given up of the documents is settled.
func (r deliveryRoutes) forgetDelivery(ctx *fasthttp.RequestCtx) error {
	return r.settleDelivery(ctx, "forgotten", func(ctx context.Context, code dte.Code, _ bool) (int,
		error) {
		return r.deliveries.Forget(ctx, code)
	})
}

func (r deliveryRoutes) settleDelivery(ctx *fasthttp.RequestCtx, done string, settle func(context.Context, dte.Code,
	bool) (int, error)) error {
	var asked struct {
		Codes   []string `json:"codes"`
		Archive bool     `json:"archive"`
	}
	if err := json.Unmarshal(ctx.PostBody(), &asked); err != nil || len(asked.Codes) == 0 ||
		len(asked.Codes) > maxGivenUp {
		return problem.ForOperator(fasthttp.StatusBadRequest, refusal.CodeValidation,
			`The body is {"codes":[…]} with 1 to `+strconv.Itoa(maxGivenUp)+" codes")
	}
	concerns(ctx, strings.Join(asked.Codes, " "), "")
	total := 0
	for _, text := range asked.Codes {
		code, err := dte.ParseCode(text)
		if err != nil {
			return problem.WrongQuery("codes", err.Error())
		}
		n, err := settle(context.Background(), code, asked.Archive)
		if err != nil {
			return err
		}
		total += n
	}
	ctx.SetUserValue(actIdle, total == 0)
	r.log.Info("delivery settled", "what", done, "codes", len(asked.Codes), "first", asked.Codes[0], "steps", total)
	return reply.Show(ctx, fasthttp.StatusOK, map[string]int{done: total})
}

// checkArchive answers GET /admin/archive/check?read=1&shared=1 with a JSON object a line: {"found"}, {"progress"}, and
// at last {"checked"} or {"error"}.
func (r deliveryRoutes) checkArchive(ctx *fasthttp.RequestCtx) error {
	c := &outbox.ArchiveCheck{Read: ctx.QueryArgs().GetBool("read"), Shared: ctx.QueryArgs().GetBool("shared")}
	stream(r.serving, ctx, func(ctx context.Context, send func(streamLine) error) error {
		c.Found = func(f outbox.ArchiveFinding) error { return send(streamLine{Found: &f}) }
		c.Progress = func(done, total int64) error {
			return send(streamLine{Progress: &streamProgress{Documents: int(done), Of: int(total)}})
		}
		totals, err := r.deliveries.CheckArchive(ctx, c)
		if err != nil {
			return err
		}
		return send(streamLine{Checked: totals})
	})
	return nil
}
