package sdk

import "math/bits"

const (
	// One is 1.00 in the unit of every amount, 1e-8.
	One = 100_000_000
	// Max is the largest amount, in 1e-8: 92,000,000,000.00. Beyond it int64 is near.
	Max  = 92_000_000_000 * One
	cent = One / 100
)

// MulDiv is a×b÷c with c > 0, half away from zero, through 128 bits; ok is false when the result is beyond Max.
func MulDiv(a, b, c int64) (result int64, ok bool) {
	negative := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	d := uint64(c)
	var quotient, rest uint64
	if hi == 0 { // most amounts; the wide division is a loop in WebAssembly
		quotient, rest = lo/d, lo%d
	} else {
		if hi >= d {
			return 0, false
		}
		quotient, rest = bits.Div64(hi, lo, d)
	}
	if rest >= d-rest {
		quotient++
	}
	if quotient > Max {
		return 0, false
	}
	if negative {
		return -int64(quotient), true
	}
	return int64(quotient), true
}

// Cents is a×b÷c rounded once, to cents, half away from zero: rounding to 8 decimals first could round twice. c is at
// most 9e12 (90,000.00).
func Cents(a, b, c int64) (int64, bool) {
	n, ok := MulDiv(a, b, c*cent)
	if !ok || n > Max/cent || n < -Max/cent {
		return 0, false
	}
	return n * cent, true
}

// LessPart is a − b×p÷q rounded once, to cents, half away from zero, for a and b not negative and p below q.
func LessPart(a, b, p, q int64) int64 {
	hi, lo := bits.Mul64(uint64(b), uint64(p))
	quotient, rest := bits.Div64(hi, lo, uint64(q))
	n := a - int64(quotient)
	if rest > 0 && n%cent == cent/2 {
		n-- // the exact value is a fraction below the half
	}
	return Round2(n)
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return uint64(-a)
	}
	return uint64(a)
}

// Times is a×b of two amounts, to 8 decimals half-up.
func Times(a, b int64) (int64, bool) { return MulDiv(a, b, One) }

// Round2 rounds to cents, half away from zero (MF2 p.52).
func Round2(a int64) int64 {
	if a < 0 {
		return -Round2(-a)
	}
	return (a + cent/2) / cent * cent
}

// Add is a+b; ok is false when the sum is beyond Max.
func Add(a, b int64) (sum int64, ok bool) {
	sum = a + b
	if (sum > a) != (b > 0) && b != 0 {
		return 0, false
	}
	return sum, sum <= Max && sum >= -Max
}
