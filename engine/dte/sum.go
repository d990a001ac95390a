package dte

import (
	"math/big"
	"math/bits"
)

// Sum adds up Amounts exactly: 128 bits in units of 1e-8, room for 1e19 of the largest. Two of the largest documents are
// already more than an Amount can hold. The zero Sum is 0.
type Sum struct {
	high int64
	low  uint64
}

// Add adds an amount.
func (s *Sum) Add(a Amount) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, uint64(a), 0)
	s.high += int64(a)>>63 + int64(carry)
}

// Sub takes an amount away.
func (s *Sum) Sub(a Amount) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, uint64(a), 0)
	s.high -= int64(a)>>63 + int64(borrow)
}

// Merge adds another sum.
func (s *Sum) Merge(o Sum) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, o.low, 0)
	s.high += o.high + int64(carry)
}

// Fixed2 writes the sum with two decimals, rounded half away from zero as Amount.Fixed2 does.
func (s Sum) Fixed2() string {
	n := new(big.Int).Lsh(big.NewInt(s.high), 64)
	n.Add(n, new(big.Int).SetUint64(s.low))
	negative := n.Sign() < 0
	n.Abs(n)
	const cent = Scale / 100
	n.Add(n, big.NewInt(cent/2)).Quo(n, big.NewInt(cent))
	if n.Sign() == 0 {
		return "0.00"
	}
	digits := n.String()
	for len(digits) < 3 {
		digits = "0" + digits
	}
	text := digits[:len(digits)-2] + "." + digits[len(digits)-2:]
	if negative {
		return "-" + text
	}
	return text
}
