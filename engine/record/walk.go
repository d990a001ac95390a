package record

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"dtegate/storage"
)

// DateWindow is how far the ids of two days may be mixed: requests that read the clock before midnight get their ids after
// others that read it later.
const DateWindow = 256

// ErrEnough ends a walk over records before its end.
var ErrEnough = errors.New("enough")

// FirstID returns an id behind which every document of a day, and of later ones, lies: binary search over ids.
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

// LastID returns an id up to which every document of the days before a day lies, of those that the store has now.
func LastID(store *storage.Store, day string) (uint64, error) {
	first, err := FirstID(store, day)
	return min(first+2*DateWindow, store.LastID()), err // FirstID lies a window before the first document of its day
}

// EachDocument calls fn for the documents from a day on, in the order of their ids, but for those that are past the time that is asked
// for. It ends behind DateWindow of these in a row, or when fn returns ErrEnough.
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
