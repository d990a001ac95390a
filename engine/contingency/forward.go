package contingency

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

type lotHead struct {
	Code      string    `json:"code,omitempty"` // codigoLote; "" until MH has answered
	Sent      time.Time `json:"sent,omitzero"`
	Doubtful  bool      `json:"doubtful,omitempty"` // MH may have the lot: its answer was lost
	Documents int       `json:"documents"`
}

// lotSizes limits, until a restart, a document's next lot to half the size of the lot that MH refused or lost.
type lotSizes struct{ sync.Map }

func (l *lotSizes) sizeFor(code storage.Code, most int) int {
	if n, ok := l.Load(code); ok {
		return min(n.(int), most)
	}
	return most
}

// next returns how many of a list's first documents go into one lot: at least one, and at most sizeFor of each of them.
func (l *lotSizes) next(list []document, most int) int {
	n := min(most, len(list))
	for i := range n {
		n = min(n, max(i, 1, l.sizeFor(list[i].entry.Code, n)))
	}
	return n
}

func (l *lotSizes) shrink(list []document) {
	for _, o := range list {
		l.Store(o.entry.Code, max(1, (len(list)+1)/2))
	}
}

// forwardDocuments sends the documents whose event is sealed: in lots, or a single document alone.
func (c *Contingency) forwardDocuments(ctx context.Context) (progress bool, err error) {
	lots, err := c.branch.Store.Due(record.QueueLot, record.Whenever, 1000)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", record.QueueLot, err)
	}
	room := cmp.Or(c.options.LotsInFlight, lotsInFlight) - len(lots)
	if room <= 0 {
		return false, nil
	}
	listed, err := c.listed(record.QueueLot, record.LotOpen)
	if err != nil {
		return false, err
	}
	most := c.law().lotDocuments
	most = min(most, cmp.Or(c.options.LotSize, most))
	due, err := c.waiting(ctx, record.QueueForward, c.branch.Now(), (room+len(lots))*most)
	if err != nil {
		return false, err
	}
	list, err := c.unsent(ctx, slices.DeleteFunc(due, func(o document) bool { return listed[o.entry.Code] }))
	if err != nil {
		return false, err
	}
	for len(list) > 0 && room > 0 {
		n := c.sizes.next(list, most)
		whole, err := c.withForms(ctx, list[:n])
		switch {
		case err != nil:
		case len(whole) == 1:
			err = c.forwardOne(ctx, whole[0])
		case len(whole) > 1:
			err = c.makeLot(ctx, whole)
			room--
		}
		if err != nil {
			return progress, err
		}
		list, progress = list[n:], true
	}
	return progress, nil
}

// withForms reads the signed forms of documents. It sets a document aside if its form is lost.
func (c *Contingency) withForms(ctx context.Context, list []document) (whole []document, err error) {
	for _, o := range list {
		if o.jws, err = record.SignedForm(c.branch.Store, o.entry.Code, o.head); err == nil {
			whole = append(whole, o)
		} else if err := c.branch.Lost.Skip(ctx, o.entry, err); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// unsent queries MH about documents that MH may have: after a sending without an answer, before the first sending of a
// contingency form (MH may seal the normal form hours later) or of a correction, and after a restoration. It records
// the documents that MH has, and returns the documents that MH lacks.
func (c *Contingency) unsent(ctx context.Context, list []document) ([]document, error) {
	return c.pick(ctx, list, func(ctx context.Context, o document) (bool, error) {
		if !o.head.Doubtful && !o.mayTurnUp() && !o.newlyCorrected() && !c.branch.Sender.MayBeFurther(o.code(),
			o.head.CreatedAt) {
			return true, nil
		}
		found, err := c.lookUp(ctx, o)
		return found == absent, err
	})
}

// recordAnswer records MH's answer to the form that the document's record names. After a refusal, it queries MH,
// because MH may have accepted an earlier sending whose answer was lost.
func (c *Contingency) recordAnswer(ctx context.Context, o document, out authority.Outcome) error {
	next := *o.head
	next.Doubtful = false
	switch out.Kind {
	case authority.Accepted:
		next.Response = out.Response
		c.sizes.Delete(o.entry.Code)
		_, err := c.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Accepted, Announce: true}, &next)
		return err
	case authority.Rejected:
		switch q := c.branch.Sender.SettleRefusal(ctx, o.code(), o.head.Document, out, o.head.Sent); q.Kind {
		case authority.Accepted:
			_, err := c.branch.Documents.AdoptHeld(ctx, o.entry, o.head, q.Response, 0)
			return err
		case authority.Unknown:
			return c.doubt(ctx, o)
		}
		next.Response, next.Refused = out.Response, c.authorityTime()
		change := storage.Change{To: record.Rejected, Announce: true}
		if until := next.CorrectableUntil(c.law().correction); !until.IsZero() {
			change.Due = &storage.Due{Queue: record.QueueCorrect, At: until}
		}
		c.sizes.Delete(o.entry.Code)
		c.metrics.lateRejections.WithLabelValues(o.head.Document).Inc()
		c.branch.Logger.Error("MH refuses a document issued in contingency", "code", o.code(), "text",
			record.RefusalText(out.Response))
		_, err := c.branch.Documents.Move(ctx, o.entry, change, &next)
		return err
	}
	return c.doubt(ctx, o)
}

// authorityTime returns MH's time, which ignores jumps of the box's clock; before MH's first answer, the box's time.
func (c *Contingency) authorityTime() time.Time {
	return cmp.Or(c.branch.Sender.Client.Time(), c.branch.Now()).UTC()
}

// doubt records that MH may or may not have a document.
func (c *Contingency) doubt(ctx context.Context, o document) error {
	next := *o.head
	if next.Forwarded.IsZero() {
		// makeLot left Forwarded zero because the normal form was never sent: any past time is right.
		next.Forwarded = next.CreatedAt
	}
	next.Doubtful, next.Sent = true, c.branch.Now().UTC()
	return c.move(ctx, o, o.entry.State, record.QueueForward, next.Sent.Add(c.branch.Sender.DoubtFor), &next)
}

func (c *Contingency) forwardOne(ctx context.Context, o document) error {
	before := o
	o, err := c.sendingNow(ctx, o)
	if err != nil {
		return err
	}
	out := c.branch.Sender.Client.Submit(ctx, authority.Submission{Document: o.head.Document, Version: o.head.Version,
		Code: o.code(), JWS: string(o.jws), SendID: c.branch.SendID()})
	if out.Unreachable() {
		return cmp.Or(c.notSent(ctx, before), ErrAway)
	}
	if out.Kind == authority.Unknown && ctx.Err() == nil {
		c.Suspect()
	}
	if out.Kind != authority.Unknown { // this sending is no longer in doubt; an earlier sending may be
		answered := *o.head
		answered.Sent = before.head.Sent
		o.head = &answered
	}
	return c.recordAnswer(ctx, o, out)
}

// sendingNow records durably that the document's form is about to be sent: after a crash the document is in doubt.
func (c *Contingency) sendingNow(ctx context.Context, o document) (document, error) {
	next := *o.head
	now := c.branch.Now().UTC()
	next.Doubtful, next.Sent = true, now
	c.noteFirst(&next)
	entry, err := c.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Reported,
		Due: &storage.Due{Queue: record.QueueForward, At: now}}, &next)
	return document{entry, &next, o.jws}, err
}

// noteFirst sets the time at which a form is sent for the first time, by MH's clock.
func (c *Contingency) noteFirst(h *record.Head) {
	n := record.CorrectionNumber(h.Form)
	switch {
	case n > 0 && n <= len(h.Corrections):
		if h.Corrections[n-1].Forwarded.IsZero() {
			h.Corrections = slices.Clone(h.Corrections)
			h.Corrections[n-1].Forwarded = c.authorityTime()
		}
	case h.Forwarded.IsZero():
		h.Forwarded = c.authorityTime()
	}
}

// notSent undoes the record of a sending that certainly did not reach MH. It also restores the times of sending, which
// show whether MH may still seal the document's normal form: see mayTurnUp.
func (c *Contingency) notSent(ctx context.Context, before document) error {
	_, err := c.branch.Documents.Move(ctx, before.entry, storage.Change{To: record.Reported, Due: before.entry.Due},
		before.head)
	return err
}

// makeLot records a lot and then sends it. After a crash in between, MH is queried for the lot's documents.
func (c *Contingency) makeLot(ctx context.Context, list []document) error {
	code, err := dte.NewCode(c.branch.Rand)
	if err != nil {
		return err
	}
	// The time of the first sending matters only if MH may still seal an earlier form of the document.
	err = c.eachDocument(ctx, list, func(ctx context.Context, o document) error {
		if !o.mayTurnUp() && !o.newlyCorrected() {
			return nil
		}
		next := *o.head
		c.noteFirst(&next)
		_, err := c.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Reported, Due: o.entry.Due}, &next)
		return err
	})
	if err != nil {
		return err
	}
	now := c.branch.Now().UTC()
	h := &lotHead{Documents: len(list), Sent: now}
	// If the process dies before MH answers, the documents are queried from this time on.
	entry, err := c.appendRecord(ctx, "lote", code, record.LotOpen, h,
		storage.Due{Queue: record.QueueLot, At: now.Add(c.hurried(lotPatience))}, codesPart(list))
	if err != nil {
		return err
	}
	return c.sendLot(ctx, entry, h, list)
}

func (c *Contingency) sendLot(ctx context.Context, entry storage.Entry, h *lotHead, list []document) error {
	var lot []string
	for _, o := range list {
		lot = append(lot, string(o.jws))
	}
	out, code, text := c.branch.Sender.Client.SubmitLot(ctx, dte.Code(entry.Code).String(), lot)
	switch {
	case out.Kind == authority.Accepted:
		h.Code = code
		c.metrics.lots.WithLabelValues("received").Inc()
		return c.askLotIn(ctx, entry, h, c.hurried(lotPoll))
	case out.Kind == authority.Rejected:
		// One document may be the cause: repeated halving of the lot finds it.
		c.metrics.lots.WithLabelValues("rejected").Inc()
		c.branch.Logger.Warn("MH refuses a lot", "documents", len(list), "text", text)
		c.sizes.shrink(list)
		return c.finish(ctx, entry, record.LotDone)
	case out.Unreachable():
		err := c.eachDocument(ctx, list, func(ctx context.Context, o document) error {
			if !o.mayTurnUp() && !o.newlyCorrected() {
				return nil
			}
			return c.notSent(ctx, o)
		})
		if err == nil {
			err = c.finish(ctx, entry, record.LotDone)
		}
		return cmp.Or(err, ErrAway)
	}
	c.metrics.lots.WithLabelValues("unknown").Inc()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.branch.Logger.Warn("no answer to a lot", "documents", len(list), refusal.LogAttr(out.Err))
	c.Suspect()
	h.Doubtful = true
	return c.askLotIn(ctx, entry, h, c.hurried(lotPatience))
}

// askLotIn records an open lot and the time of the next query about it.
func (c *Contingency) askLotIn(ctx context.Context, entry storage.Entry, h *lotHead, wait time.Duration) error {
	_, err := c.moveRecord(ctx, entry, record.LotOpen, h, &storage.Due{Queue: record.QueueLot,
		At: c.branch.Now().Add(wait)})
	return err
}

func (c *Contingency) pollLot(ctx context.Context, entry storage.Entry) (done bool, err error) {
	h, err := decode[lotHead](entry)
	if err != nil {
		return false, err
	}
	record.Earliest(&h.Sent, c.branch.Now()) // the clock may have been set back after the sending
	var outcomes map[string]authority.Outcome
	waits := false // MH may still work on the documents without a result: a query would not prove that MH lacks them
	if h.Code != "" {
		outcomes, err = c.branch.Sender.Client.QueryLot(ctx, h.Code)
		waits = c.branch.Now().Sub(h.Sent) <= c.hurried(lotPatience)
		switch {
		case err != nil && ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil && waits:
			c.branch.Logger.Warn("asking for a lot", "lot", h.Code, "error", err)
			return false, ErrAway
		}
	}
	list, err := c.documents(entry.Code, record.Reported)
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, document.newlyCorrected) // the answer is about an earlier form
	all := len(list)
	if waits {
		list = slices.DeleteFunc(list, func(o document) bool { return outcomes[o.code()].Kind == authority.Unknown })
	}
	missing, err := c.pick(ctx, list, func(ctx context.Context, o document) (bool, error) {
		out := outcomes[o.code()]
		if out.Kind == authority.Unknown {
			out = c.branch.Sender.Query(ctx, o.code(), o.head.Document)
			switch out.Kind {
			case authority.Unknown:
				if c.away(ctx) {
					return false, ErrAway
				}
				return false, c.doubt(ctx, o)
			case authority.Accepted:
				_, err := c.branch.Documents.AdoptHeld(ctx, o.entry, o.head, out.Response, record.QueryDoubt)
				return false, err
			case authority.NotFound:
				return true, nil
			}
		}
		return false, c.recordAnswer(ctx, o, out)
	})
	if err != nil {
		return false, err
	}
	if len(list) < all {
		return false, c.askLotIn(ctx, entry, h, c.hurried(lotPoll))
	}
	c.sizes.shrink(missing) // one of these documents may be the cause of the lost lot
	c.metrics.lots.WithLabelValues("done").Inc()
	return true, c.finish(ctx, entry, record.LotDone)
}
