package record

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/storage"
)

// ErrEnough, from a callback, ends a walk over records early.
var ErrEnough = errors.New("enough")

// Day returns the stored form of a day (yyyy-mm-dd): 20261105. 0: date is not a day.
func Day(date string) uint32 {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return 0
	}
	return uint32(at.Year()*10000 + int(at.Month())*100 + at.Day())
}

// Days returns the days to which a document belongs, in El Salvador: the days of its date, corrections and
// invalidation. Find the documents of a day with the store's index of days, never by id: clocks jump, and a higher id
// may have an earlier date.
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

// mostDays limits the days under which the store lists one record (Head.Days); corrections add a few at most.
const mostDays = 200

const walkChunk = 256

type Stored struct {
	storage.Entry
	Head *Head
}

// Read returns a document of the store. Errors: ErrLost if the document's head cannot be read, or the store's, such as
// storage.ErrNotFound for another record.
func Read(store *storage.Store, code storage.Code) (storage.Entry, *Head, error) {
	entry, err := store.Get(code)
	if err == nil && !IsDocument(entry.State) {
		err = storage.ErrNotFound
	}
	if err != nil {
		return entry, nil, err
	}
	h, err := DecodeHead(entry)
	return entry, h, err
}

// OfDay iterates, by id, over the documents of a day (Head.Days) with ids above after. An error is the last element.
func OfDay(ctx context.Context, store *storage.Store, day uint32, after uint64) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for {
			entries, err := store.Day(day, after, walkChunk)
			for _, entry := range entries {
				after = entry.ID
				if !IsDocument(entry.State) {
					continue
				}
				h, bad := DecodeHead(entry)
				if !yield(Stored{entry, h}, bad) || bad != nil {
					return
				}
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				yield(Stored{}, err)
			}
			if err != nil || len(entries) == 0 {
				return
			}
		}
	}
}

// Between iterates, by day and id, over the documents dated from one day to another (yyyy-mm-dd). An error comes last.
func Between(ctx context.Context, store *storage.Store, from, to string) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		day, err := time.Parse(time.DateOnly, from)
		if err != nil {
			yield(Stored{}, fmt.Errorf("reading the documents from %s: %w", from, err))
			return
		}
		for date := from; date <= to; date = day.Format(time.DateOnly) {
			for d, err := range OfDay(ctx, store, Day(date), 0) {
				own := err != nil || d.Head.Date == date // otherwise it was corrected or invalidated on that day
				if own && !yield(d, err) || err != nil {
					return
				}
			}
			day = day.AddDate(0, 0, 1)
		}
	}
}
