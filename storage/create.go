package storage

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options of the functions that create, open, check or repair a store.
type Options struct {
	// Dir is the store's folder.
	Dir string
	// MarkPath is the file of the high-water mark, preferably on another medium. Default: Dir + ".mark".
	MarkPath string
	// FS is the file system of Dir and MarkPath. Default: the operating system's.
	FS vfs.FS
	// Logger gets the messages of Pebble and of the store. Default: none.
	Logger *slog.Logger
	// SecondCopy is a folder on another medium; empty: no copy. While the copy is live, every change is written there
	// too before it is acknowledged; see Assemble. SecondPatience is how long a change waits for the second copy,
	// default 2 s; if the medium takes longer, the copy is no longer live.
	SecondCopy     string
	SecondPatience time.Duration
	// Carry, if not nil, is called after each change is on the second copy's medium, with the file and the offset at
	// which the change ends. The change is acknowledged when Carry returns; Carry must limit its own time. While the
	// copy is not live, Carry is not called.
	Carry func(file string, end int64)
	// Fatal is called when a write to the disk failed and its result is unknown. If Fatal returns, the process exits
	// with status 1. Default: log the message.
	Fatal func(message string)
	// Now is the box's clock. Open, NewMark and Assemble need it.
	Now func() time.Time
	// Ours, if not nil, returns an error if series with these names are another branch's; see ErrForeign.
	Ours func(series []string) error
	// FakeTime is for testing/synctest. It disables Pebble's background ticks, 26 million in a month, and the pauses
	// between syncs, because fake time stands still while a goroutine waits for a mutex.
	FakeTime bool

	segment  uint64       // size of the second copy's segments, bytes
	readOnly bool         // set by OpenReadOnly
	tables   *tableWrites // set by Open: paces Pebble's failing writes of tables
	exit     func(int)    // os.Exit, except in tests
}

func (o *Options) setDefaults() {
	o.MarkPath = cmp.Or(o.MarkPath, o.Dir+".mark")
	o.FS = cmp.Or(o.FS, vfs.Default)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Fatal == nil {
		o.Fatal = func(message string) { o.Logger.Error("store stops", "error", message) }
	}
	if o.exit == nil {
		o.exit = os.Exit
	}
	o.segment = cmp.Or(o.segment, segmentSize)
	o.SecondPatience = cmp.Or(o.SecondPatience, 2*time.Second)
}

func (o *Options) foreign(series iter.Seq[string]) error {
	if o.Ours == nil {
		return nil
	}
	err := o.Ours(slices.Sorted(series))
	return onlyIf(err != nil, fmt.Errorf("%w: %w", ErrForeign, err))
}

// die reports a failed write and ends the process, even if Fatal returns.
func (o *Options) die(format string, args ...any) {
	o.Fatal(fmt.Sprintf(format, args...))
	o.exit(1)
}

// dieOn calls die if err is not nil.
func (o *Options) dieOn(err error, format string, args ...any) {
	if err != nil {
		o.die("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// pebbleOptions are for a small appliance: cache and memtables take about 60 MiB at most.
func (o *Options) pebbleOptions(d *damage) *pebble.Options {
	tables := cmp.Or(o.tables, newTableWrites(o))
	fs := vfs.FS(wholeBlocksFS{markerFS{o.FS}, func(what string) {
		tables.begin("") // pauses after a failure, because Pebble repeats a compaction of a damaged block at once
		o.damaged(d, what)
	}})
	if !o.readOnly {
		fs = mediumFS{fs, o, tables}
	}
	p := &pebble.Options{
		FS:     fs,
		Logger: &pebbleLogger{o},
		// Pebble's default for a new store is an older version, in which one flipped bit in the log silently drops all
		// rows after it. From this version on, Pebble distinguishes a torn end of the log from a damaged middle.
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		ErrorIfNotExists:            true, // only Create makes a store
		CacheSize:                   24 << 20,
		MemTableSize:                8 << 20,
		MemTableStopWritesThreshold: 4,
		// By default, Pebble compacts level 0 at two sublevels (half of the threshold). At six, compactions write half
		// as much, and the store takes a tenth less processor time for a document. Writes wait at 24 sublevels.
		L0CompactionThreshold:      12,
		L0StopWritesThreshold:      24,
		MaxOpenFiles:               256,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
		EventListener: &pebble.EventListener{
			BackgroundError: tables.background,
			FlushEnd:        func(i pebble.FlushInfo) { tables.ended(flushes, i.Err) },
			CompactionEnd:   func(i pebble.CompactionInfo) { tables.ended(compactions, i.Err) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				o.damaged(d, info.Path+": "+oneLine(fmt.Sprint(info.Details)))
			},
			WriteStallBegin: func(i pebble.WriteStallBeginInfo) { o.Logger.Warn("writes wait", "reason", i.Reason) },
		},
	}
	if o.FakeTime {
		p.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	}
	for i := range p.Levels {
		p.Levels[i].BlockSize = 16 << 10 // larger than a document; Pebble writes and reads whole blocks
		// every Append looks up a key and a code that rarely exist
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return p
}

// damaged remembers and logs the first damage only, because later reads report the same damage again.
func (o *Options) damaged(d *damage, message string) {
	if d.first.CompareAndSwap(nil, &message) {
		o.Logger.Error("store is damaged", "error", message)
	}
}

// pebbleLogger exits on a fatal error. If Fatalf returned, Pebble would report a failed log write as a success.
type pebbleLogger struct{ o *Options }

func (l *pebbleLogger) Infof(format string, args ...any) {
	l.o.Logger.Debug(fmt.Sprintf(format, args...))
}
func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.o.Logger.Error("the store's engine reports an error", "detail", fmt.Sprintf(format, args...))
}
func (l *pebbleLogger) Fatalf(format string, args ...any) { l.o.die(format, args...) }

// Create makes an empty store and its mark. ErrExists if Dir exists, or if a mark or a second copy has any number or
// cannot be read: they may be all that is left of a lost store, whose numbers must not be used again.
//
// A crash leaves the whole store, or no store: Create can then be repeated.
func Create(o Options) (err error) {
	o.setDefaults()
	defer wrap(&err, "creating store %s", o.Dir)
	if _, err := o.FS.Stat(o.Dir); err == nil {
		return ErrExists
	}
	if said, err := readMark(o.FS, o.MarkPath, false); err == nil && len(said.Series) > 0 {
		return fmt.Errorf("mark %s already has numbers: %w", o.MarkPath, ErrExists)
	} else if err != nil && !errors.Is(err, errNoMark) {
		return errors.Join(ErrExists, err)
	}
	if o.SecondCopy != "" {
		if end, err := readEnd(o.FS, o.SecondCopy); err != nil || end != nil && len(end.told.Series) > 0 {
			return errors.Join(fmt.Errorf("second copy %s already has numbers, or cannot be read: %w", o.SecondCopy,
				ErrExists), err)
		}
	}
	if err := errors.Join(makeParents(o.FS, o.Dir), makeParents(o.FS, o.MarkPath)); err != nil {
		return err
	}
	var store [16]byte
	_, _ = rand.Read(store[:]) // crypto/rand never fails since Go 1.24
	// Pebble's first Open is not atomic: make the store under another name.
	aside := o.Dir + ".new"
	if err := o.FS.RemoveAll(aside); err != nil {
		return err
	}
	if err := fill(&o, aside, store); err != nil {
		return err
	}
	if err := writeNewMark(o.FS, o.MarkPath, markHead(store, nil), firstSlot, 1); err != nil {
		return err
	}
	// Pebble should have synced its folder; do not rely on it.
	if err := syncDir(o.FS, aside); err != nil {
		return err
	}
	// Write the mark first: with only a mark, Create can be repeated; with only a store, Open fails.
	return renameSynced(o.FS, aside, o.Dir)
}

// fill opens the new store twice, because the first Open still writes a log in the old format.
func fill(o *Options, dir string, store [16]byte) error {
	po := o.pebbleOptions(&damage{})
	po.ErrorIfNotExists, po.ErrorIfExists = false, true
	db, err := pebble.Open(dir, po)
	if err != nil {
		return err
	}
	b := db.NewBatch()
	err = errors.Join(
		b.Set(keyLayout, be.AppendUint32(nil, layout), nil),
		b.Set(keyStore, store[:], nil),
		b.Commit(pebble.Sync), db.Close())
	if err != nil {
		return err
	}
	if db, err = pebble.Open(dir, o.pebbleOptions(&damage{})); err != nil {
		return err
	}
	return db.Close()
}

// makeParents makes the parent folder of path, durably. If a sync fails, it removes the new folder: the next attempt
// would find the folder and not sync it, although its name may not be on the medium.
func makeParents(fs vfs.FS, path string) error {
	dir := fs.PathDir(path)
	above := fs.PathDir(dir)
	if _, err := fs.Stat(dir); err == nil || above == dir {
		return nil
	}
	if err := makeParents(fs, dir); err != nil {
		return err
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := errors.Join(syncDir(fs, dir), syncDir(fs, above)); err != nil {
		return errors.Join(err, fs.Remove(dir))
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// renameSynced renames a file or a folder, durably, within its parent folder.
func renameSynced(fs vfs.FS, from, to string) error {
	if err := fs.Rename(from, to); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(to))
}
