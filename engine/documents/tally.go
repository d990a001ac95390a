package documents

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Today is what the branch issued on one Salvadoran day, by the hour of issue.
type Today struct {
	Date      string // yyyy-mm-dd
	Hours     [24]Hour
	Documents map[string]int // by type of CAT-002
	// Partial: there is more than was counted yet; the next call goes on.
	Partial bool
}

// Hour counts the documents that were issued in an hour, by their first result. A document that was issued in
// contingency stays under Contingency if MH refuses it later.
type Hour struct{ Normal, Contingency, Rejected int }

// Tally counts the documents of the day for callers who look often: each call reads only the records since the call
// before, and at most TallyStep of them.
type Tally struct {
	store *storage.Store
	now   func() time.Time

	mu       sync.Mutex
	day      Today
	last     uint64          // id that is counted
	settling []storage.Entry // counted when MH has decided
}

// TallyStep is the largest number of records that one call of Today reads: about a tenth of a second on a small box.
const TallyStep = 10_000

// NewTally returns a tally that has counted nothing yet.
func NewTally(store *storage.Store, now func() time.Time) *Tally {
	return &Tally{store: store, now: now}
}

// Today continues the count and returns the day so far.
func (t *Tally) Today() (Today, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	partial, err := t.goOn()
	if err != nil {
		t.day = Today{} // the next call begins anew
		return Today{}, fmt.Errorf("counting today's documents: %w", err)
	}
	day := t.day
	day.Partial, day.Documents = partial, maps.Clone(t.day.Documents)
	return day, nil
}

func (t *Tally) goOn() (partial bool, err error) {
	if date := dte.Date(t.now()); date != t.day.Date {
		t.day, t.last, t.settling = Today{Date: date, Documents: make(map[string]int)}, 0, nil
	}
	open := t.settling
	t.settling = nil
	for _, entry := range open {
		now, err := t.store.Get(entry.Code)
		if err == nil {
			err = t.count(now)
		}
		if err != nil {
			return false, err
		}
	}
	entries, err := t.store.Day(record.Day(t.day.Date), t.last, TallyStep)
	for _, entry := range entries {
		if err == nil {
			t.last, err = entry.ID, t.count(entry)
		}
	}
	return len(entries) == TallyStep, err
}

func (t *Tally) count(entry storage.Entry) error {
	if !record.IsDocument(entry.State) {
		return nil
	}
	var h struct {
		Document  string    `json:"document"`
		Date      string    `json:"date"`
		Form      string    `json:"form"`
		CreatedAt time.Time `json:"created_at"`
	}
	if err := json.Unmarshal(entry.Head, &h); err != nil {
		return fmt.Errorf("decoding record %s: %w", dte.Code(entry.Code), err)
	}
	if h.Date != t.day.Date {
		return nil
	}
	if entry.State == record.Signed {
		t.settling = append(t.settling, entry)
		return nil
	}
	t.day.Documents[h.Document]++
	hour := &t.day.Hours[h.CreatedAt.In(dte.Zone).Hour()]
	switch {
	case h.Form != record.FormNormal:
		hour.Contingency++
	case entry.State == record.Rejected:
		hour.Rejected++
	default:
		hour.Normal++
	}
	return nil
}
