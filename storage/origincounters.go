package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// count is a counter as one change left it.
type count struct {
	Counter
	Revision uint64 // how often it has been set, this time included
}

// count adds counters to the batch, whose origins are held, and returns what they are now. relative: their values are
// added to what was there.
func (s *Store) count(b *pebble.Batch, counters []Counter, relative bool) ([]count, error) {
	var counts []count
	for _, c := range counters {
		n, err := s.counter(c.Origin, c.Line)
		if err != nil {
			return nil, err
		}
		if relative {
			sum := n.Value + c.Value
			if (c.Value > 0) != (sum > n.Value) && c.Value != 0 {
				return nil, fmt.Errorf("counter of %X line %d: %d and %d overflow", c.Origin, c.Line, n.Value, c.Value)
			}
			c.Value = sum
		}
		n.Counter = c
		n.Revision++
		counts = append(counts, n)
		v := be.AppendUint64(make([]byte, 0, counterSize), uint64(n.Value))
		set(b, counterKey(c.Origin, c.Line), be.AppendUint64(v, n.Revision))
	}
	return counts, nil
}

// counter reads a counter's row; one that was never set is 0.
func (s *Store) counter(origin Code, line uint32) (count, error) {
	n := count{Counter: Counter{Origin: origin, Line: line}}
	row, err := get(s.db, counterKey(origin, line))
	switch {
	case errors.Is(err, ErrNotFound):
		return n, nil
	case err == nil && len(row) != counterSize:
		err = ErrCorrupt
	}
	if err != nil {
		return n, fmt.Errorf("reading counter of %X line %d: %w", origin, line, err)
	}
	n.Value, n.Revision = int64(be.Uint64(row)), be.Uint64(row[8:])
	return n, nil
}
