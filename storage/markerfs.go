package storage

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerFS orders what Pebble does with its markers: empty files whose name says which manifest counts. Pebble 2.1.7
// writes and syncs a new manifest, makes the marker that names it, removes the old marker, and syncs the folder once,
// behind all of this. Where a filesystem keeps no order among the entries of a folder, a power cut can leave
//
//   - the new marker without the manifest (cockroachdb/pebble#5825, mended behind 2.1.7 in #5915), or
//   - neither of the two markers.
//
// The store then does not open any more. markerFS syncs the folder before a marker is made and before one is removed:
// after a cut there is always a marker, and what it names. Pebble makes a marker about once for each 128 MiB of manifest
// and at every Open, so this costs nothing. TestCrash_Open shows both faults without it (testdata/mutants).
type markerFS struct{ vfs.FS }

// Create implements vfs.FS.
func (f markerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.isMarker(name) {
		if err := syncDir(f.FS, f.PathDir(name)); err != nil {
			return nil, fmt.Errorf("syncing folder before %s is made: %w", name, err)
		}
	}
	return f.FS.Create(name, category)
}

// Remove implements vfs.FS. Pebble takes an error for a marker that stays, and removes it at the next Open.
func (f markerFS) Remove(name string) error {
	if f.isMarker(name) {
		if err := syncDir(f.FS, f.PathDir(name)); err != nil {
			return fmt.Errorf("syncing folder before %s is removed: %w", name, err)
		}
	}
	return f.FS.Remove(name)
}

func (f markerFS) isMarker(name string) bool { return strings.HasPrefix(f.PathBase(name), "marker.") }

// Unwrap implements vfs.FS.
func (f markerFS) Unwrap() vfs.FS { return f.FS }
