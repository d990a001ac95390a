package contingency

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Parts of an event's record: the signed event, and the codes of its documents as JSON.
const (
	partEvent = "event"
	partCodes = "codes"
)

// Event is the head of an event's record: the present state of the event.
type Event struct {
	Version   int                `json:"version"`
	Rule      record.RuleRef     `json:"rule"`
	Cause     int64              `json:"cause"`
	Began     time.Time          `json:"began"`
	Ended     time.Time          `json:"ended"`
	Documents int                `json:"documents"`
	Receipt   *authority.Receipt `json:"receipt,omitempty"`
	Sealed    time.Time          `json:"sealed,omitzero"` // when MH's answer came; if Again, when the event was signed
	Limit     time.Time          `json:"limit,omitzero"`  // when its documents are due
	Again     bool               `json:"again,omitempty"` // MH already had the event when it was sent
}

// DecodeEvent returns the head of an event's record. ErrLost if the head is not the JSON of an Event.
func DecodeEvent(entry storage.Entry) (*Event, error) { return decode[Event](entry) }

// decode returns the head of a record of contingency. ErrLost if the head is not the JSON of a T.
func decode[T any](entry storage.Entry) (*T, error) {
	h := new(T)
	if err := json.Unmarshal(entry.Head, h); err != nil {
		return nil, fmt.Errorf("%w: decoding record %s: %w", record.ErrLost, dte.Code(entry.Code), err)
	}
	return h, nil
}

// makeEvents makes events of the documents that no event lists yet, except documents that a query finds at MH.
func (c *Contingency) makeEvents(ctx context.Context) (progress bool, err error) {
	// The layout of a new bundle may accept documents that setAsideUnlistable set aside.
	rule, unruled := c.branch.Rules().PickEvent("contingencia", c.branch.Issuer.Ambiente, dte.Date(c.branch.Now()))
	if unruled == nil && rule.Ref.Digest != c.eventRule {
		if err := c.branch.Lost.Retry(ctx); err != nil {
			return false, err
		}
		c.eventRule = rule.Ref.Digest
	}
	all, err := c.waiting(ctx, record.QueueReport, record.Whenever, 20_000)
	if err != nil || len(all) == 0 {
		return false, err
	}
	listed, err := c.listed(record.QueueEvent, record.EventSigned, record.EventAccepted)
	if err != nil {
		return false, err
	}
	unripe, err := c.unripePeriods()
	if err != nil {
		return false, err
	}
	if c.branch.Sender.Client.Time().IsZero() && c.away(ctx) { // the probe also reads MH's time
		return false, ErrAway
	}
	now, law := c.authorityTime(), c.law()
	var list []document
	for _, o := range all {
		switch {
		case listed[o.entry.Code] || unripe[o.head.Period]:
		case o.head.CreatedAt.Truncate(time.Second).After(now): // the clock was ahead; MH refuses a time in the future
		case record.PutOff(o.entry, c.branch.Now()):
			// Make one event for each period, if possible. The event therefore waits for documents in doubt, for at
			// most half of the law's time, but not for documents of refused events.
			if o.head.Period != "" && o.head.Refusals == 0 && now.Sub(o.head.Until) < law.event/2 {
				unripe[o.head.Period] = true
			}
		default:
			list = append(list, o)
		}
	}
	if list, err = c.undoubted(ctx, list, unripe); err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(o document) bool { return unripe[o.head.Period] })
	for _, g := range groups(list, law.eventDocuments) {
		failed := c.makeEvent(ctx, g) // a failure does not stop the other groups
		progress, err = progress || failed == nil, errors.Join(err, failed)
	}
	return progress, err
}

// unripePeriods returns the periods that are open or may resume. It takes periods that ended long ago off their queue.
func (c *Contingency) unripePeriods() (map[string]bool, error) {
	periods, err := c.periods()
	if err != nil {
		return nil, err
	}
	now, law, unripe := c.branch.Now(), c.law(), make(map[string]bool)
	for _, p := range periods {
		switch {
		case p.Ended.After(now.Add(reportAfter)): // the clock was ahead: the period ends now
			p.Ended, unripe[p.Code()] = now.Truncate(time.Second), true
			err = c.movePeriod(context.Background(), p, record.PeriodEnded)
		case p.Ended.IsZero() || p.Ended.Add(c.hurried(reportAfter)).After(now):
			unripe[p.Code()] = true
		case now.Sub(p.Ended) > 2*law.event:
			_, err = c.moveRecord(context.Background(), p.entry(), record.PeriodEnded, p, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return unripe, nil
}

// undoubted queries MH about the documents whose normal form MH may have, and returns the documents that MH lacks. If a
// document cannot be queried yet, its period joins unripe, for at most half of the law's time.
func (c *Contingency) undoubted(ctx context.Context, list []document, unripe map[string]bool) ([]document, error) {
	var mu sync.Mutex // guards unripe
	return c.pick(ctx, list, func(ctx context.Context, o document) (bool, error) {
		if !o.head.Doubtful && !c.branch.Sender.MayBeFurther(o.code(), o.head.CreatedAt) {
			return true, nil
		}
		found, err := c.lookUp(ctx, o)
		switch {
		case found == undecided && o.head.Period != "" && c.branch.Now().Sub(o.head.Until) < c.law().event/2:
			mu.Lock()
			unripe[o.head.Period] = true
			mu.Unlock()
		case err == nil && found == absent && o.head.Known:
			// MH lists the document in an event that this store does not know. MH sealed that event after the document
			// was deferred: a deadline counted from the deferral is not later than MH's.
			next := *o.head
			next.Limit, next.Doubtful, next.Known, next.Refusals = o.head.Until.Add(c.law().documents), false, false, 0
			return false, c.move(ctx, o, record.Reported, record.QueueForward, c.branch.Now(), &next)
		}
		return err == nil && found == absent, err
	})
}

// group is the content of one event: documents with the same key (see groups); period may be "".
type group struct {
	period, motive, establishment string
	cause                         int64
	documents                     []document
}

// groups divides documents into groups of at most limit; documents of refused events go into ever smaller groups.
func groups(list []document, limit int) []*group {
	type key struct {
		period, motive, establishment string
		cause                         int64
		refusals                      int
	}
	by := make(map[key]*group)
	var groups []*group
	for _, o := range list {
		k := key{period: o.head.Period, motive: o.head.Motive, cause: o.head.Cause, refusals: o.head.Refusals}
		k.establishment, _ = record.EstablishmentOf(o.head, record.Point{})
		g := by[k]
		if g == nil || len(g.documents) >= max(1, limit>>(2*max(0, o.head.Refusals-1))) {
			g = &group{period: k.period, motive: k.motive, establishment: k.establishment, cause: k.cause}
			by[k] = g
			groups = append(groups, g)
		}
		g.documents = append(g.documents, o)
	}
	return groups
}

// makeEvent fills, signs and stores an event. After the event is stored, a crash is safe.
func (c *Contingency) makeEvent(ctx context.Context, g *group) error {
	now := c.authorityTime() // MH compares the event with its own clock
	rule, err := c.branch.Rules().PickEvent("contingencia", c.branch.Issuer.Ambiente, dte.Date(now))
	if err != nil {
		return fmt.Errorf("no rule for contingency events: %w", err)
	}
	h := &Event{Version: rule.Filler.Version(), Rule: rule.Ref, Cause: g.cause, Documents: len(g.documents)}
	items := make([]dte.Value, len(g.documents))
	for i, o := range g.documents {
		items[i] = dte.Obj(dte.Member{Name: "noItem", Value: dte.Int(int64(i + 1))}).
			With("codigoGeneracion", dte.Str(o.code())).With("tipoDoc", dte.Str(o.head.Document))
		record.Earliest(&h.Began, o.head.CreatedAt)
		h.Ended = slices.MaxFunc([]time.Time{h.Ended, o.head.Until, o.head.CreatedAt}, time.Time.Compare)
	}
	if g.period != "" {
		p, err := c.periodOf(g.period)
		if err != nil {
			return err
		}
		if p != nil && p.Began.Before(h.Began) {
			h.Began = p.Began
		}
		if p != nil && p.Ended.After(h.Ended) {
			h.Ended = p.Ended
		}
	}
	if h.Ended, err = c.extendCause(h.Ended); err != nil {
		return err
	}
	code, err := dte.NewCode(c.branch.Rand)
	if err != nil {
		return err
	}
	document, faults, err := rule.Fill(c.eventFacts(g, h, items, code, now))
	if err != nil {
		return err
	}
	if n := len(items) / 2; n > 0 && len(faults) > 0 && faults[0].Path == "detalleDTE" { // too many for the bundle
		first, rest := *g, *g
		first.documents, rest.documents = g.documents[:n], g.documents[n:]
		return cmp.Or(c.makeEvent(ctx, &first), c.makeEvent(ctx, &rest))
	}
	if len(faults) > 0 {
		return c.setAsideUnlistable(ctx, g, faults)
	}
	jws, err := c.branch.Signer.Right(code, record.FormNormal).Sign(ctx, document)
	if err != nil {
		return fmt.Errorf("signing the contingency event: %w", err)
	}
	_, err = c.appendRecord(ctx, "evento", code, record.EventSigned, h,
		storage.Due{Queue: record.QueueEvent, At: c.branch.Now()},
		storage.Part{Name: partEvent, Data: jws}, codesPart(g.documents))
	return err
}

func codesPart(list []document) storage.Part {
	codes := make([]string, len(list))
	for i, o := range list {
		codes[i] = o.code()
	}
	data, _ := json.Marshal(codes) // strings always marshal
	return storage.Part{Name: partCodes, Data: data}
}

// setAsideUnlistable sets aside the documents that the event's layout refuses, such as a type unknown to its bundle, so
// that other documents need not wait. Any other fault of an event is an error.
func (c *Contingency) setAsideUnlistable(ctx context.Context, g *group, faults []dte.Fault) error {
	found := false
	for _, f := range faults {
		var i int
		if n, _ := fmt.Sscanf(f.Path, "detalleDTE[%d]", &i); n != 1 || i < 0 || i >= len(g.documents) {
			continue
		}
		found = true
		if err := c.branch.Lost.SetAside(ctx, g.documents[i].entry,
			fmt.Errorf("the contingency event does not take it: %w", f)); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("the contingency event breaks its layout: %v", faults)
	}
	return nil
}

// eventFacts returns the event's facts. Times are whole seconds: the beginning rounded down, the end up, at most now.
func (c *Contingency) eventFacts(g *group, h *Event, items []dte.Value, code dte.Code, now time.Time) dte.Value {
	ended := h.Ended.Add(time.Second - 1).Truncate(time.Second)
	record.Earliest(&ended, now)
	who := c.options.Responsible
	return dte.Obj().With("identificacion", dte.Texts("ambiente", c.branch.Issuer.Ambiente,
		"codigoGeneracion", code.String(), "fTransmision", dte.Date(now), "hTransmision", dte.Hour(now))).
		With("emisor", record.Emisor(c.branch.Issuer, record.Point{Establishment: g.establishment}).
			With("codPuntoVenta", dte.Null()).With("nombreResponsable", dte.Str(who.Name)).
			With("tipoDocResponsable", dte.Str(who.DocumentType)).With("numeroDocResponsable", dte.Str(who.Document))).
		With("detalleDTE", dte.Arr(items...)).
		With("motivo", dte.Texts("fInicio", dte.Date(h.Began), "hInicio", dte.Hour(h.Began), "fFin", dte.Date(ended),
			"hFin", dte.Hour(ended)).With("tipoContingencia", dte.Int(g.cause)).
			With("motivoContingencia", dte.Text(g.motive)))
}

// advance sends one event, and queues its documents for forwarding or for another event. If the store has lost an
// event, its documents go into another event: see listed. MH's answer names the documents that MH already knows.
func (c *Contingency) advance(ctx context.Context, entry storage.Entry) (progress bool, err error) {
	h, err := DecodeEvent(entry)
	if err == nil && entry.State == record.EventSigned {
		entry, err = c.sendEvent(ctx, entry, h)
	}
	var list []document
	if err == nil {
		list, err = c.documents(entry.Code, record.Deferred)
	}
	if err != nil {
		return true, err
	}
	queue, last := c.disperse, record.EventRejected
	if entry.State == record.EventAccepted {
		queue, last = c.spread, record.EventDone
	}
	code := dte.Code(entry.Code).String()
	err = c.eachDocument(ctx, list, func(ctx context.Context, o document) error { return queue(ctx, o, code, h) })
	if err == nil {
		err = c.finish(ctx, entry, last)
	}
	return true, err
}

func (c *Contingency) sendEvent(ctx context.Context, entry storage.Entry, h *Event) (storage.Entry, error) {
	jws, err := record.Part(c.branch.Store, entry.Code, partEvent)
	if err != nil {
		return entry, err
	}
	o, receipt := c.branch.Sender.Client.Report(ctx, string(jws))
	if o.Kind == authority.Unknown {
		if ctx.Err() == nil {
			c.branch.Logger.Warn("reporting a contingency", refusal.LogAttr(o.Err))
		}
		return entry, ErrAway
	}
	now := c.branch.Now()
	h.Receipt = receipt
	to := record.EventAccepted
	// MH already has this event: the answer to an earlier sending was lost.
	h.Again = o.Kind == authority.Rejected && namesKnownCode(receipt, "IDENTIFICACION.CODIGOGENERACION", 0)
	if o.Kind == authority.Rejected && !h.Again {
		to = record.EventRejected
		c.metrics.eventResults.WithLabelValues("rejected").Inc()
		c.branch.Logger.Error("MH refuses a contingency event", "event", dte.Code(entry.Code).String(), "documents",
			h.Documents, "text", receipt.Text())
	} else {
		if h.Sealed = c.authorityTime(); h.Again { // sealed at an unknown time since the signature
			record.Earliest(&h.Sealed, entry.Due.At.UTC())
		}
		h.Limit = h.Sealed.Add(c.law().documents)
		c.metrics.eventResults.WithLabelValues("accepted").Inc()
		c.branch.Logger.Info("contingency reported", "event", dte.Code(entry.Code).String(), "documents", h.Documents)
	}
	c.branch.Documents.JudgeEvent(h.Rule, to == record.EventAccepted)
	return c.moveRecord(ctx, entry, to, h, &storage.Due{Queue: record.QueueEvent, At: now})
}

// namesKnownCode reports whether MH refused an event because MH already has the code, a document's or the event's own.
// If the event has one document, MH's text need not contain the document's code.
func namesKnownCode(r *authority.Receipt, code string, documents int) bool {
	if r == nil {
		return false
	}
	text := strings.ToUpper(r.Text())
	return strings.Contains(text, "YA EXISTE") && (documents == 1 || strings.Contains(text, code))
}

func (c *Contingency) spread(ctx context.Context, o document, event string, h *Event) error {
	next := *o.head
	// If MH already had the event, an earlier process may have sent its documents too.
	next.Event, next.Limit, next.Doubtful, next.Refusals, next.Known = event, h.Limit, h.Again, 0, false
	return c.move(ctx, o, record.Reported, record.QueueForward, c.branch.Now(), &next)
}

// disperse queues a document of a refused event for another event. Before that event MH is queried, because MH may have
// the document. If MH lists the document in another event, the document is forwarded.
func (c *Contingency) disperse(ctx context.Context, o document, event string, h *Event) error {
	if o.head.Event == event {
		return nil // already moved before a crash
	}
	next := *o.head
	next.Event, next.Doubtful, next.Refusals = event, true, next.Refusals+1
	next.Known = namesKnownCode(h.Receipt, o.code(), h.Documents)
	wait := min(correctAfter<<min(next.Refusals-1, 10), time.Hour)
	if next.Known && !o.head.Known {
		wait = 0 // query MH at once; after another refusal the document waits
	}
	return c.move(ctx, o, record.Deferred, record.QueueReport, c.branch.Now().Add(wait), &next)
}
