package connpool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"
)

// waiter is a request that waits for a connection. One of its channels, each of capacity 1, gets one value.
type waiter struct {
	got    chan *conn
	failed chan error
}

const (
	// maxLife is how long a connection may be idle at most. The life becomes shorter if the server closes connections
	// earlier.
	maxLife = time.Minute
	minLife = 2 * time.Second
	// retryFirst is the time from a connect that failed to the next one for a spare; it doubles up to retryMax.
	retryFirst = time.Second
	retryMax   = 15 * time.Second
	// stale is the age of a connect that is no longer relied on alone: its SYN may be lost.
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

// joinCauses joins the causes that are not nil.
func joinCauses(causes ...error) error {
	causes = slices.DeleteFunc(causes, func(err error) bool { return err == nil })
	if len(causes) == 1 {
		return causes[0]
	}
	return reasons(causes)
}

// take returns an idle connection, or waits for one: for patience, and longer only while the server gives signs of
// life.
func (l *Link) take(ctx context.Context) (*conn, error) {
	began := time.Now()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, net.ErrClosed
	}
	if c := l.pop(); c != nil {
		l.fill(false)
		l.mu.Unlock()
		return c, nil
	}
	w := &waiter{make(chan *conn, 1), make(chan error, 1)}
	l.waiters = append(l.waiters, w)
	if l.live == 0 {
		l.names.refresh(0) // notReady names the name server if it does not answer either
	}
	l.fill(true)
	l.mu.Unlock()
	c, err := l.await(ctx, w, began)
	result := "served"
	if err != nil {
		result = "failed"
	}
	l.metrics.waits.WithLabelValues(result).Inc()
	return c, err
}

func (l *Link) await(ctx context.Context, w *waiter, began time.Time) (*conn, error) {
	for patient := ctx.Value(patientKey{}) != nil; ; {
		var over <-chan time.Time
		if !patient {
			over = time.After(patience)
		}
		select {
		case c := <-w.got:
			return c, nil
		case err := <-w.failed:
			return nil, err
		case <-over:
			if l.mayComeFree() {
				continue // other requests are answered: this one waits for its turn
			}
		case <-ctx.Done():
		}
		if c := l.desist(w); c != nil {
			return c, nil // it came at this moment
		}
		return nil, l.notReady(ctx, time.Since(began))
	}
}

// mayComeFree reports whether a connection may become free: other requests use connections, and the server answers.
func (l *Link) mayComeFree() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live > 0 && (time.Since(l.heard) < liveliness || time.Since(l.asked) < liveliness)
}

// noteRequest notes that a request is sent.
func (l *Link) noteRequest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked.After(l.heard) {
		l.asked = time.Now()
	}
}

// noteAnswer notes that the server answered.
func (l *Link) noteAnswer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = time.Now()
}

// notReady returns why a request found no connection.
func (l *Link) notReady(ctx context.Context, waited time.Duration) error {
	l.mu.Lock()
	live, failure := l.live, l.failure
	l.mu.Unlock()
	err := fmt.Errorf("%w after %v", ErrNotReady, waited.Round(time.Millisecond))
	if live > 0 {
		return joinCauses(err, ctx.Err())
	}
	return joinCauses(err, failure, l.names.silent(), ctx.Err())
}

// desist removes a waiter from the list. It returns a connection that came in the meantime.
func (l *Link) desist(w *waiter) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiters, w); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
	}
	select {
	case c := <-w.got:
		return c
	default:
		l.starved = true
		return nil
	}
}

// pop returns the connection that was used last. Without Run, it drops connections that have been idle for too long.
// The caller holds mu.
func (l *Link) pop() *conn {
	for len(l.idle) > 0 {
		c := l.idle[len(l.idle)-1]
		l.idle = l.idle[:len(l.idle)-1]
		if c.wire.Err() == nil && (l.running || time.Now().Before(c.retire)) {
			return c
		}
		go c.close()
	}
	return nil
}

// put gives a connection to the first waiter, or keeps it.
func (l *Link) put(c *conn) {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		c.close()
		return
	case c.gone:
	case len(l.waiters) > 0:
		l.waiters[0].got <- c
		l.waiters = l.waiters[1:]
	default:
		c.since = time.Now()
		// The connections retire one by one, so that the server never closes all of them at once.
		c.retire = c.since.Add(l.life*3/5 + rand.N(l.life*2/5))
		l.idle = append(l.idle, c)
	}
	l.mu.Unlock()
	l.kick.Ring()
}

// forget removes a closed connection from the counts.
func (l *Link) forget(c *conn) {
	l.mu.Lock()
	if !c.gone {
		c.gone = true
		l.live--
	}
	if i := slices.Index(l.idle, c); i >= 0 { // the server closed it
		l.idle = slices.Delete(l.idle, i, i+1)
		l.learn(time.Since(c.since))
	}
	l.mu.Unlock()
	l.kick.Ring()
}

// learn shortens the life of idle connections below the time that the server grants. The caller holds mu.
func (l *Link) learn(granted time.Duration) {
	if granted < l.life {
		l.life = max(granted*4/5, minLife)
	}
	if granted < minLife { // a server that drops new connections is not asked for another at once
		l.postpone()
	}
}

// fill starts as many connects as there are waiters and missing spares. A new waiter starts one also soon after a
// failure. The caller holds mu.
func (l *Link) fill(demanded bool) {
	now := time.Now()
	early := now.Before(l.retry)
	if l.closed || early && !demanded {
		return
	}
	want := len(l.waiters)
	if l.running && !early {
		want += spare - l.fresh(now)
	}
	if demanded && l.live == 0 && now.Sub(l.dialled) > stale {
		want = max(want, l.dialing+1)
	}
	for range min(want-l.dialing, maxConnections-l.live-l.dialing) {
		l.dialing++
		l.dialled = now
		go l.connectForPool()
	}
}

// fresh returns how many idle connections need no replacement yet. The caller holds mu.
func (l *Link) fresh(now time.Time) (n int) {
	for _, c := range l.idle {
		if now.Before(c.retire) {
			n++
		}
	}
	return n
}

// connect makes a connection and counts it.
func (l *Link) connect(ctx context.Context) (*conn, Steps, error) {
	made, steps, err := l.dial(ctx)
	if err != nil {
		return nil, steps, err
	}
	return newConn(l, made), steps, nil
}

// connectForPool makes one connection in the background: no request waits for it alone.
func (l *Link) connectForPool() {
	c, _, err := l.connect(l.ctx)
	l.mu.Lock()
	l.dialing--
	if err != nil {
		l.failure, l.starved = err, true
		l.postpone()
		if l.live == 0 && l.dialing == 0 { // the waiters have nothing left to wait for
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				err = joinCauses(err, l.names.silent())
			}
			for _, w := range l.waiters {
				w.failed <- err
			}
			l.waiters = nil
		}
		l.mu.Unlock()
		l.kick.Ring()
		return
	}
	l.failure, l.failures, l.retry, l.heard = nil, 0, time.Time{}, time.Now()
	if l.starved {
		l.starved = false
		defer l.ready.Ring()
	}
	l.mu.Unlock()
	l.put(c)
}

// postpone delays the next connect for a spare, longer after each failure. The caller holds mu.
func (l *Link) postpone() {
	pause := min(retryFirst<<min(l.failures, 10), retryMax)
	l.failures++
	l.retry = time.Now().Add(pause/2 + rand.N(pause/2)) // the branches do not connect all at once
}

// tend replaces the connections that have been idle for their life, and returns when to look again.
func (l *Link) tend() time.Duration {
	now := time.Now()
	next := l.names.due()
	l.mu.Lock()
	l.fill(false)
	var old []*conn
	if l.fresh(now) >= spare {
		l.idle = slices.DeleteFunc(l.idle, func(c *conn) bool {
			retired := !now.Before(c.retire)
			if retired {
				old = append(old, c)
			}
			return retired
		})
		if old != nil {
			l.life = min(l.life+l.life/10, maxLife) // the server grants this life, and may grant more
		}
	} else if l.dialing == 0 && now.Before(l.retry) && l.retry.Before(next) {
		next = l.retry
	}
	for _, c := range l.idle {
		if now.Before(c.retire) && c.retire.Before(next) {
			next = c.retire
		}
	}
	l.mu.Unlock()
	for _, c := range old {
		c.close()
	}
	return max(next.Sub(now), 10*time.Millisecond)
}

// startSpares has the link keep spare connections.
func (l *Link) startSpares() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = true
}

// Close ends what is being connected and closes what is idle. A connection in use is closed when its answer has come.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed, l.running = true, false
	idle := l.idle
	l.idle = nil
	l.mu.Unlock()
	l.cancel()
	for _, c := range idle {
		c.close()
	}
}

// counts returns how many connections are idle, in use and being made.
func (l *Link) counts() (ready, busy, connecting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.idle), l.live - len(l.idle), l.dialing
}
