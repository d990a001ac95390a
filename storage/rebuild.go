package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Rebuild makes a store from a second copy, as Restore does from a backup: the store is checked before it gets its name, and
// must be reconciled before it issues. It holds every change that was acknowledged while the copy was live. Rebuild changes
// nothing in the copy. Taken of the returned Backup is the time of the copy's last change.
//
// From a copy that is damaged in places it takes the rest. The returned list and Restoration.Missing then name what is missing,
// by series and numbers. The store does not issue before somebody accepts that.
//
// ErrExists when there is a store already; ErrNoStore when from is no second copy; ErrCorrupt when nothing of it is
// whole; ErrUnreadable when its medium returns none of it; ErrMark when the mark is unreadable or another store's.
//
// What Options.Elsewhere names and the copy does not have is missing too.
func Rebuild(ctx context.Context, from string, o Options, progress Progress) (*Backup, []Missing, error) {
	if err := o.setDefaults(); err != nil {
		return nil, nil, err
	}
	if o.Now == nil {
		return nil, nil, errors.New("storage: Options.Now is not set")
	}
	b, missing, err := rebuild(ctx, from, &o, progress)
	if err != nil {
		return nil, nil, fmt.Errorf("rebuilding %s from %s: %w", o.Dir, from, err)
	}
	return b, missing, nil
}

func rebuild(ctx context.Context, from string, o *Options, progress Progress) (*Backup, []Missing, error) {
	fs := o.FS
	if _, err := fs.Stat(o.Dir); err == nil {
		return nil, nil, ErrExists
	}
	c, err := readCopy(fs, from)
	if err != nil {
		return nil, nil, err
	}
	row := restoredRow{Copy: true, At: o.Now().UnixNano(), From: c.store}
	if row.MarkLost, err = o.findMark(c.store); err != nil {
		return nil, nil, err
	}
	for _, path := range []string{o.Dir, o.MarkPath} {
		if err := makeParents(fs, path); err != nil {
			return nil, nil, err
		}
	}
	aside := o.Dir + ".new"
	if err := fs.RemoveAll(aside); err != nil {
		return nil, nil, err
	}
	if err := fill(o, aside, c.store); err != nil {
		return nil, nil, err
	}
	p := &meter{report: progress, total: 2 * c.size}
	at := *o
	at.Dir = aside
	db, err := openPebble(&at, &damage{}, false)
	if err != nil {
		return nil, nil, err
	}
	missing, err := c.rebuild(ctx, fs, db, &row, o.Elsewhere, p)
	if err == nil {
		err = db.Flush()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, nil, err
	}
	report, err := checkCopy(ctx, o, aside, reached{}, p)
	if err != nil {
		return nil, nil, err
	}
	if err := o.place(aside, row); err != nil {
		return nil, nil, err
	}
	p.finish()
	return &Backup{Store: fmt.Sprintf("%x", c.store), Taken: row.takenAt(), Documents: report.Documents, Last: report.Last, Bytes: c.size}, missing, nil
}

// absentOr returns ErrNoStore for a folder that does not exist, and ErrUnreadable for a medium that does not say.
func absentOr(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w (%w)", ErrNoStore, err)
	}
	return fmt.Errorf("%w: %w", ErrUnreadable, err)
}

// copyChain is a second copy, as it is read.
type copyChain struct {
	dir   string
	store [16]byte
	parts []position // segments in order, each with where it ends; 0: where what is whole ends
	size  int64
	end   *logEnd
	bad   []string // what cannot be read of it
}

// readCopy finds which segments count, from the last one backwards. Where one cannot be read, the one before it in the
// folder is the next.
func readCopy(fs vfs.FS, dir string) (*copyChain, error) {
	end, err := readEnd(fs, dir)
	switch {
	case err != nil && !errors.Is(err, ErrCorrupt):
		return nil, absentOr(err)
	case err != nil:
		return nil, err
	case end == nil:
		return nil, fmt.Errorf("%w: no segment in %s", ErrNoStore, dir)
	case end.counts == 0 && len(end.told.Series) == 0:
		return nil, fmt.Errorf("%w: the first copy of the store into %s never ended; a folder old-… in it may hold an older one", ErrNoStore, dir)
	}
	numbers, err := segmentNumbers(fs, dir)
	if err != nil {
		return nil, err
	}
	c := &copyChain{dir: dir, store: end.store, end: end}
	for _, n := range end.strange {
		c.bad = append(c.bad, fmt.Sprintf("segment %d cannot be read", n))
	}
	at := end.after
	if end.counts != 0 && end.counts >= end.after.Segment {
		at = position{Segment: end.counts}
	}
	for at.Segment != 0 {
		s, err := loadSegment(fs, dir, at.Segment)
		if err != nil || s.headless || s.head.After.Segment >= at.Segment {
			c.bad = append(c.bad, fmt.Sprintf("segment %d: %v", at.Segment, cmp.Or(err, ErrCorrupt)))
			i, _ := slices.BinarySearch(numbers, at.Segment)
			if err == nil {
				c.parts = append(c.parts, at) // its frames can be read
			}
			if at = (position{}); i > 0 {
				at.Segment = numbers[i-1]
			}
			continue
		}
		if s.head.Store != c.store {
			break // another's, before this log began
		}
		if s.head.Mended {
			at.Offset = 0
		}
		c.parts = append(c.parts, at)
		c.size += int64(len(s.bytes))
		at = s.head.After
	}
	slices.Reverse(c.parts)
	for _, n := range slices.Backward(end.strange) { // in order
		if s, err := loadSegment(fs, dir, n); err == nil && n > end.counts {
			c.parts = append(c.parts, position{Segment: n})
			c.size += int64(len(s.bytes))
		}
	}
	return c, nil
}

// eachFrame calls fn with every frame that counts.
func (c *copyChain) eachFrame(ctx context.Context, fs vfs.FS, p *meter, fn func(frame) error) error {
	for i, part := range c.parts {
		s, err := readSegment(fs, c.dir, part.Segment)
		if err != nil {
			return fmt.Errorf("%w: segment %d: %w", ErrCorrupt, part.Segment, err)
		}
		end, err := s.walk(part.Offset, func(at uint64, f frame) error {
			p.add(int64(f.End - at))
			return errors.Join(fn(f), ctx.Err())
		})
		if err == nil && i < len(c.parts)-1 && part.Offset == 0 && end < uint64(len(s.bytes)) {
			err = fmt.Errorf("%w: %s at byte %d", ErrCorrupt, s.path, end) // torn, and not the last
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rebuild writes everything into an empty store, unsynced, and says what is missing.
func (c *copyChain) rebuild(ctx context.Context, fs vfs.FS, db *pebble.DB, row *restoredRow, e Elsewhere, p *meter) ([]Missing, error) {
	told := c.end.told.clone()
	for _, part := range c.parts {
		if err := c.replay(ctx, fs, part, &told, row, p, func(repr []byte, filled bool) error { return apply(db, repr, filled) }); err != nil {
			return nil, err
		}
	}
	if err := db.Set(keySegments, segmentsRow{Store: c.store, Last: c.end.last}.encode(), pebble.NoSync); err != nil {
		return nil, err
	}
	if row.MarkLost { // else the mark knows
		row.Doubt = (c.end.unread + leastChange - 1) / leastChange
	}
	if len(c.bad) > 0 {
		var err error
		if row.Known, err = mend(db, told, "missing in a damaged second copy"); err != nil {
			return nil, err
		}
	}
	series, err := readAllSeries(db)
	if err != nil {
		return nil, err
	}
	for name, last := range series {
		l, err := lastLink(db, name, last)
		if err != nil {
			return nil, err
		}
		row.Taken = max(row.Taken, l.At)
	}
	h, err := readHoles(db)
	if err != nil {
		return nil, err
	}
	e.raise(row, series)
	return h.missing(series, row.Known), nil
}

// Elsewhere is what other sources know of a second copy.
type Elsewhere struct {
	Last  map[string]uint64 // the last number of each series, as far as a source names it
	Lacks string            // what of the copy is missing, at most 64 KiB; empty: nothing that a source knows of
}

// raise notes what the other sources know and a rebuilt store does not have.
func (e Elsewhere) raise(row *restoredRow, series map[string]seriesRow) {
	row.Lacks = e.Lacks
	for _, name := range slices.Sorted(maps.Keys(e.Last)) {
		last := e.Last[name]
		i := slices.IndexFunc(row.Known, func(k knownSeries) bool { return k.Name == name })
		if i < 0 && last > series[name].Last {
			i = len(row.Known)
			row.Known = append(row.Known, knownSeries{Name: name, Last: series[name].Last})
		}
		if i >= 0 && row.Known[i].Last < last {
			row.Known[i].Changes += last - row.Known[i].Last
			row.Known[i].Last = last
			if row.Lacks == "" {
				row.Lacks = "another source names numbers that the copy does not have"
			}
		}
	}
}

// leastChange is less than what a change takes in the log, in bytes: so many of them may have been where bytes at its end
// cannot be read.
const leastChange = 256

// replay calls write with every batch that one segment holds, around damage too; filled: of rows as they stood.
func (c *copyChain) replay(ctx context.Context, fs vfs.FS, part position, told *copyState, row *restoredRow, p *meter, write func(repr []byte, filled bool) error) error {
	s, err := loadSegment(fs, c.dir, part.Segment)
	if err != nil {
		return fmt.Errorf("%w: segment %d: %w", ErrCorrupt, part.Segment, err)
	}
	row.Taken = max(row.Taken, s.head.At)
	size := uint64(len(s.bytes))
	if part.Offset != 0 {
		s.bytes = s.bytes[:min(size, part.Offset)]
	}
	var fill position
	state := copyState{Series: make(map[uint32]place)}
	last := part.Offset == 0 && part.Segment == c.end.counts
	bad, behind, err := s.frames(last, func(at uint64, f frame) error {
		p.add(int64(f.End - at))
		if err := errors.Join(f.follow(&state, &fill, position{}), ctx.Err()); err != nil {
			return err
		}
		switch f.Kind {
		case frameChange:
			c := cursor{b: f.Payload}
			c.place()
			c.u64() // the announcement is in the batch
			return write(c.b, false)
		case frameRows:
			return write(f.Payload, true)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	for _, list := range []copyState{s.head.State, state} {
		for _, reached := range list.Series {
			if reached.Position >= told.Series[reached.Sequence].Position {
				told.noteReached(reached)
			}
		}
	}
	if last {
		bad -= behind // the end of the log may be torn
	}
	if bad > 0 || size < part.Offset {
		c.bad = append(c.bad, fmt.Sprintf("segment %d: %d bytes", part.Segment, max(bad, part.Offset-min(size, part.Offset))))
	}
	return nil
}

// apply commits rows, of a change as it was committed once, or as they stood (filled). Changes of one series lie in the
// log in their order; a counter is set from several series, and keeps its latest value. An entry of filled rows takes
// its row out of the queue that it was in before.
func apply(db *pebble.DB, repr []byte, filled bool) error {
	in, out := db.NewBatch(), db.NewBatch()
	err := in.SetRepr(slices.Clone(repr))
	if err != nil {
		return errors.Join(ErrCorrupt, err)
	}
	for r := in.Reader(); err == nil; {
		kind, key, value, ok, bad := r.Next()
		if bad != nil {
			return errors.Join(ErrCorrupt, bad)
		}
		if !ok {
			break
		}
		var old []byte
		if key[0] == tableCounter || filled && key[0] == tableEntry {
			if old, err = get(db, key); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			err = nil
		}
		switch {
		case kind == pebble.InternalKeyKindDelete:
			err = out.Delete(key, nil)
		case key[0] == tableCounter && len(old) == counterSize && be.Uint64(old[8:]) > be.Uint64(value[8:]):
		default:
			if e, bad := decodeEntry(0, old); key[0] == tableEntry && old != nil && bad == nil && e.Due != nil {
				e.ID = be.Uint64(key[1:])
				err = out.Delete(e.due(), nil)
			}
			err = errors.Join(err, out.Set(key, value, nil))
		}
	}
	return errors.Join(err, out.Commit(pebble.NoSync), out.Close(), in.Close())
}
