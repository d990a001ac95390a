package register

import (
	"context"
	"fmt"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/shelf"
	"dtegate/storage"
)

// Usage reads from a store what each token had stored before the appliance started.
type Usage struct {
	store  *storage.Store
	shelf  *shelf.Shelf
	upTo   uint64 // id
	before time.Time
}

// NewUsage returns the usage of everything that a store holds now. The shelf, which may be nil, knows when tills sell.
func NewUsage(store *storage.Store, shelf *shelf.Shelf, now time.Time) *Usage {
	return &Usage{store: store, shelf: shelf, upTo: store.LastID(), before: now}
}

// Of returns how many bytes each token had stored on a day (yyyy-mm-dd in El Salvador) with its sales and corrections of that
// day. It reads the heads of two days, and gives way to sales. Documents of earlier versions of the program count 0 bytes.
func (u *Usage) Of(ctx context.Context, day string) (map[int64]int64, error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return nil, fmt.Errorf("reading what was stored on %q: %w", day, err)
	}
	after, err := record.FirstID(u.store, at.AddDate(0, 0, -1).Format(time.DateOnly)) // what is corrected was issued a day ago at most
	if err != nil {
		return nil, fmt.Errorf("finding the first document before %s: %w", day, err)
	}
	rest := func() {}
	if u.shelf != nil {
		rest = u.shelf.GiveWay(2)
	}
	used := make(map[int64]int64)
	for after < u.upTo {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		entries, err := u.store.Page(after, 256)
		if err != nil {
			return nil, fmt.Errorf("reading what was stored on %s: %w", day, err)
		}
		if len(entries) == 0 {
			break
		}
		for _, entry := range entries {
			if after = entry.ID; after > u.upTo || !record.IsDocument(entry.State) {
				continue
			}
			h, err := record.DecodeHead(entry)
			if err != nil {
				return nil, err
			}
			if h.Date == day {
				used[h.TokenID] += h.Bytes
			}
			for _, c := range h.Corrections {
				if dte.Date(c.At) == day && c.At.Before(u.before) {
					used[c.TokenID] += c.Bytes
				}
			}
		}
		rest()
	}
	return used, nil
}
