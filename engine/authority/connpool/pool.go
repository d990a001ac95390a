package connpool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// waiter is a request that waits for a connection. One of its channels, each of capacity 1, gets one value.
type waiter struct {
	got    chan *conn
	failed chan error
}

// pool keeps the connections to the server: it gives each waiting request one, makes them beside the requests, and keeps spare ones.
type pool struct {
	*dialer
	ready chan struct{}
	kick  chan struct{} // Run looks again

	mu       sync.Mutex // guards what follows
	idle     []*conn    // the latest used last
	live     int        // connections that are open, idle or busy
	dialing  int
	waiters  []*waiter
	running  bool
	closed   bool
	heard    time.Time     // the latest answer or handshake
	asked    time.Time     // the first request since heard
	failure  error         // of the latest connect, nil after a success
	failures int           // connects that failed in a row
	dialled  time.Time     // when the latest connect began
	retry    time.Time     // no connect for a spare begins before
	life     time.Duration // how long a connection may be idle
	starved  bool          // a request found no connection since Ready last got a value
}

const (
	// maxLife is how long a connection is left idle at most. A server that closes earlier teaches a shorter life.
	maxLife = time.Minute
	minLife = 2 * time.Second
	// retryFirst is the time from a connect that failed to the next one for a spare; it doubles up to retryMax.
	retryFirst = time.Second
	retryMax   = 15 * time.Second
	// stale is the age at which a connect that is still under way is not relied on alone: its SYN may be lost.
	stale = time.Second
)

// ErrNotReady means that a request found no connection in its time. Nothing was sent.
var ErrNotReady = errors.New("no connection is ready")

// reasons are several causes of one failure, on one line.
type reasons []error

func (r reasons) Error() string {
	texts := make([]string, len(r))
	for i, err := range r {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (r reasons) Unwrap() []error { return r }

// joinCauses puts the causes together that there are.
func joinCauses(causes ...error) error {
	causes = slices.DeleteFunc(causes, func(err error) bool { return err == nil })
	if len(causes) == 1 {
		return causes[0]
	}
	return reasons(causes)
}

// take returns an idle connection, or waits for one: for Wait, and longer only while the server gives signs of life.
func (p *pool) take(ctx context.Context) (*conn, error) {
	began := time.Now()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, net.ErrClosed
	}
	if c := p.pop(); c != nil {
		p.fill(false)
		p.mu.Unlock()
		return c, nil
	}
	w := &waiter{make(chan *conn, 1), make(chan error, 1)}
	p.waiters = append(p.waiters, w)
	if p.live == 0 {
		p.names.refresh(0) // whether the name server answers tells whose trouble it is
	}
	p.fill(true)
	p.mu.Unlock()
	c, err := p.await(ctx, w, began)
	result := "served"
	if err != nil {
		result = "failed"
	}
	p.metrics.waits.WithLabelValues(result).Inc()
	return c, err
}

func (p *pool) await(ctx context.Context, w *waiter, began time.Time) (*conn, error) {
	for patient := ctx.Value(patientKey{}) != nil; ; {
		var over <-chan time.Time
		if !patient {
			over = time.After(p.options.Wait)
		}
		select {
		case c := <-w.got:
			return c, nil
		case err := <-w.failed:
			return nil, err
		case <-over:
			if p.mayComeFree() {
				continue // others are answered: it is a matter of turns
			}
		case <-ctx.Done():
		}
		if c := p.desist(w); c != nil {
			return c, nil // it came in this moment
		}
		return nil, p.notReady(ctx, time.Since(began))
	}
}

// mayComeFree tells that a connection may become free: others are asking, and the server does not leave them without any answer.
func (p *pool) mayComeFree() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live > 0 && (time.Since(p.heard) < liveliness || time.Since(p.asked) < liveliness)
}

// question notes that a request is sent.
func (p *pool) question() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked.After(p.heard) {
		p.asked = time.Now()
	}
}

// sign notes a sign of life.
func (p *pool) sign() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
}

// notReady says why a request found no connection.
func (p *pool) notReady(ctx context.Context, waited time.Duration) error {
	p.mu.Lock()
	live, failure := p.live, p.failure
	p.mu.Unlock()
	err := fmt.Errorf("%w after %v", ErrNotReady, waited.Round(time.Millisecond))
	if live > 0 {
		return joinCauses(err, ctx.Err())
	}
	return joinCauses(err, failure, p.names.silent(), ctx.Err())
}

// desist takes a waiter off the list. A connection that came meanwhile is returned.
func (p *pool) desist(w *waiter) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiters, w); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
	}
	select {
	case c := <-w.got:
		return c
	default:
		p.starved = true
		return nil
	}
}

// pop takes the connection that was used last. Without Run, those that have been idle for too long are dropped here. The
// caller holds mu.
func (p *pool) pop() *conn {
	for len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if c.wire.Err() == nil && (p.running || time.Now().Before(c.retire)) {
			return c
		}
		go c.close()
	}
	return nil
}

// put gives a connection to the first waiter, or keeps it.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	switch {
	case p.closed:
		p.mu.Unlock()
		c.close()
		return
	case c.gone:
	case len(p.waiters) > 0:
		p.waiters[0].got <- c
		p.waiters = p.waiters[1:]
	default:
		c.since = time.Now()
		// The connections retire one after the other, so that the server never closes all of them at once.
		c.retire = c.since.Add(p.life*3/5 + rand.N(p.life*2/5))
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	ring(p.kick)
}

// forget takes a connection that is closed off the books.
func (p *pool) forget(c *conn) {
	p.mu.Lock()
	if !c.gone {
		c.gone = true
		p.live--
	}
	if i := slices.Index(p.idle, c); i >= 0 { // the server closed it
		p.idle = slices.Delete(p.idle, i, i+1)
		p.learn(time.Since(c.since))
	}
	p.mu.Unlock()
	ring(p.kick)
}

// learn shortens the life of idle connections below what the server grants. The caller holds mu.
func (p *pool) learn(granted time.Duration) {
	if granted < p.life {
		p.life = max(granted*4/5, minLife)
	}
	if granted < minLife { // a server that takes connections and drops them is not asked for another at once
		p.postpone()
	}
}

// fill starts as many connects as there are waiters and missing spares. A waiter that has just come demands one also soon
// after a failure. The caller holds mu.
func (p *pool) fill(demanded bool) {
	now := time.Now()
	early := now.Before(p.retry)
	if p.closed || early && !demanded {
		return
	}
	want := len(p.waiters)
	if p.running && !early {
		want += p.options.Spare - p.fresh(now)
	}
	if demanded && p.live == 0 && now.Sub(p.dialled) > stale {
		want = max(want, p.dialing+1)
	}
	for range min(want-p.dialing, maxConnections-p.live-p.dialing) {
		p.dialing++
		p.dialled = now
		go p.make()
	}
}

// fresh is how many idle connections need no replacement yet. The caller holds mu.
func (p *pool) fresh(now time.Time) (n int) {
	for _, c := range p.idle {
		if now.Before(c.retire) {
			n++
		}
	}
	return n
}

// connect makes a connection and counts it.
func (p *pool) connect(ctx context.Context) (*conn, Steps, error) {
	made, steps, err := p.dial(ctx)
	if err != nil {
		return nil, steps, err
	}
	return newConn(p, made), steps, nil
}

// make makes one connection beside the requests.
func (p *pool) make() {
	c, _, err := p.connect(p.ctx)
	p.mu.Lock()
	p.dialing--
	if err != nil {
		p.failure, p.starved = err, true
		p.postpone()
		if p.live == 0 && p.dialing == 0 { // nothing is left to wait for
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				err = joinCauses(err, p.names.silent())
			}
			for _, w := range p.waiters {
				w.failed <- err
			}
			p.waiters = nil
		}
		p.mu.Unlock()
		ring(p.kick)
		return
	}
	p.failure, p.failures, p.retry, p.heard = nil, 0, time.Time{}, time.Now()
	if p.starved {
		p.starved = false
		defer ring(p.ready)
	}
	p.mu.Unlock()
	p.put(c)
}

// postpone puts the next connect for a spare off, ever longer. The caller holds mu.
func (p *pool) postpone() {
	pause := min(retryFirst<<min(p.failures, 10), retryMax)
	p.failures++
	p.retry = time.Now().Add(pause/2 + rand.N(pause/2)) // not all branches at once
}

// tend replaces the connections that have been idle for their life, and returns when to look again.
func (p *pool) tend() time.Duration {
	now := time.Now()
	next := p.names.due()
	p.mu.Lock()
	p.fill(false)
	var old []*conn
	if p.fresh(now) >= p.options.Spare {
		p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
			retired := !now.Before(c.retire)
			if retired {
				old = append(old, c)
			}
			return retired
		})
		if old != nil {
			p.life = min(p.life+p.life/10, maxLife) // the server grants that much, and may grant more
		}
	} else if p.dialing == 0 && now.Before(p.retry) && p.retry.Before(next) {
		next = p.retry
	}
	for _, c := range p.idle {
		if now.Before(c.retire) && c.retire.Before(next) {
			next = c.retire
		}
	}
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
	return max(next.Sub(now), 10*time.Millisecond)
}

// begin has the pool keep spare connections.
func (p *pool) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = true
}

// close ends what waits idle; what is in use is closed when its answer has come.
func (p *pool) close() {
	p.mu.Lock()
	p.closed, p.running = true, false
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	p.cancel()
	for _, c := range idle {
		c.close()
	}
}

// counts returns how many connections are idle, in use and being made.
func (p *pool) counts() (ready, busy, connecting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle), p.live - len(p.idle), p.dialing
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
