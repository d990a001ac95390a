package storage

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// histories are the journals of a store that is being put together, and what the media say of its series.
type histories struct {
	names    map[uint32]string
	told     copyState         // how far each series got, by media of the same history
	furthest map[uint32]uint64 // the highest number that any medium names, by sequence

	// Of the medium that is being read:
	reached   copyState
	gave      map[uint32][]uint64 // positions, by sequence
	confirmed map[uint32]uint64   // up to where links of media before it go on from its own
	diverged  map[uint32]bool
	taken     int
}

func newHistories() *histories {
	return &histories{names: make(map[uint32]string), told: copyState{Series: make(map[uint32]place)}, furthest: make(map[uint32]uint64)}
}

// begin is called before the rows of a medium.
func (h *histories) begin() {
	h.reached = copyState{Series: make(map[uint32]place)}
	h.gave, h.confirmed, h.diverged, h.taken = make(map[uint32][]uint64), make(map[uint32]uint64), make(map[uint32]bool), 0
}

// end is called behind them. It returns the names of the series of which the medium holds another history. Of such a medium
// nothing counts that no other confirms, whatever the series: its records have ids that others have here.
func (h *histories) end(db *pebble.DB) (names []string, err error) {
	for sequence := range h.diverged {
		names = append(names, h.nameOf(sequence))
	}
	slices.Sort(names)
	for sequence, list := range h.gave {
		if names == nil {
			break
		}
		for _, position := range list {
			if position <= h.confirmed[sequence] {
				continue
			}
			h.taken--
			err = errors.Join(err, db.Delete(journalKey(sequence, position), pebble.NoSync))
		}
	}
	for sequence, p := range h.reached.Series {
		if names == nil || !h.diverged[sequence] && p.Position <= h.confirmed[sequence] {
			h.tell(p)
		} else if h.names[sequence] == "" && !h.diverged[sequence] {
			h.names[sequence] = p.Name
		}
	}
	return names, err
}

func (h *histories) tell(p place) {
	if p.Position >= h.told.Series[p.Sequence].Position {
		h.told.noteReached(p)
	}
	if h.names[p.Sequence] == "" {
		h.names[p.Sequence] = p.Name
	}
}

func (h *histories) nameOf(sequence uint32) string {
	if name := h.names[sequence]; name != "" {
		return name
	}
	return namelessSeries(sequence)
}

// series takes a series' row in.
func (h *histories) series(db *pebble.DB, name string, row seriesRow) error {
	if row.Sequence == 0 || row.Sequence > 1<<24 {
		return nil
	}
	h.furthest[row.Sequence] = max(h.furthest[row.Sequence], row.Last)
	if known := h.names[row.Sequence]; known != "" && known != name {
		return h.diverge(db, row.Sequence)
	}
	if row.Position >= h.reached.Series[row.Sequence].Position {
		h.reached.noteReached(place{row.Sequence, row.Position, row.Hash, row.Last, name})
	}
	return nil
}

// link takes a link in where the chain goes on through it.
func (h *histories) link(db *pebble.DB, key, value []byte) error {
	if len(key) != 13 {
		return nil
	}
	l, err := decodeLink(value)
	if err != nil {
		return nil // no link
	}
	sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
	h.furthest[sequence] = max(h.furthest[sequence], l.Number)
	if h.diverged[sequence] {
		return nil
	}
	have, err := get(db, key)
	switch {
	case err == nil && bytes.Equal(have, value):
		h.confirm(sequence, position)
		return nil
	case err == nil:
		return h.diverge(db, sequence)
	case !errors.Is(err, ErrNotFound):
		return err
	}
	before, after := journalKey(sequence, position-1), journalKey(sequence, position+1)
	if row, err := get(db, before); err == nil && hashLink(before, row) != l.Previous {
		return h.diverge(db, sequence)
	} else if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if row, err := get(db, after); err == nil {
		if next, err := decodeLink(row); err != nil || next.Previous != hashLink(key, value) {
			return h.diverge(db, sequence)
		}
		h.confirm(sequence, position)
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	h.gave[sequence] = append(h.gave[sequence], position)
	h.taken++
	return db.Set(key, value, pebble.NoSync)
}

func (h *histories) confirm(sequence uint32, position uint64) {
	h.confirmed[sequence] = max(h.confirmed[sequence], position)
}

// diverge takes back what the medium gave of a series: the medium holds another history of it.
func (h *histories) diverge(db *pebble.DB, sequence uint32) error {
	h.diverged[sequence] = true
	for _, position := range h.gave[sequence] {
		if err := db.Delete(journalKey(sequence, position), pebble.NoSync); err != nil {
			return err
		}
	}
	h.taken -= len(h.gave[sequence])
	delete(h.gave, sequence)
	return nil
}
