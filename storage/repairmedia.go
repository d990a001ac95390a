package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// media are what has rows of a damaged store: what is left of itself, its second copy, backups.
type media struct {
	o    *Options
	from RepairFrom
	said *Repaired

	own     *folder
	sources []rowSource
	copy    *copyChain // nil: there is none
	id      [16]byte   // of the store
	*histories
}

func newMedia(o *Options, from RepairFrom) *media {
	return &media{o: o, from: from, said: &Repaired{}, histories: newHistories()}
}

// openSources finds out what is left of the store itself.
func (m *media) openSources() (err error) {
	if m.own, err = openFolder(m.o, "the damaged store", true); err != nil {
		return err
	}
	m.sources = slices.Clone(m.own.sources)
	return nil
}

// source finds the line of a medium in the report.
func (m *media) source(name string) *RepairSource {
	for i := range m.said.Sources {
		if m.said.Sources[i].Name == name {
			return &m.said.Sources[i]
		}
	}
	m.said.Sources = append(m.said.Sources, RepairSource{Name: name})
	return &m.said.Sources[len(m.said.Sources)-1]
}

func (m *media) unreadable(name string) func(what string) {
	return func(what string) {
		if s := m.source(name); !slices.Contains(s.Bad, what) {
			s.Bad = append(s.Bad, what)
		}
	}
}

// findIdentity finds out which store this is. The mark is of the store as it is now; files may be of before a restoration.
func (m *media) findIdentity() error {
	_, marked, err := readMark(m.o.FS, m.o.MarkPath)
	if err == nil && (m.id == [16]byte{} || !m.own.meta && sameFamily(marked, m.id)) {
		m.id = marked
	}
	if m.id == [16]byte{} && m.from.Copy != "" {
		if end, err := readEnd(m.o.FS, m.from.Copy); err == nil && end != nil {
			m.id = end.store
		}
	}
	for _, dir := range m.from.Backups {
		if b, _, err := readBackup(m.o.FS, dir); err == nil && m.id == [16]byte{} {
			_, _ = hex.Decode(m.id[:], []byte(b.Store)) // all zero: not known
		}
	}
	if m.id == [16]byte{} {
		return fmt.Errorf("%w: neither the store nor its mark tells which store this is; give its second copy or a backup", ErrCorrupt)
	}
	return nil
}

// others adds the second copy and the backups to the sources, and returns what is to be closed. One that is another store's, or
// that cannot be read at all, is named and left out.
func (m *media) others() (closers []func() error, err error) {
	if m.from.Copy != "" {
		name := "second copy " + m.from.Copy
		c, err := readCopy(m.o.FS, m.from.Copy)
		switch {
		case err != nil:
			m.unreadable(name)(err.Error())
		case !sameFamily(c.store, m.id):
			m.unreadable(name)(errForeign.Error())
		default:
			m.copy = c
			m.sources = append(m.sources, rowSource{name, false, m.copyRows})
		}
	}
	for _, dir := range m.from.Backups {
		name := "backup " + dir
		id := m.id
		if b, _, err := readBackup(m.o.FS, dir); err == nil { // of one whose description is damaged the rows still count
			if raw, err := hex.DecodeString(b.Store); err == nil && len(raw) == 16 {
				id = [16]byte(raw)
			}
		}
		if !sameFamily(id, m.id) {
			m.unreadable(name)("it is of another store")
			continue
		}
		at := *m.o
		at.Dir, at.FS = m.o.FS.PathJoin(dir, backupStore), unlocked{m.o.FS}
		f, err := openFolder(&at, name, false)
		if errors.Is(err, ErrNoStore) {
			m.unreadable(name)(err.Error())
			continue
		}
		if err != nil {
			return closers, err
		}
		closers = append(closers, f.close)
		m.sources = append(m.sources, f.sources...)
	}
	return closers, nil
}

// copyRows are the rows of the second copy.
func (m *media) copyRows(ctx context.Context, row func(key, value []byte) error, bad func(what string)) error {
	c := *m.copy
	told, scratch := c.end.told.clone(), restoredRow{}
	for _, part := range c.parts {
		err := c.replay(ctx, m.o.FS, part, &told, &scratch, &meter{}, func(repr []byte, _ bool) error {
			return eachRow(repr, func(kind pebble.InternalKeyKind, key, value []byte) error {
				if kind != pebble.InternalKeyKindSet {
					return nil
				}
				return row(slices.Clone(key), value)
			})
		})
		if err != nil && ctx.Err() == nil && unreadable(err) {
			bad(err.Error())
			continue
		}
		if err != nil {
			return err
		}
	}
	for _, p := range told.Series { // heads name series that no row here does
		m.furthest[p.Sequence] = max(m.furthest[p.Sequence], p.Last)
		if p.Position > m.reached.Series[p.Sequence].Position {
			m.reached.noteReached(p)
		}
	}
	for _, what := range c.bad {
		bad(what)
	}
	return nil
}
