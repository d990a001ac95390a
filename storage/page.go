package storage

import (
	"errors"
	"fmt"
)

// LastID is the id at which the records that Records shows end: every record at or below it is durable, or will never be.
func (s *Store) LastID() uint64 { return s.ids.floor() - 1 }

// Page returns the first records above an id, by growing id, at most limit of them (1 or more). It shows what Records
// shows, and reads no more than it returns.
func (s *Store) Page(afterID uint64, limit int) ([]Entry, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("reading records: %w", err)
	}
	defer s.leave()
	upper := s.ids.floor()
	if afterID+1 >= upper {
		return nil, nil
	}
	chunk, err := s.chunk(afterID, upper, limit)
	if err != nil {
		return nil, fmt.Errorf("reading records: %w", err)
	}
	for _, e := range chunk {
		s.settled(e.Code)
	}
	return chunk, nil
}

// ByID returns the records with the given ids, in their order. Ids that no record has are left out.
func (s *Store) ByID(ids []uint64) ([]Entry, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("reading records: %w", err)
	}
	defer s.leave()
	entries := make([]Entry, 0, len(ids))
	for _, id := range ids {
		row, err := get(s.db, entryKey(id))
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading record %d: %w", id, err)
		}
		e, err := decodeEntry(id, row)
		if err != nil {
			return nil, fmt.Errorf("reading record %d: %w", id, err)
		}
		e.Series = s.names.named(e.SequenceID)
		s.settled(e.Code)
		entries = append(entries, e.Entry)
	}
	return entries, nil
}

// chunk reads the first records above an id and below another one, at most limit of them. Their changes may be under way.
func (s *Store) chunk(afterID, upper uint64, limit int) ([]Entry, error) {
	chunk := make([]Entry, 0, min(limit, recordsChunk))
	err := scan(s.db, entryKey(afterID+1), entryKey(upper), func(key, value []byte) error {
		e, err := decodeEntry(be.Uint64(key[1:]), value)
		if err != nil {
			return err
		}
		e.Series = s.names.named(e.SequenceID)
		if chunk = append(chunk, e.Entry); len(chunk) == limit {
			return errStop
		}
		return nil
	})
	return chunk, err
}
