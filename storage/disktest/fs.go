package disktest

import (
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// find returns the folder that a path stands in, and its name there.
func (d *Disk) find(verb, full string) (dir *node, name string, err error) {
	if d.dead {
		return nil, "", ErrKilled
	}
	dir = d.root
	parts := strings.FieldsFunc(full, func(r rune) bool { return r == '/' })
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "." })
	if len(parts) == 0 {
		return d.root, "", nil
	}
	for _, part := range parts[:len(parts)-1] {
		if dir = dir.entries[part]; dir == nil || dir.entries == nil {
			return nil, "", &os.PathError{Op: verb, Path: full, Err: os.ErrNotExist}
		}
	}
	return dir, parts[len(parts)-1], nil
}

// node returns what a path names.
func (d *Disk) node(verb, full string) (*node, error) {
	dir, name, err := d.find(verb, full)
	if err != nil {
		return nil, err
	}
	n := dir.entries[name]
	if name == "" {
		n = d.root
	}
	if n == nil {
		return nil, &os.PathError{Op: verb, Path: full, Err: os.ErrNotExist}
	}
	return n, nil
}

// Create implements vfs.FS. As on a real disk, a file of that name is removed first.
func (d *Disk) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.create(name)
}

func (d *Disk) create(full string) (vfs.File, error) {
	dir, name, err := d.find("create", full)
	if err != nil {
		return nil, err
	}
	if old := dir.entries[name]; old != nil && old.entries != nil {
		return nil, &os.PathError{Op: "create", Path: full, Err: syscall.EISDIR}
	} else if old != nil {
		d.change(dir, name, nil, d.group())
	}
	n := newFile()
	d.change(dir, name, n, d.group())
	return &file{disk: d, n: n, path: full, write: true}, nil
}

// Link implements vfs.FS.
func (d *Disk) Link(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.node("link", oldname)
	if err != nil {
		return err
	}
	dir, name, err := d.find("link", newname)
	if err != nil {
		return err
	}
	if dir.entries[name] != nil {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: os.ErrExist}
	}
	d.change(dir, name, n, d.group())
	return nil
}

// Open implements vfs.FS.
func (d *Disk) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) { return d.open(name, false) }

// OpenDir implements vfs.FS.
func (d *Disk) OpenDir(name string) (vfs.File, error) { return d.open(name, false) }

func (d *Disk) open(name string, write bool) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.node("open", name)
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
	n, err := d.node("truncate", name)
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
	n, err := d.node("remove", full)
	if err != nil {
		return err
	}
	if len(n.entries) > 0 {
		return &os.PathError{Op: "remove", Path: full, Err: syscall.ENOTEMPTY}
	}
	dir, name, err := d.find("remove", full)
	if err == nil {
		d.change(dir, name, nil, d.group())
	}
	return err
}

// RemoveAll implements vfs.FS, file by file.
func (d *Disk) RemoveAll(full string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir, name, err := d.find("removeall", full)
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
		d.change(dir, name, nil, d.group())
	}
	remove(dir, name)
	return nil
}

// Rename implements vfs.FS.
func (d *Disk) Rename(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rename(oldname, newname)
}

func (d *Disk) rename(oldname, newname string) error {
	n, err := d.node("rename", oldname)
	if err != nil {
		return err
	}
	from, old, err := d.find("rename", oldname)
	if err != nil {
		return err
	}
	to, name, err := d.find("rename", newname)
	if err != nil {
		return err
	}
	if there := to.entries[name]; there != nil && len(there.entries) > 0 {
		return &os.PathError{Op: "rename", Path: newname, Err: syscall.ENOTEMPTY}
	}
	group := d.group()
	d.change(to, name, n, group)
	d.change(from, old, nil, group)
	return nil
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
	if d.dead {
		return ErrKilled
	}
	dir := d.root
	for _, name := range strings.FieldsFunc(full, func(r rune) bool { return r == '/' }) {
		if name == "." {
			continue
		}
		n := dir.entries[name]
		if n == nil {
			n = newFolder()
			d.change(dir, name, n, d.group())
		}
		if n.entries == nil {
			return &os.PathError{Op: "mkdir", Path: full, Err: syscall.ENOTDIR}
		}
		dir = n
	}
	return nil
}

// Lock implements vfs.FS. A second lock gives EAGAIN, as on Linux.
func (d *Disk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[name] {
		return nil, syscall.EAGAIN
	}
	if _, err := d.node("lock", name); err != nil {
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
	n, err := d.node("list", name)
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

// GetDiskUsage implements vfs.FS: what SetUsage said; without that the disk has no size.
func (d *Disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.usage == (vfs.DiskUsage{}) {
		return d.usage, vfs.ErrUnsupported
	}
	return d.usage, nil
}

// SetUsage is what GetDiskUsage returns from now on.
func (d *Disk) SetUsage(u vfs.DiskUsage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.usage = u
}

// Unwrap implements vfs.FS.
func (*Disk) Unwrap() vfs.FS { return nil }

// file is an open file or folder.
type file struct {
	disk  *Disk
	n     *node
	path  string
	at    int
	write bool
}

func (f *file) Close() error { return nil }

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, int64(f.at))
	f.at += n
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.dead {
		return 0, ErrKilled
	}
	if f.n.entries != nil {
		return 0, &os.PathError{Op: "read", Path: f.path, Err: syscall.EISDIR}
	}
	if at >= int64(len(f.n.data.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data.b[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, int64(f.at))
	f.at += n
	return n, err
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.dead {
		return 0, ErrKilled
	}
	if !f.write || f.n.entries != nil {
		return 0, &os.PathError{Op: "write", Path: f.path, Err: syscall.EBADF}
	}
	f.n.writeAt(p, int(at))
	return len(p), nil
}

func (f *file) Stat() (vfs.FileInfo, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return info{name: path.Base(f.path), size: int64(len(f.n.data.b)), folder: f.n.entries != nil}, nil
}

func (f *file) Sync() error     { return f.disk.sync(f.path, f.n) }
func (f *file) SyncData() error { return f.disk.sync(f.path, f.n) }

// SyncTo promises nothing, as sync_file_range.
func (f *file) SyncTo(int64) (bool, error)     { return false, nil }
func (f *file) Prefetch(int64, int64) error    { return nil }
func (f *file) Preallocate(int64, int64) error { return nil }
func (f *file) Fd() uintptr                    { return vfs.InvalidFd }

type info struct {
	name   string
	size   int64
	folder bool
}

func (i info) Name() string { return i.name }
func (i info) Size() int64  { return i.size }
func (i info) Mode() os.FileMode {
	if i.folder {
		return os.ModeDir | 0o700
	}
	return 0o600
}
func (i info) ModTime() time.Time     { return time.Time{} }
func (i info) IsDir() bool            { return i.folder }
func (i info) Sys() any               { return nil }
func (i info) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
