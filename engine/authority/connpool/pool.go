package connpool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// maxLife is the longest idle time of a connection; Link.life is shorter if the server closes connections earlier.
	maxLife = time.Minute
	minLife = 2 * time.Second
	// retryFirst is the pause between a failed connect and the next spare connection; it doubles up to retryMax.
	retryFirst = time.Second
	retryMax   = 15 * time.Second
	// stale is the age of a connect after which a new request starts another, because the first SYN may be lost.
	stale = time.Second
)

// ErrNotReady means that a request got no connection in time. Nothing was sent.
var ErrNotReady = errors.New("no connection is ready")

// conn is one connection of the pool: idle, or given to one request.
type conn struct {
	link   *Link
	wire   *http.ClientConn
	since  time.Time // idle since
	retire time.Time // when Run replaces the connection if it is still idle
	gone   bool      // no longer counted in Link.live
}

// roundTrip sends a request. The connection is free again when the answer has been read to its end.
func (c *conn) roundTrip(req *http.Request) (*http.Response, error) {
	c.link.note(false)
	resp, err := c.wire.RoundTrip(req)
	if err != nil {
		c.close()
		return nil, err
	}
	c.link.note(true)
	if resp.Body == http.NoBody {
		c.release()
	} else {
		resp.Body = &body{ReadCloser: resp.Body, conn: c}
	}
	return resp, nil
}

// release returns the connection to the pool if it can carry another request; otherwise it closes the connection.
func (c *conn) release() {
	if c.wire.Available() > 0 {
		c.link.put(c)
	} else {
		c.close()
	}
}

func (c *conn) close() {
	_ = c.wire.Close()
	c.link.forget(c)
}

// body is an answer's body. At its end, or when it is closed, the connection is released.
type body struct {
	io.ReadCloser
	conn *conn
	once sync.Once
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(b.conn.release)
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.conn.release)
	return err
}

// take returns an idle connection, or waits: up to patience, or longer if the server responds or ctx is from Patient.
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
	turn := make(chan *conn, 1)
	l.waiting = append(l.waiting, turn)
	if l.live == 0 {
		l.names.refresh(0) // for notReady: it must know whether the name server answers
	}
	l.fill(true)
	l.mu.Unlock()
	c, err := l.await(ctx, turn, began)
	result := "served"
	if err != nil {
		result = "failed"
		l.mu.Lock()
		l.starved = true
		l.mu.Unlock()
	}
	l.metrics.waits.WithLabelValues(result).Inc()
	return c, err
}

// await waits for a connection on the channel turn. The channel is closed when no connection is left or under way.
func (l *Link) await(ctx context.Context, turn chan *conn, began time.Time) (c *conn, err error) {
	var over <-chan time.Time
	if ctx.Value(patientKey{}) == nil {
		tick := time.NewTicker(patience)
		defer tick.Stop()
		over = tick.C
	}
	for err == nil {
		select {
		case c = <-turn:
			if c == nil {
				err = cmp.Or(l.unconnected(), ErrNotReady)
			}
			return c, err
		case <-over:
			if !l.mayComeFree() { // otherwise go on waiting: the server answers other requests
				err = l.notReady(ctx, time.Since(began))
			}
		case <-ctx.Done():
			err = l.notReady(ctx, time.Since(began))
		}
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, turn)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // a connection became free at the same moment
		if c = <-turn; c != nil {
			return c, nil
		}
	}
	return nil, err
}

// mayComeFree reports whether another request may soon free its connection: the server answers, or was asked just now.
func (l *Link) mayComeFree() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live > 0 && (time.Since(l.heard) < liveliness || time.Since(l.asked) < liveliness)
}

// note records that a request is sent or was answered.
func (l *Link) note(answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if answered {
		l.heard = time.Now()
	} else if !l.asked.After(l.heard) {
		l.asked = time.Now()
	}
}

// unconnected returns the error of the latest connect. await calls it when no connect is under way.
func (l *Link) unconnected() error {
	l.mu.Lock()
	err := l.failure
	l.mu.Unlock()
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return joinCauses(err, l.names.silent())
	}
	return err
}

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

// joinCauses adds the causes to err, on the same line; nil adds nothing.
func joinCauses(err error, causes ...error) error {
	for _, cause := range causes {
		if cause != nil {
			err = fmt.Errorf("%w; %w", err, cause)
		}
	}
	return err
}

// pop returns the connection used last, or nil. Without Run it closes connections idle too long. The caller holds mu.
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

// put gives a connection to the first waiting request, or keeps it for the next request.
func (l *Link) put(c *conn) {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		c.close()
		return
	case c.gone || c.wire.Err() != nil:
	case len(l.waiting) > 0:
		l.waiting[0] <- c
		l.waiting = l.waiting[1:]
	default:
		c.since = time.Now()
		// The connections retire one by one, so that the server does not close them all at once.
		c.retire = c.since.Add(l.life*3/5 + rand.N(l.life*2/5))
		l.idle = append(l.idle, c)
	}
	l.mu.Unlock()
	l.kick.Ring()
}

func (l *Link) forget(c *conn) {
	l.mu.Lock()
	if !c.gone {
		c.gone = true
		l.live--
	}
	if i := slices.Index(l.idle, c); i >= 0 { // the server closed the connection
		l.idle = slices.Delete(l.idle, i, i+1)
		l.learn(time.Since(c.since))
	}
	l.mu.Unlock()
	l.kick.Ring()
}

// learn shortens Link.life after the server closed a connection idle for a time (granted). The caller holds mu.
func (l *Link) learn(granted time.Duration) {
	if granted < l.life {
		l.life = max(granted*4/5, minLife)
	}
	if granted < minLife { // the server drops new connections: do not connect again at once
		l.postpone()
	}
}

// fill starts the connects that the waiting requests and the missing spare connections need. Soon after a failure, it
// starts them only for waiting requests, and only if demanded is set. The caller holds mu.
func (l *Link) fill(demanded bool) {
	now := time.Now()
	early := now.Before(l.retry)
	if l.closed || early && !demanded {
		return
	}
	want := len(l.waiting)
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

// connect makes and counts a connection, and watches it: the server may close it at any time.
func (l *Link) connect(ctx context.Context) (*conn, Steps, error) {
	made, steps, err := l.dial(ctx)
	if err != nil {
		return nil, steps, err
	}
	c := &conn{link: l, wire: made}
	l.mu.Lock()
	l.live++
	l.mu.Unlock()
	made.SetStateHook(func(*http.ClientConn) {
		if made.Err() != nil {
			l.forget(c)
		}
	})
	return c, steps, nil
}

// connectForPool makes one connection in the background. A waiting request may get another connection meanwhile.
func (l *Link) connectForPool() {
	c, _, err := l.connect(l.ctx)
	l.mu.Lock()
	l.dialing--
	if err != nil {
		l.failure, l.starved = err, true
		l.postpone()
		if l.live == 0 && l.dialing == 0 { // nothing is left to wait for
			for _, turn := range l.waiting {
				close(turn)
			}
			l.waiting = nil
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

// postpone delays the next connect for a spare connection. The delay grows with each failure. The caller holds mu.
func (l *Link) postpone() {
	pause := min(retryFirst<<min(l.failures, 10), retryMax)
	l.failures++
	l.retry = time.Now().Add(pause/2 + rand.N(pause/2)) // the branches do not connect all at once
}

// tend closes retired idle connections if enough fresh connections are ready. It returns the time until its next call.
func (l *Link) tend() time.Duration {
	now := time.Now()
	next := now.Add(time.Hour)
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
			l.life = min(l.life+l.life/10, maxLife) // the server allows this life, and may allow more
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

// Close ends the connects under way and closes the idle connections. A connection in use is closed after its answer.
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

func (l *Link) counts() (ready, busy, connecting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.idle), l.live - len(l.idle), l.dialing
}
