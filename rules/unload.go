package rules

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
)

// A branch has a module for each document type and sells two or three of the types. A loaded module takes some 12 MiB: machine
// code, what the engine knows of it, and an instance. A module that is not called is therefore unloaded: its description stays,
// and its bytes, compressed (0.7 MB). The next call loads it again out of the cache, in some 70 ms.

// unloads says whether modules that are not called are unloaded. Without a cache the next sale would wait a second for the compiler.
func (h *Host) unloads() bool { return h.options.UnloadAfter > 0 && h.cache != nil }

// unloadIfIdle unloads the module when it was not called since unloadIfIdle looked last, and else looks again later.
func (c *code) unloadIfIdle() {
	c.mu.Lock()
	if c.closed || c.room == nil {
		c.mu.Unlock()
		return
	}
	if c.called || c.out > 0 {
		c.called = false
		c.look.Reset(c.host.options.UnloadAfter)
		c.mu.Unlock()
		return
	}
	r, idle := c.room, c.idle
	c.room, c.idle = nil, nil
	c.mu.Unlock()
	if err := errors.Join(closeAll(idle), r.close(context.Background())); err != nil {
		c.host.options.Logger.Error("unloading a rule module that is not called", "error", err)
	}
}

// load returns the module's room, and furnishes one if it was unloaded. The caller counts as an instance already, so that the room stays.
func (c *code) load(ctx context.Context) (*room, error) {
	c.loading.Lock()
	defer c.loading.Unlock()
	c.mu.Lock()
	r := c.room
	c.mu.Unlock()
	if r != nil {
		return r, nil
	}
	metered, err := io.ReadAll(flate.NewReader(bytes.NewReader(c.packed)))
	if err == nil {
		r, err = c.host.furnish(context.WithoutCancel(ctx), metered)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: loading it again: %w", ErrTrap, err)
	}
	c.host.metrics.reloads.Inc()
	c.mu.Lock()
	c.room = r
	c.look.Reset(c.host.options.UnloadAfter)
	c.mu.Unlock()
	return r, nil
}

// pack compresses a module. It takes 20 ms.
func pack(module []byte) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write(module) // memory
	_ = w.Close()
	return b.Bytes()
}
