package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/fair"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// sales make documents of what tills say: complete, computed, filled, signed. They store nothing.
type sales struct {
	*core
	*origins
	large *fair.Queue // sales of many lines, by token
}

// draft is a sale before it has a number.
type draft struct {
	request Request
	now     time.Time
	code    dte.Code
	series  string
	none    string    // the control number that stands for the one to come
	facts   dte.Value // with none
	form    string
	period  *contingency.Period // the contingency that it is issued in
	cause   int64               // CAT-005
	motive  string              // of cause 5
	reason  string              // why it is in contingency form, for people
	draws   []record.Draw       // what it takes of its origin

	ruleDay  string               // of the original, "" for its own: the day whose rule computes it
	rule     *rulebook.Rule       // valid on its day; computed.rule has computed it
	computed *rulebook.Evaluation // nil until step 3 or 4
	from     *origin              // nil, or the document that it is issued against
}

// keys are what the draft locks while it is stored.
func (d *draft) keys(key *storage.Idempotency) storage.Keys {
	k := storage.Keys{Series: d.series, Idempotency: key}
	if o := d.request.Origin; o != nil {
		k.Origins = []storage.Code{storage.Code(o.Code)}
	}
	return k
}

// free gives the memory of the computation back.
func (d *draft) free() {
	if d.computed != nil {
		d.computed.Free()
	}
}

func (s *sales) newDraft(req Request, now time.Time) (*draft, error) {
	if _, known := record.Types[req.Document]; !known {
		return nil, refusal.Internal(fmt.Errorf("document type %q is not issued here", req.Document))
	}
	if req.TestContingency && s.issuer.Ambiente == "01" {
		return nil, refusal.Of([]dte.Fault{{Path: "testContingencia", Code: dte.FaultCondition, Message: "Solo se admite en el ambiente de pruebas"}})
	}
	code, err := dte.NewCode(s.rand)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	p := req.Caller.Point
	d := &draft{request: req, now: now, code: code, form: record.FormNormal,
		series: s.issuer.Ambiente + "/" + req.Document + "/" + p.Establishment + "/" + p.PointOfSale + "/" + strconv.Itoa(dte.Year(now))}
	d.none, err = dte.ControlNumber(req.Document, p.Establishment, p.PointOfSale, unnumbered)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	identification := append([]dte.Member{
		{Name: "ambiente", Value: dte.Str(s.issuer.Ambiente)},
		{Name: "codigoGeneracion", Value: dte.Str(code.String())},
		{Name: "fecEmi", Value: dte.Str(dte.Date(now))},
		{Name: "horEmi", Value: dte.Str(dte.Hour(now))},
		{Name: "tipoMoneda", Value: dte.Str("USD")},
	}, record.NormalMarks...)
	identification = append(identification, dte.Member{Name: "numeroControl", Value: dte.Str(d.none)})
	d.facts = req.Facts.Set(dte.Member{Name: "emisor", Value: seller.Emisor(s.issuer, p)}, dte.Member{Name: "identificacion", Value: dte.Obj(identification...)})
	if req.TestContingency {
		d.mark(5, "Prueba de contingencia solicitada por el punto de venta")
		d.reason = "testContingencia"
	}
	return d, nil
}

// mark makes the draft one of the contingency form.
func (d *draft) mark(cause int64, motive string) {
	d.cause, d.motive = cause, motive
	id := d.facts.Get("identificacion").Set(record.ContingencyMarks(cause, motive)...)
	d.facts, d.form = d.facts.With("identificacion", id), record.FormContingency
}

// putInPeriod issues the draft in a contingency of the branch.
func (d *draft) putInPeriod(p *contingency.Period) {
	d.mark(p.Cause, p.MotiveOnDocument())
	d.period, d.reason = p, p.Motive
}

// compute evaluates a draft; faults are a *refusal.Error that names everything that is wrong with it.
func (s *sales) compute(ctx context.Context, r *rulebook.Rule, d *draft) (*rulebook.Evaluation, error) {
	computed, faults, err := r.Evaluate(ctx, d.facts)
	switch {
	case err == nil:
		s.shelf.Answered(r, d.request.Caller.Point.ID)
	case s.shelf != nil && ctx.Err() == nil:
		r, computed, faults, err = s.shelf.RetryWithPrevious(ctx, r, d.request.Caller.Point.ID, cmp.Or(d.ruleDay, dte.Date(d.now)), d.facts, err)
	}
	var refused *refusal.Error
	if errors.As(err, &refused) {
		return nil, refused
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	if late := laterThanIssue(d); len(faults)+len(late) > 0 {
		if computed != nil {
			computed.Free()
		}
		return nil, refusal.Of(append(append(faults, late...), s.breaches(r, d, append(faults, late...))...))
	}
	if computed.Computed.Summary[computed.Rule.Total] == 0 {
		computed.Warnings = append(computed.Warnings, nothingToPay)
	}
	return computed, nil
}

// computeAgainst completes and computes a draft against its origin, which is locked.
func (s *sales) computeAgainst(ctx context.Context, r *rulebook.Rule, d *draft) (*origin, *rulebook.Evaluation, error) {
	o, err := s.findOrigin(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	r, d.ruleDay = s.rules().Original(r, s.issuer.Ambiente, o.head.Date), o.head.Date
	err = s.completeDraft(d, o)
	faults := refusal.Faults(err)
	switch {
	case err != nil && len(faults) == 0:
		return nil, nil, err
	case err != nil && record.Types[d.request.Document].Against == record.TakesBack:
		refused := *err.(*refusal.Error)
		refused.Faults = append(faults, s.besideLines(r, d, o)...)
		return nil, nil, &refused
	}
	computed, err := s.amounts(ctx, r, d, o, faults)
	return o, computed, err
}
