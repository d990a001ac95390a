package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/rules"
	"dtegate/storage"
)

// Issue makes a document from a sale; ARCHITECTURE.md numbers its steps. Its errors are *refusal.Error. After an error no
// number was spent, except after step 4: then the document is stored, and the error means only that the caller must ask again.
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
	d, err := e.openDraft(req)
	if err != nil {
		return nil, pathRefused, err
	}
	defer d.free()

	// 3. Rules. The amounts, or everything that is wrong with the sale. What is issued against another document is computed
	// under that document's lock, in step 4. In contingency the period stands still until the document is in it.
	if req.Origin != nil {
		if _, err := e.findOrigin(ctx, d); err != nil {
			return nil, pathRefused, err
		}
	}
	if period, release := e.contingency.Hold(); period != nil {
		defer release()
		d.putInPeriod(period)
	} else {
		release()
	}
	if req.Origin == nil {
		if d.computed, err = e.compute(ctx, d.rule, d); err != nil {
			return nil, pathRefused, err
		}
	}

	// 4. Append. Lock, fill, number, sign once, and one synced batch. After it a crash is safe, before it nothing happened.
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

	// 5 and 6. Transmit under the policy, settle, answer from what is durable.
	if now, err = e.conclude(ctx, now, sending{wait: req.Wait}); err != nil {
		return nil, pathOnline, err
	}
	shown, err = e.show(now)
	return made.noteBytes(shown), pathOnline, err
}

// append stores a draft under its number. Nobody else settles the document before release.
func (e *Engine) append(ctx context.Context, d *draft, key *storage.Idempotency) (now standing, made *prepared, release func(), err error) {
	a, err := e.store.Begin(ctx, d.keys(key))
	if err != nil {
		return now, nil, nil, err
	}
	defer a.Release()
	if d.request.Origin != nil {
		if d.from, d.computed, err = e.computeAgainst(ctx, d.rule, d); err != nil {
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
	// Once numbered, a sale has later numbers queued behind it: it can no longer be refused or cancelled. Its lock is taken
	// before anybody can find it, so that nobody else settles it.
	ctx = context.WithoutCancel(ctx)
	unlock, err := e.Hold(ctx, d.code)
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

// notStored answers a sale that was not stored: what refuses it, or that the store could not.
func notStored(err error) error {
	var refused *refusal.Error
	if errors.As(err, &refused) {
		return refused
	}
	return refusal.Unavailable(err, "El documento no pudo guardarse")
}

// openDraft makes the draft of a sale, if the box is fit to issue and has a rule for it today.
func (e *Engine) openDraft(req Request) (*draft, error) {
	if err := e.gate(req.Caller.Point); err != nil {
		return nil, err
	}
	if err := e.witness.Behind(); err != nil {
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
	d, err := e.newDraft(req, now)
	if err != nil {
		return nil, err
	}
	d.rule = rule
	return d, nil
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
