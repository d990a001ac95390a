package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"dtegate/cmd/dted/config"
	"dtegate/engine/fleet/wire"
)

// enrolments are read once: they are created once. They are kept in a folder, and verified whenever they are read from there.
type enrolments struct {
	c    *chain
	mu   sync.Mutex
	held map[string]*wire.Enrolment // by key
}

func newEnrolments(c *chain) *enrolments {
	return &enrolments{c: c, held: make(map[string]*wire.Enrolment)}
}

// list is the highest epoch of each branch that the director has signed. What somebody else put there is passed over.
func (e *enrolments) list(ctx context.Context) (map[string]int64, error) {
	epochs := make(map[string]int64)
	for entry, err := range e.c.store.List(ctx, wire.BoxesFolder) {
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, wire.BoxesFolder), "/")
		n, ok := wire.NumberOf(entry.Key)
		if !ok || entry.Key != wire.BoxKey(name, n) || wire.CheckName(name) != nil || n < epochs[name] {
			continue
		}
		switch _, err := e.get(ctx, name, n); {
		case err == nil:
			epochs[name] = n
		case errors.Is(err, wire.ErrSignature), errors.Is(err, wire.ErrFormat), errors.Is(err, wire.ErrOther), errors.Is(err, wire.ErrTooLarge), errors.Is(err, wire.ErrNotFound):
		default:
			return nil, err
		}
	}
	return epochs, nil
}

// get is one enrolment, signed by the director.
func (e *enrolments) get(ctx context.Context, branch string, epoch int64) (*wire.Enrolment, error) {
	key := wire.BoxKey(branch, epoch)
	e.mu.Lock()
	held := e.held[key]
	e.mu.Unlock()
	if held != nil {
		return held, nil
	}
	file := ""
	if e.c.cache != "" {
		file = filepath.Join(e.c.cache, wire.Fingerprint(e.c.director.Public), fmt.Sprintf("%s.%d.jws", branch, epoch))
	}
	if data, err := os.ReadFile(file); err == nil {
		if held, err = wire.OpenEnrolment(data, []wire.Key{e.c.director}, branch, epoch); err == nil {
			e.keep(key, held)
			return held, nil
		}
	}
	o, err := e.c.store.Get(ctx, key, wire.MaxJWS)
	if err != nil {
		return nil, fmt.Errorf("reading enrolment %d of %s: %w", epoch, branch, err)
	}
	held, err = wire.OpenEnrolment(o.Data, []wire.Key{e.c.director}, branch, epoch)
	if err != nil {
		return nil, err
	}
	if file != "" { // a cache that cannot be written is read from the store again
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
			_ = config.WriteFile(file, o.Data)
		}
	}
	e.keep(key, held)
	return held, nil
}

func (e *enrolments) keep(key string, held *wire.Enrolment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held[key] = held
}
