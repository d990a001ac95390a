package controlplane

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
	"dtegate/engine/fleet/fleetproto"
)

// enrolments are read once while the store gives them the same tag. They are kept in a file, and verified when they are
// read from it as when they come from the store.
type enrolments struct {
	c       *Chain
	mu      sync.Mutex
	held    map[string]*fleetproto.Enrolment // by key and tag
	objects map[string][]byte                // by key and tag, as the store has them
	foreign map[string]string                // tags of objects that the director did not sign, by key
	tags    map[string]string                // by key, as they were listed: the director may sign an enrolment again
	grown   bool                             // the file lacks some
}

// cached is the file. The store has all of it.
type cached struct {
	Objects map[string][]byte `json:"objects"`
	Foreign map[string]string `json:"foreign"`
}

func NewEnrolments(c *Chain) *enrolments {
	e := &enrolments{c: c, held: make(map[string]*fleetproto.Enrolment), objects: make(map[string][]byte),
		foreign: make(map[string]string),
		tags:    make(map[string]string)}
	var held cached
	if file := e.file(); file != "" {
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &held) == nil && held.Objects != nil &&
			held.Foreign != nil {
			e.objects, e.foreign = held.Objects, held.Foreign
		}
	}
	return e
}

// file is the cache's, of this director; empty: none.
func (e *enrolments) file() string {
	if e.c.Cache == "" {
		return ""
	}
	return filepath.Join(e.c.Cache, "enrolments-"+fleetproto.Fingerprint(e.c.Director.Public)+".json")
}

// list is the highest epoch of each branch that the director has signed. What somebody else put there is passed over.
func (e *enrolments) list(ctx context.Context) (map[string]int64, error) {
	type candidate struct {
		branch string
		epoch  int64
		tag    string
	}
	var found []candidate
	for entry, err := range e.c.Store.List(ctx, fleetproto.BoxesFolder) {
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, fleetproto.BoxesFolder), "/")
		if n, ok := fleetproto.NumberOf(entry.Key); ok && entry.Key == fleetproto.BoxKey(name, n) &&
			fleetproto.CheckName(name) == nil {
			found = append(found, candidate{name, n, entry.Tag})
			e.mu.Lock()
			e.tags[entry.Key] = entry.Tag
			e.mu.Unlock()
		}
	}
	epochs := make(map[string]int64, len(found))
	var mu sync.Mutex
	err := together(len(found), func(i int) error {
		at := found[i]
		key := fleetproto.BoxKey(at.branch, at.epoch)
		mu.Lock()
		foreign := at.tag != "" && e.foreign[key] == at.tag
		mu.Unlock()
		if foreign {
			return nil
		}
		_, err := e.Get(ctx, at.branch, at.epoch)
		mu.Lock()
		defer mu.Unlock()
		if Strangers(err) {
			e.foreign[key], e.grown = at.tag, true
			return nil
		}
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
	return errors.Is(err, fleetproto.ErrSignature) || errors.Is(err, fleetproto.ErrFormat) ||
		errors.Is(err, fleetproto.ErrOther) || errors.Is(err, fleetproto.ErrTooLarge) ||
		errors.Is(err, fleetproto.ErrNotFound)
}

// Get is one enrolment, signed by the director.
func (e *enrolments) Get(ctx context.Context, branch string, epoch int64) (*fleetproto.Enrolment, error) {
	key := fleetproto.BoxKey(branch, epoch)
	e.mu.Lock()
	tagged := key + " " + e.tags[key]
	held, data := e.held[tagged], e.objects[tagged]
	e.mu.Unlock()
	if held != nil {
		return held, nil
	}
	fresh := data == nil
	if !fresh {
		var err error
		if held, err = e.c.Identity.OpenEnrolment(data, []fleetproto.Key{e.c.Director}, branch, epoch); err != nil {
			fresh = true // the cache is no authority
		}
	}
	if fresh {
		o, err := e.c.Store.Get(ctx, key, fleetproto.MaxJWS)
		if err != nil {
			return nil, fmt.Errorf("reading enrolment %d of %s: %w", epoch, branch, err)
		}
		data = o.Data
		if held, err = e.c.Identity.OpenEnrolment(data, []fleetproto.Key{e.c.Director}, branch, epoch); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held[tagged] = held
	if fresh {
		e.objects[tagged], e.grown = data, true
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
	text, err := json.Marshal(cached{e.objects, e.foreign})
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
