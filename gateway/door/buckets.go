package door

import (
	"sync"
	"time"
)

// Buckets are leaky buckets by name. Each is stored as the time at which it will be empty (GCRA).
type Buckets struct {
	every time.Duration // what one costs
	burst int

	mu    sync.Mutex
	empty map[string]time.Time
	swept int // how many names the last sweep left
}

// NewBuckets admits burst at once, and in the long run rate a second. Both are positive.
func NewBuckets(rate, burst int) *Buckets {
	return &Buckets{every: time.Second / time.Duration(rate), burst: burst, empty: make(map[string]time.Time)}
}

// Take admits one more and returns 0, or returns how long to wait until there is room.
func (b *Buckets) Take(name string, now time.Time) time.Duration { return b.TakeMany(name, 1, now) }

// TakeMany is Take for n at once, at most burst.
func (b *Buckets) TakeMany(name string, n int, now time.Time) time.Duration {
	cost := time.Duration(n) * b.every
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.empty) > max(10_000, 2*b.swept) { // names that are over
		for k, t := range b.empty {
			if t.Before(now) {
				delete(b.empty, k)
			}
		}
		b.swept = len(b.empty) // else many live names would be walked at each request
	}
	at := b.empty[name]
	if at.Before(now) {
		at = now
	}
	if wait := at.Add(cost).Sub(now) - time.Duration(b.burst)*b.every; wait > 0 {
		return wait
	}
	b.empty[name] = at.Add(cost)
	return 0
}
