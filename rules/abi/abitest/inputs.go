package abitest

import (
	"math/rand/v2"
	"slices"

	"dtegate/rules/abi"
)

const cent = 1_000_000 // in 1e-8

// made are documents of 0 to 20 lines with values that the host may send.
func made(d *abi.Description, params []int64) (inputs []abi.Input) {
	rng := rand.New(rand.NewPCG(2026, 12))
	for _, n := range []int{0, 1, 1, 2, 3, 10, 20} {
		in := abi.Input{Params: params, N: n}
		for _, f := range d.Scalars {
			in.Scalars = append(in.Scalars, ordinary(rng, f))
		}
		for range n {
			for _, f := range d.Columns {
				in.Lines = append(in.Lines, ordinary(rng, f))
			}
		}
		inputs = append(inputs, in)
	}
	return inputs
}

func ordinary(rng *rand.Rand, f abi.Field) int64 {
	absent := !f.Required && rng.IntN(2) == 0
	switch f.Kind {
	case "amount":
		if absent {
			return abi.Absent
		}
		return rng.Int64N(100_00) * cent
	case "integer":
		if absent {
			return abi.Absent
		}
		return rng.Int64N(100)
	case "flag":
		if absent {
			return abi.Absent
		}
		return rng.Int64N(2)
	case "enum":
		return rng.Int64N(int64(len(f.Values)))
	case "set":
		return rng.Int64N(1 << len(f.Values))
	default: // present
		return rng.Int64N(2)
	}
}

// extreme is the same document with some of its numbers at the ends of their range.
func extreme(rng *rand.Rand, d *abi.Description, in abi.Input) abi.Input {
	in.Scalars, in.Lines = slices.Clone(in.Scalars), slices.Clone(in.Lines)
	ends := []int64{0, 1, -1, 1<<63 - 1, -1<<63 + 1, maxAmount, -maxAmount, 1 << 32, 1e8}
	hit := func(values []int64, fields []abi.Field) {
		for i := range values {
			if f := fields[i%len(fields)]; (f.Kind == "amount" || f.Kind == "integer") && rng.IntN(3) == 0 {
				values[i] = ends[rng.IntN(len(ends))]
			}
		}
	}
	hit(in.Scalars, d.Scalars)
	hit(in.Lines, d.Columns)
	return in
}

// maxAmount is near the largest amount, 92,233,720,368.54: the sum of two such amounts does not fit.
const maxAmount = 9_200_000_000_000_000_000

// repeated is a document with its lines repeated up to n.
func repeated(in abi.Input, n int) abi.Input {
	if in.N == 0 {
		return in
	}
	width := len(in.Lines) / in.N
	lines := in.Lines
	in.Lines = make([]int64, 0, n*width)
	for i := range n {
		in.Lines = append(in.Lines, lines[i%in.N*width:][:width]...)
	}
	in.N = n
	return in
}
