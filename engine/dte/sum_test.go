package dte

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// A sum equals the sum in unbounded integers, and is written like an Amount.
func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	edges := []Amount{0, 1, -1, MaxAmount, -MaxAmount, 49 * Scale / 10000, 50 * Scale / 10000, -50 * Scale / 10000,
		1<<63 - 1, -1 << 63}
	for range 200 {
		var s, other, taken Sum
		want := new(big.Int)
		for range r.IntN(200) {
			a := edges[r.IntN(len(edges))]
			if r.IntN(2) == 0 {
				a = Amount(r.Uint64())
			}
			switch big := big.NewInt(int64(a)); r.IntN(4) {
			case 0:
				s.Add(a)
				want.Add(want, big)
			case 1:
				s.Sub(a)
				want.Sub(want, big)
			case 2:
				taken.Add(a)
				want.Sub(want, big)
			default:
				other.Add(a)
				want.Add(want, big)
			}
		}
		s.Merge(other)
		s.Take(taken)
		if s.Negative() != (want.Sign() < 0) {
			t.Fatalf("%s: negative is %v", want, s.Negative())
		}
		half := big.NewInt(Scale / 200)
		if want.Sign() < 0 {
			half.Neg(half)
		}
		cents := new(big.Int).Quo(new(big.Int).Add(want, half), big.NewInt(Scale/100))
		if got := s.Fixed2(); got != new(big.Rat).SetFrac(cents, big.NewInt(100)).FloatString(2) {
			t.Fatalf("%s is written as %s", want, got)
		}
	}
	for _, a := range edges[:8] {
		var s Sum
		if s.Add(a); s.Fixed2() != a.Fixed2() {
			t.Errorf("%s: %s, an amount is written %s", a, s.Fixed2(), a.Fixed2())
		}
	}
	for _, a := range edges {
		for _, limit := range edges[:8] {
			for _, by := range []Amount{-1, 0, 1} {
				var s Sum
				s.Add(a)
				s.Add(by)
				exact := new(big.Int).Add(big.NewInt(int64(a)), big.NewInt(int64(by)))
				near := exact.CmpAbs(big.NewInt(int64(limit))) <= 0
				if limit >= 0 && s.Within(limit) != near {
					t.Errorf("%s is within %d: %v", exact, limit, !near)
				}
			}
		}
	}
	var two Sum
	most := Amount(91_999_999_999) * Scale
	two.Add(most)
	two.Add(most)
	for _, high := range []int64{-2, -1, 1} { // the low half alone is near 0
		for _, low := range []uint64{0, 1, 1<<64 - 1} {
			if (Sum{high, low}).Within(MaxAmount) != (high == -1 && low > 1) {
				t.Errorf("%d times 2^64 plus %d", high, low)
			}
		}
	}
	if two.Fixed2() != "183999999998.00" {
		t.Errorf("two of the largest sales are %s", two.Fixed2())
	}
}
