package rules

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"dtegate/rules/abi"
	"dtegate/rules/fuel"
)

// Module is a compiled rule module with a pool of instances. It is safe for concurrent use. Modules of the same bytes
// share the compiled code and the instances. The garbage collector closes an unreferenced Module, so that new rules
// replace old rules without waiting for the requests that use the old rules. Close closes a Module at once.
type Module struct {
	code    *code
	fuel    int64 // budget of a call
	peak    atomic.Int64
	closed  atomic.Bool
	cleanup runtime.Cleanup
}

// Load compiles a module, checks it and reads its description. It may take a second: never call it while a request
// waits. Errors: ErrModule, or ctx's error.
func (h *Host) Load(ctx context.Context, wasm []byte) (*Module, error) {
	return h.load(ctx, wasm, h.options.Fuel)
}

func (h *Host) load(ctx context.Context, wasm []byte, budget int64) (*Module, error) {
	c, err := h.share(ctx, wasm)
	if err != nil {
		return nil, err
	}
	m := &Module{code: c, fuel: budget}
	m.cleanup = runtime.AddCleanup(m, func(c *code) {
		if err := c.release(context.Background()); err != nil {
			c.host.options.Logger.Error("closing a rule module that nobody refers to", "error", err)
		}
	}, c)
	return m, nil
}

// Description returns the module's description of itself. The caller must not change it.
func (m *Module) Description() *abi.Description { return m.code.description }

// Fuel returns the most fuel that a call may use, in units of package fuel.
func (m *Module) Fuel() int64 { return m.fuel }

// Peak returns the most fuel that a call of this Module has used, in units of package fuel.
func (m *Module) Peak() int64 { return m.peak.Load() }

// Close frees the module, unless another Module shares its code. Calls in progress finish; later calls get ErrClosed.
func (m *Module) Close(ctx context.Context) error {
	if m.closed.Swap(true) {
		return nil
	}
	m.cleanup.Stop()
	return m.code.release(ctx)
}

// Evaluate computes one document. After an error the instance is closed, and the content of out is meaningless. ctx
// ends only the wait for an instance. An endless call ends when its fuel is used up, or after Options.Timeout. Errors:
// ErrTrap, ErrFuel, ErrTimeout, ErrClosed, or ctx's error.
func (m *Module) Evaluate(ctx context.Context, in *abi.Input, out *abi.Output) error {
	if m.closed.Load() {
		return ErrClosed
	}
	began := time.Now()
	metrics := m.code.host.metrics
	i, err := m.code.get(ctx)
	if err != nil {
		metrics.failed("start")
		return err
	}
	used, err := i.call(in, out, m.fuel)
	m.code.put(ctx, i, err == nil)
	switch {
	case err == nil:
		metrics.duration.Observe(time.Since(began).Seconds())
		metrics.fuel.Observe(float64(used))
	case errors.Is(err, ErrFuel):
		metrics.failed("fuel")
	case errors.Is(err, ErrTimeout):
		metrics.failed("timeout")
	default:
		metrics.failed("trap")
	}
	for peak := m.peak.Load(); used > peak && !m.peak.CompareAndSwap(peak, used); {
		peak = m.peak.Load()
	}
	return err
}

// digest is the SHA-256 of a module's bytes in its bundle, before metering.
type digest = [sha256.Size]byte

// code is a compiled module and its instances. Modules of the same bytes share one code.
type code struct {
	host        *Host
	digest      digest
	packed      []byte // the metered module, compressed; nil if this module is never unloaded
	description *abi.Description
	running     chan struct{} // holds a value for each running call
	users       int           // Modules that share this code; guarded by Host.mu
	look        *time.Timer   // calls unloadIfIdle; nil if packed is nil
	loading     sync.Mutex    // held while a caller gets or makes the room

	mu     sync.Mutex
	room   *room // nil: the module is unloaded
	idle   []*instance
	out    int  // number of instances in use
	called bool // since unloadIfIdle last ran
	closed bool
}

const maxModule = 16 << 20

// share returns the compiled module of wasm. It compiles the module if no Module uses it yet.
func (h *Host) share(ctx context.Context, wasm []byte) (*code, error) {
	if len(wasm) > maxModule {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrModule, len(wasm), maxModule)
	}
	d := digest(sha256.Sum256(wasm))
	if c := h.shared(d); c != nil {
		return c, nil
	}
	if !h.starting.Load() {
		select {
		case h.compiling <- struct{}{}:
			defer func() { <-h.compiling }()
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting while another rule module is compiled: %w", ctx.Err())
		}
	}
	if c := h.shared(d); c != nil { // the other caller compiled this module
		return c, nil
	}
	began := time.Now()
	c, err := h.compile(ctx, wasm)
	if err != nil {
		return nil, err
	}
	h.options.Logger.Info("rule module compiled", "module", c.description.Name, "sha256", fmt.Sprintf("%x", d), "bytes",
		len(wasm), "engine", h.options.Engine, "took", time.Since(began))
	c.digest, c.users = d, 1
	h.mu.Lock()
	other := h.modules[d] // compiled in parallel, during a start
	if other == nil {
		h.modules[d] = c
	} else {
		other.users++
	}
	h.mu.Unlock()
	if other != nil {
		return other, c.close(ctx, false)
	}
	return c, nil
}

// Starting permits parallel compilation of modules until end is called. It is for a start, when nobody sells and every
// core is free. If the host unloads modules, end unloads those not called yet; their first call loads them again.
func (h *Host) Starting() (end func()) {
	h.starting.Store(true)
	return func() {
		h.starting.Store(false)
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, c := range h.modules {
			if c.look != nil {
				c.look.Reset(0)
			}
		}
	}
}

// shared returns a module that is already compiled, and counts one more user.
func (h *Host) shared(d digest) *code {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.modules[d]
	if c != nil {
		c.users++
	}
	return c
}

func (h *Host) compile(ctx context.Context, wasm []byte) (*code, error) {
	metered, err := fuel.Meter(wasm, h.options.StartFuel)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	r, err := h.furnish(ctx, metered)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	c := &code{host: h, room: r, running: make(chan struct{}, h.options.Instances)}
	if err = checkModule(r.compiled); err == nil {
		err = c.describe(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.close(ctx, false))
	}
	if h.options.UnloadAfter > 0 && h.cache != nil { // without a cache, compiling would delay the next sale by a second
		c.packed, c.called = pack(metered), false
		c.look = time.AfterFunc(h.options.UnloadAfter, c.unloadIfIdle)
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
	// The instance is not kept: a branch has rules for types that it rarely sells, and an instance takes some 4 MiB.
	// The first call makes another.
	c.put(ctx, i, false)
	return err
}

// release must be called when a Module no longer uses the code. The last release closes the code.
func (c *code) release(ctx context.Context) error {
	c.host.mu.Lock()
	c.users--
	last := c.users == 0 && c.host.modules[c.digest] == c // false if the host was closed
	if last {
		delete(c.host.modules, c.digest)
	}
	c.host.mu.Unlock()
	if !last {
		return nil
	}
	return c.close(ctx, false)
}

// close closes the module. Running calls finish or, if abort is set, fail. The last instance to return closes the room.
func (c *code) close(ctx context.Context, abort bool) error {
	if c.look != nil {
		c.look.Stop()
	}
	c.mu.Lock()
	c.idle, c.closed = nil, true
	finish := c.out == 0 || abort
	c.mu.Unlock()
	if !finish {
		return nil
	}
	return c.closeRoom(ctx)
}

func (c *code) closeRoom(ctx context.Context) error {
	c.mu.Lock()
	r := c.room
	c.room = nil
	c.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.close(ctx)
}

// add starts an instance, unless the module is closed. The caller must return it with remove or put.
func (c *code) add(ctx context.Context) (*instance, error) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.out++
	}
	c.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	var i *instance
	r, err := c.load(ctx)
	if err == nil {
		i, err = c.instantiate(ctx, r)
	}
	if err != nil {
		err = errors.Join(err, c.back(ctx, nil))
	}
	return i, err
}

// back notes that an instance is no longer in use. If keep is not nil, keep goes back to the pool.
func (c *code) back(ctx context.Context, keep *instance) error {
	c.mu.Lock()
	c.out--
	if keep != nil && !c.closed {
		c.idle = append(c.idle, keep)
		keep = nil
	}
	last := c.closed && c.out == 0
	c.mu.Unlock()
	var err error
	if keep != nil { // the module was closed in the meantime
		err = keep.close()
	}
	if last {
		err = errors.Join(err, c.closeRoom(ctx))
	}
	return err
}

func (c *code) remove(ctx context.Context, i *instance) error {
	return errors.Join(i.close(), c.back(ctx, nil))
}

// get returns an instance for one call. It waits while too many instances are in use.
func (c *code) get(ctx context.Context) (*instance, error) {
	select {
	case c.running <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for an instance of the rule module: %w", ctx.Err())
	}
	c.mu.Lock()
	c.called = true
	var i *instance
	if n := len(c.idle); n > 0 {
		i, c.idle = c.idle[n-1], c.idle[:n-1]
		c.out++
	}
	c.mu.Unlock()
	if i != nil {
		return i, nil
	}
	i, err := c.add(ctx)
	if err != nil {
		<-c.running
	}
	return i, err
}

// put returns an instance to the pool after its call. It closes the instance instead if its memory exceeds half of the
// limit, or if good is false: a guest that panicked would go on answering.
func (c *code) put(ctx context.Context, i *instance, good bool) {
	ctx = context.WithoutCancel(ctx)
	giveBack := c.remove
	if good && i.memory.Size() <= c.host.options.MemoryPages<<16/2 {
		giveBack = c.back
	}
	if err := giveBack(ctx, i); err != nil {
		c.host.options.Logger.Error("closing an instance of a rule module", "error", err)
	}
	<-c.running
}

// A branch has a module for each document type, and issues only two or three types. A loaded module takes some 12 MiB:
// machine code, the engine's data, and an instance. A module without calls is therefore unloaded, except its
// description and its compressed bytes (0.7 MB). The next call loads it from the cache, in some 70 ms.

// unloadIfIdle unloads the module if it was not called since the last check, or checks again later.
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
	r := c.room
	c.room, c.idle = nil, nil
	c.mu.Unlock()
	if err := r.close(context.Background()); err != nil {
		c.host.options.Logger.Error("unloading a rule module that is not called", "error", err)
	}
}

// load returns the module's room, a new one if the module was unloaded. The caller has raised c.out: the room
// therefore stays loaded.
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

func pack(module []byte) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write(module) // cannot fail: b is in memory
	_ = w.Close()
	return b.Bytes()
}
