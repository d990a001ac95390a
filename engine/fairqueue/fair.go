// Package fairqueue shares scarce work among its callers: printing, long lists, large sales. Callers take turns; a
// caller that asks for much waits for its own earlier work. Each caller has an allowance of work; the rest of the
// machine is left to the sales.
package fairqueue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Options of New; every field but Allowance is required.
type Options struct {
	Slots   int // that work at once
	Each    int // the most of these that one caller may hold
	Waiting int // the most callers of one id that wait
	// Allowance bounds how much one caller may work. Zero: without bound.
	Allowance Allowance
	Now       func() time.Time
}

// Allowance is how much one id may work: Burst at once, and in the long run Share of a slot's time (0.25: a quarter).
type Allowance struct {
	Burst time.Duration
	Share float64
}

// House is the id of the program's own work. It takes turns like the others, but has no allowance and no limit on how
// many wait.
const House = 0

// Busy is the error for a caller that asked for too much.
type Busy struct {
	Wait time.Duration // when to ask again
}

func (b *Busy) Error() string { return fmt.Sprintf("its share is used up for %v", b.Wait) }

// Queue gives out the turns. It is safe for concurrent use.
type Queue struct {
	o Options

	mu    sync.Mutex
	free  int
	by    map[int64]*claim
	round []*claim // claims with waiting callers, the next one first
}

// claim is the state of one caller.
type claim struct {
	who     int64
	working int
	waiting []chan struct{} // oldest first; closed when the turn comes
	debt    time.Time       // when its work so far will be paid off
}

// New returns a queue without any work in it.
func New(o Options) *Queue { return &Queue{o: o, free: o.Slots, by: make(map[int64]*claim)} }

// Enter waits for a turn of who, an id that the caller chooses, and returns the function that ends the turn. Errors:
// *Busy if too many requests of who wait already, or if its allowance is used up; ctx's error if ctx ends first.
func (q *Queue) Enter(ctx context.Context, who int64) (leave func(), err error) {
	q.mu.Lock()
	c := q.by[who]
	if c == nil {
		q.forget()
		c = &claim{who: who}
		q.by[who] = c
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
		if q.withdraw(c, turn) {
			return nil, ctx.Err()
		}
		<-turn // it came at the same moment
	}
	began := q.o.Now()
	return sync.OnceFunc(func() { q.leave(c, q.o.Now().Sub(began)) }), nil
}

// Refusal returns the *Busy that Enter would return for who now, nil for none. It is for callers with expensive
// preparations. It takes no turn and promises none.
func (q *Queue) Refusal(who int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.by[who]; c != nil {
		return q.refusal(c)
	}
	return nil
}

// refusal returns the *Busy of a claimant that asks for too much, nil for none. The caller holds mu.
func (q *Queue) refusal(c *claim) error {
	if wait := q.owed(c); wait > 0 {
		return &Busy{wait}
	}
	if len(c.waiting) >= q.o.Waiting && c.who != House {
		return &Busy{time.Second}
	}
	return nil
}

// owed returns how long a claimant must wait until its work is within its allowance again.
func (q *Queue) owed(c *claim) time.Duration {
	if q.o.Allowance == (Allowance{}) || c.who == House {
		return 0
	}
	return max(0, c.debt.Sub(q.o.Now())) - time.Duration(float64(q.o.Allowance.Burst)/q.o.Allowance.Share)
}

// next gives free slots to the claimants whose turn it is. The caller holds mu.
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
		i = 0
	}
}

// withdraw takes a waiting turn back; false if the turn has come.
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
	if a := q.o.Allowance; a != (Allowance{}) {
		if now := q.o.Now(); c.debt.Before(now) {
			c.debt = now
		}
		c.debt = c.debt.Add(time.Duration(float64(max(0, worked)) / a.Share)) // the clock may be set back
	}
	q.next()
}

// forget drops claimants that ask for nothing and owe nothing, when there are many. The caller holds mu.
func (q *Queue) forget() {
	if len(q.by) < 1024 {
		return
	}
	now := q.o.Now()
	for who, c := range q.by {
		if c.working == 0 && len(c.waiting) == 0 && !now.Before(c.debt) {
			delete(q.by, who)
		}
	}
}
