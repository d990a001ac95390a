package record

import (
	"errors"
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
