//go:build !linux

package storage

import "github.com/cockroachdb/pebble/v2/vfs"

// readMedium reads a whole file, perhaps from the cache, and ignores limit. It exists only for development: the
// appliance runs on Linux, with the readMedium of medium_linux.go.
func readMedium(fs vfs.FS, path string, limit int64) ([]byte, error) { return readWhole(fs, path) }
