package operators

import (
	"context"
	"strconv"

	"github.com/valyala/fasthttp"

	"dtegate/engine/contingency"
	"dtegate/gateway/exchange"
	"dtegate/gateway/form"
)

// Contingency is what an operator can do about contingencies.
type Contingency interface {
	Declare(ctx context.Context, cause int64, reason string) error
	Lift(context.Context) error
	TechnicalReport(context.Context) (*contingency.TechnicalReport, error)
	NoteTechnicalReport(ctx context.Context, reference string) error
}

// declare answers POST /admin/contingency: the operator says that the branch is in contingency, and why.
func (o *Routes) declare(ctx *fasthttp.RequestCtx) error {
	v, err := exchange.Body(ctx)
	if err != nil {
		return err
	}
	cause, reason, d := form.Declaration(v)
	if len(d.Faults) > 0 {
		return exchange.Invalid(d)
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

// technicalReport answers GET /admin/contingency/report: what the records say for the technical report of a contingency.
func (o *Routes) technicalReport(ctx *fasthttp.RequestCtx) error {
	r, err := o.Contingency.TechnicalReport(context.Background())
	if err != nil {
		return err
	}
	return exchange.Show(ctx, fasthttp.StatusOK, r)
}

// noteTechnicalReport answers POST /admin/contingency/report: the operator says that MH has the report.
func (o *Routes) noteTechnicalReport(ctx *fasthttp.RequestCtx) error {
	v, err := exchange.Body(ctx)
	if err != nil {
		return err
	}
	reference, d := form.ReportNote(v)
	if len(d.Faults) > 0 {
		return exchange.Invalid(d)
	}
	concerns(ctx, "technical report", reference)
	if err := o.Contingency.NoteTechnicalReport(context.Background(), reference); err != nil {
		return err
	}
	o.status(ctx)
	return nil
}
