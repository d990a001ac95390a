package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve answers the protocol and the management on the two listeners until ctx ends, and then returns nil. It owns
// the listeners. While it runs, an outage closes the protocol's port, so that connections are refused, and its end
// listens on the same address again through Options.Listen.
func (s *Simulator) Serve(ctx context.Context, protocol, manage net.Listener) error {
	failed := make(chan error, 1)
	d := &door{handler: s.Protocol(), first: protocol, address: protocol.Addr(), listen: s.options.Listen, failed: failed}
	if err := s.install(d); err != nil {
		return errors.Join(err, protocol.Close(), manage.Close())
	}
	defer s.remove(d)
	defer func() { _ = s.Schedule(0) }() // an empty one cannot fail

	m := &http.Server{Handler: s.Manage(), ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer m.Close()
	serving.Go(func() {
		if err := m.Serve(manage); !errors.Is(err, http.ErrServerClosed) {
			report(failed, fmt.Errorf("serving the management: %w", err))
		}
	})
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// install puts the door in place, open unless an outage is in force.
func (s *hostility) install(d *door) error {
	s.switching.Lock()
	defer s.switching.Unlock()
	s.mu.Lock()
	if s.door != nil {
		s.mu.Unlock()
		return errors.New("serving already")
	}
	s.door = d
	outage := s.chaos.Outage
	s.mu.Unlock()
	if outage {
		d.shut()
		return nil
	}
	return d.open()
}

func (s *hostility) remove(d *door) {
	s.switching.Lock()
	defer s.switching.Unlock()
	d.shut()
	s.mu.Lock()
	s.door = nil
	s.mu.Unlock()
}

// door is the protocol's port. Its methods are called under Simulator.switching.
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

// shut closes the port and every connection. When it returns, the port refuses.
func (d *door) shut() {
	if d.first != nil {
		_ = d.first.Close()
		d.first = nil
	}
	if d.server == nil {
		return
	}
	// The listener first: Close of a server that has not begun to serve does not know it yet.
	_ = d.listener.Close()
	_ = d.server.Close()
	d.serving.Wait()
	d.server, d.listener = nil, nil
}

// report keeps the first failure.
func report(failed chan<- error, err error) {
	select {
	case failed <- err:
	default:
	}
}
