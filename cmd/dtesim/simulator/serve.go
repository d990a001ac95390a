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

// Serve answers the protocol and the management on the two listeners until ctx ends, and then returns nil, or until one
// of them fails. It owns the listeners. While it runs, an outage closes the protocol's port, so that connections are
// refused; the end of the outage opens the same address again through Options.Listen.
func (s *Simulator) Serve(ctx context.Context, protocol, manage net.Listener) error {
	failed := make(chan error, 1)
	remove, err := s.hostility.Install(s.Protocol(), protocol, failed)
	if err != nil {
		return errors.Join(err, protocol.Close(), manage.Close())
	}
	defer remove()
	defer func() { _ = s.Schedule(0) }() // an empty schedule cannot fail

	m := &http.Server{Handler: s.Manage(), ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer m.Close()
	serving.Go(func() {
		if err := m.Serve(manage); !errors.Is(err, http.ErrServerClosed) {
			select { // keep the first failure
			case failed <- fmt.Errorf("serving the management: %w", err):
			default:
			}
		}
	})
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}
