package storage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// assemble fills the new store, and finds what is missing.
func (a *assembly) assemble(ctx context.Context) error {
	a.row, a.named = Restoration{At: a.o.Now().UnixNano()}, make(map[string]uint64)
	maps.Copy(a.named, a.from.Last)
	for at := a.row.At; !a.gone; at++ {
		a.said.Damaged = a.o.Dir + ".damaged-" + time.Unix(0, at).UTC().Format("20060102T150405.000000000")
		if _, err := a.o.FS.Stat(a.said.Damaged); err != nil {
			break
		}
	}
	strange := make(map[int]bool) // media with another history of some series
	read := func(from int) error {
		for i, s := range a.sources[from:] {
			bad, err := a.journals(ctx, s)
			if err != nil {
				return err
			}
			strange[from+i] = bad
		}
		for _, s := range a.said.Sources {
			if err := a.o.foreign(maps.Keys(s.Last)); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		return nil
	}
	if err := read(0); err != nil {
		return err
	}
	if a.id == [16]byte{} && a.marked != nil && !a.gone {
		a.id = a.marked.Store
	}
	own, ownMeta := len(a.sources), a.own.meta
	defer func() {
		for _, f := range a.opened {
			_ = f.close() // the media were only read
		}
	}()
	if err := a.others(ctx); err != nil {
		return err
	}
	if a.id == [16]byte{} {
		return fmt.Errorf("%w: no medium identifies this store; give its second copy or a backup", ErrCorrupt)
	}
	if a.marked != nil && !ownMeta && sameFamily(a.marked.Store, a.id) {
		a.id = a.marked.Store // the mark has the present identity; other media may be from before a restoration
	}
	if err := a.db.Set(keyStore, a.id[:], pebble.NoSync); err != nil {
		return err
	}
	a.expect()
	if err := cmp.Or(read(own), a.checkMark(), a.prove(ctx)); err != nil {
		return err
	}
	for i, s := range a.sources {
		if err := a.rows(ctx, s, strange[i]); err != nil {
			return err
		}
	}
	if err := a.ask(ctx); err != nil {
		return err
	}
	if err := a.name(); err != nil {
		return err
	}
	return a.finish()
}

// journals adds the journals and the meta rows of a medium. It reports whether the medium's history of some series
// differs from that of earlier media.
func (a *assembly) journals(ctx context.Context, s rowSource) (strange bool, err error) {
	a.media.begin()
	err = s.rows(ctx, func(key, value []byte) error {
		a.meter.add(int64(len(key) + len(value)))
		switch key[0] {
		case tableMeta:
			return a.takeStoreRow(s.own, key, value)
		case tableSeries:
			if row, err := decodeSeries(value); err == nil {
				return a.media.series(a.db, string(key[1:]), row)
			}
		case tableJournal:
			return a.media.link(a.db, key, value)
		}
		return nil
	}, a.unreadable(s.name))
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", s.name, err)
	}
	diverged, err := a.media.end(a.db)
	if err != nil {
		return false, err
	}
	line := a.source(s.name)
	line.Taken += a.media.taken
	for sequence, p := range a.media.reached.Series {
		if line.Last == nil {
			line.Last = make(map[string]uint64)
		}
		name := cmp.Or(p.Name, a.media.nameOf(sequence))
		if line.Last[name] = max(line.Last[name], p.Last); diverged != nil && !s.own {
			a.ends = append(a.ends, Lead{Series: name, There: p.Last, End: p.Reach})
		}
	}
	for _, name := range diverged {
		if !slices.Contains(line.Diverged, name) {
			line.Diverged = append(line.Diverged, name)
		}
	}
	a.known = a.known || s.own && a.own.meta
	return len(diverged) > 0, nil
}

// takeStoreRow adds a meta row of a medium if no earlier medium had it. Of a medium that is not own (see rowSource) it
// takes only the gaps and the former identities. Once all meta rows of the store have been read, it takes nothing.
func (a *assembly) takeStoreRow(own bool, key, value []byte) error {
	wanted := [][]byte{keyGaps, keyFormer}
	if own {
		wanted = append(wanted, keyRestored, keyBehind, keyBeat, keyUnsure, keyScrub, keyRepairs, keyMark,
			keySegments, keySettled)
	}
	switch {
	case a.known:
		return nil
	case own && string(key) == string(keyStore) && len(value) == 16 && a.id == [16]byte{}:
		a.id = [16]byte(value)
		return nil
	case !slices.ContainsFunc(wanted, func(k []byte) bool { return string(k) == string(key) }):
		return nil
	}
	_, err := get(a.db, key)
	if err == nil && string(key) == string(keyMark) { // an overwritten row may reappear: the latest counts
		var now markRow
		was, bad := readJSON[markRow](a.db, key)
		if cmp.Or(bad, json.Unmarshal(value, &now)) == nil && lineOf(now.Generation) == lineOf(was.Generation) &&
			now.Generation > was.Generation {
			err = ErrNotFound
		}
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	return a.db.Set(key, value, pebble.NoSync)
}

// archiveMedium names the place that Sources.Part asks.
const archiveMedium = "archive"

// prove collects the statements of all journals in the new store, and sets the counters.
func (a *assembly) prove(ctx context.Context) error {
	a.proof = &proof{make(map[uint64]struct{})}
	return eachLink(a.db, func(key, _ []byte, l *link) error {
		a.proof.link(key, l)
		for _, c := range l.Counters {
			if err := setCounter(a.db, counterKey(c.Origin, c.Line), c.row()); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// rows adds the records and parts of a medium. From a strange medium (with another history of some series) it takes
// only rows that a journal proves.
func (a *assembly) rows(ctx context.Context, s rowSource, strange bool) error {
	taken := 0
	err := s.rows(ctx, func(key, value []byte) error {
		a.meter.add(int64(len(key) + len(value)))
		fresh, err := a.take(key, value, s.own, strange)
		if fresh {
			taken++
		}
		return err
	}, a.unreadable(s.name))
	a.source(s.name).Taken += taken
	return err
}

func (a *assembly) take(key, value []byte, own, strange bool) (fresh bool, err error) {
	switch v := unproven; {
	case key[0] == tableEntry && len(key) == 9:
		e, bad := decodeEntry(be.Uint64(key[1:]), value)
		if bad != nil {
			return false, nil
		}
		if v = a.proof.entry(&e, value); v == disproven || v == unproven && strange {
			return false, nil
		}
		old, err := get(a.db, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
		if was, bad := decodeEntry(e.ID, old); err == nil && bad == nil && was.Revision >= e.Revision {
			return false, nil
		}
	case key[0] == tablePart && len(key) > 9:
		if v = a.proof.part(be.Uint64(key[1:]), string(key[9:]), value); v == disproven || v == unproven && strange {
			return false, nil
		}
		if ok, err := has(a.db, key); ok || err != nil {
			return false, err
		}
	case key[0] == tableLost && len(key) == 13 && a.proof.lost(key, value),
		key[0] == tableFeed && len(key) == 9 && !strange:
		if ok, err := has(a.db, key); ok || err != nil {
			return false, err
		}
	case key[0] == tableCounter && len(key) == 21 && len(value) == counterSize && own:
		return false, setCounter(a.db, key, value)
	default:
		return false, nil // made again from the other rows
	}
	return true, a.db.Set(key, value, pebble.NoSync)
}

// ask asks Sources.Part for the missing parts of existing records.
func (a *assembly) ask(ctx context.Context) error {
	if a.from.Part == nil {
		return nil
	}
	return eachLink(a.db, func(_, _ []byte, l *link) error {
		if l.Op == opSkip {
			return nil
		}
		for _, d := range l.Parts {
			key := partKey(l.ID, d.Name)
			if there, err := has(a.db, key); err != nil {
				return err
			} else if there {
				continue
			}
			row, err := get(a.db, entryKey(l.ID))
			if errors.Is(err, ErrNotFound) {
				continue
			}
			e, bad := decodeEntry(l.ID, row)
			if err = errors.Join(err, bad); err != nil {
				return err
			}
			data, err := a.from.Part(ctx, e.Entry, d.Name)
			if err != nil {
				a.unreadable(archiveMedium)(err.Error())
				continue
			}
			if data == nil || a.proof.part(l.ID, d.Name, data) != proven {
				continue
			}
			a.source(archiveMedium).Taken++
			if err := a.db.Set(key, data, pebble.NoSync); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// name gives each series its name. If the row of a series is lost, the name comes from the mark, but only from a mark
// with the store's identity: other marks have other sequence ids.
func (a *assembly) name() error {
	if a.marked != nil && a.marked.Store == a.id {
		for name, row := range a.marked.Series {
			a.media.names[row.Sequence] = cmp.Or(a.media.names[row.Sequence], name)
		}
	}
	for sequence, now := range a.media.again {
		a.media.furthest[now] = max(a.media.furthest[now], a.media.furthest[sequence])
		delete(a.media.furthest, sequence)
	}
	taken := make(map[string]uint32)
	for _, sequence := range slices.Sorted(maps.Keys(a.media.furthest)) {
		name := a.media.names[sequence]
		if other := taken[name]; name == "" || other != 0 {
			return fmt.Errorf("%w: the name of series %d, which got to number %d, is known to no medium; give a "+
				"backup or the second copy that has it",
				ErrCorrupt, sequence, a.media.furthest[sequence])
		}
		taken[name] = sequence
		p := a.media.told.Series[sequence]
		p.Sequence, p.Name = sequence, name
		a.media.told.Series[sequence] = p
	}
	return nil
}

// blindSpot is a range of rows that the disk does not return.
type blindSpot struct {
	From []byte // the first key that may be in the range
	To   []byte // the first key after the range
	Why  error  // Pebble's error
}

// unreadable reports whether the medium caused an error: damaged data, a failed read or a missing table.
func unreadable(err error) bool {
	return errors.Is(damaged(err), ErrCorrupt) || errors.Is(err, os.ErrNotExist)
}

// scanPast is scan, but continues after unreadable rows, and calls tell for each range of them.
func scanPast(r pebble.Reader, lower, upper []byte, fn func(key, value []byte) error, tell func(blindSpot)) error {
	from := func(from []byte, fn func(key, value []byte) error) error { return scan(r, from, upper, fn) }
	return readPast(from, lower, upper, fn, tell)
}

// readPast calls fn with the rows that scan reads from lower on. It calls tell for each range of unreadable rows, and
// continues after it. scan must stop at its own first error and at an error of fn, and must return nil if fn returned
// errStop.
func readPast(scan func(from []byte, fn func(key, value []byte) error) error, lower, upper []byte,
	fn func(key, value []byte) error, tell func(blindSpot)) error {
	for at := lower; ; {
		var own error
		next := bytes.Clone(at) // the first key that fn has not seen
		err := scan(at, func(key, value []byte) error {
			own = fn(key, value)
			next = append(append(next[:0], key...), 0)
			return own
		})
		if err == nil || own != nil || !unreadable(err) {
			return err
		}
		// Pebble does not report where a damaged block ends.
		at = behindWith(func(from []byte) bool {
			return scan(from, func(_, _ []byte) error { return errStop }) == nil
		}, next, upper)
		tell(blindSpot{next, at, err})
		if bytes.Compare(at, upper) >= 0 {
			return nil
		}
	}
}

// keyDigits is how many bytes after the table byte behindWith varies.
const keyDigits = 24

// behindWith returns the first key after the damage. reads reports whether rows can be read from a key on. The search
// doubles its step until rows can be read, and then halves the step.
func behindWith(reads func(from []byte) bool, from, upper []byte) []byte {
	key := make([]byte, 1+keyDigits)
	copy(key, from)
	low := new(big.Int).SetBytes(key) // no row can be read from here
	behind := func(step uint) *big.Int { return new(big.Int).Add(low, new(big.Int).Lsh(big.NewInt(1), step)) }
	readable := func(step uint) bool {
		at := behind(step).FillBytes(key)
		return bytes.Compare(at, upper) >= 0 || reads(at)
	}
	step := uint(0)
	for !readable(step) {
		step++
	}
	for ; step > 0; step-- {
		if !readable(step - 1) {
			low = behind(step - 1)
		}
	}
	if at := behind(0).FillBytes(key); bytes.Compare(at, upper) < 0 {
		return at
	}
	return upper
}

// copyChain is a second copy being read.
type copyChain struct {
	dir   string
	parts []position // segments in order, each with its end; offset 0: the end of the last whole frame
	end   *logEnd
	bad   []string // the parts that cannot be read
}

// readCopy finds the segments of a copy that are not void.
func readCopy(fs vfs.FS, dir string) (*copyChain, error) {
	end, err := readEnd(fs, dir)
	switch {
	case err != nil && !errors.Is(err, ErrCorrupt):
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	case err != nil:
		return nil, err
	case end == nil:
		return nil, fmt.Errorf("%w: no segment in %s", ErrNoStore, dir)
	case end.counts == 0 && len(end.told.Series) == 0:
		return nil, fmt.Errorf(
			"%w: the first copy of the store into %s is incomplete; a folder old-… in it may hold an "+
				"older one", ErrNoStore, dir)
	}
	c := &copyChain{dir: dir, end: end}
	for _, n := range end.strange {
		c.bad = append(c.bad, fmt.Sprintf("segment %d cannot be read", n))
	}
	at := end.after
	if end.counts != 0 && end.counts >= end.after.Segment {
		at = position{Segment: end.counts}
	}
	list, err := chain(fs, dir, end.store, 0, at, end.replaced)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.head == nil {
			c.bad = append(c.bad, fmt.Sprintf("segment %d: %v", s.at.Segment, s.bad))
		}
		if s.head != nil || errors.Is(s.bad, ErrCorrupt) { // the frames after a bad head can be read
			c.parts = append(c.parts, s.at)
		}
	}
	for _, n := range slices.Backward(end.strange) { // the highest number is first in strange
		if _, err := loadSegment(fs, dir, n); err == nil && n > end.counts {
			c.parts = append(c.parts, position{Segment: n})
		}
	}
	return c, nil
}

// leastChange is less than the size of any change in the log, in bytes: n unreadable bytes at the log's end held at
// most n/leastChange changes, rounded up.
const leastChange = 256

// rows calls fn with each readable row of one segment. It records in told how far each series got, according to the
// segment.
func (c *copyChain) rows(ctx context.Context, fs vfs.FS, part position, told *copyState,
	fn func(key, value []byte) error) error {
	s, err := loadSegment(fs, c.dir, part.Segment)
	if err != nil {
		return fmt.Errorf("%w: segment %d: %w", ErrCorrupt, part.Segment, err)
	}
	state := newCopyState()
	last := part.Offset == 0 && part.Segment == c.end.counts // a torn end is not damage
	lost, _, err := s.frames(part.Offset, last, func(_ uint64, f frame) error {
		return cmp.Or(f.follow(&state, new(position), position{}), ctx.Err(), f.rows(fn))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	told.noteAll(s.head.State)
	told.noteAll(state)
	if lost > 0 {
		c.bad = append(c.bad, fmt.Sprintf("segment %d: %d bytes", part.Segment, lost))
	}
	return nil
}
