package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/storage"
)

// ErrEnough is returned by a callback to end a walk over records early.
var ErrEnough = errors.New("enough")

// Day returns a day (yyyy-mm-dd) as the store keeps it: 20261105. It returns 0 for what is no day.
func Day(date string) uint32 {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return 0
	}
	return uint32(at.Year()*10000 + int(at.Month())*100 + at.Day())
}

// Days returns the days to which a document belongs, El Salvador's: that of its date, those of its corrections, and
// that of its invalidation. Clocks jump, therefore neither the ids of documents nor the days of one document grow
// together with their dates: who looks for the documents of a day reads the store's index of days, and never searches
// by id.
func (h *Head) Days() []uint32 {
	days := []uint32{Day(h.Date)}
	add := func(at time.Time) {
		if day := Day(dte.Date(at)); !slices.Contains(days, day) && len(days) < mostDays {
			days = append(days, day)
		}
	}
	if h.Invalidation != nil {
		add(h.Invalidation.At)
	}
	for _, c := range h.Corrections {
		add(c.At)
	}
	return days
}

// mostDays is how many days a record may have in the store. A document is corrected for a few days at most.
const mostDays = 200

// walkChunk is how many records a walk reads at once.
const walkChunk = 256

// EachDocument calls fn for the documents of the days from from to to (yyyy-mm-dd, both inclusive), by day and then by
// id. It ends when fn returns ErrEnough. Other errors of fn end it too, and are returned.
func EachDocument(ctx context.Context, store *storage.Store, from, to string, fn func(storage.Entry,
	*Head) error) error {
	day, err := time.Parse(time.DateOnly, from)
	if err != nil {
		return fmt.Errorf("reading the documents from %s: %w", from, err)
	}
	for ; day.Format(time.DateOnly) <= to; day = day.AddDate(0, 0, 1) {
		if err := ctx.Err(); err != nil {
			return err
		}
		date := day.Format(time.DateOnly)
		err := EachOfDay(ctx, store, Day(date), func(entry storage.Entry, h *Head) error {
			if h.Date != date { // it was corrected or invalidated on that day
				return nil
			}
			return fn(entry, h)
		})
		if errors.Is(err, ErrEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// EachOfDay calls fn for the documents that belong to a day (see Head.Days), by id, until fn returns an error, which is
// returned.
func EachOfDay(ctx context.Context, store *storage.Store, day uint32, fn func(storage.Entry, *Head) error) error {
	for after := uint64(0); ; {
		entries, err := store.Day(day, after, walkChunk)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, entry := range entries {
			if after = entry.ID; !IsDocument(entry.State) {
				continue
			}
			h, err := DecodeHead(entry)
			if err == nil {
				err = errors.Join(ctx.Err(), fn(entry, h))
			}
			if err != nil {
				return err
			}
		}
	}
}
