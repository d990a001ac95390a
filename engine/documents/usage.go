package documents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/storage"
)

// Usage reads from a store what each token had stored before the appliance started.
type Usage struct {
	store  *storage.Store
	shelf  *rulestore.Store
	upTo   uint64 // id
	before time.Time
}

// NewUsage returns the usage of everything that a store holds now. The shelf, which may be nil, knows when tills sell.
func NewUsage(store *storage.Store, shelf *rulestore.Store, now time.Time) *Usage {
	return &Usage{store: store, shelf: shelf, upTo: store.LastID(), before: now}
}

// Of returns how many bytes each token had stored on a day (yyyy-mm-dd in El Salvador) with its sales and corrections
// of that day. It reads the heads of that day's documents, and gives way to sales. Documents of earlier versions of the
// program count 0 bytes.
func (u *Usage) Of(ctx context.Context, day string) (map[int64]int64, error) {
	rest := func() {}
	if u.shelf != nil {
		rest = u.shelf.GiveWay(2)
	}
	used := make(map[int64]int64)
	err := record.EachOfDay(ctx, u.store, record.Day(day), func(entry storage.Entry, h *record.Head) error {
		rest()
		if entry.ID > u.upTo {
			return record.ErrEnough
		}
		if h.Date == day {
			used[h.TokenID] += h.Bytes
		}
		for _, c := range h.Corrections {
			if dte.Date(c.At) == day && c.At.Before(u.before) {
				used[c.TokenID] += c.Bytes
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, record.ErrEnough) {
		return nil, fmt.Errorf("reading what was stored on %s: %w", day, err)
	}
	return used, nil
}
