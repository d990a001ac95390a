package centre

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"dtegate/cmd/dted/config"
	"dtegate/engine/fleet/wire"
)

// enrolments are read once: they are created once. They are kept in a file, and verified when they are read from it as when they come
// from the store.
type enrolments struct {
	c       *Chain
	mu      sync.Mutex
	held    map[string]*wire.Enrolment // by key
	objects map[string][]byte          // by key, as the store has them
	grown   bool                       // the file lacks some
}

func NewEnrolments(c *Chain) *enrolments {
	e := &enrolments{c: c, held: make(map[string]*wire.Enrolment), objects: make(map[string][]byte)}
	if file := e.file(); file != "" {
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &e.objects) != nil {
			e.objects = make(map[string][]byte) // the store has them all
		}
	}
	return e
}

// file is the cache's, of this director; empty: none.
func (e *enrolments) file() string {
	if e.c.Cache == "" {
		return ""
	}
	return filepath.Join(e.c.Cache, "enrolments-"+wire.Fingerprint(e.c.Director.Public)+".json")
}

// list is the highest epoch of each branch that the director has signed. What somebody else put there is passed over.
func (e *enrolments) list(ctx context.Context) (map[string]int64, error) {
	type candidate struct {
		branch string
		epoch  int64
	}
	var found []candidate
	for entry, err := range e.c.Store.List(ctx, wire.BoxesFolder) {
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, wire.BoxesFolder), "/")
		if n, ok := wire.NumberOf(entry.Key); ok && entry.Key == wire.BoxKey(name, n) && wire.CheckName(name) == nil {
			found = append(found, candidate{name, n})
		}
	}
	epochs := make(map[string]int64, len(found))
	var mu sync.Mutex
	err := together(len(found), func(i int) error {
		at := found[i]
		_, err := e.Get(ctx, at.branch, at.epoch)
		if Strangers(err) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			epochs[at.branch] = max(epochs[at.branch], at.epoch)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	e.save()
	return epochs, nil
}

// Strangers tells of an object that the director did not put there.
func Strangers(err error) bool {
	return errors.Is(err, wire.ErrSignature) || errors.Is(err, wire.ErrFormat) || errors.Is(err, wire.ErrOther) || errors.Is(err, wire.ErrTooLarge) || errors.Is(err, wire.ErrNotFound)
}

// Get is one enrolment, signed by the director.
func (e *enrolments) Get(ctx context.Context, branch string, epoch int64) (*wire.Enrolment, error) {
	key := wire.BoxKey(branch, epoch)
	e.mu.Lock()
	held, data := e.held[key], e.objects[key]
	e.mu.Unlock()
	if held != nil {
		return held, nil
	}
	fresh := data == nil
	if !fresh {
		var err error
		if held, err = wire.OpenEnrolment(data, []wire.Key{e.c.Director}, branch, epoch); err != nil {
			fresh = true // the cache is no authority
		}
	}
	if fresh {
		o, err := e.c.Store.Get(ctx, key, wire.MaxJWS)
		if err != nil {
			return nil, fmt.Errorf("reading enrolment %d of %s: %w", epoch, branch, err)
		}
		data = o.Data
		if held, err = wire.OpenEnrolment(data, []wire.Key{e.c.Director}, branch, epoch); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held[key] = held
	if fresh {
		e.objects[key], e.grown = data, true
	}
	return held, nil
}

// save writes the cache. One that cannot be written is made again from the store.
func (e *enrolments) save() {
	e.mu.Lock()
	defer e.mu.Unlock()
	file := e.file()
	if file == "" || !e.grown {
		return
	}
	text, err := json.Marshal(e.objects)
	if err == nil && os.MkdirAll(filepath.Dir(file), 0o700) == nil && config.WriteFile(file, text) == nil {
		e.grown = false
	}
}

// together does n things, as many at once as the store may be asked, and returns the first error, counted.
func together(n int, do func(int) error) error {
	var mu sync.Mutex
	var faults []error
	var all sync.WaitGroup
	room := make(chan struct{}, config.StoreConnections)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			if err := do(i); err != nil {
				mu.Lock()
				faults = append(faults, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(faults) > 1 {
		return fmt.Errorf("%d objects could not be read, one of them: %w", len(faults), faults[0])
	}
	return errors.Join(faults...)
}
