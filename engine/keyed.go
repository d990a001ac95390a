package engine

import (
	"context"
	"sync"
)

// keyed is a set of locks by name, made on first use and forgotten after the last.
type keyed struct {
	mu    sync.Mutex
	locks map[string]*lock
}

type lock struct {
	held    chan struct{} // a token lies in it while the lock is held
	waiters int
}

// acquire waits for the lock called name, or for ctx to end.
func (k *keyed) acquire(ctx context.Context, name string) (release func(), err error) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = make(map[string]*lock)
	}
	l := k.locks[name]
	if l == nil {
		l = &lock{held: make(chan struct{}, 1)}
		k.locks[name] = l
	}
	l.waiters++
	k.mu.Unlock()

	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; k.forget(name, l) }, nil
	case <-ctx.Done():
		k.forget(name, l)
		return nil, ctx.Err()
	}
}

func (k *keyed) forget(name string, l *lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.waiters--; l.waiters == 0 {
		delete(k.locks, name)
	}
}
