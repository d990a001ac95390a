package storage

import (
	"fmt"
	"slices"
	"time"
)

// proofTries is how often the mark is read in one proof: a read that meets two writes sees neither slot whole.
const proofTries = 3

// ProveMark opens the mark's file by its path, as the next start will, and compares it with what was written. A running store
// does not notice that its mark was deleted, or that the medium was unmounted or has become read-only; but the next start
// refuses such a mark. ErrMark: the next start would refuse. If the medium hangs, ProveMark waits.
func (s *Store) ProveMark() error {
	if s.mark == nil {
		return fmt.Errorf("proving the mark: %w", ErrReadOnly)
	}
	err := s.mark.prove()
	for try := 1; err != nil && try < proofTries; try++ {
		err = s.mark.prove()
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMark, s.o.MarkPath, err)
	}
	s.mark.proved.Store(s.o.Now().UnixNano())
	return nil
}

// MarkProved is when the mark's file was last opened by its path and held what was written to it.
func (s *Store) MarkProved() time.Time {
	if s.mark == nil {
		return time.Time{}
	}
	return time.Unix(0, s.mark.proved.Load()).UTC()
}

func (m *mark) prove() error {
	m.mu.Lock()
	least, store := reached{m.named, slices.Clone(m.said)}, m.file.store
	m.mu.Unlock()
	file, said, err := openMarkFile(m.o.FS, m.o.MarkPath)
	if err != nil {
		return err
	}
	if err := file.close(); err != nil {
		return err
	}
	return compareMark(file.store, store, least, said.byName())
}
