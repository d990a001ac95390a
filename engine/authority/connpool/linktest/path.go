// Package linktest is a slow and lossy path between a client and a server, for tests: over a socket, or in memory and
// in the fake time of testing/synctest.
package linktest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Path delays what passes. Set its fields before use, and later only by Change.
type Path struct {
	// OneWay is how long a packet takes in one direction. A connect takes two packets, as do a request and its answer.
	OneWay time.Duration
	// Loss is the share of packets that are lost, from 0 to 1. TCP repeats a SYN after 1 s, and data after the round
	// trip and 400 ms. Each further repetition waits twice as long.
	Loss float64
	// Name and Connect are how long a look-up and a connect take in addition to their round trips.
	Name, Connect time.Duration
	// Mute: the name server does not answer. Dead: nobody answers.
	Mute, Dead bool
	// Under connects to the server. Default: a socket.
	Under func(ctx context.Context, network, address string) (net.Conn, error)

	mu       sync.Mutex
	chance   *rand.Rand
	ends     []net.Conn
	carriers sync.WaitGroup
}

// Change alters the path while it is used.
func (p *Path) Change(f func(*Path)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// Cut closes all connections.
func (p *Path) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.ends {
		_ = c.Close()
	}
	p.ends = nil
}

// Close closes all connections and waits until nothing is in transit. Nobody may dial any more.
func (p *Path) Close() {
	p.Cut()
	p.carriers.Wait()
}

// Lookup answers any name with 127.0.0.1.
func (p *Path) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	took := p.packet(time.Second) + p.packet(time.Second)
	p.mu.Lock()
	took += p.Name
	silent := p.Mute || p.Dead
	p.mu.Unlock()
	if silent {
		took = time.Hour
	}
	if !pause(ctx, took) {
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true, UnwrapErr: ctx.Err()}
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// Dial connects through the path.
func (p *Path) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	took := p.packet(time.Second) + p.packet(time.Second)
	p.mu.Lock()
	took += p.Connect
	if p.Dead {
		took = time.Hour
	}
	under := p.Under
	p.mu.Unlock()
	if !pause(ctx, took) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
	if under == nil {
		under = new(net.Dialer).DialContext
	}
	far, err := under(ctx, network, address)
	if err != nil {
		return nil, err
	}
	near, end := net.Pipe()
	p.mu.Lock()
	p.ends = append(p.ends, end)
	p.mu.Unlock()
	p.carriers.Go(func() { p.carry(end, far) })
	p.carriers.Go(func() { p.carry(far, end) })
	return near, nil
}

// packet returns how long one packet takes, including its losses; first is the delay before the first repetition.
func (p *Path) packet(first time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.chance == nil {
		p.chance = rand.New(rand.NewPCG(1, 1))
	}
	took := p.OneWay
	for ; p.chance.Float64() < p.Loss; first *= 2 {
		took += first
	}
	return took
}

// carry passes bytes on in their order, each as late as the path requires.
func (p *Path) carry(to, from net.Conn) {
	type packet struct {
		data []byte
		due  time.Time
	}
	way := make(chan packet, 1024)
	go func() {
		defer close(way)
		var last time.Time
		for {
			b := make([]byte, 16<<10)
			n, err := from.Read(b)
			p.mu.Lock()
			again := 2*p.OneWay + 400*time.Millisecond
			p.mu.Unlock()
			if due := time.Now().Add(p.packet(again)); due.After(last) {
				last = due
			}
			way <- packet{b[:n], last}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					_ = from.Close()
				}
				return
			}
		}
	}()
	failed := false
	for pack := range way {
		time.Sleep(time.Until(pack.due))
		if failed {
			continue
		}
		if _, err := to.Write(pack.data); err != nil {
			failed = true
			_ = from.Close()
		}
	}
	_ = to.Close()
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Memory is a listener in memory, and the path to it.
type Memory struct {
	once   sync.Once
	accept chan net.Conn
	done   chan struct{}
}

// NewMemory returns a listening Memory.
func NewMemory() *Memory { return &Memory{accept: make(chan net.Conn), done: make(chan struct{})} }

// DialContext connects to the listener.
func (m *Memory) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case m.accept <- far:
		return near, nil
	case <-m.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept, Close and Addr implement net.Listener.
func (m *Memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.accept:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *Memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

// Addr implements net.Listener.
func (m *Memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
