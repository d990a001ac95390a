package storage

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Locks is a table of named locks; its zero value is ready. In the store's own table every caller takes the locks in
// the order of their names: idempotency keys, then records (by code), then series. This order prevents deadlocks. A
// waiter stops waiting when its context ends.
type Locks struct {
	mu    sync.Mutex
	named map[string]*namedLock
}

type namedLock struct {
	token chan struct{} // full while it is held
	users int           // holders and waiters; the last user deletes the lock
}

func lockOfKey(key [32]byte) string   { return "1" + string(key[:]) }
func lockOfRecord(code Code) string   { return "2" + string(code[:]) }
func lockOfSeries(name string) string { return "3" + name }

// held is the set of locks of one caller; release releases them.
type held struct {
	locks *Locks
	names []string
}

// Acquire waits for the lock called name, or until ctx ends. release releases the lock; further calls do nothing.
func (l *Locks) Acquire(ctx context.Context, name string) (release func(), err error) {
	h, err := l.acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return h.release, nil
}

// acquire takes the locks, without duplicates, in order.
func (l *Locks) acquire(ctx context.Context, names ...string) (*held, error) {
	slices.Sort(names)
	names = slices.Compact(names)
	h := &held{locks: l, names: make([]string, 0, len(names)+1)}
	for _, name := range names {
		if err := h.add(ctx, name); err != nil {
			h.release()
			return nil, err
		}
	}
	return h, nil
}

// add takes one more lock. Its name must sort after the names that h holds.
func (h *held) add(ctx context.Context, name string) error {
	l := h.locks
	l.mu.Lock()
	if l.named == nil {
		l.named = make(map[string]*namedLock)
	}
	n := l.named[name]
	if n == nil {
		n = &namedLock{token: make(chan struct{}, 1)}
		l.named[name] = n
	}
	n.users++
	l.mu.Unlock()
	err := ctx.Err()
	if err == nil {
		select {
		case n.token <- struct{}{}:
			h.names = append(h.names, name)
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	l.leave(name, n)
	return fmt.Errorf("waiting for a lock: %w", err)
}

// drop releases one lock before the others.
func (h *held) drop(name string) {
	i := slices.Index(h.names, name)
	if i < 0 {
		return
	}
	h.names = slices.Delete(h.names, i, i+1)
	h.locks.mu.Lock()
	n := h.locks.named[name]
	h.locks.mu.Unlock()
	<-n.token
	h.locks.leave(name, n)
}

func (h *held) release() {
	for len(h.names) > 0 {
		h.drop(h.names[len(h.names)-1])
	}
}

func (l *Locks) leave(name string, n *namedLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.named, name)
	}
}

// names maps each series to its sequence id: 1, 2, 3 … If the first record of a series fails, the series keeps its id
// until the process ends.
type names struct {
	mu       sync.RWMutex
	sequence map[string]uint32
	name     map[uint32]string
	last     uint32
}

func (n *names) add(name string, sequence uint32) {
	if n.name == nil {
		n.sequence, n.name = make(map[string]uint32), make(map[uint32]string)
	}
	n.sequence[name], n.name[sequence], n.last = sequence, name, max(n.last, sequence)
}

// sequenceOf returns the sequence id of a series, a new id for a new series.
func (n *names) sequenceOf(name string) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sequence[name] == 0 {
		n.add(name, n.last+1)
	}
	return n.sequence[name]
}

func (n *names) named(sequence uint32) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.name[sequence]
}
