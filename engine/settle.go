package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// standing is a stored document as this process holds it: nothing of it needs to be read again.
type standing struct {
	entry storage.Entry
	head  *record.Head
	jws   []byte // in the form of head; nil: the store has it
	// document is what jws signs; nil: jws has it.
	document []byte
}

// show makes the public record of a document that has left Signed.
func (e *Engine) show(now standing) (*record.View, error) {
	if now.jws == nil {
		return e.public(now.entry)
	}
	document := now.document
	if document == nil {
		var err error
		if document, err = record.Payload(now.jws); err != nil {
			return nil, refusal.Internal(err)
		}
	}
	r, err := e.ViewOf(now.entry, now.head, document, now.jws)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	return r, nil
}

// sending is how a signed document is concluded.
type sending struct {
	doubtful bool          // it may have been sent before
	sent     time.Time     // of doubtful: when at the latest
	late     bool          // nobody waits for the answer: it is announced
	wait     time.Duration // how long the till waits; 0: as long as the policy takes
}

const pending = "El documento está firmado y guardado; su transmisión no ha concluido. Repita con la misma Idempotency-Key"

func (e *Engine) public(entry storage.Entry) (*record.View, error) {
	r, err := e.View(entry)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	return r, nil
}

// settle brings a document out of Signed, whoever signed it and whatever was lost since: MH is asked first. A
// document in any other state is returned as it stands.
func (e *Engine) settle(ctx context.Context, code storage.Code, late bool) (storage.Entry, error) {
	release, err := e.Hold(ctx, dte.Code(code))
	if err != nil {
		return storage.Entry{}, refusal.Unavailable(err, pending)
	}
	defer release()
	entry, err := e.store.Get(code)
	if err != nil {
		return entry, refusal.Internal(err)
	}
	if entry.State != record.Signed {
		return entry, nil
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return entry, refusal.Internal(err)
	}
	if until := e.sender.RestoredUntil(h.CreatedAt); !until.IsZero() {
		return e.putOff(ctx, entry, h, until)
	}
	jws, err := e.store.Part(code, record.FormNormal)
	if err != nil {
		return entry, refusal.Internal(err)
	}
	e.metrics.recovered.Inc()
	now, err := e.conclude(ctx, standing{entry: entry, head: h, jws: jws}, sending{doubtful: true, sent: h.CreatedAt.Add(settleAfter), late: late})
	return now.entry, err
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
	return entry, refusal.Unavailable(errPutOff, pending)
}

// conclude transmits a signed document and records the outcome. The caller holds the document's lock.
func (e *Engine) conclude(ctx context.Context, d standing, how sending) (standing, error) {
	within, cancel := ctx, context.CancelFunc(func() {})
	if how.wait > 0 {
		within, cancel = context.WithTimeout(ctx, how.wait)
	}
	end := e.traffic.begin()
	o := e.sender.Transmit(within, authority.Submission{
		Document: d.head.Document, Version: d.head.Version, Code: dte.Code(d.entry.Code).String(), JWS: string(d.jws), SendID: e.sends.Add(1),
	}, how.doubtful, how.sent)
	end()
	impatient := within.Err() != nil && ctx.Err() == nil
	cancel()
	if o.Kind == authority.Unknown && ctx.Err() != nil {
		// Stopping: the document stays Signed and due, and the next start asks MH.
		return d, refusal.Unavailable(ctx.Err(), pending)
	}
	next := *d.head
	var to storage.State
	switch o.Kind {
	case authority.Rejected:
		to = record.Rejected
	case authority.Accepted:
		if e.sender.InLostTime(authority.ParseTime(o.Response.FhProcesamiento)) {
			entry, err := e.adoptHeld(ctx, d.entry, d.head, o.Response, record.QueryDoubt)
			if err != nil {
				err = refusal.Internal(err)
			}
			return standing{entry: entry}, err
		}
		to = record.Accepted
	default:
		return e.postpone(ctx, d, &next, o, impatient)
	}
	next.Response = o.Response
	entry, err := e.move(ctx, d.entry, storage.Change{To: to, Announce: how.late}, &next)
	return standing{entry, &next, d.jws, d.document}, err
}

// postpone makes the contingency form of a document whose normal form MH has not decided; h is its head, to be changed. MH is probed: when it does not
// answer either, the branch is in contingency; else the trouble is this document's. The till that did not want to wait
// does not wait for the probe.
func (e *Engine) postpone(ctx context.Context, d standing, h *record.Head, o authority.Outcome, impatient bool) (standing, error) {
	if impatient {
		e.contingency.Suspect()
	} else if err := e.contingency.Check(ctx, h.CreatedAt); err != nil {
		return d, refusal.Internal(err)
	}
	period, release := e.contingency.Hold()
	defer release()
	h.Cause = 1
	if period != nil {
		h.Cause, h.Motive, h.Period = period.Cause, period.MotiveOnDocument(), period.Code()
	}
	form, err := e.contingencyForm(ctx, d.entry.Code, d.jws, record.ContingencyMarks(h.Cause, h.Motive))
	if err != nil {
		return d, refusal.Internal(err)
	}
	h.Form, h.Doubtful, h.Why = record.FormContingency, o.Sent, o.Reason()
	h.Until = e.now().UTC()
	if o.Sent {
		h.Sent = h.Until
	}
	defer e.contingency.Wake()
	entry, err := e.move(ctx, d.entry, storage.Change{To: record.Deferred, Parts: []storage.Part{form}, Due: &storage.Due{Queue: record.QueueReport, At: e.now()}}, h)
	return standing{entry: entry, head: h, jws: form.Data}, err
}

// contingencyForm signs the contingency form of a normal document: same code, same number, other marks.
func (e *Engine) contingencyForm(ctx context.Context, code storage.Code, jws []byte, marks []dte.Member) (storage.Part, error) {
	normal, err := record.Payload(jws)
	if err != nil {
		return storage.Part{}, err
	}
	document, err := record.ReplaceMarks(normal, marks)
	if err != nil {
		return storage.Part{}, err
	}
	signed, err := e.signer.Right(code, record.FormContingency).Sign(ctx, document)
	if err != nil {
		return storage.Part{}, fmt.Errorf("signing the contingency form: %w", err)
	}
	return storage.Part{Name: record.FormContingency, Data: signed}, nil
}

// move takes a document from one state to another, with what follows from the step: its place in a queue, and the counters of
// its origin, in the same batch.
func (e *Engine) move(ctx context.Context, entry storage.Entry, change storage.Change, h *record.Head) (storage.Entry, error) {
	if change.Due == nil {
		change.Due = h.OweDelivery(entry.State, change.To, e.outbox.Mails(), e.outbox.Archive() != nil, e.now())
	}
	var err error
	if change.Head, err = h.Encode(); err != nil {
		return entry, refusal.Internal(err)
	}
	if change.Counters, err = e.settles(entry, h, change.To); err != nil {
		return entry, refusal.Internal(err)
	}
	next, err := record.Move(ctx, e.store, entry.Code, entry.State, change)
	if err != nil {
		return entry, refusal.Internal(fmt.Errorf("recording the outcome: %w", err))
	}
	e.moved(entry, next, h)
	return next, nil
}

// moved tells who follows the documents that one has changed.
func (e *Engine) moved(before, now storage.Entry, h *record.Head) {
	e.Touch(now.ID)
	if now.Due != nil && now.Due.Queue == record.QueueDeliver {
		e.outbox.Ring()
	}
	if before.State != now.State {
		e.shelf.Judge(before, h, now.State)
	}
}
