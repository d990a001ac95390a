package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// makeLot records a lot and sends it. The record comes first: a crash leaves a lot whose documents are asked for.
func (e *Engine) makeLot(ctx context.Context, list []owing) error {
	code, err := dte.NewCode(e.rand)
	if err != nil {
		return err
	}
	// When the contingency form was first sent is needed only where a normal form may turn up.
	err = each(ctx, list, func(ctx context.Context, o owing) error {
		if !o.mayTurnUp() && !o.newlyCorrected() {
			return nil
		}
		next := *o.head
		e.noteFirst(&next)
		_, err := e.move(ctx, o.entry, storage.Change{To: record.Reported, Due: o.entry.Due}, &next)
		return err
	})
	if err != nil {
		return err
	}
	now := e.now().UTC()
	h := &lotHead{Documents: len(list), Sent: now}
	codes := make([]string, len(list))
	for i, o := range list {
		codes[i] = dte.Code(o.entry.Code).String()
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
	entry, err := e.store.Append(ctx, storage.Keys{Series: e.seriesOf("lote")}, storage.Draft{Code: storage.Code(code), State: record.LotOpen, Head: head, Parts: []storage.Part{{Name: partCodes, Data: names}},
		Due: &storage.Due{Queue: record.QueueLot, At: now.Add(e.options.LotPatience)}})
	if err != nil {
		return fmt.Errorf("recording a lot: %w", err)
	}
	return e.sendLot(ctx, entry, h, list)
}

func (e *Engine) sendLot(ctx context.Context, entry storage.Entry, h *lotHead, list []owing) error {
	lot := authority.Lot{SendID: dte.Code(entry.Code).String()}
	for _, o := range list {
		jws, err := e.store.Part(o.entry.Code, o.head.Form)
		if err != nil {
			return err
		}
		if e.bugs.changeLater {
			form, err := e.contingencyForm(ctx, o.entry.Code, jws, record.ContingencyMarks(o.head.Cause+1, ""))
			if err != nil {
				return err
			}
			jws = form.Data
		}
		lot.JWS = append(lot.JWS, string(jws))
	}
	out, code, text := e.client.SubmitLot(ctx, lot)
	switch {
	case out.Kind == authority.Accepted:
		h.Code = code
		e.metrics.lots.WithLabelValues("received").Inc()
		return e.moveLot(ctx, entry, record.LotOpen, h, e.now().Add(e.options.LotPoll))
	case out.Kind == authority.Rejected:
		// One of them may be to blame: halves find it.
		e.metrics.lots.WithLabelValues("rejected").Inc()
		e.log.Warn("MH refuses a lot", "documents", len(list), "text", text)
		codes := make([]storage.Code, len(list))
		for i, o := range list {
			codes[i] = o.entry.Code
		}
		e.forwarding.shrink(codes)
		return e.finish(ctx, entry, record.LotDone)
	case unreachable(out):
		err := each(ctx, list, func(ctx context.Context, o owing) error {
			if !o.mayTurnUp() && !o.newlyCorrected() {
				return nil
			}
			return e.notSent(ctx, o)
		})
		if err != nil {
			return err
		}
		if err := e.finish(ctx, entry, record.LotDone); err != nil {
			return err
		}
		return errAway
	}
	e.metrics.lots.WithLabelValues("unknown").Inc()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e.log.Warn("no answer to a lot", "documents", len(list), errorAttr(out.Err))
	e.suspect()
	h.Doubtful = true
	return e.moveLot(ctx, entry, record.LotOpen, h, e.now().Add(e.options.LotPatience))
}

func (e *Engine) moveLot(ctx context.Context, entry storage.Entry, to storage.State, h *lotHead, at time.Time) error {
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := record.Move(ctx, e.store, entry.Code, entry.State, storage.Change{To: to, Head: head, Due: &storage.Due{Queue: record.QueueLot, At: at}}); err != nil {
		return fmt.Errorf("recording a lot: %w", err)
	}
	return nil
}

// pollLots asks MH for the results of the lots that are due.
func (e *Engine) pollLots(ctx context.Context) (progress bool, err error) {
	due, err := e.store.Due(record.QueueLot, e.now(), 100)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", record.QueueLot, err)
	}
	for _, entry := range due {
		done, err := e.pollLot(ctx, entry)
		if err != nil {
			return progress, err
		}
		progress = progress || done
	}
	return progress, nil
}

func (e *Engine) pollLot(ctx context.Context, entry storage.Entry) (done bool, err error) {
	h := new(lotHead)
	if err := json.Unmarshal(entry.Head, h); err != nil {
		return false, fmt.Errorf("decoding lot: %w", err)
	}
	var outcomes map[string]authority.Outcome
	if h.Code != "" {
		var done, known bool
		outcomes, done, known, err = e.client.QueryLot(ctx, h.Code)
		late := e.now().Sub(h.Sent) > e.options.LotPatience
		switch {
		case err != nil && ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			e.log.Warn("asking for a lot", "lot", h.Code, "error", err)
			return false, errAway
		case !late && (!known || !done):
			return false, e.moveLot(ctx, entry, record.LotOpen, h, e.now().Add(e.options.LotPoll))
		}
		// What has no result by now is asked for by itself.
	}
	list, err := e.documents(entry.Code, record.Reported)
	if err != nil {
		return false, err
	}
	var mu sync.Mutex
	var missing []storage.Code
	err = each(ctx, list, func(ctx context.Context, o owing) error {
		code := dte.Code(o.entry.Code).String()
		out, told := outcomes[code]
		if !told || out.Kind == authority.Unknown {
			out = e.query(ctx, o.entry.Code, o.head.Document)
			switch out.Kind {
			case authority.Unknown:
				return errAway
			case authority.Accepted:
				_, err := e.adoptHeld(ctx, o.entry, o.head, out.Response, queryDoubt)
				return err
			case authority.NotFound:
				mu.Lock()
				missing = append(missing, o.entry.Code)
				mu.Unlock()
				return nil
			}
		}
		return e.result(ctx, o, out)
	})
	if err != nil {
		return false, err
	}
	e.forwarding.shrink(missing) // one of them may be why MH has none
	e.metrics.lots.WithLabelValues("done").Inc()
	return true, e.finish(ctx, entry, record.LotDone)
}

// drain sends what is owed as far as it goes: results first, then events, then documents. It stops where MH is away. next
// is when there may be more to do.
func (e *Engine) drain(ctx context.Context) (next time.Duration, err error) {
	for ctx.Err() == nil {
		if e.current() != nil {
			return e.every, nil
		}
		again := false
		for _, step := range []func(context.Context) (bool, error){e.pollLots, e.sendEvents, e.report, e.forward, e.expireCorrections} {
			progress, err := step(ctx)
			if errors.Is(err, errAway) {
				e.suspect()
				return e.every, nil
			}
			if err != nil {
				return e.every, err
			}
			again = again || progress
		}
		if !again {
			break
		}
	}
	return e.soon()
}

// soon is the time until something is due, at most every.
func (e *Engine) soon() (time.Duration, error) {
	now, next := e.now(), e.every
	for _, queue := range []string{record.QueueLot, record.QueueEvent, record.QueueReport, record.QueueForward} {
		first, err := e.store.Due(queue, now.Add(next), 1)
		if err != nil {
			return next, fmt.Errorf("reading queue %s: %w", queue, err)
		}
		if len(first) > 0 {
			next = min(next, max(first[0].Due.At.Sub(now), e.options.LotPoll))
		}
	}
	return next, nil
}
