package storage

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

func TestSkipTo(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	for _, step := range []struct {
		series string
		to     uint64
		ok     bool
	}{{"a", 5, true}, {"a", 5, true}, {"a", 4, false}, {"b", 7, true}, {"", 7, false}, {"a", 1 << 63, false}} {
		if err := s.SkipTo(ctx, step.series, step.to, "moved here from another program"); (err == nil) != step.ok {
			t.Errorf("%+v: %v", step, err)
		}
	}
	if a, b := put(t, s, "a", 2), put(t, s, "b", 3); a.Number != 6 || b.Number != 8 {
		t.Errorf("numbers %d and %d", a.Number, b.Number)
	}
	sound(t, s)
	s = openStore(t, fs)
	report, err := s.Fsck(ctx)
	if err != nil || len(report.Lost) != 2 || report.Lost[0].From != 2 || report.Lost[0].To != 5 ||
		report.Last["b"] != 8 {
		t.Errorf("%+v, %v", report, err)
	}
	if n, err := s.lost(); n != 11 || err != nil {
		t.Errorf("%d numbers lost, %v", n, err)
	}
	sound(t, s)
}

func TestFsck_Lost(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", 1)
	if err := s.SkipTo(ctx, "a", 5, "why"); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", 2)
	good, err := get(s.db, lostKey(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(good)
	bad[len(bad)-1] ^= 1
	for name, change := range map[string]func() error{
		"missing": func() error { return s.db.Delete(lostKey(1, 2), pebble.NoSync) },
		"altered": func() error { return s.db.Set(lostKey(1, 2), bad, pebble.NoSync) },
		"added":   func() error { return s.db.Set(lostKey(1, 3), good, pebble.NoSync) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if report, err := s.Fsck(ctx); err != nil || len(report.Problems) != 1 {
			t.Errorf("%s: %v, %v", name, report.Problems, err)
		}
		if err := errors.Join(s.db.Set(lostKey(1, 2), good, pebble.NoSync), s.db.Delete(lostKey(1, 3),
			pebble.NoSync)); err != nil {
			t.Fatal(err)
		}
	}
	sound(t, s)
}
