package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"dtegate/cmd/dted/config"
	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
)

// A store may lose an object, or return an older object in its place, and no signature shows this. The centre's own
// disk therefore keeps the number of each branch's newest status, and the enrolments and versions that it has seen.

// seen describes the statuses and acts of a branch that the centre has read.
type seen struct {
	Epoch    int64     `json:"epoch"`
	Sequence int64     `json:"sequence"`          // number of that epoch's newest status
	At       time.Time `json:"at,omitzero"`       // when that status was signed
	Twice    bool      `json:"twice,omitempty"`   // another status had the same number
	Acts     int64     `json:"acts,omitempty"`    // last act looked for, or skipped because maxMissing are missing
	Missing  []int64   `json:"missing,omitempty"` // numbers, up to Acts, of the acts that the store lacks
}

const seenFile = "seen"

const maxMissing = 10 // once so many acts of a branch are missing, the survey looks for none of its later acts

// cached returns the path of a cache file or folder of this chain, whatever the director's key.
func (c *Chain) cached(name string) string {
	return filepath.Join(c.Cache, name+"-"+c.Identity.Name+"-"+c.Identity.Ambiente)
}

// recall reads a file of the cache, if the file exists: each time, because another process may have written the file.
func (c *Chain) recall(name string, into any) error {
	text, err := os.ReadFile(c.cached(name))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what this centre has seen: %w", err)
	}
	return nil
}

func (c *Chain) remember(name string, v any) error {
	text, err := json.Marshal(v)
	if err = cmp.Or(err, os.MkdirAll(c.Cache, 0o700)); err == nil {
		err = config.WriteFile(c.cached(name), text)
	}
	if err != nil {
		return fmt.Errorf("writing what this centre has seen: %w", err)
	}
	return nil
}

// versionFile returns the file of a group's version that this centre published or read.
func (c *Chain) versionFile(group string, version int64) string {
	return filepath.Join(c.cached("desired"), group, strconv.FormatInt(version, 10)+".jws")
}

// keepVersion keeps the bytes of a version that the director has signed. It never replaces a kept version, and ignores
// errors: the method remember reports an error of the folder.
func (c *Chain) keepVersion(group string, version int64, data []byte) {
	file := c.versionFile(group, version)
	if _, err := os.Stat(file); err == nil || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	_ = config.WriteFile(file, data)
}

func (c *Chain) keptVersions(group string) (numbers []int64) {
	entries, _ := os.ReadDir(filepath.Dir(c.versionFile(group, 1))) // no folder: nothing was kept
	for _, e := range entries {
		if n, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), ".jws"), 10, 64); err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

func (c *Chain) keptGroups() (groups []string) {
	entries, _ := os.ReadDir(c.cached("desired"))
	for _, e := range entries {
		if fleetproto.CheckName(e.Name()) == nil {
			groups = append(groups, e.Name())
		}
	}
	return groups
}

func (c *Chain) kept(group string, version int64) ([]byte, error) {
	data, err := os.ReadFile(c.versionFile(group, version))
	if err != nil {
		return nil, err
	}
	_, err = c.Identity.OpenDesired(data, c.keys(), group, version)
	return data, err
}

// enrolments reads an enrolment from the store once for each tag that the store lists. It keeps the objects in a file,
// and verifies them as strictly as objects from the store.
type enrolments struct {
	c    *Chain
	mu   sync.Mutex
	near []object                         // as listed, by branch and epoch; without epochs far above the one before
	tags map[string]string                // tags of the objects in near, by key: the director may sign one again
	read map[string]*fleetproto.Enrolment // by key and tag
	// unread has the last epoch of each branch whose enrolment the store lists and does not return.
	unread map[string]int64
	// objects is the file's content. An entry under an object's key + " " + tag has the bytes that the director signed.
	// An empty entry under key + " " + tag + asked() means that no present key of the director signed the object.
	objects map[string][]byte
	grown   bool // the file must be written again
}

// enrolmentsFile is the cache file for enrolments. rekeyedFile is the cache file for the director's key that has signed
// all enrolments again.
const (
	enrolmentsFile = "enrolments"
	rekeyedFile    = "rekeyed"
)

func newEnrolments(c *Chain) *enrolments {
	e := &enrolments{c: c, tags: make(map[string]string), read: make(map[string]*fleetproto.Enrolment)}
	if err := c.recall(enrolmentsFile, &e.objects); err != nil || e.objects == nil {
		e.objects = make(map[string][]byte)
	}
	return e
}

// asked identifies the director's present keys and the present hour: the store is asked again for an object that they
// have not signed, because it may have returned other bytes once.
func (e *enrolments) asked() string {
	return " " + fleetproto.Digest(fmt.Append(nil, e.c.keys(), e.c.Now().Truncate(time.Hour)))
}

// list returns each branch's highest epoch that the director has signed. It skips objects of other authors, and epochs
// more than maxForeign above the epoch before. It returns 0 for a branch whose only enrolments are unread.
func (e *enrolments) list(ctx context.Context) (map[string]int64, error) {
	var found []object
	clear(e.tags)
	e.unread = make(map[string]int64)
	for o, err := range e.c.objects(ctx, fleetproto.BoxesFolder, fleetproto.BoxKey) {
		if err != nil {
			return nil, err
		}
		found = append(found, o)
	}
	slices.SortFunc(found, func(a, b object) int {
		return cmp.Or(strings.Compare(a.owner, b.owner), cmp.Compare(a.number, b.number))
	})
	last := object{}
	e.near = nil
	for _, o := range found {
		if o.owner != last.owner {
			last = object{owner: o.owner}
		}
		if o.number-last.number <= maxForeign { // otherwise a thief wrote the object, to slow the centre down
			last, e.near, e.tags[o.Key] = o, append(e.near, o), o.Tag
		}
	}
	epochs := make(map[string]int64, len(e.near))
	var mu sync.Mutex
	err := together(len(e.near), func(i int) error {
		o := e.near[i]
		_, err := e.get(ctx, o.owner, o.number)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			epochs[o.owner] = max(epochs[o.owner], o.number)
		case errors.Is(err, archive.ErrUnread):
			epochs[o.owner], e.unread[o.owner] = max(epochs[o.owner], 0), max(e.unread[o.owner], o.number)
		case !foreign(err):
			return err
		}
		return nil
	})
	if e.grown { // also after an error: the next list goes on from here
		_ = e.c.recall(enrolmentsFile, &e.objects) // adds what another process has read
		asked := e.asked()
		maps.DeleteFunc(e.objects, func(at string, data []byte) bool {
			return len(data) == 0 && !strings.HasSuffix(at, asked)
		})
		e.grown = e.c.remember(enrolmentsFile, e.objects) != nil
	}
	return epochs, err
}

// of returns a branch's epochs of the list, the highest first. A thief may have left gaps between them.
func (e *enrolments) of(branch string) (epochs []int64) {
	for _, o := range slices.Backward(e.near) {
		if o.owner == branch {
			epochs = append(epochs, o.number)
		}
	}
	return epochs
}

// lost returns, by key, the kept enrolments that the store has lost, or has only with an earlier signature.
func (e *enrolments) lost() map[string][]byte {
	lost, signed := make(map[string][]byte), make(map[string]time.Time)
	for tagged, data := range e.objects {
		key, _, _ := strings.Cut(tagged, " ")
		branch, _, _ := strings.Cut(strings.TrimPrefix(key, fleetproto.BoxesFolder), "/")
		epoch, _ := fleetproto.NumberOf(key)
		there := key + " " + e.tags[key]
		held := e.read[there]
		if held != nil && tagged == there {
			continue
		}
		keys := e.c.keys()
		if _, err := e.c.Identity.OpenEnrolment(e.objects[there], keys[:1], branch, epoch); err == nil {
			keys = keys[:1] // the present key signed the store's object: any object of a former key is older
		}
		kept, err := e.c.Identity.OpenEnrolment(data, keys, branch, epoch)
		if err == nil && !kept.At.Before(signed[key]) && (held == nil || kept.At.After(held.At)) {
			lost[key], signed[key] = data, kept.At
		}
	}
	return lost
}

// putBack writes a lost enrolment. It overwrites any other object under that key, except an enrolment of the same time
// or later: the director's new key may have signed it, and this machine may not know that key.
func (c *Chain) putBack(ctx context.Context, key string, data []byte) error {
	err := c.CreateOnce(ctx, key, data)
	if !errors.Is(err, archive.ErrExists) {
		return err
	}
	held, failed := c.Store.Fetch(ctx, key, fleetproto.MaxJWS)
	if failed != nil && !errors.Is(failed, archive.ErrTooLarge) {
		return failed
	}
	branch, _, _ := strings.Cut(strings.TrimPrefix(key, fleetproto.BoxesFolder), "/")
	epoch, _ := fleetproto.NumberOf(key)
	kept, fault := c.Identity.ReadEnrolment(data, branch, epoch)
	if there, other := c.Identity.ReadEnrolment(held.Data, branch, epoch); fault == nil &&
		(other != nil || there.At.Before(kept.At)) {
		return c.Store.Overwrite(ctx, key, data)
	}
	return err
}

// get returns the enrolment of a branch's epoch, or an error if the director has not signed it.
func (e *enrolments) get(ctx context.Context, branch string, epoch int64) (*fleetproto.Enrolment, error) {
	key := fleetproto.BoxKey(branch, epoch)
	e.mu.Lock()
	tag := e.tags[key]
	tagged := key + " " + tag
	held, data := e.read[tagged], e.objects[tagged]
	_, refused := e.objects[tagged+e.asked()]
	e.mu.Unlock()
	if held != nil {
		return held, nil
	}
	held, err := e.c.Identity.OpenEnrolment(data, e.c.keys(), branch, epoch)
	if err != nil && refused {
		return nil, fleetproto.ErrSignature
	}
	if err != nil {
		o, failed := e.c.Store.Fetch(ctx, key, fleetproto.MaxJWS)
		if failed != nil && !errors.Is(failed, archive.ErrTooLarge) {
			return nil, fmt.Errorf("reading enrolment %d of %s: %w", epoch, branch, failed)
		}
		at, data := tagged, o.Data
		if held, err = e.c.Identity.OpenEnrolment(data, e.c.keys(), branch, epoch); err != nil {
			at, data = tagged+e.asked(), nil
		}
		if tag != "" {
			e.mu.Lock()
			e.objects[at], e.grown = data, true
			e.mu.Unlock()
		}
	}
	if err == nil {
		e.mu.Lock()
		e.read[tagged] = held
		e.mu.Unlock()
	}
	return held, err
}

// together calls a function n times, at most StoreConnections calls at once, and returns the first error.
func together(n int, do func(int) error) error {
	var all errgroup.Group
	all.SetLimit(config.StoreConnections)
	for i := range n {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}
