package storage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

// goesOn says at which number each series of a settled store goes on.
func goesOn(t testing.TB, s *Store, series ...string) map[string]uint64 {
	t.Helper()
	next := make(map[string]uint64)
	for _, name := range series {
		e, err := s.build(ctx, Keys{Series: name}, func(slot Slot) (Draft, error) {
			return draft(code(1<<40+slot.ID),
				slot), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		next[name] = e.Number
	}
	return next
}

// TestRestore_PerSeries restores the same backup twice. The mark beside the second restoration has counted for the
// store of the first, with its series in another order, and still gives the last number of each series of that store.
func TestRestore_PerSeries(t *testing.T) {
	s, fs := newStore(t)
	for n := uint64(1); n <= 40; n++ {
		put(t, s, "a", n)
	}
	put(t, s, "b", 41)
	backup(t, s, backupDir)
	put(t, s, "z", 42)
	put(t, s, "c", 43)
	put(t, s, "c", 44)
	lose(t, s, fs)
	s = restored(t, fs, backupDir)
	trust(t, s, "a", "b", "c", "new", "z")
	if got, want := goesOn(t, s, "a", "b", "c", "z", "new"), map[string]uint64{"a": 42, "b": 3, "c": 4, "z": 3,
		"new": 2}; !maps.Equal(got, want) {
		t.Errorf("the series go on at %v, want %v", got, want)
	}
	lose(t, s, fs)
	s = restored(t, fs, backupDir)
	trust(t, s, "later")
	want := map[string]uint64{"a": 44, "b": 5, "c": 6, "z": 5, "new": 4, "later": 2}
	if got := goesOn(t, s, slices.Sorted(maps.Keys(want))...); !maps.Equal(got, want) {
		t.Errorf("after the second restoration the series go on at %v, want %v", got, want)
	}
	sound(t, s)
}

// TestMark_SeriesBegins_Crash cuts the power at every write while series begin, and takes the store away: the mark
// alone tells a restored backup the last number of each series, by name, except perhaps the one that was on its way.
func TestMark_SeriesBegins_Crash(t *testing.T) {
	series := []string{"a", "c", "d", "e"}
	for _, rules := range disktest.AllRules {
		t.Run(rules.String(), func(t *testing.T) {
			disk := sold(t, rules)
			s := openStore(t, disk)
			backup(t, s, backupDir)
			sound(t, s)
			type moment struct {
				disk  *disktest.Disk
				acked map[string]uint64
			}
			var mu sync.Mutex
			var moments []moment
			acked, rng := map[string]uint64{"a": 5, "b": 5}, newRand(7)
			s = openStore(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					mu.Lock()
					defer mu.Unlock()
					for _, percent := range []int{0, 50, 100} {
						moments = append(moments, moment{disk.Crash(percent, rng), maps.Clone(acked)})
					}
				}
				return nil
			})))
			for n := range uint64(12) {
				e := put(t, s, series[n%4], 100+n)
				mu.Lock()
				acked[e.Series] = e.Number
				mu.Unlock()
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			named := 0
			for i, m := range moments {
				if !soak && i%5 != 0 {
					continue
				}
				if err := afterLoss(m.disk, m.acked, series); err != nil {
					t.Errorf("crash %d of %d: %v", i, len(moments), err)
				}
				if m.acked["e"] > 0 {
					named++
				}
			}
			if named == 0 {
				t.Error("no crash came after all series had begun")
			}
		})
	}
}

// afterLoss restores the backup beside the mark, and compares the next numbers with those that were given.
func afterLoss(disk *disktest.Disk, acked map[string]uint64, series []string) error {
	if err := disk.RemoveAll("box/store"); err != nil {
		return err
	}
	if _, err := Assemble(ctx, Sources{Backups: []string{backupDir}}, options(disk), nil); err != nil {
		return err
	}
	s, err := Open(options(disk))
	if err != nil {
		return err
	}
	err = settle(s, 0, "restored", series...)
	report, bad := s.Fsck(ctx)
	if err = errors.Join(err, bad, s.Close()); err != nil {
		return err
	}
	for name, given := range acked {
		// The number on its way may be in the mark, and one more may have been given before the mark said so.
		if to := report.Last[name]; to < given || to > given+2 {
			err = errors.Join(err, fmt.Errorf("series %s goes on behind %d, and %d was the last that was given", name,
				to, given))
		}
	}
	return err
}
