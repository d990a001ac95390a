package storage

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

// sold is a box with a second copy that has sold ten documents of series a and b, closed.
func sold(t testing.TB, rules disktest.Rules) *disktest.Disk {
	t.Helper()
	disk := disktest.New(rules)
	if err := Create(options(disk)); err != nil {
		t.Fatal(err)
	}
	s := live(t, disk)
	for n := uint64(1); n <= 10; n++ {
		put(t, s, []string{"a", "b"}[n%2], n)
	}
	sound(t, s)
	return disk
}

// foreignMark is the mark of another store.
func foreignMark(t testing.TB) []byte {
	t.Helper()
	other := vfs.NewMem()
	if err := Create(options(other)); err != nil {
		t.Fatal(err)
	}
	return readFile(t, other, markPath)
}

// newMarkOf calls NewMark; a person accepts what is in doubt, or refuses it.
func newMarkOf(t testing.TB, fs vfs.FS, second string, accepted bool) *MarkProof {
	t.Helper()
	refused := errors.New("a person refuses")
	p, err := NewMark(ctx, MarkAim{Second: second, Accept: func(p *MarkProof) error {
		if p.Owed == nil || len(p.Doubts) == 0 {
			t.Errorf("asked to accept %+v", p)
		}
		return onlyIf(!accepted, refused)
	}}, options(fs), nil)
	if err != nil && !errors.Is(err, refused) || errors.Is(err, refused) != (!accepted && p.Owed != nil) {
		t.Fatal(err)
	}
	return p
}

// Whatever became of the mark, a second copy that ends where the store ends proves the store, which goes on where it
// was. Without such a copy nothing happens before a person says how much may be missing.
func TestNewMark(t *testing.T) {
	whole := sold(t, disktest.Strict)
	old := readFile(t, whole, markPath)
	s := live(t, whole)
	put(t, s, "a", 11)
	sound(t, s)
	foreign := foreignMark(t)
	for kind, mark := range map[string][]byte{MarkMissing: nil, MarkUnreadable: []byte("?"), MarkForeign: foreign,
		MarkOld: old} {
		t.Run(kind, func(t *testing.T) {
			disk := whole.Copy()
			if mark == nil {
				if err := disk.Remove(markPath); err != nil {
					t.Fatal(err)
				}
			} else {
				writeFile(t, disk, markPath, mark)
			}
			if _, err := Open(options(disk)); !errors.Is(err, ErrMark) {
				t.Fatalf("opened: %v", err)
			}
			doubted := disk.Copy()

			p := newMarkOf(t, disk, card, false)
			if p.Mark.Kind != kind || p.Moved != "" || p.Owed != nil || len(p.Doubts) > 0 || p.Documents != 11 {
				t.Errorf("%+v", p)
			}
			if p.Aside != "" && string(readFile(t, disk, p.Aside)) != string(mark) {
				t.Error("what lay in the mark's place is gone")
			}
			s := live(t, disk)
			if e := put(t, s, "a", 12); e.Number != 7 {
				t.Errorf("goes on at %d", e.Number)
			}
			sound(t, s)
			if _, err := NewMark(ctx, MarkAim{Second: card}, options(disk), nil); !errors.Is(err,
				ErrMarkSound) {
				t.Errorf("a new mark beside a sound one: %v", err)
			}
			// The old mark comes back: it proves nothing any more.
			writeFile(t, disk, markPath, readFile(t, whole, markPath))
			if _, err := Open(options(disk)); !errors.Is(err, ErrMark) || !strings.Contains(err.Error(), "it is old") {
				t.Errorf("opened beside a mark of before: %v", err)
			}

			disk = doubted
			if p := newMarkOf(t, disk, "", false); p.Owed == nil || len(p.Doubts) != 1 {
				t.Errorf("%+v", p)
			}
			if _, err := Open(options(disk)); !errors.Is(err, ErrMark) {
				t.Fatalf("opened: %v", err)
			}
			if p := newMarkOf(t, disk, "", true); p.Owed == nil {
				t.Errorf("%+v", p)
			}
			s = openStore(t, disk)
			if _, err := s.build(ctx, Keys{Series: "a"}, nil); !errors.Is(err, ErrRestored) {
				t.Errorf("issues: %v", err)
			}
			if err := settle(s, 100, "the mark was lost", "c"); err != nil {
				t.Fatal(err)
			}
			for series, least := range map[string]uint64{"a": 107, "b": 106, "c": 101} {
				if e := put(t, s, series, 200+uint64(series[0])); e.Number != least {
					t.Errorf("series %s goes on at %d, not %d", series, e.Number, least)
				}
			}
			sound(t, s)
			sound(t, live(t, disk)) // its copy is begun anew
		})
	}
}

// Evidence that this store is not the newest is not a reason for a new mark.
func TestNewMark_Refused(t *testing.T) {
	disk := sold(t, disktest.Strict)
	if _, err := NewMark(ctx, MarkAim{Second: card}, options(disk), nil); !errors.Is(err, ErrMarkSound) {
		t.Errorf("a sound one: %v", err)
	}
	older := disk.Copy()
	s := live(t, disk)
	put(t, s, "a", 11)
	backup(t, s, backupDir)
	sound(t, s)
	writeFile(t, older, markPath, readFile(t, disk, markPath))
	if p, err := NewMark(ctx, MarkAim{Second: card}, options(older), nil); !errors.Is(err, ErrMark) ||
		p.Mark.Kind != MarkAhead {
		t.Errorf("one that is ahead: %+v, %v", p, err)
	}
	restoredDisk := disk.Copy()
	if err := restoredDisk.RemoveAll("box/store"); err != nil {
		t.Fatal(err)
	}
	s = restored(t, restoredDisk, backupDir)
	trust(t, s)
	sound(t, s)
	later := readFile(t, restoredDisk, markPath)
	writeFile(t, disk, markPath, later)
	if p, err := NewMark(ctx, MarkAim{Second: card}, options(disk), nil); !errors.Is(err, ErrMark) ||
		p.Mark.Kind != MarkLater {
		t.Errorf("one of after a restoration: %+v, %v", p, err)
	}
	// A store with a damaged row is to be repaired first.
	s = openStore(t, restoredDisk)
	if err := errors.Join(s.db.Delete(codeKey(code(1)), nil), s.Close(), restoredDisk.Remove(markPath)); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMark(ctx, MarkAim{Second: card}, options(restoredDisk), nil); !errors.Is(err,
		ErrCorrupt) {
		t.Errorf("a damaged store: %v", err)
	}
}

// A medium on which nothing can be renamed keeps what lies in the mark's place, and no new mark is written over it.
func TestNewMark_NotAside(t *testing.T) {
	disk := sold(t, disktest.Strict)
	foreign := foreignMark(t)
	writeFile(t, disk, markPath, foreign)
	refused := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpRename && op.Path == markPath {
			return errorfs.ErrInjected
		}
		return nil
	}))
	p, err := NewMark(ctx, MarkAim{Second: card}, options(refused), nil)
	if !errors.Is(err, errorfs.ErrInjected) || p.Aside != "" {
		t.Errorf("%+v, %v", p, err)
	}
	if !bytes.Equal(readFile(t, disk, markPath), foreign) {
		t.Error("what lay in the mark's place was written over")
	}
	if p := newMarkOf(t, disk, card, false); p.Owed != nil || p.Aside == "" { // the medium renames again
		t.Errorf("%+v", p)
	}
	sound(t, live(t, disk))
}

// A copy that is not live, ahead, or put back with the store long ago proves nothing, and the series go on after all
// that it knows.
func TestNewMark_Doubts(t *testing.T) {
	disk := sold(t, disktest.Strict)
	older := disk.Copy()
	s := openStore(t, disk) // the card is out
	put(t, s, "a", 11)
	sound(t, s)
	dead := disk.Copy()
	if err := dead.Remove(markPath); err != nil {
		t.Fatal(err)
	}
	if p := newMarkOf(t, dead, card, false); p.Owed == nil || len(p.Doubts) != 1 || !strings.Contains(p.Doubts[0],
		"lacks 1 changes") {
		t.Errorf("beside a dead copy: %+v", p)
	}
	s = live(t, disk)
	for n := uint64(12); n < 20; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	takeCard(t, disk, older)
	if err := older.Remove(markPath); err != nil {
		t.Fatal(err)
	}
	if p := newMarkOf(t, older, card, false); p.Owed == nil || len(p.Doubts) == 0 || !strings.Contains(p.Doubts[0],
		"a: 5 here, 14 there") {
		t.Errorf("beside a copy that knows more: %+v", p)
	}
	newMarkOf(t, older, card, true)
	s = openStore(t, older)
	if _, err := s.Settle(ctx, nil, nil, "lost"); !errors.Is(err, ErrMissing) {
		t.Errorf("documents that the copy knows are missing without a word: %v", err)
	}
	if err := settle(s, 3, "lost"); err != nil {
		t.Fatal(err)
	}
	if e := put(t, s, "a", 100); e.Number != 18 {
		t.Errorf("goes on at %d", e.Number)
	}
	sound(t, s)

	disk = sold(t, disktest.Strict)
	numbers, err := segmentNumbers(disk, card)
	if err = errors.Join(err, disk.Remove(markPath)); err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		if err := disk.Flip(segmentPath(disk, card, n), 8*20); err != nil { // in its head
			t.Fatal(err)
		}
	}
	if p := newMarkOf(t, disk, card, false); p.Owed == nil || len(p.Doubts) == 0 || !strings.Contains(p.Doubts[0],
		"cannot be read") {
		t.Errorf("beside a copy that cannot be read: %+v", p)
	}

	disk = sold(t, disktest.Strict)
	s = live(t, disk)
	if err := errors.Join(s.Beat(s.o.Now().Add(-3*standstill), time.Time{}), s.Close(),
		disk.Remove(markPath)); err != nil {
		t.Fatal(err)
	}
	for by, says := range map[time.Duration]string{3 * standstill: "36h0m0s ago",
		-3 * standstill: "clock is 36h0m0s before"} {
		o := options(disk.Copy())
		now := o.Now().Add(by)
		o.Now = func() time.Time { return now }
		if p, err := NewMark(ctx, MarkAim{Second: card}, o, nil); err != nil || p.Owed == nil || len(p.Doubts) != 1 ||
			!strings.Contains(p.Doubts[0], says) {
			t.Errorf("%v later: %+v, %v", by, p, err)
		}
	}
}

// A restored store loses its mark before it is reconciled.
func TestNewMark_Restored(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	backup(t, s, backupDir)
	put(t, s, "a", 2)
	lose(t, s, fs)
	s = restored(t, fs, backupDir)
	if err := errors.Join(s.Close(), fs.Remove(markPath)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(fs)); !errors.Is(err, ErrMark) {
		t.Fatalf("opened: %v", err)
	}
	if p := newMarkOf(t, fs, "", false); p.Owed == nil {
		t.Errorf("%+v", p)
	}
	newMarkOf(t, fs, "", true)
	s = openStore(t, fs)
	if o, err := s.Owed(nil); err != nil || o == nil || !o.MarkLost {
		t.Fatalf("%+v, %v", o, err)
	}
	if err := settle(s, 10, "both lost"); err != nil {
		t.Fatal(err)
	}
	if e := put(t, s, "a", 3); e.Number != 13 { // the lost mark said 2
		t.Errorf("goes on at %d", e.Number)
	}
	sound(t, s)
}

// The power is cut at every write of NewMark: no store issues before it is proven or reconciled, and NewMark can be
// repeated.
func TestNewMark_Crash(t *testing.T) {
	for _, rules := range disktest.AllRules {
		for _, doubted := range []bool{false, true} {
			for _, kind := range []string{MarkMissing, MarkForeign} {
				t.Run(fmt.Sprint(rules, doubted, kind), func(t *testing.T) {
					disk := sold(t, rules)
					if kind == MarkForeign {
						writeFile(t, disk, markPath, foreignMark(t))
					} else if err := disk.Remove(markPath); err != nil {
						t.Fatal(err)
					}
					if err := syncDir(disk, "other"); err != nil {
						t.Fatal(err)
					}
					second := card
					if doubted {
						second = ""
					}
					fs, taken := cutAtWrites(disk, 3, 0, 50, 100)
					newMarkOf(t, fs, second, doubted)
					done := 0
					disks := append(taken(), disk.Crash(0, nil))
					for i, disk := range disks {
						if testing.Short() && i%2 != 0 && i < len(disks)-1 {
							continue
						}
						s, err := Open(options(disk))
						if err == nil {
							done++
						} else {
							if !errors.Is(err, ErrMark) {
								t.Fatalf("crash %d: %v", i, err)
							}
							newMarkOf(t, disk, second, doubted)
							s = openStore(t, disk)
						}
						least := uint64(6)
						if r := s.Restored(); r != nil {
							if err := settle(s, 50, "lost"); err != nil {
								t.Fatal(err)
							}
							least = 56
						} else if doubted {
							t.Fatalf("crash %d: issues unreconciled", i)
						}
						if e := put(t, s, "a", 100); e.Number != least {
							t.Errorf("crash %d: goes on at %d", i, e.Number)
						}
						sound(t, s)
					}
					if done == 0 {
						t.Error("no crash came behind the end")
					}
				})
			}
		}
	}
}
