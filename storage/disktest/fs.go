package disktest

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Create implements vfs.FS. As on a real disk, a file of that name is removed first.
func (d *Disk) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.create(name)
}

// create is Create for a caller that holds mu.
func (d *Disk) create(name string) (vfs.File, error) {
	n, err := d.tree.create(name)
	if err != nil {
		return nil, err
	}
	return &file{disk: d, n: n, path: name, write: true}, nil
}

// Link implements vfs.FS.
func (d *Disk) Link(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tree.link(oldname, newname)
}

// Open implements vfs.FS.
func (d *Disk) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) { return d.open(name, false) }

// OpenDir implements vfs.FS.
func (d *Disk) OpenDir(name string) (vfs.File, error) { return d.open(name, false) }

func (d *Disk) open(name string, write bool) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.tree.node("open", name)
	if err != nil {
		return nil, err
	}
	return &file{disk: d, n: n, path: name, write: write}, nil
}

// OpenReadWrite implements vfs.FS. It makes the file when there is none.
func (d *Disk) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.open(name, true)
	if errors.Is(err, os.ErrNotExist) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.create(name)
	}
	return f, err
}

// Truncate gives a file another length, not durably.
func (d *Disk) Truncate(name string, length int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.tree.node("truncate", name)
	if err == nil && n.entries != nil {
		err = &os.PathError{Op: "truncate", Path: name, Err: syscall.EISDIR}
	}
	if err == nil {
		n.truncate(int(length))
	}
	return err
}

// Remove implements vfs.FS.
func (d *Disk) Remove(full string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tree.remove(full)
}

// RemoveAll implements vfs.FS, file by file.
func (d *Disk) RemoveAll(full string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tree.removeAll(full)
}

// Rename implements vfs.FS.
func (d *Disk) Rename(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tree.rename(oldname, newname)
}

// ReuseForWrite implements vfs.FS.
func (d *Disk) ReuseForWrite(oldname, newname string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return d.open(newname, true)
}

// MkdirAll implements vfs.FS.
func (d *Disk) MkdirAll(full string, _ os.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tree.mkdirAll(full)
}

// Lock implements vfs.FS. A second lock gives EAGAIN, as on Linux.
func (d *Disk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[name] {
		return nil, syscall.EAGAIN
	}
	if _, err := d.tree.node("lock", name); err != nil {
		if _, err := d.create(name); err != nil {
			return nil, err
		}
	}
	d.locks[name] = true
	return unlock(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locks, name)
	}), nil
}

type unlock func()

func (u unlock) Close() error {
	u()
	return nil
}

// List implements vfs.FS.
func (d *Disk) List(name string) (names []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.tree.node("list", name)
	if err != nil {
		return nil, err
	}
	for name := range n.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Stat implements vfs.FS.
func (d *Disk) Stat(name string) (vfs.FileInfo, error) {
	f, err := d.open(name, false)
	if err != nil {
		return nil, err
	}
	return f.Stat()
}

// PathBase implements vfs.FS.
func (*Disk) PathBase(p string) string { return path.Base(p) }

// PathJoin implements vfs.FS.
func (*Disk) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir implements vfs.FS.
func (*Disk) PathDir(p string) string { return path.Dir(p) }

// GetDiskUsage implements vfs.FS: it returns what SetUsage set, and otherwise an error.
func (d *Disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.usage == (vfs.DiskUsage{}) {
		return d.usage, vfs.ErrUnsupported
	}
	return d.usage, nil
}

// SetUsage sets what GetDiskUsage returns from now on.
func (d *Disk) SetUsage(u vfs.DiskUsage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.usage = u
}

// Unwrap implements vfs.FS.
func (*Disk) Unwrap() vfs.FS { return nil }
