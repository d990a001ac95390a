package documents

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Requirements returns how many tests MH requires of each known document type and of the events (MF2 XXIV).
func Requirements() (list []Sealed) {
	for _, t := range record.Known() {
		if t.Tests > 0 {
			list = append(list, Sealed{Kind: t.Document, Wanted: t.Tests})
		}
	}
	return append(list, Sealed{Kind: "invalidacion", Wanted: 5}, Sealed{Kind: "contingencia", Wanted: 5})
}

// TestDays is the time for the tests, in days: MH allows two months.
const TestDays = 62

// Progress compares the branch's test documents and events with MH's requirements.
type Progress struct {
	Since   string   `json:"since"`   // yyyy-mm-dd: older records do not count
	Kinds   []Sealed `json:"kinds"`   // in the order of Requirements
	Partial bool     `json:"partial"` // the count is incomplete; the next call continues it
}

// Sealed counts records of a kind: how many MH wants, has sealed, has still to decide, and has refused.
type Sealed struct {
	Kind    string `json:"kind"` // a document's type of CAT-002, 18 for a return, or contingencia or invalidacion
	Wanted  int    `json:"wanted"`
	Sealed  int    `json:"sealed"`
	Waiting int    `json:"waiting"`
	Refused int    `json:"refused"`
}

// Missing returns the number of tests that are still to be sent.
func (s Sealed) Missing() int { return max(0, s.Wanted-s.Sealed-s.Waiting) }

// Tally counts the branch's documents and events towards MH's authorisation. See mostEvents.
type Tally struct {
	documents *Register
	branch    int64
	now       func() time.Time

	mu       sync.Mutex
	last     uint64         // id up to which events are counted
	open     []storage.Code // events that MH has not decided
	received []time.Time    // when MH sealed events
	refused  []time.Time    // when MH refused events
}

// NewTally returns a tally, for a branch in the test ambiente, that has counted nothing yet.
func NewTally(r *Register, branch int64, now func() time.Time) *Tally {
	return &Tally{documents: r, branch: branch, now: now}
}

// Count continues the count and returns the progress. Partial is set if ctx ends before the documents are counted, or
// if countEvents has not yet read all records of the store.
func (t *Tally) Count(ctx context.Context) (*Progress, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	today, err := time.Parse(time.DateOnly, dte.Date(t.now()))
	if err != nil {
		return nil, err
	}
	first := today.AddDate(0, 0, 1-TestDays)
	a := &Progress{Since: first.Format(time.DateOnly), Kinds: Requirements()}
	counts := make(map[string]*Sealed, len(a.Kinds))
	for i := range a.Kinds {
		counts[a.Kinds[i].Kind] = &a.Kinds[i]
	}
	for day := first; !day.After(today); day = day.AddDate(0, 0, MaxDays) {
		l, err := t.documents.List(ctx, Filter{From: day.Format(time.DateOnly), To: day.AddDate(0, 0,
			MaxDays-1).Format(time.DateOnly), Limit: 1},
			record.Caller{Point: record.Point{BranchID: t.branch}})
		switch {
		case ctx.Err() != nil:
			a.Partial = true
		case err != nil:
			return nil, fmt.Errorf("counting documents for the authorisation: %w", err)
		default:
			for _, total := range l.Totals {
				addTotal(counts, total)
			}
		}
	}
	more, err := t.countEvents()
	if err != nil {
		return nil, fmt.Errorf("counting contingency events: %w", err)
	}
	a.Partial = a.Partial || more
	events := counts["contingencia"]
	events.Sealed, events.Waiting, events.Refused = countSince(t.received, a.Since), len(t.open), countSince(t.refused,
		a.Since)
	return a, nil
}

// addTotal adds a list's total. An invalidated document counts twice, because MH has sealed it and its invalidation.
func addTotal(counts map[string]*Sealed, t Total) {
	for _, k := range record.Known() {
		c := counts[k.Document]
		if k.Name != t.Tipo || c == nil {
			continue
		}
		switch t.Estado {
		case record.EstadoInvalidated:
			counts["invalidacion"].Sealed += t.Count
			c.Sealed += t.Count
		case record.EstadoProcessed:
			c.Sealed += t.Count
		case record.EstadoContingency:
			c.Waiting += t.Count
		case record.EstadoRejected:
			c.Refused += t.Count
		}
	}
}

func countSince(list []time.Time, day string) (n int) {
	for _, at := range list {
		if dte.Date(at) >= day {
			n++
		}
	}
	return n
}

// countEvents counts the contingency events that were undecided at the previous call, and the events since then.
func (t *Tally) countEvents() (more bool, err error) {
	open := t.open
	t.open = nil
	for i, code := range open {
		entry, err := t.documents.store.Get(code)
		if err == nil {
			err = t.countEvent(entry)
		}
		if err != nil {
			t.open = append(t.open, open[i:]...) // the events before event i are counted
			return false, err
		}
	}
	n := 0
	err = t.documents.store.Records(t.last, func(entry storage.Entry) error {
		if n++; n > mostEvents {
			return record.ErrEnough
		}
		if err := t.countEvent(entry); err != nil {
			return err
		}
		t.last = entry.ID
		return nil
	})
	if errors.Is(err, record.ErrEnough) {
		return true, nil
	}
	return false, err
}

// mostEvents limits the records that a call reads to find events: they take a small box a tenth of a second.
const mostEvents = 10_000

func (t *Tally) countEvent(entry storage.Entry) error {
	if entry.State < record.EventSigned || entry.State > record.EventDone {
		return nil
	}
	h, err := contingency.DecodeEvent(entry)
	if err != nil {
		return err
	}
	switch {
	case entry.State == record.EventSigned:
		t.open = append(t.open, entry.Code)
	case entry.State == record.EventRejected:
		if h.Receipt != nil {
			t.refused = append(t.refused, h.Receipt.At)
		}
	default:
		t.received = append(t.received, h.Sealed)
	}
	return nil
}
