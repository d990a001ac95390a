package outbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
)

// TestInParallel: however long a list is, a check asks the archive for a bounded number of files at once.
func TestInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := inParallel(t.Context(), func(_ context.Context, work *errgroup.Group) error {
			for range 3 * checkAtOnce {
				work.Go(func() error { time.Sleep(time.Second); return nil })
			}
			return nil
		}); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("%d files of a second each took %v: %v", 3*checkAtOnce, time.Since(began), err)
		}
	})
}

// A server that fails is left alone for one minute, then two, at most five. Attempts of one moment count once. A server
// that answers again is treated like one that never failed.
func TestBreaker(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	why := errors.New("away")
	var b breaker
	for _, pause := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, PauseMost, PauseMost} {
		b.fail(now, why)
		b.fail(now.Add(time.Second), why) // under way together with the first
		if open, told := b.leftAlone(now); !open || told != why ||
			!b.retryAt().Equal(now.Add(pause)) {
			t.Errorf("after a failure: open %v, %v, again %v, want %v", open, told, b.retryAt().Sub(now), pause)
		}
		now = now.Add(pause)
		if open, _ := b.leftAlone(now); open {
			t.Errorf("it is not ripe after %v", pause)
		}
	}
	b.reset()
	if open, told := b.leftAlone(now); open || told != nil || !b.retryAt().IsZero() {
		t.Errorf("after an answer: open %v, %v, again %v", open, told, b.retryAt())
	}
	if b.fail(now, why); !b.retryAt().Equal(now.Add(pauseFirst)) {
		t.Errorf("the next failure waits %v", b.retryAt().Sub(now))
	}
}
