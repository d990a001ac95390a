package sdk

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"dtegate/rules/abi"
)

// halfUp is a×b÷c rounded to whole units, half away from zero (MF2 p.52), by exact fractions. It shares nothing with the
// package.
func halfUp(a, b, c, unit int64) *big.Int {
	exact := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), new(big.Int).Mul(big.NewInt(c), big.NewInt(unit)))
	return rounded(exact, unit)
}

// rounded is a number of units, half away from zero, in 1e-8.
func rounded(exact *big.Rat, unit int64) *big.Int {
	twice := new(big.Int).Mul(new(big.Int).Abs(exact.Num()), big.NewInt(2))
	twice.Add(twice, exact.Denom())
	n := twice.Quo(twice, new(big.Int).Mul(exact.Denom(), big.NewInt(2)))
	if exact.Sign() < 0 {
		n.Neg(n)
	}
	return n.Mul(n, big.NewInt(unit))
}

// odd draws an odd number, small or large: by itself a draw is almost always small.
func odd(t *rapid.T, most int64) int64 {
	least := rapid.SampledFrom([]int64{0, most / 4}).Draw(t, "least")
	return 2*rapid.Int64Range(least, (most-1)/2).Draw(t, "odd") + 1
}

// beside draws a number within one of an odd multiple of half: the tie itself, or the neighbour below or above it.
func beside(t *rapid.T, half, most int64) int64 {
	return odd(t, most/half-1)*half + rapid.Int64Range(-1, 1).Draw(t, "beside")
}

// TestMoney_Ties: numbers drawn at random are never exact halves, and an exact half is what shops sell (two at 2.505, 13 %
// of 0.50). Here every draw is an exact half or its neighbour, of cents and of the eighth decimal, small and beyond one
// machine word.
func TestMoney_Ties(t *testing.T) {
	same := func(t *rapid.T, what string, got int64, want *big.Int) {
		if big.NewInt(got).Cmp(want) != 0 {
			t.Fatalf("%s is %d, want %d", what, got, want)
		}
	}
	for name, property := range map[string]func(*rapid.T){
		"Round2": func(t *rapid.T) {
			a := beside(t, Cent/2, Max)
			same(t, "Round2", Round2(a), halfUp(a, 1, 1, Cent))
			same(t, "Round2 of a credit", Round2(-a), halfUp(-a, 1, 1, Cent))
		},
		"MulDiv and Shares, eighth decimal": func(t *rapid.T) {
			half := rapid.SampledFrom([]int64{1, 5, 50, One / 2, 13 * Cent / 2, 4_500_000_000_000}).Draw(t, "half")
			odd := odd(t, Max) // odd×half÷(2×half) is a half
			got, ok := MulDiv(odd, half, 2*half)
			if !ok {
				t.Fatalf("MulDiv(%d, %d, %d) is refused", odd, half, 2*half)
			}
			same(t, "MulDiv", got, halfUp(odd, half, 2*half, 1))
			got, _ = MulDiv(-odd, half, 2*half)
			same(t, "MulDiv of a credit", got, halfUp(-odd, half, 2*half, 1))
			lines := []int64{odd, 0}
			Shares(lines, 2, 0, 1, half, 2*half)
			same(t, "Shares", lines[1], halfUp(odd, half, 2*half, 1))
		},
		"Cents": func(t *rapid.T) {
			rate := rapid.SampledFrom([]int64{1, 5, 13, 10, 100}).Draw(t, "rate") * Cent // a half of 50 cents is a half of each
			a := beside(t, 50*Cent, Max/100)
			got, ok := Cents(a, rate, One)
			if !ok {
				t.Fatalf("Cents(%d, %d, One) is refused", a, rate)
			}
			same(t, "Cents", got, halfUp(a, rate, One, Cent))
		},
		"Times": func(t *rapid.T) {
			power := rapid.SampledFrom([]int64{1, 2, 4, 5, 8, 10, 25, 50, 125, 10_000, 5_000_000}).Draw(t, "power")
			a := power * odd(t, 100_000)
			b := One / 2 / power * odd(t, 100_000) // a×b is an odd multiple of a half of 1e-8
			if rapid.Bool().Draw(t, "neighbour") {
				b++
			}
			got, ok := Times(a, b)
			if !ok {
				t.Fatalf("Times(%d, %d) is refused", a, b)
			}
			same(t, "Times", got, halfUp(a, b, One, 1))
		},
		"LessPart": func(t *rapid.T) {
			scale := rapid.SampledFrom([]int64{1, Cent}).Draw(t, "scale")
			p, q := 13*scale, 113*scale
			whole := rapid.Int64Range(0, 1e12).Draw(t, "whole")
			rest := rapid.SampledFrom([]int64{0, 0, 1, 56, 57, 112}).Draw(t, "rest") // of b×13÷113: none, least, about a half, most
			b := 113*whole + rest
			a := 13*whole + rest*13/113 + beside(t, Cent/2, 1e14)
			exact := new(big.Rat).Sub(big.NewRat(a, 1), new(big.Rat).Mul(big.NewRat(b, 1), big.NewRat(13, 113)))
			same(t, "LessPart", LessPart(a, b, p, q), rounded(exact.Quo(exact, big.NewRat(Cent, 1)), Cent))
		},
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, property) })
	}
}

// Of 20,000.01 a discount of 1.00 is 0.00499999… %: rounding it to 8 decimals first would make 0.01 of it.
func TestSale_PercentRoundedOnce(t *testing.T) {
	for discount, want := range map[int64]int64{100: 0, 101: Cent, 300: Cent, 301: 2 * Cent} {
		s := Sale{sold: 1, sums: [3]int64{Gravado: 2_000_001 * Cent}}
		in := abi.Input{Scalars: make([]int64, ScaPercepcion+1)}
		in.Scalars[ScaDescuGravada] = discount * Cent
		if !s.total(&Layout{}, &in, &abi.Output{}) || s.Percent != want {
			t.Errorf("a discount of %d cents is %d hundredths of a percent, want %d", discount, s.Percent/Cent, want/Cent)
		}
	}
}
