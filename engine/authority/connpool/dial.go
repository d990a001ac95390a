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
	"net/url"
	"sync"
	"time"
)

// dialer makes connections, and owns none.
type dialer struct {
	options   Options
	scheme    string
	address   string // host:port
	names     *names
	transport *http.Transport
	metrics   *metrics
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
}

func newDialer(o Options) *dialer {
	d := &dialer{options: o, metrics: newMetrics()}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	host, port := "", ""
	if u, err := url.Parse(o.URL); err == nil {
		d.scheme, host, port = u.Scheme, u.Hostname(), u.Port()
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[d.scheme]
	}
	d.address = net.JoinHostPort(host, port)
	d.names = newNames(host, d)
	config := o.TLS.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	if config.ClientSessionCache == nil {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(0) // the second handshake is a round trip shorter
	}
	d.transport = &http.Transport{DialContext: d.socket, TLSClientConfig: config, DisableCompression: true, Protocols: new(http.Protocols)}
	d.transport.Protocols.SetHTTP1(true) // one connection bears one request: a lost packet of one sale delays no other
	return d
}

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
func (d *dialer) dial(ctx context.Context) (*http.ClientConn, Steps, error) {
	ctx, cancel := context.WithTimeout(ctx, d.options.ConnectTimeout)
	defer cancel()
	var (
		s  = Steps{Failed: "lookup"}
		at time.Time
		mu sync.Mutex // a handshake that was given up may still report
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
	made, err := d.transport.NewClientConn(ctx, d.scheme, d.address)
	mu.Lock()
	defer mu.Unlock()
	if err == nil {
		s.Failed = ""
	}
	d.metrics.connected(&s)
	if err != nil {
		return nil, s, fmt.Errorf("connecting to %s (%s): %w", d.address, s.Failed, err)
	}
	return made, s, nil
}

// socket is the transport's way to a socket.
func (d *dialer) socket(ctx context.Context, network, address string) (net.Conn, error) {
	s, _ := ctx.Value(stepsKey{}).(*Steps)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	addresses, err := d.names.get(ctx)
	s.Lookup = time.Since(began)
	if err != nil {
		return nil, err
	}
	s.Failed, began = "tcp", time.Now()
	c, to, err := d.race(ctx, network, port, addresses)
	s.TCP = time.Since(began)
	if err != nil {
		return nil, err
	}
	s.Address, s.Failed = to, ""
	d.names.prefer(to.Addr())
	return c, nil
}

// headStart is how long an address is tried alone, before the next one is tried beside it (RFC 8305).
const headStart = time.Second

// race connects to the first of the addresses that lets it.
func (d *dialer) race(ctx context.Context, network, port string, addresses []netip.Addr) (net.Conn, netip.AddrPort, error) {
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
			c, err := d.options.Dial(ctx, network, text)
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
	pool   *pool
	wire   *http.ClientConn
	since  time.Time // idle since
	retire time.Time // when it is replaced, if still idle
	gone   bool      // it is counted no more
}

// newConn counts a connection that was made, and watches it: the server may close it at any time.
func newConn(p *pool, made *http.ClientConn) *conn {
	c := &conn{pool: p, wire: made}
	p.mu.Lock()
	p.live++
	p.mu.Unlock()
	made.SetStateHook(func(*http.ClientConn) {
		if made.Err() != nil {
			p.forget(c)
		}
	})
	return c
}

// roundTrip sends a request. The connection is free again when the answer was read to its end.
func (c *conn) roundTrip(req *http.Request) (*http.Response, error) {
	c.pool.question()
	resp, err := c.wire.RoundTrip(req)
	if err != nil {
		c.close()
		return nil, err
	}
	c.pool.sign()
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
		c.pool.put(c)
	} else {
		c.close()
	}
}

func (c *conn) close() {
	_ = c.wire.Close()
	c.pool.forget(c)
}

// body is an answer's body. Read to its end it frees its connection, closed earlier it ends it.
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
