package storage

import (
	"errors"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const fadviseDontNeed = 4 // POSIX_FADV_DONTNEED

// readMedium reads at most limit bytes of a file from its medium, not from the kernel's cache: after a failed sync, the
// cache has data that the medium never got, and a cached copy hides damage on the medium. Dropping the cache also
// leaves memory to the store.
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

// forget asks the kernel to drop a file's clean pages. If the kernel does not drop them, the file is read from the
// cache.
func forget(f vfs.File) {
	if fd := f.Fd(); fd != vfs.InvalidFd {
		_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, fd, 0, 0, fadviseDontNeed, 0, 0)
	}
}
