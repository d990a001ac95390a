package record

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/storage"
)

func openStore(t *testing.T) *storage.Store {
	t.Helper()
	dir := t.TempDir()
	o := storage.Options{Dir: filepath.Join(dir, "data"), MarkPath: filepath.Join(dir, "mark"),
		Logger: slog.New(slog.DiscardHandler), Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// TestBetween: whatever the clock did between two sales, a walk over any days reads exactly the documents of those
// days, each once, by day and then by id.
func TestBetween(t *testing.T) {
	store := openStore(t)
	days := []string{"2026-11-01", "2026-11-02", "2026-11-03", "2026-11-04"}
	r, n := rand.New(rand.NewPCG(1, 2)), 0
	byDay := make(map[string][]uint64)
	put := func(state storage.State, h *Head) {
		t.Helper()
		n++
		head, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		code := storage.Code{0: byte(n >> 8), 1: byte(n), 6: 0x40, 8: 0x80}
		entry, err := store.Append(t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: code, State: state,
			Head: head, Days: h.Days()})
		if err != nil {
			t.Fatal(err)
		}
		if IsDocument(state) {
			byDay[h.Date] = append(byDay[h.Date], entry.ID)
		}
	}
	for range 40 { // times between which the clock is set
		day := days[r.IntN(len(days))]
		for range r.IntN(2 * walkChunk / 8) {
			h := &Head{Document: "01", Date: day, Total: "1.00"}
			if r.IntN(8) == 0 {
				at, _ := time.ParseInLocation(time.DateOnly, days[r.IntN(len(days))], dte.Zone)
				h.Invalidation, h.Corrections = &Invalidation{At: at}, []Correction{{At: at}, {At: at.AddDate(0, 0, 1)}}
			}
			put([]storage.State{Accepted, LotDone}[r.IntN(9)/8], h)
		}
	}
	for from := range days {
		for to := from; to < len(days); to++ {
			var want, got []uint64
			for _, day := range days[from : to+1] {
				want = append(want, byDay[day]...)
			}
			for d, err := range Between(t.Context(), store, days[from], days[to]) {
				if got = append(got, d.ID); err != nil {
					t.Error(err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s to %s: %d documents, want %d", days[from], days[to], len(got), len(want))
			}
		}
	}
	seen := 0
	for range Between(t.Context(), store, days[0], days[3]) {
		if seen++; seen == 3 {
			break
		}
	}
	if seen != 3 {
		t.Errorf("a walk that has enough goes on: %d", seen)
	}
	for from, ended := range map[string]bool{days[0]: true, "yesterday": false} {
		ctx, end := context.WithCancel(t.Context())
		if end(); !ended {
			ctx = t.Context()
		}
		var last error
		for _, err := range Between(ctx, store, from, days[3]) {
			if last != nil {
				t.Errorf("from %s: a walk that has failed goes on", from)
			}
			last = err
		}
		if last == nil || ended != errors.Is(last, context.Canceled) {
			t.Errorf("from %s: a walk that fails: %v", from, last)
		}
	}
}

// TestParty: a donation names its two sides by their roles.
func TestParty(t *testing.T) {
	d, err := dte.Parse([]byte(`{"donatario":{"nombre":"a"},"donante":{"nombre":"b"},"documento":{"nombre":"c"}}`))
	if err != nil || IssuerOf(d).Get("nombre").Text() != "a" || Party(d).Get("nombre").Text() != "b" {
		t.Errorf("%s %s %v", IssuerOf(d).Append(nil), Party(d).Append(nil), err)
	}
}
