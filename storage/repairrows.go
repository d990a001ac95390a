package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// assemble fills the new store, and finds out what is missing.
func (r *repairer) assemble(ctx context.Context) error {
	r.row = restoredRow{At: r.o.Now().UnixNano(), Repaired: true}
	strange := make([]bool, 0, len(r.sources)) // media that hold another history of some series
	for _, s := range r.sources {
		bad, err := r.journals(ctx, s)
		if err != nil {
			return err
		}
		strange = append(strange, bad)
	}
	if err := r.identify(); err != nil {
		return err
	}
	var err error
	if r.row.MarkLost, err = r.o.findMark(r.id); err != nil {
		return err
	}
	own := len(r.sources)
	closers, err := r.others()
	defer func() {
		for _, c := range closers {
			_ = c() // they were only read
		}
	}()
	if err != nil {
		return err
	}
	r.expect()
	for _, s := range r.sources[own:] {
		bad, err := r.journals(ctx, s)
		if err != nil {
			return err
		}
		strange = append(strange, bad)
	}
	if err := r.prove(ctx); err != nil {
		return err
	}
	for i, s := range r.sources {
		if err := r.rows(ctx, s, strange[i]); err != nil {
			return err
		}
	}
	if err := r.ask(ctx); err != nil {
		return err
	}
	if err := r.name(); err != nil {
		return err
	}
	return r.finish()
}

// source finds the line of a medium in the report.
func (r *repairer) source(name string) *RepairSource {
	for i := range r.said.Sources {
		if r.said.Sources[i].Name == name {
			return &r.said.Sources[i]
		}
	}
	r.said.Sources = append(r.said.Sources, RepairSource{Name: name})
	return &r.said.Sources[len(r.said.Sources)-1]
}

func (r *repairer) unreadable(name string) func(what string) {
	return func(what string) {
		if s := r.source(name); !slices.Contains(s.Bad, what) {
			s.Bad = append(s.Bad, what)
		}
	}
}

// journals takes the journals of a medium in, and what it says of the store itself. It returns whether the medium holds another history of
// some series.
func (r *repairer) journals(ctx context.Context, s rowSource) (strange bool, err error) {
	r.begin()
	err = s.rows(ctx, func(key, value []byte) error {
		r.meter.read(len(key) + len(value))
		switch key[0] {
		case tableMeta:
			return r.takeStoreRow(s.own, key, value)
		case tableSeries:
			if row, err := decodeSeries(value); err == nil {
				return r.series(r.db, string(key[1:]), row)
			}
		case tableJournal:
			return r.link(r.db, key, value)
		}
		return nil
	}, r.unreadable(s.name))
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", s.name, err)
	}
	diverged, err := r.end(r.db)
	if err != nil {
		return false, err
	}
	line := r.source(s.name)
	line.Taken += r.taken
	for _, name := range diverged {
		if !slices.Contains(line.Diverged, name) {
			line.Diverged = append(line.Diverged, name)
		}
	}
	r.known = r.known || s.own && r.own.meta
	return len(diverged) > 0, nil
}

// takeStoreRow takes a row in that the store keeps of itself. Where Pebble shows these rows, none comes from elsewhere.
func (r *repairer) takeStoreRow(own bool, key, value []byte) error {
	wanted := [][]byte{keyGaps, keyFormer}
	if own {
		wanted = append(wanted, keyRestored, keyBehind, keyBeat, keyScrub, keyRepairs, keyMark)
	}
	switch {
	case r.known:
		return nil
	case own && string(key) == string(keyStore) && len(value) == 16 && r.id == [16]byte{}:
		r.id = [16]byte(value)
		return nil
	case !slices.ContainsFunc(wanted, func(k []byte) bool { return string(k) == string(key) }):
		return nil
	}
	if _, err := get(r.db, key); !errors.Is(err, ErrNotFound) {
		return err
	}
	return r.db.Set(key, value, pebble.NoSync)
}

// identify gives the new store its identity.
func (r *repairer) identify() error {
	if err := r.findIdentity(); err != nil {
		return err
	}
	return r.db.Set(keyStore, r.id[:], pebble.NoSync)
}

// findIdentity finds out which store this is. The mark is of the store as it is now; files may be of before a restoration.
func (r *repairer) findIdentity() error {
	_, marked, err := readMark(r.o.FS, r.o.MarkPath)
	if err == nil && (r.id == [16]byte{} || !r.own.meta && sameFamily(marked, r.id)) {
		r.id = marked
	}
	if r.id == [16]byte{} && r.from.Copy != "" {
		if end, err := readEnd(r.o.FS, r.from.Copy); err == nil && end != nil {
			r.id = end.store
		}
	}
	for _, dir := range r.from.Backups {
		if b, _, err := readBackup(r.o.FS, dir); err == nil && r.id == [16]byte{} {
			_, _ = hex.Decode(r.id[:], []byte(b.Store)) // all zero: not known
		}
	}
	if r.id == [16]byte{} {
		return fmt.Errorf("%w: neither the store nor its mark tells which store this is; give its second copy or a backup", ErrCorrupt)
	}
	return nil
}

// others adds the second copy and the backups to the sources, and returns what is to be closed. One that is another store's, or
// that cannot be read at all, is named and left out.
func (r *repairer) others() (closers []func() error, err error) {
	if r.from.Copy != "" {
		name := "second copy " + r.from.Copy
		c, err := readCopy(r.o.FS, r.from.Copy)
		switch {
		case err != nil:
			r.unreadable(name)(err.Error())
		case !sameFamily(c.store, r.id):
			r.unreadable(name)(errForeign.Error())
		default:
			r.copy = c
			r.sources = append(r.sources, rowSource{name, false, r.copyRows})
		}
	}
	for _, dir := range r.from.Backups {
		name := "backup " + dir
		id := r.id
		if b, _, err := readBackup(r.o.FS, dir); err == nil { // of one whose description is damaged the rows still count
			if raw, err := hex.DecodeString(b.Store); err == nil && len(raw) == 16 {
				id = [16]byte(raw)
			}
		}
		if !sameFamily(id, r.id) {
			r.unreadable(name)("it is of another store")
			continue
		}
		at := *r.o
		at.Dir, at.FS = r.o.FS.PathJoin(dir, backupStore), unlocked{r.o.FS}
		f, err := openFolder(&at, name, false)
		if errors.Is(err, ErrNoStore) {
			r.unreadable(name)(err.Error())
			continue
		}
		if err != nil {
			return closers, err
		}
		closers = append(closers, f.close)
		r.sources = append(r.sources, f.sources...)
	}
	return closers, nil
}

// copyRows are the rows of the second copy.
func (r *repairer) copyRows(ctx context.Context, row func(key, value []byte) error, bad func(what string)) error {
	c := *r.copy
	told, scratch := c.end.told.clone(), restoredRow{}
	for _, part := range c.parts {
		err := c.replay(ctx, r.o.FS, part, &told, &scratch, &meter{}, func(repr []byte, _ bool) error {
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
		r.furthest[p.Sequence] = max(r.furthest[p.Sequence], p.Last)
		if p.Position > r.reached.Series[p.Sequence].Position {
			r.reached.noteReached(p)
		}
	}
	for _, what := range c.bad {
		bad(what)
	}
	return nil
}

// prove reads the journals that there are by now.
func (r *repairer) prove(ctx context.Context) error {
	r.proof = newProof()
	return scan(r.db, []byte{tableJournal}, []byte{tableJournal + 1}, func(key, value []byte) error {
		l, err := decodeLink(value)
		if err != nil {
			return err
		}
		r.proof.link(key, &l)
		return errors.Join(setCounters(r.db, &l), ctx.Err())
	})
}

// rows takes the records and parts of a medium in. Of one that holds another history of some series, only what a journal proves.
func (r *repairer) rows(ctx context.Context, s rowSource, strange bool) error {
	taken := 0
	err := s.rows(ctx, func(key, value []byte) error {
		r.meter.read(len(key) + len(value))
		fresh, err := r.take(key, value, s.own, strange)
		if fresh {
			taken++
		}
		return err
	}, r.unreadable(s.name))
	r.source(s.name).Taken += taken
	return err
}

func (r *repairer) take(key, value []byte, own, strange bool) (fresh bool, err error) {
	there := func() (bool, error) {
		_, err := get(r.db, key)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	switch v := unproven; {
	case key[0] == tableEntry && len(key) == 9:
		e, bad := decodeEntry(be.Uint64(key[1:]), value)
		if bad != nil {
			return false, nil
		}
		if v = r.proof.entry(&e, value); v == disproven || v == unproven && strange {
			return false, nil
		}
		old, err := get(r.db, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
		if was, bad := decodeEntry(e.ID, old); err == nil && bad == nil && was.Revision >= e.Revision {
			return false, nil
		}
	case key[0] == tablePart && len(key) > 9:
		if v = r.proof.part(be.Uint64(key[1:]), string(key[9:]), value); v == disproven || v == unproven && strange {
			return false, nil
		}
		if ok, err := there(); ok || err != nil {
			return false, err
		}
	case key[0] == tableLost && len(key) == 13 && r.proof.lost(key, value),
		key[0] == tableFeed && len(key) == 9 && !strange:
		if ok, err := there(); ok || err != nil {
			return false, err
		}
	case key[0] == tableCounter && len(key) == 21 && len(value) == counterSize && own:
		return false, setCounter(r.db, key, value)
	default:
		return false, nil // made anew of the others
	}
	return true, r.db.Set(key, value, pebble.NoSync)
}

// ask asks elsewhere for the parts that are missing of records that are there.
func (r *repairer) ask(ctx context.Context) error {
	if r.from.Part == nil {
		return nil
	}
	return scan(r.db, []byte{tableJournal}, []byte{tableJournal + 1}, func(_, value []byte) error {
		l, err := decodeLink(value)
		if err != nil || l.Op == opSkip {
			return err
		}
		for _, d := range l.Parts {
			key := partKey(l.ID, d.Name)
			if _, err := get(r.db, key); !errors.Is(err, ErrNotFound) {
				if err != nil {
					return err
				}
				continue
			}
			row, err := get(r.db, entryKey(l.ID))
			if errors.Is(err, ErrNotFound) {
				continue
			}
			e, bad := decodeEntry(l.ID, row)
			if err = errors.Join(err, bad); err != nil {
				return err
			}
			data, err := r.from.Part(ctx, e.Entry, d.Name)
			if err != nil {
				r.unreadable(archiveMedium)(err.Error())
				continue
			}
			if data == nil || r.proof.part(l.ID, d.Name, data) != proven {
				continue
			}
			r.source(archiveMedium).Taken++
			if err := r.db.Set(key, data, pebble.NoSync); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// name names the series whose rows are lost, after their records.
func (r *repairer) name() error {
	err := scan(r.db, []byte{tableEntry}, []byte{tableEntry + 1}, func(key, value []byte) error {
		e, err := decodeEntry(be.Uint64(key[1:]), value)
		if err != nil || r.names[e.SequenceID] != "" || r.from.Series == nil {
			return err
		}
		r.names[e.SequenceID] = r.from.Series(e.Entry)
		return nil
	})
	if err != nil {
		return err
	}
	taken := make(map[string]uint32)
	for _, sequence := range slices.Sorted(maps.Keys(r.furthest)) {
		name := r.names[sequence]
		if other := taken[name]; name == "" || other != 0 {
			return fmt.Errorf("%w: the name of series %d, which got to number %d, is known to no medium; give a backup or the second copy that has it",
				ErrCorrupt, sequence, r.furthest[sequence])
		}
		taken[name] = sequence
		p := r.told.Series[sequence]
		p.Sequence, p.Name = sequence, name
		r.told.Series[sequence] = p
	}
	return nil
}
