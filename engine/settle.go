package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

type sending struct {
	doubtful bool          // the document may have been sent before
	sent     time.Time     // if doubtful: the latest time at which it may have been sent
	late     bool          // no caller waits: the outcome is announced in the feed
	wait     time.Duration // how long the till waits; 0: as long as the sender tries
}

const pending = "El documento está firmado y guardado; su envío no ha concluido. Repita con la misma Idempotency-Key"

// settleDocument settles a Signed document. It queries MH first, and thus works after a crash or lost records too.
func (e *Engine) settleDocument(ctx context.Context, code storage.Code, late bool) (storage.Entry, error) {
	release, err := e.documents.Hold(ctx, dte.Code(code))
	if err != nil {
		return storage.Entry{}, refusal.Unavailable(err, pending)
	}
	defer release()
	entry, h, err := record.Read(e.store, code)
	if err != nil || entry.State != record.Signed {
		return entry, refusal.Internal(err)
	}
	if e.store.Behind() != nil { // another medium may have the contingency form, and the outcome cannot be recorded
		return entry, refusal.Unavailable(storage.ErrBehind, pending)
	}
	if until := e.sender.RestoredUntil(h.CreatedAt); !until.IsZero() {
		return e.putOff(ctx, entry, h, until)
	}
	if e.contingency.Current() != nil && e.deferrable(h.Document, h.Rule) != nil {
		return e.putOff(ctx, entry, h, e.now().Add(settleAgain))
	}
	jws, err := record.Part(e.store, code, record.FormNormal)
	if errors.Is(err, record.ErrLost) {
		return e.settleLost(ctx, entry, h, err)
	}
	if err != nil {
		return entry, refusal.Internal(err)
	}
	e.metrics.recovered.Inc()
	now, err := e.conclude(ctx, standing{entry: entry, head: h, jws: jws}, sending{doubtful: true,
		sent: h.CreatedAt.Add(settleAfter), late: late})
	return now.entry, err
}

// settleLost settles a signed document whose bytes the store has lost: accepted if MH has the document, set aside if MH
// lacks it. If MH cannot be asked or does not answer, the error is errPutOff. The caller holds the document's lock.
func (e *Engine) settleLost(ctx context.Context, entry storage.Entry, h *record.Head, why error) (storage.Entry,
	error) {
	if e.contingency.Current() != nil {
		return entry, refusal.Unavailable(errPutOff, pending)
	}
	q := e.sender.Query(ctx, dte.Code(entry.Code).String(), h.Document)
	switch q.Kind {
	case authority.Accepted:
		entry, err := e.adoptHeld(ctx, entry, h, q.Response, record.QueryDoubt)
		return entry, refusal.Internal(err)
	case authority.NotFound:
		if err := e.lost.SetAside(ctx, entry, why); err != nil {
			return entry, refusal.Internal(err)
		}
		return entry, &refusal.Error{Code: refusal.CodeInternal, Err: why,
			Message: fmt.Sprintf("El equipo perdió los datos de %s y Hacienda no lo tiene: emita la venta otra vez, "+
				"con otra Idempotency-Key", h.ControlNumber)}
	}
	return entry, refusal.Unavailable(errPutOff, pending)
}

// errPutOff means that a document is settled later, because MH does not answer or may still decide on a sending.
var errPutOff = errors.New("MH cannot be asked about the document yet")

func (e *Engine) putOff(ctx context.Context, entry storage.Entry, h *record.Head, until time.Time) (storage.Entry,
	error) {
	if entry.Due == nil || entry.Due.At.Before(until) {
		var err error
		if entry, err = e.move(ctx, entry, storage.Change{To: record.Signed,
			Due: &storage.Due{Queue: record.QueueSettle, At: until}}, h); err != nil {
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
	e.sending.Add(1)
	o := e.sender.Transmit(within, authority.Submission{
		Document: d.head.Document, Version: d.head.Version, Code: dte.Code(d.entry.Code).String(), JWS: string(d.jws),
		SendID: e.sendID(),
	}, how.doubtful, how.sent)
	e.sending.Add(-1)
	impatient := within.Err() != nil && ctx.Err() == nil
	cancel()
	if o.Kind == authority.Unknown && ctx.Err() != nil {
		// The program is stopping. The document stays Signed and due, and the next start queries MH.
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
			return standing{entry: entry}, refusal.Internal(err)
		}
		to = record.Accepted
	default:
		return e.postpone(ctx, d, o, impatient)
	}
	next.Response = o.Response
	entry, err := e.move(ctx, d.entry, storage.Change{To: to, Announce: how.late}, &next)
	return standing{entry, &next, d.jws, d.document}, err
}

// postpone makes the contingency form of a document that MH has neither accepted nor refused. If MH does not answer a
// probe, the branch enters contingency. impatient: the till's wait is over, and no time is left for a probe; the sender
// has already made the watch probe MH.
func (e *Engine) postpone(ctx context.Context, d standing, o authority.Outcome, impatient bool) (standing, error) {
	h := new(*d.head)
	if !impatient {
		if err := e.contingency.Check(ctx, h.CreatedAt); err != nil {
			return d, refusal.Internal(err)
		}
	}
	if e.deferrable(h.Document, h.Rule) != nil { // the document stays Signed: Recover queries and sends it again
		entry, err := e.putOff(ctx, d.entry, h, e.now().Add(settleAgain))
		return standing{entry: entry, head: h, jws: d.jws}, err
	}
	period, release := e.contingency.Hold()
	defer release()
	h.Cause = 1
	if period != nil {
		h.Cause, h.Motive, h.Period = period.Cause, period.MotiveOnDocument(), period.Code()
	}
	var made []storage.Part
	form, err := record.Part(e.store, d.entry.Code, record.FormContingency) // the store may have lost the move alone
	if errors.Is(err, record.ErrLost) {
		if form, err = e.contingencyForm(ctx, d.entry.Code, d.jws, record.ContingencyMarks(h.Cause,
			h.Motive)); err == nil {
			made = []storage.Part{{Name: record.FormContingency, Data: form}}
		}
	}
	if err != nil {
		return d, refusal.Internal(err)
	}
	h.Form, h.Doubtful, h.Why = record.FormContingency, o.Sent, o.Reason()
	h.Until = e.now().UTC()
	if o.Sent {
		h.Sent = h.Until
	}
	defer e.contingency.Wake()
	entry, err := e.move(ctx, d.entry, storage.Change{To: record.Deferred, Parts: made,
		Due: &storage.Due{Queue: record.QueueReport, At: e.now()}}, h)
	return standing{entry: entry, head: h, jws: form}, err
}

// contingencyForm signs the contingency form of a normal document: the same document with the marks of contingency.
func (e *Engine) contingencyForm(ctx context.Context, code storage.Code, jws []byte, marks []dte.Member) ([]byte,
	error) {
	normal, err := record.Payload(jws)
	if err != nil {
		return nil, err
	}
	document, err := record.ReplaceMarks(normal, marks)
	if err != nil {
		return nil, err
	}
	signed, err := e.signer.Right(code, record.FormContingency).Sign(ctx, document)
	if err != nil {
		return nil, fmt.Errorf("signing the contingency form: %w", err)
	}
	return signed, nil
}

// settleAfter is how long a request may take to settle a document before the recovery does it. This is longer than the
// sender's transmissions and queries of 8 s each take.
const settleAfter = 2 * time.Minute

const settleAgain = time.Minute // between two attempts, if MH takes the type only online

// Recover settles every signed document that was due before a time. It passes over documents that must wait, sets lost
// documents aside, and ends at any other error.
func (e *Engine) Recover(ctx context.Context, before time.Time) error {
	for {
		open, err := record.Due(e.store, record.QueueSettle, before, 100)
		if err != nil {
			return fmt.Errorf("listing unsettled documents: %w", err)
		}
		settled := 0
		for _, entry := range open {
			_, err := e.settleDocument(ctx, entry.Code, true)
			switch {
			case errors.Is(err, errPutOff):
				continue
			case errors.Is(err, record.ErrLost):
				if err := e.lost.SetAside(ctx, entry, err); err != nil {
					return err
				}
			case err != nil:
				return fmt.Errorf("settling document %s: %w", dte.Code(entry.Code), err)
			}
			settled++
		}
		if settled == 0 {
			return nil
		}
	}
}

// A document can be signed in several forms: normal, contingency, corrections. MH has at most one of them. MH's query
// returns the seal and its time, but not the form (MT1 §4.3). The functions below find the form.

// adoptHeld records, as the document's form, the form that MH has. held is MH's answer with the seal; see FormSealed.
func (e *Engine) adoptHeld(ctx context.Context, entry storage.Entry, h *record.Head, held *authority.Response,
	doubt time.Duration) (storage.Entry, error) {
	parts, err := e.store.Parts(entry.Code)
	if err != nil {
		return entry, err
	}
	forms, names := record.FormsOf(parts), h.Forms(parts)
	next := *h
	next.Response, next.Doubtful, next.Refused = held, false, time.Time{}
	change := storage.Change{To: record.Accepted, Announce: true}
	sealed := authority.ParseTime(held.FhProcesamiento)
	proof := "times"
	if next.Form = h.FormSealed(names, sealed, doubt); e.sender.InLostTime(sealed) {
		if proof, err = e.formOfLostTime(ctx, entry, &next, forms, names, sealed, &change); err != nil {
			return entry, err
		}
	}
	for _, f := range forms {
		if f.Name == next.Form && record.CorrectionNumber(f.Name) < len(h.Corrections) {
			showForm(&next, f.Data)
		}
	}
	e.metrics.adopted.WithLabelValues(proof).Inc()
	e.contingency.Settled(entry.Code)
	return e.move(ctx, entry, change, &next)
}

// showForm sets the total, receiver and rule of a head to those of an earlier form: the last correction may have
// another amount, another customer, or a newer rule.
func showForm(h *record.Head, form []byte) {
	if body, err := record.Payload(form); err == nil {
		if v, err := dte.Parse(body); err == nil {
			h.Total, h.Receiver, h.Mail = totalOf(v, h.Total), record.ReceiverOf(v), outbox.Recipient(v)
		}
	}
	if c := h.Corrections[record.CorrectionNumber(h.Form)]; c.Version > 0 { // release 1.0 recorded no version
		h.Rule, h.Version, h.Total = c.Rule, c.Version, c.Total
	}
}

// formOfLostTime finds the form of a document that MH sealed in a time that this store has lost (see storage.Gap). The
// store lacks the sendings of that time, but the archive has the sealed form. Without the archive the likeliest form is
// recorded, with a warning unless the form is certain.
func (e *Engine) formOfLostTime(ctx context.Context, entry storage.Entry, next *record.Head, forms []storage.Part,
	names []string, sealed time.Time, change *storage.Change) (proof string, err error) {
	code := dte.Code(entry.Code).String()
	jws, err := e.archivedForm(ctx, next, code)
	if err == nil {
		if i := slices.IndexFunc(forms, func(f storage.Part) bool { return string(f.Data) == string(jws) }); i >= 0 {
			next.Form = forms[i].Name
			return "archive", nil
		}
		document, err := record.Payload(jws)
		if err != nil {
			return "", err
		}
		v, err := dte.Parse(document)
		if err != nil {
			return "", fmt.Errorf("reading what the archive holds of %s: %w", code, err)
		}
		next.Form = record.FormArchived
		next.Total, next.Receiver, next.Mail = totalOf(v, next.Total), record.ReceiverOf(v), outbox.Recipient(v)
		change.Parts = []storage.Part{{Name: record.FormArchived, Data: jws}}
		e.log.Warn("the archive holds a form that this store lacks: it is the record now", "code", code)
		return "archive", nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if !e.correctForm(next, names, sealed) {
		next.Warnings = append(slices.Clone(next.Warnings), "Hacienda selló este documento después del respaldo que "+
			"se restauró; compárelo con la consulta pública de Hacienda")
		e.log.Warn("MH sealed a document after the restored backup, in an unknown form: compare with MH's public page",
			"code", code, "form", next.Form, "archive", err)
	}
	return "likeliest", nil
}

// correctForm checks next.Form, which follows from the recorded sendings alone. If MH may have sealed another form,
// correctForm sets next.Form to the latest form and returns false.
func (e *Engine) correctForm(next *record.Head, forms []string, sealed time.Time) (sure bool) {
	first, last := forms[0], forms[len(forms)-1]
	switch {
	case next.Form != first:
		return true // this store sent that form before the seal
	case first != record.FormNormal:
		return true
	case len(forms) == 1:
		return sealed.Before(next.CreatedAt.Add(settleAfter)) // MH sealed it while the sale was being settled
	case !next.Forwarded.IsZero() || sealed.Before(next.Sent.Add(e.sender.DoubtFor)):
		return true // MH sealed this form before a later form can have been sent
	}
	next.Form = last
	return false
}

func (e *Engine) archivedForm(ctx context.Context, h *record.Head, code string) ([]byte, error) {
	if e.outbox.Archive() == nil {
		return nil, errors.New("no archive is configured")
	}
	v, err := archived(ctx, e.outbox.Archive(), e.issuer.Slug, h, code)
	if err != nil {
		return nil, err
	}
	jws := []byte(v.Get("firmaElectronica").Text())
	document, err := record.Payload(jws)
	inside, bad := dte.Parse(document)
	if err = cmp.Or(e.signer.Verify(jws), err, bad); err != nil {
		return nil, fmt.Errorf("reading the archive's %s: %w", code, err)
	}
	if v.Get("selloRecibido").Text() != h.Response.SelloRecibido ||
		inside.Get("identificacion").Get("codigoGeneracion").Text() != code {
		return nil, fmt.Errorf("what the archive holds of %s is not what MH sealed", code)
	}
	return jws, nil
}

func archived(ctx context.Context, a *archive.Archive, slug string, h *record.Head, code string) (dte.Value, error) {
	held, err := a.Fetch(ctx, outbox.ArchivePath(slug, h, "json", code), archive.MaxDocument)
	v, _ := dte.Parse(held.Data) // what this product did not write has no signature
	return v, err
}

// totalOf returns the total in a document (SPEC: totalPagar; in type 07 totalIvaRetenido), or the fallback.
func totalOf(document dte.Value, fallback string) string {
	for _, name := range []string{"totalPagar", "totalIvaRetenido", "montoTotalOperacion", "valorTotal"} {
		if v := document.Get("resumen").Get(name); v.Present() {
			if a, err := v.Amount(); err == nil {
				return a.Fixed2()
			}
		}
	}
	return fallback
}

// ArchivedPart returns the signed form of a document from the archive; empty if the archive lacks it, the object is not
// such a document, or e's head is damaged. The digests in the store's journal show which form it is. Errors: the
// archive's.
func ArchivedPart(ctx context.Context, a *archive.Archive, slug string, e storage.Entry) ([]byte, error) {
	h := new(record.Head)
	if json.Unmarshal(e.Head, h) != nil || h.Document == "" {
		return nil, nil
	}
	v, err := archived(ctx, a, slug, h, dte.Code(e.Code).String())
	if err != nil && !errors.Is(err, archive.ErrNotFound) && !errors.Is(err, archive.ErrTooLarge) {
		return nil, err
	}
	return []byte(v.Get("firmaElectronica").Text()), nil
}
