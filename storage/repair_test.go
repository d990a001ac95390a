package storage

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/storage/disktest"
)

// repaired damages a disk in every kind of file of its store, and calls fn with each disk whose store needs repair.
func repaired(t *testing.T, disk *disktest.Disk, places int64, fn func(what string,
	rotten *disktest.Disk)) (kinds map[string]int) {
	t.Helper()
	kinds = make(map[string]int)
	try := func(kind, what string, harm func(*disktest.Disk) error) {
		rotten := disk.Copy()
		if err := harm(rotten); err != nil {
			t.Fatal(err)
		}
		report, err := Check(ctx, options(rotten))
		if err == nil && len(report.Problems) == 0 {
			return
		}
		kinds[kind]++
		fn(what, rotten)
	}
	for _, file := range disk.Files() {
		length := size(t, disk, file)
		if !strings.HasPrefix(file, "box/store/") || length == 0 {
			continue
		}
		kind := regexp.MustCompile(`[0-9]+`).ReplaceAllString(path.Base(file), "")
		for i := range min(places, length) {
			at := i*length/min(places, length) + length/(2*min(places, length))
			try(kind, fmt.Sprintf("%s, byte %d of %d", file, at, length),
				func(d *disktest.Disk) error { return d.Flip(file, at*8+i%8) })
		}
		try(kind, file+" is gone", func(d *disktest.Disk) error { return d.Remove(file) })
		try(kind, file+" is cut", func(d *disktest.Disk) error {
			writeFile(t, d, file, readFile(t, d, file)[:length/2])
			return nil
		})
	}
	return kinds
}

func repairPlaces() int64 {
	if soak {
		return 60
	}
	return 4
}

// Wherever the store is damaged, its second copy gives everything back, byte by byte.
func TestRepair_FromCopy(t *testing.T) {
	fs, want := oldAndNew(t)
	whole := 0
	kinds := repaired(t, fs, repairPlaces(), func(what string, disk *disktest.Disk) {
		said, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if said.Whole {
			whole++
		}
		if len(said.missing())+len(said.Lacking) > 0 {
			t.Errorf("%s: %+v", what, said)
		}
		if _, err := disk.List(said.Damaged); err != nil {
			t.Errorf("%s: the damaged store is gone: %v", what, err)
		}
		s := openStoreWith(t, withCard(disk))
		if err := want.honest(s, said.missing()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for c, e := range want.codes {
			if got, err := s.Get(c); err != nil || got.Revision != e.Revision {
				t.Errorf("%s: number %d of %s is not as it was: %v", what, e.Number, e.Series, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%v, whole at once %d", kinds, whole)
	for _, kind := range []string{".log", ".sst", "MANIFEST-"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was damaged", kind)
		}
	}
	if whole == 0 {
		t.Error("none goes on at once")
	}
}

// Without a second copy each document is as it was or named, and no number is given twice.
func TestRepair_Alone(t *testing.T) {
	fs, want := oldAndNew(t)
	named, all := 0, 0
	kinds := repaired(t, fs, repairPlaces(), func(what string, disk *disktest.Disk) {
		said, err := Assemble(ctx, Sources{}, options(disk), nil)
		if err != nil && strings.Contains(err.Error(), "the name of series") {
			return // refused, and nothing was touched
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if all++; len(said.missing()) > 0 {
			named++
		}
		s := openStore(t, disk)
		if r, err := s.Owed(nil); err != nil || r != nil && len(r.Missing) != len(said.missing()) {
			t.Errorf("%s: it says %v, the store %+v, %v", what, said.missing(), r, err)
		}
		if err := want.honestAlone(s, said.missing()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%v, %d of %d lack something", kinds, named, all)
	if named == 0 || named == all {
		t.Error("every repair ended alike")
	}
}

// honestAlone is honest for a store whose mark alone tells where the numbers ended: what was at the end of a damaged
// log is not named, and the series go on after it.
func (r reference) honestAlone(s *Store, missing []Missing) error {
	rest, err := s.Owed(nil)
	ends := make(map[string]uint64)
	if err != nil {
		return err
	}
	if rest != nil {
		for _, b := range rest.Series {
			ends[b.Series] = b.Here
		}
	}
	for c, want := range r.codes {
		named := slices.ContainsFunc(missing, func(m Missing) bool {
			return m.Series == want.Series && (slices.Contains(m.Partial, Span{want.Number, want.Number}) ||
				slices.ContainsFunc(m.Numbers, func(n Span) bool {
					return n.From <= want.Number &&
						want.Number <= n.To
				}))
		})
		got, err := s.Get(c)
		switch {
		case named, errors.Is(err, ErrNotFound) && rest != nil && want.Number > ends[want.Series]:
			continue
		case err != nil:
			return fmt.Errorf("number %d of %s is missing and not named (%v): %w", want.Number, want.Series, missing,
				err)
		case got.Number != want.Number || got.Series != want.Series, rest == nil && got.Revision != want.Revision:
			return fmt.Errorf("%+v became %+v", want, got)
		}
		parts, err := s.Parts(c)
		if err != nil || got.Revision == want.Revision && len(parts) != len(r.parts[c]) {
			return fmt.Errorf("number %d of %s is not what it was: %w", want.Number, want.Series, err)
		}
		for i, p := range parts {
			if was := r.parts[c][i]; p.Name == was.Name && !bytes.Equal(p.Data, was.Data) {
				return fmt.Errorf("part %s of number %d of %s is not what it was", p.Name, want.Number, want.Series)
			}
		}
	}
	if rest != nil {
		if err := settle(s, 0, "repaired", "a", "b", "c", "d"); err != nil {
			return err
		}
	}
	n := uint64(1 << 40)
	for series, last := range r.last {
		n++
		e, err := s.build(ctx, Keys{Series: series}, func(slot Slot) (Draft, error) {
			return draft(code(n), slot),
				nil
		})
		if err != nil || e.Number <= last {
			return fmt.Errorf("series %s goes on at %d, it was at %d: %w", series, e.Number, last, err)
		}
	}
	return checkSound(s)
}

// A counter whose change can no longer be read from the journal keeps the value of its own row: what was returned
// cannot be returned again.
func TestRepair_CounterAlone(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	_, err := s.build(ctx, Keys{Series: "b", Origins: []Code{code(1)}}, func(slot Slot) (Draft, error) {
		d := draft(code(2), slot)
		d.Counters = []Counter{{code(1), 3, 7}}
		return d, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "b", 3)
	series, err := readAllSeries(s.db)
	if err != nil {
		t.Fatal(err)
	}
	lost := journalKey(series["b"].Sequence, 1)
	if _, err := get(s.db, lost); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.db.Delete(lost, nil), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Assemble(ctx, Sources{}, options(fs), nil); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, fs)
	if v, err := s.Counter(code(1), 3); err != nil || v != 7 {
		t.Errorf("the counter is %d, %v", v, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A series whose row is lost gets its name from the mark.
func TestRepair_NameOfSeries(t *testing.T) {
	s, fs := newStore(t)
	for n := uint64(1); n <= 4; n++ {
		put(t, s, map[bool]string{true: "odd", false: "even"}[n%2 == 1], n)
	}
	put(t, s, "odd", 5)
	if err := errors.Join(s.db.Delete(seriesKey("odd"), nil), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Assemble(ctx, Sources{}, options(fs), nil); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, fs)
	if last, err := s.LastNumber("odd"); err != nil || last != 3 {
		t.Errorf("the series is at %d, %v", last, err)
	}
	if err := settle(s, 0, "repaired"); err != nil {
		t.Error(err)
	}
	sound(t, s)
}

// A sound store is left alone, and so is one that only needs reconciling.
func TestRepair_Sound(t *testing.T) {
	fs, _ := oldAndNew(t)
	if _, err := Assemble(ctx, Sources{Copy: card}, options(fs), nil); !errors.Is(err, ErrSound) {
		t.Error(err)
	}
	s := openStore(t, fs)
	if _, err := Assemble(ctx, Sources{Copy: card}, options(fs), nil); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	sound(t, s)
	if _, err := Assemble(ctx, Sources{}, options(disktest.New(disktest.Strict)), nil); !errors.Is(err, ErrNoStore) {
		t.Error(err)
	}
}

// A repair that was cut short before its last step is finished by the next one, with the same report.
func TestRepair_Resumed(t *testing.T) {
	fs, _ := oldAndNew(t)
	tried := 0
	repaired(t, fs, 1, func(what string, disk *disktest.Disk) {
		if tried++; tried > 3 {
			return
		}
		first, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		o := options(disk)
		if err := disk.Rename(o.Dir, o.repairedDir()); err != nil {
			t.Fatal(err)
		}
		again, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
		if err != nil || again.Damaged != first.Damaged || again.Whole != first.Whole ||
			!reflect.DeepEqual(again.Sources, first.Sources) || !reflect.DeepEqual(again.missing(), first.missing()) {
			t.Errorf("%s: %+v, %v, before %+v", what, again, err, first)
		}
		if err := openStore(t, disk).Close(); err != nil {
			t.Error(err)
		}
	})
	if tried == 0 {
		t.Error("nothing was damaged")
	}
}
