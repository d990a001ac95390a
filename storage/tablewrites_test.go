package storage

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/storage/disktest"
)

// noTables is a disk that refuses tables while it is told to, accepts everything else, and counts the attempts.
type noTables struct {
	on       atomic.Bool
	attempts atomic.Int64
}

func (d *noTables) MaybeError(op errorfs.Op) error {
	if !d.on.Load() || !strings.HasSuffix(op.Path, ".sst") || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	d.attempts.Add(1)
	return syscall.EIO
}

func (*noTables) String() string { return "no tables" }

// lines is a log that counts.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), "\n")
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// A disk that refuses tables makes the store unwell within a second. Pebble tries on, ever more rarely, and the log has
// one line a minute. When the disk is well again, so is the store.
func TestTables_FailForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, log, medium := disktest.New(disktest.Strict), &lines{}, &noTables{}
		if err := Create(options(disk)); err != nil {
			t.Fatal(err)
		}
		o := options(errorfs.Wrap(disk, medium))
		o.FakeTime, o.Logger = true, log.logger()
		s := openStoreWith(t, o)
		put(t, s, "a", 1)
		medium.on.Store(true)
		if _, err := s.Backup(ctx, backupDir, nil); !errors.Is(err, ErrTables) {
			t.Errorf("a backup: %v", err)
		}
		flushed := make(chan error, 1)
		go func() { flushed <- s.db.Flush() }()
		time.Sleep(time.Second) // of the bubble's clock
		if err := s.Health(); !errors.Is(err, ErrTables) || metrictest.Value(t, s, "dte_store_tables_failing") != 1 {
			t.Errorf("after a second the store says %v, the metric %v", err, metrictest.Value(t, s,
				"dte_store_tables_failing"))
		}
		time.Sleep(time.Hour)
		if n := log.count(); n < 30 || n > 62 {
			t.Errorf("%d lines in an hour:\n%s", n, log.buf.String())
		}
		if n := medium.attempts.Load(); n > 200 || metrictest.Value(t, s, "dte_store_table_failures_total") < float64(
			n) {
			t.Errorf("%d attempts in an hour, the metric says %v", n, metrictest.Value(t, s,
				"dte_store_table_failures_total"))
		}
		put(t, s, "a", 2) // is in the log
		medium.on.Store(false)
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := s.Health(); err != nil || metrictest.Value(t, s, "dte_store_tables_failing") != 0 {
			t.Errorf("after it went well the store says %v", err)
		}
		sound(t, s)
	})
}

// A compaction that reads a damaged block fails before it writes anything, and is repeated ever more rarely too: Pebble
// would repeat it at once and for ever, and take a whole core.
func TestTables_DamagedCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := disktest.New(disktest.Strict)
		if err := Create(options(disk)); err != nil {
			t.Fatal(err)
		}
		o := options(disk)
		o.FakeTime = true
		s := openStoreWith(t, o)
		for i := range 8 {
			if err := errors.Join(s.db.Set([]byte("z"), nil, nil), s.db.Flush()); err != nil {
				t.Fatal(err)
			}
			if i == 0 { // the first block of the oldest table, which no compaction reads at this moment
				synctest.Wait()
				if err := disk.Flip(largest(t, disk), 8*16); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Hour)
		failed := metrictest.Value(t, s, "dte_store_table_failures_total")
		if err := s.Health(); !errors.Is(err, ErrCorrupt) || failed < 30 || failed > 200 {
			t.Errorf("%v attempts in an hour, the store says %v", failed, err)
		}
		start := time.Now()
		if err := s.Close(); err != nil || time.Since(start) > time.Second {
			t.Errorf("closing took %v: %v", time.Since(start), err)
		}
	})
}

// Close does not wait for the next attempt.
func TestTables_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, medium := disktest.New(disktest.Strict), &noTables{}
		if err := Create(options(disk)); err != nil {
			t.Fatal(err)
		}
		o := options(errorfs.Wrap(disk, medium))
		o.FakeTime = true
		s := openStoreWith(t, o)
		put(t, s, "a", 1)
		medium.on.Store(true)
		if _, err := s.db.AsyncFlush(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		start := time.Now()
		if err := s.Close(); err != nil || time.Since(start) > time.Second {
			t.Errorf("closing took %v: %v", time.Since(start), err)
		}
		sound(t, openStore(t, disk))
	})
}

// A start that needs tables and cannot write any ends, and says why.
func TestTables_StartEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, log, medium := disktest.New(disktest.Strict), &lines{}, &noTables{}
		if err := Create(options(disk)); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, disk)
		put(t, s, "a", 1)
		sound(t, s)
		medium.on.Store(true)
		o := options(errorfs.Wrap(disk, medium))
		o.FakeTime, o.Logger = true, log.logger()
		ctx, end := context.WithCancelCause(t.Context())
		var once sync.Once
		o.Fatal = func(message string) {
			once.Do(func() {
				end(errors.New(message))
				medium.on.Store(false) // so that the test ends too
			})
		}
		o.exit = func(int) {} // Pebble holds its lock here: the goroutine must go on
		start := time.Now()
		s, err := Open(o)
		if reason := context.Cause(ctx); reason == nil || !strings.Contains(reason.Error(),
			"did not take the store's tables") ||
			!strings.Contains(reason.Error(), "input/output error") {
			t.Errorf("the start ended with %v", reason)
		}
		if took := time.Since(start); took < tablesAtStart || took > 4*tablesAtStart || log.count() > 5 {
			t.Errorf("it took %v and %d lines:\n%s", took, log.count(), log.buf.String())
		}
		if err != nil {
			t.Fatal(err)
		}
		sound(t, s)
	})
}
