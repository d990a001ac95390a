package storage

import (
	"errors"
	"path"
	"strings"
	"testing"

	"dtegate/storage/disktest"
)

// Where Pebble's list of tables is damaged or gone, the start and fsck say which file it is and what to run, and repair
// does.
func TestTableList_Damaged(t *testing.T) {
	disk, _ := oldAndNew(t)
	refused := 0
	try := func(file string, harm func(*disktest.Disk) error) {
		rotten := disk.Copy()
		if err := harm(rotten); err != nil {
			t.Fatal(err)
		}
		_, err := Check(ctx, options(rotten))
		if err == nil {
			return
		}
		refused++
		name := strings.TrimRight(path.Base(file), "0123456789.MANIFEST-")
		if said := err.Error(); !errors.Is(err, ErrCorrupt) || !strings.Contains(said, "dtectl recover") ||
			!strings.Contains(said, name) && !strings.Contains(said, ".sst, which is not there") {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, file := range disk.Files() {
		if base := path.Base(file); !strings.HasPrefix(base, "MANIFEST-") && !strings.HasPrefix(base, "marker.") &&
			!strings.HasSuffix(base, ".sst") {
			continue
		}
		if !strings.HasSuffix(file, ".sst") {
			for i := range min(20, size(t, disk, file)) {
				try(file, func(d *disktest.Disk) error { return d.Flip(file, 8*i*size(t, disk, file)/20+1) })
			}
		}
		try(file, func(d *disktest.Disk) error { return d.Remove(file) })
	}
	if refused < 12 { // how long the list is follows from when tables were written
		t.Errorf("refused only %d times", refused)
	}
}
