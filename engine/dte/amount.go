package dte

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// Scale is the number of Amount units in a dollar or a counted piece: MH accepts eight decimals on a line (MF2 p.52).
const Scale = 100_000_000

// MaxAmount is the largest magnitude of an amount in a document. An int64 holds slightly more, for rounding.
const MaxAmount Amount = 92_000_000_000 * Scale

// Reasons why a number is not an Amount.
var (
	ErrNumber    = errors.New("not a JSON number")
	ErrPrecision = errors.New("more than 8 decimals")
	ErrRange     = errors.New("beyond 92,000,000,000")
)

// Amount is a fixed-point number in units of 1e-8: money, quantities and rates. ParseAmount returns at most ±MaxAmount.
type Amount int64

// ParseAmount reads a JSON number literal exactly, even with an exponent. Trailing zeros do not count as decimals.
// Errors: ErrNumber, ErrRange, ErrPrecision. A huge exponent costs no extra time.
func ParseAmount(s string) (Amount, error) { return parseAmount(s) }

func parseAmount[T string | []byte](s T) (Amount, error) {
	i, negative := 0, false
	if i < len(s) && s[i] == '-' {
		negative = true
		i++
	}
	first := i
	var n significant
	for ; i < len(s) && isDigit(s[i]); i++ {
		n.take(s[i])
	}
	if i == first || (s[first] == '0' && i > first+1) {
		return 0, ErrNumber
	}
	exponent := n.held // exponent of the last digit in n.digits
	if i < len(s) && s[i] == '.' {
		i++
		point := i
		for ; i < len(s) && isDigit(s[i]); i++ {
			n.take(s[i])
		}
		if i == point {
			return 0, ErrNumber
		}
		exponent = n.held - (i - point)
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		shift, ok := parseExponent(s[i+1:])
		if !ok {
			return 0, ErrNumber
		}
		exponent += shift
	} else if i < len(s) {
		return 0, ErrNumber
	}
	switch {
	case n.count == 0:
		return 0, nil
	case n.count+exponent > 11:
		return 0, ErrRange
	case exponent < -8:
		return 0, ErrPrecision
	}
	for ; exponent > -8; exponent-- {
		n.digits *= 10 // at most 19 digits in all, by the two cases above
	}
	if n.digits > uint64(MaxAmount) {
		return 0, ErrRange
	}
	if negative {
		return -Amount(n.digits), nil
	}
	return Amount(n.digits), nil
}

// significant reads a number's digits one by one. No Amount has more than 19 significant digits.
type significant struct {
	digits uint64 // leading zeros dropped; meaningless if count is above 19
	count  int    // number of digits
	held   int    // zeros read after digits; they become digits if another digit follows
}

func (n *significant) take(c byte) {
	switch {
	case c == '0' && n.count == 0:
	case c == '0':
		n.held++
	default:
		n.count += n.held + 1
		for ; n.held > 0; n.held-- {
			n.digits *= 10
		}
		n.digits = n.digits*10 + uint64(c-'0')
	}
}

// parseExponent reads the exponent after the e, limited to a value far beyond any Amount's.
func parseExponent[T string | []byte](s T) (int, bool) {
	i, sign := 0, 1
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		if s[i] == '-' {
			sign = -1
		}
		i++
	}
	if i == len(s) {
		return 0, false
	}
	n := 0
	for ; i < len(s); i++ {
		if !isDigit(s[i]) {
			return 0, false
		}
		n = min(n*10+int(s[i]-'0'), math.MaxInt32)
	}
	return sign * n, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Append writes the shortest JSON number: 610, 580.5, 25.88495575, -20.
func (a Amount) Append(dst []byte) []byte {
	u := uint64(a)
	if a < 0 {
		dst = append(dst, '-')
		u = -u
	}
	dst = strconv.AppendUint(dst, u/Scale, 10)
	if u%Scale == 0 {
		return dst
	}
	point := len(dst)
	dst = strconv.AppendUint(dst, Scale+u%Scale, 10) // a 1, which the point replaces, and eight digits
	dst[point] = '.'
	return bytes.TrimRight(dst, "0")
}

// String returns the text that Append writes.
func (a Amount) String() string { return string(a.Append(make([]byte, 0, 24))) }

// Round2 rounds to two decimals, half away from zero: a 5 in the third decimal rounds up (MF2 pp.52-54).
func (a Amount) Round2() Amount {
	const cent = Scale / 100
	r := a % cent
	a -= r
	switch {
	case r >= cent/2:
		a += cent
	case r <= -cent/2:
		a -= cent
	}
	return a
}

// Fixed2 returns the text with exactly two decimals, rounded as Round2 does: "580.50".
func (a Amount) Fixed2() string {
	a = a.Round2()
	u := uint64(a)
	dst := make([]byte, 0, 24)
	if a < 0 {
		dst = append(dst, '-')
		u = -u
	}
	dst = strconv.AppendUint(dst, u/Scale, 10)
	cents := u % Scale / (Scale / 100)
	return string(append(dst, '.', byte('0'+cents/10), byte('0'+cents%10)))
}

// Sum adds up Amounts exactly, in 128 bits: the sum of two of the largest Amounts exceeds an int64. The zero Sum is 0.
type Sum struct {
	high int64
	low  uint64
}

func (s *Sum) Add(a Amount) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, uint64(a), 0)
	s.high += int64(a)>>63 + int64(carry)
}

func (s *Sum) Sub(a Amount) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, uint64(a), 0)
	s.high -= int64(a)>>63 + int64(borrow)
}

func (s *Sum) Merge(o Sum) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, o.low, 0)
	s.high += o.high + int64(carry)
}

func (s *Sum) Take(o Sum) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, o.low, 0)
	s.high -= o.high + int64(borrow)
}

// Negative reports whether the sum is below 0.
func (s Sum) Negative() bool { return s.high < 0 }

// Within reports whether the sum is at most limit away from 0.
func (s Sum) Within(limit Amount) bool {
	return s.high == 0 && s.low <= uint64(limit) || s.high == -1 && -s.low-1 < uint64(limit)
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

// AppendWords appends an amount in Spanish capitals with its cents as a fraction, the form of MF2's examples:
// "QUINIENTOS OCHENTA 50/100 USD". It rounds to the cent first and accepts ±92,000,000,000.
func AppendWords(dst []byte, a Amount) []byte {
	a = a.Round2()
	u := uint64(a)
	if a < 0 {
		dst = append(dst, "MENOS "...)
		u = -u
	}
	whole, cents := u/Scale, u%Scale/(Scale/100)
	dst = appendCardinal(dst, whole, false)
	return append(dst, ' ', byte('0'+cents/10), byte('0'+cents%10), '/', '1', '0', '0', ' ', 'U', 'S', 'D')
}

var (
	units = [...]string{
		"CERO", "UNO", "DOS", "TRES", "CUATRO", "CINCO", "SEIS", "SIETE", "OCHO", "NUEVE", "DIEZ", "ONCE", "DOCE",
		"TRECE", "CATORCE", "QUINCE", "DIECISÉIS", "DIECISIETE", "DIECIOCHO", "DIECINUEVE", "VEINTE", "VEINTIUNO",
		"VEINTIDÓS", "VEINTITRÉS", "VEINTICUATRO", "VEINTICINCO", "VEINTISÉIS", "VEINTISIETE", "VEINTIOCHO",
		"VEINTINUEVE",
	}
	tens     = [...]string{3: "TREINTA", "CUARENTA", "CINCUENTA", "SESENTA", "SETENTA", "OCHENTA", "NOVENTA"}
	hundreds = [...]string{
		1: "CIENTO", "DOSCIENTOS", "TRESCIENTOS", "CUATROCIENTOS", "QUINIENTOS", "SEISCIENTOS", "SETECIENTOS",
		"OCHOCIENTOS", "NOVECIENTOS",
	}
)

// appendCardinal writes n in words. Spanish counts in thousands and in millions: 92,000,000,000 is ninety-two thousand
// millions. short means that mil or millones follows: UNO becomes UN.
func appendCardinal(dst []byte, n uint64, short bool) []byte {
	switch {
	case n >= 1_000_000:
		if n/1_000_000 == 1 {
			dst = append(dst, "UN MILLÓN"...)
		} else {
			dst = append(appendCardinal(dst, n/1_000_000, true), " MILLONES"...)
		}
		n %= 1_000_000
	case n >= 1000:
		if n/1000 > 1 {
			dst = append(appendCardinal(dst, n/1000, true), ' ')
		}
		dst = append(dst, "MIL"...)
		n %= 1000
	case n == 100:
		return append(dst, "CIEN"...)
	case n > 100:
		dst = append(dst, hundreds[n/100]...)
		n %= 100
	case n >= 30:
		dst = append(dst, tens[n/10]...)
		if n %= 10; n > 0 {
			dst = append(dst, " Y"...)
		}
	case short && n == 1:
		return append(dst, "UN"...)
	case short && n == 21:
		return append(dst, "VEINTIÚN"...)
	default:
		return append(dst, units[n]...)
	}
	if n == 0 {
		return dst
	}
	return appendCardinal(append(dst, ' '), n, short)
}
