package disktest

import (
	"io"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

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
	if f.disk.tree.dead {
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
	if f.disk.tree.dead {
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

// SyncTo promises nothing, like sync_file_range.
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
