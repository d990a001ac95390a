package storage

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mediumFS is what an open store's Pebble writes through. Pebble answers a failed write of its log, its manifest or its
// folder in one of three ways: it calls Fatalf, it panics while it holds a lock, or it returns an error to somebody who
// may go on. Here all three are one: the process ends and says which file failed. After a failed sync Linux counts the
// pages as written, and only a process that reads the files again knows what the medium holds: Pebble's Open replays the
// log into new tables and writes a new manifest, and trusts neither of the old ones.
//
// A table is different: nothing counts on it before the manifest names it, so its write can be repeated under another
// name. tableWrites paces these.
type mediumFS struct {
	vfs.FS
	o      *Options
	tables *tableWrites
}

// critical tells whether a file of Pebble is one that cannot be written again.
func (f mediumFS) critical(name string) bool {
	base := f.PathBase(name)
	return f.PathDir(name) == f.PathJoin(f.o.Dir) &&
		(strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker."))
}

// Create implements vfs.FS.
func (f mediumFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") {
		f.tables.begin(category)
	}
	file, err := f.FS.Create(name, category)
	return f.watched(name, file, err)
}

// ReuseForWrite implements vfs.FS.
func (f mediumFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldname, newname, category)
	return f.watched(newname, file, err)
}

// OpenDir implements vfs.FS.
func (f mediumFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil || f.PathJoin(name) != f.PathJoin(f.o.Dir) {
		return file, err
	}
	return mediumFile{file, name, f.o}, nil
}

// GetDiskUsage implements vfs.FS.
func (f mediumFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := f.FS.GetDiskUsage(path)
	if err != nil {
		err = usageError{err}
	}
	return u, err
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

// Unwrap implements vfs.FS.
func (f mediumFS) Unwrap() vfs.FS { return f.FS }

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

// Write implements vfs.File.
func (f mediumFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.check("writing", err)
}

// Sync implements vfs.File.
func (f mediumFile) Sync() error { return f.check("syncing", f.File.Sync()) }

// SyncData implements vfs.File.
func (f mediumFile) SyncData() error { return f.check("syncing", f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f mediumFile) SyncTo(length int64) (full bool, err error) {
	full, err = f.File.SyncTo(length)
	return full, f.check("syncing", err)
}
