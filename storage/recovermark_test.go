package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/storage/disktest"
)

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

// soldOn is a disk with the backup of a dead box, in whose place an older box has sold documents.
func soldOn(t *testing.T, documents uint64) *disktest.Disk {
	t.Helper()
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
	for n := range documents {
		put(t, s, "a", 300+n)
	}
	sound(t, s)
	return disk
}

// asksAll checks that a person must name the last number of each series, and of the series that may have begun.
func asksAll(t *testing.T, name string, o *Owed) {
	t.Helper()
	if o == nil || !o.asks("a") || !o.asks("b") || !o.asks(Others) {
		t.Errorf("%s: it asks %+v", name, o)
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
		disk := soldOn(t, 1)
		from.Possible = begins
		made, err := Assemble(ctx, from, options(disk), nil)
		if asksAll(t, name, made.Owed); !errors.Is(err, ErrDiverged) {
			t.Error(name, err)
		}
		s := openStore(t, disk)
		o, err := s.Owed(from.Possible)
		must(t, errors.Join(err, s.Close()))
		asksAll(t, name, o)
		// Before a person names them, the store rots.
		big := largestTable(t, disk)
		harm(t, disk, big, size(t, disk, big)/3)
		made, err = Assemble(ctx, Sources{Copy: card, Possible: from.Possible}, options(disk), nil)
		must(t, err)
		asksAll(t, name, made.Owed)
	}
}

// TestRecover_OldBoxOutside: MH or the archive has a number that the older box did not give. The dead box may have gone on
// in any series.
func TestRecover_OldBoxOutside(t *testing.T) {
	for _, rots := range []bool{false, true} {
		disk := soldOn(t, 20)
		s := openStore(t, disk)
		must(t, errors.Join(s.Hold([]Witness{{Medium: "MH", Series: []Lead{{Series: "a", Here: 4, There: 5}}}}), s.Close()))
		if rots {
			big := largestTable(t, disk)
			harm(t, disk, big, size(t, disk, big)/3)
		}
		made, err := Assemble(ctx, Sources{Copy: card, Possible: begins}, options(disk), nil)
		if rots {
			asksAll(t, "assembled", made.Owed)
		} else if !errors.Is(err, ErrSound) {
			t.Error(err)
		}
		s = openStore(t, disk)
		o, err := s.Owed(begins)
		must(t, err)
		asksAll(t, "stored", o)
		if !rots && slices.ContainsFunc(o.Series, func(n Next) bool { return n.To != n.Known }) {
			t.Errorf("a witness outside of the box leaves out more numbers than it knows: %+v", o.Series)
		}
		must(t, settle(s, 30, "named", begins(time.Time{})...))
		if held, err := s.Held(); err != nil || len(held) > 0 {
			t.Errorf("after it: %v, %v", held, err)
		}
		sound(t, s)
	}
}

// TestOwed_Accept: all losses of a series count together; the highest number that they name moves it.
func TestOwed_Accept(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "a: 5-6, 9-N; others: 1-N",
		"a: 5-6":                     "a: 5-6, 9-N; others: 1-N",
		"a: 5-12; others: none":      "to a 12 b 0 d 6",
		"a: 5-6; a: 9-12; others: 7": "to a 12 b 7 d 6",
		"a: 9-12; a: 5-6; others: 7": "to a 12 b 7 d 6",
		"a: 5-10; c: 3; others: 7":   "to a 11 b 7 d 6 c 3",
		"a: 5-10; c: none; b: 9; others: 7; others: 8": "to a 11 b 9 d 6",
	} {
		o := &Owed{Series: []Next{{Series: "a", Here: 8, Known: 10, To: 11, Open: true, lost: []Span{{5, 6}, {9, 10}}},
			{Series: "b"}, {Series: "d", Known: 5, To: 6}, {Series: Others, Open: true}}}
		var losses []Loss
		for one := range strings.SplitSeq(text, "; ") {
			if l, err := ParseLoss(one); text != "" {
				must(t, err)
				losses = append(losses, l)
			}
		}
		got := strings.Join(o.Accept(losses), "; ")
		if got == "" {
			got = "to"
			for _, n := range slices.DeleteFunc(o.Series, func(n Next) bool { return n.Series == Others }) {
				got += fmt.Sprintf(" %s %d", n.Series, n.To)
			}
		}
		if got != want {
			t.Errorf("%q: %s instead of %s", text, got, want)
		}
	}
}

// TestOwed_Lost: what each kind of loss asks a person to accept. A loss of changes alone is a loss too.
func TestOwed_Lost(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", 1)
	put(t, s, "a", 2)
	put(t, s, "b", 3)
	lead := func(series string, here, there, changes uint64) []Lead {
		return []Lead{{Series: series, Here: here, There: there, Changes: changes}}
	}
	card := func(w Witness) []Witness {
		w.Medium = WitnessCopy
		return []Witness{w}
	}
	for name, c := range map[string]struct {
		row    Restoration
		behind []Witness
		want   string
	}{
		"nothing":                    {Restoration{}, nil, ""},
		"changes":                    {Restoration{Known: lead("a", 0, 2, 1)}, nil, "a: none"},
		"numbers":                    {Restoration{Known: lead("a", 0, 4, 2)}, nil, "a: 3-4"},
		"a series":                   {Restoration{Known: lead("c", 0, 1, 1)}, nil, "c: 1"},
		"changes that a card has":    {Restoration{}, card(Witness{Series: lead("b", 1, 1, 1)}), "b: none"},
		"numbers that a card has":    {Restoration{}, card(Witness{Series: lead("b", 1, 3, 2)}), "b: 2-3"},
		"another history of a card":  {Restoration{}, card(Witness{Diverged: true, Series: lead("b", 1, 1, 0)}), "b: none"},
		"the mark":                   {Restoration{MarkLost: true}, nil, "a: 3-N; b: 2-N"},
		"the mark, and the copy's a": {Restoration{MarkLost: true, Known: lead("a", 0, 4, 2)}, nil, "a: 3-N; b: 2-N"},
		"a part of the copy":         {Restoration{Lacks: "piece 3"}, nil, "a: 3-N; b: 2-N"},
	} {
		o, err := owed(s.db, &c.row, c.behind, nil, nil)
		must(t, err)
		if got := strings.Join(o.Accept(nil), "; "); got != c.want {
			t.Errorf("%s: it asks for %q, not %q", name, got, c.want)
		}
	}
	sound(t, s)
}

// TestSettle_OutsideInterrupted: Settle ends after it has moved the series that MH named. The next Settle asks for
// every series again, until all have moved.
func TestSettle_OutsideInterrupted(t *testing.T) {
	disk := soldOn(t, 20)
	s := openStore(t, disk)
	must(t, s.Hold([]Witness{{Medium: "MH", Series: []Lead{{Series: "a", Here: 4, There: 5}}}}))
	o, err := s.Owed(begins)
	must(t, err)
	losses := o.losses(30)
	losses[1].Numbers = []Span{{1, 1 << 63}} // not a number of a series
	if _, err = s.Settle(ctx, begins, losses, "named"); err == nil {
		t.Error("it settled")
	}
	sound(t, s)
	s = openStore(t, disk)
	o, err = s.Owed(begins)
	must(t, err)
	asksAll(t, "interrupted", o)
	must(t, settle(s, 30, "named", begins(time.Time{})...))
	if o, err = s.Owed(begins); o != nil || err != nil {
		t.Errorf("settled, it asks %+v, %v", o, err)
	}
	sound(t, s)
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
		asksAll(t, name, made.Owed)
	}
}

// begins is a Possible with one series that has not begun.
func begins(time.Time) []string { return []string{"a", "b", "z"} }

// TestRecover_OldBoxRots: the older box sold on, and its store rotted before a backup of the dead box was read.
func TestRecover_OldBoxRots(t *testing.T) {
	disk := soldOn(t, 20)
	big := largestTable(t, disk)
	harm(t, disk, big, size(t, disk, big)/3)
	made, err := Assemble(ctx, Sources{Copy: card, Backups: []string{backupDir}, Possible: begins}, options(disk), nil)
	must(t, err)
	asksAll(t, "rot", made.Owed)
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
