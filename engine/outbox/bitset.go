package outbox

import "math/bits"

// bitSet is a set of numbers, at a bit for each up to the largest.
type bitSet struct{ words []uint64 }

func (b *bitSet) add(n uint64) {
	for n/64 >= uint64(len(b.words)) {
		b.words = append(b.words, 0)
	}
	b.words[n/64] |= 1 << (n % 64)
}

func (b *bitSet) has(n uint64) bool {
	return n/64 < uint64(len(b.words)) && b.words[n/64]&(1<<(n%64)) != 0
}

func (b *bitSet) remove(n uint64) {
	if b.has(n) {
		b.words[n/64] &^= 1 << (n % 64)
	}
}

// first is the smallest, if there is any.
func (b *bitSet) first() (uint64, bool) {
	for i, w := range b.words {
		if w != 0 {
			return uint64(64*i + bits.TrailingZeros64(w)), true
		}
	}
	return 0, false
}
