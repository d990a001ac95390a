// Package rules runs rule modules: WebAssembly that computes a document's amounts, without access to the outside. The
// package knows bundles and the integers that modules read and write, never a document.
package rules

import (
	"cmp"
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tetratelabs/wazero"
)

// Options of NewHost.
type Options struct {
	// Engine is "compiler" (default) or "interpreter". The interpreter is slower and needs no executable memory.
	Engine string
	// CacheDir is the folder that keeps compiled modules for later starts; "": every start compiles. The folder must
	// belong to the user (see private). An unusable or damaged folder costs only time.
	CacheDir string
	// MemoryPages limits each instance, in pages of 64 KiB, default 512 (32 MiB).
	MemoryPages uint32
	// Fuel limits each call of a module whose bundle gives no limit, in units of package fuel; default 20,000,000, over
	// ten times the use of a plain Go guest for 2,000 lines. An endless loop uses up the default in 0.07 s compiled and
	// 4 s interpreted. A guest that waits for memory at each step would take 70 s; Timeout ends it earlier.
	Fuel int64
	// MaxFuel is the highest Fuel that a bundle may declare, default 200,000,000.
	MaxFuel int64
	// StartFuel limits the start of an instance, default 10,000,000; a plain Go guest uses 350,000.
	StartFuel int64
	// Timeout is the most processor time of a call after its first slice of fuel; default 2 s, interpreted 10 s. It
	// stops a guest whose steps take longer than their price in fuel, and limits bundles that declare more than the
	// default fuel. The shipped rules need at most 3 ms for 2,000 lines, interpreted 120 ms.
	Timeout time.Duration
	// Instances is how many calls of one module run at once, each in its own instance. Further calls wait. Default: the
	// number of processors, at least 2.
	Instances int
	// UnloadAfter is how long a module stays loaded without a call; its next call then takes some 70 ms longer. Modules
	// that are loaded at a start are unloaded when the start ends (see Starting); their first call loads them again.
	// With UnloadAfter 0 or without a usable CacheDir, modules stay loaded.
	UnloadAfter time.Duration
	Logger      *slog.Logger
}

// Host compiles and runs modules.
type Host struct {
	options Options
	cache   *cache // nil: compiled modules are not kept
	metrics *metrics

	// compiling holds a value while a module is compiled: one at a time, to leave the other cores to the tills.
	// Compiled modules and their calls do not wait.
	compiling chan struct{}
	starting  atomic.Bool // set during a start: nobody sells, and modules may be compiled in parallel

	mu      sync.Mutex
	modules map[digest]*code // the modules in use
}

var (
	// ErrModule means that this host cannot run a module; the message says why.
	ErrModule = errors.New("not a rule module")
	// ErrTrap means that a call failed: a trap, a limit reached, or a malformed answer.
	ErrTrap = errors.New("the rule module failed")
	// ErrFuel is an ErrTrap: the call used more fuel than its bundle declares.
	ErrFuel = fmt.Errorf("%w: out of fuel", ErrTrap)
	// ErrTimeout is an ErrTrap: the call worked longer than Options.Timeout.
	ErrTimeout = fmt.Errorf("%w: out of time", ErrTrap)
	// ErrRefused means that a module rejected a message as malformed. Evaluate never sends such a message.
	ErrRefused = errors.New("it refused the message")
	// ErrClosed means that a module was called after its Close.
	ErrClosed = errors.New("the rule module is closed")
)

// NewHost returns a host. It tests whether the engine works on this machine, and reads the cache.
func NewHost(ctx context.Context, o Options) (*Host, error) {
	o.defaults()
	if o.Engine != "compiler" && o.Engine != "interpreter" {
		return nil, fmt.Errorf("rule engine %q is not compiler or interpreter", o.Engine)
	}
	h := &Host{options: o, modules: make(map[digest]*code), compiling: make(chan struct{}, 1)}
	h.metrics = newMetrics(o.Engine, func() float64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return float64(len(h.modules))
	})
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
	o.Engine = cmp.Or(o.Engine, "compiler")
	o.MemoryPages = cmp.Or(o.MemoryPages, 512)
	o.Fuel, o.MaxFuel = cmp.Or(o.Fuel, 20_000_000), cmp.Or(o.MaxFuel, 200_000_000)
	o.StartFuel = cmp.Or(o.StartFuel, 10_000_000)
	if o.Engine == "interpreter" {
		o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	}
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.Instances = cmp.Or(o.Instances, max(2, runtime.GOMAXPROCS(0)))
	o.Logger = cmp.Or(o.Logger, slog.Default())
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
		err = errors.Join(err, c.close(ctx, true))
	}
	return err
}

// room is the WebAssembly runtime of one module. No two modules share a runtime: they cannot disturb each other.
type room struct {
	runtime  wazero.Runtime
	cache    wazero.CompilationCache // nil: the compiled code is not kept
	compiled wazero.CompiledModule
}

// openRoom makes a room with the host functions for guests. The room keeps compiled code in a folder; if folder is "",
// it keeps no code. If the system denies executable memory (systemd's MemoryDenyWriteExecute), wazero's panic becomes
// an error: the operator chose this engine, so no other is tried.
func (h *Host) openRoom(ctx context.Context, folder string) (r *room, err error) {
	r = new(room)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("starting the rule engine %s: %v (where executable memory is denied, choose the "+
				"interpreter)", h.options.Engine, p)
		}
		if err != nil {
			err = errors.Join(err, r.close(ctx))
		}
	}()
	config := wazero.NewRuntimeConfigCompiler()
	if h.options.Engine == "interpreter" {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	config = config.WithMemoryLimitPages(h.options.MemoryPages)
	if folder != "" {
		if r.cache, err = wazero.NewCompilationCacheWithDir(folder); err != nil {
			return r, fmt.Errorf("preparing compilation cache: %w", err)
		}
		config = config.WithCompilationCache(r.cache)
	}
	r.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := defineFunctions(ctx, r.runtime); err != nil {
		return r, fmt.Errorf("starting the rule engine %s: %w", h.options.Engine, err)
	}
	return r, nil
}

// compile compiles a metered module. A panic of the compiler is the module's fault.
func (r *room) compile(ctx context.Context, metered []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the compiler failed: %v", p)
		}
	}()
	r.compiled, err = r.runtime.CompileModule(ctx, metered)
	return err
}

func (r *room) close(ctx context.Context) error {
	var err error
	if r.runtime != nil {
		err = r.runtime.Close(ctx)
	}
	if r.cache != nil {
		err = errors.Join(err, r.cache.Close(ctx))
	}
	return err
}

// furnish opens a room and compiles a metered module in it, from the cache if the cache has an intact folder. A fault
// of the cache costs only time: an unreadable folder is removed and its module compiled again; a module that cannot be
// written to the cache is used without a folder.
func (h *Host) furnish(ctx context.Context, metered []byte) (*room, error) {
	if h.cache != nil {
		k, err := h.cache.find(metered)
		if err != nil {
			h.cacheFailed("unusable", err)
		} else if r := h.furnishFrom(ctx, k, metered); r != nil {
			return r, nil
		}
	}
	r, err := h.openRoom(ctx, "")
	if err != nil {
		return nil, err
	}
	if err := r.compile(ctx, metered); err != nil {
		return nil, errors.Join(err, r.close(ctx))
	}
	return r, nil
}

// furnishFrom does furnish's work with a folder of the cache. If it returns nil, the caller must use a room without a
// folder. A fault of the module itself occurs there again.
func (h *Host) furnishFrom(ctx context.Context, k *kept, metered []byte) *room {
	if k.damage != nil {
		h.cacheFailed("damaged", k.damage)
	}
	r, err := h.openRoom(ctx, k.folder)
	if err == nil {
		if err = r.compile(ctx, metered); err != nil {
			// If only writing to the folder failed, the runtime already has the module.
			if again := r.compile(ctx, metered); again == nil {
				h.cacheFailed("unusable", err)
				h.cacheDrop(k)
				return r
			}
			_ = r.close(ctx) // err is reported below, or is the module's fault and will occur again
		}
	}
	if err != nil {
		h.cacheDrop(k)
		if k.sealed { // the checksum matches, but the engine cannot read the folder
			h.cacheFailed("damaged", err)
		}
		return nil
	}
	if err := k.keep(); err != nil {
		h.cacheFailed("unusable", err)
		h.cacheDrop(k)
	}
	return r
}

func (h *Host) cacheFailed(reason string, err error) {
	h.metrics.cache.WithLabelValues(reason).Inc()
	h.options.Logger.Warn("the cache of compiled rules failed; the module is compiled again", "reason", reason, "error",
		err)
}

func (h *Host) cacheDrop(k *kept) {
	if err := k.drop(); err != nil {
		h.options.Logger.Warn("a folder of the cache of compiled rules is left behind", "error", err)
	}
}

type metrics struct {
	duration prometheus.Histogram
	fuel     prometheus.Histogram
	failures *prometheus.CounterVec
	cache    *prometheus.CounterVec
	reloads  prometheus.Counter
	engine   *prometheus.GaugeVec
	modules  prometheus.GaugeFunc
}

func newMetrics(engine string, modules func() float64) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dte_rule_evaluation_duration_seconds",
			Help:    "Time of a rule module to compute one document, waiting for an instance included.",
			Buckets: prometheus.ExponentialBuckets(2e-6, 2.5, 14)}),
		fuel: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dte_rule_evaluation_fuel_units",
			Help: "Fuel that a rule module used to compute one document.", Buckets: prometheus.ExponentialBuckets(1000,
				4, 10)}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_rule_failures_total",
			Help: "Calls of a rule module that failed, by reason: start, trap, fuel, timeout, contradiction."},
			[]string{"reason"}),
		cache: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_rule_cache_failures_total",
			Help: "Modules that were compiled again because of their cache: damaged (thrown away) or unusable (its " +
				"folder cannot be read or written)."}, []string{"reason"}),
		reloads: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_rule_reloads_total",
			Help: "Calls that had to load their rule module again, because it had not been called for a while."}),
		engine: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dte_rule_engine_info",
			Help: "1 for the engine that runs the rules: compiler or interpreter."}, []string{"engine"}),
		modules: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dte_rule_modules",
			Help: "Rule modules that are ready to run; those that were not called for a while are loaded again first."},
			modules),
	}
	for _, reason := range []string{"start", "trap", "fuel", "timeout", "contradiction"} {
		m.failures.WithLabelValues(reason)
	}
	for _, reason := range []string{"damaged", "unusable"} {
		m.cache.WithLabelValues(reason)
	}
	m.engine.WithLabelValues(engine).Set(1)
	return m
}

func (m *metrics) failed(reason string) { m.failures.WithLabelValues(reason).Inc() }

// Contradicted counts a document for which the module's answer contradicts the box's data.
func (m *Module) Contradicted() { m.code.host.metrics.failed("contradiction") }

func (h *Host) Collect(ch chan<- prometheus.Metric) {
	m := h.metrics
	for _, c := range []prometheus.Collector{m.duration, m.fuel, m.failures, m.cache, m.reloads, m.engine, m.modules} {
		c.Collect(ch)
	}
}
