package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// TakeCopy puts into a store what its second copy has and the store lacks: the rest of the same history, verified with the
// chain link by link before anything is written. The store must not be open. It returns what was taken, nil if the copy knows
// no more than the store.
//
// ErrDiverged if the copy continues differently from the store; ErrCorrupt if its continuation is damaged; ErrUnreadable if its
// medium does not return it; ErrNoStore if there is none, or another store's; ErrInUse. After a crash within TakeCopy the store
// takes no number until TakeCopy is repeated.
func TakeCopy(ctx context.Context, from string, o Options, progress Progress) (*Witness, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	db, err := openPebble(&o, &damage{}, false)
	if err != nil {
		return nil, fmt.Errorf("taking from %s: %w", from, err)
	}
	w, err := takeCopy(ctx, &o, db, from, progress)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("taking from %s: %w", from, err)
	}
	return w, nil
}

func takeCopy(ctx context.Context, o *Options, db *pebble.DB, from string, progress Progress) (*Witness, error) {
	id, err := get(db, keyStore)
	if err != nil || len(id) != 16 {
		return nil, fmt.Errorf("reading the store's identity: %w", errors.Join(ErrCorrupt, err))
	}
	end, err := readEnd(o.FS, from)
	switch {
	case errors.Is(err, ErrCorrupt):
		return nil, err
	case err != nil:
		return nil, absentOr(err)
	case end == nil:
		return nil, fmt.Errorf("%w: no segment in %s", ErrNoStore, from)
	}
	if !sameFamily(end.store, [16]byte(id)) {
		return nil, fmt.Errorf("%w: %w", ErrNoStore, errForeign)
	}
	w, err := compareCopy(o, db, from, end)
	switch {
	case err == nil && w == nil && len(end.strange) > 0:
		return nil, cmp.Or(unreadSegment(o, from), fmt.Errorf("%w: the heads of segments %v", ErrCorrupt, end.strange))
	case err != nil || w == nil:
		return nil, errors.Join(err, forgetWitness(db, WitnessCopy))
	case w.Diverged:
		return w, fmt.Errorf("%w: %s", ErrDiverged, w)
	}
	c, err := readCopy(o.FS, from)
	if err != nil {
		return nil, err
	}
	if len(c.bad) > 0 {
		return w, cmp.Or(unreadSegment(o, from), fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(c.bad, ", ")))
	}
	series, err := readAllSeries(db)
	if err != nil {
		return nil, err
	}
	t := &taking{db: db, have: make(map[uint32]seriesRow), begun: make(map[uint32]uint64)}
	for _, row := range series {
		t.have[row.Sequence], t.begun[row.Sequence] = row, row.Position
	}
	// 1. Held against the chain.
	p := &meter{report: progress, total: 2 * c.size}
	if err := c.eachFrame(ctx, o.FS, p, t.verify); err != nil {
		return nil, err
	}
	for _, told := range end.told.Series {
		if have := t.have[told.Sequence]; have.Position != told.Position || have.Hash != told.Hash {
			return nil, fmt.Errorf("%w: the copy of series %d ends at position %d, not %d", ErrCorrupt, told.Sequence, have.Position, told.Position)
		}
	}
	// 2. Written. From here on, and until all of it is there, the store numbers nothing.
	if err := setBehind(db, []Witness{*w}); err != nil {
		return nil, err
	}
	if err := c.eachFrame(ctx, o.FS, p, t.write); err != nil {
		return nil, err
	}
	p.finish()
	return w, forgetWitness(db, "")
}

// unreadSegment returns ErrUnreadable when the medium does not return one of a copy's segments: the segment may hold what nobody else
// has.
func unreadSegment(o *Options, from string) error {
	numbers, err := segmentNumbers(o.FS, from)
	for _, n := range numbers {
		if _, bad := loadSegment(o.FS, from, n); bad != nil && !errors.Is(bad, errNoSegment) {
			return fmt.Errorf("%w: segment %d: %w", ErrUnreadable, n, bad)
		}
	}
	return err
}

// forgetWitness ends what hold began for a medium; empty: for all.
func forgetWitness(db *pebble.DB, medium string) error {
	list, err := readBehind(db)
	if err != nil || list == nil {
		return err
	}
	var rest []Witness
	for _, w := range list {
		if medium != "" && w.Medium != medium {
			rest = append(rest, w)
		}
	}
	if rest != nil {
		return setBehind(db, rest)
	}
	return db.Delete(keyBehind, pebble.Sync)
}

// taking is a history that is being taken from a copy.
type taking struct {
	db    *pebble.DB
	have  map[uint32]seriesRow // where the chain has come, by sequence
	begun map[uint32]uint64    // positions that the store had
}

// verify follows the chain through a frame.
func (t *taking) verify(f frame) error {
	if f.Kind != frameChange && f.Kind != frameRows {
		return nil
	}
	return f.links(func(key, value []byte) error {
		sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
		have := t.have[sequence]
		if position <= have.Position {
			return nil
		}
		l, err := decodeLink(value)
		if err != nil {
			return err
		}
		if position != have.Position+1 || l.Previous != have.Hash {
			return fmt.Errorf("%w: position %d of series %d does not continue position %d", ErrCorrupt, position, sequence, have.Position)
		}
		if l.Op == opAppend {
			old, err := get(t.db, entryKey(l.ID))
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			if e, bad := decodeEntry(l.ID, old); err == nil && (bad != nil || e.Code != l.Code) {
				return fmt.Errorf("%w: entry %d is another one here", ErrDiverged, l.ID)
			}
		}
		have.Sequence, have.Position, have.Hash = sequence, position, hashLink(key, value)
		t.have[sequence] = have
		return nil
	})
}

// write writes what the store has not. A fill is the whole store as it was at one moment: of it, the rows that the store has newer
// stay as they are.
func (t *taking) write(f frame) error {
	switch f.Kind {
	case frameChange:
		c := cursor{b: f.Payload}
		p := c.place()
		c.u64()
		if p.Position <= t.begun[p.Sequence] {
			return nil
		}
		return apply(t.db, c.b, false)
	case frameRows:
		rows, err := t.newer(f.Payload)
		if err != nil {
			return err
		}
		return apply(t.db, rows, true)
	}
	return nil
}

// newer leaves out of filled rows those of which the store has a later state.
func (t *taking) newer(repr []byte) ([]byte, error) {
	queued := make(map[uint64][]byte) // where the entries of these rows stand
	err := eachRow(repr, func(_ pebble.InternalKeyKind, key, value []byte) error {
		if key[0] != tableEntry {
			return nil
		}
		stale, err := t.stale(key, value, nil)
		if err != nil || stale {
			return err
		}
		e, err := decodeEntry(be.Uint64(key[1:]), value)
		queued[be.Uint64(key[1:])] = e.due()
		return err
	})
	if err != nil {
		return nil, err
	}
	out := t.db.NewBatch()
	err = eachRow(repr, func(_ pebble.InternalKeyKind, key, value []byte) error {
		if stale, err := t.stale(key, value, queued); err != nil || stale {
			return err
		}
		return out.Set(key, value, nil)
	})
	rows := slices.Clone(out.Repr())
	return rows, errors.Join(err, out.Close())
}

// stale tells whether the store has a row already as it was later. Parts, codes, keys, days and lost numbers never change; of a
// counter, apply keeps the latest.
func (t *taking) stale(key, value []byte, queued map[uint64][]byte) (bool, error) {
	switch key[0] {
	case tableMeta: // a store of the same identity has it
		return true, nil
	case tableSeries:
		row, err := decodeSeries(value)
		return err == nil && row.Position <= t.begun[row.Sequence], err
	case tableEntry:
		old, err := get(t.db, key)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		id := be.Uint64(key[1:])
		here, err := decodeEntry(id, old)
		there, bad := decodeEntry(id, value)
		return here.Revision >= there.Revision, errors.Join(err, bad)
	case tableDue:
		_, _, id, ok := parseDueKey(key)
		if !ok {
			return false, fmt.Errorf("%w: %s", ErrCorrupt, describeKey(key))
		}
		_, stands := queued[id]
		return !stands || string(queued[id]) != string(key), nil
	case tableLost: // at position 0 is a list that grows
		if len(key) != 13 || be.Uint64(key[5:]) != 0 {
			return false, nil
		}
		_, err := get(t.db, key)
		return err == nil, onlyIf(err != nil && !errors.Is(err, ErrNotFound), err)
	}
	return false, nil
}

// GiveUp settles a store that is behind other media, for good: every series continues after the highest number that any medium
// knows, and the numbers between are lost. A mark of the first format holds no names; therefore each of the possible series
// that the store does not have moves as far as the highest number of that mark. The store gets a new identity; therefore its
// second copy is set aside and begun again. An interrupted attempt can be repeated.
func (s *Store) GiveUp(ctx context.Context, possible []string, reason string) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("giving numbers up: %w", err)
	}
	defer s.leave()
	s.reconciling.Lock()
	defer s.reconciling.Unlock()
	if err := s.giveUp(ctx, possible, reason); err != nil {
		return fmt.Errorf("giving numbers up: %w", err)
	}
	return nil
}

func (s *Store) giveUp(ctx context.Context, possible []string, reason string) error {
	list := s.Behind()
	if list == nil {
		return errors.New("no medium knows more than the store")
	}
	lastChange, err := s.lastChange()
	if err != nil {
		return err
	}
	series, err := readAllSeries(s.db)
	if err != nil {
		return err
	}
	for _, skip := range plan(list, possible, series) {
		row, err := s.series(skip.Series)
		if err != nil {
			return err
		}
		if row.Last >= skip.To {
			continue
		}
		if err := s.skipTo(ctx, skip.Series, skip.To, reason); err != nil {
			return err
		}
	}
	id, err := get(s.db, keyStore)
	if err != nil {
		return err
	}
	if series, err = readAllSeries(s.db); err != nil {
		return err
	}
	b := s.db.NewBatch()
	if err := s.addGap(b, lastChange); err != nil {
		return err
	}
	if err := addFormer(b, s.db, [16]byte(id)); err != nil {
		return err
	}
	if err := newIdentity(b, s.db, id); err != nil {
		return err
	}
	if err := b.Commit(pebble.Sync); err != nil {
		s.o.die("settling the store: %v", err)
	}
	// If we crash here, the mark is of the same family, and all of it is repeated.
	s.mark.renew([16]byte(id), series)
	if err := s.db.Delete(keyBehind, pebble.Sync); err != nil {
		s.o.die("settling the store: %v", err)
	}
	s.behind.Store(nil)
	return nil
}

// plan moves each series one beyond the furthest number. Number n is acknowledged once the mark says n-1: beside a mark, every
// series of the store goes one further, also one of which the mark says no more than the store, and every possible series that
// neither of them has.
func plan(list []Witness, possible []string, series map[string]seriesRow) []Skip {
	to := make(map[string]uint64)
	unnamed := uint64(0)
	for _, w := range list {
		for _, a := range w.Series {
			if a.Series == "" {
				unnamed = max(unnamed, max(a.Here, a.There)+1)
				continue
			}
			to[a.Series] = max(to[a.Series], max(a.Here, a.There)+1)
		}
		if w.Medium != WitnessMark {
			continue
		}
		for name, row := range series {
			to[name] = max(to[name], row.Last+1)
		}
		unnamed = max(unnamed, 1)
	}
	for _, name := range possible {
		if _, known := series[name]; !known && unnamed > 0 {
			to[name] = max(to[name], unnamed)
		}
	}
	if unnamed > 1 {
		to[begun] = max(to[begun], unnamed)
	}
	skips := make([]Skip, 0, len(to))
	for _, name := range slices.Sorted(maps.Keys(to)) {
		skips = append(skips, Skip{name, to[name]})
	}
	return skips
}
