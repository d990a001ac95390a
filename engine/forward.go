package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// lotHead is a lot as it stands.
type lotHead struct {
	Code      string    `json:"code,omitempty"` // codigoLote; "" until MH has answered
	Sent      time.Time `json:"sent,omitzero"`
	Doubtful  bool      `json:"doubtful,omitempty"` // MH may have it, its answer was lost
	Documents int       `json:"documents"`
}

// forwarding is what the process remembers of how documents go; a restart may forget it.
type forwarding struct {
	mu sync.Mutex
	// size is the largest lot for a document that was in one that MH refused whole: half of that.
	size map[storage.Code]int
}

func (f *forwarding) sizeFor(code storage.Code, most int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n, ok := f.size[code]; ok {
		return min(n, most)
	}
	return most
}

func (f *forwarding) shrink(codes []storage.Code) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size == nil {
		f.size = make(map[storage.Code]int)
	}
	for _, c := range codes {
		f.size[c] = max(1, (len(codes)+1)/2)
	}
}

func (f *forwarding) forget(code storage.Code) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.size, code)
}

// forward sends documents whose event is sealed: by lot, or alone when there is one.
func (e *Engine) forward(ctx context.Context) (progress bool, err error) {
	lots, err := e.store.Due(record.QueueLot, e.now().Add(distant), 1000)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", record.QueueLot, err)
	}
	room := e.options.LotsInFlight - len(lots)
	if room <= 0 {
		return false, nil
	}
	listed, err := e.listed(record.QueueLot, record.LotOpen)
	if err != nil {
		return false, err
	}
	most := e.law().lotDocuments
	if e.options.LotSize > 0 {
		most = min(most, e.options.LotSize)
	}
	due, err := e.owing(record.QueueForward, e.now(), (room+len(lots))*most)
	if err != nil {
		return false, err
	}
	var list []owing
	for _, o := range due {
		if !listed[o.entry.Code] {
			list = append(list, o)
		}
	}
	if list, err = e.unsent(ctx, list); err != nil {
		return false, err
	}
	for len(list) > 0 && room > 0 {
		n := min(e.forwarding.sizeFor(list[0].entry.Code, most), len(list))
		for i := range n {
			n = min(n, max(i, e.forwarding.sizeFor(list[i].entry.Code, n)))
		}
		n = max(n, 1)
		if n == 1 {
			err = e.forwardOne(ctx, list[0])
		} else {
			err = e.makeLot(ctx, list[:n])
			room--
		}
		if err != nil {
			return progress, err
		}
		list, progress = list[n:], true
	}
	return progress, nil
}

// unsent asks MH for the documents that it may have got without telling, and before the contingency form goes out for the
// first time for those that were sent in the normal one: it may have taken hours. It records those that MH holds, and returns
// the others.
func (e *Engine) unsent(ctx context.Context, list []owing) ([]owing, error) {
	var mu sync.Mutex
	held := make(map[storage.Code]bool)
	err := each(ctx, list, func(ctx context.Context, o owing) error {
		if !o.head.Doubtful && !o.mayTurnUp() && !o.newlyCorrected() && !e.mayBeFurther(o.entry.Code, o.head) {
			return nil
		}
		if wait := e.decidable(o.head); e.now().Before(wait) {
			mu.Lock()
			held[o.entry.Code] = true
			mu.Unlock()
			return e.later(ctx, o, wait)
		}
		q := e.query(ctx, o.entry.Code, o.head.Document)
		switch q.Kind {
		case authority.Accepted:
			mu.Lock()
			held[o.entry.Code] = true
			mu.Unlock()
			_, err := e.adoptHeld(ctx, o.entry, o.head, q.Response, queryDoubt)
			return err
		case authority.NotFound:
			return nil
		}
		return errAway
	})
	var left []owing
	for _, o := range list {
		if !held[o.entry.Code] {
			left = append(left, o)
		}
	}
	return left, err
}

// result records what MH answers to the sending of a document in the form of its record. A refusal is not taken at its word:
// another sending, without an answer, may have been accepted. MH is asked.
func (e *Engine) result(ctx context.Context, o owing, out authority.Outcome) error {
	next := *o.head
	next.Doubtful = false
	switch out.Kind {
	case authority.Accepted:
		next.Response = out.Response
		e.forwarding.forget(o.entry.Code)
		_, err := e.move(ctx, o.entry, storage.Change{To: record.Accepted, Announce: true}, &next)
		return err
	case authority.Rejected:
		switch q := e.settleRefusal(ctx, o.entry.Code, o.head.Document, out, o.head.Sent); q.Kind {
		case authority.Accepted:
			_, err := e.adoptHeld(ctx, o.entry, o.head, q.Response, 0)
			return err
		case authority.Unknown:
			return e.doubt(ctx, o)
		}
		next.Response, next.Refused = out.Response, e.now().UTC()
		change := storage.Change{To: record.Rejected, Announce: true}
		if until := next.CorrectableUntil(e.law().correction); !until.IsZero() {
			change.Due = &storage.Due{Queue: record.QueueCorrect, At: until}
		}
		e.forwarding.forget(o.entry.Code)
		e.metrics.lateRejections.WithLabelValues(o.head.Document).Inc()
		e.log.Error("MH refuses a document issued in contingency", "code", dte.Code(o.entry.Code).String(), "text", record.RefusalText(out.Response))
		_, err := e.move(ctx, o.entry, change, &next)
		return err
	}
	return e.doubt(ctx, o)
}

// authorityTime is MH's time; the box's before MH has said anything. It does not jump with the box's clock.
func (e *Engine) authorityTime() time.Time {
	if at := e.client.Time(); !at.IsZero() {
		return at.UTC()
	}
	return e.now().UTC()
}

// doubt leaves a document that MH may have or may not.
func (e *Engine) doubt(ctx context.Context, o owing) error {
	next := *o.head
	if next.Forwarded.IsZero() {
		next.Forwarded = next.CreatedAt // in a lot, by a branch that needed no time of it: the normal form was never sent
	}
	next.Doubtful, next.Sent = true, e.now().UTC()
	_, err := e.move(ctx, o.entry, storage.Change{To: o.entry.State, Due: &storage.Due{Queue: record.QueueForward, At: next.Sent.Add(e.options.DoubtFor)}}, &next)
	return err
}

// forwardOne sends a document alone.
func (e *Engine) forwardOne(ctx context.Context, o owing) error {
	jws, err := e.store.Part(o.entry.Code, o.head.Form)
	if err != nil {
		return err
	}
	before := o
	if o, err = e.sendingNow(ctx, o); err != nil {
		return err
	}
	out := e.client.Submit(ctx, authority.Submission{Document: o.head.Document, Version: o.head.Version,
		Code: dte.Code(o.entry.Code).String(), JWS: string(jws), SendID: e.sends.Add(1)})
	if unreachable(out) {
		if err := e.notSent(ctx, before); err != nil {
			return err
		}
		return errAway
	}
	if out.Kind == authority.Unknown && ctx.Err() == nil {
		e.suspect()
	}
	if out.Kind != authority.Unknown { // this sending leaves no doubt; an earlier one may
		answered := *o.head
		answered.Sent = before.head.Sent
		o.head = &answered
	}
	return e.result(ctx, o, out)
}

// sendingNow notes, durably, that the contingency form is about to be sent: a crash leaves the document doubtful.
func (e *Engine) sendingNow(ctx context.Context, o owing) (owing, error) {
	next := *o.head
	now := e.now().UTC()
	next.Doubtful, next.Sent = true, now
	e.noteFirst(&next)
	entry, err := e.move(ctx, o.entry, storage.Change{To: record.Reported, Due: &storage.Due{Queue: record.QueueForward, At: now}}, &next)
	return owing{entry, &next}, err
}

// noteFirst notes when a form is sent for the first time, by MH's clock.
func (e *Engine) noteFirst(h *record.Head) {
	n := record.CorrectionNumber(h.Form)
	switch {
	case n > 0 && n <= len(h.Corrections):
		if h.Corrections[n-1].Forwarded.IsZero() {
			h.Corrections = slices.Clone(h.Corrections)
			h.Corrections[n-1].Forwarded = e.authorityTime()
		}
	case h.Forwarded.IsZero():
		h.Forwarded = e.authorityTime()
	}
}

// notSent takes back what was noted of a document before it was sent: MH certainly has not received it, and may yet seal
// its normal form.
func (e *Engine) notSent(ctx context.Context, before owing) error {
	_, err := e.move(ctx, before.entry, storage.Change{To: record.Reported, Due: before.entry.Due}, before.head)
	return err
}
