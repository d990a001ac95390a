package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dtegate/storage/disktest"
)

// older is where snapshot leaves the card of the earlier moment.
const older = "older"

// carded is a closed box whose store and card have everything that everything writes.
func carded(t testing.TB) *disktest.Disk {
	t.Helper()
	s, fs := newStore(t)
	sound(t, s)
	s = live(t, fs)
	everything(t, s, 1)
	sound(t, s)
	return fs
}

// snapshot is a box whose store and mark were put back as they were at an earlier moment; the card was not. It returns
// the disk and the last number of series a.
func snapshot(t testing.TB) (disk *disktest.Disk, last uint64) {
	t.Helper()
	fs := carded(t)
	old := fs.Copy()
	if err := errors.Join(old.Rename(card, older), syncDir(old, "")); err != nil {
		t.Fatal(err)
	}
	s := live(t, fs)
	everything(t, s, 100)
	put(t, s, "new", 150)
	report, err := s.Fsck(ctx)
	if err != nil {
		t.Fatal(err)
	}
	last = report.Last["a"]
	sound(t, s)
	takeCard(t, fs, old)
	return old, last
}

// takeCard puts one box's card into another.
func takeCard(t testing.TB, from, to *disktest.Disk) {
	t.Helper()
	if err := errors.Join(to.RemoveAll(card), makeParents(to, card+"/x")); err != nil {
		t.Fatal(err)
	}
	numbers, err := segmentNumbers(from, card)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		writeFile(t, to, segmentPath(to, card, n), readFile(t, from, segmentPath(from, card, n)))
	}
	if err := syncDir(to, card); err != nil {
		t.Fatal(err)
	}
}

func mustHold(t testing.TB, s *Store) []Witness {
	t.Helper()
	_, err := s.build(ctx, Keys{Series: "a"}, func(slot Slot) (Draft, error) { return draft(code(1<<50), slot), nil })
	if !errors.Is(err, ErrBehind) || len(s.Behind()) == 0 {
		t.Fatalf("a store that is behind issues: %v, %v", err, s.Behind())
	}
	if _, err := s.Advance(ctx, code(2), fresh, Change{To: fresh}); !errors.Is(err, ErrBehind) {
		t.Errorf("a store that is behind changes its records: %v", err)
	}
	return s.Behind()
}

// Store and mark of an earlier moment, put back together, sell nothing until the card has given back the rest.
func TestBehind_Snapshot(t *testing.T) {
	disk, last := snapshot(t)
	s := openStoreWith(t, withCard(disk))
	w := mustHold(t, s)
	if len(w) != 1 || w[0].Medium != WitnessCopy || w[0].Diverged || !strings.Contains(w[0].String(),
		fmt.Sprintf("a: 5 here, %d there", last)) {
		t.Errorf("%v", w)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Without the card the store remembers that. A copy with no more than the store does not change it.
	if _, err := Assemble(ctx, Sources{Copy: older}, options(disk), nil); !errors.Is(err, ErrSound) {
		t.Error(err)
	}
	s = openStore(t, disk)
	mustHold(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	taken, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	if err != nil || !taken.Whole || taken.Last["a"] != last {
		t.Fatalf("%+v, %v", taken, err)
	}
	s = live(t, disk)
	if s.Behind() != nil {
		t.Errorf("still behind: %v", s.Behind())
	}
	if e := put(t, s, "a", 1000); e.Number != last+1 {
		t.Errorf("series a goes on at %d after %d", e.Number, last)
	}
	burn(t, "taken", s, disk)
	if again, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); !errors.Is(err, ErrSound) {
		t.Errorf("taken twice: %v, %v", again, err)
	}
}

// A card that knows more than the store was in the box, and then an older one, which is taken: what only the first card
// knows is named before the store gives a number, be it numbers or changes of records.
func TestBehind_OlderCard(t *testing.T) {
	for what, change := range map[string]func(s *Store, n uint64){
		"numbers": func(s *Store, n uint64) { put(t, s, "a", n) },
		"changes": func(s *Store, n uint64) {
			_, err := s.Advance(ctx, code(n-10), fresh, Change{To: done, Announce: true,
				Parts: []Part{{"answer", form(code(n))}}})
			must(t, err)
		},
	} {
		t.Run(what, func(t *testing.T) {
			fs := carded(t)
			s := live(t, fs)
			for n := uint64(90); n < 93; n++ {
				put(t, s, "a", n)
			}
			sound(t, s)
			disk := fs.Copy()
			s = live(t, fs)
			change(s, 100)
			sound(t, s)
			spare := fs.Copy()
			s = live(t, fs)
			change(s, 101)
			change(s, 102)
			last, err := s.LastNumber("a")
			must(t, err)
			sound(t, s)
			for _, from := range []*disktest.Disk{fs, spare} {
				takeCard(t, from, disk)
				s = openStoreWith(t, withCard(disk))
				mustHold(t, s)
				must(t, s.Close())
			}
			s = rebuilt(t, disk)
			o, err := s.Settle(ctx, nil, nil, "rebuilt")
			if !errors.Is(err, ErrMissing) || len(o.Missing) != 1 || o.Missing[0].Changes != 2 {
				t.Errorf("a card knew more of a, up to %d: %v, %+v", last, err, o)
			}
			trustCopy(t, s)
			if e := put(t, s, "a", 1000); e.Number <= last {
				t.Errorf("series a goes on at %d, a card knew %d", e.Number, last)
			}
			sound(t, s)
		})
	}
}

// A card of another history was in the box, and then the store's own, which has as many numbers: what the first card
// knew is named.
func TestBehind_SiblingThenOwn(t *testing.T) {
	fs := carded(t)
	other := fs.Copy()
	sell := func(box *disktest.Disk, n uint64) {
		s := live(t, box)
		put(t, s, "a", n)
		sound(t, s)
	}
	sell(other, 500)
	sell(fs, 100)
	disk := fs.Copy() // not a second sale of the same number: its time could differ, and it would be another history
	sell(fs, 101)
	for _, from := range []*disktest.Disk{other, fs} {
		takeCard(t, from, disk)
		s := openStoreWith(t, withCard(disk))
		mustHold(t, s)
		must(t, s.Close())
	}
	s := rebuilt(t, disk)
	if _, err := s.Settle(ctx, nil, nil, "rebuilt"); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
	must(t, s.Close())
}

// A store was rebuilt from an older card, and a person named too low a last number. The right card comes back, before
// or after a sale: its numbers are not given again.
func TestBehind_RightCardReturns(t *testing.T) {
	for _, sold := range []int{0, 1, 20} {
		fs := carded(t)
		old := fs.Copy()
		s := live(t, fs)
		for n := uint64(100); n < 105; n++ {
			put(t, s, "a", n)
		}
		last := put(t, s, "a", 105).Number
		sound(t, s)
		disk := onlyCard(t, old)
		s = rebuilt(t, disk)
		trustCopy(t, s)
		for n := range sold {
			put(t, s, "a", uint64(900+n))
		}
		sound(t, s)
		takeCard(t, fs, disk)
		if sold < 20 {
			s = openStoreWith(t, withCard(disk))
			mustHold(t, s)
		} else { // the numbers were used twice already: the card is set aside, and named when it is read
			s = live(t, disk)
			sound(t, s)
			takeCard(t, fs, disk)
			if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); !errors.Is(err, ErrDiverged) {
				t.Error(err)
			}
			s = openStoreWith(t, options(disk))
		}
		if sold == 0 {
			must(t, s.Close())
			continue
		}
		must(t, settle(s, 0, "the right card"))
		sound(t, s)
		if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); !errors.Is(err, ErrSound) {
			t.Errorf("asked again: %v", err)
		}
		s = live(t, disk)
		if e := put(t, s, "a", 2000); e.Number <= last {
			t.Errorf("series a goes on at %d, the card had %d", e.Number, last)
		}
		burn(t, "begun anew", s, disk)
	}
}

// The power is cut at every write of TakeCopy: the store numbers nothing until TakeCopy is repeated, and then has
// everything.
func TestTakeCopy_Crash(t *testing.T) {
	disk, last := snapshot(t)
	fs, taken := cutAtWrites(disk, 5, 0, 60, 100)
	if _, err := Assemble(ctx, Sources{Copy: card}, options(fs), nil); err != nil {
		t.Fatal(err)
	}
	finished := 0
	disks := taken()
	for i, disk := range disks {
		if testing.Short() && i%2 != 0 {
			continue
		}
		takeCard(t, disk, disk.Copy()) // it can be read
		s, err := Open(withCard(disk))
		switch {
		case errors.Is(err, ErrNoStore): // between its two names
		case err != nil:
			t.Fatal(err)
		case s.Behind() == nil:
			finished++
		default:
			mustHold(t, s)
		}
		if err == nil {
			err = s.Close()
		}
		if err != nil && !errors.Is(err, ErrNoStore) {
			t.Fatal(err)
		}
		if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); err != nil && !errors.Is(err, ErrSound) {
			t.Fatalf("crash %d: %v", i, err)
		}
		s = live(t, disk)
		if e := put(t, s, "a", 1000); e.Number != last+1 {
			t.Errorf("crash %d: series a goes on at %d after %d", i, e.Number, last)
		}
		sound(t, s)
	}
	t.Logf("%d crashes, %d behind the end", len(disks), finished)
}

// The store was put back and sold on without its card: numbers were used twice, and nobody hides that.
func TestBehind_Diverged(t *testing.T) {
	disk, last := snapshot(t)
	s := openStore(t, disk)
	put(t, s, "a", 5000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStoreWith(t, withCard(disk))
	if w := mustHold(t, s); !w[0].Diverged {
		t.Errorf("%v", w)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); !errors.Is(err, ErrDiverged) {
		t.Errorf("took from another history: %v", err)
	}
	s = openStoreWith(t, withCard(disk))
	mustHold(t, s)
	if err := settle(s, 0, "put back by mistake"); err != nil {
		t.Fatal(err)
	}
	if e := put(t, s, "a", 6000); e.Number <= last+1 {
		t.Errorf("series a goes on at %d, the card knows %d", e.Number, last)
	}
	if e := put(t, s, "new", 6001); e.Number <= 2 {
		t.Errorf("series new goes on at %d", e.Number)
	}
	sound(t, s)
	// The copy that was given up is kept, and a new one is begun.
	s = live(t, disk)
	names, err := disk.List(card)
	if err != nil || !strings.HasPrefix(names[len(names)-1], "old-") {
		t.Errorf("%v, %v", names, err)
	}
	burn(t, "begun anew", s, disk)
}

// Two boxes were made of one copy, one after the other, and both sold. The card of the first is put into the second: its
// numbers are given up once, and the second begins a copy of its own.
func TestBehind_Sibling(t *testing.T) {
	fs := carded(t)
	var boxes [2]*disktest.Disk
	for i := range boxes {
		boxes[i] = onlyCard(t, fs)
		s := rebuilt(t, boxes[i])
		trustCopy(t, s)
		sound(t, s)
		s = live(t, boxes[i])
		put(t, s, "a", 100*uint64(i+1))
		sound(t, s)
	}
	takeCard(t, boxes[0], boxes[1])
	s := openStoreWith(t, withCard(boxes[1]))
	if w := mustHold(t, s); !w[0].Diverged {
		t.Errorf("%v", w)
	}
	if err := settle(s, 0, "the other box's card"); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
	s = live(t, boxes[1])
	put(t, s, "a", 300)
	burn(t, "begun anew", s, boxes[1])
}

// A restored store meets the card of another history: a dry run names what the next run names, and if the mark becomes
// unreadable, the numbers of the card are still known.
func TestBehind_RestoredSibling(t *testing.T) {
	fs := carded(t)
	other := onlyCard(t, fs)
	s := rebuilt(t, other)
	trustCopy(t, s)
	sound(t, s)
	s = live(t, other)
	var last uint64
	for n := uint64(600); n < 620; n++ {
		last = put(t, s, "a", n).Number
	}
	sound(t, s)
	for _, marked := range []bool{false, true} {
		disk := onlyCard(t, fs)
		if marked {
			must(t, disk.MkdirAll("other", 0o700))
			writeFile(t, disk, markPath, readFile(t, fs, markPath))
		}
		s = rebuilt(t, disk)
		must(t, errors.Join(s.SkipTo(ctx, "a", 8, "left out"), s.Close()))
		takeCard(t, other, disk)
		dry, err := Assemble(ctx, Sources{Copy: card, Dry: true}, options(disk), nil)
		if _, again := Assemble(ctx, Sources{Copy: card}, options(disk), nil); !errors.Is(err, ErrDiverged) ||
			!errors.Is(again, ErrDiverged) {
			t.Fatal(err, again)
		}
		s = openStore(t, disk)
		o, err := s.Owed(nil)
		if must(t, errors.Join(err, s.Close())); fmt.Sprint(dry.Owed.Series) != fmt.Sprint(o.Series) {
			t.Errorf("a dry run says %+v, then it is %+v", dry.Owed.Series, o.Series)
		}
		must(t, disk.RemoveAll(card))
		writeFile(t, disk, markPath, []byte("bad"))
		newMarkOf(t, disk, "", true)
		s = openStore(t, disk)
		o, err = s.Owed(nil)
		if err != nil || o.Series[0].Series != "a" || o.Series[0].Known != last {
			t.Errorf("a card knew %d of a: %+v, %v", last, o, err)
		}
		must(t, s.Close())
	}
}

// Two media continue an image of the store in two ways: the longer one is taken, and the other is named, once.
func TestBehind_TwoWays(t *testing.T) {
	disk := carded(t)
	fs := disk.Copy()
	s := openStore(t, disk) // sold on, from another image
	now := disk.Copy()
	for n := uint64(500); n < 503; n++ {
		put(t, s, "a", n)
	}
	_, err := s.Advance(ctx, code(7), fresh, Change{To: fresh})
	backup(t, s, backupDir)
	must(t, errors.Join(err, s.Close(), disk.RemoveAll("box/store"), disk.RemoveAll("other")))
	for _, path := range now.Files() {
		if strings.HasPrefix(path, "box/store/") || path == markPath {
			must(t, makeParents(disk, path))
			writeFile(t, disk, path, readFile(t, now, path))
		}
	}
	must(t, errors.Join(syncDir(disk, "box/store"), syncDir(disk, "other")))
	s = live(t, fs)
	var last uint64
	for n := uint64(100); n < 110; n++ {
		last = put(t, s, "a", n).Number
	}
	sound(t, s)
	takeCard(t, fs, disk)
	from := Sources{Copy: card, Backups: []string{backupDir}}
	made, err := Assemble(ctx, from, options(disk), nil)
	if err != nil || made.Whole || made.Last["a"] != last || len(made.missing()) != 2 {
		t.Fatalf("%+v, %v", made, err)
	}
	s = openStore(t, disk)
	must(t, errors.Join(settle(s, 0, "named"), s.Close()))
	if again, err := Assemble(ctx, from, options(disk), nil); !errors.Is(err, ErrSound) {
		t.Errorf("named once: %+v, %v", again, err)
	}
	s = live(t, disk)
	if e := put(t, s, "a", 900); e.Number <= last {
		t.Errorf("a continues with %d after %d", e.Number, last)
	}
	sound(t, s)
}

// A mark that says more than the store: the store can be opened to be read, and numbers nothing.
func TestBehind_Mark(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	put(t, s, "d", 11)
	sound(t, s)
	old := fs.Copy()
	s = openStore(t, fs)
	for n := uint64(2); n < 9; n++ {
		put(t, s, "a", n)
	}
	put(t, s, "b", 10)
	sound(t, s)
	writeFile(t, old, markPath, readFile(t, fs, markPath))
	s = openStore(t, old)
	w := mustHold(t, s)
	if len(w) != 1 || w[0].Medium != WitnessMark || !strings.Contains(w[0].String(),
		"a: 1 here, 8 there; b: 0 here, 1 there") {
		t.Errorf("%v", w)
	}
	if err := settle(s, 0, "an old disk", "b", "c"); err != nil {
		t.Fatal(err)
	}
	// One beyond the mark in every series: that number may have been given before the mark said so.
	for series, least := range map[string]uint64{"a": 10, "b": 3, "c": 2, "d": 3} {
		if e := put(t, s, series, 100+uint64(series[0])); e.Number != least {
			t.Errorf("series %s goes on at %d, not %d", series, e.Number, least)
		}
	}
	sound(t, s)
	sound(t, openStore(t, old))
}

// A card that was begun anew holds the whole store as it was then, and changes after that. A store put back to a moment
// between them takes the rest, and keeps what it has that is newer than the fill.
func TestTakeCopy_Filled(t *testing.T) {
	s, fs := newStore(t)
	everything(t, s, 1)
	sound(t, s)
	s = live(t, fs) // fills
	everything(t, s, 100)
	sound(t, s)
	old := fs.Copy()
	s = live(t, fs)
	put(t, s, "b", 200)
	put(t, s, "new", 201)
	want := rows(t, s)
	sound(t, s)
	takeCard(t, fs, old)
	if taken, err := Assemble(ctx, Sources{Copy: card}, options(old), nil); err != nil || !taken.Whole {
		t.Fatalf("%+v, %v", taken, err)
	}
	s = openStore(t, old)
	same(t, "taken", want, rows(t, s))
	sound(t, s)
}

// holed is a box with a card and a hole that a person has accepted.
func holed(t *testing.T) *disktest.Disk {
	t.Helper()
	s, disk := newStore(t)
	everything(t, s, 1)
	series, err := readAllSeries(s.db)
	must(t, err)
	must(t, errors.Join(s.db.Delete(journalKey(series["a"].Sequence, 2), nil), s.Close()))
	said, err := Assemble(ctx, Sources{}, options(disk), nil)
	if err != nil || len(said.missing()) != 1 {
		t.Fatalf("%+v, %v", said, err)
	}
	s = openStore(t, disk)
	must(t, errors.Join(settle(s, 0, "accepted"), s.Close()))
	return disk
}

// A store with an accepted hole that was put back gets the rest from the card too.
func TestBehind_Holed(t *testing.T) {
	disk := holed(t)
	s := live(t, disk)
	put(t, s, "a", 50)
	must(t, s.Close())
	now := disk.Copy()
	s = live(t, now)
	last := put(t, s, "a", 51).Number
	must(t, s.Close())
	takeCard(t, now, disk)
	s = openStoreWith(t, withCard(disk))
	mustHold(t, s)
	must(t, s.Close())
	taken, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	if err != nil || !taken.Whole || taken.Last["a"] != last {
		t.Fatalf("%+v, %v", taken, err)
	}
	s = live(t, disk)
	if _, err := s.Get(code(51)); err != nil || s.Behind() != nil {
		t.Errorf("%v, %v", err, s.Behind())
	}
	sound(t, s)
}
