package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// Parts of an event's record: the signature, and the codes of its documents, JSON.
const (
	partEvent = "event"
	partCodes = "codes"
)

// eventHead is an event as it stands.
type eventHead struct {
	Version   int                `json:"version"`
	Rule      record.RuleRef     `json:"rule"`
	Cause     int64              `json:"cause"`
	Began     time.Time          `json:"began"`
	Ended     time.Time          `json:"ended"`
	Documents int                `json:"documents"`
	Receipt   *authority.Receipt `json:"receipt,omitempty"`
	Sealed    time.Time          `json:"sealed,omitzero"` // by this box's clock
	Limit     time.Time          `json:"limit,omitzero"`  // when its documents are due
	Again     bool               `json:"again,omitempty"` // MH had it already when it was sent
}

// report makes events of the documents that no event lists yet. Doubtful ones are asked for first: what MH holds is not
// in contingency.
func (c *contingency) report(ctx context.Context) (progress bool, err error) {
	all, err := c.owing(record.QueueReport, c.now().Add(record.Distant), 20_000)
	if err != nil || len(all) == 0 {
		return false, err
	}
	listed, err := c.listed(record.QueueEvent, record.EventSigned, record.EventAccepted)
	if err != nil {
		return false, err
	}
	unripe, err := c.unripe()
	if err != nil {
		return false, err
	}
	now, law := c.now(), c.law()
	var list []owing
	for _, o := range all {
		switch {
		case listed[o.entry.Code] || unripe[o.head.Period]:
		case o.entry.Due.At.After(now):
			// One event a period, if that can be: it waits for the doubtful ones half of the time that there is, and not for those that
			// MH has refused.
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
	list = slices.DeleteFunc(list, func(o owing) bool { return unripe[o.head.Period] })
	for _, g := range groups(list, law.eventDocuments) {
		if err := c.makeEvent(ctx, g); err != nil {
			return progress, err
		}
		progress = true
	}
	return progress, nil
}

// unripe are the periods that are open, or ended so recently that they may go on. Those that are long over leave the
// queue.
func (c *contingency) unripe() (map[string]bool, error) {
	periods, err := c.periods()
	if err != nil {
		return nil, err
	}
	now, most, unripe := c.now(), c.law().event, make(map[string]bool)
	for _, p := range periods {
		switch {
		case p.Ended.IsZero() || p.Ended.Add(c.options.ReportAfter).After(now):
			unripe[p.code.String()] = true
		case c.awaitsReport(p, periods, now):
			unripe[p.code.String()] = true
		case now.Sub(p.Ended) > 2*most:
			if _, err := record.Move(context.Background(), c.store, storage.Code(p.code), record.PeriodEnded, storage.Change{To: record.PeriodEnded}); err != nil {
				return nil, fmt.Errorf("closing a contingency period: %w", err)
			}
		}
	}
	return unripe, nil
}

// extend returns the end of a cause that could not be reported in time because the next one began before: for MH it is one
// cause, which ended with the last.
func (c *contingency) extend(ended time.Time) (time.Time, error) {
	now, most := c.now(), c.law().event
	if now.Sub(ended) < most-time.Hour {
		return ended, nil
	}
	periods, err := c.periods()
	for _, p := range periods {
		if !p.Ended.IsZero() && p.Ended.After(ended) && p.Began.Sub(ended) < most {
			ended = p.Ended
		}
	}
	return ended, err
}

// periods returns the open period and those of the last two days, by their beginning.
func (c *contingency) periods() ([]*Period, error) {
	entries, err := c.store.Due(record.QueuePeriod, c.now().Add(record.Distant), 10_000)
	if err != nil {
		return nil, fmt.Errorf("reading contingency periods: %w", err)
	}
	list := make([]*Period, len(entries))
	for i, entry := range entries {
		if list[i], err = decodePeriod(entry); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b *Period) int { return a.Began.Compare(b.Began) })
	return list, nil
}

// undoubted asks MH for every document whose normal form it may hold, and returns those that it does not hold. Where it is
// too early to ask, the period is not ripe.
func (c *contingency) undoubted(ctx context.Context, list []owing, unripe map[string]bool) ([]owing, error) {
	var mu sync.Mutex // guards unripe
	keep := make([]bool, len(list))
	index := make(map[storage.Code]int, len(list))
	for i, o := range list {
		index[o.entry.Code] = i
	}
	err := each(ctx, list, func(ctx context.Context, o owing) error {
		i := index[o.entry.Code]
		if !o.head.Doubtful && !c.docs.mayBeFurther(o.entry.Code, o.head) {
			keep[i] = true
			return nil
		}
		if wait := c.docs.decidable(o.head); c.now().Before(wait) {
			if o.head.Period != "" {
				mu.Lock()
				unripe[o.head.Period] = true
				mu.Unlock()
			}
			return c.later(ctx, o, wait)
		}
		q := c.docs.query(ctx, o.entry.Code, o.head.Document)
		switch q.Kind {
		case authority.Accepted:
			_, err := c.docs.adoptHeld(ctx, o.entry, o.head, q.Response, record.QueryDoubt)
			return err
		case authority.NotFound:
			if o.head.Known {
				return c.forwardKnown(ctx, o)
			}
			keep[i] = true
			return nil
		}
		return errAway
	})
	var kept []owing
	for i, o := range list {
		if keep[i] {
			kept = append(kept, o)
		}
	}
	return kept, err
}

// forwardKnown has a document forwarded that MH has in an event already, one that this store does not know, and that MH does
// not hold itself. The event was sealed after the document was deferred: the time that MH gives it runs from then at the
// earliest.
func (c *contingency) forwardKnown(ctx context.Context, o owing) error {
	next := *o.head
	next.Limit, next.Doubtful, next.Known, next.Refusals = o.head.Until.Add(c.law().documents), false, false, 0
	_, err := c.docs.move(ctx, o.entry, storage.Change{To: record.Reported, Due: &storage.Due{Queue: record.QueueForward, At: c.now()}}, &next)
	return err
}

// later puts a document off.
func (c *contingency) later(ctx context.Context, o owing, at time.Time) error {
	_, err := c.docs.move(ctx, o.entry, storage.Change{To: o.entry.State, Due: &storage.Due{Queue: o.entry.Due.Queue, At: at}}, o.head)
	return err
}

// group is what one event lists: documents of one period (or of none), cause, motive and establishment.
type group struct {
	period, motive, establishment string
	cause                         int64
	documents                     []owing
}

// groups cuts documents into events of at most so many; what MH has refused in an event goes into ever smaller ones.
func groups(list []owing, most int) []*group {
	type key struct {
		period, motive, establishment string
		cause                         int64
		refusals                      int
	}
	by := make(map[key]*group)
	var groups []*group
	for _, o := range list {
		k := key{period: o.head.Period, motive: o.head.Motive, cause: o.head.Cause, refusals: o.head.Refusals}
		k.establishment, _ = seller.EstablishmentOf(o.head, seller.Point{})
		g := by[k]
		if g == nil || len(g.documents) >= max(1, most>>(2*max(0, o.head.Refusals-1))) {
			g = &group{period: k.period, motive: k.motive, establishment: k.establishment, cause: k.cause}
			by[k] = g
			groups = append(groups, g)
		}
		g.documents = append(g.documents, o)
	}
	return groups
}

// makeEvent fills, signs and stores an event. After it a crash is safe.
func (c *contingency) makeEvent(ctx context.Context, g *group) error {
	now := c.now()
	rule, err := c.rules().PickEvent("contingencia", c.issuer.Ambiente, dte.Date(now))
	if err != nil {
		return fmt.Errorf("no rule for contingency events: %w", err)
	}
	h := &eventHead{Version: rule.Filler.Version(), Rule: rule.Ref, Cause: g.cause, Documents: len(g.documents)}
	codes := make([]string, len(g.documents))
	items := make([]dte.Value, len(g.documents))
	for i, o := range g.documents {
		codes[i] = dte.Code(o.entry.Code).String()
		items[i] = dte.Obj(dte.Member{Name: "noItem", Value: dte.Int(int64(i + 1))},
			dte.Member{Name: "codigoGeneracion", Value: dte.Str(codes[i])}, dte.Member{Name: "tipoDoc", Value: dte.Str(o.head.Document)})
		if h.Began.IsZero() || o.head.CreatedAt.Before(h.Began) {
			h.Began = o.head.CreatedAt
		}
		if o.head.Until.After(h.Ended) {
			h.Ended = o.head.Until
		}
	}
	if g.period != "" {
		p, err := c.periodOf(g.period)
		if err != nil {
			return err
		}
		if p.Began.Before(h.Began) {
			h.Began = p.Began
		}
		if p.Ended.After(h.Ended) {
			h.Ended = p.Ended
		}
	}
	if h.Ended, err = c.extend(h.Ended); err != nil {
		return err
	}
	code, err := dte.NewCode(c.rand)
	if err != nil {
		return err
	}
	document, faults := rule.Filler.Fill(nil, c.eventFacts(g, h, items, code, now), nil, dte.FillOptions{Catalogues: true})
	if len(faults) > 0 {
		return fmt.Errorf("the contingency event breaks its layout: %v", faults)
	}
	jws, err := c.signer.Right(code, record.FormNormal).Sign(ctx, document)
	if err != nil {
		return fmt.Errorf("signing the contingency event: %w", err)
	}
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	list, err := json.Marshal(codes)
	if err != nil {
		return err
	}
	_, err = c.store.Append(ctx, storage.Keys{Series: c.series("evento")}, storage.Draft{Code: storage.Code(code), State: record.EventSigned, Head: head, Due: &storage.Due{Queue: record.QueueEvent, At: now},
		Parts: []storage.Part{{Name: partEvent, Data: jws}, {Name: partCodes, Data: list}}})
	return err
}

func (c *contingency) periodOf(code string) (*Period, error) {
	id, err := dte.ParseCode(code)
	if err != nil {
		return nil, err
	}
	entry, err := c.store.Get(storage.Code(id))
	if err != nil {
		return nil, err
	}
	return decodePeriod(entry)
}

// eventFacts are the event's facts. MH writes times in seconds: the cause began in that of its first document and had
// ended by the one behind its last.
func (c *contingency) eventFacts(g *group, h *eventHead, items []dte.Value, code dte.Code, now time.Time) dte.Value {
	text := func(name, s string) dte.Member {
		if s == "" {
			return dte.Member{Name: name, Value: dte.Null()}
		}
		return dte.Member{Name: name, Value: dte.Str(s)}
	}
	ended := h.Ended
	if whole := ended.Truncate(time.Second); whole.Before(ended) {
		ended = whole.Add(time.Second)
	}
	if ended.After(now) {
		ended = now
	}
	who := c.options.Responsible
	return dte.Obj(
		dte.Member{Name: "identificacion", Value: dte.Obj(
			text("ambiente", c.issuer.Ambiente), text("codigoGeneracion", code.String()), text("fTransmision", dte.Date(now)), text("hTransmision", dte.Hour(now)))},
		dte.Member{Name: "emisor", Value: seller.Emisor(c.issuer, seller.Point{Establishment: g.establishment}).
			With("codPuntoVenta", dte.Null()).With("nombreResponsable", dte.Str(who.Name)).
			With("tipoDocResponsable", dte.Str(who.DocumentType)).With("numeroDocResponsable", dte.Str(who.Document))},
		dte.Member{Name: "detalleDTE", Value: dte.Arr(items...)},
		dte.Member{Name: "motivo", Value: dte.Obj(
			text("fInicio", dte.Date(h.Began)), text("hInicio", dte.Hour(h.Began)), text("fFin", dte.Date(ended)), text("hFin", dte.Hour(ended)),
			dte.Member{Name: "tipoContingencia", Value: dte.Int(g.cause)}, text("motivoContingencia", g.motive))})
}
