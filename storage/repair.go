package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// RepairFrom lists the sources of rows for Repair beside the damaged store itself, the best first. Every member may be empty.
type RepairFrom struct {
	Copy    string   // a second copy
	Backups []string // folders that Backup made
	// Part asks another place, for example the archive, for a part that no medium here has. Its result is used only if the
	// journal's digest confirms the bytes; nil if there is nothing.
	Part func(ctx context.Context, e Entry, name string) ([]byte, error)
	// Series returns a record's series from the record itself, for a series whose name no medium knows; "" if the record does not
	// name it.
	Series func(e Entry) string
}

// Repaired is what Repair did.
type Repaired struct {
	Damaged   string // where the damaged store lies now
	Documents int
	Last      map[string]uint64 // number of each series, as it is in the store
	Sources   []RepairSource
	// Whole: nothing is missing, and no number can have been used after the ends of the series. The store issues at once.
	// Otherwise it must be reconciled like a rebuilt store: see Restoration, Missing and Reconcile.
	Whole   bool
	Missing []Missing
	Lacking []Affected // the records of which something is missing whose codes are known
}

// RepairSource is one medium that Repair read.
type RepairSource struct {
	Name     string
	Taken    int      // rows that no medium before it had
	Bad      []string // what of it cannot be read
	Diverged []string // series of which it holds another history: nothing of them was taken
}

// ErrSound: the store has no damage that Repair mends. A store of which something is missing is repaired again if a backup is given.
var ErrSound = errors.New("the store is not damaged")

// Repair makes a new store from everything that can still be read of a damaged store and from other media. It puts the new
// store in the damaged store's place; the damaged store stays beside it. The journals come first: a medium's link is taken if
// the chain of hashes continues through it, and links of the damaged store are preferred. Then every record and part is
// compared with the digest in its journal, whichever medium it comes from. Indexes are made again. The new store is checked
// before it gets its name. No number that a medium or the mark knows is ever used again.
//
// Repair only reads the damaged store. Until the new store is complete, the damaged store stays in its place, and an
// interrupted Repair begins from the start. After that, the next Repair finishes the work. The store must not be open, and
// Repair needs as much room again.
//
// ErrSound; ErrInUse; ErrNoStore when there is no store to repair; ErrMark when the mark is unreadable or another store's.
func Repair(ctx context.Context, from RepairFrom, o Options, progress Progress) (*Repaired, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		return nil, errors.New("storage: Options.Now is not set")
	}
	r := &repairer{assembly: &assembly{media: newMedia(&o, from), meter: &repairMeter{meter: meter{report: progress}}}}
	err := r.run(ctx)
	if r.own != nil {
		err = errors.Join(err, r.own.close())
	}
	if err != nil {
		return nil, fmt.Errorf("repairing %s: %w", o.Dir, err)
	}
	return r.said, nil
}

// repairedDir is where a repaired store waits that is whole: only its name is missing.
func (o *Options) repairedDir() string { return o.Dir + ".repaired" }

// damagedDir is where a store is kept that was repaired at a time, Unix ns.
func (o *Options) damagedDir(at int64) string {
	return o.Dir + ".damaged-" + time.Unix(0, at).UTC().Format("20060102T150405.000000000")
}

// repairer takes a damaged store's place with a new one, in steps that a crash may end anywhere.
type repairer struct {
	*assembly
	unsure bool // the end of the log may be damaged, although Pebble does not say so
}

func (r *repairer) run(ctx context.Context) error {
	fs := r.o.FS
	if _, err := fs.Stat(r.o.Dir); err != nil {
		return r.resume(err)
	}
	if err := r.damaged(ctx); err != nil {
		return err
	}
	// 1. Aside. A crash leaves what the next Repair removes.
	aside := r.o.Dir + ".new"
	if err := errors.Join(fs.RemoveAll(aside), fs.RemoveAll(r.o.repairedDir())); err != nil {
		return err
	}
	if err := r.openSources(); err != nil {
		return err
	}
	r.own.whole = r.own.whole && !r.unsure
	if err := r.room(); err != nil {
		return err
	}
	if err := fill(r.o, aside, [16]byte{}); err != nil {
		return err
	}
	at := *r.o
	at.Dir = aside
	var err error
	if r.db, err = openPebble(&at, &damage{}, false); err != nil {
		return err
	}
	err = r.assemble(ctx)
	for at := r.row.At; ; at++ {
		r.said.Damaged = r.o.damagedDir(at)
		if _, err := fs.Stat(r.said.Damaged); err != nil {
			break
		}
	}
	if err == nil {
		err = r.record()
	}
	if err == nil {
		err = r.db.Flush()
	}
	if err = errors.Join(err, r.db.Close()); err != nil {
		return err
	}
	report, err := checkCopy(ctx, r.o, aside, reached{}, &r.meter.meter)
	if err != nil {
		return err
	}
	r.said.Documents, r.said.Last = report.Documents, report.Last
	if !r.said.Whole {
		if err := markRestored(r.o, aside, r.row); err != nil {
			return err
		}
	}
	// 2. Whole. If we crash from here on, the next Repair finds it, or begins anew with the store where it was.
	if err := errors.Join(syncDir(fs, aside), fs.Rename(aside, r.o.repairedDir()), syncDir(fs, fs.PathDir(r.o.Dir))); err != nil {
		return err
	}
	// 3. In place.
	if err := r.own.close(); err != nil {
		return err
	}
	r.own = nil
	if err := errors.Join(fs.Rename(r.o.Dir, r.said.Damaged), syncDir(fs, fs.PathDir(r.o.Dir))); err != nil {
		return err
	}
	r.meter.finish()
	return r.place()
}

// place gives the repaired store its name.
func (r *repairer) place() error {
	fs := r.o.FS
	return errors.Join(fs.Rename(r.o.repairedDir(), r.o.Dir), syncDir(fs, fs.PathDir(r.o.Dir)))
}

// resume ends a repair that was cut short between its last two steps.
func (r *repairer) resume(missing error) error {
	fs := r.o.FS
	if _, err := fs.Stat(r.o.repairedDir()); err != nil {
		return fmt.Errorf("%w (%w)", ErrNoStore, missing)
	}
	at := *r.o
	at.Dir = r.o.repairedDir()
	db, err := openPebble(&at, &damage{}, true)
	if err != nil {
		return err
	}
	list, err := readRepairs(db)
	if n := len(list); n > 0 {
		r.said.Damaged, r.said.Sources = list[n-1].Damaged, list[n-1].Sources
	}
	row, bad := restoration(db)
	err = errors.Join(err, bad)
	if err == nil && row != nil {
		r.said.Missing, r.said.Lacking, err = lacking(db, row.Known)
	}
	r.said.Whole = row == nil
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	return r.place()
}

// damaged is nil when there is something to mend.
func (r *repairer) damaged(ctx context.Context) error {
	report, err := Check(ctx, *r.o)
	if errors.Is(err, ErrInUse) {
		return err
	}
	if err != nil {
		r.unsure = true // it cannot even be opened
		return nil
	}
	left := len(report.Problems) // without those that reconciling ends
	restored := slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Where == describeKey(keyRestored) })
	for _, p := range report.Problems {
		if p.Where == describeKey(keyRestored) || restored && p.Where == markProblem {
			left--
		}
		// Of the last 32 KiB of its log Pebble cannot tell what is damaged from what was never synced: the mark can.
		r.unsure = r.unsure || p.Where == markProblem
	}
	switch {
	case len(report.Problems) == 0 && len(report.Missing) > 0 && len(r.from.Backups) > 0:
		return nil // a backup may have what was given up
	case len(report.Problems) == 0:
		return ErrSound
	case left == 0:
		return fmt.Errorf("%w: it is to be reconciled", ErrSound)
	}
	return nil
}

// room is an error when the new store does not fit.
func (r *repairer) room() error {
	_, size, err := listFiles(r.o.FS, r.o.Dir)
	if err != nil {
		return nil // it is not asked for more than the medium says
	}
	if u, err := r.o.FS.GetDiskUsage(r.o.FS.PathDir(r.o.Dir)); err == nil && u.AvailBytes < uint64(size) {
		return fmt.Errorf("it needs %d bytes beside the store, and %d are free", size, u.AvailBytes)
	}
	return nil
}

// finish makes the indexes of what has been taken, and settles what is missing.
func (a *assembly) finish() error {
	was, err := restoration(a.db)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	if was != nil {
		a.claim(was.Known)
	}
	known, err := mend(a.db, a.told, "missing in a damaged store and in what it was repaired from")
	if err != nil {
		return err
	}
	series, err := readAllSeries(a.db)
	if err != nil {
		return err
	}
	known = a.addUnreached(known, series)
	behind, err := readBehind(a.db)
	if err != nil {
		return errors.Join(err, a.db.Delete(keyBehind, pebble.NoSync))
	}
	h, err := readHoles(a.db)
	if err != nil {
		return err
	}
	a.said.Missing, a.said.Lacking, err = lacking(a.db, known)
	if err != nil {
		return err
	}
	a.said.Whole = a.own.whole && was == nil && len(known) == 0 && a.accepted(h) && a.markAgrees(series)
	if a.said.Whole {
		a.said.Missing, a.said.Lacking = nil, nil
		return nil
	}
	for _, w := range behind { // it is settled with the rest
		for _, s := range w.Series {
			if s.Series != "" {
				known = raise(known, s.Series, s.There, series)
			}
		}
	}
	a.row.From, a.row.Known, a.row.Copy = a.id, known, a.copy != nil
	if a.row.MarkLost && a.copy != nil {
		a.row.Doubt = (a.copy.end.unread + leastChange - 1) / leastChange
	}
	if a.row.Taken, err = soundUntil(a.db, series, h); err != nil {
		return err
	}
	if was != nil {
		a.row.Taken = min(a.row.Taken, was.Taken)
		a.row.Doubt = max(a.row.Doubt, was.Doubt)
	}
	return a.db.Delete(keyRestored, pebble.NoSync) // place writes the new one
}

// claim notes numbers that are not to be given again.
func (a *assembly) claim(known []knownSeries) {
	for _, k := range known {
		for sequence, name := range a.names {
			if name == k.Name {
				a.furthest[sequence] = max(a.furthest[sequence], k.Last)
			}
		}
	}
}

// addUnreached adds the numbers that some medium names and the journals do not reach.
func (a *assembly) addUnreached(known []knownSeries, series map[string]seriesRow) []knownSeries {
	for _, sequence := range slices.Sorted(maps.Keys(a.furthest)) {
		known = raise(known, a.names[sequence], a.furthest[sequence], series)
	}
	return known
}

// raise makes a series go on behind a number.
func raise(known []knownSeries, name string, to uint64, series map[string]seriesRow) []knownSeries {
	last := series[name].Last
	if to <= last {
		return known
	}
	i := slices.IndexFunc(known, func(k knownSeries) bool { return k.Name == name })
	if i < 0 {
		return append(known, knownSeries{Name: name, Last: to, Changes: to - last})
	}
	known[i].Last = max(known[i].Last, to)
	return known
}

// accepted tells whether everything that is missing was missing before, and accepted by a person.
func (a *assembly) accepted(now *holes) bool {
	if len(now.at) == 0 && len(now.partial) == 0 {
		return true
	}
	if a.own.db == nil {
		return false
	}
	before, err := readHoles(a.own.db)
	if err != nil {
		return false
	}
	for id := range now.partial {
		if !before.partial[id] {
			return false
		}
	}
	for sequence, list := range now.at {
		for from, hole := range list {
			if !slices.ContainsFunc(slices.Collect(maps.Values(before.at[sequence])), func(b holeRow) bool { return b.From <= from && hole.To <= b.To }) {
				return false
			}
		}
	}
	return true
}

// markAgrees tells whether the mark is this very store's and knows no number that the store lacks.
func (a *assembly) markAgrees(series map[string]seriesRow) bool {
	said, of, err := readMark(a.o.FS, a.o.MarkPath)
	if err != nil {
		return false
	}
	held := make(map[string]uint64)
	var n names
	for name, row := range series {
		n.add(name, row.Sequence)
		held[name] = row.Last
	}
	if said.names == nil {
		said.names = n.all()
	}
	return compareMark(of, a.id, said, held) == nil
}

// Incomplete lists the records of which a repair or a rebuild that a person accepted with losses left a part or a change out, or the
// whole record, and whose codes are known; at most MaxProblems. It reads the whole journal if there are any. ErrClosed.
func (s *Store) Incomplete() ([]Affected, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("listing incomplete records: %w", err)
	}
	defer s.leave()
	_, list, err := lacking(s.db, nil)
	if err != nil {
		return nil, fmt.Errorf("listing incomplete records: %w", err)
	}
	return list, nil
}

// lacking lists what is missing, by series and numbers, and the records of it whose codes a journal or the record itself names.
func lacking(db *pebble.DB, known []knownSeries) (missing []Missing, list []Affected, err error) {
	series, err := readAllSeries(db)
	if err != nil {
		return nil, nil, err
	}
	h, err := readHoles(db)
	if err != nil {
		return nil, nil, err
	}
	names := make(map[uint32]string)
	for name, row := range series {
		names[row.Sequence] = name
	}
	told := make(map[uint64]bool)
	add := func(id, number uint64, sequence uint32, code Code) error {
		if !h.partial[id] || told[id] || len(list) >= MaxProblems {
			return nil
		}
		told[id] = true
		what := "some of its parts or changes"
		if _, err := get(db, entryKey(id)); errors.Is(err, ErrNotFound) {
			what = "the record"
		} else if err != nil {
			return err
		}
		list = append(list, Affected{Series: names[sequence], From: number, To: number, Code: code, What: what})
		return nil
	}
	if len(h.partial) > 0 {
		err = scan(db, []byte{tableJournal}, []byte{tableJournal + 1}, func(key, value []byte) error {
			l, err := decodeLink(value)
			if err != nil || l.Op == opSkip {
				return err
			}
			return add(l.ID, l.Number, be.Uint32(key[1:]), l.Code)
		})
	}
	return h.missing(series, known), list, err
}

// soundUntil is since when a store may lack changes, in Unix ns: the latest change before the first that is missing; when none
// is, the latest of all.
func soundUntil(db *pebble.DB, series map[string]seriesRow, h *holes) (until int64, err error) {
	for name, row := range series {
		l, err := lastLink(db, name, row)
		if err != nil {
			return 0, err
		}
		until = max(until, l.At)
	}
	if len(h.at) == 0 && len(h.partial) == 0 {
		return until, nil
	}
	var before int64 // the link before
	return until, scan(db, []byte{tableJournal}, []byte{tableJournal + 1}, func(key, value []byte) error {
		l, err := decodeLink(value)
		if err != nil {
			return err
		}
		sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
		if l.Op != opSkip && h.partial[l.ID] {
			until = min(until, l.At)
		}
		for _, hole := range h.at[sequence] {
			switch {
			case hole.To+1 != position:
			case hole.From == 1: // no link of the series is before it
				until = min(until, l.At)
			default:
				until = min(until, before)
			}
		}
		before = l.At
		return nil
	})
}
