// Package rules runs rule modules: WebAssembly that computes a document's amounts, without access to anything. It
// knows the modules' integers and their bundles, never a document.
package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options of NewHost.
type Options struct {
	// Engine is "compiler" (default) or "interpreter". The interpreter is slower and needs no executable memory.
	Engine string
	// CacheDir keeps compiled modules from start to start; "" compiles anew. It must be the user's own: see private. A
	// folder that cannot be used, or what is damaged in it, costs time, never a start.
	CacheDir string
	// MemoryPages limits each instance, in pages of 64 KiB, default 512 (32 MiB).
	MemoryPages uint32
	// KeptPages is the most memory, in pages, with which an instance is kept for further calls, default half of
	// MemoryPages. An instance that has grown beyond is thrown away after its call.
	KeptPages uint32
	// Fuel limits each call of a module whose bundle does not say, in units of package fuel; default 20,000,000, which
	// is over ten times what a plain Go guest takes for 2,000 lines. An endless loop uses it up in 0.07 s compiled and
	// 4 s interpreted; what makes the most of every unit, in 2 s and 20 s; what waits for memory at each step, all over its
	// 32 MiB, in 70 s: see Timeout.
	Fuel int64
	// MaxFuel is the most that a bundle may ask for, default 200,000,000.
	MaxFuel int64
	// StartFuel limits the start of an instance, default 10,000,000; a plain Go guest takes 350,000.
	StartFuel int64
	// Timeout ends a call that has worked for so long, in the processor's time after its first slice of fuel; default 2 s,
	// interpreted 10 s. It is for a guest that gets more out of a unit of fuel than units are priced for, by waiting for memory
	// at each step, and for budgets above the default. The shipped rules take 0.2 to 3 ms for 2,000 lines, interpreted 8 to
	// 120 ms.
	Timeout time.Duration
	// MaxModule limits a module's size in bytes, default 16 MiB.
	MaxModule int
	// Instances is how many calls of one module run at once, each in an instance that is kept; further ones wait.
	// Default: the number of processors, at least 2.
	Instances int
	// UnloadAfter is how long a module stays loaded that is not called; its next call takes some 70 ms longer. Modules that are
	// loaded at a start (see Starting) are unloaded until their first call. 0, or no usable CacheDir: they stay loaded.
	UnloadAfter time.Duration
	Logger      *slog.Logger
}

// Host compiles and runs modules.
type Host struct {
	options Options
	cache   *cache // nil: nothing is kept
	metrics *metrics

	// compiling holds one while a module is compiled: the other cores are the tills'. Nothing else waits for it: neither
	// calls nor modules that are compiled already.
	compiling chan struct{}
	starting  atomic.Bool // nobody sells: it is not asked

	mu      sync.Mutex
	modules map[digest]*code // that are in use
}

var (
	// ErrModule means that a module is not one that this host runs; the message says why.
	ErrModule = errors.New("not a rule module")
	// ErrTrap means that a call failed: a trap, a limit reached, or an answer that makes no sense.
	ErrTrap = errors.New("the rule module failed")
	// ErrFuel is the ErrTrap of a call that used more fuel than its bundle declares.
	ErrFuel = fmt.Errorf("%w: out of fuel", ErrTrap)
	// ErrTimeout is the ErrTrap of a call that worked longer than Options.Timeout.
	ErrTimeout = fmt.Errorf("%w: out of time", ErrTrap)
	// ErrRefused means that a module took a message for senseless; a message of Evaluate never is.
	ErrRefused = errors.New("it refused the message")
	// ErrClosed means that a module was called after its Close.
	ErrClosed = errors.New("the rule module is closed")
)

// NewHost returns a host. It tries whether the engine works on this machine, and reads the cache.
func NewHost(ctx context.Context, o Options) (*Host, error) {
	o.defaults()
	if o.Engine != "compiler" && o.Engine != "interpreter" {
		return nil, fmt.Errorf("rule engine %q is not compiler or interpreter", o.Engine)
	}
	h := &Host{options: o, metrics: newMetrics(o.Engine), modules: make(map[digest]*code), compiling: make(chan struct{}, 1)}
	r, err := h.openRoom(ctx, "")
	if err == nil {
		err = r.close(ctx)
	}
	if err != nil {
		return nil, err
	}
	if o.CacheDir != "" && o.Engine == "compiler" {
		if h.cache, err = openCache(o.CacheDir); err != nil {
			h.cacheFailed("unusable", err)
		}
	}
	return h, nil
}

func (o *Options) defaults() {
	if o.Engine == "" {
		o.Engine = "compiler"
	}
	if o.MemoryPages == 0 {
		o.MemoryPages = 512
	}
	if o.KeptPages == 0 {
		o.KeptPages = o.MemoryPages / 2
	}
	if o.Fuel == 0 {
		o.Fuel = 20_000_000
	}
	if o.MaxFuel == 0 {
		o.MaxFuel = 200_000_000
	}
	if o.StartFuel == 0 {
		o.StartFuel = 10_000_000
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
		if o.Engine == "interpreter" {
			o.Timeout = 10 * time.Second
		}
	}
	if o.MaxModule == 0 {
		o.MaxModule = 16 << 20
	}
	if o.Instances == 0 {
		o.Instances = max(2, runtime.GOMAXPROCS(0))
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Engine returns the engine that runs: "compiler" or "interpreter".
func (h *Host) Engine() string { return h.options.Engine }

// Close closes every module. Calls in progress fail.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	modules := slices.Collect(maps.Values(h.modules))
	clear(h.modules)
	h.mu.Unlock()
	var err error
	for _, c := range modules {
		err = errors.Join(err, c.abort(ctx))
	}
	return err
}
