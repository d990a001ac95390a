// Package fleettest has an object store in memory that can fail each request, and a shelf of rules, to test chains.
package fleettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
)

// Fault is the fault of a request.
type Fault int

const (
	None     Fault = iota
	Lost           // it never arrives; the caller gets ErrFault at once, as if its time were over
	Failed         // the store answers that it cannot now, and has done nothing
	Happened       // it is carried out, and the answer is lost
	Repeated       // it is carried out twice, and the second answer arrives
	Stale          // a Get returns the state before the last write: the previous object, or nothing
	Unread         // the store answers, but does not return the object
	Denied         // Unread, because the account may not read the object
)

// Faults lists the faults that may concern one request only.
var Faults = []Fault{Lost, Failed, Happened, Repeated, Stale}

func (f Fault) String() string {
	return [...]string{"none", "lost", "failed", "failed but happened", "repeated", "stale", "unread", "denied"}[f]
}

// ErrFault is the error of a request with a fault.
var ErrFault = errors.New("the store cannot now")

// Request is a request that arrived, or should have arrived.
type Request struct {
	Number int    // from 1
	Verb   string // create, put, get, list
	Key    string
	Bytes  int // of the body, in either direction
}

// Store is a fleetproto.Lister in memory. Its zero value is not usable: see New.
type Store struct {
	// Fault is asked before each request; nil lets every request pass.
	Fault func(Request) Fault
	// Hidden are keys that a List leaves out; nil: none.
	Hidden func(key string) bool
	// Seen is called with each request and its outcome, one at a time; nil: no call.
	Seen     func(Request, error)
	watching sync.Mutex
	now      func() time.Time

	mu       sync.Mutex
	objects  map[string]object
	requests int
}

type object struct {
	now, before *archive.Held // before: the object that a stale Get returns; nil: there was none
}

var _ fleetproto.Lister = (*Store)(nil)

// New returns an empty store whose clock is now.
func New(now func() time.Time) *Store {
	return &Store{now: now, objects: make(map[string]object)}
}

// request runs a request with the fault that s.Fault gives it; do is called with the lock held.
func (s *Store) request(ctx context.Context, verb, key string, size int, do func(Fault) (int, error)) error {
	s.mu.Lock()
	s.requests++
	r := Request{Number: s.requests, Verb: verb, Key: key, Bytes: size}
	ask, seen := s.Fault, s.Seen
	s.mu.Unlock()
	fault := None
	if ask != nil {
		fault = ask(r)
	}
	err := ctx.Err()
	if err == nil {
		switch fault {
		case Lost, Failed:
			err = fmt.Errorf("%w: %s %s: %s", ErrFault, verb, key, fault)
		case Unread:
			err = fmt.Errorf("%w: %s %s", archive.ErrUnread, verb, key)
		case Denied:
			err = fmt.Errorf("%w: %w: %s %s", archive.ErrUnread, archive.ErrSetup, verb, key)
		default:
			s.mu.Lock()
			r.Bytes, err = do(fault)
			if fault == Repeated {
				r.Bytes, err = do(fault)
			}
			s.mu.Unlock()
			if fault == Happened {
				err = fmt.Errorf("%w: %s %s: %s", ErrFault, verb, key, fault)
			}
		}
	}
	if seen != nil {
		s.watching.Lock()
		defer s.watching.Unlock() // seen may panic: a power cut
		seen(r, err)
	}
	return err
}

// Create implements fleetproto.Store.
func (s *Store) Create(ctx context.Context, key string, data []byte) error {
	return s.request(ctx, "create", key, len(data), func(Fault) (int, error) {
		if s.objects[key].now != nil {
			return 0, fmt.Errorf("creating %s: %w", key, archive.ErrExists)
		}
		s.write(key, data)
		return len(data), nil
	})
}

// Overwrite implements fleetproto.Store.
func (s *Store) Overwrite(ctx context.Context, key string, data []byte) error {
	return s.request(ctx, "put", key, len(data), func(Fault) (int, error) {
		s.write(key, data)
		return len(data), nil
	})
}

// Put writes an object, without a request and without a fault.
func (s *Store) Put(key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(key, data)
}

func (s *Store) write(key string, data []byte) {
	s.objects[key] = object{now: &archive.Held{Data: bytes.Clone(data), Modified: s.now()},
		before: s.objects[key].now}
}

// Fetch implements fleetproto.Store.
func (s *Store) Fetch(ctx context.Context, key string, limit int64) (held archive.Held, err error) {
	err = s.request(ctx, "get", key, 0, func(f Fault) (int, error) {
		o := s.objects[key].now
		if f == Stale {
			o = s.objects[key].before
		}
		if o == nil {
			return 0, fmt.Errorf("getting %s: %w", key, archive.ErrNotFound)
		}
		if int64(len(o.Data)) > limit {
			return 0, fmt.Errorf("getting %s: %w: %d bytes", key, archive.ErrTooLarge, len(o.Data))
		}
		held = archive.Held{Data: bytes.Clone(o.Data), Modified: o.Modified, Now: s.now()}
		return len(o.Data), nil
	})
	if err != nil {
		return archive.Held{}, err
	}
	return held, nil
}

// List implements fleetproto.Lister.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[archive.Object, error] {
	return s.ListAfter(ctx, prefix, "")
}

// ListAfter implements fleetproto.Lister.
func (s *Store) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[archive.Object, error] {
	return func(yield func(archive.Object, error) bool) {
		var list []archive.Object
		err := s.request(ctx, "list", prefix, 0, func(Fault) (int, error) {
			list = nil
			for _, key := range slices.Sorted(maps.Keys(s.objects)) {
				if s.Hidden != nil && s.Hidden(key) {
					continue
				}
				if o := s.objects[key].now; o != nil && strings.HasPrefix(key, prefix) && key > after {
					list = append(list, archive.Object{Key: key, Size: int64(len(o.Data)), Modified: o.Modified,
						Tag: fleetproto.Digest(o.Data)})
				}
			}
			return 0, nil
		})
		if err != nil {
			yield(archive.Object{}, err)
			return
		}
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Requests returns how many requests there were.
func (s *Store) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Held returns the object under a key, nil if there is none. It does not count as a request.
func (s *Store) Held(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[key].now; o != nil {
		return bytes.Clone(o.Data)
	}
	return nil
}

// Lose removes an object, as a faulty store may; no request can remove one.
func (s *Store) Lose(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

// Keys returns all keys under a prefix. It does not count as a request.
func (s *Store) Keys(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.objects)), func(key string) bool {
		return !strings.HasPrefix(key, prefix)
	})
}
