package storage

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// newBatch returns a batch with room for the parts, so that it need not grow.
func (s *Store) newBatch(parts []Part) *pebble.Batch {
	n := 2048
	for _, p := range parts {
		n += len(p.Data) + len(p.Name) + 32
	}
	return s.db.NewBatchWithSize(n)
}

// commit writes a batch to the log, calls applied as soon as its place there is certain, and returns when the disk has
// it, and the second copy, if there is one. It does not fail: after a failed write nobody knows what the disk holds, so
// the process ends and the next one reads it. row is the series as the batch leaves it, feed the announcement in it.
func (s *Store) commit(b *pebble.Batch, row *seriesRow, feed uint64, applied func()) {
	var batch []byte
	if s.second != nil {
		batch = bytes.Clone(b.Repr())
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		s.o.die("writing batch: %v", err)
	}
	applied()
	if err := b.Close(); err != nil {
		s.o.die("closing batch: %v", err)
	}
	s.syncer.wait(row)
	if s.second != nil {
		s.second.push(place{row.Sequence, row.Position, row.Hash, row.Last, s.names.named(row.Sequence)}, feed, batch)
	}
}

// set cannot fail: the batch is memory, and it has not been committed.
func set(b *pebble.Batch, key, value []byte) {
	if err := b.Set(key, value, nil); err != nil {
		panic(err)
	}
}

// get returns a copy of a row. ErrNotFound.
func get(r pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading key %x: %w", key, damaged(err))
	}
	v := append(make([]byte, 0, len(value)), value...)
	if err := closer.Close(); err != nil {
		return nil, fmt.Errorf("reading key %x: %w", key, err)
	}
	return v, nil
}

func has(r pebble.Reader, key []byte) (bool, error) {
	_, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading key %x: %w", key, damaged(err))
	}
	return true, closer.Close()
}

// errStop ends a scan early and is not an error.
var errStop = errors.New("stop")

// scan calls fn with every row from lower up to upper. Key and value are valid during the call only.
func scan(r pebble.Reader, lower, upper []byte, fn func(key, value []byte) error) (err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("reading rows: %w", damaged(err))
	}
	defer func() {
		if e := errors.Join(it.Error(), it.Close()); e != nil {
			err = fmt.Errorf("reading rows: %w", damaged(e))
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = fn(it.Key(), value)
		}
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// damaged marks the error of a read that the medium answered with wrong bytes, or not at all, as ours.
func damaged(err error) error {
	if pebble.IsCorruptionError(err) || errors.Is(err, syscall.EIO) {
		return errors.Join(ErrCorrupt, err)
	}
	return err
}

func onlyIf(yes bool, err error) error {
	if yes {
		return err
	}
	return nil
}
