package connpool

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// namesFresh is the age at which a name is looked up again: the resolver does not say how long an answer is valid.
	namesFresh = time.Minute
	// namesRetry is the time between a failed look-up and the next. If no address is known, the next begins on demand.
	namesRetry = 5 * time.Second
)

// names has the addresses of one host from the latest good answer. They stay if later look-ups fail.
type names struct {
	host string
	link *Link

	mu        sync.Mutex
	addresses []netip.Addr
	fixed     bool          // the host is itself an address
	running   chan struct{} // closed when the running look-up ends; nil: no look-up runs
	tried     time.Time     // end of the latest look-up
	err       error         // of the latest look-up
}

// get returns the known addresses, or waits for a look-up if no address is known.
func (n *names) get(ctx context.Context) ([]netip.Addr, error) {
	n.refresh(namesFresh)
	for {
		n.mu.Lock()
		addresses, running, err := n.addresses, n.running, n.err
		n.mu.Unlock()
		switch {
		case len(addresses) > 0:
			return addresses, nil
		case running != nil:
		case err != nil:
			return nil, err
		default:
			return nil, net.ErrClosed // the link is closed: it no longer looks up names
		}
		select {
		case <-running:
		case <-ctx.Done():
			return nil, &net.DNSError{Err: "no answer", Name: n.host, IsTimeout: true, UnwrapErr: ctx.Err()}
		}
	}
}

// refresh starts a look-up, unless a look-up runs or the last is younger than age. After a failure see namesRetry.
func (n *names) refresh(age time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fixed || n.running != nil || n.link.ctx.Err() != nil {
		return
	}
	if n.err != nil && len(n.addresses) > 0 {
		age = min(age, namesRetry)
	}
	if (n.err == nil || len(n.addresses) > 0) && !n.tried.IsZero() && time.Since(n.tried) < age {
		return
	}
	done := make(chan struct{})
	n.running = done
	go func() {
		ctx, cancel := context.WithTimeout(n.link.ctx, n.link.options.ConnectTimeout)
		defer cancel()
		began := time.Now()
		found, err := n.link.options.Lookup(ctx, n.host)
		if err == nil && len(found) == 0 {
			err = &net.DNSError{Err: "no such host", Name: n.host, IsNotFound: true}
		}
		n.link.metrics.step("lookup", max(1, time.Since(began)), err != nil)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.tried, n.err, n.running = time.Now(), err, nil; err == nil {
			n.keep(found)
		}
		close(done)
	}()
}

// keep stores a new answer. The address that last accepted a connection stays first. The caller holds mu.
func (n *names) keep(found []netip.Addr) {
	for i, a := range found {
		found[i] = a.Unmap()
	}
	if len(n.addresses) > 0 {
		if i := slices.Index(found, n.addresses[0]); i > 0 {
			found[0], found[i] = found[i], found[0]
		}
	}
	n.addresses = found
}

func (n *names) prefer(address netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.addresses, address); i > 0 {
		n.addresses = slices.Clone(n.addresses) // other goroutines use the old order
		n.addresses[0], n.addresses[i] = n.addresses[i], n.addresses[0]
	}
}

// forget makes the next connect look the name up.
func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.fixed {
		n.addresses, n.tried = nil, time.Time{}
	}
}

// silent returns the error of the latest look-up, or a timeout while a look-up runs: the branch may be offline.
func (n *names) silent() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.fixed:
		return nil
	case n.running != nil:
		return &net.DNSError{Err: "no answer", Name: n.host, IsTimeout: true}
	}
	return n.err
}
