package storage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// source returns the entry of a medium in the report.
func (m *assembly) source(name string) *Source {
	for i := range m.said.Sources {
		if m.said.Sources[i].Name == name {
			return &m.said.Sources[i]
		}
	}
	m.said.Sources = append(m.said.Sources, Source{Name: name})
	return &m.said.Sources[len(m.said.Sources)-1]
}

func (m *assembly) unreadable(name string) func(what string) {
	return func(what string) {
		if s := m.source(name); !slices.Contains(s.Bad, what) {
			s.Bad = append(s.Bad, what)
		}
	}
}

// joins reports whether a medium belongs to the store. A store of unknown identity gets the medium's identity.
func (m *assembly) joins(id [16]byte) bool {
	if m.id == [16]byte{} {
		m.id = id
	}
	return sameFamily(id, m.id)
}

// others adds the second copy and the backups to the sources. It reports and skips a medium that is another store's or
// unreadable.
func (m *assembly) others(ctx context.Context) error {
	var why []error // why a medium is skipped
	if m.from.Copy != "" {
		name := "second copy " + m.from.Copy
		c, err := readCopy(m.o.FS, m.from.Copy)
		switch {
		case err != nil:
			m.unreadable(name)(err.Error())
			why = append(why, fmt.Errorf("%s: %w", name, err))
		case !m.joins(c.end.store):
			m.unreadable(name)(errForeign.Error())
			why = append(why, fmt.Errorf("%s: %w", name, errForeign))
		default:
			m.copy, m.ids = c, append(m.ids, c.end.store)
			m.sources = append(m.sources, rowSource{name, false, m.copyRows})
		}
	}
	for _, dir := range m.from.Backups {
		f, err := m.backup(ctx, dir)
		if ctx.Err() != nil || err != nil && !errors.Is(err, ErrNoStore) {
			return errors.Join(err, ctx.Err())
		}
		if err != nil {
			why = append(why, fmt.Errorf("backup %s: %w", dir, err))
		}
		if f != nil && len(f.sources) == 0 {
			bad := m.source("backup " + dir).Bad
			why = append(why, fmt.Errorf("%w: backup %s: %s", ErrNoStore, dir, strings.Join(bad, ", ")))
		}
		if f != nil {
			m.opened = append(m.opened, f)
			m.sources = append(m.sources, f.sources...)
		}
	}
	return onlyIf(len(m.sources) == 0, cmp.Or(errors.Join(why...), ErrNoStore))
}

// backup opens a backup and compares every file with its digest. ErrNoStore if dir is no backup, or another store's.
func (m *assembly) backup(ctx context.Context, dir string) (*folder, error) {
	name := "backup " + dir
	b, sums, err := readBackup(m.o.FS, dir)
	id := m.id
	if err != nil {
		m.unreadable(name)(err.Error()) // the rows still count
	} else if own := b.identity(); own != [16]byte{} {
		id = own
	}
	if !m.joins(id) {
		m.unreadable(name)("it is of another store")
		return nil, fmt.Errorf("%w: it is of another store", ErrNoStore)
	}
	for _, file := range slices.Sorted(maps.Keys(sums)) {
		if err := checkFile(ctx, m.o.FS, m.o.FS.PathJoin(dir, file), sums[file], &meter{}); err != nil {
			m.unreadable(name)(err.Error())
		}
	}
	at := *m.o
	at.Dir, at.FS = m.o.FS.PathJoin(dir, backupStore), unlocked{m.o.FS}
	alone := len(m.sources) == 0 // if so, the new store gets the backup's meta rows
	f, err := openFolder(&at, name, alone)
	if errors.Is(err, ErrNoStore) {
		m.unreadable(name)(err.Error())
	}
	if err != nil {
		return nil, err
	}
	if f.db != nil && m.id == [16]byte{} {
		if row, err := get(f.db, keyStore); err == nil && len(row) == 16 {
			m.id, id = [16]byte(row), [16]byte(row)
		}
	}
	m.ids = append(m.ids, id)
	if m.own.meta = m.own.meta || alone && f.meta; b == nil {
		return f, nil
	}
	for series, last := range b.Last {
		m.named[series] = max(m.named[series], last)
	}
	if m.taken0 = 0; alone {
		m.taken0 = b.Taken.UnixNano()
	}
	return f, nil
}

// copyRows calls row with every row of the second copy.
func (m *assembly) copyRows(ctx context.Context, row func(key, value []byte) error, bad func(what string)) error {
	c := *m.copy
	told := c.end.told.clone()
	for _, part := range c.parts {
		err := c.rows(ctx, m.o.FS, part, &told, func(key, value []byte) error { return row(slices.Clone(key), value) })
		if err != nil && ctx.Err() == nil && unreadable(err) {
			bad(err.Error())
			continue
		}
		if err != nil {
			return err
		}
	}
	for _, p := range told.Series { // heads may name series without any row here
		m.media.furthest[p.Sequence] = max(m.media.furthest[p.Sequence], p.Last)
		if p.Position > m.media.reached.Series[p.Sequence].Position {
			m.media.reached.noteReached(p)
		}
	}
	for _, what := range c.bad {
		bad(what)
	}
	return nil
}

// histories collects the journals of a store that is being assembled, and what the media know about each series.
type histories struct {
	names    map[uint32]string
	told     copyState         // how far each series got on media with the same history
	furthest map[uint32]uint64 // the highest number that any medium names, by sequence
	again    map[uint32]uint32 // a series' sequence in the store, by its sequence on a medium, if they differ

	// The next five fields are about the medium being read:
	reached   copyState
	gave      map[uint32][]uint64 // positions of the links that came only from this medium, by sequence
	confirmed map[uint32]uint64   // the last position at which the medium agrees with earlier media, by sequence
	diverged  map[uint32]bool
	taken     int
}

func newHistories() *histories {
	return &histories{names: make(map[uint32]string), told: newCopyState(), furthest: make(map[uint32]uint64),
		again: make(map[uint32]uint32)}
}

func (h *histories) begin() {
	h.reached = newCopyState()
	h.gave, h.confirmed, h.diverged, h.taken = make(map[uint32][]uint64), make(map[uint32]uint64),
		make(map[uint32]bool), 0
}

// end must be called after the rows of a medium are added. It returns the names of the series with another history on
// the medium. If there are such series, a link of the medium counts only if another medium has it: on this medium the
// same ids may belong to other records.
func (h *histories) end(db *pebble.DB) (names []string, err error) {
	for sequence, p := range h.reached.Series {
		for other, name := range h.names {
			if p.Name != "" && name == p.Name && other != sequence { // the series was begun anew without this medium
				h.again[sequence] = other
				err = errors.Join(err, h.diverge(db, sequence))
			}
		}
	}
	for sequence := range h.diverged {
		names = append(names, cmp.Or(h.names[h.again[sequence]], h.nameOf(sequence)))
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
			if p.Position >= h.told.Series[sequence].Position {
				h.told.noteReached(p)
			}
			h.names[sequence] = cmp.Or(h.names[sequence], p.Name)
		} else if h.names[sequence] == "" && !h.diverged[sequence] {
			h.names[sequence] = p.Name
		}
	}
	return names, err
}

func (h *histories) nameOf(sequence uint32) string {
	if name := h.names[sequence]; name != "" {
		return name
	}
	return namelessSeries(sequence)
}

// series adds a medium's row of one series.
func (h *histories) series(db *pebble.DB, name string, row Reach) error {
	if row.Sequence == 0 || row.Sequence > 1<<24 {
		return nil
	}
	h.furthest[row.Sequence] = max(h.furthest[row.Sequence], row.Last)
	if known := h.names[row.Sequence]; known != "" && known != name {
		return h.diverge(db, row.Sequence)
	}
	if row.Position >= h.reached.Series[row.Sequence].Position {
		h.reached.noteReached(place{row, name})
	}
	return nil
}

// link adds a link to the histories if the chain continues through that link.
func (h *histories) link(db *pebble.DB, key, value []byte) error {
	if len(key) != 13 {
		return nil
	}
	l, err := decodeLink(value)
	if err != nil {
		return nil // the row is not a link
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

// diverge notes that the medium has another history of a series, and removes the series' links that only it has.
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

// expect sets the total of the progress when the media are known. The rows are larger than their files: the progress
// may reach the end of its first half early.
func (a *assembly) expect() {
	total := int64(1)
	add := func(dir string) {
		if _, size, err := listFiles(a.o.FS, dir); err == nil { // an unlistable folder is not read either
			total += size
		}
	}
	add(a.o.Dir)
	if a.copy != nil {
		add(a.from.Copy)
	}
	for _, dir := range a.from.Backups {
		add(a.o.FS.PathJoin(dir, backupStore))
	}
	a.meter.total = 4 * total
}

// RepairRecord describes the repair that made a store. The store keeps the record until the audit trail has it. The
// record is written before the new store gets its name: a crash never leaves a repaired store without its record.
type RepairRecord struct {
	At      time.Time `json:"at"`
	Damaged string    `json:"damaged"` // the damaged store's folder
	Sources []Source  `json:"sources"`
	Missing []string  `json:"missing"` // a sentence for each series that lacks something
}

// Unrecorded returns the repairs that are not in the audit trail yet, the oldest first.
func (s *Store) Unrecorded() ([]RepairRecord, error) {
	return use(s, "reading repairs", func() ([]RepairRecord, error) {
		return readJSON[[]RepairRecord](s.db, keyRepairs)
	})
}

// Recorded deletes the repairs that Unrecorded returned. The audit trail must have them.
func (s *Store) Recorded() error {
	return s.do("dropping the record of a repair", func() error {
		s.o.dieOn(s.db.Delete(keyRepairs, pebble.Sync), "dropping the record of a repair")
		return nil
	})
}

// record writes the repair into the new store, after earlier repairs that the audit trail lacks.
func (r *assembly) record() error {
	list, err := readJSON[[]RepairRecord](r.db, keyRepairs)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	now := RepairRecord{At: time.Unix(0, r.row.At).UTC(), Damaged: r.said.Damaged, Sources: r.said.Sources}
	if r.said.Owed != nil {
		for _, m := range r.said.Owed.Missing {
			now.Missing = append(now.Missing, m.String())
		}
	}
	return setJSON(r.db, keyRepairs, append(list, now), pebble.NoSync)
}
