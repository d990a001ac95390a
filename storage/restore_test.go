package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// lose takes the store away and leaves its mark, as a dead disk does when the mark is on another.
func lose(t testing.TB, s *Store, fs vfs.FS) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fs.RemoveAll("box/store"), syncDir(fs, "box")); err != nil {
		t.Fatal(err)
	}
}

func restored(t testing.TB, fs vfs.FS, dir string) *Store {
	t.Helper()
	if _, err := Assemble(ctx, Sources{Backups: []string{dir}}, options(fs), nil); err != nil {
		t.Fatal(err)
	}
	return openStore(t, fs)
}

// trust settles the store's open questions by what the mark says.
func trust(t testing.TB, s *Store, possible ...string) {
	t.Helper()
	if err := settle(s, 0, "restored", possible...); err != nil {
		t.Fatal(err)
	}
}

// told is the progress of a work whose first half is bytes read.
type told struct{ done, of []int64 }

func (p *told) progress(done, of int64) { p.done, p.of = append(p.done, done), append(p.of, of) }

// check: the progress never went back, reached its half and its end, and was reported between the files.
func (p *told) check(t *testing.T, what string, total int64) {
	t.Helper()
	n := len(p.done)
	if n < 3 || !slices.IsSorted(p.done) || p.done[0] <= 0 || p.done[0] >= total/2 || !slices.Contains(p.done,
		total/2) || p.done[n-1] != total || p.of[0] != total || p.of[n-1] != total {
		t.Errorf("%s: progress %d of %d, want %d", what, p.done, p.of, total)
	}
}

// A clock that was days ahead, and was set back, does not hide what a copy lacks since.
func TestAssemble_ClockWasAhead(t *testing.T) {
	s, fs := newStore(t)
	sound(t, s)
	o := withCard(fs)
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	var seconds, ahead atomic.Int64 // the copy's scrub reads the clock too
	ahead.Store(48 * 3600)
	o.Now = func() time.Time { return at.Add(time.Duration(seconds.Add(1)+ahead.Load()) * time.Second) }
	s = openStoreWith(t, o)
	put(t, s, "a", 1) // the last of its series
	ahead.Store(0)
	put(t, s, "b", 2)
	last := at.Add(time.Duration(seconds.Load()) * time.Second)
	sound(t, s)
	must(t, errors.Join(fs.RemoveAll("box/store"), syncDir(fs, "box"), fs.Remove(markPath)))
	seconds.Add(3 * 3600)
	if _, err := Assemble(ctx, Sources{Copy: card}, o, nil); err != nil {
		t.Fatal(err)
	}
	s = openStoreWith(t, o)
	if since := s.Restored().TakenAt(); since.After(last) || last.Sub(since) > time.Minute {
		t.Errorf("nothing is missing until %v; the last change was at %v", since, last)
	}
	must(t, settle(s, 5, "the clock was ahead"))
	sound(t, s)
}

func TestBackup_Restore(t *testing.T) {
	s, fs := newStore(t)
	for n := uint64(1); n <= 20; n++ {
		put(t, s, []string{"a", "b"}[n%2], n)
	}
	if _, err := s.Advance(ctx, code(3), fresh, Change{To: done,
		Parts: []Part{{"answer", []byte("seal")}}}); err != nil {
		t.Fatal(err)
	}
	made := new(told)
	b, err := s.Backup(ctx, backupDir, made.progress)
	if err != nil || b.Documents != 20 || b.Last["a"] != 10 {
		t.Fatalf("%+v, %v", b, err)
	}
	made.check(t, "backup", 2*b.Bytes)
	if _, err := s.Backup(ctx, backupDir, nil); !errors.Is(err, ErrExists) {
		t.Errorf("over a backup: %v", err)
	}
	for n := uint64(21); n <= 27; n++ { // spent after the backup: a 11 to 13, b 11 to 14
		put(t, s, []string{"a", "b"}[n%2], n)
	}
	put(t, s, "c", 28) // a series that the backup does not know
	if _, err := Assemble(ctx, Sources{Backups: []string{backupDir}}, options(fs), nil); !errors.Is(err, ErrInUse) {
		t.Errorf("over a store: %v", err)
	}
	lose(t, s, fs)
	checked := new(told)
	if _, err := CheckBackup(ctx, backupDir, options(fs), checked.progress); err != nil {
		t.Error(err)
	}
	checked.check(t, "check", 2*b.Bytes)

	s = restored(t, fs, backupDir)
	_, err = s.build(ctx, Keys{Series: "a"}, nil)
	_, advanceErr := s.Advance(ctx, code(3), done, Change{To: done})
	if !errors.Is(err, ErrRestored) || !errors.Is(advanceErr, ErrRestored) {
		t.Errorf("a restored store: %v, %v", err, advanceErr)
	}
	if d, err := s.Part(code(3), "answer"); err != nil || string(d) != "seal" {
		t.Errorf("restored part %q, %v", d, err)
	}
	if _, err := s.Get(code(21)); !errors.Is(err, ErrNotFound) {
		t.Errorf("a record from after the backup: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// It stays so until it is reconciled.
	s = openStore(t, fs)
	r, err := s.Owed(nil)
	if err != nil || r == nil || r.MarkLost || !r.Since.Equal(b.Taken) || len(r.Series) != 3 || r.Series[2].Here != 0 ||
		r.Series[2].Known != 1 {
		t.Fatalf("owed %+v, %v", r, err)
	}
	if _, err := s.Backup(ctx, "medium/early", nil); !errors.Is(err, ErrRestored) {
		t.Errorf("backing up what is not settled: %v", err)
	}
	a, b14, c := Loss{"a", []Span{{11, 13}}}, Loss{"b", []Span{{11, 14}}}, Loss{"c", []Span{{1, 1}}}
	for _, losses := range [][]Loss{nil, {a}, {a, b14}, {{"a", []Span{{11, 12}}}, b14, c}, {{"a", nil}, b14, c},
		{{"a", []Span{{12, 20}}}, b14, c}} {
		if _, err := s.Settle(ctx, nil, losses, "too little"); !errors.Is(err, ErrMissing) {
			t.Errorf("took %v: %v", losses, err)
		}
	}
	restoredAt := time.Unix(0, s.Restored().At)
	trust(t, s, "a", "c", "d")
	if s.Restored() != nil {
		t.Error("still to be reconciled")
	}
	want := map[string]uint64{"a": 15, "b": 16, "c": 3, "d": 2} // one more than the mark: it may have been given
	for series, number := range want {
		if e := put(t, s, series, 100+uint64(series[0])); e.Number != number {
			t.Errorf("series %s goes on at %d, not %d", series, e.Number, number)
		}
	}
	report, err := s.Fsck(ctx)
	if err != nil || len(report.Lost) != 4 || report.Lost[1] != (Lost{"a", 11, 14, report.Lost[1].At, "restored"}) {
		t.Errorf("lost %+v, %v", report.Lost, err)
	}
	gaps, err := s.Gaps()
	if err != nil || len(gaps) != 1 || !gaps[0].From.Equal(b.Taken) || !gaps[0].To.Equal(restoredAt) {
		t.Fatalf("the restoration is remembered as %v, %v", gaps, err)
	}
	gap := gaps[0]
	// A second restoration adds its own gaps, also from a backup that knows the first.
	if b, err = s.Backup(ctx, "medium/second", nil); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", 240)
	lose(t, s, fs)
	s = restored(t, fs, "medium/second")
	trust(t, s)
	if gaps, err := s.Gaps(); err != nil || len(gaps) != 2 || gaps[0] != gap || !gaps[1].From.Equal(b.Taken) {
		t.Errorf("two restorations are remembered as %v, %v", gaps, err)
	}
	sound(t, s)
	s = openStore(t, fs)
	if gaps, err := s.Gaps(); err != nil || len(gaps) != 2 {
		t.Errorf("after a restart %v, %v", gaps, err)
	}
	sound(t, s)
}

// TestRestore_Again: a restored store that gets a later backup before it is settled may still lack what came after the
// first backup.
func TestRestore_Again(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	first := backup(t, s, "medium/first")
	put(t, s, "a", 2)
	backup(t, s, "medium/second")
	put(t, s, "a", 3)
	lose(t, s, fs)
	must(t, restored(t, fs, "medium/first").Close())
	s = restored(t, fs, "medium/second")
	if _, err := s.Get(code(2)); err != nil {
		t.Error(err)
	}
	if got := s.Restored().TakenAt(); !got.Equal(first.Taken) {
		t.Errorf("nothing is missing until %v, want %v", got, first.Taken)
	}
	trust(t, s)
	sound(t, s)
}

// The mark went down with the store: nobody here knows the last numbers.
func TestRestore_MarkLost(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	backup(t, s, backupDir)
	put(t, s, "a", 2)
	lose(t, s, fs)
	if err := fs.Remove(markPath); err != nil {
		t.Fatal(err)
	}
	s = restored(t, fs, backupDir)
	if o, err := s.Owed(nil); err != nil || o == nil || !o.MarkLost || o.Series[0].Lost() != "a: 2-N" {
		t.Fatalf("owed %+v, %v", o, err)
	}
	if _, err := s.Settle(ctx, nil, nil, ""); !errors.Is(err, ErrMissing) {
		t.Error("settled without a word about series a", err)
	}
	if err := settle(s, 1000, "by hand", "b"); err != nil {
		t.Fatal(err)
	}
	for _, series := range []string{"a", "b"} {
		if e := put(t, s, series, 10+uint64(series[0])); e.Number < 1001 {
			t.Errorf("series %s goes on at %d", series, e.Number)
		}
	}
	sound(t, s)
}

// TestRestore_MarkBounds: until Settle, the mark of a restored store bounds numbers only if both of its slots were whole:
// a lost or damaged one may have had higher numbers.
func TestRestore_MarkBounds(t *testing.T) {
	for name, c := range map[string]struct {
		slot   int // of the damaged byte; -1: the mark is lost, 2: it is whole
		bounds bool
	}{"whole": {2, true}, "lost": {-1, false}, "first slot": {0, false}, "second slot": {1, false}} {
		s, fs := newStore(t)
		put(t, s, "a", 1)
		backup(t, s, backupDir)
		for i := range uint64(4) {
			put(t, s, "a", 2+i)
		}
		lose(t, s, fs)
		if content := readFile(t, fs, markPath); c.slot >= 0 && c.slot < 2 {
			content[c.slot*firstSlot+9] ^= 1
			writeFile(t, fs, markPath, content)
		} else if c.slot < 0 {
			if err := fs.Remove(markPath); err != nil {
				t.Fatal(err)
			}
		}
		s = restored(t, fs, backupDir)
		said, err := readMark(fs, markPath, false)
		if err != nil {
			t.Fatal(err)
		}
		if bounds := [8]byte(said.Store[8:]) != [8]byte{}; bounds != c.bounds {
			t.Errorf("%s: the mark says store %x, it bounds numbers: %v", name, said.Store, bounds)
		}
		if err := settle(s, 1000, "by hand"); err != nil {
			t.Fatal(err)
		}
		if said, err = readMark(fs, markPath, false); err != nil || [8]byte(said.Store[8:]) == [8]byte{} {
			t.Errorf("%s: once settled the mark says store %x, %v", name, said.Store, err)
		}
		sound(t, s)
	}
}

func TestRestore_Refused(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	backup(t, s, backupDir)
	lose(t, s, fs)
	good := readFile(t, fs, markPath)
	other := vfs.NewMem()
	if err := Create(options(other)); err != nil {
		t.Fatal(err)
	}
	for name, mark := range map[string][]byte{"another store's": readFile(t, other, markPath),
		"unreadable": []byte("?")} {
		writeFile(t, fs, markPath, mark)
		if _, err := Assemble(ctx, Sources{Backups: []string{backupDir}}, options(fs), nil); !errors.Is(err, ErrMark) {
			t.Errorf("beside a mark that is %s: %v", name, err)
		}
	}
	writeFile(t, fs, markPath, good)
	if _, err := Assemble(ctx, Sources{Backups: []string{"medium/tuesday"}}, options(fs), nil); !errors.Is(err,
		ErrNoStore) {
		t.Errorf("from nothing: %v", err)
	}
	s = restored(t, fs, backupDir)
	trust(t, s)
	sound(t, s)
}

func openReconciled(t *testing.T, fs vfs.FS) *Store {
	s := restored(t, fs, backupDir)
	trust(t, s)
	return s
}

// Whenever the power goes, there is a restored store that says so or none, and Restore can be repeated.
func TestRestore_Crash(t *testing.T) {
	for _, markLost := range []bool{false, true} {
		s, mem := newStore(t)
		for n := uint64(1); n <= 9; n++ {
			put(t, s, []string{"a", "b"}[n%2], n)
		}
		backup(t, s, backupDir)
		put(t, s, "a", 10)
		lose(t, s, mem)
		if markLost {
			if err := mem.Remove(markPath); err != nil {
				t.Fatal(err)
			}
		}
		mem = mem.Crash(100, newRand(1))
		disks := crashes(mem, func(fs vfs.FS) {
			s := restored(t, fs, backupDir)
			if err := settle(s, 10, "by hand"); err != nil {
				t.Error(err)
			}
			sound(t, s)
		})
		reconciled := 0
		for i, disk := range disks {
			s, err := Open(options(disk))
			if errors.Is(err, ErrNoStore) {
				s = restored(t, disk, backupDir)
			} else if err != nil {
				t.Fatalf("crash %d: %v", i, err)
			}
			if r := s.Restored(); r == nil {
				reconciled++
			} else if err := settle(s, 10, "by hand"); err != nil {
				t.Errorf("crash %d: %v", i, err)
			}
			if e := put(t, s, "a", 100); e.Number < 7 || markLost && e.Number < 15 {
				t.Errorf("crash %d: series a goes on at %d", i, e.Number)
			}
			sound(t, s)
		}
		if t.Logf("%d disks, %d reconciled", len(disks), reconciled); reconciled == 0 || reconciled > len(disks)/2 {
			t.Errorf("%d of %d disks were reconciled", reconciled, len(disks))
		}
	}
}

// A backup whose files are as they were written, and whose rows contradict each other, is not sound; a store that is
// made of it says what the backup lacks.
func TestRestore_Contradictory(t *testing.T) {
	s, fs := newStore(t)
	e := put(t, s, "a", 1)
	put(t, s, "a", 2)
	backup(t, s, backupDir)
	lose(t, s, fs)
	o := options(fs)
	o.Dir = backupDir + "/" + backupStore
	o.setDefaults()
	db, err := openPebble(&o, &damage{}, false)
	if err == nil {
		err = errors.Join(db.Delete(entryKey(e.ID), pebble.Sync), db.Close())
	}
	names, _, listed := listFiles(fs, o.Dir)
	if err = errors.Join(err, listed); err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{backupFile: digest(readFile(t, fs, backupDir+"/"+backupFile))}
	for _, name := range names {
		sums[backupStore+"/"+name] = digest(readFile(t, fs, o.Dir+"/"+name))
	}
	writeFile(t, fs, backupDir+"/"+backupSums, encodeSums(sums))
	if _, err := CheckBackup(ctx, backupDir, options(fs), nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("checked: %v", err)
	}
	made, err := Assemble(ctx, Sources{Backups: []string{backupDir}}, options(fs), nil)
	if err != nil || made.Whole || len(made.missing()) != 1 ||
		!slices.Equal(made.missing()[0].Partial, []Span{{1, 1}}) {
		t.Errorf("restored: %+v, %v", made, err)
	}
}

// died is the error of work, even where the store ends the process.
func died(work func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("died: %v", r)
		}
	}()
	return work()
}

// A folder that cannot be made, read, named or synced fails a restoration and a rebuild: neither is reported as done.
func TestRestore_Fails(t *testing.T) {
	s, fs := newStore(t)
	sound(t, s)
	s = live(t, fs)
	everything(t, s, 1)
	backup(t, s, backupDir)
	lose(t, s, fs)
	for name, work := range map[string]func(o Options) error{
		"restore": func(o Options) error {
			_, err := Assemble(ctx, Sources{Backups: []string{backupDir}}, o, nil)
			return err
		},
		"rebuild": func(o Options) error { _, err := Assemble(ctx, Sources{Copy: card}, o, nil); return err },
	} {
		failed := 0
		for at := int64(1); ; at++ {
			var n atomic.Int64
			disk := errorfs.Wrap(fs.Copy(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				if strings.Contains(op.Path, ".new/") || strings.HasPrefix(op.Path, backupDir) ||
					op.Kind == errorfs.OpOpenDir && strings.HasSuffix(op.Path, ".new") {
					return nil // Pebble's own, and a source that is read around its damage
				}
				switch op.Kind {
				case errorfs.OpRename, errorfs.OpMkdirAll, errorfs.OpRemoveAll, errorfs.OpOpenDir:
					if n.Add(1) == at {
						return errorfs.ErrInjected
					}
				}
				return nil
			}))
			err := died(func() error { return work(options(disk)) })
			if n.Load() < at {
				break // it was not reached
			}
			if failed++; err == nil {
				t.Errorf("%s: the %dth of its operations on folders fails, and it says nothing", name, at)
			}
		}
		if failed < 4 {
			t.Errorf("%s: %d operations on folders", name, failed)
		}
	}
}

// A disk that gets full while a new store is made ends the recovery with the file's name, at whichever write; the space
// is free again, and the next recovery is whole.
func TestRecover_DiskFull(t *testing.T) {
	s, fs := newStore(t)
	sound(t, s)
	s = live(t, fs)
	everything(t, s, 1)
	lose(t, s, fs)
	want, err := Assemble(ctx, Sources{Copy: card}, options(fs.Copy()), nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := 0
	for at := int64(1); ; at += 1 + at/4 {
		var n atomic.Int64
		disk := fs.Copy()
		o := options(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if !strings.Contains(op.Path, ".new/") || op.Kind.ReadOrWrite() != errorfs.OpIsWrite ||
				strings.HasSuffix(op.Path, ".sst") || n.Add(1) < at {
				return nil // a table is written again, for a minute
			}
			return syscall.ENOSPC
		})))
		ended := make(chan string, 8)
		o.Fatal = func(message string) { ended <- message }
		o.exit = func(int) { select {} }
		go func() {
			_, err := Assemble(ctx, Sources{Copy: card}, o, nil)
			ended <- fmt.Sprint(err)
		}()
		said := <-ended
		if n.Load() < at {
			break // it was not reached
		}
		begun++
		if !strings.Contains(said, "no space left") {
			t.Errorf("the %dth write meets a full disk: %s", at, said)
		}
		if _, err := disk.Stat(o.Dir + ".new"); err == nil {
			t.Errorf("the %dth write meets a full disk: what was made until then is still there", at)
		}
		made, err := Assemble(ctx, Sources{Copy: card}, options(disk.Kill()), nil)
		if err != nil || made.Documents != want.Documents {
			t.Errorf("afterwards: %+v, %v", made, err)
		}
	}
	if begun < 10 {
		t.Errorf("%d writes", begun)
	}
}
