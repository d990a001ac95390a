package storage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

// firstFormat rewrites the mark on fs as programs of before wrote it, without names.
func firstFormat(t testing.TB, fs vfs.FS) {
	t.Helper()
	m, said, err := openMarkFile(fs, markPath)
	if err == nil {
		err = m.close()
	}
	if err != nil {
		t.Fatal(err)
	}
	b := append(be.AppendUint64([]byte("DTEMARK1"), m.generation), m.store[:]...)
	b = be.AppendUint32(b, uint32(len(said.numbers)))
	for _, n := range said.numbers {
		b = be.AppendUint64(b, n)
	}
	b = be.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	content := make([]byte, 2*64<<10)
	copy(content[int(m.generation+1)%2*(64<<10):], b)
	writeFile(t, fs, markPath, content)
	if err := syncDir(fs, fs.PathDir(markPath)); err != nil {
		t.Fatal(err)
	}
}

// goesOn says at which number each series of a settled store goes on.
func goesOn(t testing.TB, s *Store, series ...string) map[string]uint64 {
	t.Helper()
	next := make(map[string]uint64)
	for _, name := range series {
		e, err := s.build(ctx, Keys{Series: name}, func(slot Slot) (Draft, error) { return draft(code(1<<40+slot.ID), slot), nil })
		if err != nil {
			t.Fatal(err)
		}
		next[name] = e.Number
	}
	return next
}

// TestRestore_PerSeries restores the same backup twice. The mark beside the second restoration has counted for the store that came
// of the first, with its series in another order, and still tells of each series how far that one got.
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
	if got, want := goesOn(t, s, "a", "b", "c", "z", "new"), map[string]uint64{"a": 42, "b": 3, "c": 4, "z": 3, "new": 2}; !maps.Equal(got, want) {
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

// A mark of the first format opens, goes on to be one with names, and tells what it knows: of each series when it counted for the
// store that was backed up, the furthest of all when it counted for another restoration.
func TestMark_FirstFormat(t *testing.T) {
	s, fs := newStore(t)
	for n := uint64(1); n <= 5; n++ {
		put(t, s, "a", n)
	}
	put(t, s, "b", 6)
	sound(t, s)
	firstFormat(t, fs)
	s = openStore(t, fs)
	if got := goesOn(t, s, "a", "b"); got["a"] != 6 || got["b"] != 2 {
		t.Errorf("the series go on at %v", got)
	}
	backup(t, s, backupDir)
	put(t, s, "c", 10)
	put(t, s, "c", 11)
	sound(t, s)
	if said, _, err := readMark(fs, markPath); err != nil || !reflect.DeepEqual(said, reached{[]string{"a", "b", "c"}, []uint64{6, 2, 2}}) {
		t.Errorf("the mark says %v, %v", said, err)
	}
	firstFormat(t, fs)
	for _, step := range []struct {
		name string
		want map[string]uint64
	}{
		{"of the store that was backed up", map[string]uint64{"a": 8, "b": 4, "c": 4, "d": 4}}, // c and d: one of the two got to 2
		{"of another restoration", map[string]uint64{"a": 10, "b": 10, "c": 10, "d": 10}},
	} {
		if err := fs.RemoveAll("box/store"); err != nil {
			t.Fatal(err)
		}
		// A start before it is reconciled writes the mark, and adds nothing that the mark does not know.
		for range 2 {
			if s, err := Open(options(fs)); err == nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			} else if _, err := Restore(ctx, backupDir, options(fs), nil); err != nil {
				t.Fatal(err)
			}
		}
		s = openStore(t, fs)
		trust(t, s, "c", "d")
		if got := goesOn(t, s, "a", "b", "c", "d"); !maps.Equal(got, step.want) {
			t.Errorf("%s: the series go on at %v, want %v", step.name, got, step.want)
		}
		sound(t, s)
		firstFormat(t, fs)
	}
}

// TestMark_SeriesBegins_Crash cuts the power at every write while series begin, from a mark of the first format on, and takes the
// store away: the mark alone tells a restored backup of each series, by its name, how far that one got, to within the one number
// that was on its way.
func TestMark_SeriesBegins_Crash(t *testing.T) {
	series := []string{"a", "c", "d", "e"}
	for _, rules := range disktest.AllRules {
		t.Run(rules.String(), func(t *testing.T) {
			disk := sold(t, rules)
			s := openStore(t, disk)
			backup(t, s, backupDir)
			sound(t, s)
			firstFormat(t, disk)
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
	if _, err := Restore(ctx, backupDir, options(disk), nil); err != nil {
		return err
	}
	s, err := Open(options(disk))
	if err != nil {
		return err
	}
	r := s.Restored()
	plan, err := r.AcceptMark(series)
	if err == nil {
		err = s.Reconcile(ctx, plan, "restored")
	}
	report, bad := s.Fsck(ctx)
	if err = errors.Join(err, bad, s.Close()); err != nil {
		return err
	}
	for name, given := range acked {
		// The number on its way may be in the mark, and one more may have been given before the mark said so.
		if to := report.Last[name]; to < given || to > given+2 && r.Begun == 0 {
			err = errors.Join(err, fmt.Errorf("series %s goes on behind %d, and %d was the last that was given", name, to, given))
		}
	}
	return err
}
