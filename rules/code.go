package rules

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"dtegate/rules/abi"
	"dtegate/rules/fuel"
)

// digest is the SHA-256 of a module as its bundle carries it.
type digest = [sha256.Size]byte

// code is a compiled module and its instances. Every Module of the same bytes shares one.
type code struct {
	host        *Host
	digest      digest
	compiled    wazero.CompiledModule
	description *abi.Description
	running     chan struct{} // holds one for each call that is under way
	users       int           // Modules that share it; guarded by Host.mu

	mu     sync.Mutex
	idle   []*instance
	closed bool
}

// share gives the compiled module of the bytes, compiling it when nobody uses it yet.
func (h *Host) share(ctx context.Context, wasm []byte) (*code, error) {
	if len(wasm) > h.options.MaxModule {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrModule, len(wasm), h.options.MaxModule)
	}
	h.compiling.Lock()
	defer h.compiling.Unlock()
	d := digest(sha256.Sum256(wasm))
	h.mu.Lock()
	c := h.modules[d]
	if c != nil {
		c.users++
	}
	h.mu.Unlock()
	if c != nil {
		return c, nil
	}
	began := time.Now()
	c, err := h.compile(ctx, wasm)
	if err != nil {
		return nil, err
	}
	h.options.Logger.Info("rule module compiled", "module", c.description.Name, "sha256", fmt.Sprintf("%x", d), "bytes", len(wasm),
		"engine", h.options.Engine, "took", time.Since(began))
	c.digest, c.users = d, 1
	h.mu.Lock()
	h.modules[d] = c
	h.mu.Unlock()
	return c, nil
}

// compile meters a module, compiles it, checks it and asks it to describe itself.
func (h *Host) compile(ctx context.Context, wasm []byte) (*code, error) {
	metered, err := fuel.Meter(wasm, h.options.StartFuel)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	compiled, err := h.runtime.CompileModule(ctx, metered)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	c := &code{host: h, compiled: compiled, running: make(chan struct{}, h.options.Instances)}
	if err = checkModule(compiled); err == nil {
		err = c.describe(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.close(ctx))
	}
	return c, nil
}

func (c *code) describe(ctx context.Context) error {
	i, err := c.get(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModule, err)
	}
	text, err := i.describe()
	if err == nil {
		c.description, err = parseDescription(text)
	}
	c.put(ctx, i, err == nil)
	return err
}

// release gives one share up; the last one closes the module.
func (c *code) release(ctx context.Context) error {
	c.host.mu.Lock()
	c.users--
	last := c.users == 0 && c.host.modules[c.digest] == c // not when the host has closed it
	if last {
		delete(c.host.modules, c.digest)
	}
	c.host.mu.Unlock()
	if !last {
		return nil
	}
	return c.close(ctx)
}

// close lets calls under way finish: their instances are closed when they come back.
func (c *code) close(ctx context.Context) error {
	c.mu.Lock()
	idle := c.idle
	c.idle, c.closed = nil, true
	c.mu.Unlock()
	var err error
	for _, i := range idle {
		err = errors.Join(err, i.module.Close(ctx))
	}
	return errors.Join(err, c.compiled.Close(ctx))
}

// get takes an instance for one call, waiting while too many are out.
func (c *code) get(ctx context.Context) (*instance, error) {
	select {
	case c.running <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for an instance of the rule module: %w", ctx.Err())
	}
	c.mu.Lock()
	closed := c.closed
	var i *instance
	if n := len(c.idle); n > 0 {
		i, c.idle = c.idle[n-1], c.idle[:n-1]
	}
	c.mu.Unlock()
	if i != nil {
		return i, nil
	}
	err := ErrClosed
	if !closed {
		i, err = c.instantiate(ctx)
	}
	if err != nil {
		<-c.running
	}
	return i, err
}

// put takes an instance back after its call. One that failed is thrown away: a guest that panicked still answers.
func (c *code) put(ctx context.Context, i *instance, good bool) {
	c.mu.Lock()
	good = good && !c.closed
	if good {
		c.idle = append(c.idle, i)
	}
	c.mu.Unlock()
	if !good {
		_ = i.module.Close(context.WithoutCancel(ctx)) // its failure is told already
	}
	<-c.running
}
