package storage

import (
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

// cutAtWrites returns a disk that keeps, before each write, what a power cut would leave; taken returns those disks.
// DTE_SOAK keeps one for each percentage of the unsynced changes, the suite one for the next percentage.
func cutAtWrites(disk *disktest.Disk, seed uint64, percents ...int) (fs vfs.FS, taken func() []*disktest.Disk) {
	rng := newRand(seed)
	var mu sync.Mutex // Pebble writes from several goroutines
	var disks []*disktest.Disk
	writes := 0
	fs = errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			for i, percent := range percents {
				if soak || i == writes%len(percents) {
					disks = append(disks, disk.Crash(percent, rng))
				}
			}
			writes++
		}
		return nil
	}))
	return fs, func() []*disktest.Disk {
		mu.Lock()
		defer mu.Unlock()
		return disks
	}
}

// TestCrash_Create: whenever the power goes, there is no store and Create can be repeated, or there is a whole one.
func TestCrash_Create(t *testing.T) {
	for _, rules := range disktest.AllRules {
		t.Run(rules.String(), func(t *testing.T) {
			disk := disktest.New(rules)
			fs, taken := cutAtWrites(disk, 1, 0, 50, 100)
			if err := Create(options(fs)); err != nil {
				t.Fatal(err)
			}
			disks := append(taken(), disk.Crash(0, nil))
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
		})
	}
}

// crashOpen cuts the power at every write of an Open, and says how many of the disks open again.
func crashOpen(t *testing.T, rules disktest.Rules, seed uint64) (opened, failed int) {
	disk := disktest.New(rules)
	if err := Create(options(disk)); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, disk)
	put(t, s, "a", 1)
	sound(t, s)
	fs, taken := cutAtWrites(disk, seed, 0, 50, 50)
	o := options(fs)
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
	seeds := uint64(4)
	if soak {
		seeds = 300
	}
	for _, rules := range disktest.AllRules {
		t.Run(rules.String(), func(t *testing.T) {
			for seed := range seeds {
				if opened, failed := crashOpen(t, rules, seed); opened == 0 || failed != 0 {
					t.Fatalf("seed %d: %d disks opened, %d did not", seed, opened, failed)
				}
			}
		})
	}
}
