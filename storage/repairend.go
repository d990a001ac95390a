package storage

import (
	"errors"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

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
