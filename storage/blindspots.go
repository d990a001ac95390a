package storage

import (
	"bytes"
	"errors"
	"math/big"
	"os"

	"github.com/cockroachdb/pebble/v2"
)

// blindSpot is a stretch of rows that the disk does not return.
type blindSpot struct {
	From []byte // the first key that may be in it
	To   []byte // the first key behind it
	Why  error  // Pebble's
}

// unreadable tells whether the medium made an error: damaged data, a read that failed, a table that is gone.
func unreadable(err error) bool {
	return errors.Is(damaged(err), ErrCorrupt) || errors.Is(err, os.ErrNotExist)
}

// scanPast is scan that goes on behind what cannot be read, and tells of each such stretch.
func scanPast(r pebble.Reader, lower, upper []byte, fn func(key, value []byte) error, tell func(blindSpot)) error {
	at := lower
	for {
		var own error
		next := bytes.Clone(at) // the first key that has not been seen
		err := scan(r, at, upper, func(key, value []byte) error {
			own = fn(key, value)
			next = append(append(next[:0], key...), 0)
			return own
		})
		if err == nil || own != nil || !unreadable(err) {
			return err
		}
		end := firstReadable(r, next, upper)
		tell(blindSpot{next, end, err})
		if bytes.Compare(end, upper) >= 0 {
			return nil
		}
		at = end
	}
}

// keyDigits is how many bytes behind a key's table make the number that firstReadable counts with.
const keyDigits = 24

// firstReadable finds where rows can be read again: it doubles its step from the damage on, and then halves it. Pebble reads by
// block, and tells a reader not where a damaged one ends.
func firstReadable(r pebble.Reader, from, upper []byte) []byte {
	return behindWith(func(from []byte) bool { return readsFrom(r, from, upper) }, from, upper)
}

// behindWith is behind where reads tells whether something can be read from a key on.
func behindWith(reads func(from []byte) bool, from, upper []byte) []byte {
	limit := []byte{from[0] + 1} // where the table ends
	end := new(big.Int).Lsh(big.NewInt(1), 8*keyDigits)
	if bytes.Compare(limit, upper) > 0 {
		limit, end = upper, number(upper)
	}
	start := number(from)
	key := func(steps *big.Int) []byte {
		b := append([]byte{from[0]}, make([]byte, keyDigits)...)
		new(big.Int).Add(start, steps).FillBytes(b[1:])
		return b
	}
	end.Sub(end, start)
	low, high := big.NewInt(0), big.NewInt(1) // steps: at low nothing can be read, at high something
	for high.Cmp(end) < 0 && !reads(key(high)) {
		low.Set(high)
		high.Lsh(high, 1)
	}
	if high.Cmp(end) >= 0 {
		if bytes.Compare(limit, upper) < 0 && !reads(limit) {
			return behindWith(reads, limit, upper)
		}
		high.Set(end)
	}
	for one := big.NewInt(1); new(big.Int).Sub(high, low).Cmp(one) > 0; {
		middle := new(big.Int).Add(low, high)
		middle.Rsh(middle, 1)
		if reads(key(middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	if high.Cmp(end) >= 0 {
		return limit
	}
	return key(high)
}

// number is what firstReadable counts with: the key's first bytes behind its table.
func number(key []byte) *big.Int {
	digits := make([]byte, keyDigits)
	copy(digits, key[min(1, len(key)):])
	return new(big.Int).SetBytes(digits)
}

// readsFrom tells whether the first row from a key on can be read, or there is none.
func readsFrom(r pebble.Reader, from, upper []byte) bool {
	return scan(r, from, upper, func(_, _ []byte) error { return errStop }) == nil
}
