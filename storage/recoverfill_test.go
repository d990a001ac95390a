package storage

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

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
