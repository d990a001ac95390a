package outbox

import (
	"sync"
	"time"
)

// A server that does not take this box is left alone for a while, first one minute, at most five.
const (
	pauseFirst = time.Minute
	PauseMost  = 5 * time.Minute
)

// breaker is what is known of a server.
type breaker struct {
	mu      sync.Mutex
	failing bool
	until   time.Time // when it is tried again
	pause   time.Duration
	why     error
	turns   int
}

// leftAlone tells that the server is left alone now, and why.
func (b *breaker) leftAlone(now time.Time) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing && now.Before(b.until), b.why
}

// mayRetry reports whether it may be tried again.
func (b *breaker) mayRetry(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing && !now.Before(b.until)
}

// retryAt is when it is tried again, zero when nothing is wrong.
func (b *breaker) retryAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.failing {
		return time.Time{}
	}
	return b.until
}

func (b *breaker) reason() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// fail records that the server did not take this box. Attempts that were under way together count once.
func (b *breaker) fail(now time.Time, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing && now.Before(b.until) {
		return
	}
	b.pause = min(max(2*b.pause, pauseFirst), PauseMost)
	b.failing, b.until, b.why = true, now.Add(b.pause), why
}

// reset records that it did, or that nobody wants anything of it.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing, b.pause, b.why = false, 0, nil
}

// resume has everything that waits for the server tried now.
func (b *breaker) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing, b.until = true, time.Time{}
}

// turn counts 0, 1, … n-1, 0, ….
func (b *breaker) turn(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns++
	return b.turns % n
}
