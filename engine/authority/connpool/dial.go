package connpool

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"
)

// Steps says how long the making of a connection took. A step that was not needed or not reached is 0.
type Steps struct {
	Lookup, TCP, TLS time.Duration
	// Failed is the step that failed: "lookup", "tcp", "tls", or "" when the connection is there.
	Failed      string
	Address     netip.AddrPort      // where it went; zero before the look-up
	Certificate []*x509.Certificate // the server's chain; nil without TLS
}

type stepsKey struct{}

// dial makes one connection within the limit.
func (l *Link) dial(ctx context.Context) (*http.ClientConn, Steps, error) {
	ctx, cancel := context.WithTimeout(ctx, l.options.ConnectTimeout)
	defer cancel()
	var (
		s  = Steps{Failed: "lookup"}
		at time.Time
		mu sync.Mutex // an abandoned handshake may still report
	)
	ctx = httptrace.WithClientTrace(context.WithValue(ctx, stepsKey{}, &s), &httptrace.ClientTrace{
		TLSHandshakeStart: func() {
			mu.Lock()
			defer mu.Unlock()
			at, s.Failed = time.Now(), "tls"
		},
		TLSHandshakeDone: func(state tls.ConnectionState, _ error) {
			mu.Lock()
			defer mu.Unlock()
			s.TLS, s.Certificate = time.Since(at), state.PeerCertificates
		},
	})
	made, err := l.transport.NewClientConn(ctx, l.scheme, l.address)
	mu.Lock()
	defer mu.Unlock()
	if err == nil {
		s.Failed = ""
	}
	l.metrics.connected(&s)
	if err != nil {
		return nil, s, fmt.Errorf("connecting to %s (%s): %w", l.address, s.Failed, err)
	}
	return made, s, nil
}

// socket makes the transport's sockets.
func (l *Link) socket(ctx context.Context, network, address string) (net.Conn, error) {
	s, _ := ctx.Value(stepsKey{}).(*Steps)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	addresses, err := l.names.get(ctx)
	s.Lookup = time.Since(began)
	if err != nil {
		return nil, err
	}
	s.Failed, began = "tcp", time.Now()
	c, to, err := l.race(ctx, network, port, addresses)
	s.TCP = time.Since(began)
	if err != nil {
		return nil, err
	}
	s.Address, s.Failed = to, ""
	l.names.prefer(to.Addr())
	return c, nil
}

// headStart is how long an address is tried alone, before the next address is tried beside it (RFC 8305).
const headStart = time.Second

// race connects to the address that answers first.
func (l *Link) race(ctx context.Context, network, port string, addresses []netip.Addr) (net.Conn, netip.AddrPort,
	error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		conn net.Conn
		to   netip.AddrPort
		err  error
	}
	ends := make(chan end, len(addresses))
	started, ended := 0, 0
	start := func() {
		address := addresses[started]
		started++
		go func() {
			text := net.JoinHostPort(address.String(), port)
			c, err := l.options.Dial(ctx, network, text)
			to, _ := netip.ParseAddrPort(text)
			ends <- end{c, to, err}
		}()
	}
	start()
	var first error
	for {
		var next <-chan time.Time
		if started < len(addresses) {
			next = time.After(headStart)
		}
		select {
		case <-next:
			start()
		case e := <-ends:
			ended++
			if e.err == nil {
				go func() { // the losers
					for range started - ended {
						if e := <-ends; e.err == nil {
							_ = e.conn.Close()
						}
					}
				}()
				return e.conn, e.to, nil
			}
			if first == nil {
				first = e.err
			}
			switch {
			case started < len(addresses):
				start()
			case ended == started:
				return nil, netip.AddrPort{}, first
			}
		}
	}
}

// conn is one connection of the pool: idle, or given to one request.
type conn struct {
	link   *Link
	wire   *http.ClientConn
	since  time.Time // idle since
	retire time.Time // when it is replaced, if still idle
	gone   bool      // it is not counted any more
}

// newConn counts a new connection, and watches it: the server may close it at any time.
func newConn(l *Link, made *http.ClientConn) *conn {
	c := &conn{link: l, wire: made}
	l.mu.Lock()
	l.live++
	l.mu.Unlock()
	made.SetStateHook(func(*http.ClientConn) {
		if made.Err() != nil {
			l.forget(c)
		}
	})
	return c
}

// roundTrip sends a request. The connection is free again when the answer was read to its end.
func (c *conn) roundTrip(req *http.Request) (*http.Response, error) {
	c.link.noteRequest()
	resp, err := c.wire.RoundTrip(req)
	if err != nil {
		c.close()
		return nil, err
	}
	c.link.noteAnswer()
	if resp.Body == http.NoBody {
		c.release()
	} else {
		resp.Body = &body{ReadCloser: resp.Body, conn: c}
	}
	return resp, nil
}

// release gives the connection back, if it can bear another request.
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

// body is an answer's body. When it is read to its end, the connection is free again; when it is closed earlier, the
// connection ends.
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
