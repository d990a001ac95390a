package contingency

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// makeLot records a lot and sends it. The record comes first: a crash leaves a lot whose documents are asked for.
func (l *lots) makeLot(ctx context.Context, list []document) error {
	code, err := dte.NewCode(l.branch.Rand)
	if err != nil {
		return err
	}
	// When the contingency form was first sent is needed only where a normal form may turn up.
	err = eachDocument(ctx, list, func(ctx context.Context, o document) error {
		if !o.mayTurnUp() && !o.newlyCorrected() {
			return nil
		}
		next := *o.head
		l.noteFirst(&next)
		_, err := l.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Reported, Due: o.entry.Due}, &next)
		return err
	})
	if err != nil {
		return err
	}
	now := l.branch.Now().UTC()
	h := &lotHead{Documents: len(list), Sent: now}
	codes := make([]string, len(list))
	for i, o := range list {
		codes[i] = o.code()
	}
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	names, err := json.Marshal(codes)
	if err != nil {
		return err
	}
	// Due when its documents may be asked for, should the process die before MH answers.
	entry, err := l.branch.Store.Append(ctx, storage.Keys{Series: l.series("lote")}, storage.Draft{Code: storage.Code(code), State: record.LotOpen, Head: head, Parts: []storage.Part{{Name: partCodes, Data: names}},
		Due: &storage.Due{Queue: record.QueueLot, At: now.Add(l.options.LotPatience)}})
	if err != nil {
		return fmt.Errorf("recording a lot: %w", err)
	}
	return l.sendLot(ctx, entry, h, list)
}

func (l *lots) sendLot(ctx context.Context, entry storage.Entry, h *lotHead, list []document) error {
	lot := authority.Lot{SendID: dte.Code(entry.Code).String()}
	for _, o := range list {
		jws, err := l.branch.Store.Part(o.entry.Code, o.head.Form)
		if err != nil {
			return err
		}
		lot.JWS = append(lot.JWS, string(jws))
	}
	out, code, text := l.branch.Sender.Client.SubmitLot(ctx, lot)
	switch {
	case out.Kind == authority.Accepted:
		h.Code = code
		l.metrics.lots.WithLabelValues("received").Inc()
		return l.moveLot(ctx, entry, record.LotOpen, h, l.branch.Now().Add(l.options.LotPoll))
	case out.Kind == authority.Rejected:
		// One of them may be to blame: halves find it.
		l.metrics.lots.WithLabelValues("rejected").Inc()
		l.branch.Logger.Warn("MH refuses a lot", "documents", len(list), "text", text)
		codes := make([]storage.Code, len(list))
		for i, o := range list {
			codes[i] = o.entry.Code
		}
		l.shrink(codes)
		return l.finish(ctx, entry, record.LotDone)
	case out.Unreachable():
		err := eachDocument(ctx, list, func(ctx context.Context, o document) error {
			if !o.mayTurnUp() && !o.newlyCorrected() {
				return nil
			}
			return l.notSent(ctx, o)
		})
		if err != nil {
			return err
		}
		if err := l.finish(ctx, entry, record.LotDone); err != nil {
			return err
		}
		return ErrAway
	}
	l.metrics.lots.WithLabelValues("unknown").Inc()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.branch.Logger.Warn("no answer to a lot", "documents", len(list), refusal.LogAttr(out.Err))
	l.watch.Suspect()
	h.Doubtful = true
	return l.moveLot(ctx, entry, record.LotOpen, h, l.branch.Now().Add(l.options.LotPatience))
}

func (l *lots) moveLot(ctx context.Context, entry storage.Entry, to storage.State, h *lotHead, at time.Time) error {
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := record.Move(ctx, l.branch.Store, entry.Code, entry.State, storage.Change{To: to, Head: head, Due: &storage.Due{Queue: record.QueueLot, At: at}}); err != nil {
		return fmt.Errorf("recording a lot: %w", err)
	}
	return nil
}

func decodeLot(entry storage.Entry) (*lotHead, error) {
	h := new(lotHead)
	if err := json.Unmarshal(entry.Head, h); err != nil {
		return nil, fmt.Errorf("decoding lot %s: %w", dte.Code(entry.Code), err)
	}
	return h, nil
}

// poll asks MH for the results of the lots that are due.
func (l *lots) poll(ctx context.Context) (progress bool, err error) {
	due, err := l.branch.Store.Due(record.QueueLot, l.branch.Now(), 100)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", record.QueueLot, err)
	}
	for _, entry := range due {
		h, err := decodeLot(entry)
		if err != nil {
			l.unread.Note(record.QueueLot, err)
			continue
		}
		done, err := l.pollLot(ctx, entry, h)
		if err != nil {
			return progress, err
		}
		progress = progress || done
	}
	return progress, nil
}

func (l *lots) pollLot(ctx context.Context, entry storage.Entry, h *lotHead) (done bool, err error) {
	var outcomes map[string]authority.Outcome
	if h.Code != "" {
		var done, known bool
		outcomes, done, known, err = l.branch.Sender.Client.QueryLot(ctx, h.Code)
		late := l.branch.Now().Sub(h.Sent) > l.options.LotPatience
		switch {
		case err != nil && ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			l.branch.Logger.Warn("asking for a lot", "lot", h.Code, "error", err)
			return false, ErrAway
		case !late && (!known || !done):
			return false, l.moveLot(ctx, entry, record.LotOpen, h, l.branch.Now().Add(l.options.LotPoll))
		}
		// What has no result by now is asked for by itself.
	}
	list, err := l.documents(entry.Code, record.Reported)
	if err != nil {
		return false, err
	}
	var mu sync.Mutex
	var missing []storage.Code
	err = eachDocument(ctx, list, func(ctx context.Context, o document) error {
		code := o.code()
		out, told := outcomes[code]
		if !told || out.Kind == authority.Unknown {
			out = l.branch.Sender.Query(ctx, o.code(), o.head.Document)
			switch out.Kind {
			case authority.Unknown:
				return ErrAway
			case authority.Accepted:
				_, err := l.branch.Documents.AdoptHeld(ctx, o.entry, o.head, out.Response, record.QueryDoubt)
				return err
			case authority.NotFound:
				mu.Lock()
				missing = append(missing, o.entry.Code)
				mu.Unlock()
				return nil
			}
		}
		return l.result(ctx, o, out)
	})
	if err != nil {
		return false, err
	}
	l.shrink(missing) // one of them may be why MH has none
	l.metrics.lots.WithLabelValues("done").Inc()
	return true, l.finish(ctx, entry, record.LotDone)
}
