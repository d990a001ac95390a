package storage

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"dtegate/storage/disktest"
)

// TestSetAside: copies that are set aside keep every byte, however often that happens, also under numbers that were
// used before. The segments of one copy stay together, also if a crash interrupts the move.
func TestSetAside(t *testing.T) {
	disk := disktest.New(disktest.Strict)
	o := options(disk)
	o.SecondCopy = "card/copy"
	o.setDefaults()
	if err := disk.MkdirAll(o.SecondCopy, 0o700); err != nil {
		t.Fatal(err)
	}
	one, two := [16]byte{8: 1}, [16]byte{8: 2}
	wrote := make(map[string]bool)
	for i, c := range []struct {
		store   [16]byte
		write   []uint64 // segments that are there
		move    []uint64 // nil: all
		folders int      // afterwards
	}{
		{one, []uint64{1, 2, 3}, []uint64{1, 2}, 1}, // a crash before the last move
		{one, nil, nil, 1},
		{one, []uint64{2, 4}, nil, 2}, // an earlier copy has a segment 2
		{two, []uint64{1, 2, 4}, nil, 3},
		{one, []uint64{2, 4}, nil, 4},
		{one, []uint64{5, 6}, nil, 4},
		{[16]byte{}, []uint64{2, 7}, []uint64{2}, 5}, // unreadable
	} {
		for _, n := range c.write {
			text := fmt.Sprintf("%d: segment %d", i, n)
			writeFile(t, disk, segmentPath(disk, o.SecondCopy, n), []byte(text))
			wrote[text] = true
		}
		if err := setAside(&o, c.store, c.move); err != nil {
			t.Fatal(err)
		}
		kept, folders := make(map[string]bool), make(map[string]bool)
		for _, path := range disk.Files() {
			b, err := readMedium(disk, path, 1<<10)
			if err != nil {
				t.Fatal(err)
			}
			kept[string(b)] = true
			if dir := disk.PathDir(path); dir != o.SecondCopy {
				folders[dir] = true
			}
		}
		if !maps.Equal(kept, wrote) || len(folders) != c.folders {
			t.Errorf("after %d: %v, want %v; %d folders", i, slices.Sorted(maps.Keys(kept)), wrote, len(folders))
		}
	}
}
