package record

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"dtegate/storage"
)

// DateWindow is how many ids the documents of two days may overlap. Requests that read the clock before midnight may get their
// ids after requests that read it later.
const DateWindow = 256

// ErrEnough is returned by a callback to end a walk over records early.
var ErrEnough = errors.New("enough")

// FirstID returns an id below the ids of all documents of a day (yyyy-mm-dd) and of later days. It uses binary search.
func FirstID(store *storage.Store, day string) (uint64, error) {
	var failed error
	n := sort.Search(int(store.LastID())+1, func(i int) bool {
		date, err := dateAfter(store, uint64(i))
		if err != nil {
			failed = err
		}
		return date == "" || date >= day
	})
	return uint64(max(0, n-DateWindow)), failed
}

// LastID returns an id at or above the ids of all documents, of days before the given day (yyyy-mm-dd), that the store has now.
func LastID(store *storage.Store, day string) (uint64, error) {
	first, err := FirstID(store, day)
	return min(first+2*DateWindow, store.LastID()), err // FirstID lies a window before the first document of its day
}

// EachDocument calls fn for the documents from a day (yyyy-mm-dd) on, in the order of their ids, except for documents for which
// past returns true. It ends after more than DateWindow such documents in a row, or when fn returns ErrEnough. Other errors of
// fn end it too, and are returned.
func EachDocument(ctx context.Context, store *storage.Store, day string, past func(*Head) bool, fn func(storage.Entry, *Head) error) error {
	first, err := FirstID(store, day)
	if err != nil {
		return fmt.Errorf("finding the first document of %s: %w", day, err)
	}
	late := 0 // documents in a row that are past
	err = store.Records(first, func(entry storage.Entry) error {
		if err := ctx.Err(); err != nil || !IsDocument(entry.State) {
			return err
		}
		h, err := DecodeHead(entry)
		if err != nil {
			return err
		}
		if !past(h) {
			late = 0
			return fn(entry, h)
		}
		if late++; late > DateWindow {
			return ErrEnough
		}
		return nil
	})
	if errors.Is(err, ErrEnough) {
		return nil
	}
	return err
}

// dateAfter is the date of the first document above an id, "" when there is none.
func dateAfter(store *storage.Store, id uint64) (string, error) {
	for limit := 1; ; limit = min(8*limit, 512) { // other records lie between the documents
		entries, err := store.Page(id, limit)
		if err != nil || len(entries) == 0 {
			return "", err
		}
		for _, entry := range entries {
			if IsDocument(entry.State) {
				h, err := DecodeHead(entry)
				if err != nil {
					return "", err
				}
				return h.Date, nil
			}
			id = entry.ID
		}
	}
}
