package storage

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/storage/disktest"
)

// rotten is a box whose second copy is whole, and whose largest table and log are damaged.
func rotten(t *testing.T) (*disktest.Disk, reference) {
	t.Helper()
	disk, want := oldAndNew(t)
	for _, path := range disk.Files() {
		if strings.HasPrefix(path, "box/store/") && (strings.HasSuffix(path, ".sst") ||
			strings.HasSuffix(path, ".log")) {
			harm(t, disk, path, size(t, disk, path)/2)
		}
	}
	return disk.Crash(100, newRand(1)), want
}

// harm inverts a bit.
func harm(t testing.TB, disk *disktest.Disk, path string, at int64) {
	t.Helper()
	if err := disk.Flip(path, at*8); err != nil {
		t.Fatal(err)
	}
}

// Whenever the power goes during a repair, the damaged store is where it was, or the repaired one is, or the next
// repair puts the repaired one in place; and the result is the same.
func TestRepair_Crash(t *testing.T) {
	disk, want := rotten(t)
	disks := crashes(disk, func(fs vfs.FS) {
		if _, err := Assemble(ctx, Sources{Copy: card}, options(fs), nil); err != nil {
			t.Fatal(err)
		}
	})
	between, done := 0, 0
	for i, disk := range disks {
		// The first moments are all alike: the new store is being written aside. The last ones are all tried.
		if i%(len(disks)/2) != 0 && i < len(disks)-8 && !soak {
			continue
		}
		_, err := disk.Stat("box/store")
		if err != nil {
			between++
		}
		said, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
		switch {
		case errors.Is(err, ErrSound):
			done++
			said = new(Assembled)
		case err != nil:
			t.Errorf("crash %d of %d: %v", i, len(disks), err)
			continue
		}
		s := openStoreWith(t, withCard(disk))
		if err := want.honest(s, said.missing()); err != nil {
			t.Errorf("crash %d of %d: %v", i, len(disks), err)
		}
		list, err := s.Unrecorded()
		if err != nil || len(list) != 1 || len(list[0].Sources) < 2 || list[0].Sources[1].Taken == 0 {
			t.Errorf("crash %d of %d: the store says of its repair %+v, %v", i, len(disks), list, err)
		} else if _, err := disk.Stat(list[0].Damaged); err != nil {
			t.Errorf("crash %d of %d: %v", i, len(disks), err)
		}
		if said.Sources != nil && !reflect.DeepEqual(said.Sources, list[0].Sources) {
			t.Errorf("crash %d of %d: the repair says %+v, the store %+v", i, len(disks), said.Sources, list[0].Sources)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	// The progress of a repair is reported, and never goes back.
	var shown []int64
	disk, _ = rotten(t)
	if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), func(done, total int64) {
		shown = append(shown,
			done*100/total)
	}); err != nil {
		t.Fatal(err)
	}
	if n := len(shown); n < 10 || !slices.IsSorted(shown) || shown[0] > 10 || shown[n-1] != 100 ||
		!slices.ContainsFunc(shown, func(p int64) bool { return p > 20 && p < 80 }) {
		t.Errorf("progress %v", shown)
	}
	t.Logf("%d crashes, %d between the names, %d behind the end", len(disks), between, done)
	if between == 0 || done == 0 {
		t.Error("no crash came between the last steps")
	}
}

// Every medium is damaged in several places: each document is as it was or named, and no number is given twice.
func TestRepair_Campaign(t *testing.T) {
	disk, want := oldAndNew(t)
	old := openStore(t, disk)
	backup(t, old, backupDir)
	sound(t, old)
	rounds := 12
	if soak {
		rounds = 600
	}
	rng := newRand(11)
	refused, whole, named := 0, 0, 0
	for round := range rounds {
		d := disk.Copy()
		for _, path := range d.Files() {
			length := size(t, d, path)
			if path == "other/mark" || length == 0 || rng.IntN(3) == 0 {
				continue
			}
			for range 1 + rng.IntN(3) {
				harm(t, d, path, rng.Int64N(length))
			}
		}
		said, err := Assemble(ctx, Sources{Copy: card, Backups: []string{backupDir}}, options(d), nil)
		if errors.Is(err, ErrSound) || err != nil && strings.Contains(err.Error(), "the name of series") {
			refused++
			continue
		}
		if err != nil {
			t.Errorf("round %d: %v", round, err)
			continue
		}
		if len(said.missing()) > 0 {
			named++
		} else {
			whole++
		}
		s := openStore(t, d)
		if err := want.honestAlone(s, said.missing()); err != nil {
			t.Errorf("round %d: %v\n%+v", round, err, said)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d whole, %d with what is missing named, %d refused", whole, named, refused)
}

// A second copy of another history gives nothing of the series in which it differs, and its numbers are not given
// again.
func TestRepair_Diverged(t *testing.T) {
	disk, _ := snapshot(t)
	s := openStore(t, disk)
	put(t, s, "a", 5000)
	put(t, s, "b", 5001)
	want := refer(t, s)
	sound(t, s)
	for series, last := range map[string]uint64{"a": 10, "b": 8, "c": 8, "d": 103} {
		want.last[series] = max(want.last[series], last) // as the copy has it
	}
	for _, path := range disk.Files() {
		if strings.HasPrefix(path, "box/store/MANIFEST") {
			harm(t, disk, path, size(t, disk, path)/2)
		}
	}
	said, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	if err != nil {
		t.Fatal(err)
	}
	if said.Whole || len(said.Sources) != 2 || len(said.Sources[1].Diverged) == 0 {
		t.Errorf("%+v", said)
	}
	s = openStore(t, disk)
	if err := want.honestAlone(s, said.missing()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// What no medium of the box has is asked for elsewhere, and accepted only by the journal's digest. The mark tells the
// names of series.
func TestRepair_Elsewhere(t *testing.T) {
	disk, want := oldAndNew(t)
	lost := 0
	for _, path := range disk.Files() {
		if !strings.HasSuffix(path, ".sst") {
			continue
		}
		harm(t, disk, path, size(t, disk, path)*4/5)
		lost++
	}
	asked, lies := 0, 0
	said, err := Assemble(ctx, Sources{
		Part: func(_ context.Context, e Entry, name string) ([]byte, error) {
			asked++
			if asked%2 == 0 {
				lies++
				return []byte("another document"), nil
			}
			return form(e.Code), nil // also of the answer
		},
	}, options(disk), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, disk)
	if err := want.honestAlone(s, said.missing()); err != nil {
		t.Error(err)
	}
	for c := range want.codes { // also of those that still lack something
		e, err := s.entry(c)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		part, bad := get(s.db, partKey(e.ID, "form"))
		if err = errors.Join(err, bad); err == nil && string(part) == "another document" {
			t.Errorf("number %d of %s is what its journal disproves", e.Number, e.Series)
		}
	}
	if n := len(said.Sources); n == 0 || said.Sources[n-1].Name != "archive" || said.Sources[n-1].Taken == 0 ||
		len(said.Lacking) == 0 {
		t.Errorf("%+v", said)
	}
	t.Logf("%d blocks, asked for %d parts, %d lies, %d records lack something", lost, asked, lies, len(said.Lacking))
	for _, l := range said.Lacking {
		if e, ok := want.codes[l.Code]; !ok || e.Number != l.From || e.Series != l.Series {
			t.Errorf("%+v is %+v", l, e)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
