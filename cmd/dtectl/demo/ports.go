package demo

import (
	"context"
	"fmt"
	"net"
	"time"
)

// freeWithin is how long the processes of a demonstration that was just ended may take to leave their addresses.
const freeWithin = 5 * time.Second

// awaitFree fails when somebody goes on listening on an address that a demonstration is about to use: its programs would be started again
// and again, and the tills would meet somebody else's.
func awaitFree(ctx context.Context, addresses ...string) error {
	ctx, cancel := context.WithTimeout(ctx, freeWithin)
	defer cancel()
	for _, address := range addresses {
		for {
			l, err := net.Listen("tcp", address)
			if err == nil {
				err = l.Close()
			}
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not free: if another demonstration runs, end it first (Ctrl-C): %w", address, err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}

// addresses are those of a branch and its authority.
func (d *Demo) addresses() []string { return []string{d.API, d.Ops, d.authority, d.manage, d.inbox} }
