package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dted/health"
	"dtegate/storage"
	"dtegate/storage/disktest"
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

// TestWitness_Unanswered: a start that gets no answer from the archive leaves its question to the next start, although
// the store was active in between.
func TestWitness_Unanswered(t *testing.T) {
	noon := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	old := noon.Add(-72 * time.Hour)
	now := func() time.Time { return noon }
	o := storage.Options{Dir: "data", MarkPath: "mark", FS: disktest.New(disktest.Strict), Now: now}
	err := storage.Create(o)
	if err != nil {
		t.Fatal(err)
	}
	d := new(daemon)
	if d.store, err = storage.Open(o); err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.store.Beat(old, time.Time{}); err != nil {
		t.Fatal(err)
	}
	for start, asks := range []bool{true, true, false} {
		g := new(health.Gate)
		if err := g.Guard(d.store, now, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		w, err := newWitness(d, nil, g.Stored, true, now)
		if err != nil {
			t.Fatal(err)
		}
		if (w.ask != nil) != asks || asks && !w.since.Equal(old) {
			t.Errorf("start %d asks %v, since %v", start, w.ask != nil, w.since)
		}
		if start == 1 {
			w.ask = func(context.Context, time.Time, time.Time) error { return nil }
			if err := w.run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.store.Beat(noon, w.unsure()); err != nil {
			t.Fatal(err)
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
