package contingency

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"dtegate/engine/authority"
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

// lots sends the documents whose event is sealed.
type lots struct {
	*common
	watch *Watch
	// size is the largest lot for a document that was in one that MH refused whole: half of that. A restart may forget it.
	mu   sync.Mutex
	size map[storage.Code]int
}

func (l *lots) sizeFor(code storage.Code, most int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, ok := l.size[code]; ok {
		return min(n, most)
	}
	return most
}

func (l *lots) shrink(codes []storage.Code) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == nil {
		l.size = make(map[storage.Code]int)
	}
	for _, c := range codes {
		l.size[c] = max(1, (len(codes)+1)/2)
	}
}

func (l *lots) forget(code storage.Code) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.size, code)
}

// forward sends documents whose event is sealed: by lot, or alone when there is one.
func (l *lots) forward(ctx context.Context) (progress bool, err error) {
	lots, err := l.branch.Store.Due(record.QueueLot, record.Whenever, 1000)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", record.QueueLot, err)
	}
	room := l.options.LotsInFlight - len(lots)
	if room <= 0 {
		return false, nil
	}
	listed, err := l.listed(record.QueueLot, record.LotOpen)
	if err != nil {
		return false, err
	}
	most := l.law().lotDocuments
	if l.options.LotSize > 0 {
		most = min(most, l.options.LotSize)
	}
	due, err := l.waiting(record.QueueForward, l.branch.Now(), (room+len(lots))*most)
	if err != nil {
		return false, err
	}
	var list []document
	for _, o := range due {
		if !listed[o.entry.Code] {
			list = append(list, o)
		}
	}
	if list, err = l.unsent(ctx, list); err != nil {
		return false, err
	}
	for len(list) > 0 && room > 0 {
		n := min(l.sizeFor(list[0].entry.Code, most), len(list))
		for i := range n {
			n = min(n, max(i, l.sizeFor(list[i].entry.Code, n)))
		}
		n = max(n, 1)
		if n == 1 {
			err = l.forwardOne(ctx, list[0])
		} else {
			err = l.makeLot(ctx, list[:n])
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
func (l *lots) unsent(ctx context.Context, list []document) ([]document, error) {
	var mu sync.Mutex
	held := make(map[storage.Code]bool)
	err := eachDocument(ctx, list, func(ctx context.Context, o document) error {
		if !o.head.Doubtful && !o.mayTurnUp() && !o.newlyCorrected() && !l.branch.Sender.MayBeFurther(o.code(), o.head.CreatedAt) {
			return nil
		}
		found, err := l.lookUp(ctx, o)
		if found != absent {
			mu.Lock()
			held[o.entry.Code] = true
			mu.Unlock()
		}
		return err
	})
	var left []document
	for _, o := range list {
		if !held[o.entry.Code] {
			left = append(left, o)
		}
	}
	return left, err
}

// result records what MH answers to the sending of a document in the form of its record. A refusal is not taken at its word:
// another sending, without an answer, may have been accepted. MH is asked.
func (l *lots) result(ctx context.Context, o document, out authority.Outcome) error {
	next := *o.head
	next.Doubtful = false
	switch out.Kind {
	case authority.Accepted:
		next.Response = out.Response
		l.forget(o.entry.Code)
		_, err := l.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Accepted, Announce: true}, &next)
		return err
	case authority.Rejected:
		switch q := l.branch.Sender.SettleRefusal(ctx, o.code(), o.head.Document, out, o.head.Sent); q.Kind {
		case authority.Accepted:
			_, err := l.branch.Documents.AdoptHeld(ctx, o.entry, o.head, q.Response, 0)
			return err
		case authority.Unknown:
			return l.doubt(ctx, o)
		}
		next.Response, next.Refused = out.Response, l.branch.Now().UTC()
		change := storage.Change{To: record.Rejected, Announce: true}
		if until := next.CorrectableUntil(l.law().correction); !until.IsZero() {
			change.Due = &storage.Due{Queue: record.QueueCorrect, At: until}
		}
		l.forget(o.entry.Code)
		l.metrics.lateRejections.WithLabelValues(o.head.Document).Inc()
		l.branch.Logger.Error("MH refuses a document issued in contingency", "code", o.code(), "text", record.RefusalText(out.Response))
		_, err := l.branch.Documents.Move(ctx, o.entry, change, &next)
		return err
	}
	return l.doubt(ctx, o)
}

// authorityTime is MH's time; the box's before MH has said anything. It does not jump with the box's clock.
func (l *lots) authorityTime() time.Time {
	if at := l.branch.Sender.Client.Time(); !at.IsZero() {
		return at.UTC()
	}
	return l.branch.Now().UTC()
}

// doubt leaves a document that MH may have or may not.
func (l *lots) doubt(ctx context.Context, o document) error {
	next := *o.head
	if next.Forwarded.IsZero() {
		next.Forwarded = next.CreatedAt // in a lot, by a branch that needed no time of it: the normal form was never sent
	}
	next.Doubtful, next.Sent = true, l.branch.Now().UTC()
	_, err := l.branch.Documents.Move(ctx, o.entry, storage.Change{To: o.entry.State, Due: &storage.Due{Queue: record.QueueForward, At: next.Sent.Add(l.branch.Sender.Policy.DoubtFor)}}, &next)
	return err
}

// forwardOne sends a document alone.
func (l *lots) forwardOne(ctx context.Context, o document) error {
	jws, err := l.branch.Store.Part(o.entry.Code, o.head.Form)
	if err != nil {
		return err
	}
	before := o
	if o, err = l.sendingNow(ctx, o); err != nil {
		return err
	}
	out := l.branch.Sender.Client.Submit(ctx, authority.Submission{Document: o.head.Document, Version: o.head.Version,
		Code: o.code(), JWS: string(jws), SendID: l.branch.SendID()})
	if out.Unreachable() {
		if err := l.notSent(ctx, before); err != nil {
			return err
		}
		return ErrAway
	}
	if out.Kind == authority.Unknown && ctx.Err() == nil {
		l.watch.Suspect()
	}
	if out.Kind != authority.Unknown { // this sending leaves no doubt; an earlier one may
		answered := *o.head
		answered.Sent = before.head.Sent
		o.head = &answered
	}
	return l.result(ctx, o, out)
}

// sendingNow notes, durably, that the contingency form is about to be sent: a crash leaves the document doubtful.
func (l *lots) sendingNow(ctx context.Context, o document) (document, error) {
	next := *o.head
	now := l.branch.Now().UTC()
	next.Doubtful, next.Sent = true, now
	l.noteFirst(&next)
	entry, err := l.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Reported, Due: &storage.Due{Queue: record.QueueForward, At: now}}, &next)
	return document{entry, &next}, err
}

// noteFirst notes when a form is sent for the first time, by MH's clock.
func (l *lots) noteFirst(h *record.Head) {
	n := record.CorrectionNumber(h.Form)
	switch {
	case n > 0 && n <= len(h.Corrections):
		if h.Corrections[n-1].Forwarded.IsZero() {
			h.Corrections = slices.Clone(h.Corrections)
			h.Corrections[n-1].Forwarded = l.authorityTime()
		}
	case h.Forwarded.IsZero():
		h.Forwarded = l.authorityTime()
	}
}

// notSent takes back what was noted of a document before it was sent: MH certainly has not received it, and may yet seal
// its normal form.
func (l *lots) notSent(ctx context.Context, before document) error {
	_, err := l.branch.Documents.Move(ctx, before.entry, storage.Change{To: record.Reported, Due: before.entry.Due}, before.head)
	return err
}
