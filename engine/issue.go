package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/fairqueue"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// Issue makes a document from a sale; ARCHITECTURE.md numbers its steps. Its errors are *refusal.Error. An error in
// steps 1 to 4 spends no number; after a later error the document is stored, and the caller must ask again.
func (e *Engine) Issue(ctx context.Context, req Request) (*record.View, error) {
	began := e.now()
	shown, path, err := e.issue(ctx, req)
	e.metrics.issued(req.Document, path, shown, err, e.now().Sub(began))
	if err == nil && path != pathReplay && shown.Estado == record.EstadoContingency {
		e.outbox.MailBeforeSeal(ctx, shown)
	}
	return shown, err
}

func (e *Engine) issue(ctx context.Context, req Request) (shown *record.View, path string, err error) {
	// 1. Key. A repeated key returns the first document as it stands now. While the first request runs, wait for it.
	key := idempotency(req)
	if key != nil {
		release, err := e.keys.Acquire(ctx, string(key.Key[:]))
		if err != nil {
			return nil, pathReplay, refusal.Unavailable(err, "La misma solicitud aún se está procesando")
		}
		defer release()
		if shown, err = e.answerRepeated(ctx, key); shown != nil || err != nil {
			return shown, pathReplay, err
		}
	}

	end, err := e.turn(ctx, req)
	if err != nil {
		return nil, pathRefused, err
	}
	defer end()

	// 2. Clock. One reading gives the date, the hour, the rules and the series' year. A box that may not issue refuses.
	d, err := e.openDraft(ctx, req)
	if err != nil {
		return nil, pathRefused, err
	}
	defer d.free()

	// 3. Rules. Compute the amounts, or refuse with all faults. A note or return is computed in step 4, under the lock
	// of its origin. In contingency, keep the period from ending until the document is stored.
	if req.Origin != nil {
		if _, err := e.findOrigin(ctx, d); err != nil {
			return nil, pathRefused, err
		}
	}
	if period, release := e.contingency.Hold(); period != nil {
		defer release()
		if err := e.putInPeriod(d, period); err != nil {
			return nil, pathRefused, err
		}
	} else {
		release()
	}
	if req.Origin == nil {
		if d.computed, err = e.compute(ctx, d); err != nil {
			return nil, pathRefused, err
		}
	}

	// 4. Append. Lock, fill, number and sign once, and write one synced batch. Before the batch nothing is stored;
	// after the batch a crash is safe.
	now, made, release, err := e.append(ctx, d, key)
	if err != nil {
		return nil, pathRefused, notStored(err)
	}
	defer release()
	end()
	e.shelf.OfferToShadow(req.Document, now.entry.Code)
	if d.form == record.FormContingency {
		e.contingency.Wake()
		shown, err = e.show(now)
		return made.noteBytes(shown), pathContingency, err
	}

	// 5 and 6. Transmit, settle, and answer from the stored document.
	if now, err = e.conclude(ctx, now, sending{wait: cmp.Or(req.Wait, e.o.Patience)}); err != nil {
		return nil, pathOnline, err
	}
	shown, err = e.show(now)
	return made.noteBytes(shown), pathOnline, err
}

// idempotency returns the request's key within its point of sale, or nil if the request has no key.
func idempotency(req Request) *storage.Idempotency {
	if req.IdempotencyKey == "" {
		return nil
	}
	digest := req.Body.Digest()
	// The digest covers the type too: the same body on another endpoint is another request.
	return &storage.Idempotency{Key: record.IdempotencyKey(req.Caller.Point.ID, req.IdempotencyKey),
		Digest: sha256.Sum256(append([]byte(req.Document), digest[:]...))}
}

// Repeated returns the document that was issued under a request's key, as it stands now, or nil.
func (e *Engine) Repeated(ctx context.Context, req Request) (*record.View, error) {
	if key := idempotency(req); key != nil {
		return e.answerRepeated(ctx, key)
	}
	return nil, nil
}

func (e *Engine) answerRepeated(ctx context.Context, key *storage.Idempotency) (*record.View, error) {
	code, first, err := e.store.Lookup(key.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	if first != key.Digest {
		return nil, &refusal.Error{Code: refusal.CodeKeyConflict,
			Message: "La Idempotency-Key ya se usó con otra solicitud", Document: dte.Code(code).String()}
	}
	entry, err := e.settleDocument(ctx, code, false)
	if err != nil {
		return nil, err
	}
	return e.public(entry)
}

// append stores a draft under its number. No other goroutine can settle the document before release is called.
func (e *Engine) append(ctx context.Context, d *draft, key *storage.Idempotency) (now standing, made *prepared,
	release func(), err error) {
	a, err := e.store.Begin(ctx, d.keys(key))
	if err != nil {
		return now, nil, nil, err
	}
	defer a.Release()
	if d.request.Origin != nil {
		if err = e.computeAgainst(ctx, d); err != nil {
			return now, nil, nil, err
		}
	}
	if made, err = e.fill(d, d.computed); err != nil {
		return now, nil, nil, err
	}
	slot, err := a.Number()
	if err != nil {
		return now, nil, nil, err
	}
	// From now on later numbers wait behind the sale's number: the sale can no longer be refused or cancelled. The
	// document is locked before it is stored, so that no other goroutine settles it.
	ctx = context.WithoutCancel(ctx)
	unlock, err := e.documents.Hold(ctx, d.code)
	if err != nil {
		return now, nil, nil, err
	}
	defer func() {
		if release == nil {
			unlock()
		}
	}()
	signed, err := e.sign(ctx, made, d, slot)
	if err != nil {
		return now, nil, nil, err
	}
	entry, err := a.Append(signed)
	if err != nil {
		return now, nil, nil, err
	}
	return standing{entry, made.head, made.jws, made.document}, made, unlock, nil
}

// notStored returns the answer to a sale that was not stored: its refusal, or the store's failure.
func notStored(err error) error {
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return refused
	}
	return refusal.Unavailable(err, "El documento no pudo guardarse")
}

func (e *Engine) openDraft(ctx context.Context, req Request) (*draft, error) {
	if err := cmp.Or(e.o.Gate(req.Caller.Point), e.numberGuard.Behind()); err != nil {
		return nil, err
	}
	// In the first 15 minutes of a day, dated needs MH's time. After a start, a probe asks for it.
	if now := e.now(); dte.Hour(now) < "00:15:00" && e.sender.Client.Time().IsZero() {
		if err := e.contingency.Check(ctx, now); err != nil {
			return nil, refusal.Internal(err)
		}
	}
	return e.makeDraft(req)
}

// dated returns the time of issue of a new document: the box's time, or MH's if only the box's clock has passed
// midnight and is 2 s to 15 min ahead. MH refuses a document dated tomorrow; package clock accepts up to 15 min ahead.
func (e *Engine) dated(now time.Time) time.Time {
	at := e.sender.Client.Time() // MH's time: it lags by a second, or more if its answer took long
	if ahead := now.Sub(at); 2*time.Second < ahead && ahead <= 15*time.Minute && dte.Date(at) < dte.Date(now) {
		return at
	}
	return now
}

// makeDraft makes the draft of a sale, if the branch issues its type and has a rule for it today.
func (e *Engine) makeDraft(req Request) (*draft, error) {
	if !e.o.Open(req.Document) {
		return nil, closed(req.Document,
			`esta sucursal no lo emite: agréguelo a [types] issue o a los ajustes de la cadena, y reinicie`)
	}
	now := e.now()
	dated := e.dated(now)
	rule, err := e.rules().Pick(req.Document, e.issuer.Ambiente, dte.Date(dated))
	if errors.Is(err, rulestore.ErrNoRule) {
		if early := e.notYet(req.Document); early != nil {
			return nil, early
		}
		if e.rules().Catalogues() != nil && record.TypeOf(req.Document).Document != "" {
			return nil, closed(req.Document, "las reglas vigentes no lo tienen")
		}
		return nil, refusal.Unavailable(err, "No hay reglas vigentes para el tipo de documento "+req.Document)
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	d, err := e.newDraft(req, now, dated)
	if err == nil {
		d.rule = rule
		if req.TestContingency {
			err = e.deferrable(req.Document, rule.Ref)
		}
	}
	return d, err
}

// closed returns the refusal of a document type that is not issued here.
func closed(document, why string) *refusal.Error {
	return &refusal.Error{Code: refusal.CodeTypeClosed,
		Message: fmt.Sprintf("El documento de tipo %s (%s) no se emite aquí: %s", document,
			record.TypeOf(document).Name, why)}
}

type draft struct {
	request   Request
	now       time.Time
	dated     time.Time // the document's time of issue
	code      dte.Code
	series    string
	blank     string    // the placeholder of the control number
	facts     dte.Value // with blank as control number
	form      string
	period    *contingency.Period // the contingency in which the sale is issued
	cause     int64               // CAT-005
	motive    string              // text for cause 5
	reason    string              // why the document is in contingency form, for people
	draws     []record.Draw       // the sale's draws on the counters of its origin
	passCodes bool                // online, MH alone decides about codes of catalogues

	ruleDay  string                // the day whose rules compute the sale; "": the day of dated
	rule     *rulestore.Rule       // in force on ruleDay; a retry may compute with an earlier rule
	computed *rulestore.Evaluation // nil until step 3 or 4
	from     *origin               // the document against which the sale is issued, or nil
}

func (d *draft) keys(key *storage.Idempotency) storage.Keys {
	k := storage.Keys{Series: d.series, Idempotency: key}
	if o := d.request.Origin; o != nil {
		k.Origins = []storage.Code{storage.Code(o.Code)}
	}
	return k
}

// filling returns the options of filling the draft. In contingency the box's catalogues decide about codes. Online, MH
// decides about payments and their terms (SPEC 2.7) and, with passCodes, about every code.
func (d *draft) filling() schema.FillOptions {
	online := d.form == record.FormNormal
	return schema.FillOptions{Catalogues: !online || !d.passCodes, LeavePayments: online}
}

func (d *draft) free() {
	if d.computed != nil {
		d.computed.Free()
	}
}

func (e *Engine) newDraft(req Request, now, dated time.Time) (*draft, error) {
	if record.TypeOf(req.Document).Document == "" {
		return nil, refusal.Internal(fmt.Errorf("document type %q is not issued here", req.Document))
	}
	if req.TestContingency && e.issuer.Ambiente == "01" {
		return nil, refusal.Of([]dte.Fault{{Path: "testContingencia", Code: dte.FaultCondition,
			Message: "Solo se admite en el ambiente de pruebas"}})
	}
	code, err := dte.NewCode(e.o.Rand)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	p := req.Caller.Point
	d := &draft{request: req, now: now, dated: dated, code: code, form: record.FormNormal, passCodes: e.o.PassCodes,
		series: e.issuer.Ambiente + "/" + req.Document + "/" + p.Establishment + "/" + p.PointOfSale + "/" +
			strconv.Itoa(dte.Year(dated))}
	d.blank, err = dte.ControlNumber(req.Document, p.Establishment, p.PointOfSale, unnumbered)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	identification := dte.Texts("ambiente", e.issuer.Ambiente, "codigoGeneracion", code.String(), "fecEmi",
		dte.Date(dated), "horEmi", dte.Hour(dated), "tipoMoneda", "USD").Set(append(slices.Clip(record.NormalMarks),
		dte.Member{Name: "numeroControl", Value: dte.Str(d.blank)})...)
	d.facts = req.Facts.Set(dte.Member{Name: "emisor", Value: record.Emisor(e.issuer, p)},
		dte.Member{Name: "identificacion", Value: identification})
	if req.TestContingency {
		d.mark(5, "Prueba de contingencia solicitada por el punto de venta")
		d.reason = "testContingencia"
	}
	return d, nil
}

// errAway means that MH does not answer, and accepts no document of this type in contingency.
var errAway = errors.New("MH does not answer, and takes no such document in contingency")

// deferrable returns a refusal if MH does not accept a rule's documents in contingency (MF2 p.18).
func (e *Engine) deferrable(document string, rule record.RuleRef) error {
	t := cmp.Or(e.shelf.DescribedBy(rule.Digest), record.TypeOf(document))
	if !t.Deferrable() {
		return refusal.Unavailable(errAway, "Hacienda no admite el documento "+t.Es+
			" en contingencia: repita la venta cuando Hacienda responda")
	}
	return nil
}

func (d *draft) mark(cause int64, motive string) {
	d.cause, d.motive = cause, motive
	id := d.facts.Get("identificacion").Set(record.ContingencyMarks(cause, motive)...)
	d.facts, d.form = d.facts.With("identificacion", id), record.FormContingency
}

// putInPeriod puts a draft in the branch's contingency period, if MH accepts its type in contingency.
func (e *Engine) putInPeriod(d *draft, p *contingency.Period) error {
	d.mark(p.Cause, p.MotiveOnDocument())
	d.period, d.reason = p, p.Motive
	return e.deferrable(d.request.Document, d.rule.Ref)
}

// compute evaluates a draft. The error for a draft with faults is a *refusal.Error with all faults.
func (e *Engine) compute(ctx context.Context, d *draft) (*rulestore.Evaluation, error) {
	r := d.rule
	computed, faults, err := r.Make(ctx, d.facts, d.filling())
	if err == nil {
		e.shelf.Answered(r, d.request.Caller.Point.ID)
	} else if ctx.Err() == nil {
		r, computed, faults, err = e.shelf.RetryWithPrevious(ctx, r, d.request.Caller.Point.ID, cmp.Or(d.ruleDay,
			dte.Date(d.dated)), d.facts, d.filling(), err)
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	if misnamed := misnamedDocuments(d); len(faults)+len(misnamed) > 0 {
		if computed != nil {
			computed.Free()
		}
		faults = append(faults, misnamed...)
		return nil, refusal.Of(append(faults, e.breaches(r, d, faults)...))
	}
	if computed.Computed.Summary[computed.Rule.Total] == 0 {
		computed.Warnings = append(computed.Warnings, nothingToPay)
	}
	if dte.Amount(computed.Computed.Summary[computed.Rule.Total]) >= annexLimit {
		computed.Warnings = append(computed.Warnings, beyondAnnex)
	}
	return computed, nil
}

// computeAgainst completes and computes a draft. Issue calls it under the lock of the draft's origin, Validate without.
func (e *Engine) computeAgainst(ctx context.Context, d *draft) error {
	faults, err := e.complete(ctx, d)
	if err == nil {
		d.computed, err = e.amounts(ctx, d, faults)
	}
	return err
}

// complete finds a draft's origin, completes the facts from it, and sets the rule of the origin's day. For a
// return it also adds to d.draws the quantities that the return takes; drawn adds the amounts later. A note's facts are
// completed despite the faults that complete returns; a return's faults are in the error.
func (e *Engine) complete(ctx context.Context, d *draft) (faults []dte.Fault, err error) {
	if d.request.Origin == nil {
		return nil, nil
	}
	if d.from, err = e.findOrigin(ctx, d); err != nil {
		return nil, err
	}
	d.rule, d.ruleDay = e.rules().Original(d.rule, e.issuer.Ambiente, d.from.head.Date), d.from.head.Date
	if record.TypeOf(d.request.Document).Effect != bundle.TakesBack {
		d.facts, faults = noteFacts(d.facts, d.from, d.from.misnamed(d.request.Origin))
		return faults, nil
	}
	err = e.takeBack(d, d.from)
	if refused, ok := errors.AsType[*refusal.Error](err); ok && len(refused.Faults) > 0 &&
		e.completeReturn(d, d.from, nil) == nil {
		// Report the appendix's faults too; all other faults may follow from the wrong lines.
		refused.Faults = append(refused.Faults, slices.DeleteFunc(e.breaches(d.rule, d, nil), func(f dte.Fault) bool {
			return !strings.HasPrefix(f.Path, "apendice")
		})...)
	}
	return nil, err
}

// unnumbered stands for a document's number that is not known yet: all control numbers have the same length.
const unnumbered = 1

// fill returns the document that an evaluation made, or a *refusal.Error if the layout refused the document.
func (e *Engine) fill(d *draft, ev *rulestore.Evaluation) (*prepared, error) {
	if len(ev.Refused) > 0 {
		return nil, refusal.Of(ev.Refused)
	}
	end := len(ev.Document)
	room := ev.Document[end:] // the facts of most sales fit behind the document
	if cap(room) < end/2 {
		room = make([]byte, 0, end)
	}
	p := &prepared{document: ev.Document[:end:end], facts: d.facts.Append(room)}
	blank := rulestore.NumberPlace(d.blank)
	for _, text := range [...][]byte{p.facts, p.document} {
		if at := bytes.Index(text, blank); at >= 0 {
			p.numbers = append(p.numbers, text[at:][:len(blank)])
		}
	}
	return p, nil
}

// stamp writes control number n into the facts and the document, and returns the control number. A return (18) shows no
// number. Rule.Make has checked that the document does not repeat the placeholder.
func (p *prepared) stamp(d *draft, n uint64) (string, error) {
	at := d.request.Caller.Point
	control, err := dte.ControlNumber(d.request.Document, at.Establishment, at.PointOfSale, n)
	if err != nil {
		return "", err
	}
	place := rulestore.NumberPlace(control)
	for _, text := range p.numbers {
		copy(text, place) // all numbers have the same length
	}
	return control, nil
}

// prepared is a document that is not stored yet. The method stamp sets its number; Engine.sign then signs it.
type prepared struct {
	document []byte   // the payload of jws
	facts    []byte   // the facts from which the document was made
	numbers  [][]byte // the bytes of the control number in document and in facts
	head     *record.Head
	jws      []byte
}

// noteBytes sets the number of stored bytes on the view r of a new document; r may be nil.
func (p *prepared) noteBytes(r *record.View) *record.View {
	if r != nil {
		r.Stored = p.head.Bytes
	}
	return r
}

// sign stamps the number on the prepared document, signs the document, and returns the draft to store.
func (e *Engine) sign(ctx context.Context, p *prepared, d *draft, slot storage.Slot) (to storage.Draft, err error) {
	ev := d.computed
	control, err := p.stamp(d, slot.Number)
	if err != nil {
		return to, refusal.Internal(err)
	}
	if p.jws, err = e.signer.Right(d.code, d.form).Sign(ctx, p.document); err != nil {
		return to, refusal.Unavailable(err, "El documento no pudo firmarse")
	}
	req, r := d.request, ev.Rule
	h := &record.Head{
		Document: req.Document, Version: r.Filler.Version(), ControlNumber: control,
		Ambiente: e.issuer.Ambiente, Date: dte.Date(d.dated), Total: dte.Amount(ev.Computed.Summary[r.Total]).Fixed2(),
		Form: d.form, Serie: req.Caller.Point.PointOfSale,
		EmisorID: e.issuer.ID, BranchID: req.Caller.Point.BranchID, PointID: req.Caller.Point.ID,
		TokenID:   req.Caller.TokenID,
		CreatedAt: d.now.UTC().Truncate(time.Millisecond), Bytes: int64(len(p.facts) + len(p.jws)), Rule: r.Ref,
		Warnings: append(req.Warnings[:len(req.Warnings):len(req.Warnings)], ev.Warnings...),
		Receiver: record.ReceiverOf(d.facts), Mail: outbox.Recipient(d.facts),
	}
	p.head = h
	to = storage.Draft{
		Code:  storage.Code(d.code),
		State: record.Signed,
		Days:  h.Days(),
		Parts: []storage.Part{{Name: record.PartFacts, Data: p.facts}, {Name: d.form, Data: p.jws}},
		Due:   &storage.Due{Queue: record.QueueSettle, At: d.now.Add(settleAfter)},
	}
	if d.form == record.FormContingency {
		h.Why = d.reason
		h.Until, h.Cause, h.Motive = h.CreatedAt, d.cause, d.motive
		if d.period != nil {
			h.Period = d.period.Code()
		}
		to.State, to.Due = record.Deferred, &storage.Due{Queue: record.QueueReport, At: d.now}
	}
	if d.from != nil {
		h.Origin = req.Origin.Code.String()
		draws, err := json.Marshal(d.draws)
		if err != nil {
			return to, refusal.Internal(err)
		}
		to.Parts = append(to.Parts, storage.Part{Name: record.PartDraws, Data: draws})
		if to.Counters, err = e.counters(d, d.from); err != nil {
			return to, err
		}
	}
	to.Head, err = h.Encode()
	return to, err
}

// manyLines is the number of lines from which a sale waits for a turn: 2,000 lines take some 60 ms of the processor.
const manyLines = 500

// turn waits for the turn of a sale with many lines and returns the function that ends it; a smaller sale does not
// wait. Call turn before any lock but the idempotency key's, and end it before waiting for MH.
func (e *Engine) turn(ctx context.Context, req Request) (end func(), err error) {
	if req.Facts.Get(rulestore.LinesName).Len() < manyLines {
		return func() {}, nil
	}
	end, err = e.large.Enter(ctx, req.Caller.TokenID)
	if busy, ok := errors.AsType[*fairqueue.Busy](err); ok {
		return nil, &refusal.Error{Code: refusal.CodeBusy, RetryAfter: busy.Wait, Err: busy,
			Message: "Este token tiene demasiadas ventas grandes en espera"}
	}
	if err != nil {
		return nil, refusal.Unavailable(err, "Hay demasiadas ventas grandes a la vez")
	}
	return end, nil
}
