package contingency

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// Parts of an event's record: the signature, and the codes of its documents, JSON.
const (
	partEvent = "event"
	partCodes = "codes"
)

// events tells MH which documents were issued in contingency.
type events struct{ *common }

// Event is the head of an event's record: the current state of the event.
type Event struct {
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

// DecodeEvent returns the head of an event's record. An error means that the head is not the JSON of an Event.
func DecodeEvent(entry storage.Entry) (*Event, error) {
	h := new(Event)
	if err := json.Unmarshal(entry.Head, h); err != nil {
		return nil, fmt.Errorf("decoding contingency event %s: %w", dte.Code(entry.Code), err)
	}
	return h, nil
}

// report makes events of the documents that no event lists yet. Doubtful ones are asked for first: what MH holds is not
// in contingency.
func (e events) report(ctx context.Context) (progress bool, err error) {
	all, err := e.waiting(record.QueueReport, record.Whenever, 20_000)
	if err != nil || len(all) == 0 {
		return false, err
	}
	listed, err := e.listed(record.QueueEvent, record.EventSigned, record.EventAccepted)
	if err != nil {
		return false, err
	}
	unreported := make(map[string]time.Time)
	for _, o := range all {
		unreported[o.head.Period] = o.head.Until
	}
	unripe, err := e.unripePeriods(unreported)
	if err != nil {
		return false, err
	}
	now, law := e.branch.Now(), e.law()
	var list []document
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
	if list, err = e.undoubted(ctx, list, unripe); err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(o document) bool { return unripe[o.head.Period] })
	for _, g := range groups(list, law.eventDocuments) {
		if err := e.makeEvent(ctx, g); err != nil {
			return progress, err
		}
		progress = true
	}
	return progress, nil
}

// unripePeriods are the periods that are open, or ended so recently that they may go on. Those that are long over leave the
// queue.
func (e events) unripePeriods(unreported map[string]time.Time) (map[string]bool, error) {
	periods, err := e.periods()
	if err != nil {
		return nil, err
	}
	now, law, unripe := e.branch.Now(), e.law(), make(map[string]bool)
	waiting := unreportedStretches(periods, unreported, law)
	for _, p := range periods {
		switch {
		case p.Ended.IsZero() || p.Ended.Add(e.options.ReportAfter).After(now):
			unripe[p.code.String()] = true
		case awaitsReport(p, waiting, law, e.options.AwaitReport, now):
			unripe[p.code.String()] = true
		case now.Sub(p.Ended) > 2*law.event:
			if _, err := record.Move(context.Background(), e.branch.Store, storage.Code(p.code), record.PeriodEnded, storage.Change{To: record.PeriodEnded}); err != nil {
				return nil, fmt.Errorf("closing a contingency period: %w", err)
			}
		}
	}
	return unripe, nil
}

// undoubted asks MH for every document whose normal form it may hold, and returns those that it does not hold. Where it is
// too early to ask, the period is not ripe.
func (e events) undoubted(ctx context.Context, list []document, unripe map[string]bool) ([]document, error) {
	var mu sync.Mutex // guards unripe
	keep := make([]bool, len(list))
	index := make(map[storage.Code]int, len(list))
	for i, o := range list {
		index[o.entry.Code] = i
	}
	err := eachDocument(ctx, list, func(ctx context.Context, o document) error {
		i := index[o.entry.Code]
		if !o.head.Doubtful && !e.branch.Sender.MayBeFurther(o.code(), o.head.CreatedAt) {
			keep[i] = true
			return nil
		}
		found, err := e.lookUp(ctx, o)
		switch {
		case found == undecided && o.head.Period != "":
			mu.Lock()
			unripe[o.head.Period] = true
			mu.Unlock()
		case err == nil && found == absent && o.head.Known:
			return e.forwardKnown(ctx, o)
		case err == nil && found == absent:
			keep[i] = true
		}
		return err
	})
	var kept []document
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
func (e events) forwardKnown(ctx context.Context, o document) error {
	next := *o.head
	next.Limit, next.Doubtful, next.Known, next.Refusals = o.head.Until.Add(e.law().documents), false, false, 0
	_, err := e.branch.Documents.Move(ctx, o.entry, storage.Change{To: record.Reported, Due: &storage.Due{Queue: record.QueueForward, At: e.branch.Now()}}, &next)
	return err
}

// group is what one event lists: documents of one period (or of none), cause, motive and establishment.
type group struct {
	period, motive, establishment string
	cause                         int64
	documents                     []document
}

// groups cuts documents into events of at most so many; what MH has refused in an event goes into ever smaller ones.
func groups(list []document, most int) []*group {
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
func (e events) makeEvent(ctx context.Context, g *group) error {
	now := e.branch.Now()
	rule, err := e.branch.Rules().PickEvent("contingencia", e.branch.Issuer.Ambiente, dte.Date(now))
	if err != nil {
		return fmt.Errorf("no rule for contingency events: %w", err)
	}
	h := &Event{Version: rule.Filler.Version(), Rule: rule.Ref, Cause: g.cause, Documents: len(g.documents)}
	codes := make([]string, len(g.documents))
	items := make([]dte.Value, len(g.documents))
	for i, o := range g.documents {
		codes[i] = o.code()
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
		p, err := e.periodOf(g.period)
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
	if h.Ended, err = e.extend(h.Ended); err != nil {
		return err
	}
	code, err := dte.NewCode(e.branch.Rand)
	if err != nil {
		return err
	}
	document, faults := rule.Filler.Fill(nil, e.eventFacts(g, h, items, code, now), nil, schema.FillOptions{Catalogues: true})
	if len(faults) > 0 {
		return fmt.Errorf("the contingency event breaks its layout: %v", faults)
	}
	jws, err := e.branch.Signer.Right(code, record.FormNormal).Sign(ctx, document)
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
	_, err = e.branch.Store.Append(ctx, storage.Keys{Series: e.series("evento")}, storage.Draft{Code: storage.Code(code), State: record.EventSigned, Head: head, Due: &storage.Due{Queue: record.QueueEvent, At: now},
		Parts: []storage.Part{{Name: partEvent, Data: jws}, {Name: partCodes, Data: list}}})
	return err
}

// eventFacts are the event's facts. MH writes times in seconds: the cause began in that of its first document and had
// ended by the one behind its last.
func (e events) eventFacts(g *group, h *Event, items []dte.Value, code dte.Code, now time.Time) dte.Value {
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
	who := e.options.Responsible
	return dte.Obj(
		dte.Member{Name: "identificacion", Value: dte.Obj(
			text("ambiente", e.branch.Issuer.Ambiente), text("codigoGeneracion", code.String()), text("fTransmision", dte.Date(now)), text("hTransmision", dte.Hour(now)))},
		dte.Member{Name: "emisor", Value: seller.Emisor(e.branch.Issuer, seller.Point{Establishment: g.establishment}).
			With("codPuntoVenta", dte.Null()).With("nombreResponsable", dte.Str(who.Name)).
			With("tipoDocResponsable", dte.Str(who.DocumentType)).With("numeroDocResponsable", dte.Str(who.Document))},
		dte.Member{Name: "detalleDTE", Value: dte.Arr(items...)},
		dte.Member{Name: "motivo", Value: dte.Obj(
			text("fInicio", dte.Date(h.Began)), text("hInicio", dte.Hour(h.Began)), text("fFin", dte.Date(ended)), text("hFin", dte.Hour(ended)),
			dte.Member{Name: "tipoContingencia", Value: dte.Int(g.cause)}, text("motivoContingencia", g.motive))})
}
