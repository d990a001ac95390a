package storage

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Store is an open store. Its methods may be called from many goroutines.
type Store struct {
	o           Options
	db          *pebble.DB
	damage      *damage
	mark        *mark
	syncer      *syncer
	metrics     *metrics
	locks       Locks
	pending     pending
	turns       turns
	ids         ids
	names       names
	rows        sync.Map // by series: the Reach in its row, once the series has changed
	feed        *feed
	queueStarts queueStarts
	// number of records between Begin and Release, except records that still wait for a lock
	writing atomic.Int32
	backing sync.Mutex // locked while a backup is under way
	second  *second    // nil: no second copy is configured

	restored    atomic.Pointer[Restoration] // nil: not restored, or settled
	reconciling sync.Mutex                  // locked by Settle
	holding     sync.Mutex                  // locked while the row of witnesses changes
	behind      atomic.Pointer[[]Witness]   // the media of the box that know more than the store; nil: none

	mu     sync.Mutex
	closed bool
	users  sync.WaitGroup // calls under way
}

// OpenReadOnly opens a store for reading, even if Open refuses the store's mark, and changes nothing in the store. No
// other process may have the store open. Errors: ErrNoStore, ErrForeign, ErrInUse, ErrLayout, ErrCorrupt.
func OpenReadOnly(o Options) (*Store, error) {
	o.readOnly = true
	return Open(o)
}

// OpenBackup opens the store inside a backup for reading. It uses only FS, Logger and Now of o.
func OpenBackup(dir string, o Options) (*Store, error) {
	o.Dir = dir
	o.setDefaults()
	o.Dir, o.FS, o.Ours = o.FS.PathJoin(dir, backupStore), unlocked{o.FS}, nil
	return OpenReadOnly(o)
}

// Open opens a store. Errors: ErrNoStore, ErrForeign, ErrInUse, ErrLayout, ErrMark, ErrCorrupt.
func Open(o Options) (_ *Store, err error) {
	o.setDefaults()
	defer wrap(&err, "opening store %s", o.Dir)
	defer func() { err = Explain(err) }()
	s := &Store{o: o, damage: &damage{}, metrics: newMetrics()}
	s.pending.records = make(map[Code][]chan struct{})
	s.turns.last = make(map[string]*turn)
	s.queueStarts.known = make(map[string]queueStart)
	s.o.tables = newTableWrites(&s.o)
	if s.db, err = openPebble(&s.o, s.damage, o.readOnly); err != nil {
		return nil, err
	}
	s.o.tables.opened.Store(true)
	if !o.readOnly {
		// An interrupted backup may have left its checkpoint, whose links keep old files on the disk.
		if err := o.FS.RemoveAll(o.checkpointDir()); err != nil {
			o.Logger.Warn("checkpoint stays", "error", err)
		}
	}
	if err := s.load(); err != nil {
		s.o.tables.close()
		return nil, errors.Join(err, s.db.Close())
	}
	if !o.readOnly {
		s.syncer = newSyncer(s)
	}
	if o.SecondCopy != "" && !o.readOnly && s.Restored() == nil {
		s.second = newSecond(s)
		go s.second.run()
		s.second.await()
	}
	return s, nil
}

func openPebble(o *Options, d *damage, readOnly bool) (*pebble.DB, error) {
	// Check this first: Pebble makes the folder and the lock before it reports a missing store.
	if _, err := o.FS.Stat(o.Dir); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoStore, err)
	}
	po := o.pebbleOptions(d)
	po.ReadOnly = readOnly
	db, err := pebble.Open(o.Dir, po)
	switch {
	case errors.Is(err, pebble.ErrDBDoesNotExist):
		if list := o.tableLists(); list != nil {
			return nil, &damagedError{"no file says which list of tables counts (marker.manifest…) beside " +
				strings.Join(list, ", "), listAdvice, err}
		}
		return nil, fmt.Errorf("%w (%w)", ErrNoStore, err)
	case errors.Is(err, syscall.EAGAIN): // Linux returns EAGAIN for a locked file
		return nil, fmt.Errorf("%w (%w)", ErrInUse, err)
	case err != nil && o.damagedOptions(po) != "":
		return nil, &damagedError{o.damagedOptions(po) + " is not what this program wrote",
			"it says how the store was written and can be removed", err}
	case explained(err, openErrors) != nil:
		return nil, explained(err, openErrors)
	case pebble.IsCorruptionError(err):
		return nil, fmt.Errorf("%w (%w)", ErrCorrupt, err)
	case err != nil:
		return nil, err
	}
	if err := checkLayout(db); err != nil && !(readOnly && unreadable(err)) { // fsck reports an unreadable row
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openAt opens the Pebble store in another folder. Damage there is not damage of this store. With readOnly, the other
// store is not locked: nobody else has it open.
func (o *Options) openAt(dir string, readOnly bool) (*pebble.DB, error) {
	at := *o
	if at.Dir = dir; readOnly {
		at.FS = unlocked{o.FS}
	}
	return openPebble(&at, &damage{}, readOnly)
}

// damagedOptions returns the name of Pebble's options file if it cannot be read or is not this program's; "" otherwise.
// Pebble's own error names no file. Every start writes a new options file, so a person can remove this file.
func (o *Options) damagedOptions(po *pebble.Options) string {
	po.EnsureDefaults()
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return ""
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		text, err := readWhole(o.FS, o.FS.PathJoin(o.Dir, name))
		if err != nil || po.CheckCompatibility(o.Dir, string(text)) != nil {
			return name
		}
	}
	return ""
}

// checkLayout refuses the rows of another version of this package.
func checkLayout(db *pebble.DB) error {
	row, err := get(db, keyLayout)
	if err == nil && (len(row) != 4 || be.Uint32(row) != layout) {
		err = fmt.Errorf("%w: its layout is %x, this program knows %d", ErrLayout, row, layout)
	}
	return onlyIf(err != nil, fmt.Errorf("reading layout: %w", err))
}

// load reads what the store needs, a few reads for each series. Unless the store is read-only, load opens the mark.
func (s *Store) load() error {
	j, err := newMarkJudge(s.db)
	if err = cmp.Or(err, s.o.foreign(maps.Keys(j.series))); err != nil {
		return err
	}
	for name, row := range j.series {
		s.names.add(name, row.Sequence)
		if _, err := lastLink(s.db, name, row); err != nil {
			return err
		}
	}
	entries, errEntry := lastID(s.db, tableEntry)
	announced, errFeed := lastID(s.db, tableFeed)
	begins, errBegins := readJSON[uint64](s.db, keyFeed)
	holes, err := readHoles(s.db)
	if err := cmp.Or(errEntry, errFeed, errBegins, err); err != nil {
		return err
	}
	s.feed = &feed{next: make(chan struct{})}
	s.feed.ids.next, s.ids.next = max(announced, begins)+1, entries
	for id := range holes.partial { // never reuse the id of a lost record: the journal still names it
		s.ids.next = max(s.ids.next, id)
	}
	s.ids.next++
	s.restored.Store(j.restored)
	if len(j.behind) > 0 {
		s.behind.Store(&j.behind)
	}
	if s.o.readOnly {
		return nil
	}
	if s.mark, err = openMark(&s.o, s.metrics, j, &s.names); err != nil {
		return err
	}
	if lineOf(j.row.Generation) != lineOf(s.mark.opened) || j.row.Path != s.o.MarkPath {
		s.noteMark()
	}
	if j.restored != nil {
		s.o.Logger.Warn("the store was rebuilt from other media, and numbers nothing before dtectl recover settles it")
	} else if w, _ := leads(WitnessMark, s.o.MarkPath, j.head(), s.mark.file.said); w != nil { // reads no medium
		if s.mark.file.torn { // perhaps by rot: the lost slot may have had higher numbers, and is overwritten now
			w.Medium = "damaged " + WitnessMark
		}
		s.hold(*w)
	}
	return nil
}

func identity(r pebble.Reader) (id [16]byte, err error) {
	row, err := get(r, keyStore)
	if err != nil || len(row) != 16 {
		return id, fmt.Errorf("reading the store's identity: %w", errors.Join(ErrCorrupt, err))
	}
	return [16]byte(row), nil
}

// lastLink reads the last link of a series' journal. ErrCorrupt when the link's hash differs from the series' row.
func lastLink(r pebble.Reader, name string, row Reach) (link, error) {
	key := journalKey(row.Sequence, row.Position)
	value, err := get(r, key)
	l, bad := decodeLink(value)
	if err = errors.Join(err, bad); err == nil && hashLink(key, value) == row.Hash {
		return l, nil
	}
	return link{}, fmt.Errorf("journal of series %q does not end as its row says: %w", name, errors.Join(ErrCorrupt,
		err))
}

func readAllSeries(r pebble.Reader) (map[string]Reach, error) {
	series := make(map[string]Reach)
	err := scan(r, []byte{tableSeries}, []byte{tableSeries + 1}, func(key, value []byte) error {
		row, err := decodeSeries(value)
		if err != nil {
			return err
		}
		if row.Sequence == 0 || row.Sequence > 1<<24 {
			return fmt.Errorf("series %q has sequence %d: %w", key[1:], row.Sequence, ErrCorrupt)
		}
		series[string(key[1:])] = row
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading series: %w", err)
	}
	return series, nil
}

// lastID returns the last key of a table whose keys are growing numbers.
func lastID(r pebble.Reader, table byte) (id uint64, err error) {
	err = iterate(r, []byte{table}, []byte{table + 1}, func(it *pebble.Iterator) error {
		if !it.Last() {
			return nil
		}
		key := it.Key()
		if len(key) != 9 || be.Uint64(key[1:]) == math.MaxUint64 {
			return fmt.Errorf("the last key %x: %w", key, ErrCorrupt)
		}
		id = be.Uint64(key[1:])
		return nil
	})
	return id, err
}

// Close waits for the running calls, then closes the store. Later calls return ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.users.Wait()
	if s.syncer != nil {
		s.syncer.close()
	}
	hangs := s.second != nil && s.second.close()
	var err error
	if s.mark != nil {
		err = s.mark.close()
		if s.mark.file.generation.Load() != s.mark.opened { // an unchanged mark needs no new row
			s.noteMark()
		}
	}
	s.o.tables.close()
	if hangs { // nothing is lost, as in a crash: every acknowledged change is on the disk
		s.o.Logger.Error("the second copy's medium hangs: the store's files stay open until it answers", "path",
			s.o.SecondCopy)
		go func() {
			<-s.second.stopped
			_ = s.db.Close() // nobody waits for this call
		}()
	} else {
		err = errors.Join(err, s.db.Close())
	}
	return onlyIf(err != nil, fmt.Errorf("closing store: %w", err))
}

// enter makes Close wait until users.Done is called, because Pebble panics when used after it is closed.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.users.Add(1)
	return nil
}

// use calls fn between enter and users.Done, and adds the name of the call to its error.
func use[T any](s *Store, what string, fn func() (T, error)) (v T, err error) {
	if err = s.enter(); err == nil {
		v, err = fn()
		s.users.Done()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return v, err
}

// do is like use, for a call that returns no value.
func (s *Store) do(what string, fn func() error) error {
	_, err := use(s, what, func() (any, error) { return nil, fn() })
	return err
}

// writable returns nil when records may be appended and advanced.
func (s *Store) writable() error {
	if s.Restored() != nil {
		return ErrRestored
	}
	if s.behind.Load() != nil {
		return ErrBehind
	}
	return s.sound()
}

// sound returns nil when any row may be written.
func (s *Store) sound() error {
	if s.o.readOnly {
		return ErrReadOnly
	}
	return s.damage.err()
}

func (s *Store) secondsSince(start time.Time) float64 { return s.o.Now().Sub(start).Seconds() }

// latestChange returns the time of the latest link of any journal, by the box's clock at that time; zero for an empty
// store.
func latestChange(r pebble.Reader) (latest time.Time, err error) {
	series, err := readAllSeries(r)
	for name, row := range series {
		l, bad := lastLink(r, name, row)
		if at := time.Unix(0, l.At).UTC(); bad == nil && at.After(latest) {
			latest = at
		}
		err = errors.Join(err, bad)
	}
	return latest, err
}

// CopyState is what doctor shows of a second copy: a Witness if the copy knows more than the store, and the last scrub.
type CopyState struct {
	Witness *Witness
	Scrub   Scrub
	There   bool // there is a copy
}

// LookAtCopy compares the end of a second copy with a store that is open for reading, and changes nothing. Errors:
// os.ErrNotExist, ErrNotMounted; ErrNoStore if the copy is another store's; ErrCorrupt or ErrUnreadable.
func (s *Store) LookAtCopy(dir string) (c CopyState, err error) {
	return use(s, "second copy", func() (CopyState, error) {
		c.Scrub, _ = readJSON[Scrub](s.db, keyScrub) // an unreadable row counts as no scrub
		_, absent := s.o.FS.Stat(dir)
		_, unmounted := readSegments(&s.o, s.db, dir)
		id, err := identity(s.db)
		if err := cmp.Or(absent, unmounted, err); err != nil {
			return c, err
		}
		end, w, err := lookAtCopy(&s.o, s.db, dir, id)
		c.There, c.Witness = end != nil, w
		return c, err
	})
}
