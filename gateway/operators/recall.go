package operators

import (
	"context"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
	"dtegate/gateway/exchange"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
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

// recallDocument answers POST /admin/invalidation?code= with what came of it; the body is that of the tills' route. ?again=1 sends
// another event for a document whose event MH has refused.
func (o *Routes) recallDocument(ctx *fasthttp.RequestCtx) error {
	again := ctx.QueryArgs().GetBool("again")
	return o.withdraw(ctx, func(ctx context.Context, req engine.InvalidationRequest) (*engine.Appraisal, error) {
		return o.Recall.Invalidate(ctx, req, again)
	})
}

// appraiseRecall answers POST /admin/invalidation/check?code= with what an invalidation would come to. It changes nothing.
func (o *Routes) appraiseRecall(ctx *fasthttp.RequestCtx) error {
	return o.withdraw(ctx, func(ctx context.Context, req engine.InvalidationRequest) (*engine.Appraisal, error) {
		return o.Recall.Appraise(ctx, req)
	})
}

func (o *Routes) withdraw(ctx *fasthttp.RequestCtx, do func(context.Context, engine.InvalidationRequest) (*engine.Appraisal, error)) error {
	code, err := dte.ParseCode(string(ctx.QueryArgs().Peek("code")))
	if err != nil {
		return problem.WrongQuery("code", "the codigoGeneracion of a document")
	}
	v, err := exchange.Body(ctx)
	if err != nil {
		return err
	}
	req, d := form.Invalidation(v)
	if len(d.Faults) > 0 {
		return exchange.Invalid(d)
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
	return exchange.Show(ctx, fasthttp.StatusOK, shownRecall(a))
}

func shownRecall(a *engine.Appraisal) *recalled {
	r := &recalled{Code: a.Code, Document: a.Document, Control: a.Control, Date: a.Date, Total: a.Total, Estado: a.Estado, Verdict: a.Verdict, Until: a.Until, Held: a.Held,
		Faults: []recallFault{}}
	for _, f := range (&problem.Problem{Type: refusal.CodeValidation, Faults: form.OfInvalidation(a.Faults)}).InEnglish().Faults {
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
