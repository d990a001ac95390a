package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

const card = "card/copy"

// withCard are options with a second copy in small segments.
func withCard(fs vfs.FS) Options {
	o := options(fs)
	o.SecondCopy, o.segment = card, 8<<10
	return o
}

// live opens a store and expects its second copy to be well.
func live(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s := openStoreWith(t, withCard(fs))
	if c, ok := s.SecondCopy(); !ok || !c.Live {
		t.Fatalf("second copy %+v", c)
	}
	return s
}

// everything makes changes of every kind, from number n on.
func everything(t testing.TB, s *Store, n uint64) {
	t.Helper()
	for i := n; i < n+12; i++ {
		put(t, s, []string{"a", "b", "c"}[i%3], i)
	}
	_, err := s.build(ctx, Keys{Series: "a", Origins: []Code{code(n)}}, func(slot Slot) (Draft, error) {
		d := draft(code(n+12), slot)
		d.Counters = []Counter{{code(n), 1, 5}}
		return d, nil
	})
	for i := n; i < n+6 && err == nil; i++ { // moved in the queue, and out of it
		_, err = s.Advance(ctx, code(i), fresh, Change{To: fresh, Due: &Due{"settle", time.Unix(int64(i)+100, 0)}})
		if err == nil && i%2 == 0 {
			_, err = s.Advance(ctx, code(i), fresh, Change{To: done, Announce: true, Head: []byte("new head"),
				Parts:    []Part{{"answer", form(code(i))}},
				Counters: []Counter{{code(n), uint32(i), 1}}})
		}
	}
	if err == nil {
		err = s.SkipTo(ctx, "d", n+3, "why")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rows are all of a store's rows but the meta table's.
func rows(t testing.TB, s *Store) (list [][2]string) {
	t.Helper()
	err := scan(s.db, []byte{tableMeta + 1}, nil, func(key, value []byte) error {
		list = append(list, [2]string{string(key), string(value)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func same(t testing.TB, name string, want, got [][2]string) {
	t.Helper()
	if !slices.Equal(want, got) {
		for i := range min(len(want), len(got)) {
			if want[i] != got[i] {
				t.Fatalf("%s: row %s, want %s", name, describeKey([]byte(got[i][0])), describeKey([]byte(want[i][0])))
			}
		}
		t.Fatalf("%s: %d rows, want %d", name, len(got), len(want))
	}
}

// onlyCard is what is left when the box burns: the card.
func onlyCard(t testing.TB, fs *disktest.Disk) *disktest.Disk {
	t.Helper()
	disk := copyOf(fs)
	err := errors.Join(disk.RemoveAll("box/store"), syncDir(disk, "box"), disk.RemoveAll("other"), syncDir(disk, ""))
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

func rebuilt(t testing.TB, disk *disktest.Disk) *Store {
	t.Helper()
	if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); err != nil {
		t.Fatal(err)
	}
	return openStore(t, disk)
}

// trustCopy reconciles a store whose copy was live to the end.
func trustCopy(t testing.TB, s *Store) {
	t.Helper()
	if err := settle(s, 0, "rebuilt"); err != nil {
		t.Fatal(err)
	}
}

// burn ends a store, and expects all of it from the card alone.
func burn(t testing.TB, name string, s *Store, fs *disktest.Disk) {
	t.Helper()
	want := rows(t, s)
	sound(t, s)
	s = rebuilt(t, onlyCard(t, fs))
	same(t, name, want, rows(t, s))
	trustCopy(t, s)
	sound(t, s)
}

func TestSecondCopy_Rebuild(t *testing.T) {
	s, fs := newStore(t)
	everything(t, s, 1)
	sound(t, s)
	// The copy begins in the middle of the store's life, and goes on through restarts.
	for n := uint64(100); n < 500; n += 100 {
		s = live(t, fs)
		everything(t, s, n)
		if n < 400 {
			sound(t, s)
		}
	}
	want := rows(t, s)
	if numbers, err := segmentNumbers(fs, card); err != nil || len(numbers) < 8 {
		t.Errorf("segments %v, %v", numbers, err)
	}
	if _, err := Assemble(ctx, Sources{Copy: card}, options(fs), nil); !errors.Is(err, ErrInUse) {
		t.Errorf("over a store: %v", err)
	}
	sound(t, s)

	disk := onlyCard(t, fs)
	s = rebuilt(t, disk)
	same(t, "rebuilt", want, rows(t, s))
	if _, err := s.build(ctx, Keys{Series: "a"}, nil); !errors.Is(err, ErrRestored) {
		t.Errorf("a rebuilt store issues: %v", err)
	}
	report, err := s.Fsck(ctx)
	if r := s.Restored(); err != nil || r == nil || r.Made != "rebuilt from a second copy" {
		t.Fatal(r, err)
	}
	trustCopy(t, s)
	if e := put(t, s, "a", 900); e.Number != report.Last["a"]+1 {
		t.Errorf("series a goes on at %d after %d", e.Number, report.Last["a"])
	}
	sound(t, s)
	if _, err := Assemble(ctx, Sources{Copy: "card/nothing"}, options(vfs.NewMem()), nil); !errors.Is(err, ErrNoStore) {
		t.Errorf("from nothing: %v", err)
	}
}

// TestSecondCopy_Crash cuts the power at every write. Whatever medium is lost then: the card alone gives a sound store
// with all that was acknowledged; so does the disk, and the card catches up with it.
func TestSecondCopy_Crash(t *testing.T) {
	runs := []crashRun{{seed: 1, workers: 1, ops: 20, series: 2, each: 10}, {seed: 2, workers: 8, ops: 8, series: 3,
		each: 18}, {seed: 3, workers: 8, ops: 6, series: 3, each: 10}}
	if soak {
		runs = []crashRun{{seed: 1, workers: 1, ops: 40, series: 2, each: 1}, {seed: 2, workers: 8, ops: 20, series: 3,
			each: 2}, {seed: 3, workers: 16, ops: 40, series: 4, each: 7}, {seed: 4, workers: 8, ops: 20, series: 3,
			each: 1}}
	}
	if testing.Short() {
		runs = []crashRun{{seed: 2, workers: 4, ops: 6, series: 3, each: 12}}
	}
	for i, r := range runs {
		s, mem := newStore(t)
		c := &crasher{disk: mem, each: r.each, out: make(chan crashed), rng: newRand(r.seed)}
		c.ledger.acked = make(map[Code]ackedRecord)
		var disks []crashed
		var collector sync.WaitGroup
		collector.Go(func() {
			for disk := range c.out {
				disks = append(disks, disk)
			}
		})
		// The last run does not wait for the copy, which catches up with what was there while more comes.
		early := i == len(runs)-1
		if early {
			everything(t, s, 1000)
			everything(t, s, 2000)
		}
		sound(t, s)
		o := withCard(errorfs.Wrap(mem, c))
		if early {
			o.SecondPatience = time.Nanosecond
		}
		s = openStoreWith(t, o)
		s.o.SecondPatience = time.Minute
		var workers sync.WaitGroup
		for w := range r.workers {
			workers.Go(func() {
				if err := r.worker(s, c, uint64(w)); err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
		<-s.second.first
		put(t, s, "end", 8001)
		if c, _ := s.SecondCopy(); !c.Live {
			t.Errorf("second copy %+v", c)
		}
		sound(t, s)
		c.off.Store(true)
		close(c.out)
		collector.Wait()
		t.Logf("%d crashes", len(disks))
		for _, disk := range disks {
			if early {
				disk.acked = nil // not all of it waited for the card
			}
			verifyCard(t, disk)
		}
	}
}

func verifyCard(t *testing.T, d crashed) {
	alone := onlyCard(t, d.fs)
	if _, err := Assemble(ctx, Sources{Copy: card}, options(alone), nil); err == nil {
		s := openStore(t, alone)
		trustCopy(t, s)
		if err := (crashed{acked: d.acked}).compare(s, nil); err != nil {
			t.Errorf("from the card: %v", err)
		}
		if err := goOn(s, false); err != nil {
			t.Errorf("from the card: %v", err)
		}
		sound(t, s)
	} else if !errors.Is(err, ErrNoStore) || len(d.acked) > 0 {
		t.Errorf("from the card, %d acknowledged: %v", len(d.acked), err)
	}
	s := live(t, d.fs)
	put(t, s, "after", 8002)
	burn(t, "caught up", s, d.fs)
}

// A counter is set from several series, whose changes the log holds in another order: its latest value stays.
func TestRebuild_Counters(t *testing.T) {
	s, _ := newStore(t)
	key := counterKey(code(1), 2)
	for _, revision := range []uint64{5, 7, 6} {
		if err := setCounter(s.db, key, be.AppendUint64(be.AppendUint64(nil, 100+revision), revision)); err != nil {
			t.Fatal(err)
		}
	}
	if row, err := get(s.db, key); err != nil || be.Uint64(row) != 107 {
		t.Errorf("counter %x, %v", row, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSecondCopy_SegmentNumbers: whatever happens to medium and store, no number of a segment is given twice, and each
// is above all earlier ones: what was shipped under a number never changes.
func TestSecondCopy_SegmentNumbers(t *testing.T) {
	seeds := uint64(3)
	if soak {
		seeds = 60
	}
	for seed := range seeds {
		random := newRand(seed)
		disk := disktest.New(disktest.Strict)
		var given uint64
		left := -1 // writes to the card before they fail; below zero none does
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if !strings.HasPrefix(op.Path, card+"/") || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
				return nil
			}
			if left == 0 {
				return errorfs.ErrInjected
			}
			left--
			var n uint64
			if _, err := fmt.Sscanf(disk.PathBase(op.Path), "%d.copy", &n); err == nil && op.Kind == errorfs.OpCreate {
				if n <= given {
					t.Errorf("seed %d: segment %d is made after segment %d", seed, n, given)
				}
				given = n
			}
			return nil
		}))
		var ahead time.Duration
		now := clock()
		with := func(fs vfs.FS) Options {
			o := withCard(fs)
			o.Now = func() time.Time { return now().Add(ahead) }
			return o
		}
		must(t, Create(with(fs)))
		next, backups := uint64(1), 0
		for range 25 {
			ahead += time.Duration(1+random.IntN(9)) * time.Hour
			left = -1
			if random.IntN(3) == 0 {
				left = random.IntN(30)
			}
			s := openStoreWith(t, with(fs))
			if s.Restored() != nil {
				trust(t, s)
				must(t, s.Close())
				s = openStoreWith(t, with(fs))
			}
			if s.Behind() != nil {
				must(t, settle(s, 0, "the card knows more"))
			}
			for range random.IntN(40) {
				put(t, s, "a", next)
				next++
			}
			if backups == 0 || random.IntN(6) == 0 {
				backups++
				_, err := s.Backup(ctx, fmt.Sprint("usb/", backups), nil)
				must(t, err)
			}
			must(t, s.Close())
			left = -1
			o := with(disk)
			switch random.IntN(6) {
			case 0:
				must(t, disk.RemoveAll(card)) // a new card
			case 1:
				must(t, disk.RemoveAll(card))
				fallthrough
			case 2:
				must(t, disk.RemoveAll(o.Dir))
				_, err := Assemble(ctx, Sources{Backups: []string{fmt.Sprint("usb/", backups)}}, o, nil)
				must(t, err)
			case 3:
				if _, err := Assemble(ctx, Sources{Copy: card}, Options{Dir: o.Dir + ".rebuilt", MarkPath: o.MarkPath,
					FS: disk, Now: o.Now}, nil); err == nil {
					must(t, disk.RemoveAll(o.Dir))
					must(t, disk.Rename(o.Dir+".rebuilt", o.Dir))
				}
			}
		}
		if given == 0 {
			t.Error("no segment was made")
		}
	}
}

// TestCopyAfter: a copy whose files have earlier names than a shipped file begins again with later names, once.
func TestCopyAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := disktest.New(disktest.Strict)
		must(t, Create(options(disk)))
		o := withCard(disk)
		o.FakeTime = true
		s := openStoreWith(t, o)
		put(t, s, "a", 1)
		numbers, err := segmentNumbers(disk, card)
		must(t, err)
		shipped := slices.Max(numbers) + 7
		for i, c := range []struct {
			file  string
			stays bool
		}{{"note.txt", true}, {segmentName(numbers[0]), false}, {segmentName(numbers[0]), true},
			{segmentName(shipped), false}, {segmentName(shipped), true}, {segmentName(shipped - 1), true}} {
			s.CopyAfter(c.file)
			if status, _ := s.SecondCopy(); status.Live != c.stays {
				t.Errorf("%d: %s was shipped: the copy is live: %v", i, c.file, status.Live)
			}
			time.Sleep(retryLongest + time.Second)
			put(t, s, "a", uint64(i+2))
			if status, _ := s.SecondCopy(); !status.Live {
				t.Errorf("%d: %s was shipped: the copy does not begin again: %+v", i, c.file, status)
			}
		}
		if numbers, err = segmentNumbers(disk, card); err != nil || slices.Min(numbers) <= shipped {
			t.Errorf("%d was shipped, the copy has %v: %v", shipped, numbers, err)
		}
		burn(t, "begun again", s, disk)
	})
}

// TestSecondCopy_CloseWhileHanging: the medium hangs at any call, of a fill or of a change, and the store closes. Close
// does not wait for the medium, and once the medium answers the store opens again.
func TestSecondCopy_CloseWhileHanging(t *testing.T) {
	hung := 0
	for n := range int64(40) {
		synctest.Test(t, func(t *testing.T) {
			disk := disktest.New(disktest.Strict)
			must(t, Create(options(disk)))
			s := openStore(t, disk)
			everything(t, s, 1)
			sound(t, s)
			hang := make(chan struct{})
			var left atomic.Int64
			left.Store(3 * n)
			o := withCard(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if strings.HasPrefix(op.Path, card) && left.Add(-1) < 0 {
					<-hang
				}
				return nil
			})))
			o.FakeTime = true
			s = openStoreWith(t, o)
			for i := range uint64(5) {
				put(t, s, "a", 1000+i)
			}
			must(t, s.Close())
			if left.Load() < 0 {
				hung++
			}
			close(hang)
			synctest.Wait()
			s = openStoreWith(t, withCard(disk))
			burn(t, fmt.Sprint("hung at call ", 3*n), s, disk)
		})
	}
	if hung < 20 {
		t.Errorf("the medium hung %d times", hung)
	}
}

// The card of another store is not touched; when it is taken out, the box notices by itself.
func TestSecondCopy_Foreign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, foreign := newStore(t)
		sound(t, other)
		other = live(t, foreign)
		put(t, other, "a", 1)
		sound(t, other)
		disk := disktest.New(disktest.Strict)
		o := withCard(disk)
		o.FakeTime = true
		if err := Create(o); err != nil {
			t.Fatal(err)
		}
		takeCard(t, foreign, disk)
		s := openStoreWith(t, o)
		put(t, s, "a", 7)
		if c, _ := s.SecondCopy(); c.Live || !strings.Contains(c.Why, "another store's") {
			t.Errorf("%+v", c)
		}
		numbers, err := segmentNumbers(foreign, card)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range numbers {
			if string(readFile(t, disk, segmentPath(disk, card, n))) != string(readFile(t, foreign, segmentPath(disk,
				card, n))) {
				t.Errorf("segment %d was touched", n)
			}
		}
		if err := errors.Join(disk.MkdirAll("away", 0o700), disk.Rename(card, "away/copy")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retryFirst + time.Second)
		if c, _ := s.SecondCopy(); !c.Live {
			t.Errorf("a minute after it was moved away: %+v", c)
		}
		burn(t, "begun", s, disk)
	})
}

// After a rebuild the box itself sets the old copy aside, unchanged.
func TestSecondCopy_AfterRebuild(t *testing.T) {
	s, fs := newStore(t)
	sound(t, s)
	s = live(t, fs)
	everything(t, s, 1)
	want := rows(t, s)
	sound(t, s)
	disk := onlyCard(t, fs)
	s = rebuilt(t, disk)
	trustCopy(t, s)
	sound(t, s)
	s = live(t, disk)
	everything(t, s, 100)
	names, err := disk.List(card)
	if err != nil {
		t.Fatal(err)
	}
	old := card + "/" + names[len(names)-1]
	if !strings.HasPrefix(names[len(names)-1], "old-20261120-") {
		t.Fatalf("%v", names)
	}
	burn(t, "the new copy", s, disk)
	third := onlyCard(t, disk)
	if _, err := Assemble(ctx, Sources{Copy: old}, options(third), nil); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, third)
	same(t, "the old copy", want, rows(t, s))
	trustCopy(t, s)
	sound(t, s)
}

// Where an old copy leaves no room for a new one, the message says so, and what to move.
func TestSecondCopy_NoRoom(t *testing.T) {
	fs := carded(t)
	disk := onlyCard(t, fs)
	s := rebuilt(t, disk)
	trustCopy(t, s)
	sound(t, s)
	disk.SetUsage(vfs.DiskUsage{TotalBytes: 1000, AvailBytes: 100})
	s = openStoreWith(t, withCard(disk))
	if c, _ := s.SecondCopy(); c.Live || !strings.Contains(c.Why, "move card/copy/old-") {
		t.Errorf("%+v", c)
	}
	put(t, s, "a", 900)
	sound(t, s)
}

// A sync of the card fails once, whichever one, and later ones succeed without the pages that it lost. However soon
// after it the process is killed and the power cut: what was acknowledged is on the card when the copy says that it is
// live.
func TestSecondCopy_FailedSyncLies(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 5
	}
	lies := 0
	for nth := 1; nth < 200; nth += step {
		for _, evict := range []bool{false, true} {
			for _, killed := range []bool{false, true} {
				ended := false
				synctest.Test(t, func(t *testing.T) {
					disk := disktest.New(disktest.Strict)
					o := withCard(disk)
					o.FakeTime, o.Now = true, time.Now
					if err := Create(o); err != nil {
						t.Fatal(err)
					}
					s := openStoreWith(t, o)
					count := 0
					failed := disk.FailSyncs(1, errorfs.ErrInjected, func(path string) bool {
						if strings.HasPrefix(path, "card/copy/") {
							count++
						}
						return count == nth && strings.HasPrefix(path, "card/copy/")
					})
					everything(t, s, 1)
					if failed() == 0 {
						ended = true
						sound(t, s)
						return
					}
					lies++
					if evict {
						disk.Evict()
					}
					// and started again before the copy has returned; the kernel has what the medium lacks
					if killed {
						sound(t, s)
						s = openStoreWith(t, o)
					}
					time.Sleep(retryFirst + time.Second)
					put(t, s, "a", 900)
					if c, _ := s.SecondCopy(); !c.Live {
						t.Fatalf("sync %d: %+v", nth, c)
					}
					want := rows(t, s)
					cut := onlyCard(t, disk.Crash(0, newRand(1)))
					again := rebuilt(t, cut)
					same(t, fmt.Sprintf("sync %d, evict %v, killed %v", nth, evict, killed), want, rows(t, again))
					if err := again.Close(); err != nil {
						t.Error(err)
					}
					sound(t, s)
				})
				if ended {
					if t.Logf("%d lies", lies); lies == 0 {
						t.Error("nothing failed")
					}
					return
				}
			}
		}
	}
}

// TestSecondCopy_ReadBack: a card that keeps other bytes than it was given is not live before all of them read back.
func TestSecondCopy_ReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := disktest.New(disktest.Strict)
		o := withCard(disk)
		o.FakeTime, o.Now = true, time.Now
		alone := o
		alone.SecondCopy = ""
		if err := Create(alone); err != nil {
			t.Fatal(err)
		}
		s := openStoreWith(t, alone)
		everything(t, s, 1)
		sound(t, s)
		flipped := ""
		disk.OnSync(func(path string) error {
			if at := size(t, disk, path) / 2; flipped == "" && strings.HasPrefix(path, "card/copy/") && at > 1000 {
				flipped = path
				return disk.Flip(path, 8*at)
			}
			return nil
		})
		s = openStoreWith(t, o)
		synctest.Wait()
		if c, _ := s.SecondCopy(); flipped == "" || c.Live || !strings.Contains(c.Why, "reading back what was written") {
			t.Errorf("%s is flipped: %+v", flipped, c)
		}
		time.Sleep(retryFirst + time.Second)
		if c, _ := s.SecondCopy(); !c.Live {
			t.Fatalf("%+v", c)
		}
		want := rows(t, s)
		sound(t, s)
		again := rebuilt(t, onlyCard(t, disk))
		same(t, "after another fill", want, rows(t, again))
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSecondCopy_Partial: what the store has of a record whose links are missing is on the second copy too.
func TestSecondCopy_Partial(t *testing.T) {
	disk := carded(t)
	s := live(t, disk)
	e := put(t, s, "a", 100)
	_, err := s.Advance(ctx, code(100), fresh, Change{To: done, Parts: []Part{{"answer", form(code(100))}}})
	must(t, err)
	end, err := s.series("a")
	must(t, errors.Join(err, s.db.Delete(journalKey(e.SequenceID, end.Position), pebble.NoSync)))
	put(t, s, "a", 101)
	must(t, errors.Join(s.Close(), disk.RemoveAll(card), makeParents(disk, card+"/x")))
	_, err = Assemble(ctx, Sources{}, options(disk), nil)
	must(t, err)
	accept(t, disk)
	s = live(t, disk)
	parts, err := s.Parts(code(100))
	if err != nil || len(parts) != 2 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	must(t, s.Close())
	s = rebuilt(t, onlyCard(t, disk))
	if again, err := s.Parts(code(100)); err != nil || len(again) != len(parts) {
		t.Errorf("of %d parts the copy has %d: %v", len(parts), len(again), err)
	}
	must(t, s.Close())
}

// TestSecondCopy_FilledInPart: what a medium fills of a record that goes on lacking something is on the second copy too.
func TestSecondCopy_FilledInPart(t *testing.T) {
	disk := carded(t)
	s := live(t, disk)
	e := put(t, s, "a", 100)
	backup(t, s, backupDir)
	_, err := s.Advance(ctx, code(100), fresh, Change{To: done, Parts: []Part{{"answer", form(code(100))}}})
	must(t, errors.Join(err, s.db.Delete(partKey(e.ID, "form"), pebble.NoSync),
		s.db.Delete(partKey(e.ID, "answer"), pebble.NoSync), s.Close(), disk.RemoveAll(card), makeParents(disk, card+"/x")))
	_, err = Assemble(ctx, Sources{}, options(disk), nil)
	must(t, err)
	accept(t, disk)
	must(t, live(t, disk).Close())
	_, err = Assemble(ctx, Sources{Backups: []string{backupDir}}, options(disk), nil)
	must(t, err)
	accept(t, disk)
	must(t, live(t, disk).Close())
	s = rebuilt(t, onlyCard(t, disk))
	if _, err := s.Part(code(100), "form"); err != nil {
		t.Error(err)
	}
	must(t, s.Close())
}
