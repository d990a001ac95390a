package storage

import (
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// cutAtWrites is a disk that is copied as a power cut leaves it, before each write and for each percentage of what was
// not synced; taken gives the copies.
func cutAtWrites(mem *vfs.MemFS, seed uint64, percents ...int) (disk vfs.FS, taken func() []*vfs.MemFS) {
	rng := newRand(seed)
	var mu sync.Mutex // Pebble writes from several goroutines
	var disks []*vfs.MemFS
	disk = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			for _, percent := range percents {
				disks = append(disks, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
			}
		}
		return nil
	}))
	return disk, func() []*vfs.MemFS {
		mu.Lock()
		defer mu.Unlock()
		return disks
	}
}

// TestCrash_Create: whenever the power goes, there is no store and Create can be repeated, or there is a whole one.
func TestCrash_Create(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fs, taken := cutAtWrites(mem, 1, 0, 50, 100)
	if err := Create(options(fs)); err != nil {
		t.Fatal(err)
	}
	disks := append(taken(), mem.CrashClone(vfs.CrashCloneCfg{}))
	whole := 0
	for i, disk := range disks {
		s, err := Open(options(disk))
		if err == nil {
			whole++
		} else {
			if !errors.Is(err, ErrNoStore) || i == len(disks)-1 {
				t.Fatalf("crash %d left neither store nor nothing: %v", i, err)
			}
			if err := Create(options(disk)); err != nil {
				t.Fatalf("crash %d: creating again: %v", i, err)
			}
			s = openStore(t, disk)
		}
		put(t, s, "a", 1)
		sound(t, s)
	}
	if whole == 0 || whole == len(disks) {
		t.Errorf("%d of %d disks had a store", whole, len(disks))
	}
}

// crashOpen cuts the power at every write of an Open, and says how many of the disks open again.
func crashOpen(t *testing.T, seed uint64, b bugs) (opened, failed int) {
	s, mem := newStore(t)
	put(t, s, "a", 1)
	sound(t, s)
	fs, taken := cutAtWrites(mem, seed, 0, 50, 50, 50, 50, 50, 50, 50)
	o := options(fs)
	o.bugs = b
	s = openStoreWith(t, o)
	disks := taken()
	sound(t, s)
	for _, disk := range disks {
		s, err := Open(options(disk))
		if err != nil {
			t.Log(err)
			failed++
			continue
		}
		opened++
		if _, err := s.Get(code(1)); err != nil {
			t.Error(err)
		}
		sound(t, s)
	}
	return opened, failed
}

func TestCrash_Open(t *testing.T) {
	if opened, failed := crashOpen(t, 1, bugs{}); opened == 0 || failed != 0 {
		t.Errorf("%d disks opened, %d did not", opened, failed)
	}
}

func TestCrash_OpenBareMarkers(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		if _, failed := crashOpen(t, seed, bugs{bareMarkers: true}); failed > 0 {
			return
		}
	}
	t.Error("nobody noticed: is Pebble mended, and markerFS not needed any more?")
}
