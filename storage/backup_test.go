package storage

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/storage/disktest"
)

const backupDir = "medium/monday"

func backup(t testing.TB, s *Store, dir string) *Backup {
	t.Helper()
	b, err := s.Backup(ctx, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// CheckBackup finds one flipped bit anywhere in a backup, and Assemble names it, like a file that is short or missing;
// the numbers of what is lost are named.
func TestBackup_Flipped(t *testing.T) {
	s, fs := newStore(t)
	for n := uint64(1); n <= 10; n++ {
		put(t, s, "a", n)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", 11)
	backup(t, s, backupDir)
	lose(t, s, fs)
	names, _, err := listFiles(fs, backupDir+"/store")
	if err != nil || len(names) < 5 {
		t.Fatalf("%q, %v", names, err)
	}
	files := []string{backupFile, backupSums}
	for _, name := range names {
		files = append(files, "store/"+name)
	}
	damage := func(name, path string, content []byte) {
		disk := copyOf(fs)
		if content == nil {
			if err := disk.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			writeFile(t, disk, path, content)
		}
		_, checked := CheckBackup(ctx, backupDir, options(disk), nil)
		if !errors.Is(checked, ErrCorrupt) && !errors.Is(checked, ErrNoStore) {
			t.Errorf("%s %s: %v", path, name, checked)
		}
		made, err := Assemble(ctx, Sources{Backups: []string{backupDir}}, options(disk), nil)
		if err != nil {
			if _, there := disk.Stat("box/store"); there == nil || strings.Contains(path, ".json") {
				t.Errorf("%s %s: %v", path, name, err)
			}
			return
		}
		if len(made.Sources) != 1 || len(made.Sources[0].Bad) == 0 || made.Whole {
			t.Errorf("%s %s: the damage is not named: %+v", path, name, made)
		}
		s := openStore(t, disk)
		for n := uint64(1); n <= 11; n++ {
			named := slices.ContainsFunc(made.Owed.Series, func(next Next) bool {
				return next.Series == "a" && slices.ContainsFunc(next.lost, func(l Span) bool {
					return l.From <= n &&
						n <= l.To
				})
			})
			part, err := s.Part(code(n), "form")
			if !named && (err != nil || !slices.Equal(part, form(code(n)))) {
				t.Errorf("%s %s: number %d is lost and not named: %v", path, name, n, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range files {
		path := backupDir + "/" + name
		whole := readFile(t, fs, path)
		damage("missing", path, nil)
		if len(whole) == 0 {
			continue // a marker: its content is its name
		}
		damage("short", path, whole[:len(whole)-2])
		for _, at := range []int{0, len(whole) / 3, len(whole) - 1} {
			b := slices.Clone(whole)
			b[at] ^= 1 << (at % 8)
			damage(fmt.Sprintf("flipped at %d", at), path, b)
		}
	}
	sound(t, openReconciled(t, fs))
}

// TestBackup_Older: a backup whose files are of an earlier moment lacks numbers of the mark, and is refused.
func TestBackup_Older(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	backup(t, s, backupDir)
	for n := uint64(2); n <= 4; n++ { // the mark may be one number behind
		put(t, s, "a", n)
	}
	_, err := s.Backup(ctx, "medium/2", func(done, total int64) {
		if copied := "medium/2.new/store"; done == total/2 {
			must(t, fs.RemoveAll(copied))
			if ok, err := vfs.Clone(fs, fs, backupDir+"/store", copied); !ok || err != nil {
				t.Error(ok, err)
			}
		}
	})
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), markProblem) {
		t.Errorf("got %v", err)
	}
	sound(t, s)
}

// A backup holds all that was acknowledged before it began, whatever happens meanwhile.
func TestBackup_WhileIssuing(t *testing.T) {
	s, fs := newStore(t)
	stop := make(chan struct{})
	var workers sync.WaitGroup
	l := ledger{acked: make(map[Code]ackedRecord)}
	for w := range uint64(4) {
		workers.Go(func() {
			for n := w << 32; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				e, err := s.build(ctx, Keys{Series: fmt.Sprint(n % 3), Idempotency: idemOf(n)},
					func(slot Slot) (Draft, error) { return draft(code(n), slot), nil })
				if err == nil {
					l.ack(e, n)
					e, err = s.Advance(ctx, e.Code, fresh, Change{To: done, Parts: []Part{{"answer", form(e.Code)}}})
				}
				if err != nil {
					t.Error(err)
					return
				}
				l.ack(e, n)
			}
		})
	}
	var held []map[Code]ackedRecord
	for i := range 4 {
		held = append(held, l.copy())
		if b := backup(t, s, fmt.Sprint("medium/", i)); b.Documents < len(held[i]) {
			t.Errorf("backup %d has %d documents, %d were acknowledged", i, b.Documents, len(held[i]))
		}
	}
	close(stop)
	workers.Wait()
	sound(t, s)
	for i, acked := range held {
		disk := copyOf(fs)
		if err := disk.RemoveAll("box/store"); err != nil {
			t.Fatal(err)
		}
		s := restored(t, disk, fmt.Sprint("medium/", i))
		trust(t, s)
		if err := (crashed{acked: acked}).compare(s, nil); err != nil {
			t.Errorf("backup %d: %v", i, err)
		}
		sound(t, s)
	}
}

// crashes collects what the disk would hold if the power went at each write, in the suite at every second, and twice at
// the end.
func crashes(mem *disktest.Disk, work func(fs vfs.FS)) []*disktest.Disk {
	rng := newRand(1)
	var mu sync.Mutex // Pebble writes from several goroutines
	var disks []*disktest.Disk
	count := 0
	work(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			if count++; soak || count%2 == 0 || op.Kind == errorfs.OpRename { // between two renames, always
				percent := []int{0, 40, 100}[rng.IntN(3)]
				disks = append(disks, mem.Crash(percent, rng))
			}
		}
		return nil
	})))
	return append(disks, mem.Crash(0, nil))
}

// Whenever the power goes, there is a whole backup of that name or none, the store is sound, and Backup may be
// repeated.
func TestBackup_Crash(t *testing.T) {
	s, mem := newStore(t)
	for n := uint64(1); n <= 9; n++ {
		put(t, s, []string{"a", "b"}[n%2], n)
	}
	sound(t, s)
	disks := crashes(mem, func(fs vfs.FS) {
		s := openStore(t, fs)
		backup(t, s, backupDir)
		sound(t, s)
	})
	whole := 0
	for i, disk := range disks {
		_, err := CheckBackup(ctx, backupDir, options(disk), nil)
		if err == nil {
			whole++
		} else if _, stat := disk.Stat(backupDir); stat == nil || !errors.Is(err, ErrNoStore) {
			t.Fatalf("crash %d left half a backup: %v", i, err)
		}
		s := openStore(t, disk)
		if _, err := disk.Stat("box/store.checkpoint"); err == nil {
			t.Errorf("crash %d: the checkpoint stays", i)
		}
		if err != nil {
			backup(t, s, backupDir)
		}
		sound(t, s)
	}
	if t.Logf("%d disks, %d with a backup", len(disks), whole); whole == 0 || whole == len(disks) {
		t.Errorf("%d of %d disks had a backup", whole, len(disks))
	}
}

// TestDecodeSums: a list of digests names files of the backup only.
func TestDecodeSums(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for line, good := range map[string]bool{sum + "  store/000001.sst": true, sum + "  store/../../etc/passwd": false,
		sum + " store/000001.sst": false, sum[2:] + "  store/000001.sst": false, sum[1:] + "x  backup.json": false} {
		if _, err := decodeSums([]byte(line + "\n")); (err == nil) != good {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestBackup_NoSpace(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	fs.SetUsage(vfs.DiskUsage{AvailBytes: 100, TotalBytes: 1000, UsedBytes: 900})
	if _, err := s.Backup(ctx, backupDir, nil); err == nil || !strings.Contains(err.Error(), "100 are free") {
		t.Errorf("got %v", err)
	}
	if _, err := fs.Stat("box/store.checkpoint"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the checkpoint stays: %v", err)
	}
	sound(t, s)
}

func TestOpenReadOnly(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	if _, err := OpenReadOnly(options(fs)); !errors.Is(err, ErrInUse) {
		t.Errorf("a store in use: %v", err)
	}
	backup(t, s, backupDir)
	latest, err := latestChange(s.db)
	if err != nil || latest.Year() != 2026 {
		t.Errorf("last change %v, %v", latest, err)
	}
	sound(t, s)
	before, _, err := listFiles(fs, "box/store")
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (*Store, error){
		"store":  func() (*Store, error) { return OpenReadOnly(options(fs)) },
		"backup": func() (*Store, error) { return OpenBackup(backupDir, options(fs)) },
	} {
		s, err := open()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := s.Get(code(1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, appended := s.build(ctx, Keys{Series: "a"}, nil)
		_, advanced := s.Advance(ctx, code(1), fresh, Change{To: done})
		_, backed := s.Backup(ctx, "medium/second", nil)
		for _, err := range []error{appended, advanced, backed, s.SkipTo(ctx, "a", 9, "")} {
			if !errors.Is(err, ErrReadOnly) {
				t.Errorf("%s: wrote, %v", name, err)
			}
		}
		if name == "store" {
			if mark, err := s.LookAtMark(""); err != nil || mark.Kind != MarkSound {
				t.Errorf("the mark: %+v, %v", mark, err)
			}
		}
		sound(t, s)
	}
	after, _, err := listFiles(fs, "box/store")
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("reading changed %q to %q, %v", before, after, err)
	}
	sound(t, openStore(t, fs))
}
