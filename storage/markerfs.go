package storage

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerFS makes a folder durable before Pebble points at one of its files. Pebble 2.1.7 syncs a new manifest's content
// and then makes the marker file that names it, but syncs the folder only once, behind both: where a filesystem keeps
// no order among folder entries, a power cut can leave the marker without the manifest, and the store does not open
// any more (cockroachdb/pebble#5825, mended behind 2.1.7 in #5915; TestCrash finds it). Pebble makes a marker about once
// for each 128 MiB of manifest and at every Open, so this costs nothing.
type markerFS struct{ vfs.FS }

func (f markerFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(f.PathBase(name), "marker.") {
		if err := syncDir(f.FS, f.PathDir(name)); err != nil {
			return nil, fmt.Errorf("syncing folder before %s: %w", name, err)
		}
	}
	return f.FS.Create(name, category)
}

// Unwrap implements vfs.FS.
func (f markerFS) Unwrap() vfs.FS { return f.FS }
