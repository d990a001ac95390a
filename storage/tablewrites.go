package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrTables: Pebble's tables could not be written several times in a row. Documents are safe in the log, which grows.
var ErrTables = errors.New("the disk does not take the store's tables")

// tableWrites paces the writing of tables after a failure. Pebble repeats a failed flush or compaction at once and for
// ever, some 700 times a second, each with a line in the log: 2.1.7 has no pause between two attempts of a flush or of a
// compaction in the background.
type tableWrites struct {
	o       *Options
	log     *perMinute
	closing chan struct{} // closed by close

	mu     sync.Mutex
	kinds  [2]tableKind // flushes, compactions
	total  uint64       // failures since the process began
	last   error        // of the latest flush or compaction
	other  int          // failures of other work in the background
	begun  time.Time    // when Open began
	opened bool         // Open is done
}

// tableKind is one way in which tables are written. A compaction that fails for what it reads does not hold up a flush.
type tableKind struct {
	failed int // times in a row
	waited int // the count for which begin has waited already
	why    error
}

const (
	flushes, compactions = 0, 1

	tableRetryFirst   = 100 * time.Millisecond // doubles with each failure
	tableRetryLongest = time.Minute
	tablesFailing     = 3           // failures in a row from which on the store is not well: after 0.7 s
	tablesAtStart     = time.Minute // how long a start tries
)

// nothingToFlush is what a flush without a row ends with, at an Open for example; Pebble does not export that error.
const nothingToFlush = "pebble: empty table"

func newTableWrites(o *Options) *tableWrites {
	return &tableWrites{o: o, log: &perMinute{logger: o.Logger}, closing: make(chan struct{}), begun: time.Now()}
}

// begin holds up the first table of an attempt that follows failures. Pebble holds none of its locks here.
func (t *tableWrites) begin(category vfs.DiskWriteCategory) {
	kind := compactions
	if strings.Contains(string(category), "flush") {
		kind = flushes
	}
	t.mu.Lock()
	k := &t.kinds[kind]
	var wait time.Duration
	if k.waited != k.failed {
		wait = tableRetryFirst << min(k.failed-1, 20)
		k.waited = k.failed
	}
	t.mu.Unlock()
	if wait > 0 {
		t.sleep(min(wait, tableRetryLongest))
	}
}

// sleep ends early when the store closes.
func (t *tableWrites) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.closing:
	}
}

// ended notes how an attempt ended.
func (t *tableWrites) ended(kind int, err error) {
	if errors.Is(err, pebble.ErrCancelledCompaction) {
		return
	}
	if err != nil && err.Error() == nothingToFlush {
		err = nil
	}
	t.mu.Lock()
	k := &t.kinds[kind]
	if err == nil {
		again := k.failed >= tablesFailing
		*k = tableKind{}
		t.mu.Unlock()
		if again {
			t.o.Logger.Info("the disk takes the store's tables again")
		}
		return
	}
	k.failed++
	k.why, t.last = err, err
	t.total++
	never := !t.opened && time.Since(t.begun) >= tablesAtStart
	t.mu.Unlock()
	t.log.error("the disk does not take the store's tables", err)
	if never { // Pebble's Open would wait for ever
		t.o.die("start: the disk did not take the store's tables for %v: %v", tablesAtStart, err)
	}
}

// background hears of every failure in the background. Flushes and compactions have ended already, and Pebble holds its
// lock; the rest reads tables, to know what is in them, and Pebble 2.1.7 repeats that at once and for ever when it fails.
func (t *tableWrites) background(err error) {
	var usage usageError
	t.mu.Lock()
	if t.last != nil && errors.Is(err, t.last) || errors.As(err, &usage) {
		t.mu.Unlock()
		return
	}
	t.other++
	wait := min(tableRetryFirst<<min(t.other-1, 20), tableRetryLongest)
	t.mu.Unlock()
	t.log.error("store's work in the background failed", err)
	t.sleep(wait)
}

// usageError is a failure to learn how full the disk is. Pebble asks under its lock.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func (t *tableWrites) startDone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opened = true
}

// err is ErrTables while tables cannot be written.
func (t *tableWrites) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kinds {
		if k.failed >= tablesFailing {
			return fmt.Errorf("%w: %d times in a row: %w", ErrTables, k.failed, k.why)
		}
	}
	return nil
}

func (t *tableWrites) failures() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// close has nobody wait any more.
func (t *tableWrites) close() { close(t.closing) }
