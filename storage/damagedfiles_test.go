package storage

import (
	"maps"
	"strings"
	"testing"

	"dtegate/storage/disktest"
)

// readLog returns the rows of one file of the log, and whether the reader reports a part of the file as unreadable.
func readLog(t testing.TB, disk *disktest.Disk, path string) (rows map[string]string, bad bool) {
	t.Helper()
	o := options(disk)
	o.setDefaults()
	rows = make(map[string]string)
	err := o.logRows(ctx, path, func(key, value []byte) error {
		rows[string(key)] = string(value)
		return nil
	}, func() { bad = true })
	if err != nil {
		t.Fatal(err)
	}
	return rows, bad
}

// Nothing of a sound log is reported unreadable, even where Pebble wrote it over an earlier log. Whatever byte or
// sector of it is altered: either all rows are read, or the log is reported unreadable.
func TestSalvage_Log(t *testing.T) {
	s, disk := newStore(t)
	for n := uint64(1); n <= 62; n++ {
		put(t, s, "a", n)
		if n%20 != 0 {
			continue
		}
		// after the second, the next log takes an old file; the last log is the shortest
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	sound(t, s)

	logs, reused, named := 0, 0, 0
	for _, path := range disk.Files() {
		if !strings.HasPrefix(path, "box/store/") || !strings.HasSuffix(path, ".log") {
			continue
		}
		logs++
		want, bad := readLog(t, disk, path)
		if bad {
			t.Errorf("%s is sound, and said to be unreadable", path)
		}
		length, kept := size(t, disk, path), 0
		step := max(1, length/300)
		if soak {
			step = 1
		}
		for at := int64(0); at < length; at += step {
			for _, bytes := range []int64{1, 512} { // a bit that turned over, a sector
				alter := func() {
					for i := at; i < min(at+bytes, length); i += 16 {
						harm(t, disk, path, i)
					}
				}
				alter()
				got, bad := readLog(t, disk, path)
				alter() // as it was
				switch lost := !maps.Equal(got, want); {
				case lost && !bad:
					t.Errorf("%s: of %d bytes, those from %d are altered, rows are missing, and nothing is said", path,
						length, at)
				case bad:
					named++
				default:
					kept++
				}
			}
		}
		if kept > 100 {
			reused++
		}
	}
	t.Logf("%d logs, %d over earlier ones, %d alterations named", logs, reused, named)
	if logs < 2 || reused == 0 || named == 0 {
		t.Error("too little was tried")
	}
}

// What a series lacks is said in words that can stand alone: each kind of loss leaves out the others' separators.
func TestMissing_Words(t *testing.T) {
	numbers, partial := []Span{{3, 3}, {5, 7}}, []Span{{9, 9}}
	for want, m := range map[string]Missing{
		"a: number 3 is missing, numbers 5 to 7 are missing, lost changes: 4": {"a", numbers, nil, 4},
		"a: number 9 is not whole": {"a", nil, partial, 0},
		"a: lost changes: 2":       {"a", nil, nil, 2},
		"a: number 3 is missing, numbers 5 to 7 are missing, number 9 is not whole, lost changes: 1": {"a", numbers,
			partial, 1},
	} {
		if got := m.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
