package engine

import (
	"context"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
)

// After a crash the branch reads from the store what a token had stored today, as it was counted before: each sale and
// correction once, no repetition, nothing of another day.
func TestUsage(t *testing.T) {
	inBubble(t, func(b *box) {
		ctx := context.Background()
		counted := make(map[string]map[int64]int64)
		count := func(token int64, r *record.View) *record.View {
			day := dte.Date(b.now())
			if counted[day] == nil {
				counted[day] = make(map[int64]int64)
			}
			counted[day][token] += r.Stored
			return r
		}
		list := late(b, 1) // today: refused, to be corrected
		count(1, list[0])
		for i, key := range []string{"a", "b", "a", "a"} {
			before := counted[dte.Date(b.now())][1]
			count(1, b.issue(sale(key, 100)))
			if added := counted[dte.Date(b.now())][1] - before; (added > 0) != (i < 2) {
				t.Errorf("sale %d has %d bytes stored", i+1, added)
			}
		}
		other := sale2(2)
		count(2, b.issue(other))
		for i := range 2 {
			if r := count(1, b.correct(list[0].Code, 900)); (r.Stored > 0) != (i == 0) {
				t.Errorf("correction %d has %d bytes stored", i+1, r.Stored)
			}
		}
		time.Sleep(23 * time.Hour)
		count(2, b.issue(sale2(2)))
		b.crash()
		before := b.engine.Documents().StoredBefore(b.now())
		count(2, b.issue(sale2(2))) // after the start: the caller has counted it already
		counted[dte.Date(b.now())][2] /= 2
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
func sale2(token int64) Request {
	r := sale("", 300)
	r.Caller.TokenID = token
	return r
}
