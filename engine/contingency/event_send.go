package contingency

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// send sends what is due and tells the documents what came of it.
func (e events) send(ctx context.Context) (progress bool, err error) {
	due, err := e.branch.Store.Due(record.QueueEvent, e.branch.Now(), 100)
	if err != nil {
		return false, fmt.Errorf("reading queue %s: %w", record.QueueEvent, err)
	}
	for _, entry := range due {
		h, err := DecodeEvent(entry)
		if err != nil {
			e.unread.Note(record.QueueEvent, err)
			continue
		}
		if entry.State == record.EventSigned {
			if entry, err = e.sendEvent(ctx, entry, h); err != nil {
				return progress, err
			}
		}
		switch entry.State {
		case record.EventAccepted:
			err = e.spread(ctx, entry, h)
		case record.EventRejected:
			err = e.disperse(ctx, entry, h)
		}
		if err != nil {
			return progress, err
		}
		progress = true
	}
	return progress, nil
}

// sendEvent sends one event and records what MH says.
func (e events) sendEvent(ctx context.Context, entry storage.Entry, h *Event) (storage.Entry, error) {
	jws, err := e.branch.Store.Part(entry.Code, partEvent)
	if err != nil {
		return entry, err
	}
	o, receipt := e.branch.Sender.Client.Report(ctx, string(jws))
	if o.Kind == authority.Unknown {
		if ctx.Err() == nil {
			e.branch.Logger.Warn("reporting a contingency", refusal.LogAttr(o.Err))
		}
		return entry, ErrAway
	}
	now := e.branch.Now()
	h.Receipt = receipt
	to := record.EventAccepted
	h.Again = o.Kind == authority.Rejected && ours(receipt)
	if o.Kind == authority.Rejected && !h.Again {
		to = record.EventRejected
		e.metrics.eventResults.WithLabelValues("rejected").Inc()
		e.branch.Logger.Error("MH refuses a contingency event", "event", dte.Code(entry.Code).String(), "documents", h.Documents, "text", receipt.Text())
	} else {
		h.Sealed, h.Limit = now.UTC(), now.UTC().Add(e.law().documents)
		e.metrics.eventResults.WithLabelValues("accepted").Inc()
		e.branch.Logger.Info("contingency reported", "event", dte.Code(entry.Code).String(), "documents", h.Documents)
	}
	head, err := json.Marshal(h)
	if err != nil {
		return entry, err
	}
	next, err := record.Move(ctx, e.branch.Store, entry.Code, record.EventSigned, storage.Change{To: to, Head: head, Due: &storage.Due{Queue: record.QueueEvent, At: now}})
	if err != nil {
		return entry, fmt.Errorf("recording the event: %w", err)
	}
	return next, nil
}

// ours reports whether MH holds this very event, from a sending whose answer was lost: its code is nobody else's.
func ours(r *authority.Receipt) bool {
	s := strings.ToUpper(r.Text())
	return strings.Contains(s, "IDENTIFICACION.CODIGOGENERACION") && strings.Contains(s, known)
}

// known is how MH says that it has a code already. Its published texts differ in their letters ("YA EXISTE", "codigo generacion ya existe").
const known = "YA EXISTE"

// namesKnownCode reports whether MH refused an event because it has a document's code already: it names the code, or the event
// lists no other.
func namesKnownCode(r *authority.Receipt, code string, documents int) bool {
	if r == nil {
		return false
	}
	text := strings.ToUpper(r.Text())
	return strings.Contains(text, known) && (documents == 1 || strings.Contains(text, code))
}

// spread marks the documents of a sealed event: they are forwarded from now on.
func (e events) spread(ctx context.Context, event storage.Entry, h *Event) error {
	list, err := e.documents(event.Code, record.Deferred)
	if err != nil {
		return err
	}
	code := dte.Code(event.Code).String()
	err = eachDocument(ctx, list, func(ctx context.Context, o document) error {
		next := *o.head
		// An event that MH had already may be older than this process knows: its documents may be at MH too.
		next.Event, next.Limit, next.Doubtful, next.Refusals, next.Known = code, h.Limit, h.Again, 0, false
		_, err := e.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Reported, Due: &storage.Due{Queue: record.QueueForward, At: e.branch.Now()}}, &next)
		return err
	})
	if err != nil {
		return err
	}
	return e.finish(ctx, event, record.EventDone)
}

// disperse frees the documents of a refused event. MH says at times that it has some of them already: all are asked for
// before the next event lists them, and those that MH has in another event go on to forwarding.
func (e events) disperse(ctx context.Context, event storage.Entry, h *Event) error {
	list, err := e.documents(event.Code, record.Deferred)
	if err != nil {
		return err
	}
	code := dte.Code(event.Code).String()
	err = eachDocument(ctx, list, func(ctx context.Context, o document) error {
		if o.head.Event == code {
			return nil // done before a crash
		}
		next := *o.head
		next.Event, next.Doubtful, next.Refusals = code, true, next.Refusals+1
		next.Known = namesKnownCode(h.Receipt, dte.Code(o.entry.Code).String(), h.Documents)
		if next.Known && !o.head.Known { // asked for at once; whatever brings it here again waits
			_, err := e.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Deferred, Due: &storage.Due{Queue: record.QueueReport, At: e.branch.Now()}}, &next)
			return err
		}
		wait := min(e.options.CorrectAfter<<min(next.Refusals-1, 10), max(time.Hour, e.options.CorrectAfter))
		_, err := e.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Deferred, Due: &storage.Due{Queue: record.QueueReport, At: e.branch.Now().Add(wait)}}, &next)
		return err
	})
	if err != nil {
		return err
	}
	return e.finish(ctx, event, record.EventRejected)
}
