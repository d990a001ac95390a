package gateway

import (
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Limits is how much a token may ask.
type Limits struct {
	Rate  int // requests a second for long, default 50
	Burst int // at once, default 200
	// Large is how many bytes a second of bodies over 32 KiB a token may send for sales, for long; eight times as many at
	// once. Default 1 MiB: a sale of 2,000 lines each second.
	Large int64
	// Daily is how many bytes a token may have stored in a day of El Salvador, default 1 GiB.
	Daily int64
}

// Wrong tokens from one address: so many at once and one a second for long. A good token from there goes on being taken:
// one till's mistake stops no other behind the same address.
const wrongBurst = 60

// What takes no token (/docs, /openapi.json, a link to a PDF): requests a second for long and at once, from one network.
const (
	strangersRate  = 5
	strangersBurst = 40
)

// buckets are leaky buckets by name, each kept as the time at which it will be empty (GCRA).
type buckets struct {
	every time.Duration // what one costs
	burst int

	mu    sync.Mutex
	empty map[string]time.Time
	swept int // how many names the last sweep left
}

func newBuckets(rate, burst int) *buckets {
	return &buckets{every: time.Second / time.Duration(rate), burst: burst, empty: make(map[string]time.Time)}
}

// take lets one more in, or returns how long to wait until there is room for it.
func (b *buckets) take(name string, now time.Time) time.Duration { return b.takeMany(name, 1, now) }

// takeMany is take for n at once, at most burst.
func (b *buckets) takeMany(name string, n int, now time.Time) time.Duration {
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

func tooMany(wait time.Duration, message string) error {
	return &Problem{Status: fasthttp.StatusTooManyRequests, Type: "RATE_LIMITED", RetryAfter: wait, Message: message}
}
