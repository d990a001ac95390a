// Package rules runs rule modules: WebAssembly that computes a document's amounts, without access to anything. It
// knows the modules' integers and their bundles, never a document.
package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// Options of NewHost.
type Options struct {
	// Engine is "compiler" (default) or "interpreter". The interpreter is slower and needs no executable memory.
	Engine string
	// CacheDir keeps compiled modules from start to start; "" compiles anew. It is made private to the user.
	CacheDir string
	// MemoryPages limits each instance, in pages of 64 KiB, default 512 (32 MiB).
	MemoryPages uint32
	// Timeout limits each call, default 250 ms.
	Timeout time.Duration
	// MaxModule limits a module's size in bytes, default 16 MiB.
	MaxModule int
	// Instances is how many idle instances a module keeps, default 4.
	Instances int
	Logger    *slog.Logger
}

// Host compiles and runs modules.
type Host struct {
	options Options
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	metrics *metrics
}

var (
	// ErrModule means that a module is not one that this host runs; the message says why.
	ErrModule = errors.New("not a rule module")
	// ErrTrap means that a call failed: a trap, a time-out, or an answer that makes no sense.
	ErrTrap = errors.New("the rule module failed")
)

// NewHost starts a WebAssembly runtime.
func NewHost(ctx context.Context, o Options) (*Host, error) {
	if o.MemoryPages == 0 {
		o.MemoryPages = 512
	}
	if o.Timeout == 0 {
		o.Timeout = 250 * time.Millisecond
	}
	if o.MaxModule == 0 {
		o.MaxModule = 16 << 20
	}
	if o.Instances == 0 {
		o.Instances = 4
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	var config wazero.RuntimeConfig
	switch o.Engine {
	case "", "compiler":
		o.Engine = "compiler"
		config = wazero.NewRuntimeConfigCompiler()
	case "interpreter":
		config = wazero.NewRuntimeConfigInterpreter()
	default:
		return nil, fmt.Errorf("rule engine %q is not compiler or interpreter", o.Engine)
	}
	h := &Host{options: o, metrics: newMetrics(o.Engine)}
	config = config.WithCloseOnContextDone(true).WithMemoryLimitPages(o.MemoryPages)
	if o.CacheDir != "" && o.Engine == "compiler" {
		if err := os.MkdirAll(o.CacheDir, 0o700); err != nil {
			return nil, fmt.Errorf("preparing compilation cache: %w", err)
		}
		var err error
		if h.cache, err = wazero.NewCompilationCacheWithDir(o.CacheDir); err != nil {
			return nil, fmt.Errorf("preparing compilation cache: %w", err)
		}
		config = config.WithCompilationCache(h.cache)
	}
	h.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, h.runtime); err != nil {
		return nil, errors.Join(fmt.Errorf("starting WASI: %w", err), h.Close(ctx))
	}
	return h, nil
}

// Engine tells which engine runs: "compiler" or "interpreter".
func (h *Host) Engine() string { return h.options.Engine }

// Close closes the runtime and every module in it.
func (h *Host) Close(ctx context.Context) error {
	err := h.runtime.Close(ctx)
	if h.cache != nil {
		err = errors.Join(err, h.cache.Close(ctx))
	}
	return err
}

// allowed are the functions that a plain Go guest imports, all of wasi_snapshot_preview1. None reaches a file, the
// network or the real clock.
var allowed = map[string]bool{"args_get": true, "args_sizes_get": true, "clock_time_get": true, "environ_get": true,
	"environ_sizes_get": true, "fd_write": true, "poll_oneoff": true, "proc_exit": true, "random_get": true, "sched_yield": true}

type signature struct{ params, results []api.ValueType }

var exports = map[string]signature{
	"dte_describe": {nil, []api.ValueType{api.ValueTypeI64}},
	"dte_buffer":   {[]api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}},
	"dte_evaluate": {[]api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}},
}

// checkModule says, a sentence a fault, why a compiled module cannot be a rule.
func checkModule(m wazero.CompiledModule) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrModule}, args...)...))
	}
	for _, f := range m.ImportedFunctions() {
		if module, name, _ := f.Import(); module != "wasi_snapshot_preview1" || !allowed[name] {
			fault("it imports %s.%s, which rules are not given", module, name)
		}
	}
	if len(m.ImportedMemories()) > 0 {
		fault("it imports a memory; a rule has its own")
	}
	if m.ExportedMemories()["memory"] == nil {
		fault("it exports no memory called memory")
	}
	have := m.ExportedFunctions()
	for name, want := range exports {
		f, ok := have[name]
		if !ok {
			fault("it does not export %s", name)
		} else if !same(f.ParamTypes(), want.params) || !same(f.ResultTypes(), want.results) {
			fault("%s has another type than the interface says", name)
		}
	}
	if f, ok := have["_initialize"]; ok && len(f.ParamTypes())+len(f.ResultTypes()) > 0 {
		fault("_initialize takes or gives something")
	}
	return errors.Join(faults...)
}

func same(a, b []api.ValueType) bool { return string(a) == string(b) }
