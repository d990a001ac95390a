// Package disktest is a disk for tests: a filesystem in memory that knows what a power cut leaves of it, fails syncs as
// Linux does, and rots. It is the one place where this module's tests say what they expect of a disk.
//
// # Power cuts
//
// Crash returns the disk as a power cut at that moment can leave it. Three sets of rules say which unsynced changes may
// survive:
//
//	Ordered       ext4 with data=ordered. Changes of folders reach the disk in the order in which they were made: a cut
//	              loses only the last of them. Every sync, of any file, makes all earlier changes durable. Of appended
//	              bytes a beginning survives.
//	CreationOnly  Of the unsynced changes of folders, any new entry may or may not survive; no removal does. Pebble's
//	              own MemFS has these rules.
//	Strict        POSIX promises no more: each unsynced change of a folder may survive or not, in any combination. Only
//	              a sync of the folder makes its entries durable; a sync of a file does not. A rename is one change, so
//	              that a file never loses both of its names. Each sector of 512 bytes that was written and not synced
//	              may survive or not; the sectors between read as zeros.
//
// # Failed syncs
//
// A sync that fails, by OnSync, leaves its pages clean, as Linux does: they can still be read, every later sync
// succeeds without writing them, and the next power cut, or Evict, shows what is on the medium. A page that is written
// again is dirty again. If the sync of a folder fails, no later sync makes its changes durable; a power cut may keep or
// lose them.
//
// # Rot
//
// Flip inverts a bit, on the medium and in memory.
package disktest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Rules say what a power cut may do to what was not synced.
type Rules int

// The sets of rules; the package's comment has their meaning.
const (
	Ordered Rules = iota
	CreationOnly
	Strict
)

// AllRules are the three, from the kindest to the harshest.
var AllRules = []Rules{Ordered, CreationOnly, Strict}

func (r Rules) String() string { return [...]string{"ordered", "creation-only", "strict"}[r] }

// Disk is a filesystem in memory. It implements vfs.FS; its methods may be called from many goroutines.
type Disk struct {
	mu     sync.Mutex // guards everything below
	tree   tree
	locks  map[string]bool
	onSync func(path string) error
	usage  vfs.DiskUsage
}

// New returns an empty disk.
func New(rules Rules) *Disk {
	return &Disk{tree: tree{rules: rules, root: newFolder()}, locks: make(map[string]bool)}
}

// SetRules sets what a power cut may do from now on.
func (d *Disk) SetRules(r Rules) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tree.rules = r
}

// OnSync makes every sync of a file or folder call fn first, with the path. If fn returns an error, the sync fails with
// it. If fn is nil, no sync fails.
func (d *Disk) OnSync(fn func(path string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onSync = fn
}

// FailSyncs makes the first n syncs of the paths that match fail. The function that it returns counts the failed syncs.
func (d *Disk) FailSyncs(n int, err error, match func(path string) bool) (failed func() int) {
	var mu sync.Mutex
	count := 0
	d.OnSync(func(path string) error {
		mu.Lock()
		defer mu.Unlock()
		if count >= n || !match(path) {
			return nil
		}
		count++
		return err
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// Crash returns the disk as a power cut now can leave it. Percent is the chance of each unsynced change to survive: at
// 0 the medium holds what was synced and nothing else, at 100 all that the rules let survive. The new disk has no
// faults.
func (d *Disk) Crash(percent int, rng *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := New(d.tree.rules)
	copies := make(map[*node]*node)
	kept := make(map[*node]map[string]*node) // entries of the folders that an unsynced change reaches
	for _, o := range d.tree.surviving(percent, rng) {
		entries := kept[o.dir]
		if entries == nil {
			entries = maps.Clone(o.dir.durable)
			kept[o.dir] = entries
		}
		o.apply(entries)
	}
	after.tree.root = d.tree.root.crash(d.tree.rules, percent, rng, kept, copies)
	return after
}

// sync makes a node durable, or fails as Linux does.
func (d *Disk) sync(path string, n *node) error {
	d.mu.Lock()
	fn, dead := d.onSync, d.tree.dead
	d.mu.Unlock()
	if dead {
		return ErrKilled
	}
	var err error
	if fn != nil {
		err = fn(path) // outside of the lock: it may wait
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.tree.lose(n)
		return err
	}
	if d.tree.dead {
		return ErrKilled
	}
	n.write()
	d.tree.settle(n)
	return nil
}

// Copy returns the disk as programs see it now, with everything durable: as kill -9 leaves it, not as a power cut does.
func (d *Disk) Copy() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := New(d.tree.rules)
	after.tree.root = d.tree.root.copy(make(map[*node]*node))
	return after
}

// Kill ends the process that uses the disk and returns the disk for the next process: what Linux holds in memory is
// still there, what was not synced is still not durable, faults and locks are gone. Every operation of d fails.
func (d *Disk) Kill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tree.dead = true
	after := New(d.tree.rules)
	after.tree, after.usage = d.tree, d.usage
	after.tree.dead = false
	return after
}

// ErrKilled is the error of every operation on a disk after Kill.
var ErrKilled = errors.New("the process was killed")

// Evict drops the memory's copy of clean pages: a read sees the medium.
func (d *Disk) Evict() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tree.walk(func(_ string, n *node) { n.evict() })
}

// Flip inverts one bit of a file, counted from its beginning.
func (d *Disk) Flip(path string, bit int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir, name, err := d.tree.find("flip", path)
	if err != nil {
		return err
	}
	n := dir.entries[name]
	if n == nil || n.entries != nil || bit/8 >= int64(len(n.data.b)) {
		return fmt.Errorf("disktest: %s has no bit %d", path, bit)
	}
	n.data.own()[bit/8] ^= 1 << (bit % 8)
	if bit/8 < int64(len(n.medium.b)) {
		n.medium.own()[bit/8] ^= 1 << (bit % 8)
	}
	return nil
}

// Files lists the paths of all files, in order.
func (d *Disk) Files() (paths []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tree.walk(func(path string, n *node) {
		if n.entries == nil {
			paths = append(paths, path)
		}
	})
	return paths
}

var _ vfs.FS = (*Disk)(nil)
