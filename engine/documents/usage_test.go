package documents_test

import (
	"context"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/storage"
)

// After a crash the branch reads from the store what a token had stored today, as it was counted before: each sale and
// correction once, no repetition, nothing of another day.
func TestUsage(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		ctx := context.Background()
		counted := make(map[string]map[int64]int64)
		count := func(token int64, r *record.View) *record.View {
			day := dte.Date(b.Now())
			if counted[day] == nil {
				counted[day] = make(map[int64]int64)
			}
			counted[day][token] += r.Stored
			return r
		}
		list := enginetest.Late(b, 1) // today: refused, to be corrected
		count(1, list[0])
		for i, key := range []string{"a", "b", "a", "a"} {
			before := counted[dte.Date(b.Now())][1]
			count(1, b.Issue(enginetest.Sale(key, 100)))
			if added := counted[dte.Date(b.Now())][1] - before; (added > 0) != (i < 2) {
				t.Errorf("sale %d has %d bytes stored", i+1, added)
			}
		}
		other := sale2(2)
		count(2, b.Issue(other))
		for i := range 2 {
			correction := enginetest.Sale("", 900)
			correction.Caller.TokenID = 2 // another token than the sale's
			r, err := b.Engine.Correct(ctx, enginetest.CodeOf(list[0]), correction)
			if err != nil {
				t.Fatal(err)
			}
			if count(2, r); (r.Stored > 0) != (i == 0) {
				t.Errorf("correction %d has %d bytes stored", i+1, r.Stored)
			}
		}
		time.Sleep(23 * time.Hour)
		count(2, b.Issue(sale2(2)))
		b.Crash()
		before := b.Engine.Documents().StoredBefore(b.Now())
		count(2, b.Issue(sale2(2))) // after the start: the caller has counted it already
		counted[dte.Date(b.Now())][2] /= 2
		for day, want := range counted {
			got, err := before(ctx, day)
			if err != nil || len(got) != len(want) || got[1] != want[1] || got[2] != want[2] || want[1]+want[2] == 0 {
				t.Errorf("%s: %v, %v; want %v", day, got, err, want)
			}
		}
		if len(counted) != 2 {
			t.Errorf("%d days", len(counted))
		}
	})
}

// sale2 is a sale by another token, of the same size each time.
func sale2(token int64) engine.Request {
	r := enginetest.Sale("", 300)
	r.Caller.TokenID = token
	return r
}

// TestUsage_Before: what a token stored on a day counts up to the moment that was asked about: its sales, and its
// corrections of any day's sales.
func TestUsage_Before(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	now, day := w.Now(), dte.Date(w.Now())
	for n, h := range []record.Head{
		{Date: day, TokenID: 1, Bytes: 100},
		{Date: day, TokenID: 2, Bytes: 50, Corrections: []record.Correction{{TokenID: 3, Bytes: 10, At: now.Add(-1)},
			{TokenID: 3, Bytes: 7, At: now}, {TokenID: 3, Bytes: 5, At: now.AddDate(0, 0, -1)}}},
		{Date: dte.Date(now.AddDate(0, 0, -1)), TokenID: 1, Bytes: 1000, Corrections: []record.Correction{{TokenID: 1,
			Bytes: 3, At: now.Add(-time.Minute)}}},
	} {
		h.Document, h.Form, h.Total = "01", record.FormNormal, "1.00"
		head, err := json.Marshal(h)
		if err == nil {
			_, err = w.Store.Append(t.Context(), storage.Keys{Series: "s"}, storage.Draft{Code: storage.Code{byte(n + 1)},
				State: record.Accepted, Head: head, Days: h.Days()})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := w.Engine.Documents().StoredBefore(now)(t.Context(), day)
	if want := map[int64]int64{1: 103, 2: 50, 3: 10}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, want %v: %v", got, want, err)
	}
}
