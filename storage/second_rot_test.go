package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"dtegate/storage/disktest"
)

// reference is a store as it was, for comparison with a store made from its copy.
type reference struct {
	last  map[string]uint64
	codes map[Code]Entry
	parts map[Code][]Part
}

func refer(t testing.TB, s *Store) (r reference) {
	t.Helper()
	r.codes, r.parts, r.last = make(map[Code]Entry), make(map[Code][]Part), make(map[string]uint64)
	report, err := s.Fsck(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.last = report.Last
	err = s.Records(1, func(e Entry) error {
		r.codes[e.Code] = e
		r.parts[e.Code], err = s.Parts(e.Code)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// honest expects exact bytes of every record or its name in the list, and no number twice. It reconciles the store.
func (r reference) honest(s *Store, missing []Missing) error {
	named := make(map[string]Missing)
	for _, m := range missing {
		named[m.Series] = m
	}
	lacks := func(e Entry) bool {
		m := named[e.Series]
		return slices.Contains(m.Partial, Span{e.Number, e.Number}) ||
			slices.ContainsFunc(m.Numbers, func(n Span) bool { return n.From <= e.Number && e.Number <= n.To })
	}
	doubt := doubt(s)
	for c, want := range r.codes {
		got, err := s.Get(c)
		switch {
		case err != nil && lacks(want), err == nil && lacks(want):
		// it may have been at the end that cannot be read
		case errors.Is(err, ErrNotFound) && want.Number+doubt > r.last[want.Series]:
		case err != nil:
			return fmt.Errorf("number %d of %s is missing and not named (%v): %w", want.Number, want.Series, missing,
				err)
		case got.Number != want.Number || got.Series != want.Series:
			return fmt.Errorf("%+v became %+v", want, got)
		case got.Revision < want.Revision && named[want.Series].Changes == 0 && doubt == 0:
			return fmt.Errorf("a change of number %d of %s is missing and not named", want.Number, want.Series)
		case got.Revision == want.Revision:
			parts, err := s.Parts(c)
			if err != nil || !bytes.Equal(got.Head, want.Head) || len(parts) != len(r.parts[c]) {
				return fmt.Errorf("number %d of %s is not what it was: %w", want.Number, want.Series, err)
			}
			for i, p := range parts {
				if p.Name != r.parts[c][i].Name || !bytes.Equal(p.Data, r.parts[c][i].Data) {
					return fmt.Errorf("part %s of number %d of %s is not what it was", p.Name, want.Number, want.Series)
				}
			}
		}
	}
	if s.Restored() != nil {
		if err := settleNamed(s, len(missing) > 0); err != nil {
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

// settleNamed settles a store, and checks that nothing is issued before what is missing was named.
func settleNamed(s *Store, missing bool) error {
	if err := checkRestored(s); err != nil {
		return err
	}
	if missing {
		if _, err := s.Settle(ctx, nil, nil, "rebuilt"); !errors.Is(err, ErrMissing) {
			return fmt.Errorf("issues although documents are missing: %w", err)
		}
	}
	return settle(s, 0, "rebuilt", "a", "b", "c", "d", "e")
}

// checkRestored is checkSound for a store that is not reconciled: fsck says that, and nothing else.
func checkRestored(s *Store) error {
	report, err := s.Fsck(ctx)
	if err == nil && (len(report.Problems) != 1 || report.Problems[0].Where != `meta "restored"`) {
		err = fmt.Errorf("fsck: %v", report.Problems)
	}
	return err
}

// oldAndNew is a box with a copy that holds every kind of frame: rows of a fill, changes, several segments.
func oldAndNew(t testing.TB) (*disktest.Disk, reference) {
	t.Helper()
	s, fs := newStore(t)
	everything(t, s, 1)
	sound(t, s)
	s = live(t, fs)
	everything(t, s, 100)
	sound(t, s)
	s = live(t, fs)
	everything(t, s, 200)
	r := refer(t, s)
	sound(t, s)
	return fs, r
}

// One flipped bit anywhere in the copy, and the box is dead: each record that the copy gives is as it was, or named.
func TestRebuild_EveryBit(t *testing.T) {
	fs, want := oldAndNew(t)
	numbers, err := segmentNumbers(fs, card)
	if err != nil || len(numbers) < 5 {
		t.Fatal(numbers, err)
	}
	step := 997
	if testing.Short() {
		step = 4999
	}
	if soak {
		step = 31
	}
	whole, named, doubtful := 0, 0, 0
	for _, n := range numbers {
		path := segmentPath(fs, card, n)
		content := readFile(t, fs, path)
		places := []int{0, frameHeader - 1, frameHeader + 3} // of the head
		for at := 50; at < len(content); at += step {
			places = append(places, at)
		}
		for _, at := range places {
			if at >= len(content) {
				continue
			}
			disk := onlyCard(t, fs)
			b := slices.Clone(content)
			b[at] ^= 1 << (at % 8)
			writeFile(t, disk, path, b)
			made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			if err != nil {
				t.Errorf("segment %d flipped at %d: %v", n, at, err)
				continue
			}
			s, missing := openStore(t, disk), made.missing()
			switch {
			case len(missing) > 0:
				named++
			case doubt(s) > 0:
				doubtful++
			default:
				whole++
			}
			if err := want.honest(s, missing); err != nil {
				t.Errorf("segment %d flipped at %d: %v", n, at, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d as they were, %d with what is missing named, %d with an end in doubt", whole, named, doubtful)
	if named == 0 || whole == 0 {
		t.Error("every flip ended alike")
	}
}

// One segment is gone, cannot be read, is cut short or is empty.
func TestRebuild_BadSegment(t *testing.T) {
	fs, want := oldAndNew(t)
	numbers, err := segmentNumbers(fs, card)
	if err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]func(disk *disktest.Disk, path string){
		"gone":  func(disk *disktest.Disk, path string) { _ = disk.Remove(path) },
		"empty": func(disk *disktest.Disk, path string) { writeFile(t, disk, path, nil) },
		"zeros": func(disk *disktest.Disk, path string) { writeFile(t, disk, path, make([]byte, 8<<10)) },
		"cut short": func(disk *disktest.Disk, path string) {
			b := readFile(t, disk, path)
			writeFile(t, disk, path, b[:len(b)*2/3])
		},
		"too long": func(disk *disktest.Disk, path string) {
			writeFile(t, disk, path, append(readFile(t, disk, path), make([]byte, 1000)...))
		},
	} {
		for i, n := range numbers {
			disk := onlyCard(t, fs)
			harm(disk, segmentPath(disk, card, n))
			made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			if err != nil {
				t.Errorf("segment %d of %d %s: %v", n, len(numbers), name, err)
				continue
			}
			s, missing := openStore(t, disk), made.missing()
			if err := want.honest(s, missing); err != nil {
				t.Errorf("segment %d of %d %s: %v", n, len(numbers), name, err)
			}
			if last := i >= len(numbers)-2; name != "too long" && !last && len(missing) == 0 {
				t.Errorf("segment %d of %d %s, and nothing is missing", n, len(numbers), name)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
