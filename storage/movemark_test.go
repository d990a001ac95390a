package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"dtegate/storage/disktest"
)

const newPath = "stick/mark"

// moved are the options once the configuration names another path.
func moved(fs *disktest.Disk) Options {
	o := options(fs)
	o.MarkPath = newPath
	return o
}

// The configuration names another medium: the store says where its mark was, NewMark brings it over, and the old file
// no longer counts, under whatever name it comes back.
func TestMoveMark(t *testing.T) {
	disk := sold(t, disktest.Strict)
	if _, err := Open(moved(disk)); !errors.Is(err, ErrMark) || !strings.Contains(err.Error(),
		"last at other/mark (sound)") {
		t.Errorf("opened: %v", err)
	}
	left := readFile(t, disk, markPath)
	if p, err := NewMark(ctx, MarkAim{}, moved(disk), nil); err != nil || p.Moved != markPath || p.Owed != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	s := openStoreWith(t, moved(disk))
	if e := put(t, s, "a", 11); e.Number != 6 {
		t.Errorf("goes on at %d", e.Number)
	}
	state, err := s.LookAtMark(markPath + ".moved")
	if err != nil || state.Kind != MarkOld || state.Used != newPath {
		t.Errorf("%+v, %v", state, err)
	}
	sound(t, s)
	writeFile(t, disk, markPath, left)
	for name, err := range map[string]error{
		"opened beside the old file": func() error { _, err := Open(options(disk)); return err }(),
		"moved back the old file": func() error {
			_, err := NewMark(ctx, MarkAim{From: markPath}, options(disk), nil)
			return err
		}(),
	} {
		if name == "opened beside the old file" && !errors.Is(err, ErrMark) || err != nil && !errors.Is(err, ErrMark) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if e := put(t, reopen(t, moved(disk)), "a", 12); e.Number != 7 {
		t.Errorf("goes on at %d", e.Number)
	}
}

func reopen(t *testing.T, o Options) *Store {
	s := openStoreWith(t, o)
	t.Cleanup(func() { sound(t, s) })
	return s
}

func TestMoveMark_Refused(t *testing.T) {
	disk := sold(t, disktest.Strict)
	if _, err := NewMark(ctx, MarkAim{}, options(disk), nil); !errors.Is(err, ErrMarkSound) {
		t.Errorf("to where it is: %v", err)
	}
	if _, err := NewMark(ctx, MarkAim{From: "nowhere/mark"}, moved(disk), nil); !errors.Is(err, ErrMark) {
		t.Errorf("from nowhere: %v", err)
	}
	if p, err := NewMark(ctx, MarkAim{Dry: true}, moved(disk), nil); err != nil || p.Moved != markPath {
		t.Errorf("dry: %+v, %v", p, err)
	}
	sound(t, openStore(t, disk)) // nothing has happened
}

// Another store's file in the mark's place is set aside.
func TestMoveMark_Foreign(t *testing.T) {
	disk := sold(t, disktest.Strict)
	if err := makeParents(disk, newPath); err != nil {
		t.Fatal(err)
	}
	foreign := foreignMark(t)
	writeFile(t, disk, newPath, foreign)
	p, err := NewMark(ctx, MarkAim{}, moved(disk), nil)
	if err != nil || p.Moved != markPath || string(readFile(t, disk, p.Aside)) != string(foreign) {
		t.Fatalf("%+v: %v", p, err)
	}
	sound(t, openStoreWith(t, moved(disk)))
}

// The power is cut at every write of a move: at every moment the store opens without help with one of the two paths,
// and the move can be repeated.
func TestMoveMark_Crash(t *testing.T) {
	for _, rules := range disktest.AllRules {
		t.Run(rules.String(), func(t *testing.T) {
			disk := sold(t, rules)
			fs, taken := cutAtWrites(disk, 4, 0, 50, 100)
			o := options(fs)
			o.MarkPath = newPath
			if _, err := NewMark(ctx, MarkAim{}, o, nil); err != nil {
				t.Fatal(err)
			}
			here, there := 0, 0
			disks := append(taken(), disk.Crash(0, nil))
			for i, disk := range disks {
				other := disk.Copy()
				if s, err := Open(moved(disk)); err == nil {
					there++
					sound(t, s)
				} else if s, err := Open(options(disk)); err == nil {
					here++
					sound(t, s)
				} else {
					t.Fatalf("crash %d: neither mark is valid: %v", i, err)
				}
				if _, err := NewMark(ctx, MarkAim{From: markPath}, moved(other), nil); err != nil &&
					!errors.Is(err, ErrMarkSound) {
					t.Fatalf("crash %d: moving again: %v", i, err)
				}
				s := openStoreWith(t, moved(other))
				if e := put(t, s, "a", 100); e.Number != 6 {
					t.Errorf("crash %d: goes on at %d", i, e.Number)
				}
				sound(t, s)
			}
			if here == 0 || there == 0 {
				t.Errorf("%d disks before, %d behind", here, there)
			}
		})
	}
}

// TestMark_NoNumberTwice plays boxes whose mark is lost, damaged, put back from an earlier time, another store's,
// moved, or moved and then put back, while the store is the newest or an older one and the card is in or out. What the
// store does not settle by itself an operator settles, as the runbook says. No number is given twice. One case nothing
// on a box can detect: an old store is put back, the card has been out since that store's moment, and the mark is lost
// too. There the operator must not take the card for a proof.
func TestMark_NoNumberTwice(t *testing.T) {
	seeds := 16
	if soak {
		seeds = 1000
	}
	count := make(map[string]int)
	for seed := range seeds {
		if err := playMarks(t, newRand(uint64(seed)), count); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	t.Log(count)
	for _, what := range []string{"opened", "proven", "doubted", "moved", "behind"} {
		if count[what] == 0 {
			t.Errorf("nobody met %q", what)
		}
	}
}

func playMarks(t *testing.T, rng *rand.Rand, count map[string]int) error {
	disk := sold(t, disktest.AllRules[rng.IntN(len(disktest.AllRules))])
	foreign := foreignMark(t)
	spent := map[string]uint64{"a": 5, "b": 5} // the furthest number given
	path, n := markPath, uint64(1000)
	options := func() Options {
		o := options(disk)
		o.MarkPath = path
		return o
	}
	for round := range 6 {
		old := disk.Copy()
		oldMark := readFile(t, disk, path)
		o := options()
		if rng.IntN(4) > 0 {
			o.SecondCopy, o.segment = card, 8<<10
		}
		s := openStoreWith(t, o)
		for range 1 + rng.IntN(5) {
			n++
			name := []string{"a", "b", fmt.Sprint("c", round)}[rng.IntN(3)]
			e, err := s.build(ctx, Keys{Series: name}, func(slot Slot) (Draft, error) {
				return draft(code(n), slot),
					nil
			})
			if err != nil {
				return err
			}
			if e.Number <= spent[name] {
				return fmt.Errorf("round %d: number %d of series %s was given twice", round, e.Number, name)
			}
			spent[name] = e.Number
		}
		if err := s.Close(); err != nil {
			return err
		}
		// The old store, with the mark and the card of today.
		mark := readFile(t, disk, path)
		older := rng.IntN(4) == 0
		if older {
			takeCard(t, disk, old)
			disk = old
			writeFile(t, disk, path, mark)
		}
		switch misfortune := rng.IntN(6); {
		case misfortune == 0:
			if err := disk.Remove(path); err != nil {
				return err
			}
		case misfortune == 1:
			writeFile(t, disk, path, []byte("?"))
		case misfortune == 2 && !older: // when both are old nothing on the box knows
			writeFile(t, disk, path, oldMark)
		case misfortune == 3:
			writeFile(t, disk, path, foreign)
		case misfortune == 4:
			from := path
			path = map[string]string{markPath: newPath, newPath: markPath}[path]
			if p, err := NewMark(ctx, MarkAim{}, options(), nil); err != nil || p.Moved == "" {
				return fmt.Errorf("moving: %+v, %w", p, err)
			}
			count["moved"]++
			if rng.IntN(2) == 0 { // the configuration is put back, and the file
				path = from
				writeFile(t, disk, path, mark)
			}
		}
		if err := settleMark(t, options(), spent, count, rng.IntN(2) == 0 &&
			(!older || o.SecondCopy != "")); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// settleMark does what the runbook says.
func settleMark(t *testing.T, o Options, spent map[string]uint64, count map[string]int, hasCard bool) error {
	second := ""
	if hasCard {
		second = card
		if _, err := Assemble(ctx, Sources{Copy: card}, o, nil); err != nil && !errors.Is(err, ErrDiverged) &&
			!errors.Is(err, ErrSound) {
			return err
		}
	}
	possible := make([]string, 0, len(spent))
	furthest := uint64(0)
	for name, last := range spent {
		possible, furthest = append(possible, name), max(furthest, last)
	}
	s, err := Open(o)
	if errors.Is(err, ErrMark) {
		p, err := NewMark(ctx, MarkAim{Second: second}, o, nil)
		if err != nil {
			return err
		}
		if count["proven"]++; p.Owed != nil {
			count["proven"]--
			count["doubted"]++
		}
		if s, err = Open(o); err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else {
		count["opened"]++
	}
	if s.Behind() != nil {
		count["behind"]++
	}
	if err = nil; s.Restored() != nil || s.Behind() != nil {
		err = settle(s, furthest, "the mark was lost", possible...) // a person knows the tills' last numbers
	}
	return errors.Join(err, checkSound(s), s.Close())
}
