package storage

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/storage/disktest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// beside is where another card lies.
const beside = "other2/right"

// twoCards is a box of which only a card is left, and another card beside it. Both are as in fs until harmed has done
// its work.
func twoCards(t *testing.T, fs *disktest.Disk, numbers []uint64, harmed func(disk *disktest.Disk)) *disktest.Disk {
	t.Helper()
	disk := onlyCard(t, fs)
	must(t, makeParents(disk, beside+"/x"))
	for _, n := range numbers {
		writeFile(t, disk, segmentPath(disk, beside, n), readFile(t, fs, segmentPath(fs, card, n)))
	}
	harmed(disk)
	return disk
}

// accept accepts what a new store lacks.
func accept(t *testing.T, disk *disktest.Disk) {
	t.Helper()
	s := openStore(t, disk)
	o, err := s.Owed(nil)
	if err == nil && o != nil {
		_, err = s.Settle(ctx, nil, o.losses(0), "named")
	}
	must(t, errors.Join(err, s.Close()))
}

// acceptAndSell accepts what a new store lacks, sells number n with the card in its slot, and returns what the store
// then has.
func acceptAndSell(t *testing.T, disk *disktest.Disk, n uint64) *Report {
	t.Helper()
	accept(t, disk)
	s := live(t, disk)
	put(t, s, "a", n)
	report, err := s.Fsck(ctx)
	must(t, errors.Join(err, s.Close()))
	return report
}

func largestTable(t *testing.T, disk *disktest.Disk) string {
	t.Helper()
	tables := slices.DeleteFunc(disk.Files(), func(f string) bool {
		return !strings.HasPrefix(f, "box/store/") || !strings.HasSuffix(f, ".sst")
	})
	return slices.MaxFunc(tables, func(a, b string) int { return cmp.Compare(size(t, disk, a), size(t, disk, b)) })
}

// TestRecover_SameBadCard: a card with one bad place, named again and again, makes one new store at most, whether what it
// lacks is settled or not; then it needs no room either.
func TestRecover_SameBadCard(t *testing.T) {
	fs, _ := oldAndNew(t)
	numbers, err := segmentNumbers(fs, card)
	must(t, err)
	unsettled, settled, tried, room := 0, 0, 0, 0
	places := 3
	if soak {
		places = 12
	}
	for _, number := range numbers {
		n := len(readFile(t, fs, segmentPath(fs, card, number)))
		for at := 100; at < n; at += n / places {
			disk := twoCards(t, fs, numbers, func(disk *disktest.Disk) {
				for _, dir := range []string{card, beside} {
					harm(t, disk, segmentPath(disk, dir, number), int64(at))
				}
			})
			made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			if err != nil || len(made.missing()) == 0 {
				continue
			}
			tried++
			must(t, openStore(t, disk).Close())
			for range 3 { // RUNBOOK: clean the card, and repeat
				_, err = Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			}
			if err == nil {
				unsettled++
			}
			full := disk.Copy()
			full.SetUsage(vfs.DiskUsage{AvailBytes: 100, TotalBytes: 1 << 20})
			if _, err = Assemble(ctx, Sources{Copy: card}, options(full), nil); !errors.Is(err, ErrSound) {
				room++
			}
			stores := 0
			for n := uint64(900); n < 904; n++ {
				acceptAndSell(t, disk, n)
				if _, err = Assemble(ctx, Sources{Copy: beside}, options(disk), nil); errors.Is(err, ErrSound) {
					break
				}
				must(t, err)
				stores++
			}
			if stores > 2 {
				settled++
			}
		}
	}
	if unsettled+settled+room > 0 || tried == 0 {
		t.Errorf("of %d cards %d make a store each time, %d once what they lack is settled; %d want room for it", tried,
			unsettled, settled, room)
	}
}

// TestRecover_FilledThenDead: what a medium fills into holes whose loss was accepted is on the second copy too, also
// if the store was damaged as well.
func TestRecover_FilledThenDead(t *testing.T) {
	fs, _ := oldAndNew(t)
	numbers, err := segmentNumbers(fs, card)
	must(t, err)
	rates := []int64{0, 6} // where the largest table is bad, in tenths; 0: nowhere
	if soak {
		rates = []int64{0, 2, 4, 6, 8}
	}
	for _, rate := range rates {
		filled := 0
		for i, number := range numbers {
			disk := twoCards(t, fs, numbers, func(disk *disktest.Disk) {
				path := segmentPath(disk, card, number)
				for at := int64(300); at < size(t, disk, path); at += 300 {
					harm(t, disk, path, at)
				}
			})
			made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			if must(t, err); len(made.missing()) == 0 {
				continue
			}
			acceptAndSell(t, disk, 900)
			if rate > 0 {
				big := largestTable(t, disk)
				harm(t, disk, big, size(t, disk, big)*rate/10)
			}
			made, err = Assemble(ctx, Sources{Copy: beside}, options(disk), nil)
			if errors.Is(err, ErrSound) || err == nil && !slices.ContainsFunc(made.Sources,
				func(s Source) bool { return s.Name != ownMedium && s.Taken > 0 }) {
				continue
			}
			must(t, err)
			filled++
			has := acceptAndSell(t, disk, 901)
			again, err := Assemble(ctx, Sources{Copy: card}, options(onlyCard(t, disk)), nil)
			if must(t, err); again.Documents < has.Documents {
				t.Errorf("segment %d, table bad at %d0 %%: the second copy has %d documents of %d", i, rate,
					again.Documents, has.Documents)
			}
		}
		if filled == 0 {
			t.Errorf("table bad at %d0 %%: nothing was filled", rate)
		}
	}
}

// TestRecover_ForkAndFill: a medium has another end of one series, and documents that are missing: they are taken by
// the command that names the loss.
func TestRecover_ForkAndFill(t *testing.T) {
	fs, _ := oldAndNew(t)
	numbers, err := segmentNumbers(fs, card)
	must(t, err)
	rng := newRand(12)
	rounds, forked := 30, 0
	if soak {
		rounds = 150
	}
	for range rounds {
		disk := twoCards(t, fs, numbers, func(disk *disktest.Disk) {
			for range 2 {
				p := segmentPath(disk, card, numbers[rng.IntN(len(numbers))])
				harm(t, disk, p, rng.Int64N(size(t, disk, p)))
			}
			p := segmentPath(disk, card, slices.Max(numbers))
			harm(t, disk, p, size(t, disk, p)-1-rng.Int64N(700))
		})
		if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); err != nil {
			continue
		}
		acceptAndSell(t, disk, 900)
		_, err := Assemble(ctx, Sources{Copy: beside}, options(disk), nil)
		if err != nil && !errors.Is(err, ErrDiverged) {
			continue
		}
		forked++
		accept(t, disk)
		if made, err := Assemble(ctx, Sources{Copy: beside}, options(disk), nil); err == nil {
			t.Errorf("the same command again, once the loss was named: %d documents, %v", made.Documents, made.Sources)
		}
	}
	if forked == 0 {
		t.Error("nothing was filled")
	}
}

// A hole is filled by any medium that has its rows, before or after a person accepted it, whatever was in that place
// before. A medium that cannot fill the hole makes no new store.
func TestAssemble_Filled(t *testing.T) {
	fs, want := oldAndNew(t)
	s := openStore(t, fs)
	backup(t, s, backupDir)
	sound(t, s)
	numbers, err := segmentNumbers(fs, card)
	must(t, err)
	const right = "card/right"
	path := segmentPath(fs, card, numbers[len(numbers)/2])
	for _, accepted := range []bool{false, true} {
		for _, from := range []Sources{{Copy: right}, {Copy: card}, {Backups: []string{backupDir}}} {
			disk := onlyCard(t, fs)
			writeFile(t, disk, path, flipMiddle(readFile(t, disk, path)))
			said, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			if err != nil || len(said.missing()) == 0 {
				t.Fatalf("%+v, %v", said, err)
			}
			s := openStore(t, disk) // as dtectl recover does, to say what is owed
			if accepted {
				trustCopy(t, s)
			}
			must(t, s.Close())
			for _, useless := range []Sources{{Copy: card}, {Backups: []string{"nowhere"}}} {
				if _, err := Assemble(ctx, useless, options(disk), nil); !errors.Is(err, ErrSound) {
					t.Errorf("accepted %v: taken from %+v: %v", accepted, useless, err)
				}
			}
			must(t, errors.Join(disk.RemoveAll(card), makeParents(disk, card+"/x"), makeParents(disk, right+"/x")))
			for _, n := range numbers {
				writeFile(t, disk, segmentPath(disk, cmp.Or(from.Copy, right), n),
					readFile(t, fs, segmentPath(fs, card, n)))
			}
			again, err := Assemble(ctx, from, options(disk), nil)
			if err != nil || len(again.missing())+len(again.Lacking) > 0 {
				t.Fatalf("accepted %v, %+v: %+v, %v", accepted, from, again, err)
			}
			if _, err := Assemble(ctx, from, options(disk), nil); !errors.Is(err, ErrSound) {
				t.Errorf("accepted %v, %+v, a second time: %v", accepted, from, err)
			}
			s = openStore(t, disk)
			o, err := s.Owed(nil)
			if err != nil || !accepted && (o == nil || !o.MarkLost) {
				t.Errorf("the mark that was lost: %+v, %v", o, err)
			}
			if err := want.honest(s, nil); !accepted && err != nil {
				t.Error(err)
			}
			must(t, s.Close())
		}
	}
}

// The mark that is made after a loss of the mark bounds no number until Settle: the unsettled store may be lost too.
func TestRebuild_Twice(t *testing.T) {
	disk := onlyCard(t, carded(t))
	for _, settled := range []bool{false, false, true} {
		s := rebuilt(t, disk)
		o, err := s.Owed(nil)
		if err != nil || o == nil || !o.MarkLost {
			t.Fatalf("before settled %v: %+v, %v", settled, o, err)
		}
		if settled {
			must(t, settle(s, 20, "named"))
		}
		must(t, errors.Join(s.Close(), disk.RemoveAll("box/store"), syncDir(disk, "box")))
	}
	s := rebuilt(t, disk)
	if o, err := s.Owed(nil); err != nil || o == nil || o.MarkLost {
		t.Errorf("with the mark of a settled store: %+v, %v", o, err)
	}
	must(t, s.Close())
}

// TestRebuild_OtherCardsMark: a store made again asks for what its mark alone knew. It still does when another card of
// the box is put into the slot, with the older mark that lies on it.
func TestRebuild_OtherCardsMark(t *testing.T) {
	disk := disktest.New(disktest.Strict)
	must(t, Create(withCard(disk)))
	s := live(t, disk)
	for n := uint64(1); n <= 10; n++ {
		put(t, s, "a", n)
	}
	backup(t, s, backupDir)
	sound(t, s)
	older := disk.Copy()
	must(t, errors.Join(disk.RemoveAll("other"), disk.RemoveAll("card"), syncDir(disk, ""), disk.MkdirAll("other", 0),
		disk.MkdirAll("card", 0), syncDir(disk, ""))) // a new card, with the mark on it
	_, err := NewMark(ctx, MarkAim{Second: card}, options(disk), nil)
	must(t, err)
	s = openStore(t, disk)
	must(t, errors.Join(settle(s, 0, "the store has the last receipt"), s.Close()))
	s = live(t, disk)
	for n := uint64(11); n <= 25; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	must(t, errors.Join(disk.RemoveAll("box/store"), syncDir(disk, "box"), disk.RemoveAll(card), syncDir(disk, "card")))
	from := Sources{Copy: card, Backups: []string{backupDir}}
	for _, mark := range []string{"its own", "the older card's"} {
		if mark != "its own" {
			writeFile(t, disk, markPath, readFile(t, older, markPath))
		}
		if _, err := Assemble(ctx, from, options(disk), nil); err != nil && !errors.Is(err, ErrSound) {
			t.Fatal(err)
		}
		s = openStore(t, disk)
		o, err := s.Owed(nil)
		if must(t, err); !slices.ContainsFunc(o.Series, func(n Next) bool { return n.Lost() == "a: 11-25" }) {
			t.Errorf("with %s mark it asks %+v", mark, o.Series)
		}
		must(t, s.Close())
	}
}

// TestRecover_OldMark: an older card is in the slot, with the mark that lies on it. The store is damaged, and knows that
// this mark is old: the mark bounds no number.
func TestRecover_OldMark(t *testing.T) {
	for _, anew := range []bool{false, true} { // there has been a new card since, with a new mark
		disk := carded(t)
		older := disk.Copy()
		if anew {
			must(t, errors.Join(disk.Remove(markPath), disk.RemoveAll(card), makeParents(disk, card+"/x")))
			_, err := NewMark(ctx, MarkAim{Second: card}, options(disk), nil)
			must(t, err)
			accept(t, disk)
		}
		s := live(t, disk)
		for n := uint64(100); n < 110; n++ {
			put(t, s, "a", n)
		}
		sound(t, s)
		takeCard(t, older, disk)
		writeFile(t, disk, markPath, readFile(t, older, markPath))
		big := largestTable(t, disk)
		harm(t, disk, big, size(t, disk, big)/3)
		made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
		must(t, err)
		if !made.Owed.MarkLost || !made.Owed.asks("a") {
			t.Errorf("a new mark since: %v; it asks %+v", anew, made.Owed)
		}
	}
}

// TestRebuild_OldMark: an older card is in the slot, with the mark that lies on it, and the store is gone. What another
// medium has, or names, shows that the mark is old.
func TestRebuild_OldMark(t *testing.T) {
	for name, c := range map[string]struct {
		sold uint64 // since the older card
		from Sources
	}{
		"a later backup":                  {100, Sources{Copy: card, Backups: []string{backupDir}}},
		"a later card beside":             {100, Sources{Copy: beside}},
		"the last status":                 {100, Sources{Copy: card, Last: map[string]uint64{"a": 97}}},
		"a little later":                  {10, Sources{Copy: card, Backups: []string{backupDir}}},
		"a little later, the last status": {10, Sources{Copy: card, Last: map[string]uint64{"a": 9}}},
	} {
		disk := carded(t)
		older := disk.Copy()
		s := live(t, disk)
		for n := range c.sold {
			put(t, s, "a", 100+n)
		}
		backup(t, s, backupDir)
		put(t, s, "a", 200)
		sound(t, s)
		must(t, errors.Join(makeParents(disk, beside), disk.Rename(card, beside), disk.RemoveAll("box/store")))
		takeCard(t, older, disk)
		writeFile(t, disk, markPath, readFile(t, older, markPath))
		made, err := Assemble(ctx, c.from, options(disk), nil)
		must(t, err)
		if !made.Owed.MarkLost || !made.Owed.asks("a") {
			t.Errorf("%s: it asks %+v", name, made.Owed)
		}
	}
}

// asks reports whether a person must name the last number of a series.
func (o *Owed) asks(series string) bool {
	return o != nil && slices.ContainsFunc(o.Series, func(n Next) bool { return n.Series == series && n.Open })
}

// TestRecover_OldBox: an older box was put back, with its store, its mark and its card. A backup, or what the dead box
// shipped, has numbers that this mark lacks: the mark bounds nothing, although the store is sound.
func TestRecover_OldBox(t *testing.T) {
	for name, from := range map[string]Sources{
		"a later backup":              {Backups: []string{backupDir}},
		"a later backup and the card": {Copy: card, Backups: []string{backupDir}},
		"what the dead box shipped":   {Copy: beside, Last: map[string]uint64{"a": 9}},
	} {
		disk := carded(t)
		older := disk.Copy()
		s := live(t, disk)
		for n := uint64(100); n < 104; n++ {
			put(t, s, "a", n)
		}
		backup(t, s, backupDir)
		sound(t, s)
		putBox(t, older, disk)
		made, err := Assemble(ctx, from, options(disk), nil)
		must(t, err)
		if made.Whole || !made.Owed.asks("a") {
			t.Errorf("%s: whole: %v; it asks %+v", name, made.Whole, made.Owed)
		}
	}
}

// putBox puts an older box in the place of a dead one, with its store, its mark and its card.
func putBox(t *testing.T, older, disk *disktest.Disk) {
	t.Helper()
	must(t, errors.Join(disk.RemoveAll("box/store"), disk.RemoveAll(beside), makeParents(disk, beside),
		disk.Rename(card, beside)))
	takeCard(t, older, disk)
	for _, f := range older.Files() {
		if strings.HasPrefix(f, "box/store/") || f == markPath {
			must(t, makeParents(disk, f))
			writeFile(t, disk, f, readFile(t, older, f))
		}
	}
}

// TestRecover_OldBoxSold: an older box was put back and sold on in one series. A later backup, or what the dead box
// shipped, shows that its mark is old: in any series the dead box may have gone on after them, also in one that they lack.
func TestRecover_OldBoxSold(t *testing.T) {
	for name, from := range map[string]Sources{
		"a later backup":            {Backups: []string{backupDir}},
		"the last status":           {Last: map[string]uint64{"a": 9}},
		"what the dead box shipped": {Copy: beside, Last: map[string]uint64{"a": 1}},
		"shipped, without a status": {Copy: beside, Lacks: "no status"},
	} {
		disk := carded(t)
		older := disk.Copy()
		s := live(t, disk)
		for n := uint64(100); n < 105; n++ {
			put(t, s, "a", n)
		}
		backup(t, s, backupDir)
		sound(t, s)
		putBox(t, older, disk)
		s = openStore(t, disk)
		put(t, s, "a", 300)
		sound(t, s)
		from.Possible = begins
		asked := func(o *Owed) {
			t.Helper()
			if o == nil || !o.asks("a") || !o.asks("b") || !o.asks(Others) {
				t.Errorf("%s: it asks %+v", name, o)
			}
		}
		made, err := Assemble(ctx, from, options(disk), nil)
		if asked(made.Owed); !errors.Is(err, ErrDiverged) {
			t.Error(name, err)
		}
		s = openStore(t, disk)
		o, err := s.Owed(from.Possible)
		must(t, errors.Join(err, s.Close()))
		asked(o)
		// Before a person names them, the store rots.
		big := largestTable(t, disk)
		harm(t, disk, big, size(t, disk, big)/3)
		made, err = Assemble(ctx, Sources{Copy: card, Possible: from.Possible}, options(disk), nil)
		must(t, err)
		asked(made.Owed)
	}
}

// TestRecover_OldBoxLittle: an older box was put back. A backup that is later by one number, one series or one change shows
// that its store and its mark are old: the dead box may have sold more in any series.
func TestRecover_OldBoxLittle(t *testing.T) {
	for name, c := range map[string]struct {
		since func(s *Store)
		gone  bool // only the mark was put back
	}{
		"one number":                  {since: func(s *Store) { put(t, s, "a", 100) }},
		"one number, store gone":      {func(s *Store) { put(t, s, "a", 100) }, true},
		"a series begins":             {since: func(s *Store) { put(t, s, "y", 100) }},
		"a series begins, store gone": {func(s *Store) { put(t, s, "y", 100) }, true},
		"one change": {since: func(s *Store) {
			_, err := s.Advance(ctx, code(99), fresh, Change{To: done})
			must(t, err)
		}},
	} {
		disk := carded(t)
		s := live(t, disk)
		put(t, s, "a", 99)
		sound(t, s)
		older := disk.Copy()
		s = live(t, disk)
		c.since(s)
		backup(t, s, backupDir)
		for n := uint64(101); n < 110; n++ {
			put(t, s, "a", n)
			put(t, s, "b", 100+n)
		}
		sound(t, s)
		if putBox(t, older, disk); c.gone {
			must(t, disk.RemoveAll("box/store"))
		}
		made, err := Assemble(ctx, Sources{Backups: []string{backupDir}, Possible: begins}, options(disk), nil)
		must(t, err)
		if o := made.Owed; !o.asks("a") || !o.asks("b") || !o.asks(Others) {
			t.Errorf("%s: it asks %+v", name, o)
		}
	}
}

// begins is a Possible with one series that has not begun.
func begins(time.Time) []string { return []string{"a", "b", "z"} }

// TestRecover_OldBoxRots: the older box sold on, and its store rotted before a backup of the dead box was read.
func TestRecover_OldBoxRots(t *testing.T) {
	disk := carded(t)
	older := disk.Copy()
	s := live(t, disk)
	for n := uint64(100); n < 105; n++ {
		put(t, s, "a", n)
	}
	backup(t, s, backupDir)
	sound(t, s)
	putBox(t, older, disk)
	s = openStore(t, disk)
	for n := uint64(300); n < 320; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	big := largestTable(t, disk)
	harm(t, disk, big, size(t, disk, big)/3)
	made, err := Assemble(ctx, Sources{Copy: card, Backups: []string{backupDir}, Possible: begins}, options(disk), nil)
	must(t, err)
	if o := made.Owed; !o.asks("a") || !o.asks("b") || !o.asks(Others) {
		t.Errorf("it asks %+v", o)
	}
}

// TestRecover_Bounded: where the mark is the dead box's, no series asks for its last number.
func TestRecover_Bounded(t *testing.T) {
	status := map[string]uint64{"a": 8}
	for name, c := range map[string]struct {
		lose func(disk, older *disktest.Disk)
		from Sources
	}{
		"nothing happened":            {func(disk, older *disktest.Disk) {}, Sources{Copy: card}},
		"a backup beside it":          {func(disk, older *disktest.Disk) {}, Sources{Copy: card, Backups: []string{backupDir}}},
		"a dead disk":                 {loseStore, Sources{Copy: card}},
		"and a backup":                {loseStore, Sources{Copy: card, Backups: []string{backupDir}}},
		"and a status":                {loseStore, Sources{Copy: card, Backups: []string{backupDir}, Last: status}},
		"a backup alone":              {loseStore, Sources{Backups: []string{backupDir}}},
		"a backup and a later status": {loseStore, Sources{Backups: []string{backupDir}, Last: status}},
		"an older disk": {func(disk, older *disktest.Disk) {
			loseStore(disk, older)
			for _, f := range older.Files() {
				if strings.HasPrefix(f, "box/store/") {
					must(t, makeParents(disk, f))
					writeFile(t, disk, f, readFile(t, older, f))
				}
			}
			must(t, openStore(t, disk).Close()) // it notes what the mark has
		}, Sources{Copy: card, Backups: []string{backupDir}}},
		"a rotten slot of the mark": {func(disk, older *disktest.Disk) {
			loseStore(disk, older)
			f, err := openMarkFile(disk, markPath, false)
			must(t, errors.Join(err, f.close()))
			harm(t, disk, markPath, slotAt(firstSlot, f.generation.Load())+20)
		}, Sources{Copy: card, Last: map[string]uint64{"a": 9}}}, // the lost slot may have had some numbers more
	} {
		disk := carded(t)
		older := disk.Copy()
		s := live(t, disk)
		put(t, s, "a", 100)
		backup(t, s, backupDir)
		put(t, s, "a", 101)
		put(t, s, "a", 102)
		sound(t, s)
		c.lose(disk, older)
		made, err := Assemble(ctx, c.from, options(disk), nil)
		if err != nil && !errors.Is(err, ErrSound) {
			t.Error(name, err)
		}
		if made.Owed != nil && slices.ContainsFunc(made.Owed.Series, func(n Next) bool { return n.Open }) {
			t.Errorf("%s: it asks %+v", name, made.Owed)
		}
	}
}

func loseStore(disk, _ *disktest.Disk) {
	if err := disk.RemoveAll("box/store"); err != nil {
		panic(err)
	}
}

// TestRebuild_BegunSince: a series began after the older card and its mark, and only the last status names it.
func TestRebuild_BegunSince(t *testing.T) {
	disk := carded(t)
	must(t, disk.RemoveAll("box/store"))
	made, err := Assemble(ctx, Sources{Copy: card, Last: map[string]uint64{"z": 97}}, options(disk), nil)
	must(t, err)
	if !made.Owed.asks("z") {
		t.Errorf("it asks %+v", made.Owed)
	}
}

// TestRebuild_DiesAgain: a new store dies before it is settled. Its mark, which an older card had or of which a slot was
// rotten, still bounds nothing for the next one.
func TestRebuild_DiesAgain(t *testing.T) {
	for name, last := range map[string]map[string]uint64{"old": {"a": 97}, "rotten": nil} {
		disk := carded(t)
		must(t, disk.RemoveAll("box/store"))
		if name == "rotten" {
			f, err := openMarkFile(disk, markPath, false)
			must(t, errors.Join(err, f.close()))
			harm(t, disk, markPath, slotAt(firstSlot, f.generation.Load())+20)
		}
		_, err := Assemble(ctx, Sources{Copy: card, Last: last}, options(disk), nil)
		must(t, errors.Join(err, openStore(t, disk).Close(), disk.RemoveAll("box/store")))
		made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
		must(t, err)
		if !made.Owed.asks("a") {
			t.Errorf("%s: it asks %+v", name, made.Owed)
		}
		accept(t, disk)
		sound(t, live(t, disk))
	}
}

// TestRebuild_RottenMark: the store is gone, or an old one that was started first, the card is older, and a slot of the
// mark is rotten: the series goes on after all that was acknowledged.
func TestRebuild_RottenMark(t *testing.T) {
	for _, started := range []bool{false, true} {
		rottenMark(t, started)
	}
}

func rottenMark(t *testing.T, started bool) {
	disk := carded(t)
	older := disk.Copy()
	s := live(t, disk)
	var last uint64
	for n := uint64(100); n < 110; n++ {
		last = put(t, s, "a", n).Number
	}
	dead := copyOf(disk)
	sound(t, s)
	takeCard(t, older, dead)
	must(t, dead.RemoveAll("box/store"))
	f, err := openMarkFile(dead, markPath, false)
	must(t, err)
	must(t, errors.Join(f.close(), dead.Flip(markPath, 8*(slotAt(firstSlot, f.generation.Load())+20))))
	for _, f := range older.Files() {
		if started && strings.HasPrefix(f, "box/store/") {
			must(t, makeParents(dead, f))
			writeFile(t, dead, f, readFile(t, older, f))
		}
	}
	for range 2 {
		if started {
			must(t, openStore(t, dead).Close())
		}
	}
	_, err = Assemble(ctx, Sources{Copy: card}, options(dead), nil)
	if !started || !errors.Is(err, ErrSound) {
		must(t, err)
	}
	s = openStore(t, dead)
	o, err := s.Owed(nil)
	must(t, err)
	asked := uint64(0) // what a person would name; nothing, unless recover asks for a last number
	if slices.ContainsFunc(o.Series, func(n Next) bool { return n.Series == "a" && n.Open }) {
		asked = maxWaiting
	}
	_, err = s.Settle(ctx, nil, o.losses(asked), "named")
	must(t, err)
	if e := put(t, s, "a", 200); e.Number <= last {
		t.Errorf("number %d is given again", e.Number)
	}
	must(t, s.Close())
}

// TestRecover_LaterMark: the mark is of a store that was made from this one, and no medium has that store's documents:
// they are given up by name, and the box sells.
func TestRecover_LaterMark(t *testing.T) {
	disk := carded(t)
	older := disk.Copy()
	must(t, disk.RemoveAll("box/store"))
	_, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	must(t, err)
	accept(t, disk)
	s := openStore(t, disk)
	last := put(t, s, "a", 100).Number
	sound(t, s)
	must(t, disk.RemoveAll("box/store"))
	for _, f := range older.Files() {
		if strings.HasPrefix(f, "box/store/") {
			must(t, makeParents(disk, f))
			writeFile(t, disk, f, readFile(t, older, f))
		}
	}
	if _, err := Open(options(disk)); !errors.Is(err, ErrMark) {
		t.Errorf("the old store: %v", err)
	}
	_, err = Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	must(t, err)
	accept(t, disk)
	s = live(t, disk)
	if e := put(t, s, "a", 101); e.Number <= last {
		t.Errorf("number %d is given again", e.Number)
	}
	sound(t, s)
}

// TestRecover_Left: what an interrupted recover left beside a store is gone once nothing is to be recovered: it is not
// put in the place of a store that is lost later.
func TestRecover_Left(t *testing.T) {
	disk := carded(t)
	for _, dir := range []string{"box/store.new", "box/store.repaired"} {
		for _, f := range disk.Files() {
			if rest, ok := strings.CutPrefix(f, "box/store/"); ok {
				must(t, makeParents(disk, dir+"/"+rest))
				writeFile(t, disk, dir+"/"+rest, readFile(t, disk, f))
			}
		}
	}
	s := live(t, disk)
	put(t, s, "a", 100)
	sound(t, s)
	if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); !errors.Is(err, ErrSound) {
		t.Error(err)
	}
	must(t, errors.Join(disk.RemoveAll("box/store"), syncDir(disk, "box")))
	s = rebuilt(t, disk)
	if _, err := s.Get(code(100)); err != nil {
		t.Error(err)
	}
	must(t, s.Close())
}

// TestRecover_AtOnce: of two recoveries of a dead box at once, the second is refused and changes nothing.
func TestRecover_AtOnce(t *testing.T) {
	disk := onlyCard(t, carded(t))
	var second error
	tried := false
	_, err := Assemble(ctx, Sources{Copy: card}, options(disk), func(_, _ int64) {
		if !tried {
			tried = true
			_, second = Assemble(ctx, Sources{Copy: card}, options(disk), nil)
		}
	})
	if err != nil || !errors.Is(second, ErrInUse) {
		t.Errorf("the first: %v; the second: %v", err, second)
	}
}

// TestBehind_ForkFullDisk: the printed command, typed again with a medium of another history, needs no room for a store
// that would gain nothing.
func TestBehind_ForkFullDisk(t *testing.T) {
	disk := carded(t)
	fs := disk.Copy()
	s := openStore(t, disk)
	image := disk.Copy()
	for n := uint64(500); n < 503; n++ {
		put(t, s, "a", n)
		put(t, s, "b", n+10)
	}
	backup(t, s, backupDir)
	must(t, errors.Join(s.Close(), disk.RemoveAll("box/store"), disk.RemoveAll("other")))
	for _, path := range image.Files() {
		if strings.HasPrefix(path, "box/store/") || path == markPath {
			must(t, makeParents(disk, path))
			writeFile(t, disk, path, readFile(t, image, path))
		}
	}
	must(t, errors.Join(syncDir(disk, "box/store"), syncDir(disk, "other")))
	s = live(t, fs)
	for n := uint64(100); n < 110; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	takeCard(t, fs, disk)
	from := Sources{Copy: card, Backups: []string{backupDir}}
	_, err := Assemble(ctx, from, options(disk), nil)
	must(t, err)
	disk.SetUsage(vfs.DiskUsage{AvailBytes: 100, TotalBytes: 1 << 20})
	if _, err = Assemble(ctx, from, options(disk), nil); !errors.Is(err, ErrSound) {
		t.Errorf("typed again: %v", err)
	}
}

// TestNewMark_OldDisk: a disk that was taken for dead comes back without its mark; the card is of the store that
// was made since. Once the loss is named, the box starts with the card.
func TestNewMark_OldDisk(t *testing.T) {
	disk := carded(t)
	older := disk.Copy() // the card
	s := live(t, disk)
	for n := uint64(50); n < 53; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	old := disk.Copy() // the disk
	must(t, errors.Join(disk.RemoveAll("box/store"), syncDir(disk, "box")))
	takeCard(t, older, disk)
	_, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	must(t, err)
	s = openStore(t, disk)
	trustCopy(t, s) // names what the mark knew
	must(t, s.Close())
	s = live(t, disk)
	for n := uint64(100); n < 110; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	must(t, errors.Join(disk.RemoveAll("box/store"), disk.RemoveAll(markPath)))
	for _, path := range old.Files() {
		if strings.HasPrefix(path, "box/store/") {
			must(t, makeParents(disk, path))
			writeFile(t, disk, path, readFile(t, old, path))
		}
	}
	must(t, errors.Join(syncDir(disk, "box/store"), syncDir(disk, "box"), syncDir(disk, "other")))
	_, _ = Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	_, _ = NewMark(ctx, MarkAim{Second: card}, options(disk), nil)
	s = openStore(t, disk)
	o, err := s.Owed(nil)
	must(t, err)
	_, err = s.Settle(ctx, nil, o.losses(0), "named")
	must(t, errors.Join(err, s.Close()))
	if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); !errors.Is(err, ErrSound) {
		t.Errorf("the same command again: %v", err)
	}
	s = openStoreWith(t, withCard(disk))
	if s.Behind() != nil {
		t.Errorf("the box starts and gives no number: %v", s.Behind())
	}
	must(t, s.Close())
}

// TestRecover_BegunAnew: a person named the numbers of a series that no medium knew. A card that knows that series, by
// another id, is found when the store is damaged: the store is made again, and the card's other end is named.
func TestRecover_BegunAnew(t *testing.T) {
	disk := disktest.New(disktest.Strict)
	must(t, Create(withCard(disk)))
	s := live(t, disk)
	put(t, s, "a", 1)
	backup(t, s, backupDir)
	put(t, s, "b", 2)
	put(t, s, "c", 3)
	put(t, s, "c", 4)
	sound(t, s)
	right := disk.Copy()
	must(t, errors.Join(disk.RemoveAll("box/store"), disk.Remove(markPath), disk.RemoveAll(card)))
	_, err := Assemble(ctx, Sources{Backups: []string{backupDir}}, options(disk), nil)
	must(t, err)
	s = openStore(t, disk)
	_, err = s.Settle(ctx, nil, []Loss{{"a", nil}, {"c", []Span{{1, 2}}}}, "named")
	must(t, err)
	e := put(t, s, "c", 20)
	must(t, errors.Join(s.db.Delete(codeKey(code(20)), pebble.NoSync), s.Close()))
	takeCard(t, right, disk)
	made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	must(t, err)
	s = openStore(t, disk)
	if again, err := s.Get(code(20)); err != nil || again.Number != e.Number {
		t.Errorf("%+v, %v", again, err)
	}
	must(t, s.Close())
	if !slices.ContainsFunc(made.Owed.Series, func(n Next) bool { return n.Lost() == "b: 1" }) {
		t.Errorf("it asks %+v", made.Owed.Series)
	}
	accept(t, disk)
	s = live(t, disk)
	if b, c := put(t, s, "b", 21), put(t, s, "c", 22); b.Number < 2 || c.Number <= e.Number {
		t.Errorf("b goes on at %d, c at %d", b.Number, c.Number)
	}
	sound(t, s)
}

// TestRecover_RotAndMark: a table is rotten where no row lies, and the mark is lost too: the store is made again.
func TestRecover_RotAndMark(t *testing.T) {
	disk := carded(t)
	s := live(t, disk)
	put(t, s, "a", 100)
	sound(t, s)
	must(t, errors.Join(openStore(t, disk).Close(), disk.Remove(markPath)))
	tables := slices.DeleteFunc(disk.Files(), func(f string) bool {
		return !strings.HasPrefix(f, "box/store/") || !strings.HasSuffix(f, ".sst")
	})
	for _, table := range tables {
		for at := max(0, size(t, disk, table)-2000); at < size(t, disk, table); at += 97 { // behind the rows
			rotten := disk.Copy()
			harm(t, rotten, table, at)
			if _, err := Assemble(ctx, Sources{Copy: card}, options(rotten), nil); err != nil {
				t.Fatalf("%s, byte %d: %v", table, at, err)
			}
		}
	}
}
