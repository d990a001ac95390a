package main

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/storage"
)

func TestWitness_Reason(t *testing.T) {
	noon := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	restored := func(ago time.Duration) []storage.Gap {
		return []storage.Gap{{From: noon.Add(-ago - 3*day), To: noon.Add(-ago)}}
	}
	for name, c := range map[string]struct {
		gaps   []storage.Gap
		last   time.Time
		since  time.Duration // before now
		reason bool
	}{
		"a new store":    {},
		"a night":        {last: noon.Add(-12 * time.Hour), since: 12 * time.Hour},
		"a long weekend": {last: noon.Add(-3 * day), since: 3 * day, reason: true},
		"restored a moment ago": {gaps: restored(time.Minute), last: noon.Add(-time.Second), since: 3*day +
			time.Minute, reason: true},
		"restored two weeks ago": {gaps: restored(14 * day), last: noon.Add(-time.Second), since: time.Second},
	} {
		since, reason := unsureSince(c.gaps, c.last, noon)
		if reason != c.reason || !c.last.IsZero() && noon.Sub(since) != c.since {
			t.Errorf("%s: since %v, %v", name, noon.Sub(since), reason)
		}
	}
}

// The first sale waits for the archive's answer, no longer than askArchiveFor. The archive may take longer. An archive
// that cannot be asked is asked again.
func TestWitness_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := &witness{done: make(chan struct{}), began: time.Now(), now: time.Now, ask: func(ctx context.Context, _,
			_ time.Time) error {
			if asked++; asked == 1 {
				time.Sleep(2 * askArchiveFor)
				return cmp.Or(ctx.Err(), errors.New("no answer"))
			}
			return nil
		}}
		done := make(chan struct{})
		go func() { defer close(done); _ = w.run(context.Background(), func(string, ...any) {}) }()
		w.await()
		if took := time.Since(w.began); took != askArchiveFor {
			t.Errorf("the first sale waited %v", took)
		}
		w.await() // not again
		<-done
		if took := time.Since(w.began); asked != 2 || took != 2*askArchiveFor+time.Minute {
			t.Errorf("asked %d times, the last after %v", asked, took)
		}
	})
}
