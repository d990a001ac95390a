package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Verdicts on a document of a list that is to be invalidated.
const (
	RecallPossible    = "POSSIBLE"
	RecallInvalidated = "INVALIDATED"       // MH has taken it back
	RecallPending     = "PENDING"           // its event waits for MH's answer
	RecallRefused     = "REFUSED"           // MH refused its event
	RecallLate        = "TOO_LATE"          // the time to invalidate it is over
	RecallHeld        = "HELD"              // a note or a return stands against it
	RecallReplacement = "NEEDS_REPLACEMENT" // the document that takes its place is not named
	RecallNotValid    = "NOT_VALID"         // the request is not: see Faults
	RecallNotAccepted = "NOT_ACCEPTED"      // MH has not accepted it
	RecallUnknown     = "NOT_FOUND"
)

// Appraisal is the result that an invalidation of a document would have.
type Appraisal struct {
	Code, Document, Control, Date, Total string // of the document, "" when there is none
	Estado                               string
	Verdict                              string
	// Until is the last day on which it may be invalidated (yyyy-mm-dd), "" when nothing ends it.
	Until string
	// Held is how many notes and returns stand against it.
	Held         int64
	Faults       []dte.Fault
	Invalidation *record.Invalidation // the one that was asked for last, nil for none
}

// Recall invalidates documents for an operator, one at a time. It waits while sales are being sent to MH.
type Recall struct {
	e    *Engine
	turn chan struct{}
}

// NewRecall returns a Recall for the documents of an engine.
func NewRecall(e *Engine) *Recall { return &Recall{e: e, turn: make(chan struct{}, 1)} }

// giveWayFor is how long one invalidation waits at most for the sales that are being sent: a branch that sells without a pause must
// get through its list, too.
const giveWayFor = 2 * time.Second

// Appraise returns the result that an invalidation would have. It changes nothing and sends nothing to MH.
func (r *Recall) Appraise(ctx context.Context, req InvalidationRequest) (*Appraisal, error) {
	a := &Appraisal{Code: req.Code.String(), Verdict: RecallUnknown}
	entry, err := r.e.Settled(ctx, req.Code)
	if errors.Is(err, storage.ErrNotFound) || err == nil && record.Estado(entry.State) == "" {
		return a, nil
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	a.Document, a.Control, a.Date, a.Total, a.Estado, a.Invalidation = h.Document, h.ControlNumber, h.Date, h.Total, record.Estado(entry.State), h.Invalidation
	switch {
	case entry.State == record.Invalidated:
		a.Verdict = RecallInvalidated
	case entry.State != record.Accepted:
		a.Verdict = RecallNotAccepted
	case h.Invalidation.Pending():
		a.Verdict = RecallPending
	default:
		err = r.judge(a, req, &origin{entry: entry, head: h})
	}
	return a, err
}

// judge looks at what the law and the layout want (MF2 pp.9-17).
func (r *Recall) judge(a *Appraisal, req InvalidationRequest, o *origin) error {
	e, now := r.e, r.e.now()
	rule, err := e.rules().PickEvent("invalidacion", e.issuer.Ambiente, dte.Date(now))
	if err != nil {
		return &refusal.Error{Code: refusal.CodeUnavailable, Message: "No rule for invalidations is in force", Operator: true, Err: err}
	}
	if err := e.readOrigin(o); err != nil {
		return err
	}
	if a.Held, err = e.store.Counter(o.entry.Code, record.LineActive); err != nil {
		return refusal.Internal(err)
	}
	end := window(rule, o.head)
	if !end.IsZero() {
		a.Until = dte.Date(end.Add(-time.Second))
	}
	if !end.IsZero() && !now.Before(end) {
		a.Verdict = RecallLate
		return nil
	}
	if err := e.invalidable(rule, o, now); err != nil {
		var refused *refusal.Error
		if !errors.As(err, &refused) || refused.Code != refusal.CodeNotInvalidable {
			return err
		}
		a.Verdict = RecallHeld
		return nil
	}
	missing := e.replacementFault(req, rule, o)
	_, a.Faults = e.fillInvalidation(req, rule, o, req.Code, now) // any code serves
	switch {
	case missing != nil && req.Replacement == "" && len(a.Faults) == 1:
		a.Verdict = RecallReplacement
	case len(a.Faults) > 0:
		a.Verdict = RecallNotValid
	case a.Invalidation != nil && a.Invalidation.Estado == record.EstadoRejected:
		a.Verdict = RecallRefused
	default:
		a.Verdict = RecallPossible
	}
	return nil
}

// Invalidate invalidates a document if that is possible, and returns the result. A repeated call sends nothing for a document
// that is invalidated already, and the same event if one waits for MH's answer. If MH has refused an event, another is sent
// only with again. Without MH it is refused at once with CodeUnavailable.
func (r *Recall) Invalidate(ctx context.Context, req InvalidationRequest, again bool) (*Appraisal, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, &refusal.Error{Code: refusal.CodeUnavailable, Message: "Another invalidation of a list is under way", Operator: true, RetryAfter: time.Second, Err: ctx.Err()}
	}
	a, err := r.Appraise(ctx, req)
	if err != nil || a.Verdict != RecallPossible && a.Verdict != RecallPending && !(again && a.Verdict == RecallRefused) {
		return a, err
	}
	if r.e.contingency.Current() != nil {
		return nil, &refusal.Error{Code: refusal.CodeUnavailable, Message: "The branch is in contingency, and MH takes no invalidations then", Operator: true, RetryAfter: invalidateAfter}
	}
	if err := r.e.traffic.rest(ctx, giveWayFor); err != nil {
		return nil, refusal.Unavailable(err, "El documento aún se está transmitiendo")
	}
	_, err = r.e.Invalidate(ctx, req)
	var refused *refusal.Error
	if err != nil && !(errors.As(err, &refused) && (refused.Code == refusal.CodeNotInvalidable || refused.Code == refusal.CodeValidation)) {
		return nil, fmt.Errorf("invalidating %s: %w", req.Code, err)
	}
	return r.Appraise(ctx, req) // refused: a note came between
}

// traffic counts the documents that are on their way to MH.
type traffic struct{ n atomic.Int64 }

// begin counts one; the caller ends with end.
func (s *traffic) begin() (end func()) {
	s.n.Add(1)
	return func() { s.n.Add(-1) }
}

// rest waits until nothing is being sent, at most so long.
func (s *traffic) rest(ctx context.Context, most time.Duration) error {
	const look = 10 * time.Millisecond
	for waited := time.Duration(0); s.n.Load() > 0 && waited < most; waited += look {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
	return nil
}
