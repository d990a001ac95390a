package storage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// reorder is how many announcements a fill copies again: an announcement gets its number before it is durable.
const reorder = 10_000

// catchUp copies the rows that the log lacks, as the store has them at one moment, and flushes the log. A reader
// ignores an unfinished fill.
func (l *copyLog) catchUp() error {
	db := l.c.s.db
	r := db.NewSnapshot()
	defer func() { _ = r.Close() }() // it only frees memory
	// A snapshot shows changes before they are durable, and the copy must have only durable changes. This line makes
	// them durable.
	if err := db.LogData(nil, pebble.Sync); err != nil {
		return err
	}
	filled, err := storeState(r)
	if err != nil || l.state.covers(filled) {
		return err
	}
	l.fill, l.reach = position{l.number, l.size}, l.state.clone()
	l.add(frameFill)
	if err := l.flush(); err != nil {
		return err
	}
	f := &filler{r: r, b: db.NewBatch(), limit: int(min(fillChunk, l.c.s.o.segment)), stop: l.c.stopping,
		reach: &l.reach, put: func(rows []byte) error {
			l.add(frameRows, rows)
			return l.flush()
		}}
	defer func() { _ = f.b.Close() }() // it only frees memory
	for _, p := range filled.Series {
		set(f.b, seriesKey(p.Name), p.encode())
	}
	if err := errors.Join(f.between(l.state, filled), f.flush()); err != nil {
		return err
	}
	l.state, l.fill = filled, position{}
	return errors.Join(l.addJSON(frameFilled, filled), l.flush())
}

// storeState returns how far a store's series and feed go.
func storeState(r pebble.Reader) (copyState, error) {
	now := newCopyState()
	series, err := readAllSeries(r)
	for name, row := range series {
		now.noteReached(place{row, name})
	}
	last, bad := lastID(r, tableFeed)
	now.Feed = last
	return now, errors.Join(err, bad)
}

// between adds the store's links that lie between two states of the log, the present rows of these links, the
// announcements in between, and all holes. The caller must flush.
func (f *filler) between(from, to copyState) error {
	for _, sequence := range slices.Sorted(maps.Keys(to.Series)) {
		begin, end := from.Series[sequence], to.Series[sequence]
		if begin.Position >= end.Position {
			continue
		}
		if same, err := holdsLink(f.r, end); err != nil || !same {
			return errors.Join(fmt.Errorf("%w: series %q", ErrDiverged, end.Name), err)
		}
		err := scan(f.r, journalKey(sequence, begin.Position+1), journalKey(sequence, end.Position+1), f.add)
		if err != nil {
			return fmt.Errorf("series %q: %w", end.Name, err)
		}
	}
	return errors.Join(f.copyHoles(), scan(f.r, feedKey(from.Feed-min(from.Feed, reorder)), feedKey(to.Feed+1),
		f.announce))
}

// filler turns links of the journal into the rows that they wrote.
type filler struct {
	r     *pebble.Snapshot
	b     *pebble.Batch
	limit int // bytes of b
	stop  func() error
	put   func(rows []byte) error // writes the gathered rows
	reach *copyState              // how far the rows have been copied
	whole bool                    // write an entry with each of its links, not only with the latest
}

// fillChunk is how many bytes are written and synced at once.
const fillChunk = 1 << 20

// full writes the gathered rows when they reach the limit. It is called between two links, so that a link stays in one
// segment.
func (f *filler) full() error {
	if f.b.Len() < f.limit {
		return nil
	}
	return f.flush()
}

func (f *filler) add(key, value []byte) error {
	if err := f.link(key, value); err != nil {
		return err
	}
	f.reach.noteReached(place{Reach: Reach{Sequence: be.Uint32(key[1:]), Position: be.Uint64(key[5:]),
		Hash: hashLink(key, value)}})
	return f.full()
}

func (f *filler) announce(key, value []byte) error {
	set(f.b, key, value)
	f.reach.Feed = max(f.reach.Feed, be.Uint64(key[1:]))
	return f.full()
}

func (f *filler) flush() error {
	if err := f.stop(); err != nil {
		return err
	}
	if f.b.Empty() {
		return nil
	}
	err := f.put(f.b.Repr())
	f.b.Reset()
	return errors.Join(err, f.stop()) // the store may have closed while the medium hung
}

// copyHoles adds the rows without links: the known holes, the gaps of restorations, and the former identities.
func (f *filler) copyHoles() error {
	if err := errors.Join(f.copyRow(keyGaps), f.copyRow(keyFormer)); err != nil {
		return err
	}
	return scan(f.r, []byte{tableLost}, []byte{tableLost + 1}, func(key, value []byte) error {
		var row lostRow
		err := json.Unmarshal(value, &row)
		if err != nil || row.To == 0 && row.Partial == nil {
			return nil // copied with its link
		}
		set(f.b, key, value)
		for _, p := range row.Partial { // the links of these records may be missing
			err = errors.Join(err, f.copyRow(entryKey(p.ID)), scan(f.r, partKey(p.ID, ""), partKey(p.ID+1, ""),
				func(key, value []byte) error {
					set(f.b, key, value)
					return nil
				}), f.full())
		}
		return err
	})
}

// copyRow adds a row in its current state, if it exists.
func (f *filler) copyRow(key []byte) error {
	value, err := get(f.r, key)
	if err == nil {
		set(f.b, key, value)
	}
	return onlyIf(!errors.Is(err, ErrNotFound), err)
}

// link adds a link and the rows that it wrote. The record's entry and the rows that lead to the record are added only
// with the record's latest link, unless whole is set.
func (f *filler) link(key, value []byte) error {
	l, err := decodeLink(value)
	if err != nil {
		return err
	}
	set(f.b, key, value)
	sequence, at := be.Uint32(key[1:]), be.Uint64(key[5:])
	if l.Op == opSkip {
		return f.copyRow(lostKey(sequence, at))
	}
	for _, p := range l.Parts {
		if err := f.copyRow(partKey(l.ID, p.Name)); err != nil {
			return err
		}
	}
	for _, c := range l.Counters {
		if err := f.copyRow(counterKey(c.Origin, c.Line)); err != nil {
			return err
		}
	}
	row, err := get(f.r, entryKey(l.ID))
	if errors.Is(err, ErrNotFound) {
		return nil // known to be missing
	}
	if err != nil {
		return err
	}
	e, err := decodeEntry(l.ID, row)
	if err != nil || e.Changed != at && !f.whole {
		return err
	}
	set(f.b, entryKey(l.ID), row)
	e.leads(func(lead, to []byte) { set(f.b, lead, to) })
	return nil
}

// Scrubbing reads the second copy while the branch sells: otherwise a flipped bit in the copy stays unnoticed until the
// copy is needed. A damaged segment is written again from the store.
//
// Scrubbing bypasses the kernel's cache, and is slow: the store's own syncs may use the same bus.
const (
	scrubFirst = 5 * time.Minute // after the copy is live
	scrubEvery = 24 * time.Hour  // from the end of a pass to the start of the next
	scrubPause = time.Second     // for each scrubChunk bytes of a segment, after the segment
	scrubChunk = 1 << 20
)

// Scrub is the result of scrubbing. Found and Mended count the segments of all passes.
type Scrub struct {
	Last     time.Time `json:"last"`     // end of the last complete pass; zero: there was none
	Segments uint64    `json:"segments"` // segments read in that pass
	Found    uint64    `json:"found"`
	Mended   uint64    `json:"mended"`
	Bad      []string  `json:"bad,omitempty"` // segments that are damaged and could not be repaired, with reasons
}

// scrubber is a goroutine of a session of the copy.
type scrubber struct {
	c    *second
	l    *copyLog
	stop chan struct{}
	done sync.WaitGroup
}

func (c *second) startScrub(l *copyLog) *scrubber {
	b := &scrubber{c: c, l: l, stop: make(chan struct{})}
	c.mu.Lock()
	c.scrubber = b
	c.mu.Unlock()
	b.done.Go(b.run)
	return b
}

// end waits for the scrubber, however long the medium hangs.
func (b *scrubber) end() {
	close(b.stop)
	b.done.Wait()
}

func (b *scrubber) run() {
	copied, _ := b.c.s.SecondCopy()
	wait := max(scrubFirst, scrubEvery-b.c.s.o.Now().Sub(copied.Scrub.Last))
	for timedOut(min(wait, scrubEvery), b.stop) {
		if !b.pass() {
			return
		}
		wait = scrubEvery
	}
}

// pass reads every segment once. It returns false if stopped.
func (b *scrubber) pass() bool {
	s := b.c.s
	var now Scrub
	list, _, err := b.chain()
	if errors.Is(err, errAway) {
		return false
	}
	if err != nil {
		now.Bad = append(now.Bad, err.Error())
	}
	for i := range list {
		n := list[i].at.Segment
		size, err := checkCounted(b.l.fs, b.l.dir, list, i)
		now.Segments++
		if err != nil {
			now.Found++
			s.o.Logger.Error("a segment of the second copy is bad", "segment", n, "error", err)
			if err := b.mend(n); err != nil {
				now.Bad = append(now.Bad, fmt.Sprintf("segment %d: %v", n, err))
				s.o.Logger.Error("a bad segment of the second copy stays", "segment", n, "error", err)
			} else {
				now.Mended++
				s.o.Logger.Warn("a bad segment of the second copy was written again from the store", "segment", n)
			}
		}
		if !timedOut(time.Duration(size/scrubChunk+1)*scrubPause, b.stop) {
			return false
		}
	}
	b.c.scrubEnded(now)
	return true
}

// chain returns the segments that count, and the replaced segments. The last segment that counts is still being
// written.
func (b *scrubber) chain() (list []countedSegment, gone map[uint64]replaced, err error) {
	var last position
	err = b.l.inTurn(b.stop, func() error {
		last, gone = position{b.l.number, b.l.size}, maps.Clone(b.l.replaced)
		return nil
	})
	if err == nil {
		list, err = chain(b.l.fs, b.l.dir, b.l.store, 0, last, gone)
	}
	return list, gone, err
}

var errRoll = errors.New("it is being written; it is ended first, and mended with the next pass")

// mend writes the rows of a bad segment again, from the store, at the end of the log: all rows between the end of the
// previous segment and the start of the next. The log then ignores the old segment.
func (b *scrubber) mend(n uint64) error {
	c, o, l := b.c, &b.c.s.o, b.l
	chain, gone, err := b.chain()
	i := slices.IndexFunc(chain, func(s countedSegment) bool { return s.at.Segment == n })
	switch {
	case err != nil:
		return err
	case i < 0:
		return fmt.Errorf("segment %d does not count any more", n)
	case i == len(chain)-1:
		return cmp.Or(b.write(l.roll), errRoll)
	}
	if usage, err := o.FS.GetDiskUsage(o.SecondCopy); err == nil && usage.AvailBytes < 2*o.segment {
		return fmt.Errorf("%d bytes are free on the medium", usage.AvailBytes)
	}
	next := slices.IndexFunc(chain[i+1:], func(s countedSegment) bool { return s.head != nil })
	if next < 0 {
		return fmt.Errorf("no segment continues segment %d", n)
	}
	now := replaced{From: newCopyState(), To: chain[i+1+next].head.begin()}
	for ; i >= 0; i-- { // from n's head or, if that head is bad, the last good head before
		if s := chain[i]; s.head != nil {
			if now.From, now.After = s.head.begin(), s.head.After; s.at.Segment < n {
				now.After = position{Segment: s.at.Segment}
			}
			break
		}
	}
	list := []replaced{now}
	for k, r := range gone {
		if k < n { // segment n may have had the rows of the replaced segment k
			list = append(list, r)
		}
	}
	r := c.s.db.NewSnapshot()
	defer func() { _ = r.Close() }() // it only frees memory
	reach, err := storeState(r)
	if err != nil {
		return err
	}
	held := newCopyState()
	f := &filler{r: r, b: c.s.db.NewBatch(), limit: fillChunk, stop: c.stopping, whole: true,
		reach: &held, put: func(rows []byte) error {
			return b.write(func() error {
				l.add(frameRows, rows)
				return l.flush()
			})
		}}
	defer func() { _ = f.b.Close() }() // it only frees memory
	for _, r := range list {
		if err := f.between(r.From, r.To); err != nil {
			return err
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	// Remove the segment only when the log has everything in the snapshot r: rows copied from r may be newer than the
	// log.
	for covered := false; ; {
		err := b.write(func() error {
			if covered = l.state.covers(reach); !covered {
				return nil
			}
			l.replaced[n] = now
			if err := l.roll(); err != nil { // the head of the new segment says that segment n does not count
				return err
			}
			l.void = append(l.void, n)
			return l.removeVoid()
		})
		if err != nil || covered {
			return err
		}
		if !timedOut(scrubPause, b.stop) {
			return errAway
		}
	}
}

var errAway = errors.New("the copy is not live any more; it is mended with the next pass")

// write calls fn, which writes the log. A failure of fn also ends the session.
func (b *scrubber) write(fn func() error) error {
	return b.l.inTurn(b.stop, func() error {
		if b.l.failed == nil {
			b.l.failed = fn()
		}
		if b.l.failed != nil {
			signal(b.c.kick)
		}
		return b.l.failed
	})
}

// inTurn calls fn while nobody else uses the log: the session and its scrubber take turns. errAway if stop is closed
// first.
func (l *copyLog) inTurn(stop <-chan struct{}, fn func() error) error {
	select {
	case l.turn <- struct{}{}:
	case <-stop:
		return errAway
	}
	defer func() { <-l.turn }()
	return fn()
}

func (c *second) scrubEnded(pass Scrub) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pass.Last, pass.Found, pass.Mended = c.s.o.Now(), pass.Found+c.scrub.Found, pass.Mended+c.scrub.Mended
	c.scrub = pass
	c.s.o.dieOn(setJSON(c.s.db, keyScrub, c.scrub, pebble.NoSync), "noting a scrub")
}
