package storage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// Sources are the media from which Assemble makes a store, besides the store itself. All fields may be empty.
type Sources struct {
	Copy    string   // a second copy
	Backups []string // folders that Backup made, best first
	// What other sources know about the second copy:
	Last  map[string]uint64 // the last number of each series, as far as a source names it
	Lacks string            // what the copy lacks, in words; empty: nothing known
	// Part asks another place, for example the archive, for a part that no medium here has; nil if the place lacks the
	// part. The bytes must have the journal's digest.
	Part     func(ctx context.Context, e Entry, name string) ([]byte, error)
	Possible Possible // finds the series that may have begun, for Assembled.Owed
	// Dry makes the store under another name, as a test, and removes it.
	Dry bool
}

// Assembled is the result of Assemble.
type Assembled struct {
	Damaged   string // the new path of the previous store; empty: there was none
	Documents int
	Last      map[string]uint64 // last number of each series in the store
	Sources   []Source
	// Whole: nothing is missing, and no number can have been used after the ends of the series. The store can give
	// numbers at once.
	Whole   bool
	Owed    *Owed      // what must be settled before the store gives numbers; nil if Whole
	Lacking []Affected // the incomplete records with known codes
}

// ownMedium is the name of the store itself among the sources.
const ownMedium = "the damaged store"

// Source is one medium that Assemble read.
type Source struct {
	Name     string
	Taken    int               // rows that no earlier medium had
	Bad      []string          // unreadable pieces of the medium
	Diverged []string          // series with another history: nothing was taken from them
	Last     map[string]uint64 // last number of each series on the medium
}

// ErrSound: no medium has anything that the store lacks.
var ErrSound = errors.New("the store is not damaged, and no medium has more")

// Assemble makes a new store from everything that can still be read of a store and from other media, and puts it in the
// store's place. An old store is kept under another name. The journals come first: a medium's link is taken if the
// chain of hashes continues through it; links of the store itself are preferred. Then every record and part of any
// medium is compared with its digest in the journal. Indexes are made again. The new store is checked before it gets
// its name. No number that a medium or the mark knows is ever used again.
//
// Assemble only reads the media. Until the new store is complete, the old one stays in its place, and an interrupted
// Assemble starts again; after that, the next Assemble finishes the work. The store must not be open; the disk needs
// space for a second store.
//
// Errors: ErrSound; ErrDiverged if the store is sound and a medium has another history; ErrUnreadable or ErrCorrupt if
// the store is sound and a copy that may know more cannot be read; ErrInUse; ErrNoStore if no medium has anything;
// ErrMark if the mark is unreadable or another store's; ErrForeign if a medium is another branch's.
func Assemble(ctx context.Context, from Sources, o Options, progress Progress) (*Assembled, error) {
	o.setDefaults()
	r := &assembly{o: &o, from: from, said: &Assembled{}, meter: &meter{report: progress}, media: newHistories()}
	r.marked, r.noMark = readMark(o.FS, o.MarkPath, false)
	if r.marked != nil && [8]byte(r.marked.Store[8:]) == [8]byte{} { // made after the store's own mark was lost
		r.noMark = errNoMark
	}
	fatal := o.Fatal
	o.Fatal = func(message string) {
		_ = o.FS.RemoveAll(r.aside()) // the disk may be full of it
		fatal(message)
	}
	err := r.run(ctx)
	if r.own != nil {
		err = errors.Join(err, r.own.close())
	}
	if err != nil {
		if r.begun {
			err = errors.Join(err, o.FS.RemoveAll(r.aside()))
		}
		return r.said, fmt.Errorf("assembling %s: %w", o.Dir, err)
	}
	return r.said, nil
}

// repairedDir is the folder of a complete new store before its final rename.
func (o *Options) repairedDir() string { return o.Dir + ".repaired" }

// assembly replaces an old store with a new one, filled from all media, in steps. A crash may interrupt it anywhere.
type assembly struct {
	o      *Options
	from   Sources
	said   *Assembled
	meter  *meter
	unsure bool // the end of the log may be damaged, although Pebble reports no error
	begun  bool // there is a part of the new store
	fills  bool // the only reason for a new store: a medium may have what the store is known to lack

	marked  *Head // the content of the mark; nil: it cannot be read
	noMark  error // why the mark cannot be read
	own     *folder
	opened  []*folder // backups
	gone    bool      // nothing is left of the store itself
	sources []rowSource
	copy    *copyChain        // nil: there is none
	id      [16]byte          // of the store
	ids     [][16]byte        // of the other media
	named   map[string]uint64 // the last numbers that a medium names without having the rows
	ends    []Lead            // the ends of the series on media with another history
	taken0  int64             // when the backup was taken, Unix ns; 0: the store is not made from one backup alone
	media   *histories

	db    *pebble.DB // the new store
	proof *proof
	row   Restoration
	known bool // all meta rows of the store have been read
}

// aside returns the folder of the new store until it is complete.
func (r *assembly) aside() string { return r.o.Dir + ".new" }

func (r *assembly) run(ctx context.Context) error {
	fs := r.o.FS
	aside := r.aside()
	if _, err := fs.Stat(r.o.Dir); err != nil {
		if _, err := fs.Stat(r.o.repairedDir()); err == nil {
			return r.resume()
		}
		r.gone, r.own = true, &folder{blind: true}
		if err := errors.Join(makeParents(fs, r.o.Dir), makeParents(fs, r.o.MarkPath)); err != nil {
			return err
		}
		lock, err := fs.Lock(r.o.Dir + ".lock") // the store is gone, and its own lock with it
		if err != nil {
			return cmp.Or(onlyIf(errors.Is(err, syscall.EAGAIN), fmt.Errorf("%w (%w)", ErrInUse, err)), err)
		}
		defer func() { _ = errors.Join(fs.Remove(r.o.Dir+".lock"), lock.Close()) }() // the file stays after a crash
	} else if err := r.needed(ctx); errors.Is(err, ErrInUse) {
		return err
	} else if err != nil { // nobody will need what an interrupted call left
		return errors.Join(err, fs.RemoveAll(aside), fs.RemoveAll(r.o.repairedDir()))
	}
	// 1. Make the store under another name. After a crash the next call removes it.
	if err := errors.Join(fs.RemoveAll(aside), fs.RemoveAll(r.o.repairedDir())); err != nil {
		return err
	}
	if !r.gone {
		own, err := openFolder(r.o, ownMedium, true)
		if err != nil {
			return err
		}
		r.own, r.sources = own, slices.Clone(own.sources)
		r.own.whole = r.own.whole && !r.unsure
	}
	if err := r.room(); err != nil {
		return err
	}
	r.begun = true
	if err := fill(r.o, aside, [16]byte{}); err != nil {
		return err
	}
	var err error
	if r.db, err = r.o.openAt(aside, false); err != nil {
		return err
	}
	if err = r.assemble(ctx); err == nil && r.fills {
		err = r.gained(nil)
	}
	if err == nil && !r.gone {
		err = r.record()
	}
	if err == nil {
		err = r.db.Flush()
	}
	if err = errors.Join(err, r.db.Close()); err != nil {
		return err
	}
	report, err := checkCopy(ctx, r.o, aside, nil, r.meter)
	if err != nil {
		return err
	}
	r.said.Documents, r.said.Last = report.Documents, report.Last
	r.meter.finish()
	if r.from.Dry {
		r.said.Damaged = ""
		return fs.RemoveAll(aside)
	}
	if !r.said.Whole {
		db, err := r.o.openAt(aside, false)
		if err == nil {
			err = errors.Join(beRestored(db, slices.Clone(r.id[:]), r.row, r.ids...), db.Close())
		}
		if err != nil {
			return err
		}
	}
	if err := syncDir(fs, aside); err != nil {
		return err
	}
	// 2. The new store is complete. If we crash from here on, the next call finds the new store, or begins again from
	// the old store.
	if r.gone {
		return renameSynced(fs, aside, r.o.Dir)
	}
	if err := renameSynced(fs, aside, r.o.repairedDir()); err != nil {
		return err
	}
	// 3. Put the new store in the place of the old store.
	if err := r.own.close(); err != nil {
		return err
	}
	r.own = nil
	if err := renameSynced(fs, r.o.Dir, r.said.Damaged); err != nil {
		return err
	}
	return renameSynced(fs, r.o.repairedDir(), r.o.Dir)
}

// gained returns ErrSound unless the new store has a link, or a row of a record, that the old store lacks: mend may
// have removed the rows that a medium gave. If only is not nil, only rows of the records in it count.
func (r *assembly) gained(only map[uint64]bool) error {
	more := false
	err := scan(r.db, []byte{tableJournal}, []byte{tablePart + 1}, func(key, value []byte) error {
		if only != nil && (key[0] == tableJournal || !only[be.Uint64(key[1:])]) {
			return nil
		}
		old, err := get(r.own.db, key)
		more = more || err != nil || !bytes.Equal(old, value)
		return onlyIf(more, errStop)
	})
	return cmp.Or(err, onlyIf(!more, ErrSound))
}

// resume finishes an Assemble that was interrupted between its last two steps.
func (r *assembly) resume() error {
	if r.from.Dry {
		return errors.New("an interrupted attempt must be finished first, and a dry run cannot do that")
	}
	db, err := r.o.openAt(r.o.repairedDir(), true)
	if err != nil {
		return err
	}
	list, err := readJSON[[]RepairRecord](db, keyRepairs)
	if n := len(list); n > 0 {
		r.said.Damaged, r.said.Sources = list[n-1].Damaged, list[n-1].Sources
	}
	row, bad := readJSON[*Restoration](db, keyRestored)
	err = errors.Join(err, bad)
	if r.said.Whole = row == nil; err == nil && row != nil {
		if r.said.Lacking, err = lacking(db); err == nil {
			r.said.Owed, err = owed(db, row, nil, r.marked, r.from.Possible)
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	return renameSynced(r.o.FS, r.o.repairedDir(), r.o.Dir)
}

// needed returns nil if there is damage to repair, or if a medium has more than the store.
func (r *assembly) needed(ctx context.Context) error {
	report, err := Check(ctx, *r.o)
	if errors.Is(err, ErrInUse) {
		return err
	}
	if err != nil {
		r.unsure = true // the store cannot even be opened
		return nil
	}
	// In the last 32 KiB of its log, Pebble cannot tell damage from bytes that were never synced. The mark decides.
	r.unsure = slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Where == markProblem })
	if report.damaged() {
		return nil
	}
	db, err := openPebble(r.o, &damage{}, true) // opened for writing, Pebble drops the changes after damage in the log
	if err != nil {
		return err
	}
	more, forks, err := r.compare(ctx, db, report)
	r.fills, more = r.fills && !more && forks == nil, more || r.fills
	switch err = errors.Join(err, db.Close()); {
	case err != nil || more:
		return err
	case forks == nil:
		return ErrSound
	}
	if db, err = openPebble(r.o, &damage{}, r.from.Dry); err != nil {
		return err
	}
	return errors.Join(r.hold(db, forks), db.Close())
}

// compare reports whether a medium has something that a sound store lacks (more), and returns the media with another
// history.
func (r *assembly) compare(ctx context.Context, db *pebble.DB, report *Report) (more bool, forks []Witness, err error) {
	j, err := newMarkJudge(db)
	if err = cmp.Or(err, r.o.foreign(maps.Keys(j.series))); err != nil {
		return false, nil, err
	}
	row := j.restored
	// In the last bytes of the log Pebble cannot tell damage from bytes that were never synced.
	kind := j.look(r.o.FS, r.o.MarkPath).Kind
	more = row == nil && (kind == MarkAhead || kind == MarkLater)
	r.unsure = more
	note := func(w *Witness, from Sources, lacking bool) (err error) {
		known := w == nil || row != nil && (&Witness{Medium: w.Medium, Series: row.Known}).covers(*w)
		switch {
		case !known && w.Diverged:
			forks = append(forks, *w)
		case !known:
			more = true
		}
		// A restoration that knew the medium's numbers may still have read another medium, or this medium badly.
		if w != nil && known || lacking {
			fills, bad := r.mayFill(ctx, db, j.id, from, !known || w == nil || !w.Diverged)
			r.fills, err = r.fills || fills, bad
		}
		return err
	}
	lacking := len(report.Missing) > 0
	for _, dir := range r.from.Backups {
		w, err := r.lookAtBackup(db, j, dir)
		if err = cmp.Or(err, note(w, Sources{Backups: []string{dir}}, lacking)); err != nil {
			return false, nil, err
		}
	}
	w, err := leads("the box's last status", "", storeHead(j.id, db, j.series), numbersHead(j.id, r.from.Last, 0))
	if w != nil {
		forks = append(forks, *w)
	}
	if r.from.Copy == "" || err != nil {
		return more, forks, err
	}
	name := "second copy " + r.from.Copy
	end, w, err := lookAtCopy(r.o, db, r.from.Copy, j.id)
	if w != nil && (r.from.Last != nil || r.from.Lacks != "") {
		w.Medium = "the shipped copy"
	}
	switch {
	case errors.Is(err, errForeign):
		r.unreadable(name)(err.Error())
		return more, forks, nil
	case end == nil && err == nil:
		return more, forks, nil
	case row != nil && errors.Is(err, ErrCorrupt):
		r.unreadable(name)(oneLine(err.Error()))
		return more, forks, nil
	case end == nil && !errors.Is(err, ErrCorrupt):
		return false, nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	case err != nil:
		return false, nil, err
	case w == nil && row == nil && len(end.strange) > 0:
		return false, nil, cmp.Or(unreadSegment(r.o, r.from.Copy), fmt.Errorf("%w: the heads of segments %v",
			ErrCorrupt, end.strange))
	}
	err = note(w, Sources{Copy: r.from.Copy}, lacking || len(end.strange) > 0)
	if err == nil && w != nil && !w.Diverged && row == nil {
		err = unreadSegment(r.o, r.from.Copy)
	}
	return more, forks, err
}

// mayFill reports whether a medium has something that the store lacks: a row of an incomplete record or, if links is
// set, a link. Assemble may still refuse the row.
func (r *assembly) mayFill(ctx context.Context, db *pebble.DB, id [16]byte, from Sources, links bool) (more bool,
	err error) {
	h, err := readHoles(db)
	m := &assembly{o: r.o, from: from, said: &Assembled{}, own: &folder{}, media: newHistories(), id: id,
		named: make(map[string]uint64)}
	m.media.begin()
	err = cmp.Or(err, m.others(ctx))
	for _, s := range m.sources {
		err = cmp.Or(err, s.rows(ctx, func(key, value []byte) error {
			switch old, lacks := get(db, key); {
			case len(key) < 9:
			case key[0] == tablePart && h.partial[be.Uint64(key[1:])]: // mend removes the parts of a lost record
				there, bad := has(db, entryKey(be.Uint64(key[1:])))
				more = more || lacks != nil && there || bad != nil
			case key[0] == tableJournal && links:
				more = more || lacks != nil
			case key[0] == tableEntry && h.partial[be.Uint64(key[1:])]:
				e, bad := decodeEntry(0, value)
				was, worse := decodeEntry(0, old)
				more = more || bad == nil && (worse != nil || was.Revision < e.Revision)
			}
			return onlyIf(more, errStop)
		}, m.unreadable(s.name)))
	}
	for _, f := range m.opened {
		_ = f.close() // it was only read
	}
	for _, s := range m.said.Sources {
		for _, bad := range s.Bad {
			r.unreadable(s.Name)(bad)
		}
	}
	return more, onlyIf(!more && !errors.Is(err, ErrNoStore) && !errors.Is(err, ErrCorrupt), err)
}

// unreadSegment returns ErrUnreadable if the medium does not return a segment: the segment may have changes that no
// other medium has.
func unreadSegment(o *Options, from string) error {
	numbers, err := segmentNumbers(o.FS, from)
	for _, n := range numbers {
		if _, bad := loadSegment(o.FS, from, n); bad != nil && !errors.Is(bad, errNoSegment) {
			return fmt.Errorf("%w: segment %d: %w", ErrUnreadable, n, bad)
		}
	}
	return err
}

// lookAtBackup returns a Witness if a backup knows more than a sound store, or has another history. If the backup's
// store cannot be read, lookAtBackup compares only the numbers in the backup's description.
func (r *assembly) lookAtBackup(db *pebble.DB, j *markJudge, dir string) (*Witness, error) {
	there := new(Head)
	backup, err := r.o.openAt(r.o.FS.PathJoin(dir, backupStore), true)
	if err == nil {
		defer func() { _ = backup.Close() }() // it was only read
		id, bad := identity(backup)
		series, worse := readAllSeries(backup)
		there, err = storeHead(id, backup, series), errors.Join(bad, worse)
	}
	if unreadable(err) {
		r.unreadable("backup " + dir)(oneLine(err.Error()))
		var b *Backup
		if b, _, err = readBackup(r.o.FS, dir); err != nil {
			return nil, nil
		}
		there = numbersHead(b.identity(), b.Last, 0)
	}
	if err != nil {
		return nil, err
	}
	return unsettled(db, "backup", dir, storeHead(j.id, db, j.series), there)
}

// hold notes in a sound store that media have other histories, and returns ErrDiverged: Settle must deal with these
// media.
func (r *assembly) hold(db *pebble.DB, forks []Witness) (err error) {
	for _, w := range forks {
		if !r.from.Dry {
			err = errors.Join(err, setWitnesses(db, db, w.covers, &w, pebble.Sync))
		}
	}
	row, bad := readJSON[*Restoration](db, keyRestored)
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	r.said.Owed, err = owed(db, row, forks, r.marked, r.from.Possible)
	return errors.Join(fmt.Errorf("%w: %s", ErrDiverged, &forks[0]), err)
}

// room returns an error if the new store does not fit on the disk.
func (r *assembly) room() error {
	_, size, err := listFiles(r.o.FS, r.o.Dir)
	if err != nil {
		return nil // unknown size: do not refuse
	}
	if u, err := r.o.FS.GetDiskUsage(r.o.FS.PathDir(r.o.Dir)); err == nil && u.AvailBytes < uint64(size) {
		return fmt.Errorf("it needs %d bytes beside the store, and %d are free", size, u.AvailBytes)
	}
	return nil
}

// maxWaiting is above the number of records of one series that can wait for the mark at once.
const maxWaiting = 64

// finish makes the indexes of the taken rows, and finds what is missing.
func (a *assembly) finish() error {
	was, err := readJSON[*Restoration](a.db, keyRestored)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	known, until, err := mend(a.db, a.media.told, "missing in every source of the rebuild")
	if err != nil {
		return err
	}
	series, err := readAllSeries(a.db)
	if err != nil {
		return err
	}
	if was != nil {
		known = a.lacks(known, was.Known, series)
	}
	for _, sequence := range slices.Sorted(maps.Keys(a.media.furthest)) {
		known = raise(known, Lead{Series: a.media.names[sequence], There: a.media.furthest[sequence]}, series)
	}
	for _, name := range slices.Sorted(maps.Keys(a.named)) {
		known = raise(known, Lead{Series: name, There: a.named[name]}, series)
	}
	live := a.from.Backups == nil && a.from.Last == nil // the only other source is a second copy
	if a.noMark == nil {                                // keep the mark's numbers: Settle may find another mark
		for _, name := range slices.Sorted(maps.Keys(a.marked.Series)) {
			known = raise(known, Lead{Series: name, There: a.marked.Series[name].Last}, series)
		}
		for name, last := range a.named { // a mark behind a backup or a status of the box is old
			a.row.MarkLost = a.row.MarkLost || last >= a.marked.Series[name].Last+a.marked.Slack
		}
		var own map[string]Reach
		fits := false // store and mark are of the same moment
		// A store that is not settled was made of another medium, and is no older state of the box.
		whole := a.own.whole && (was == nil || !live)
		if whole {
			if own, err = readAllSeries(a.own.db); err != nil {
				return err
			}
			fits = was == nil && compareMark(storeHead(a.marked.Store, a.own.db, own), a.marked) == nil
		}
		for name, row := range series {
			told := a.media.told.Series[row.Sequence]
			bound := a.marked.Series[name].Last + maxWaiting // if another medium has more, the mark is old
			if whole {                                       // if another medium has more, store and mark are old
				bound = max(a.marked.Series[name].Last, own[name].Last) + 1
			}
			ahead := max(row.Last, told.Last) > bound || fits && max(row.Position, told.Position) > own[name].Position
			a.row.MarkLost = a.row.MarkLost || ahead && !(whole && live)
		}
	}
	behind, err := readJSON[[]Witness](a.db, keyBehind)
	if errors.Is(err, ErrCorrupt) {
		err = a.db.Delete(keyBehind, pebble.NoSync)
	}
	for _, w := range behind {
		known = a.lacks(known, w.Series, series) // must be settled, even if no medium has these leads any more
		a.row.MarkLost = a.row.MarkLost || w.endless()
	}
	settled, bad := readJSON[[]Lead](a.db, keySettled)
	a.ends = slices.DeleteFunc(a.ends, func(l Lead) bool { return slices.ContainsFunc(settled, l.sameEnd) })
	known = a.lacks(known, a.ends, series)
	h, worse := readHoles(a.db)
	for _, l := range a.ends { // the box may have sold from an older state of its store: then the mark bounds nothing
		a.row.MarkLost = a.row.MarkLost || !live && a.lacks(nil, []Lead{l}, series) != nil &&
			!h.has(series[l.Series].Sequence, l.There)
	}
	err = errors.Join(err, worse, onlyIf(!errors.Is(bad, ErrCorrupt), bad))
	if err = errors.Join(err, setWitnesses(a.db, a.db, inBox, nil, pebble.NoSync)); err != nil {
		return err
	}
	a.said.Lacking = h.lacking(series)
	// The mark must have this store's identity, and no number that the store lacks. A store that got rows that it was
	// known to lack is not whole: the second copy lacks these rows, and only a restoration begins the copy again.
	a.said.Whole = a.own.whole && was == nil && len(known) == 0 && a.from.Lacks == "" && a.accepted(h) &&
		a.marked != nil && !a.row.MarkLost && compareMark(storeHead(a.id, a.db, series), a.marked) == nil
	if a.said.Whole {
		a.said.Lacking = nil
		return nil
	}
	// A mark that was made after a loss of the mark does not bound the numbers.
	a.row.MarkLost = a.row.MarkLost || was != nil && was.MarkLost
	a.row.From, a.row.Known, a.row.Lacks, a.row.Made = a.id, known, a.from.Lacks, a.made()
	switch {
	case a.row.MarkLost && a.copy != nil:
		a.row.Doubt = (a.copy.end.unread + leastChange - 1) / leastChange
	case a.noMark == nil && !a.row.MarkLost:
		a.row.Doubt = a.marked.Slack - 1 // keeps a torn mark's slack: Open writes the mark anew, as if it were whole
	}
	if a.row.Taken = until; h.none() {
		a.row.Taken = max(until, a.taken0)
	}
	if was != nil {
		a.row.Taken = min(a.row.Taken, was.Taken)
		a.row.Doubt = max(a.row.Doubt, was.Doubt)
		a.row.Lacks = cmp.Or(a.row.Lacks, was.Lacks)
	}
	if err := a.db.Delete(keyRestored, pebble.NoSync); err != nil { // the new row is written last
		return err
	}
	a.said.Owed, err = owed(a.db, &a.row, nil, a.marked, a.from.Possible)
	return err
}

func (a *assembly) made() string {
	switch {
	case !a.gone:
		return "repaired from other media"
	case a.copy != nil:
		return "rebuilt from a second copy"
	}
	return "restored from a backup"
}

// lacks adds to known the leads of other media that the new store lacks.
func (a *assembly) lacks(known, leads []Lead, series map[string]Reach) []Lead {
	for _, l := range leads {
		end, row := l.End, series[l.Series]
		end.Sequence = row.Sequence
		has, err := holdsLink(a.db, place{end, l.Series})
		if l.Changes = 0; end.Position > 0 && (err != nil || !has) {
			l.Changes = max(end.Position, row.Position+1) - row.Position
		}
		known = raise(known, l, series)
	}
	return known
}

// raise adds a lead to known, if the store lacks the lead's number or changes.
func raise(known []Lead, l Lead, series map[string]Reach) []Lead {
	last := series[l.Series].Last
	if l.There <= last && l.Changes == 0 {
		return known
	}
	l.Here, l.There, l.Changes = 0, max(l.There, last), max(l.Changes, l.There-min(l.There, last))
	i := slices.IndexFunc(known, func(k Lead) bool { return k.Series == l.Series })
	if i < 0 {
		return append(known, l)
	}
	k := &known[i]
	if k.There, k.Changes = max(k.There, l.There), max(k.Changes, l.Changes); l.End.Position > k.End.Position {
		k.End = l.End
	}
	return known
}

// accepted reports whether the new store lacks exactly what the old store lacked: a person has accepted that loss.
func (a *assembly) accepted(now *holes) bool {
	if a.own.db == nil {
		return now.none()
	}
	before, err := readHoles(a.own.db)
	links := func(h *holes) []lostRow {
		return slices.DeleteFunc(slices.Clone(h.rows), func(r lostRow) bool { return r.To == 0 })
	}
	return err == nil && maps.Equal(now.partial, before.partial) && slices.EqualFunc(links(now), links(before),
		func(a, b lostRow) bool { return a.sequence == b.sequence && a.position == b.position && a.To == b.To }) &&
		(len(now.partial) == 0 || errors.Is(a.gained(now.partial), ErrSound)) // a record may lack less than before
}

// checkMark notes whether the mark of the store is lost, or known to be old: then it bounds nothing. An existing mark
// must be of the store's family.
func (a *assembly) checkMark() error {
	switch a.row.MarkLost = errors.Is(a.noMark, errNoMark); {
	case a.row.MarkLost:
		return nil
	case a.noMark != nil:
		return fmt.Errorf("mark %s: %w", a.o.MarkPath, errors.Join(ErrMark, a.noMark))
	case !sameFamily(a.marked.Store, a.id):
		return fmt.Errorf("%w: mark %s belongs to store %x, the restored data to store %x", cmp.Or(a.o.foreign(
			maps.Keys(a.marked.Series)), ErrMark), a.o.MarkPath, a.marked.Store, a.id)
	}
	j, err := newMarkJudge(a.db)
	m := j.look(a.o.FS, a.o.MarkPath)
	same := j.row == (markRow{}) || lineOf(m.generation) == lineOf(j.row.Generation)
	a.row.MarkLost = same && m.Kind == MarkOld || !same && !a.gone // gone: j.row is a backup's; the mark may be newer
	return onlyIf(!errors.Is(err, ErrCorrupt), err)
}

// Incomplete lists the records that lack a part, a change or everything, after a repair or rebuild whose losses a
// person accepted. It omits records with unknown codes, and returns at most MaxProblems. Error: ErrClosed.
func (s *Store) Incomplete() ([]Affected, error) {
	return use(s, "listing incomplete records", func() ([]Affected, error) { return lacking(s.db) })
}

func lacking(r pebble.Reader) ([]Affected, error) {
	series, err := readAllSeries(r)
	h, bad := readHoles(r)
	return h.lacking(series), errors.Join(err, bad)
}
