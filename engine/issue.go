package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
	"dtegate/engine/seller"
	"dtegate/rules"
	"dtegate/storage"
)

// Issue makes one sale into one document, step by step as ARCHITECTURE.md numbers them. The errors that it returns
// are *refusal.Error; on any of them no number was spent, except after step 4, where the document is safe and an error
// only says that the caller must ask again.
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
	// 1. Key. The same key again is the same document, as it stands now. While the first request runs, wait for it.
	key := idempotency(req)
	if key != nil {
		release, err := e.keys.Acquire(ctx, string(key.Key[:]))
		if err != nil {
			return nil, pathReplay, refusal.Unavailable(err, "La misma solicitud aún se está procesando")
		}
		defer release()
		if shown, err = e.replay(ctx, key, req); shown != nil || err != nil {
			return shown, pathReplay, err
		}
	}

	end, err := e.turn(ctx, req)
	if err != nil {
		return nil, pathRefused, err
	}
	defer end()

	// 2. Clock. One reading gives the date, the hour, the rules and the series' year. A box that is not fit says so.
	d, err := e.open(req)
	if err != nil {
		return nil, pathRefused, err
	}
	defer d.free()

	// 3. Rules. The amounts, or everything that is wrong with the sale. What is issued against another document is computed
	// under that document's lock, in step 4. In contingency the period stands still until the document is in it.
	if req.Origin != nil {
		if _, err := e.origin(ctx, d); err != nil {
			return nil, pathRefused, err
		}
	}
	if period, release := e.contingency.Hold(); period != nil {
		defer release()
		d.within(period)
	} else {
		release()
	}
	if req.Origin == nil {
		if d.computed, err = e.compute(ctx, d.rule, d); err != nil {
			return nil, pathRefused, err
		}
	}

	// 4. Append. Lock, fill, number, sign once, and one synced batch. After it a crash is safe, before it nothing happened.
	a, err := e.store.Begin(ctx, d.keys(key))
	if err != nil {
		return nil, pathRefused, notStored(err)
	}
	defer a.Release()
	if req.Origin != nil {
		if d.from, d.computed, err = e.draw(ctx, d.rule, d); err != nil {
			return nil, pathRefused, notStored(err)
		}
	}
	made, err := e.fill(d, d.computed)
	if err != nil {
		return nil, pathRefused, notStored(err)
	}
	slot, err := a.Number()
	if err != nil {
		return nil, pathRefused, notStored(err)
	}
	// Once numbered, a sale has later numbers queued behind it: it can no longer be refused or cancelled. Its lock is taken
	// before anybody can find it, so that nobody else settles it.
	ctxNumbered := context.WithoutCancel(ctx)
	release, err := e.Hold(ctxNumbered, d.code)
	if err != nil {
		return nil, pathRefused, notStored(err)
	}
	defer release()
	signed, err := e.sign(ctxNumbered, made, d, slot)
	if err != nil {
		return nil, pathRefused, notStored(err)
	}
	entry, err := a.Append(signed)
	if err != nil {
		return nil, pathRefused, notStored(err)
	}
	end()
	e.shelf.OfferToShadow(req.Document, entry.Code)
	now := standing{entry, made.head, made.jws, made.document}
	if d.form == record.FormContingency {
		e.contingency.Wake()
		shown, err = e.show(now)
		return made.stored(shown), pathContingency, err
	}

	// 5 and 6. Transmit under the policy, settle, answer from what is durable.
	if now, err = e.conclude(ctx, now, sending{wait: req.Wait}); err != nil {
		return nil, pathOnline, err
	}
	shown, err = e.show(now)
	return made.stored(shown), pathOnline, err
}

// notStored answers a sale that was not stored: what refuses it, or that the store could not.
func notStored(err error) error {
	var refused *refusal.Error
	if errors.As(err, &refused) {
		return refused
	}
	return refusal.Unavailable(err, "El documento no pudo guardarse")
}

// open makes the draft of a sale, if the box is fit to issue and has a rule for it today.
func (e *Engine) open(req Request) (*draft, error) {
	if err := e.gate(req.Caller.Point); err != nil {
		return nil, err
	}
	if err := e.Behind(); err != nil {
		return nil, err
	}
	now := e.now()
	rule, err := e.rules().Pick(req.Document, e.issuer.Ambiente, dte.Date(now))
	if errors.Is(err, rules.ErrNoRule) {
		if early := e.notYet(req.Document); early != nil {
			return nil, early
		}
		return nil, refusal.Unavailable(err, "No hay reglas vigentes para el tipo de documento "+req.Document)
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	d, err := e.draft(req, now)
	if err != nil {
		return nil, err
	}
	d.rule = rule
	return d, nil
}

// compute evaluates a draft; faults are a *refusal.Error that names everything that is wrong with it.
func (e *Engine) compute(ctx context.Context, r *rulebook.Rule, d *draft) (*rulebook.Evaluation, error) {
	computed, faults, err := r.Evaluate(ctx, d.facts)
	switch {
	case err == nil:
		e.shelf.Answered(r, d.request.Caller.Point.ID)
	case err != nil && e.shelf != nil && ctx.Err() == nil:
		r, computed, faults, err = e.shelf.RetryWithPrevious(ctx, r, d.request.Caller.Point.ID, cmp.Or(d.ruleDay, dte.Date(d.now)), d.facts, err)
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
		return nil, refusal.Of(append(append(faults, late...), e.breaches(r, d, append(faults, late...))...))
	}
	if computed.Computed.Summary[computed.Rule.Total] == 0 {
		computed.Warnings = append(computed.Warnings, nothingToPay)
	}
	return computed, nil
}

// draw completes and computes a draft against its origin, which is locked.
func (e *Engine) draw(ctx context.Context, r *rulebook.Rule, d *draft) (*origin, *rulebook.Evaluation, error) {
	o, err := e.origin(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	r, d.ruleDay = e.rules().Original(r, e.issuer.Ambiente, o.head.Date), o.head.Date
	err = e.against(d, o)
	faults := refusal.Faults(err)
	switch {
	case err != nil && len(faults) == 0:
		return nil, nil, err
	case err != nil && record.Types[d.request.Document].Against == record.TakesBack:
		refused := *err.(*refusal.Error)
		refused.Faults = append(faults, e.besideLines(r, d, o)...)
		return nil, nil, &refused
	}
	computed, err := e.amounts(ctx, r, d, o, faults)
	return o, computed, err
}

// idempotency returns the key of a request in its point of sale's own space, nil if it has none.
func idempotency(req Request) *storage.Idempotency {
	if req.IdempotencyKey == "" {
		return nil
	}
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, req.Caller.Point.ID)
	h.Write([]byte(req.IdempotencyKey))
	key := &storage.Idempotency{}
	h.Sum(key.Key[:0])
	key.Digest = bodyDigest(req.Document, req.Digest)
	return key
}

// bodyDigest tells bodies on different endpoints apart: the same body on another endpoint is another sale.
func bodyDigest(document string, body [32]byte) (digest [32]byte) {
	d := sha256.New()
	d.Write([]byte(document))
	d.Write(body[:])
	d.Sum(digest[:0])
	return digest
}

// replay returns the document that a key made, nil if it has made none.
func (e *Engine) replay(ctx context.Context, key *storage.Idempotency, req Request) (*record.View, error) {
	code, first, err := e.store.Lookup(key.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	if first != key.Digest && (req.BytesDigest == nil || first != bodyDigest(req.Document, req.BytesDigest())) {
		return nil, &refusal.Error{Code: refusal.CodeKeyConflict, Message: "La Idempotency-Key ya se usó con otra solicitud", Document: dte.Code(code).String()}
	}
	entry, err := e.settle(ctx, code, false)
	if err != nil {
		return nil, err
	}
	shown, err := e.View(entry)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	return shown, nil
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

func (e *Engine) draft(req Request, now time.Time) (*draft, error) {
	if _, known := record.Types[req.Document]; !known {
		return nil, refusal.Internal(fmt.Errorf("document type %q is not issued here", req.Document))
	}
	if req.TestContingency && e.issuer.Ambiente == "01" {
		return nil, refusal.Of([]dte.Fault{{Path: "testContingencia", Code: dte.FaultCondition, Message: "Solo se admite en el ambiente de pruebas"}})
	}
	code, err := dte.NewCode(e.rand)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	p := req.Caller.Point
	d := &draft{request: req, now: now, code: code, form: record.FormNormal,
		series: fmt.Sprintf("%s/%s/%s/%s/%d", e.issuer.Ambiente, req.Document, p.Establishment, p.PointOfSale, dte.Year(now))}
	d.none, err = dte.ControlNumber(req.Document, p.Establishment, p.PointOfSale, unnumbered)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	identification := append([]dte.Member{
		{Name: "ambiente", Value: dte.Str(e.issuer.Ambiente)},
		{Name: "codigoGeneracion", Value: dte.Str(code.String())},
		{Name: "fecEmi", Value: dte.Str(dte.Date(now))},
		{Name: "horEmi", Value: dte.Str(dte.Hour(now))},
		{Name: "tipoMoneda", Value: dte.Str("USD")},
	}, record.NormalMarks...)
	identification = append(identification, dte.Member{Name: "numeroControl", Value: dte.Str(d.none)})
	d.facts = req.Facts.Set(dte.Member{Name: "emisor", Value: seller.Emisor(e.issuer, p)}, dte.Member{Name: "identificacion", Value: dte.Obj(identification...)})
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

// within issues the draft in a contingency of the branch.
func (d *draft) within(p *contingency.Period) {
	d.mark(p.Cause, p.MotiveOnDocument())
	d.period, d.reason = p, p.Motive
}

// prepared is a document that is not stored yet: first complete but for its number, then signed.
type prepared struct {
	document []byte // which jws signs
	facts    []byte // that it was made of
	head     *record.Head
	jws      []byte
}

// stored notes on the record of a new document, nil for none, what it took.
func (p *prepared) stored(r *record.View) *record.View {
	if r != nil {
		r.Stored = p.head.Bytes
	}
	return r
}

// sign stamps the number on what fill made, signs it, and returns it as it is to be stored.
func (e *Engine) sign(ctx context.Context, p *prepared, d *draft, slot storage.Slot) (s storage.Draft, err error) {
	ev := d.computed
	control, err := p.stamp(d, slot.Number)
	if err != nil {
		return s, refusal.Internal(err)
	}
	if p.jws, err = e.signer.Right(d.code, d.form).Sign(ctx, p.document); err != nil {
		return s, refusal.Unavailable(err, "El documento no pudo firmarse")
	}
	req, r := d.request, ev.Rule
	h := &record.Head{
		Document: req.Document, Version: r.Filler.Version(), ControlNumber: control,
		Ambiente: e.issuer.Ambiente, Date: dte.Date(d.now), Total: dte.Amount(ev.Computed.Summary[r.Total]).Fixed2(),
		Form: d.form, Serie: req.Caller.Point.PointOfSale,
		EmisorID: e.issuer.ID, BranchID: req.Caller.Point.BranchID, PointID: req.Caller.Point.ID, TokenID: req.Caller.TokenID,
		CreatedAt: d.now.UTC().Truncate(time.Millisecond), Bytes: int64(len(p.facts) + len(p.jws)), Rule: r.Ref, Warnings: append(req.Warnings[:len(req.Warnings):len(req.Warnings)], ev.Warnings...), Mail: outbox.Recipient(d.facts),
	}
	p.head = h
	s = storage.Draft{
		Code:  storage.Code(d.code),
		State: record.Signed,
		Parts: []storage.Part{{Name: record.PartFacts, Data: p.facts}, {Name: d.form, Data: p.jws}},
		Due:   &storage.Due{Queue: record.QueueSettle, At: d.now.Add(settleAfter)},
	}
	if d.form == record.FormContingency {
		h.Why = d.reason
		h.Until, h.Cause, h.Motive = h.CreatedAt, d.cause, d.motive
		if d.period != nil {
			h.Period = d.period.Code()
		}
		s.State, s.Due = record.Deferred, &storage.Due{Queue: record.QueueReport, At: d.now}
	}
	if d.from != nil {
		h.Origin = req.Origin.Code.String()
		draws, err := json.Marshal(d.draws)
		if err != nil {
			return s, refusal.Internal(err)
		}
		s.Parts = append(s.Parts, storage.Part{Name: record.PartDraws, Data: draws})
		if s.Counters, err = e.counters(d, d.from); err != nil {
			return s, err
		}
	}
	s.Head, err = h.Encode()
	return s, err
}
