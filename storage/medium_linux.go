package storage

import (
	"errors"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const fadviseDontNeed = 4 // POSIX_FADV_DONTNEED

// readMedium reads a file, at most so many bytes, from its medium, not from the kernel's memory: after a failed sync
// that shows what the medium never got, and it hides rot. It also spares the memory for the store.
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

// forget drops a file's clean pages. It is advice: where the kernel does not take it, the file is read as it is.
func forget(f vfs.File) {
	if fd := f.Fd(); fd != vfs.InvalidFd {
		_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, fd, 0, 0, fadviseDontNeed, 0, 0)
	}
}
