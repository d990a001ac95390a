// Package rules runs rule modules: WebAssembly that computes a document's amounts, without access to anything. It
// knows the modules' integers and their bundles, never a document.
package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
)

// Options of NewHost.
type Options struct {
	// Engine is "compiler" (default) or "interpreter". The interpreter is slower and needs no executable memory.
	Engine string
	// CacheDir keeps compiled modules from start to start; "" compiles anew. It must be the user's own: see private.
	CacheDir string
	// MemoryPages limits each instance, in pages of 64 KiB, default 512 (32 MiB).
	MemoryPages uint32
	// Fuel limits each call of a module whose bundle does not say, in units of package fuel; default 20,000,000, which
	// is over ten times what a plain Go guest takes for 2,000 lines. An endless loop uses it up in 0.07 s compiled and
	// 4 s interpreted; what makes the most of every unit, in 2 s and 20 s.
	Fuel int64
	// MaxFuel is the most that a bundle may ask for, default 200,000,000.
	MaxFuel int64
	// StartFuel limits the start of an instance, default 10,000,000; a plain Go guest takes 350,000.
	StartFuel int64
	// Timeout, when it is not 0, also limits each call by the clock. That makes calls three to five times slower and
	// adds nothing that fuel does not bound; it is for a host that tries modules for the first time.
	Timeout time.Duration
	// MaxModule limits a module's size in bytes, default 16 MiB.
	MaxModule int
	// Instances is how many calls of one module run at once, each in an instance that is kept; further ones wait.
	// Default: the number of processors, at least 2.
	Instances int
	Logger    *slog.Logger
}

// Host compiles and runs modules.
type Host struct {
	options Options
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	metrics *metrics

	compiling sync.Mutex // one module at a time: the other cores are the tills'

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
	// ErrRefused means that a module took a message for senseless; a message of Evaluate never is.
	ErrRefused = errors.New("it refused the message")
	// ErrClosed means that a module was called after its Close.
	ErrClosed = errors.New("the rule module is closed")
)

// NewHost starts a WebAssembly runtime.
func NewHost(ctx context.Context, o Options) (*Host, error) {
	o.defaults()
	var config wazero.RuntimeConfig
	switch o.Engine {
	case "compiler":
		config = wazero.NewRuntimeConfigCompiler()
	case "interpreter":
		config = wazero.NewRuntimeConfigInterpreter()
	default:
		return nil, fmt.Errorf("rule engine %q is not compiler or interpreter", o.Engine)
	}
	h := &Host{options: o, metrics: newMetrics(o.Engine), modules: make(map[digest]*code)}
	config = config.WithCloseOnContextDone(o.Timeout > 0).WithMemoryLimitPages(o.MemoryPages)
	if o.CacheDir != "" && o.Engine == "compiler" {
		if err := private(o.CacheDir); err != nil {
			return nil, fmt.Errorf("preparing compilation cache: %w", err)
		}
		var err error
		if h.cache, err = wazero.NewCompilationCacheWithDir(o.CacheDir); err != nil {
			return nil, fmt.Errorf("preparing compilation cache: %w", err)
		}
		config = config.WithCompilationCache(h.cache)
	}
	if err := h.start(ctx, config); err != nil {
		return nil, errors.Join(err, h.Close(ctx))
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
	if o.Fuel == 0 {
		o.Fuel = 20_000_000
	}
	if o.MaxFuel == 0 {
		o.MaxFuel = 200_000_000
	}
	if o.StartFuel == 0 {
		o.StartFuel = 10_000_000
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

// start makes the runtime and what it gives to guests. wazero panics where it is denied executable memory (systemd's
// MemoryDenyWriteExecute): the engine is chosen on purpose, so that is said and not worked around.
func (h *Host) start(ctx context.Context, config wazero.RuntimeConfig) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("starting the rule engine %s: %v (where executable memory is denied, choose the interpreter)", h.options.Engine, p)
		}
	}()
	h.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := given(ctx, h.runtime); err != nil {
		return fmt.Errorf("starting the rule engine %s: %w", h.options.Engine, err)
	}
	return nil
}

// Engine tells which engine runs: "compiler" or "interpreter".
func (h *Host) Engine() string { return h.options.Engine }

// Close closes the runtime and every module in it. Calls that are under way fail.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	clear(h.modules)
	h.mu.Unlock()
	var err error
	if h.runtime != nil {
		err = h.runtime.Close(ctx)
	}
	if h.cache != nil {
		err = errors.Join(err, h.cache.Close(ctx))
	}
	return err
}
