// Package fairqueue shares scarce work among its callers: printing, long lists, large sales. Callers take turns; a
// caller with many requests waits for its own earlier work. An allowance limits each caller's work, so that sales keep
// most of the machine.
package fairqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Options of New; every field but Allowance is required.
type Options struct {
	Slots   int // how many requests may work at once
	Each    int // the most requests of one caller that may work at once
	Waiting int // the most waiting requests of one caller
	// Allowance limits the work of one caller. Zero: no limit.
	Allowance Allowance
	Now       func() time.Time
}

// Allowance is the work allowed to one caller. Burst is the work allowed at once. Share is the allowed part of a slot's
// time in the long run, for example 0.25.
type Allowance struct {
	Burst time.Duration
	Share float64
}

// House is the id of the program itself: neither the allowance nor Options.Waiting limits its requests.
const House = 0

// Busy is the error for a caller that has used up its allowance, or has too many waiting requests.
type Busy struct {
	Wait time.Duration // until the caller should ask again
}

func (b *Busy) Error() string { return fmt.Sprintf("the caller's share is used up for %v", b.Wait) }

// Queue gives turns to callers. It is safe for concurrent use.
type Queue struct {
	o Options

	mu    sync.Mutex
	free  int
	by    map[int64]*claim
	round []*claim // claims with waiting requests, the next claim first
}

type claim struct {
	id      int64
	working int
	waiting []chan struct{} // oldest first; closed when the turn comes
	covered time.Time       // when the caller's share of a slot will have paid for the work so far
}

// New returns an empty queue.
func New(o Options) *Queue {
	o.Allowance = cmp.Or(o.Allowance, Allowance{Burst: 1 << 62, Share: 1})
	return &Queue{o: o, free: o.Slots, by: make(map[int64]*claim)}
}

// Enter waits for a turn, and returns the function that ends the turn. All requests with one id share an allowance.
// Errors: *Busy if the id's allowance is used up or too many of its requests wait, or ctx's error.
func (q *Queue) Enter(ctx context.Context, id int64) (leave func(), err error) {
	q.mu.Lock()
	c := q.by[id]
	if c == nil {
		q.forget()
		c = &claim{id: id}
		q.by[id] = c
	}
	if err := q.refusal(c); err != nil {
		q.mu.Unlock()
		return nil, err
	}
	turn := make(chan struct{})
	if c.waiting = append(c.waiting, turn); len(c.waiting) == 1 {
		q.round = append(q.round, c)
	}
	q.next()
	q.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
		if q.withdraw(c, turn) { // otherwise the turn came at the same moment
			return nil, ctx.Err()
		}
	}
	began := q.o.Now()
	return sync.OnceFunc(func() { q.leave(c, q.o.Now().Sub(began)) }), nil
}

// Refusal returns the *Busy that Enter would return now, or nil, for callers that prepare expensive work before Enter.
func (q *Queue) Refusal(id int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.by[id]; c != nil {
		return q.refusal(c)
	}
	return nil
}

// refusal returns a *Busy if the caller of a claim may not wait now, otherwise nil. The caller holds mu.
func (q *Queue) refusal(c *claim) error {
	if c.id != House {
		burst := time.Duration(float64(q.o.Allowance.Burst) / q.o.Allowance.Share)
		if wait := max(0, c.covered.Sub(q.o.Now())) - burst; wait > 0 {
			return &Busy{wait} // until the work so far is within the allowance again
		}
	}
	if len(c.waiting) >= q.o.Waiting && c.id != House {
		return &Busy{time.Second}
	}
	return nil
}

// next gives free slots to the next callers in turn. The caller holds mu.
func (q *Queue) next() {
	for i := 0; q.free > 0 && i < len(q.round); {
		c := q.round[i]
		if c.working >= q.o.Each {
			i++
			continue
		}
		close(c.waiting[0])
		c.waiting = c.waiting[1:]
		c.working++
		q.free--
		q.round = slices.Delete(q.round, i, i+1)
		if len(c.waiting) > 0 {
			q.round = append(q.round, c)
		}
	}
}

// withdraw removes a waiting request. It returns false if the request's turn has come.
func (q *Queue) withdraw(c *claim, turn chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(c.waiting, turn)
	if i < 0 {
		return false
	}
	if c.waiting = slices.Delete(c.waiting, i, i+1); len(c.waiting) == 0 {
		q.round = slices.DeleteFunc(q.round, func(o *claim) bool { return o == c })
	}
	return true
}

func (q *Queue) leave(c *claim, worked time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.working--
	q.free++
	if now := q.o.Now(); c.covered.Before(now) {
		c.covered = now
	}
	worked = max(0, worked) // the clock may be set back
	c.covered = c.covered.Add(time.Duration(float64(worked) / q.o.Allowance.Share))
	q.next()
}

// forget, from 1,024 callers on, removes idle callers with a full allowance. The caller holds mu.
func (q *Queue) forget() {
	if len(q.by) < 1024 {
		return
	}
	now := q.o.Now()
	for id, c := range q.by {
		if c.working == 0 && len(c.waiting) == 0 && !now.Before(c.covered) {
			delete(q.by, id)
		}
	}
}

// Bell wakes one goroutine, which receives from it. Several rings before the goroutine receives count as one.
type Bell chan struct{}

// NewBell returns a bell that has not been rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring wakes the goroutine without waiting for it.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Sleep waits for d. It returns ctx's error if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Await waits until done is closed, for at most limit. If limit is 0 or less, as for most sales, it does not wait.
func Await(limit time.Duration, done <-chan struct{}) {
	if limit > 0 {
		select {
		case <-done:
		case <-time.After(limit):
		}
	}
}
