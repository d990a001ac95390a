package simulator_test

import (
	"context"
	"errors"
	"net"
	"sync"
)

// pipes is a network in memory.
type pipes struct {
	mu   sync.Mutex
	open map[string]*pipeListener
}

type pipeListener struct {
	net     *pipes
	address pipeAddr
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

func (p *pipes) listen(_, address string) (net.Listener, error) {
	l := &pipeListener{net: p, address: pipeAddr(address), conns: make(chan net.Conn), closed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[address] = l
	return l, nil
}

func (p *pipes) dial(ctx context.Context, _, address string) (net.Conn, error) {
	p.mu.Lock()
	l := p.open[address]
	p.mu.Unlock()
	refused := errors.New("connection refused")
	if l == nil {
		return nil, refused
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Addr() net.Addr { return l.address }

func (l *pipeListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		if l.net.open[string(l.address)] == l {
			delete(l.net.open, string(l.address))
		}
	})
	return nil
}
