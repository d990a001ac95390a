package rules

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
)

// room is the runtime of one module: nothing that a module makes its compiler or its runtime do reaches another's.
type room struct {
	runtime  wazero.Runtime
	cache    wazero.CompilationCache // nil: nothing is kept
	compiled wazero.CompiledModule
}

// config is that of a room's runtime.
func (h *Host) config() wazero.RuntimeConfig {
	config := wazero.NewRuntimeConfigCompiler()
	if h.options.Engine == "interpreter" {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	return config.WithMemoryLimitPages(h.options.MemoryPages)
}

// openRoom makes a room with what guests are given in it. What is compiled there is kept in a folder, unless that is "".
// wazero panics where it is denied executable memory (systemd's MemoryDenyWriteExecute): the engine is chosen on
// purpose, so that is said and not worked around.
func (h *Host) openRoom(ctx context.Context, folder string) (r *room, err error) {
	r = new(room)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("starting the rule engine %s: %v (where executable memory is denied, choose the interpreter)", h.options.Engine, p)
		}
		if err != nil {
			err = errors.Join(err, r.close(ctx))
		}
	}()
	config := h.config()
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

// close frees everything that the room has.
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

// furnish opens a room and compiles a metered module in it, with what the cache keeps if that is whole. No fault of the
// cache is more than lost time: what cannot be read is thrown away and compiled again, what cannot be kept is used all
// the same.
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

// furnishFrom is furnish with a folder of the cache. Nil means that it takes a room without one, in which a module's own faults
// are told.
func (h *Host) furnishFrom(ctx context.Context, k *kept, metered []byte) *room {
	if k.damage != nil {
		h.cacheFailed("damaged", k.damage)
	}
	r, err := h.openRoom(ctx, k.folder)
	if err == nil {
		if err = r.compile(ctx, metered); err != nil {
			// When only the writing failed, the runtime has the module by now.
			if again := r.compile(ctx, metered); again == nil {
				h.cacheFailed("unusable", err)
				h.cacheDrop(k)
				return r
			}
			_ = r.close(ctx) // the error is told below, or is the module's and comes again
		}
	}
	if err != nil {
		h.cacheDrop(k)
		if k.sealed { // its checksum is right and yet it does not open
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
	h.options.Logger.Warn("the cache of compiled rules failed; the module is compiled again", "reason", reason, "error", err)
}

func (h *Host) cacheDrop(k *kept) {
	if err := k.drop(); err != nil {
		h.options.Logger.Warn("a folder of the cache of compiled rules is left behind", "error", err)
	}
}
