package rules

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"dtegate/rules/abi"
)

// Module is a compiled rule module with a pool of instances. It is safe for concurrent use. Modules of the same bytes share
// both. The garbage collector closes a Module that is no longer referred to; therefore a swap of rules need not know when the
// last request has left the old rules. Close closes it at once.
type Module struct {
	code    *code
	fuel    int64 // budget of a call
	peak    atomic.Int64
	closed  atomic.Bool
	cleanup runtime.Cleanup
}

// Load compiles a module, checks it and asks it for its description. It may take a second: never call it while a request waits.
// ErrModule if it is not a rule module.
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

// Description returns the module's description of itself; do not change it.
func (m *Module) Description() *abi.Description { return m.code.description }

// Fuel returns the most that a call may use, in units of package fuel.
func (m *Module) Fuel() int64 { return m.fuel }

// Peak returns the most that a call has used, in units of package fuel.
func (m *Module) Peak() int64 { return m.peak.Load() }

// Close frees the module, unless another module shares its code. Calls in progress finish, later calls fail with ErrClosed.
func (m *Module) Close(ctx context.Context) error {
	if m.closed.Swap(true) {
		return nil
	}
	m.cleanup.Stop()
	return m.code.release(ctx)
}

// Evaluate computes one document. After an error the instance is thrown away, and out means nothing. ctx ends only the wait for
// an instance: a call ends when its fuel is used up, or after Options.Timeout. Errors: ErrTrap, ErrFuel, ErrTimeout, ErrClosed,
// or ctx's.
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
		metrics.evaluated(time.Since(began), used)
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
