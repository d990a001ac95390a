package storage

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mediumFS is the file system through which an open store's Pebble writes. Pebble answers a failed write of its log,
// its manifest or its folder in one of three ways: it calls Fatalf, it panics while it holds a lock, or it returns an
// error to a caller that may go on. With mediumFS the process always ends, and names the file. After a failed sync
// Linux counts the pages as written, and only a process that reads the files again knows the medium's content. Pebble's
// Open replays the log into new tables and writes a new manifest; it reuses neither the old log nor the old manifest.
//
// A table is different: before the manifest names it, nothing relies on it, and Pebble can write it again under another
// name. tableWrites paces these repetitions.
type mediumFS struct {
	vfs.FS
	o      *Options
	tables *tableWrites
}

// critical reports whether a Pebble file cannot be written again under another name.
func (f mediumFS) critical(name string) bool {
	base := f.PathBase(name)
	return f.PathDir(name) == f.PathJoin(f.o.Dir) &&
		(strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker."))
}

func (f mediumFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") {
		f.tables.begin(category)
	}
	file, err := f.FS.Create(name, category)
	return f.watched(name, file, err)
}

func (f mediumFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldname, newname, category)
	return f.watched(newname, file, err)
}

func (f mediumFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil || f.PathJoin(name) != f.PathJoin(f.o.Dir) {
		return file, err
	}
	return mediumFile{file, name, f.o}, nil
}

// GetDiskUsage returns only an error that Pebble ignores; any other error would count as failed background work.
func (f mediumFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := f.FS.GetDiskUsage(path)
	return u, onlyIf(err != nil, vfs.ErrUnsupported)
}

func (f mediumFS) watched(name string, file vfs.File, err error) (vfs.File, error) {
	switch {
	case !f.critical(name):
		return file, err
	case err != nil:
		f.o.die("making %s: %v", name, err)
		return nil, err
	}
	return mediumFile{file, name, f.o}, nil
}

// mediumFile ends the process when a write or a sync fails.
type mediumFile struct {
	vfs.File
	name string
	o    *Options
}

func (f mediumFile) check(what string, err error) error {
	if err != nil {
		f.o.die("%s %s: %v", what, f.name, err)
	}
	return err
}

func (f mediumFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.check("writing", err)
}

func (f mediumFile) Sync() error     { return f.check("syncing", f.File.Sync()) }
func (f mediumFile) SyncData() error { return f.check("syncing", f.File.SyncData()) }

func (f mediumFile) SyncTo(length int64) (full bool, err error) {
	full, err = f.File.SyncTo(length)
	return full, f.check("syncing", err)
}

// markerFS orders Pebble's operations on its markers: empty files whose names contain the name of the current manifest.
// Pebble 2.1.7 writes and syncs a new manifest, makes the marker that names it, removes the old marker, and syncs the
// folder once, at the end. If a filesystem does not keep the order of changes in a folder, a power cut can leave
//
//   - the new marker without the manifest (cockroachdb/pebble#5825, fixed after 2.1.7 in #5915), or
//   - neither of the two markers.
//
// The store then no longer opens. markerFS syncs the folder before a marker is made and before a marker is removed:
// after a power cut there is always a marker and the manifest that it names. Pebble makes a marker about once for each
// 128 MiB of manifest and at every Open, so this costs nothing. TestCrash_Open shows both faults without it
// (cmd/cmdtest/mutant/testdata).
type markerFS struct{ vfs.FS }

func (f markerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.isMarker(name) {
		if err := syncDir(f.FS, f.PathDir(name)); err != nil {
			return nil, fmt.Errorf("syncing folder before %s is made: %w", name, err)
		}
	}
	return f.FS.Create(name, category)
}

// After an error of Remove, Pebble assumes that the marker stays, and removes it at the next Open.
func (f markerFS) Remove(name string) error {
	if f.isMarker(name) {
		if err := syncDir(f.FS, f.PathDir(name)); err != nil {
			return fmt.Errorf("syncing folder before %s is removed: %w", name, err)
		}
	}
	return f.FS.Remove(name)
}

func (f markerFS) isMarker(name string) bool { return strings.HasPrefix(f.PathBase(name), "marker.") }

const fadviseDontNeed = 4 // POSIX_FADV_DONTNEED

// readMedium reads at most limit bytes of a file from its medium, not from the kernel's cache: after a failed sync, the
// cache has data that the medium never got, and a cached copy hides damage on the medium. Dropping the cache also frees
// memory for the store.
func readMedium(fs vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	forget(f)
	b, err := io.ReadAll(io.LimitReader(f, limit))
	forget(f)
	return b, errors.Join(err, f.Close())
}

// forget asks the kernel to drop a file's clean pages. If the kernel does not, the file is read from the cache.
func forget(f vfs.File) {
	if fd := f.Fd(); fd != vfs.InvalidFd {
		_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, fd, 0, 0, fadviseDontNeed, 0, 0)
	}
}
