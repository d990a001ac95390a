package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// reorder limits how far announcements may be out of order: an announcement gets its number before it is durable.
const reorder = 10_000

// catchUp copies the changes that the store has and the log lacks, as of one moment. It ends with flush; an unfinished
// fill does not count.
func (l *copyLog) catchUp() error {
	db := l.c.s.db
	r := db.NewSnapshot()
	defer func() { _ = r.Close() }() // it only frees memory
	// A snapshot shows changes before they are durable. This line makes them durable: the copy must have only durable
	// changes.
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

// storeState returns how far a store's series and its feed go.
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

// between writes the store's links between two states of the log, and the rows of these links in their current state.
// The caller must flush.
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

// full writes the gathered rows when they reach the limit. It is called between two links, so that no link is split
// between segments.
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
		if err := json.Unmarshal(value, &row); err != nil || row.To == 0 && row.Partial == nil {
			return nil // copied with its link
		}
		set(f.b, key, value)
		return nil
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

// link adds a link and the rows that it wrote. The record's entry, and the rows that lead to the record, come only with
// the record's latest link (but see whole).
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
