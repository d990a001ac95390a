// Package mounted mounts a disk of disktest as a folder of this machine, by FUSE: unchanged programs can use the disk.
// What a program did not sync is forgotten by Disk.Crash, as a power cut does.
//
// A write reaches the disk when the program makes it, not later: the kernel keeps no pages. Owners, modes and times are
// not kept.
package mounted

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"dtegate/storage/disktest"
)

// Mount shows the disk at a folder that exists, until the returned function is called. It needs /dev/fuse and the right
// to mount.
func Mount(disk *disktest.Disk, at string) (unmount func() error, err error) {
	long, none := time.Hour, time.Duration(0)
	root := &node{disk: disk}
	// the kernel may cache entries for long: all changes go through this mount
	server, err := fs.Mount(at, root, &fs.Options{EntryTimeout: &long, AttrTimeout: &none, NegativeTimeout: &none,
		MountOptions: fuse.MountOptions{DirectMountStrict: true, DisableXAttrs: true, FsName: "disktest",
			Name: "disktest"}})
	if err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error {
		for deadline := time.Now().Add(patience); ; {
			err := server.Unmount() // which tries for 0.3 s
			if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
				return err
			}
		}
	}), nil
}

// patience is how long a folder may be busy: a process that has just been forked holds the files of its parent.
const patience = 15 * time.Second

// node is a file or a folder: the mount's tree has its path.
type node struct {
	fs.Inode
	disk *disktest.Disk
}

// handle is an open file. It stays readable when its name is gone.
type handle struct{ vfs.File }

var (
	_ fs.NodeLookuper  = (*node)(nil)
	_ fs.NodeGetattrer = (*node)(nil)
	_ fs.NodeSetattrer = (*node)(nil)
	_ fs.NodeReaddirer = (*node)(nil)
	_ fs.NodeMkdirer   = (*node)(nil)
	_ fs.NodeCreater   = (*node)(nil)
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
	_ fs.NodeWriter    = (*node)(nil)
	_ fs.NodeFsyncer   = (*node)(nil)
	_ fs.NodeAllocater = (*node)(nil)
	_ fs.NodeUnlinker  = (*node)(nil)
	_ fs.NodeRmdirer   = (*node)(nil)
	_ fs.NodeRenamer   = (*node)(nil)
	_ fs.NodeLinker    = (*node)(nil)
	_ fs.NodeStatfser  = (*node)(nil)
)

func (n *node) path(name string) string {
	if name == "" {
		return n.Path(nil)
	}
	return n.Path(nil) + "/" + name
}

// errno returns the error number that a program sees for a disk's error.
func errno(err error) syscall.Errno {
	var number syscall.Errno
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return 0
	case errors.As(err, &number):
		return number
	case errors.Is(err, os.ErrNotExist):
		return syscall.ENOENT
	case errors.Is(err, os.ErrExist):
		return syscall.EEXIST
	}
	return syscall.EIO
}

func attributes(info vfs.FileInfo, out *fuse.Attr) {
	out.Mode, out.Nlink = mode(info), 1
	out.Size = uint64(info.Size())
	out.Blocks, out.Blksize = (out.Size+511)/512, 4096
}

func mode(info vfs.FileInfo) uint32 {
	if info.IsDir() {
		return syscall.S_IFDIR | 0o700
	}
	return syscall.S_IFREG | 0o600
}

// child returns the mount's node for a name, with its attributes in out.
func (n *node) child(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	info, err := n.disk.Stat(n.path(name))
	if err != nil {
		return nil, errno(err)
	}
	attributes(info, &out.Attr)
	if known := n.GetChild(name); known != nil && known.Mode() == mode(info)&syscall.S_IFMT {
		return known, 0
	}
	return n.NewInode(ctx, &node{disk: n.disk}, fs.StableAttr{Mode: mode(info) & syscall.S_IFMT}), 0
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.child(ctx, name, out)
}

func (n *node) Getattr(_ context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	info, err := n.stat(f)
	if err == nil {
		attributes(info, &out.Attr)
	}
	return errno(err)
}

func (n *node) stat(f fs.FileHandle) (vfs.FileInfo, error) {
	if h, ok := f.(*handle); ok {
		return h.Stat()
	}
	return n.disk.Stat(n.path(""))
}

// Setattr changes only sizes.
func (n *node) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if err := n.disk.Truncate(n.path(""), int64(size)); err != nil {
			return errno(err)
		}
	}
	return n.Getattr(ctx, f, out)
}

func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	names, err := n.disk.List(n.path(""))
	var list []fuse.DirEntry
	for _, name := range names {
		if info, err := n.disk.Stat(n.path(name)); err == nil {
			list = append(list, fuse.DirEntry{Name: name, Mode: mode(info)})
		}
	}
	return fs.NewListDirStream(list), errno(err)
}

func (n *node) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if err := n.disk.MkdirAll(n.path(name), 0o700); err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, name, out)
}

func (n *node) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle,
	uint32, syscall.Errno) {
	f, err := n.disk.Create(n.path(name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, nil, 0, errno(err)
	}
	inode, number := n.child(ctx, name, out)
	return inode, &handle{f}, fuse.FOPEN_DIRECT_IO, number
}

func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	var f vfs.File
	var err error
	if flags&syscall.O_ACCMODE == syscall.O_RDONLY {
		f, err = n.disk.Open(n.path(""))
	} else {
		f, err = n.disk.OpenReadWrite(n.path(""), vfs.WriteCategoryUnspecified)
	}
	if err == nil && flags&syscall.O_TRUNC != 0 {
		err = n.disk.Truncate(n.path(""), 0)
	}
	return &handle{f}, fuse.FOPEN_DIRECT_IO, errno(err)
}

func (n *node) Read(_ context.Context, f fs.FileHandle, to []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	count, err := f.(*handle).ReadAt(to, at)
	return fuse.ReadResultData(to[:count]), errno(err)
}

func (n *node) Write(_ context.Context, f fs.FileHandle, p []byte, at int64) (uint32, syscall.Errno) {
	count, err := f.(*handle).WriteAt(p, at)
	return uint32(count), errno(err)
}

// Fsync syncs files and folders.
func (n *node) Fsync(_ context.Context, f fs.FileHandle, _ uint32) syscall.Errno {
	if h, ok := f.(*handle); ok {
		return errno(h.Sync())
	}
	dir, err := n.disk.OpenDir(n.path(""))
	if err == nil {
		err = dir.Sync()
	}
	return errno(err)
}

// Allocate reserves nothing: the disk does not fill up.
func (n *node) Allocate(_ context.Context, _ fs.FileHandle, _, _ uint64, mode uint32) syscall.Errno {
	const keepSize = 1
	if mode != keepSize {
		return syscall.EOPNOTSUPP
	}
	return 0
}

func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	return errno(n.disk.Remove(n.path(name)))
}

func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	return errno(n.disk.Remove(n.path(name)))
}

func (n *node) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, _ uint32) syscall.Errno {
	return errno(n.disk.Rename(n.path(name), to.(*node).path(newName)))
}

func (n *node) Link(ctx context.Context, of fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode,
	syscall.Errno) {
	if err := n.disk.Link(of.(*node).path(""), n.path(name)); err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, name, out)
}

// Statfs always reports free space.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	const blocks = 64 << 30 / 4096
	out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 255
	out.Blocks, out.Bfree, out.Bavail = blocks, blocks, blocks
	return 0
}
