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
func (c *contingency) forward(ctx context.Context) (progress bool, err error) {
	lots, err := c.store.Due(record.QueueLot, c.now().Add(record.Distant), 1000)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", record.QueueLot, err)
	}
	room := c.options.LotsInFlight - len(lots)
	if room <= 0 {
		return false, nil
	}
	listed, err := c.listed(record.QueueLot, record.LotOpen)
	if err != nil {
		return false, err
	}
	most := c.law().lotDocuments
	if c.options.LotSize > 0 {
		most = min(most, c.options.LotSize)
	}
	due, err := c.owing(record.QueueForward, c.now(), (room+len(lots))*most)
	if err != nil {
		return false, err
	}
	var list []owing
	for _, o := range due {
		if !listed[o.entry.Code] {
			list = append(list, o)
		}
	}
	if list, err = c.unsent(ctx, list); err != nil {
		return false, err
	}
	for len(list) > 0 && room > 0 {
		n := min(c.forwarding.sizeFor(list[0].entry.Code, most), len(list))
		for i := range n {
			n = min(n, max(i, c.forwarding.sizeFor(list[i].entry.Code, n)))
		}
		n = max(n, 1)
		if n == 1 {
			err = c.forwardOne(ctx, list[0])
		} else {
			err = c.makeLot(ctx, list[:n])
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
func (c *contingency) unsent(ctx context.Context, list []owing) ([]owing, error) {
	var mu sync.Mutex
	held := make(map[storage.Code]bool)
	err := each(ctx, list, func(ctx context.Context, o owing) error {
		if !o.head.Doubtful && !o.mayTurnUp() && !o.newlyCorrected() && !c.docs.mayBeFurther(o.entry.Code, o.head) {
			return nil
		}
		if wait := c.docs.decidable(o.head); c.now().Before(wait) {
			mu.Lock()
			held[o.entry.Code] = true
			mu.Unlock()
			return c.later(ctx, o, wait)
		}
		q := c.docs.query(ctx, o.entry.Code, o.head.Document)
		switch q.Kind {
		case authority.Accepted:
			mu.Lock()
			held[o.entry.Code] = true
			mu.Unlock()
			_, err := c.docs.adoptHeld(ctx, o.entry, o.head, q.Response, record.QueryDoubt)
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
func (c *contingency) result(ctx context.Context, o owing, out authority.Outcome) error {
	next := *o.head
	next.Doubtful = false
	switch out.Kind {
	case authority.Accepted:
		next.Response = out.Response
		c.forwarding.forget(o.entry.Code)
		_, err := c.docs.move(ctx, o.entry, storage.Change{To: record.Accepted, Announce: true}, &next)
		return err
	case authority.Rejected:
		switch q := c.docs.settleRefusal(ctx, o.entry.Code, o.head.Document, out, o.head.Sent); q.Kind {
		case authority.Accepted:
			_, err := c.docs.adoptHeld(ctx, o.entry, o.head, q.Response, 0)
			return err
		case authority.Unknown:
			return c.doubt(ctx, o)
		}
		next.Response, next.Refused = out.Response, c.now().UTC()
		change := storage.Change{To: record.Rejected, Announce: true}
		if until := next.CorrectableUntil(c.law().correction); !until.IsZero() {
			change.Due = &storage.Due{Queue: record.QueueCorrect, At: until}
		}
		c.forwarding.forget(o.entry.Code)
		c.metrics.lateRejections.WithLabelValues(o.head.Document).Inc()
		c.log.Error("MH refuses a document issued in contingency", "code", dte.Code(o.entry.Code).String(), "text", record.RefusalText(out.Response))
		_, err := c.docs.move(ctx, o.entry, change, &next)
		return err
	}
	return c.doubt(ctx, o)
}

// authorityTime is MH's time; the box's before MH has said anything. It does not jump with the box's clock.
func (c *contingency) authorityTime() time.Time {
	if at := c.client.Time(); !at.IsZero() {
		return at.UTC()
	}
	return c.now().UTC()
}

// doubt leaves a document that MH may have or may not.
func (c *contingency) doubt(ctx context.Context, o owing) error {
	next := *o.head
	if next.Forwarded.IsZero() {
		next.Forwarded = next.CreatedAt // in a lot, by a branch that needed no time of it: the normal form was never sent
	}
	next.Doubtful, next.Sent = true, c.now().UTC()
	_, err := c.docs.move(ctx, o.entry, storage.Change{To: o.entry.State, Due: &storage.Due{Queue: record.QueueForward, At: next.Sent.Add(c.options.DoubtFor)}}, &next)
	return err
}

// forwardOne sends a document alone.
func (c *contingency) forwardOne(ctx context.Context, o owing) error {
	jws, err := c.store.Part(o.entry.Code, o.head.Form)
	if err != nil {
		return err
	}
	before := o
	if o, err = c.sendingNow(ctx, o); err != nil {
		return err
	}
	out := c.client.Submit(ctx, authority.Submission{Document: o.head.Document, Version: o.head.Version,
		Code: dte.Code(o.entry.Code).String(), JWS: string(jws), SendID: c.sends.Add(1)})
	if out.Unreachable() {
		if err := c.notSent(ctx, before); err != nil {
			return err
		}
		return errAway
	}
	if out.Kind == authority.Unknown && ctx.Err() == nil {
		c.suspect()
	}
	if out.Kind != authority.Unknown { // this sending leaves no doubt; an earlier one may
		answered := *o.head
		answered.Sent = before.head.Sent
		o.head = &answered
	}
	return c.result(ctx, o, out)
}

// sendingNow notes, durably, that the contingency form is about to be sent: a crash leaves the document doubtful.
func (c *contingency) sendingNow(ctx context.Context, o owing) (owing, error) {
	next := *o.head
	now := c.now().UTC()
	next.Doubtful, next.Sent = true, now
	c.noteFirst(&next)
	entry, err := c.docs.move(ctx, o.entry, storage.Change{To: record.Reported, Due: &storage.Due{Queue: record.QueueForward, At: now}}, &next)
	return owing{entry, &next}, err
}

// noteFirst notes when a form is sent for the first time, by MH's clock.
func (c *contingency) noteFirst(h *record.Head) {
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

// notSent takes back what was noted of a document before it was sent: MH certainly has not received it, and may yet seal
// its normal form.
func (c *contingency) notSent(ctx context.Context, before owing) error {
	_, err := c.docs.move(ctx, before.entry, storage.Change{To: record.Reported, Due: before.entry.Due}, before.head)
	return err
}
