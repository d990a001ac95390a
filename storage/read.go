package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// The functions of this file, except LastNumber, return durable data: they read, and then wait for changes under way.

// Get returns a record. Errors: ErrNotFound, ErrClosed.
func (s *Store) Get(code Code) (Entry, error) {
	return use(s, "reading record", func() (Entry, error) {
		e, err := s.entry(code)
		if err != nil {
			return Entry{}, fmt.Errorf("%X: %w", code, err)
		}
		s.pending.wait(code)
		return e.Entry, nil
	})
}

// Part returns one part of a record. ErrNotFound if the record or the part does not exist.
func (s *Store) Part(code Code, name string) ([]byte, error) {
	return use(s, "reading part", func() ([]byte, error) {
		id, err := s.id(code)
		var data []byte
		if err == nil {
			data, err = get(s.db, partKey(id, name))
		}
		if err != nil {
			return nil, fmt.Errorf("%q of record %X: %w", name, code, err)
		}
		s.pending.wait(code)
		return data, nil
	})
}

// Parts returns all parts of a record, by name. ErrNotFound if the record does not exist.
func (s *Store) Parts(code Code) ([]Part, error) {
	return use(s, "reading parts", func() ([]Part, error) {
		id, err := s.id(code)
		lists := [][]Part{nil}
		if err == nil {
			lists, err = s.parts(id)
		}
		if err != nil {
			return nil, fmt.Errorf("record %X: %w", code, err)
		}
		s.pending.wait(code)
		return lists[0], nil
	})
}

// PartsOf returns the parts of the given records, by name, for a third of the cost of Parts. Records in the order of
// their ids are cheapest.
func (s *Store) PartsOf(records []Entry) ([][]Part, error) {
	return use(s, "reading parts", func() ([][]Part, error) {
		if len(records) == 0 {
			return nil, nil
		}
		ids := make([]uint64, len(records))
		for i, e := range records {
			ids[i] = e.ID
		}
		lists, err := s.parts(ids...)
		for _, e := range records {
			s.pending.wait(e.Code)
		}
		return lists, err
	})
}

func (s *Store) parts(ids ...uint64) ([][]Part, error) {
	lists := make([][]Part, len(ids))
	err := iterate(s.db, partKey(slices.Min(ids), ""), partKey(slices.Max(ids)+1, ""), func(it *pebble.Iterator) error {
		ok := it.First()
		for i, id := range ids {
			if !ok || be.Uint64(it.Key()[1:]) != id {
				ok = it.SeekGE(partKey(id, ""))
			}
			for ; ok && be.Uint64(it.Key()[1:]) == id; ok = it.Next() {
				value, err := it.ValueAndErr()
				if err != nil {
					return damaged(err)
				}
				lists[i] = append(lists[i], Part{Name: string(it.Key()[9:]), Data: append([]byte{}, value...)})
			}
		}
		return nil
	})
	return lists, err
}

// Lookup returns the code of the record that has an idempotency key, and the digest of the request that made the
// record. ErrNotFound if no record has the key.
func (s *Store) Lookup(key [32]byte) (code Code, digest [32]byte, err error) {
	code, err = use(s, "looking up key", func() (code Code, err error) {
		row, err := get(s.db, idemKey(key))
		if err == nil && len(row) != 40 {
			err = ErrCorrupt
		}
		if err != nil {
			return code, err
		}
		e, err := s.entryByID(be.Uint64(row))
		digest = [32]byte(row[8:])
		s.pending.wait(e.Code)
		return e.Code, err
	})
	return code, digest, err
}

// Counter returns a counter's value, 0 if it was never set. The value is reliable only for an Appending that names the
// origin, from Begin to Append, while the origin is locked.
func (s *Store) Counter(origin Code, line uint32) (int64, error) {
	return use(s, "reading counter", func() (int64, error) {
		n, err := s.counter(origin, line)
		s.pending.wait(origin)
		return n.Value, err
	})
}

// recordsChunk is how many records are read at once, so that no iterator stays open while the caller works.
const recordsChunk = 256

// Records calls fn with every record above an id, by growing id. It stops before a record whose Append has not
// finished, so a reader that remembers the last id misses no record at its next call. fn may use the store.
func (s *Store) Records(afterID uint64, fn func(Entry) error) error {
	for {
		page, err := s.Page(afterID, recordsChunk)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := fn(e); err != nil {
				return err
			}
			afterID = e.ID
		}
		if len(page) < recordsChunk {
			return nil
		}
	}
}

func (s *Store) id(code Code) (uint64, error) {
	row, err := get(s.db, codeKey(code))
	if err != nil {
		return 0, err
	}
	if len(row) != 8 {
		return 0, ErrCorrupt
	}
	return be.Uint64(row), nil
}

func (s *Store) entry(code Code) (entryRow, error) {
	id, err := s.id(code)
	if err != nil {
		return entryRow{}, err
	}
	return s.entryByID(id)
}

// entryByID reads the entry that another row points to: if the entry is missing, the store is damaged.
func (s *Store) entryByID(id uint64) (entryRow, error) {
	row, err := get(s.db, entryKey(id))
	if errors.Is(err, ErrNotFound) {
		return entryRow{}, fmt.Errorf("entry %d is missing: %w", id, ErrCorrupt)
	}
	if err != nil {
		return entryRow{}, err
	}
	return s.decoded(id, row)
}

func (s *Store) decoded(id uint64, row []byte) (entryRow, error) {
	e, err := decodeEntry(id, row)
	e.Series = s.names.named(e.SequenceID)
	return e, err
}

// LastNumbers returns the last number of each series.
func (s *Store) LastNumbers() (map[string]uint64, error) {
	return use(s, "reading last numbers", func() (map[string]uint64, error) {
		series, err := readAllSeries(s.db)
		last := make(map[string]uint64, len(series))
		for name, row := range series {
			last[name] = row.Last
		}
		if err == nil && !s.o.readOnly { // one sync covers everything that was read
			s.o.dieOn(s.db.LogData(nil, pebble.Sync), "syncing log")
		}
		return last, err
	})
}

// LastNumber returns the last number of a series, perhaps not durable yet; numbers given up count too. 0: the series
// has not begun.
func (s *Store) LastNumber(series string) (uint64, error) {
	return use(s, "reading last number", func() (uint64, error) {
		row, err := s.series(series)
		return row.Last, err
	})
}

// LastID returns the highest id that Records can return: every record up to this id is durable or will never exist.
func (s *Store) LastID() uint64 { return s.ids.floor() - 1 }

// Page returns the first records above an id, by growing id, at most limit (1 or more). It stops where Records stops.
func (s *Store) Page(afterID uint64, limit int) ([]Entry, error) {
	return use(s, "reading records", func() ([]Entry, error) {
		upper := s.ids.floor()
		if afterID+1 >= upper {
			return nil, nil
		}
		chunk := make([]Entry, 0, min(limit, recordsChunk))
		err := scan(s.db, entryKey(afterID+1), entryKey(upper), func(key, value []byte) error {
			e, err := s.decoded(be.Uint64(key[1:]), value)
			if chunk = append(chunk, e.Entry); err == nil && len(chunk) == limit {
				err = errStop
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, e := range chunk {
			s.pending.wait(e.Code)
		}
		return chunk, nil
	})
}

// ByID returns the records with the given ids, in the order of ids. It omits ids that no record has.
func (s *Store) ByID(ids []uint64) ([]Entry, error) {
	return use(s, "reading records", func() ([]Entry, error) { return s.byID(ids) })
}

// Day is Page for the records of a day.
func (s *Store) Day(day uint32, afterID uint64, limit int) ([]Entry, error) {
	return use(s, "reading the records of a day", func() ([]Entry, error) {
		ids := make([]uint64, 0, min(limit, recordsChunk))
		if upper := s.ids.floor(); afterID+1 < upper {
			err := scan(s.db, dayKey(day, afterID+1), dayKey(day, upper), func(key, _ []byte) error {
				ids = append(ids, be.Uint64(key[5:]))
				return onlyIf(len(ids) == limit, errStop)
			})
			if err != nil {
				return nil, err
			}
		}
		return s.byID(ids)
	})
}

// byID reads records through one iterator, which makes the next id cheap.
func (s *Store) byID(ids []uint64) ([]Entry, error) {
	entries := make([]Entry, 0, len(ids))
	err := iterate(s.db, []byte{tableEntry}, []byte{tableEntry + 1}, func(it *pebble.Iterator) error {
		for _, id := range ids {
			key := entryKey(id)
			here := func(ok bool) bool { return ok && bytes.Equal(it.Key(), key) }
			if !here(it.Valid() && it.Next()) && !here(it.SeekGE(key)) {
				continue
			}
			row, err := it.ValueAndErr()
			var e entryRow
			if err == nil {
				e, err = s.decoded(id, row)
			}
			if err != nil {
				return fmt.Errorf("record %d: %w", id, damaged(err))
			}
			s.pending.wait(e.Code)
			entries = append(entries, e.Entry)
		}
		return nil
	})
	return entries, err
}
