package disktest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
)

// tree has the content of a disk, and the changes of folders that are not durable yet. Its callers hold Disk.mu.
type tree struct {
	rules  Rules
	root   *node
	ops    []op // changes of folders that are not durable, in their order
	groups int
	dead   bool // after Kill: every operation fails
}

// op is one change of one folder's entry.
type op struct {
	dir   *node
	name  string
	to    *node // nil: the entry is removed
	from  *node // of a removal: what it removed
	group int   // the two halves of a rename have the same group
	lost  bool  // a sync of the folder failed: no later sync makes the change durable
}

// apply makes the change in a folder's entries. A removal removes only the file that had the name at that time, not a
// later file of the same name.
func (o op) apply(entries map[string]*node) {
	switch {
	case o.to != nil:
		entries[o.name] = o.to
	case entries[o.name] == o.from:
		delete(entries, o.name)
	}
}

// find returns the folder that a path stands in, and its name there.
func (t *tree) find(verb, full string) (dir *node, name string, err error) {
	if t.dead {
		return nil, "", ErrKilled
	}
	dir = t.root
	parts := strings.FieldsFunc(full, func(r rune) bool { return r == '/' })
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "." })
	if len(parts) == 0 {
		return t.root, "", nil
	}
	for _, part := range parts[:len(parts)-1] {
		if dir = dir.entries[part]; dir == nil || dir.entries == nil {
			return nil, "", &os.PathError{Op: verb, Path: full, Err: os.ErrNotExist}
		}
	}
	return dir, parts[len(parts)-1], nil
}

// node returns what a path names.
func (t *tree) node(verb, full string) (*node, error) {
	dir, name, err := t.find(verb, full)
	if err != nil {
		return nil, err
	}
	n := dir.entries[name]
	if name == "" {
		n = t.root
	}
	if n == nil {
		return nil, &os.PathError{Op: verb, Path: full, Err: os.ErrNotExist}
	}
	return n, nil
}

// create makes an empty file. A file of that name is removed first.
func (t *tree) create(full string) (*node, error) {
	dir, name, err := t.find("create", full)
	if err != nil {
		return nil, err
	}
	if old := dir.entries[name]; old != nil && old.entries != nil {
		return nil, &os.PathError{Op: "create", Path: full, Err: syscall.EISDIR}
	} else if old != nil {
		t.change(dir, name, nil, t.group())
	}
	n := newFile()
	t.change(dir, name, n, t.group())
	return n, nil
}

// link gives a node a second name.
func (t *tree) link(oldname, newname string) error {
	n, err := t.node("link", oldname)
	if err != nil {
		return err
	}
	dir, name, err := t.find("link", newname)
	if err != nil {
		return err
	}
	if dir.entries[name] != nil {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: os.ErrExist}
	}
	t.change(dir, name, n, t.group())
	return nil
}

// remove takes away a file or an empty folder.
func (t *tree) remove(full string) error {
	n, err := t.node("remove", full)
	if err != nil {
		return err
	}
	if len(n.entries) > 0 {
		return &os.PathError{Op: "remove", Path: full, Err: syscall.ENOTEMPTY}
	}
	dir, name, err := t.find("remove", full)
	if err == nil {
		t.change(dir, name, nil, t.group())
	}
	return err
}

// removeAll removes a file, or a folder with everything below it: one change for each.
func (t *tree) removeAll(full string) error {
	dir, name, err := t.find("removeall", full)
	if errors.Is(err, os.ErrNotExist) || err == nil && dir.entries[name] == nil {
		return nil // as os.RemoveAll
	}
	if err != nil {
		return err
	}
	var remove func(dir *node, name string)
	remove = func(dir *node, name string) {
		n := dir.entries[name]
		for _, child := range slices.Sorted(maps.Keys(n.entries)) {
			remove(n, child)
		}
		t.change(dir, name, nil, t.group())
	}
	remove(dir, name)
	return nil
}

// mkdirAll makes the missing folders of a path: one change for each.
func (t *tree) mkdirAll(full string) error {
	if t.dead {
		return ErrKilled
	}
	dir := t.root
	for _, name := range strings.FieldsFunc(full, func(r rune) bool { return r == '/' }) {
		if name == "." {
			continue
		}
		n := dir.entries[name]
		if n == nil {
			n = newFolder()
			t.change(dir, name, n, t.group())
		}
		if n.entries == nil {
			return &os.PathError{Op: "mkdir", Path: full, Err: syscall.ENOTDIR}
		}
		dir = n
	}
	return nil
}

// rename moves an entry: one change of two folders.
func (t *tree) rename(oldname, newname string) error {
	n, err := t.node("rename", oldname)
	if err != nil {
		return err
	}
	from, old, err := t.find("rename", oldname)
	if err != nil {
		return err
	}
	to, name, err := t.find("rename", newname)
	if err != nil {
		return err
	}
	if there := to.entries[name]; there != nil && len(there.entries) > 0 {
		return &os.PathError{Op: "rename", Path: newname, Err: syscall.ENOTEMPTY}
	}
	group := t.group()
	t.change(to, name, n, group)
	t.change(from, old, nil, group)
	return nil
}

// surviving picks the unsynced changes that a power cut leaves.
func (t *tree) surviving(percent int, rng *rand.Rand) (list []op) {
	lucky := func() bool { return percent >= 100 || percent > 0 && rng.IntN(100) < percent }
	switch t.rules {
	case Ordered:
		n := 0
		if percent >= 100 {
			n = len(t.ops)
		} else if percent > 0 {
			n = rng.IntN(len(t.ops) + 1)
		}
		if n > 0 && n < len(t.ops) && t.ops[n].group == t.ops[n-1].group {
			n++ // never half a rename
		}
		return t.ops[:n]
	case CreationOnly:
		for _, o := range t.ops {
			if o.to != nil && lucky() {
				list = append(list, o)
			}
		}
	case Strict:
		chosen := make(map[int]bool)
		for _, o := range t.ops {
			survives, decided := chosen[o.group]
			if !decided {
				survives = lucky()
				chosen[o.group] = survives
			}
			if survives {
				list = append(list, o)
			}
		}
	}
	return list
}

// change alters a folder's entry, not durably.
func (t *tree) change(dir *node, name string, to *node, group int) {
	o := op{dir: dir, name: name, to: to, from: dir.entries[name], group: group}
	t.ops = append(t.ops, o)
	if to == nil {
		delete(dir.entries, name)
	} else {
		dir.entries[name] = to
	}
}

// group returns a new number, for changes that a power cut does not separate.
func (t *tree) group() int {
	t.groups++
	return t.groups
}

// settle makes changes of folders durable: all of them under Ordered, else those of the folder that was synced.
func (t *tree) settle(synced *node) {
	t.ops = slices.DeleteFunc(t.ops, func(o op) bool {
		if o.lost || t.rules != Ordered && o.dir != synced {
			return false
		}
		o.apply(o.dir.durable)
		return true
	})
}

// lose marks the changes of a failed sync: they count as written, but are not on the medium.
func (t *tree) lose(synced *node) {
	clear(synced.dirty)
	for i := range t.ops {
		if t.ops[i].dir == synced {
			t.ops[i].lost = true
		}
	}
}

// walk calls fn for every file and folder, in order.
func (t *tree) walk(fn func(path string, n *node)) {
	var down func(path string, n *node)
	down = func(path string, n *node) {
		fn(strings.TrimPrefix(path, "/"), n)
		for _, name := range slices.Sorted(maps.Keys(n.entries)) {
			down(path+"/"+name, n.entries[name])
		}
	}
	down("", t.root)
}
