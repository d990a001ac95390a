package connpool

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"
)

// Steps holds how long each step of making a connection took. A step that was not needed or not reached is 0.
type Steps struct {
	Lookup, TCP, TLS time.Duration
	// Failed is the step that failed: "lookup", "tcp", "tls", or "" if the connection was made.
	Failed      string
	Certificate []*x509.Certificate // the server's chain; nil without TLS
}

type stepsKey struct{}

func (l *Link) dial(ctx context.Context) (*http.ClientConn, Steps, error) {
	ctx, cancel := context.WithTimeout(ctx, l.options.ConnectTimeout)
	defer cancel()
	var (
		s  = Steps{Failed: "lookup"}
		at time.Time
		mu sync.Mutex // guards s: an abandoned handshake may still write to s
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
	l.metrics.step("tcp", s.TCP, s.Failed == "tcp")
	l.metrics.step("tls", s.TLS, s.Failed == "tls")
	if err != nil {
		return nil, s, fmt.Errorf("connecting to %s (%s): %w", l.address, s.Failed, err)
	}
	return made, s, nil
}

// socket looks up the name and connects a socket. It notes the time of each step in the Steps in ctx.
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
	c, to, err := l.reach(ctx, network, port, addresses)
	s.TCP = time.Since(began)
	if err != nil {
		return nil, err
	}
	s.Failed = ""
	l.names.prefer(to)
	return c, nil
}

// headStart is how long reach waits for each address but the last: TCP repeats a lost SYN after a second.
const headStart = 2 * time.Second

// reach connects to the first address that answers.
func (l *Link) reach(ctx context.Context, network, port string, addresses []netip.Addr) (c net.Conn, to netip.Addr,
	err error) {
	for i, address := range addresses {
		within, cancel := ctx, context.CancelFunc(func() {})
		if i < len(addresses)-1 {
			within, cancel = context.WithTimeout(ctx, headStart)
		}
		c, err = l.options.Dial(within, network, net.JoinHostPort(address.String(), port))
		cancel()
		if err == nil {
			return c, address, nil
		}
	}
	return nil, to, err
}
