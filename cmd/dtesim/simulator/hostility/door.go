package hostility

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Install serves a handler on a listener until remove is called, except during an outage. An outage closes the port;
// the end of the outage listens on the same address again. failed receives the first failure of serving.
func (s *Hostility) Install(handler http.Handler, first net.Listener, failed chan<- error) (remove func(), _ error) {
	d := &door{handler: handler, first: first, address: first.Addr(), listen: s.listen, failed: failed}
	s.switching.Lock()
	defer s.switching.Unlock()
	s.mu.Lock()
	if s.door != nil {
		s.mu.Unlock()
		return nil, errors.New("serving already")
	}
	s.door = d
	outage := s.chaos.Outage
	s.mu.Unlock()
	if outage {
		d.shut()
		return func() { s.remove(d) }, nil
	}
	return func() { s.remove(d) }, d.open()
}

func (s *Hostility) remove(d *door) {
	s.switching.Lock()
	defer s.switching.Unlock()
	d.shut()
	s.mu.Lock()
	s.door = nil
	s.mu.Unlock()
}

// door is the protocol's port. Its methods are called under Hostility.switching.
type door struct {
	handler http.Handler
	first   net.Listener // the caller's; nil once used
	address net.Addr
	listen  func(network, address string) (net.Listener, error)
	failed  chan<- error

	server   *http.Server // nil while shut
	listener net.Listener
	serving  sync.WaitGroup
}

func (d *door) open() error {
	if d.server != nil {
		return nil
	}
	l := d.first
	d.first = nil
	if l == nil {
		var err error
		if l, err = d.listen(d.address.Network(), d.address.String()); err != nil {
			return fmt.Errorf("listening on %s again: %w", d.address, err)
		}
	}
	server := &http.Server{Handler: d.handler, ReadHeaderTimeout: 10 * time.Second}
	d.server, d.listener = server, l
	d.serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			report(d.failed, fmt.Errorf("serving the protocol: %w", err))
		}
	})
	return nil
}

// shut closes the port and every connection. After it returns, the port refuses connections.
func (d *door) shut() {
	if d.first != nil {
		_ = d.first.Close()
		d.first = nil
	}
	if d.server == nil {
		return
	}
	// The listener is closed first: a server that has not begun to serve does not know its listener yet.
	_ = d.listener.Close()
	_ = d.server.Close()
	d.serving.Wait()
	d.server, d.listener = nil, nil
}

// report sends the first failure and drops all others.
func report(failed chan<- error, err error) {
	select {
	case failed <- err:
	default:
	}
}
