package sdk

import (
	"math"
	"math/bits"
)

const (
	// One is 1.00 in the unit of every amount, 1e-8.
	One = 100_000_000
	// Max is the largest amount, in 1e-8: 92,000,000,000.00. The limit of int64 is slightly higher.
	Max = 92_000_000_000 * One
	// Cent is 0.01.
	Cent = One / 100
)

// MulDiv returns a×b÷c with c > 0, rounded half away from zero, computed in 128 bits. ok is false when the result is
// beyond Max.
func MulDiv(a, b, c int64) (result int64, ok bool) {
	x, y, d := magnitude(a), magnitude(b), uint64(c)
	if !fits(x, y) && b%Cent == 0 && c%Cent == 0 { // reduce the fraction; most rates allow it
		y, d = y/Cent, d/Cent
	}
	var quotient uint64
	if fits(x, y) {
		quotient = (x*y + d/2) / d
	} else if quotient, ok = wide(x, y, d); !ok {
		return 0, false
	}
	if quotient > Max {
		return 0, false
	}
	if (a < 0) != (b < 0) {
		return -int64(quotient), true
	}
	return int64(quotient), true
}

func fits(x, y uint64) bool { return bits.LeadingZeros64(x)+bits.LeadingZeros64(y) > 64 }

// wide returns x×y÷d, rounded half up. It is not inlined: in WebAssembly 128-bit arithmetic takes a hundred
// instructions, and its division is a loop.
//
//go:noinline
func wide(x, y, d uint64) (quotient uint64, ok bool) {
	hi, lo := bits.Mul64(x, y)
	lo, carry := bits.Add64(lo, d/2, 0)
	if hi += carry; hi >= d {
		return 0, false
	}
	quotient, _ = bits.Div64(hi, lo, d)
	return quotient, true
}

// Shares computes an output (index to) of every line from another output (index from): from × b÷c, to 8 decimals,
// rounded half away from zero. It returns the sum of the results. b÷c must be at most one: no result then exceeds Max
// if the sum of the inputs does not.
func Shares(lines []int64, outputs, from, to int, b, c int64) (sum int64) {
	most := uint64(math.MaxInt64-c) / uint64(b|1) // the most that one machine word can multiply
	for at := 0; at < len(lines); at += outputs {
		row := lines[at : at+outputs]
		n := int64((uint64(row[from])*uint64(b) + uint64(c/2)) / uint64(c))
		if uint64(row[from]) > most {
			n, _ = MulDiv(row[from], b, c)
		}
		row[to] = n
		sum += n
	}
	return sum
}

// Cents returns a×b÷c, rounded to cents, half away from zero. Rounding the result of MulDiv would round twice. c must
// be at most 9e12 (90,000.00).
func Cents(a, b, c int64) (int64, bool) {
	n, ok := MulDiv(a, b, c*Cent)
	if !ok || n > Max/Cent || n < -Max/Cent {
		return 0, false
	}
	return n * Cent, true
}

// LessPart returns a − b×p÷q, rounded only once, to cents, half away from zero. a and b must not be negative, and p
// must be below q.
func LessPart(a, b, p, q int64) int64 {
	if b == 0 {
		return Round2(a)
	}
	hi, lo := bits.Mul64(uint64(b), uint64(p))
	quotient, rest := bits.Div64(hi, lo, uint64(q))
	n := a - int64(quotient)
	if rest > 0 && n%Cent == Cent/2 {
		n-- // the exact value is just below the half
	}
	return Round2(n)
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return uint64(-a)
	}
	return uint64(a)
}

// Times returns the product of two amounts, to 8 decimals, rounded half away from zero; ok is false when the product is
// beyond Max.
func Times(a, b int64) (product int64, ok bool) {
	if n, ok := times(a, b); ok {
		return n, true
	}
	return MulDiv(a, b, One)
}

// times is a quick Times for amounts whose product is well below Max. With a = ah+al and b = bh+bl, where ah and bh are
// whole numbers, only al×bl needs rounding, and 64 bits suffice. ok is false for other amounts, including negative
// ones.
func times(a, b int64) (product int64, ok bool) {
	x, y := uint64(a), uint64(b)
	ah, bh := x/One, y/One
	if (ah|bh)>>31 != 0 || (ah+1)*(bh+1) > Max/One {
		return 0, false
	}
	al, bl := x-ah*One, y-bh*One
	return int64(ah*y + al*bh + (al*bl+One/2)/One), true
}

// Round2 rounds to cents, half away from zero (MF2 p.52).
func Round2(a int64) int64 {
	half := int64(Cent / 2)
	if a < 0 {
		half = -half
	}
	return (a + half) / Cent * Cent
}

// Add returns a+b; ok is false when the sum is beyond Max.
func Add(a, b int64) (sum int64, ok bool) {
	sum = a + b
	if (sum > a) != (b > 0) && b != 0 {
		return 0, false
	}
	return sum, sum <= Max && sum >= -Max
}
