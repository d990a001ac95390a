package engine

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
func (c *contingency) makeLot(ctx context.Context, list []owing) error {
	code, err := dte.NewCode(c.rand)
	if err != nil {
		return err
	}
	// When the contingency form was first sent is needed only where a normal form may turn up.
	err = each(ctx, list, func(ctx context.Context, o owing) error {
		if !o.mayTurnUp() && !o.newlyCorrected() {
			return nil
		}
		next := *o.head
		c.noteFirst(&next)
		_, err := c.docs.move(ctx, o.entry, storage.Change{To: record.Reported, Due: o.entry.Due}, &next)
		return err
	})
	if err != nil {
		return err
	}
	now := c.now().UTC()
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
	entry, err := c.store.Append(ctx, storage.Keys{Series: c.series("lote")}, storage.Draft{Code: storage.Code(code), State: record.LotOpen, Head: head, Parts: []storage.Part{{Name: partCodes, Data: names}},
		Due: &storage.Due{Queue: record.QueueLot, At: now.Add(c.options.LotPatience)}})
	if err != nil {
		return fmt.Errorf("recording a lot: %w", err)
	}
	return c.sendLot(ctx, entry, h, list)
}

func (c *contingency) sendLot(ctx context.Context, entry storage.Entry, h *lotHead, list []owing) error {
	lot := authority.Lot{SendID: dte.Code(entry.Code).String()}
	for _, o := range list {
		jws, err := c.store.Part(o.entry.Code, o.head.Form)
		if err != nil {
			return err
		}
		lot.JWS = append(lot.JWS, string(jws))
	}
	out, code, text := c.client.SubmitLot(ctx, lot)
	switch {
	case out.Kind == authority.Accepted:
		h.Code = code
		c.metrics.lots.WithLabelValues("received").Inc()
		return c.moveLot(ctx, entry, record.LotOpen, h, c.now().Add(c.options.LotPoll))
	case out.Kind == authority.Rejected:
		// One of them may be to blame: halves find it.
		c.metrics.lots.WithLabelValues("rejected").Inc()
		c.log.Warn("MH refuses a lot", "documents", len(list), "text", text)
		codes := make([]storage.Code, len(list))
		for i, o := range list {
			codes[i] = o.entry.Code
		}
		c.forwarding.shrink(codes)
		return c.finish(ctx, entry, record.LotDone)
	case out.Unreachable():
		err := each(ctx, list, func(ctx context.Context, o owing) error {
			if !o.mayTurnUp() && !o.newlyCorrected() {
				return nil
			}
			return c.notSent(ctx, o)
		})
		if err != nil {
			return err
		}
		if err := c.finish(ctx, entry, record.LotDone); err != nil {
			return err
		}
		return errAway
	}
	c.metrics.lots.WithLabelValues("unknown").Inc()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.log.Warn("no answer to a lot", "documents", len(list), refusal.LogAttr(out.Err))
	c.suspect()
	h.Doubtful = true
	return c.moveLot(ctx, entry, record.LotOpen, h, c.now().Add(c.options.LotPatience))
}

func (c *contingency) moveLot(ctx context.Context, entry storage.Entry, to storage.State, h *lotHead, at time.Time) error {
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := record.Move(ctx, c.store, entry.Code, entry.State, storage.Change{To: to, Head: head, Due: &storage.Due{Queue: record.QueueLot, At: at}}); err != nil {
		return fmt.Errorf("recording a lot: %w", err)
	}
	return nil
}

// pollLots asks MH for the results of the lots that are due.
func (c *contingency) pollLots(ctx context.Context) (progress bool, err error) {
	due, err := c.store.Due(record.QueueLot, c.now(), 100)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", record.QueueLot, err)
	}
	for _, entry := range due {
		done, err := c.pollLot(ctx, entry)
		if err != nil {
			return progress, err
		}
		progress = progress || done
	}
	return progress, nil
}

func (c *contingency) pollLot(ctx context.Context, entry storage.Entry) (done bool, err error) {
	h := new(lotHead)
	if err := json.Unmarshal(entry.Head, h); err != nil {
		return false, fmt.Errorf("decoding lot: %w", err)
	}
	var outcomes map[string]authority.Outcome
	if h.Code != "" {
		var done, known bool
		outcomes, done, known, err = c.client.QueryLot(ctx, h.Code)
		late := c.now().Sub(h.Sent) > c.options.LotPatience
		switch {
		case err != nil && ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			c.log.Warn("asking for a lot", "lot", h.Code, "error", err)
			return false, errAway
		case !late && (!known || !done):
			return false, c.moveLot(ctx, entry, record.LotOpen, h, c.now().Add(c.options.LotPoll))
		}
		// What has no result by now is asked for by itself.
	}
	list, err := c.documents(entry.Code, record.Reported)
	if err != nil {
		return false, err
	}
	var mu sync.Mutex
	var missing []storage.Code
	err = each(ctx, list, func(ctx context.Context, o owing) error {
		code := dte.Code(o.entry.Code).String()
		out, told := outcomes[code]
		if !told || out.Kind == authority.Unknown {
			out = c.docs.query(ctx, o.entry.Code, o.head.Document)
			switch out.Kind {
			case authority.Unknown:
				return errAway
			case authority.Accepted:
				_, err := c.docs.adoptHeld(ctx, o.entry, o.head, out.Response, record.QueryDoubt)
				return err
			case authority.NotFound:
				mu.Lock()
				missing = append(missing, o.entry.Code)
				mu.Unlock()
				return nil
			}
		}
		return c.result(ctx, o, out)
	})
	if err != nil {
		return false, err
	}
	c.forwarding.shrink(missing) // one of them may be why MH has none
	c.metrics.lots.WithLabelValues("done").Inc()
	return true, c.finish(ctx, entry, record.LotDone)
}
