package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dted/health"
	"dtegate/engine/archive"
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
		if since := w.unsure(); since.IsZero() == asks || asks && !since.Equal(old) {
			t.Errorf("start %d asks since %v", start, since)
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
// that cannot be asked is asked again. If it answers and does not return one document, the pauses grow to an hour.
func TestWitness_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := &witness{done: make(chan struct{}), began: time.Now(), now: time.Now, last: time.Now().Add(-2 * standstill)}
		w.ask = func(ctx context.Context, _, _ time.Time) error {
			switch asked++; asked {
			case 1:
				time.Sleep(2 * askArchiveFor)
				return cmp.Or(ctx.Err(), errors.New("no answer"))
			case 2, 3, 4, 5, 6, 7, 8:
				return archive.ErrUnread
			}
			return nil
		}
		done := make(chan struct{})
		go func() { defer close(done); _ = w.run(context.Background(), func(string, ...any) {}) }()
		w.await()
		if took := time.Since(w.began); took != askArchiveFor {
			t.Errorf("the first sale waited %v", took)
		}
		w.await() // not again
		<-done
		if took := time.Since(w.began); asked != 9 || took != 2*askArchiveFor+(1+2+4+8+16+32+60+60)*time.Minute {
			t.Errorf("asked %d times, the last after %v", asked, took)
		}
	})
}

// TestWitness_LateClock: a box without a clock of its own starts with the time of its last activity. The archive is
// asked once a time server has set the clock, and a beat before the answer keeps the question. A long run is no reason.
func TestWitness_LateClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var behind atomic.Int64
		behind.Store(int64(72 * time.Hour))
		now := func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
		old, asked := now(), make(chan time.Time)
		w := &witness{done: make(chan struct{}), began: time.Now(), now: now, last: old}
		w.ask = func(_ context.Context, from, _ time.Time) error { asked <- from; return nil }
		ended := make(chan struct{})
		go func() { defer close(ended); _ = w.run(t.Context(), func(string, ...any) {}) }()
		w.await()
		if time.Sleep(2 * standstill); !w.unsure().IsZero() || time.Since(w.began) != 2*standstill {
			t.Errorf("unsure since %v, after %v", w.unsure(), time.Since(w.began))
		}
		behind.Store(0)
		if !w.unsure().Equal(old) {
			t.Errorf("a beat notes %v", w.unsure())
		}
		select {
		case from := <-asked:
			if !from.Equal(old) {
				t.Errorf("asked since %v", from)
			}
		case <-time.After(time.Minute):
			t.Fatal("not asked")
		}
		if <-ended; !w.unsure().IsZero() {
			t.Error("the archive has answered")
		}
	})
}

// TestWitness_EarlyClock: after a restoration, a clock from before the loss asks nothing. The right clock does.
func TestWitness_EarlyClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var behind atomic.Int64
		behind.Store(int64(365 * 24 * time.Hour))
		now := func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
		lost := storage.Gap{From: time.Now().Add(-72 * time.Hour), To: time.Now().Add(-time.Hour)}
		w := &witness{done: make(chan struct{}), began: time.Now(), now: now, last: lost.To, gaps: []storage.Gap{lost}}
		asked := make(chan time.Time, 2)
		w.ask = func(_ context.Context, _, to time.Time) error { asked <- to; return nil }
		ended := make(chan struct{})
		go func() { defer close(ended); _ = w.run(t.Context(), func(string, ...any) {}) }()
		w.await()
		if time.Sleep(time.Hour); !w.unsure().Equal(lost.From) {
			t.Errorf("a beat notes %v", w.unsure())
		}
		behind.Store(0)
		<-ended
		if to := <-asked; to.Before(lost.To) {
			t.Errorf("asked until %v, lost until %v", to, lost.To)
		}
	})
}
