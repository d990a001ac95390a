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
}

// Wrong tokens from one address: so many at once and one a second for long. A good token from there goes on being taken:
// one till's mistake stops no other behind the same address.
const wrongBurst = 60

// buckets are leaky buckets by name, each kept as the time at which it will be empty (GCRA).
type buckets struct {
	every time.Duration // what one costs
	burst int

	mu    sync.Mutex
	empty map[string]time.Time
}

func newBuckets(rate, burst int) *buckets {
	return &buckets{every: time.Second / time.Duration(rate), burst: burst, empty: make(map[string]time.Time)}
}

// take lets one more in, or returns how long to wait until there is room for it.
func (b *buckets) take(name string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.empty) > 10_000 { // names that are over
		for k, t := range b.empty {
			if t.Before(now) {
				delete(b.empty, k)
			}
		}
	}
	at := b.empty[name]
	if at.Before(now) {
		at = now
	}
	if wait := at.Add(b.every).Sub(now) - time.Duration(b.burst)*b.every; wait > 0 {
		return wait
	}
	b.empty[name] = at.Add(b.every)
	return 0
}

// What a caller without a good token may send behind its headers: nothing is read into memory for him.
const strangersBody = 1 // bytes; fasthttp takes 0 for its default

// bounded says, once a request's headers are there, how large its body may be and how long it may take.
func bounded(bodies *bodies, admit func(*fasthttp.RequestHeader) bool, most func(*fasthttp.RequestHeader) (int, time.Duration)) func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
	return func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
		if !admit(h) {
			return fasthttp.RequestConfig{MaxRequestBodySize: strangersBody}
		}
		size, long := most(h)
		announced := h.ContentLength()
		if announced < 0 { // in chunks
			announced = size
		}
		if announced <= size && !bodies.reserve(h, announced) {
			size = strangersBody
		}
		return fasthttp.RequestConfig{MaxRequestBodySize: size, ReadTimeout: long}
	}
}

// bodies bounds the memory of the large bodies that are on their way: fasthttp makes room for all of a body once it is
// announced, though it may never come.
type bodies struct {
	now func() time.Time

	mu   sync.Mutex
	left int                                     // bytes
	held map[*fasthttp.RequestHeader]reservation // by the request's header, which outlives the reading of its body
}

type reservation struct {
	bytes int
	since time.Time
}

const (
	bodiesBudget = 64 << 20        // bytes on a listener: 64 of a till's largest, 4 of the largest bundles
	smallBody    = 32 << 10        // bytes that nobody counts: a sale of a hundred lines
	bodyLife     = 5 * time.Minute // longer than any request takes
)

func newBodies(now func() time.Time) *bodies {
	return &bodies{now: now, left: bodiesBudget, held: make(map[*fasthttp.RequestHeader]reservation)}
}

// reserve makes room for a body, or says that there is none.
func (b *bodies) reserve(h *fasthttp.RequestHeader, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(h)
	if n <= smallBody {
		return true
	}
	if n > b.left { // of a connection that broke in between fasthttp tells nobody
		for other, r := range b.held {
			if b.now().Sub(r.since) > bodyLife {
				b.free(other)
			}
		}
	}
	if n > b.left {
		return false
	}
	b.left -= n
	b.held[h] = reservation{n, b.now()}
	return true
}

// release gives the room back once the request is answered.
func (b *bodies) release(h *fasthttp.RequestHeader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(h)
}

func (b *bodies) free(h *fasthttp.RequestHeader) {
	b.left += b.held[h].bytes
	delete(b.held, h)
}

// released is a handler whose body is done with when it returns.
func (b *bodies) released(h fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer b.release(&ctx.Request.Header)
		h(ctx)
	}
}

func tooMany(wait time.Duration, message string) error {
	return &Problem{Status: fasthttp.StatusTooManyRequests, Type: "RATE_LIMITED", RetryAfter: wait, Message: message}
}
