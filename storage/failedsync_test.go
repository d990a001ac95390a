package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"dtegate/storage/disktest"
)

// A sync fails once, and Linux leaves its pages clean: every later sync succeeds without them, and they can be read
// until the power goes. ARCHITECTURE.md has the table of what must happen then; here each file of the store and of a
// backup has its row. The k-th sync of a kind of file fails, for every k that the work reaches.

// brokenSync is one run: the k-th sync of the paths that match fails, the process starts again if that killed it, works
// on, and then the power is cut. It says whether the sync was reached, and whether the process died.
func brokenSync(rules disktest.Rules, match func(string) bool, k int) (failed, died bool, err error) {
	disk := disktest.New(rules)
	if err := Create(options(disk)); err != nil {
		return false, false, err
	}
	count, armed := 0, false
	var mu sync.Mutex
	disk.OnSync(func(path string) error {
		mu.Lock()
		defer mu.Unlock()
		if !armed || !match(path) {
			return nil
		}
		if count++; count != k { // the number of syncs differs a little from run to run
			return nil
		}
		failed = true
		return syscall.EIO
	})
	acked := ledger{acked: make(map[Code]ackedRecord)}
	o := options(disk)
	dead := make(chan struct{})
	var once sync.Once
	o.Fatal = func(string) { // stands for the end of the process: this goroutine does nothing more
		once.Do(func() { close(dead) })
		select {} // Pebble may hold a lock here
	}
	s, err := Open(o)
	if err != nil {
		return false, false, err
	}
	mu.Lock()
	armed = true
	mu.Unlock()
	finished := make(chan error, 1)
	go func() {
		err := errors.New("the process ended")
		defer func() { finished <- err }()
		err = syncedWork(s, &acked, 1)
	}()
	select {
	case <-dead:
		died = true
	case err := <-finished:
		if err != nil {
			return failed, false, err
		}
	}
	disk.OnSync(nil)
	var opened error
	if died {
		disk = disk.Kill()
		s, opened = Open(options(disk))
	}
	if opened == nil {
		opened = errors.Join(syncedWork(s, &acked, 100), checkSound(s))
	}
	if opened != nil {
		return failed, died, fmt.Errorf("going on: %w", opened)
	}
	for _, percent := range []int{0, 50} {
		after := crashed{disk.Crash(percent, newRand(uint64(k))), acked.copy()}
		if _, err := after.verify(false); err != nil {
			return failed, died, fmt.Errorf("after the power was cut, %d %%: %w", percent, err)
		}
	}
	return failed, died, s.Close()
}

// syncedWork appends, moves, and has Pebble write a table and rewrite its tables.
func syncedWork(s *Store, acked *ledger, from uint64) error {
	for n := from; n < from+3; n++ {
		e, err := s.build(ctx, Keys{Series: fmt.Sprint(n % 2), Idempotency: idemOf(n)},
			func(slot Slot) (Draft, error) { return draft(code(n), slot), nil })
		if err != nil {
			return err
		}
		acked.ack(e, n)
		if n == from+1 {
			if e, err = s.Advance(ctx, e.Code, fresh, Change{To: done, Head: []byte("settled"),
				Parts: []Part{{"answer", form(e.Code)}}}); err != nil {
				return err
			}
			acked.ack(e, n)
		}
	}
	if err := s.db.Flush(); err != nil {
		return err
	}
	if err := s.db.Compact(ctx, []byte{0}, []byte{tableEnd}, false); !errors.Is(err, syscall.EIO) {
		return err
	}
	return s.db.Compact(ctx, []byte{0}, []byte{tableEnd}, false) // which Pebble repeats only of its own
}

func failedSyncs(t *testing.T, mustDie bool, match func(path string) bool) {
	rounds := disktest.AllRules[2:]
	if soak {
		rounds = disktest.AllRules
	}
	for _, rules := range rounds {
		reached, deaths := 0, 0
		for k := 1; ; k++ {
			failed, died, err := brokenSync(rules, match, k)
			if err != nil {
				t.Errorf("%v, sync %d: %v", rules, k, err)
			}
			if died {
				deaths++
			}
			if !failed {
				break
			}
			reached++
		}
		t.Logf("%v: %d syncs failed, the process ended %d times", rules, reached, deaths)
		if reached == 0 || mustDie && deaths != reached {
			t.Errorf("%v: %d syncs failed, the process ended %d times", rules, reached, deaths)
		}
	}
}

func TestFailedSync_Log(t *testing.T) {
	failedSyncs(t, true, func(path string) bool { return strings.HasSuffix(path, ".log") })
}

func TestFailedSync_Mark(t *testing.T) {
	failedSyncs(t, true, func(path string) bool { return path == "other/mark" })
}

func TestFailedSync_Manifest(t *testing.T) {
	failedSyncs(t, true, func(path string) bool { return strings.Contains(path, "MANIFEST-") })
}

// A table is written anew, under another name.
func TestFailedSync_Tables(t *testing.T) {
	failedSyncs(t, false, func(path string) bool { return strings.HasSuffix(path, ".sst") })
}

func TestFailedSync_Folder(t *testing.T) {
	failedSyncs(t, false, func(path string) bool { return path == "box/store" })
}

// A backup with a file that was not synced gets no name, and the next backup to the same folder is whole.
func TestFailedSync_Backup(t *testing.T) {
	for _, rules := range disktest.AllRules[2:] {
		reached := 0
		for k := 1; ; k++ {
			disk := disktest.New(rules)
			if err := Create(options(disk)); err != nil {
				t.Fatal(err)
			}
			s := openStore(t, disk)
			put(t, s, "a", 1)
			count := 0
			failed := disk.FailSyncs(1, syscall.EIO, func(path string) bool {
				if strings.HasPrefix(path, backupDir) || path == disk.PathDir(backupDir) {
					count++
				}
				return count == k
			})
			_, err := s.Backup(ctx, backupDir, nil)
			if failed() == 0 {
				sound(t, s)
				break
			}
			reached++
			if err == nil {
				t.Errorf("%v, sync %d: the backup does not say that it failed", rules, k)
			}
			if _, err := s.Backup(ctx, backupDir, nil); err != nil && !errors.Is(err, ErrExists) {
				t.Errorf("%v, sync %d: again: %v", rules, k, err)
			} else if err == nil {
				after := disk.Crash(0, nil)
				if b, err := CheckBackup(ctx, backupDir, options(after), nil); err != nil || b.Documents != 1 {
					t.Errorf("%v, sync %d: the next backup after a power cut: %v", rules, k, err)
				}
			}
			sound(t, s)
		}
		if t.Logf("%v: %d syncs failed", rules, reached); reached < 5 {
			t.Errorf("%v: only %d syncs", rules, reached)
		}
	}
}

// A mark whose sync failed is newer in memory, where the next process reads it, than on the medium: it counts for
// nothing before it is written again.
func TestFailedSync_MarkIsWrittenAgain(t *testing.T) {
	disk := disktest.New(disktest.Strict)
	if err := Create(options(disk)); err != nil {
		t.Fatal(err)
	}
	o := options(disk)
	dead := make(chan struct{})
	o.Fatal = func(string) {
		close(dead)
		select {}
	}
	s := openStoreWith(t, o)
	put(t, s, "a", 1)
	put(t, s, "a", 2)
	s.mark.wait("a", 2)
	failed := disk.FailSyncs(1, syscall.EIO, func(path string) bool { return path == o.MarkPath })
	put(t, s, "a", 3) // waits for the mark to say 2
	<-dead
	if failed() != 1 {
		t.Fatal("no sync failed")
	}
	disk = disk.Kill()
	s = openStore(t, disk)
	hold := make(chan struct{})
	disk.OnSync(func(path string) error {
		if path == o.MarkPath {
			<-hold
		}
		return nil
	})
	put(t, s, "a", 4) // waits for the mark to say 3
	if said, err := readMark(disk.Crash(0, nil), o.MarkPath, false); err != nil || said.Series["a"].Last != 3 {
		t.Errorf("number 4 is acknowledged, and the mark on the medium says %v, %v", said, err)
	}
	close(hold)
	sound(t, s)
}
