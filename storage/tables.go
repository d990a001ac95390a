package storage

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrTables: several attempts in a row to write Pebble's tables failed. Documents are safe in the growing log.
var ErrTables = errors.New("the disk does not take the store's tables")

// tableWrites paces the writing of tables after a failure. Pebble 2.1.7 repeats a failed flush or compaction in the
// background forever and without a pause: some 700 times a second, each time with a line in the log.
type tableWrites struct {
	o       *Options
	closing chan struct{} // closed by close

	begun  time.Time     // when Open began
	opened atomic.Bool   // Open is done
	total  atomic.Uint64 // failed flushes and compactions since Open began

	mu    sync.Mutex
	kinds [2]tableKind // flushes, compactions
	last  error        // of the latest failed flush or compaction
	other int          // failures of Pebble's other background work
}

// tableKind is one way of writing tables. A compaction that fails because of damaged rows must not delay a flush.
type tableKind struct {
	failed int // in a row
	waited int // the value of failed for which begin has already waited
	why    error
}

const (
	flushes, compactions = 0, 1

	tableRetryFirst   = 100 * time.Millisecond // doubles with each failure
	tableRetryLongest = time.Minute
	tablesFailing     = 3           // err returns ErrTables after so many failures in a row: 0.3 s after the first
	tablesAtStart     = time.Minute // how long Open tries before the process ends
)

// nothingToFlush is the error of a flush without rows, for example at Open; Pebble does not export it.
const nothingToFlush = "pebble: empty table"

func newTableWrites(o *Options) *tableWrites {
	return &tableWrites{o: o, closing: make(chan struct{}), begun: time.Now()}
}

// begin is called when Pebble makes a table or reads a damaged block. It waits once after each failure. Pebble holds no
// lock here.
func (t *tableWrites) begin(category vfs.DiskWriteCategory) {
	kind := compactions
	if strings.Contains(string(category), "flush") {
		kind = flushes
	}
	t.mu.Lock()
	k := &t.kinds[kind]
	var wait time.Duration
	if k.waited != k.failed {
		wait = tableWait(k.failed)
		k.waited = k.failed
	}
	t.mu.Unlock()
	if wait > 0 {
		timedOut(wait, t.closing)
	}
}

// timedOut waits until done is closed, at most for d; it reports whether the time ran out.
func timedOut(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

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
	failed := k.failed
	k.why, t.last = err, err
	t.total.Add(1)
	never := !t.opened.Load() && time.Since(t.begun) >= tablesAtStart
	t.mu.Unlock()
	if isLogged(failed) {
		t.o.Logger.Error("the disk does not take the store's tables", "error", err.Error(), "failures", failed)
	}
	if never { // Pebble's Open would wait forever
		t.o.die("start: the disk did not take the store's tables for %v: %v", tablesAtStart, err)
	}
}

// background handles every failure of Pebble's background work, under Pebble's lock. For flushes and compactions, ended
// has already been called. Other work reads tables to learn their contents; Pebble 2.1.7 repeats its failed reads
// without a pause or an end.
func (t *tableWrites) background(err error) {
	t.mu.Lock()
	if t.last != nil && errors.Is(err, t.last) {
		t.mu.Unlock()
		return
	}
	t.other++
	failed := t.other
	t.mu.Unlock()
	if isLogged(failed) {
		t.o.Logger.Error("store's work in the background failed", "error", err.Error(), "failures", failed)
	}
	timedOut(tableWait(failed), t.closing)
}

func tableWait(failed int) time.Duration {
	return min(tableRetryFirst<<min(failed-1, 20), tableRetryLongest)
}

// isLogged reports whether a failure is logged: the first in a row, and each one that follows a wait of a minute.
func isLogged(failed int) bool { return failed == 1 || tableWait(failed-1) == tableRetryLongest }

// err returns ErrTables while tables cannot be written.
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

// close ends all waits of begin.
func (t *tableWrites) close() { close(t.closing) }

// tableLists names the files in which Pebble lists its tables, or says that they are gone; nil: no trace of a store.
func (o *Options) tableLists() (list []string) {
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") {
			list = append(list, name)
		}
	}
	if list == nil && slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".sst") }) {
		list = []string{"MANIFEST-…, which is gone"}
	}
	return list
}

const (
	readFirst = 10 * time.Minute // after the start, which is busy enough; later passes follow every scrubEvery

	// At most 4 MiB a second, a tenth of that during sales: a branch's year is read in an hour or two.
	readPiece = 256 << 10             // bytes between two rests
	readRest  = 64 * time.Millisecond // after a piece
	readBusy  = 10                    // factor for the rest during sales
)

// ReadDaily reads every table of the store once a day, from the medium, and checks each block, until ctx ends. It finds
// a damaged block before a row in it is needed, and while the second copy and the backups still have the right bits. A
// damaged table stops issuing, like any damage. Only Fsck compares rows with each other. sleep returns an error when
// its context ends.
func (s *Store) ReadDaily(ctx context.Context, sleep func(ctx context.Context, d time.Duration) error) {
	for wait := readFirst; sleep(ctx, wait) == nil; wait = scrubEvery {
		read := 0
		err := s.readTables(ctx, func(bytes int) error {
			if read += bytes; read < readPiece {
				return nil
			}
			rest := readRest * time.Duration(read) / readPiece
			read = 0
			if s.writing.Load() > 0 {
				rest *= readBusy
			}
			return sleep(ctx, rest)
		})
		if err != nil && ctx.Err() == nil {
			s.o.Logger.Error("reading the whole store failed", "error", err)
		}
	}
}

// readTables reads the tables once. After each read it calls pause with the number of bytes; an error of pause ends the
// pass.
func (s *Store) readTables(ctx context.Context, pause func(bytes int) error) error {
	return s.do("reading tables", func() error {
		damaged := uint64(0)
		err := eachTable(ctx, s.db, &s.o, pause, func(path string, bad error) {
			damaged++
			s.o.damaged(s.damage, path+": "+bad.Error())
		})
		if err != nil {
			return err
		}
		return setJSON(s.db, keyRead, Reading{s.o.Now().UTC(), damaged}, pebble.NoSync)
	})
}

// Reading is the result of the last complete reading of the store's tables.
type Reading struct {
	At      time.Time `json:"at"`      // when it ended; zero: there was no reading
	Damaged uint64    `json:"damaged"` // number of damaged tables
}

// LastReading returns the last result of ReadDaily, even of an earlier process.
func (s *Store) LastReading() Reading {
	r, _ := use(s, "reading the last reading", func() (Reading, error) { return readJSON[Reading](s.db, keyRead) })
	return r // an unreadable row counts as no reading
}

// eachTable checks every block of every table, and calls tell for damaged tables. It skips a table that a compaction
// has removed meanwhile, because the rows are in a newer table.
func eachTable(ctx context.Context, db *pebble.DB, o *Options, pause func(bytes int) error, tell func(path string,
	bad error)) error {
	levels, err := db.SSTables()
	if err != nil {
		return err
	}
	for _, tables := range levels {
		for _, table := range tables {
			path := o.FS.PathJoin(o.Dir, table.BackingSSTNum.String()+".sst")
			r := &pacedReader{ctx: ctx, pause: pause}
			if r.File, err = o.FS.Open(path); errors.Is(err, os.ErrNotExist) && !o.readOnly {
				continue
			}
			if err == nil {
				err = checkTable(ctx, r)
			}
			switch {
			case r.ended != nil:
				return r.ended
			case err != nil:
				tell(path, err)
			}
		}
	}
	return nil
}

func checkTable(ctx context.Context, r *pacedReader) error {
	readable, err := sstable.NewSimpleReadable(r)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	table, err := sstable.NewReader(ctx, readable, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(table.ValidateBlockChecksums(), table.Close())
}

// pacedReader reads a table with pauses.
type pacedReader struct {
	vfs.File
	ctx   context.Context
	pause func(bytes int) error
	ended error // why the pass ends; this error is not damage
}

func (r *pacedReader) ReadAt(p []byte, at int64) (int, error) {
	if r.ended = r.ctx.Err(); r.ended == nil && r.pause != nil {
		r.ended = r.pause(len(p))
	}
	if r.ended != nil {
		return 0, r.ended
	}
	return r.File.ReadAt(p, at)
}

// wholeBlocksFS is a filesystem that compares the checksum of each block of a table before Pebble does, and fails the
// read of a damaged block. At a wrong checksum, Pebble 2.1.7 tries to flip each bit of the first 40 KiB: half a second
// of a core for a block of 16 KiB, 14 s for a rule's bundle of 600 KiB, for every reader and at every start.
type wholeBlocksFS struct {
	vfs.FS
	tell func(what string) // called when ReadAt finds a damaged block, before the read fails
}

func (f wholeBlocksFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return file, err
	}
	return wholeBlocksFile{file, name, f}, nil
}

type wholeBlocksFile struct {
	vfs.File
	name string
	fs   wholeBlocksFS
}

// largestFooter is more than the bytes of a table's footer. All longer reads are whole blocks. In a shorter block
// Pebble's search takes no time.
const largestFooter = 64

func (f wholeBlocksFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	end := len(p) - 4 // in Pebble's form, p is the block, its kind (1 byte) and the checksum of both (4 bytes)
	if err == nil && len(p) >= largestFooter && maskedCRC(p[:end]) != le.Uint32(p[end:]) {
		what := fmt.Sprintf("the block of %d bytes at byte %d is damaged, its checksum is wrong", len(p), at)
		f.fs.tell(f.name + ": " + what)
		return 0, fmt.Errorf("%s: %s: %w", f.fs.PathBase(f.name), what, syscall.EIO)
	}
	return n, err
}

// maskedCRC is the checksum of Pebble's tables and logs: CRC-32C, masked as in LevelDB.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
