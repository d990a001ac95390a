package engine

import (
	"context"
	"fmt"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// transmitFresh settles a document that this request has just signed: nothing was sent yet.
func (e *Engine) transmitFresh(ctx context.Context, entry storage.Entry, p prepared) (*Record, error) {
	release, err := e.codes.acquire(ctx, dte.Code(entry.Code).String())
	if err != nil {
		return nil, unavailable(err, pending)
	}
	defer release()
	// Between Append and this lock the recovery may have found the document; then it has settled it.
	if now, err := e.store.Get(entry.Code); err != nil {
		return nil, internal(err)
	} else if now.State != Signed {
		return e.public(now)
	}
	entry, err = e.conclude(ctx, entry, p.head, p.jws, false)
	if err != nil {
		return nil, err
	}
	return e.public(entry)
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
func (e *Engine) settle(ctx context.Context, code storage.Code) (storage.Entry, error) {
	release, err := e.codes.acquire(ctx, dte.Code(code).String())
	if err != nil {
		return storage.Entry{}, unavailable(err, pending)
	}
	defer release()
	entry, err := e.store.Get(code)
	if err != nil {
		return entry, internal(err)
	}
	if entry.State != Signed {
		return entry, nil
	}
	h, err := decodeHead(entry)
	if err != nil {
		return entry, internal(err)
	}
	jws, err := e.store.Part(code, formNormal)
	if err != nil {
		return entry, internal(err)
	}
	e.metrics.recovered.Inc()
	return e.conclude(ctx, entry, h, string(jws), true)
}

// conclude transmits a signed document and records the outcome. The caller holds the document's lock.
func (e *Engine) conclude(ctx context.Context, entry storage.Entry, h *head, jws string, doubtful bool) (storage.Entry, error) {
	o := e.transmit(ctx, authority.Submission{
		Document: h.Document, Version: h.Version, Code: dte.Code(entry.Code).String(), JWS: jws, SendID: e.sends.Add(1),
	}, doubtful)
	if o.Kind == authority.Unknown && ctx.Err() != nil {
		// Stopping: the document stays Signed and due, and the next start asks MH.
		return entry, unavailable(ctx.Err(), pending)
	}
	next := *h
	change := storage.Change{}
	switch o.Kind {
	case authority.Accepted:
		change.To, next.Response = Accepted, o.Response
	case authority.Rejected:
		change.To, next.Response = Rejected, o.Response
	default:
		form, err := e.contingency(ctx, entry.Code, jws, cause(o))
		if err != nil {
			return entry, internal(err)
		}
		change.To, next.Form, next.Doubtful = Deferred, formContingency, o.Sent
		if o.Err != nil {
			next.Cause = o.Err.Error()
		}
		change.Parts = []storage.Part{form}
		change.Due = &storage.Due{Queue: QueueReport, At: e.now()}
	}
	return e.move(ctx, entry, change, &next)
}

// contingency signs the contingency form of a normal document: same code, same number, other marks.
func (e *Engine) contingency(ctx context.Context, code storage.Code, jws string, cause int64) (storage.Part, error) {
	normal, err := payload(jws)
	if err != nil {
		return storage.Part{}, err
	}
	document, err := remark(normal, contingencyMarks(cause, ""))
	if err != nil {
		return storage.Part{}, err
	}
	signed, err := e.signer.Right(code, formContingency).Sign(ctx, document)
	if err != nil {
		return storage.Part{}, fmt.Errorf("signing the contingency form: %w", err)
	}
	return storage.Part{Name: formContingency, Data: []byte(signed)}, nil
}

// move is the one way from state to state.
func (e *Engine) move(ctx context.Context, entry storage.Entry, change storage.Change, h *head) (storage.Entry, error) {
	if err := allowed(entry.State, change.To); err != nil {
		return entry, internal(err)
	}
	var err error
	if change.Head, err = h.encode(); err != nil {
		return entry, internal(err)
	}
	if change.Counters, err = e.settles(entry, h, change.To); err != nil {
		return entry, internal(err)
	}
	next, err := e.store.Advance(ctx, entry.Code, entry.State, change)
	if err != nil {
		return entry, internal(fmt.Errorf("recording the outcome: %w", err))
	}
	return next, nil
}
