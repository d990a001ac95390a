package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// transmitFresh settles a document that this request has just signed: nothing was sent yet.
func (e *Engine) transmitFresh(ctx context.Context, entry storage.Entry, p *prepared, wait time.Duration) (*Record, error) {
	release, err := e.codes.acquire(ctx, dte.Code(entry.Code).String())
	if err != nil {
		return nil, unavailable(err, pending)
	}
	defer release()
	// Between Append and this lock the recovery may have found the document; then it has settled it.
	if now, err := e.store.Get(entry.Code); err != nil {
		return nil, internal(err)
	} else if now.State != record.Signed {
		return e.public(now)
	}
	entry, err = e.conclude(ctx, entry, p.head, p.jws, sending{wait: wait})
	if err != nil {
		return nil, err
	}
	return e.public(entry)
}

// sending is how a signed document is concluded.
type sending struct {
	doubtful bool          // it may have been sent before
	sent     time.Time     // of doubtful: when at the latest
	late     bool          // nobody waits for the answer: it is announced
	wait     time.Duration // how long the till waits; 0: as long as the policy takes
}

const pending = "El documento está firmado y guardado; su transmisión no ha concluido. Repita con la misma Idempotency-Key"

func (e *Engine) public(entry storage.Entry) (*Record, error) {
	r, err := e.record(entry)
	if err != nil {
		return nil, internal(err)
	}
	return r, nil
}

// settle brings a document out of Signed, whoever signed it and whatever was lost since: MH is asked first. A
// document in any other state is returned as it stands.
func (e *Engine) settle(ctx context.Context, code storage.Code, late bool) (storage.Entry, error) {
	release, err := e.codes.acquire(ctx, dte.Code(code).String())
	if err != nil {
		return storage.Entry{}, unavailable(err, pending)
	}
	defer release()
	entry, err := e.store.Get(code)
	if err != nil {
		return entry, internal(err)
	}
	if entry.State != record.Signed {
		return entry, nil
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return entry, internal(err)
	}
	if until := e.restoredUntil(h); !until.IsZero() {
		return e.putOff(ctx, entry, h, until)
	}
	jws, err := e.store.Part(code, record.FormNormal)
	if err != nil {
		return entry, internal(err)
	}
	e.metrics.recovered.Inc()
	return e.conclude(ctx, entry, h, jws, sending{doubtful: true, sent: h.CreatedAt.Add(settleAfter), late: late})
}

// errPutOff means that a document is not settled before MH can have decided on what it was sent before a restoration.
var errPutOff = errors.New("the branch was restored a moment ago")

// putOff has the recovery settle a signed document later.
func (e *Engine) putOff(ctx context.Context, entry storage.Entry, h *record.Head, until time.Time) (storage.Entry, error) {
	if entry.Due == nil || entry.Due.At.Before(until) {
		var err error
		if entry, err = e.move(ctx, entry, storage.Change{To: record.Signed, Due: &storage.Due{Queue: record.QueueSettle, At: until}}, h); err != nil {
			return entry, err
		}
	}
	return entry, unavailable(errPutOff, pending)
}

// conclude transmits a signed document and records the outcome. The caller holds the document's lock.
func (e *Engine) conclude(ctx context.Context, entry storage.Entry, h *record.Head, jws []byte, how sending) (storage.Entry, error) {
	within, cancel := ctx, context.CancelFunc(func() {})
	if how.wait > 0 {
		within, cancel = context.WithTimeout(ctx, how.wait)
	}
	o := e.transmit(within, authority.Submission{
		Document: h.Document, Version: h.Version, Code: dte.Code(entry.Code).String(), JWS: string(jws), SendID: e.sends.Add(1),
	}, how.doubtful, how.sent)
	impatient := within.Err() != nil && ctx.Err() == nil
	cancel()
	if o.Kind == authority.Unknown && ctx.Err() != nil {
		// Stopping: the document stays Signed and due, and the next start asks MH.
		return entry, unavailable(ctx.Err(), pending)
	}
	next := *h
	switch o.Kind {
	case authority.Accepted:
		if sealed := authority.ParseTime(o.Response.FhProcesamiento); e.lost(sealed) {
			if entry, err := e.adoptHeld(ctx, entry, h, o.Response, queryDoubt); err != nil {
				return entry, internal(err)
			} else {
				return entry, nil
			}
		}
		next.Response = o.Response
		return e.move(ctx, entry, storage.Change{To: record.Accepted, Announce: how.late}, &next)
	case authority.Rejected:
		next.Response = o.Response
		return e.move(ctx, entry, storage.Change{To: record.Rejected, Announce: how.late}, &next)
	}
	return e.postpone(ctx, entry, &next, jws, o, impatient)
}

// postpone makes the contingency form of a document whose normal form MH has not decided. MH is probed: when it does not
// answer either, the branch is in contingency; else the trouble is this document's. The till that did not want to wait
// does not wait for the probe.
func (e *Engine) postpone(ctx context.Context, entry storage.Entry, h *record.Head, jws []byte, o authority.Outcome, impatient bool) (storage.Entry, error) {
	switch {
	case impatient:
		e.suspect()
	case e.current() == nil:
		if p := e.probe(ctx); p.Kind == authority.Unknown {
			began := Period{Began: h.CreatedAt, Cause: e.cause(ctx, p), Motive: reason(p)}
			if err := e.enter(ctx, began); err != nil {
				return entry, internal(err)
			}
		}
	}
	period, release := e.hold()
	defer release()
	h.Cause = 1
	if period != nil {
		h.Cause, h.Motive, h.Period = period.Cause, period.motiveOnDocument(), period.code.String()
	}
	form, err := e.contingencyForm(ctx, entry.Code, jws, contingencyMarks(h.Cause, h.Motive))
	if err != nil {
		return entry, internal(err)
	}
	h.Form, h.Doubtful, h.Why = record.FormContingency, o.Sent, reason(o)
	h.Until = e.now().UTC()
	if o.Sent {
		h.Sent = h.Until
	}
	defer e.wake()
	return e.move(ctx, entry, storage.Change{To: record.Deferred, Parts: []storage.Part{form}, Due: &storage.Due{Queue: record.QueueReport, At: e.now()}}, h)
}

// contingencyForm signs the contingency form of a normal document: same code, same number, other marks.
func (e *Engine) contingencyForm(ctx context.Context, code storage.Code, jws []byte, marks []dte.Member) (storage.Part, error) {
	normal, err := record.Payload(jws)
	if err != nil {
		return storage.Part{}, err
	}
	document, err := remark(normal, marks)
	if err != nil {
		return storage.Part{}, err
	}
	signed, err := e.signer.Right(code, record.FormContingency).Sign(ctx, document)
	if err != nil {
		return storage.Part{}, fmt.Errorf("signing the contingency form: %w", err)
	}
	return storage.Part{Name: record.FormContingency, Data: signed}, nil
}

// move is the one way from state to state.
func (e *Engine) move(ctx context.Context, entry storage.Entry, change storage.Change, h *record.Head) (storage.Entry, error) {
	e.owe(entry, h, &change)
	var err error
	if change.Head, err = h.Encode(); err != nil {
		return entry, internal(err)
	}
	if change.Counters, err = e.settles(entry, h, change.To); err != nil {
		return entry, internal(err)
	}
	next, err := record.Move(ctx, e.store, entry.Code, entry.State, change)
	if err != nil {
		return entry, internal(fmt.Errorf("recording the outcome: %w", err))
	}
	e.ledger.Touch(entry.ID)
	if change.Due != nil && change.Due.Queue == record.QueueDeliver {
		e.delivery.ring()
	}
	if entry.State != change.To {
		e.judge(entry, h, change.To)
	}
	return next, nil
}
