package storage

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dtegate/storage/disktest"
)

// tableStore is a closed store of n documents in two series whose rows lie in tables, and its disk.
func tableStore(t testing.TB, n uint64) *disktest.Disk {
	t.Helper()
	s, disk := newStore(t)
	for i := uint64(1); i <= n; i++ {
		put(t, s, fmt.Sprint("s", i%2), i)
		if i%3 == 0 {
			if _, err := s.Advance(ctx, code(i), fresh, Change{To: done, Announce: true,
				Parts: []Part{{"answer", form(code(i))}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Compact(ctx, []byte{0}, []byte{tableEnd}, false); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
	openAndClose(t, disk) // the log that is left is empty
	return disk
}

func openAndClose(t testing.TB, disk *disktest.Disk) { sound(t, openStore(t, disk)) }

// size is a file's length in bytes.
func size(t testing.TB, disk *disktest.Disk, path string) int64 {
	t.Helper()
	info, err := disk.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// largest is the largest of the store's tables.
func largest(t testing.TB, disk *disktest.Disk) (path string) {
	t.Helper()
	for _, p := range disk.Files() {
		if strings.HasSuffix(p, ".sst") && (path == "" || size(t, disk, p) > size(t, disk, path)) {
			path = p
		}
	}
	if path == "" {
		t.Fatal("no table")
	}
	return path
}

// Wherever a bit turns in a table, fsck goes on to the end, finds it, and names every document that cannot be read
// whole: each of the others can.
func TestFsck_GoesOnBehindDamage(t *testing.T) {
	const documents = 240
	disk := tableStore(t, documents)
	path := largest(t, disk)
	step := size(t, disk, path) / 14
	if soak {
		step = 97
	}
	partly, named := 0, 0
	for at := step / 2; at < size(t, disk, path); at += step {
		rotten := disk.Copy()
		if err := rotten.Flip(path, at*8); err != nil {
			t.Fatal(err)
		}
		report, err := Check(ctx, options(rotten))
		if err != nil {
			t.Errorf("byte %d: %v", at, err)
			continue
		}
		if len(report.Problems) == 0 {
			t.Errorf("byte %d of %d: nothing found", at, size(t, disk, path))
			continue
		}
		for _, p := range report.Problems { // one damaged place is not reported as more damage behind it
			if strings.Contains(p.What, "follows position") || strings.Contains(p.What, "does not continue") {
				t.Errorf("byte %d: %s %s", at, p.Where, p.What)
			}
		}
		if strings.Contains(fmt.Sprint(report.Problems[0].Where, report.Problems[0].What), "pebble") {
			t.Errorf("byte %d: Pebble's words: %v", at, report.Problems[0])
		}
		s, err := OpenReadOnly(options(rotten))
		if err != nil {
			continue // rows that every start reads
		}
		whole := 0
		for n := uint64(1); n <= documents; n++ {
			series, number := fmt.Sprint("s", n%2), (n+1)/2
			if slices.ContainsFunc(report.Affected, func(a Affected) bool {
				return a.Code == code(n) || a.Series == series && a.From <= number && number <= a.To
			}) {
				named++
				continue
			}
			e, err := s.entryByID(n)
			if err == nil {
				var b []byte
				if b, err = get(s.db, partKey(e.ID, "form")); !bytes.Equal(b, form(code(n))) {
					err = fmt.Errorf("the form is %.10x: %w", b, err)
				}
			}
			if err != nil {
				t.Errorf("byte %d: document %d is not named, and %v", at, n, err)
			}
			whole++
		}
		if whole > 0 && whole < documents {
			partly++
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d times some documents were affected and others not; %d were named", partly, named)
	if partly < 4 {
		t.Errorf("only %d times some documents were affected and others not", partly)
	}
}

// TestBlindSpot: the series in an unreadable stretch of the journal are blind; where the stretch ends behind the
// journal, all up to the last one.
func TestBlindSpot(t *testing.T) {
	for name, c := range map[string]struct {
		from, to []byte
		blind    []uint32
	}{
		"inside a series":         {journalKey(2, 5), journalKey(2, 9), []uint32{2}},
		"over two":                {journalKey(1, 5), journalKey(2, 9), []uint32{1, 2}},
		"to the journal's end":    {journalKey(2, 5), []byte{tableJournal + 1}, []uint32{2, 3}},
		"to another table's row":  {journalKey(2, 5), entryKey(1), []uint32{2, 3}},
		"to the end of the store": {journalKey(3, 1), nil, []uint32{3}},
		"of another table":        {entryKey(1), nil, nil},
	} {
		k := &checker{report: &Report{}, series: map[uint32]*seriesCheck{1: {}, 2: {}, 3: {}}}
		k.blindSpot(blindSpot{c.from, c.to, ErrCorrupt})
		var blind []uint32
		for n := range uint32(4) {
			if s := k.series[n]; s != nil && s.blind {
				blind = append(blind, n)
			}
		}
		if !slices.Equal(blind, c.blind) || len(k.report.Problems) != 1 {
			t.Errorf("%s: blind are %v, problems %v", name, blind, k.report.Problems)
		}
	}
}
