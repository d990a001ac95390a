package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dtegate/storage"
)

// TestEachDocument: of documents whose days are mixed as far as DateWindow allows, and other records between them, a walk over any
// days reads those of the days, all of them, once, in order; and LastID lies behind them.
func TestEachDocument(t *testing.T) {
	dir := t.TempDir()
	o := storage.Options{Dir: filepath.Join(dir, "data"), MarkPath: filepath.Join(dir, "mark"), Logger: slog.New(slog.DiscardHandler), Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	days := []string{"2026-11-01", "2026-11-02", "2026-11-04", "2026-11-05"} // no sale on the third
	const sales = 2*DateWindow + 40                                          // a day
	r, n := rand.New(rand.NewPCG(1, 2)), 0
	type document struct {
		id   uint64
		date string
	}
	var all []document
	put := func(state storage.State, date string) {
		t.Helper()
		n++
		head, err := json.Marshal(map[string]any{"document": "01", "date": date, "total": "1.00"})
		if err != nil {
			t.Fatal(err)
		}
		code := storage.Code{0: byte(n >> 8), 1: byte(n), 6: 0x40, 8: 0x80}
		entry, err := store.Append(t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: code, State: state, Head: head})
		if err != nil {
			t.Fatal(err)
		}
		if IsDocument(state) {
			all = append(all, document{entry.ID, date})
		}
	}
	for i, day := range days {
		for k := range sales {
			date := day
			switch { // the last of a day are stored as late as may be, behind the first of the next
			case i == 2 && k == DateWindow-1:
				date = days[1]
			case i%2 == 1 && k < DateWindow:
				date = days[i-r.IntN(2)]
			case k >= DateWindow && r.IntN(8) == 0:
				put(LotDone, day)
			}
			put(Accepted, date)
		}
	}
	for from := range days {
		for to := from; to < len(days); to++ {
			name := fmt.Sprintf("%s to %s", days[from], days[to])
			var want, got []uint64
			for _, d := range all {
				if d.date >= days[from] && d.date <= days[to] {
					want = append(want, d.id)
				}
			}
			walked := 0
			err := EachDocument(t.Context(), store, days[from], func(h *Head) bool { return h.Date > days[to] }, func(e storage.Entry, h *Head) error {
				if walked++; h.Date >= days[from] {
					got = append(got, e.ID)
				}
				return nil
			})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %d documents, want %d: %v", name, len(got), len(want), err)
			}
			if walked > len(want)+3*DateWindow {
				t.Errorf("%s: %d documents are read for %d", name, walked, len(want))
			}
			if end, err := LastID(store, days[to]+"x"); err != nil || end < want[len(want)-1] || end > store.LastID() {
				t.Errorf("%s: they end at %d, the last is %d: %v", name, end, want[len(want)-1], err)
			}
		}
	}
	seen := 0
	err = EachDocument(t.Context(), store, days[0], func(*Head) bool { return false }, func(storage.Entry, *Head) error {
		if seen++; seen == 3 {
			return ErrEnough
		}
		return nil
	})
	if err != nil || seen != 3 {
		t.Errorf("a walk that has enough goes on: %d, %v", seen, err)
	}
	broken := errors.New("broken")
	if err := EachDocument(t.Context(), store, days[0], func(*Head) bool { return false }, func(storage.Entry, *Head) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a walk that fails: %v", err)
	}
}
