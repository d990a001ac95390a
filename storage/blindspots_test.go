package storage

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestBehindWith finds the very first key from which on something can be read, in whatever table it lies, or the end.
func TestBehindWith(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := func(name string) []byte {
			digits := rapid.SliceOfN(rapid.Byte(), keyDigits, keyDigits).Draw(t, name)
			return append([]byte{rapid.ByteRange(3, 5).Draw(t, "table of "+name)}, digits...)
		}
		from, first, upper := key("from"), key("first"), []byte{6}
		switch rapid.IntRange(0, 3).Draw(t, "where") {
		case 0:
			first = bytes.Clone(from)
			first[keyDigits] += rapid.ByteRange(1, 9).Draw(t, "steps")
		case 1:
			first = []byte{first[0]}
		case 2:
			upper = key("upper")
		}
		if bytes.Compare(from, first) >= 0 || bytes.Compare(first, upper) > 0 {
			t.Skip("nothing lies between")
		}
		got := behindWith(func(at []byte) bool { return bytes.Compare(at, first) >= 0 }, from, upper)
		if !bytes.Equal(got, first) && !bytes.Equal(got, append(bytes.Clone(first),
			make([]byte, keyDigits)...)[:keyDigits+1]) {
			t.Errorf("behind %x: %x, want %x", from, got, first)
		}
		if got := behindWith(func([]byte) bool { return false }, from, upper); !bytes.Equal(got, upper) {
			t.Errorf("behind everything: %x", got)
		}
	})
}
