package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/storage"
)

// Correct makes a new form of a document from a corrected sale, if MH refused the document after it was issued in
// contingency. Code, number, date and marks of contingency stay; the form is signed and queued to be forwarded. A
// repeated request returns the document as it stands now. The error is a *refusal.Error of CodeNotCorrectable if the
// document cannot be corrected.
func (e *Engine) Correct(ctx context.Context, code dte.Code, req Request) (*record.View, error) {
	if _, err := e.documents.Document(ctx, code, req.Caller); err != nil {
		return nil, err
	}
	release, err := e.documents.Hold(ctx, code)
	if err != nil {
		return nil, refusal.Unavailable(err, "El documento aún se está procesando")
	}
	defer release()
	entry, h, err := record.Read(e.store, storage.Code(code))
	if err != nil {
		return nil, refusal.Internal(err)
	}
	digest := fmt.Sprintf("%x", req.Body.Digest())
	if n := len(h.Corrections); n > 0 && h.Corrections[n-1].Digest == digest {
		return e.public(entry)
	}
	if err := e.checkReplaced(req.Caller.Point); err != nil {
		return nil, err
	}
	until := h.CorrectableUntil(e.contingency.CorrectWithin())
	forbidden := func(message string) error {
		return &refusal.Error{Code: refusal.CodeNotCorrectable, Message: message}
	}
	switch {
	case entry.State != record.Rejected:
		return nil, forbidden("Solo se corrige un documento que Hacienda rechazó; este está " +
			record.Estado(entry.State))
	case until.IsZero():
		return nil, forbidden("Este rechazo no se corrige con el mismo código: emita un documento nuevo")
	case !e.authorityTime(ctx).Before(until):
		return nil, forbidden("El plazo para corregirlo con el mismo código ha vencido: emita un documento nuevo")
	}
	entry, stored, err := e.correct(ctx, entry, h, req, digest)
	if err != nil {
		return nil, err
	}
	e.metrics.corrections.WithLabelValues(h.Document).Inc()
	e.recordAct(req.Caller, ActCorrect, code, "")
	e.contingency.Wake()
	r, err := e.public(entry)
	if err == nil {
		r.Stored = stored
	}
	return r, err
}

// correct computes, signs and stores the corrected form; stored: bytes of JWS and facts. The caller holds the lock.
func (e *Engine) correct(ctx context.Context, entry storage.Entry, h *record.Head, req Request,
	digest string) (_ storage.Entry, stored int64, err error) {
	o := &origin{entry: entry, head: h}
	if err := e.readOrigin(o); err != nil {
		return entry, 0, err
	}
	was, next := o.facts, *h
	next.Corrections = append(slices.Clip(h.Corrections), record.Correction{
		At: e.now().UTC().Truncate(time.Millisecond), TokenID: req.Caller.TokenID, Digest: digest,
		Refused: record.RefusalText(h.Response), Rule: h.Rule, Version: h.Version, Total: h.Total})
	next.Form = record.FormCorrection + strconv.Itoa(len(next.Corrections))
	next.Response, next.Refused, next.Doubtful, next.Sent = nil, time.Time{}, false, time.Time{}

	p := record.Point{Establishment: was.Get("emisor").Get("codEstable").Text(),
		PointOfSale: was.Get("emisor").Get("codPuntoVenta").Text()}
	d := &draft{request: req, code: dte.Code(entry.Code), form: next.Form, ruleDay: h.Date,
		facts: req.Facts.Set(dte.Member{Name: "emisor", Value: record.Emisor(e.issuer, p)},
			dte.Member{Name: "identificacion", Value: was.Get("identificacion").Set(record.ContingencyMarks(h.Cause,
				h.Motive)...)})}
	d.request.Document = h.Document
	d.rule, err = e.rules().Pick(h.Document, h.Ambiente, h.Date) // the rules of the document's own day
	if errors.Is(err, rulestore.ErrNoRule) {
		d.rule, err = e.shelf.PickPast(ctx, h.Document, h.Date)
	}
	if err != nil {
		return entry, 0, refusal.Unavailable(err, "No hay reglas para el documento del "+h.Date)
	}
	ev, err := e.compute(ctx, d)
	if err != nil {
		return entry, 0, err
	}
	defer ev.Free()
	r := ev.Rule
	if len(ev.Refused) > 0 {
		return entry, 0, refusal.Of(ev.Refused)
	}
	jws, err := e.signer.Right(d.code, next.Form).Sign(ctx, ev.Document)
	if err != nil {
		return entry, 0, refusal.Unavailable(err, "El documento no pudo firmarse")
	}
	facts := d.facts.Append(nil)
	next.Corrections[len(next.Corrections)-1].Bytes = int64(len(facts) + len(jws))
	next.Version, next.Rule, next.Receiver, next.Mail = r.Filler.Version(), r.Ref, record.ReceiverOf(d.facts),
		outbox.Recipient(d.facts)
	next.Warnings = append(req.Warnings[:len(req.Warnings):len(req.Warnings)], ev.Warnings...)
	next.Total = dte.Amount(ev.Computed.Summary[r.Total]).Fixed2()
	entry, err = e.move(ctx, entry, storage.Change{To: record.Reported, Due: &storage.Due{Queue: record.QueueForward,
		At: e.now()},
		Parts: []storage.Part{{Name: next.FactsPart(), Data: facts}, {Name: next.Form, Data: jws}}}, &next)
	return entry, next.Corrections[len(next.Corrections)-1].Bytes, err
}

// expireCorrections removes from the queue the documents that can no longer be corrected. It first queries MH: MH may
// have accepted the document after the refusal. After a restoration, it also queries MH about documents that can still
// be corrected, because the store may have lost a correction.
func (e *Engine) expireCorrections(ctx context.Context) (progress bool, err error) {
	now := cmp.Or(e.sender.Client.Time(), e.now())
	until := now
	if len(e.sender.Lost) > 0 {
		until = record.Whenever
	}
	refused, err := e.store.Due(record.QueueCorrect, until, 1000)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", record.QueueCorrect, err)
	}
	for _, entry := range refused {
		h, err := record.DecodeHead(entry)
		if err != nil {
			if err := e.lost.SetAside(ctx, entry, err); err != nil {
				return progress, err
			}
			continue
		}
		late := !entry.Due.At.After(now)
		if !late && !e.sender.MayBeFurther(dte.Code(entry.Code).String(), h.CreatedAt) {
			continue
		}
		done, err := e.reconsider(ctx, entry.Code, late)
		if err != nil {
			return progress, err
		}
		progress = progress || done
	}
	return progress, nil
}

// reconsider queries MH about a document that MH refused. last: the document can no longer be corrected.
func (e *Engine) reconsider(ctx context.Context, code storage.Code, last bool) (progress bool, err error) {
	entry, h, release, err := e.documents.Lock(ctx, code)
	if err != nil {
		return false, err
	}
	defer release()
	if entry.State != record.Rejected || !last && !e.sender.RestoredUntil(h.CreatedAt).IsZero() {
		return false, nil // corrected meanwhile, or MH may still work on an earlier sending
	}
	switch q := e.sender.Query(ctx, dte.Code(code).String(), h.Document); {
	case q.Kind == authority.Accepted:
		e.log.Warn("MH accepted a document that it had refused", "code", dte.Code(code).String())
		_, err := e.adoptHeld(ctx, entry, h, q.Response, record.QueryDoubt)
		return true, err
	case q.Kind != authority.NotFound:
		return false, contingency.ErrAway
	case !last:
		return false, nil
	}
	_, err = e.move(ctx, entry, storage.Change{To: record.Rejected}, h)
	return true, err
}
