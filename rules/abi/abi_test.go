package abi

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestInput_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, columns := rapid.IntRange(0, 20).Draw(t, "n"), rapid.IntRange(1, 9).Draw(t, "columns")
		draw := func(count int, name string) []int64 {
			return rapid.SliceOfN(rapid.Int64(), count, count).Draw(t, name)
		}
		in := Input{Params: draw(3, "params"), Scalars: draw(5, "scalars"), Lines: draw(n*columns, "lines"), N: n}
		var got Input
		if err := DecodeInput(AppendInput(nil, &in), &got); err != nil {
			t.Fatal(err)
		}
		if got.N != n || !equal(got.Params, in.Params) || !equal(got.Scalars, in.Scalars) ||
			!equal(got.Lines, in.Lines) {
			t.Fatalf("got %+v, want %+v", got, in)
		}
	})
}

func TestOutput_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		out := Output{Lines: rapid.SliceOfN(rapid.Int64(), 3*n, 3*n).Draw(t, "lines"), Summary: []int64{1, -2},
			Taxes: []Tax{{0, 5}, {7, -9}}, Faults: []Fault{{1, -1, 3}, {0, 12, -1}}}
		var got Output
		if err := DecodeOutput(AppendOutput(nil, &out, 3), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, out) {
			t.Fatalf("got %+v, want %+v", got, out)
		}
	})
}

func equal(a, b []int64) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

// What a guest or a host sends is never trusted: any bytes give an error or a value that encodes to the same bytes.
func FuzzDecodeInput(f *testing.F) {
	f.Add(AppendInput(nil, &Input{Params: []int64{1}, Scalars: []int64{2, 3}, Lines: []int64{4, 5, 6, 7}, N: 2}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var in Input
		_ = DecodeInput(b, &in)
	})
}

func FuzzDecodeOutput(f *testing.F) {
	f.Add(AppendOutput(nil, &Output{Lines: []int64{1, 2}, Summary: []int64{3}, Taxes: []Tax{{1, 2}},
		Faults: []Fault{{0, -1, -1}}}, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out Output
		if err := DecodeOutput(b, &out); err != nil {
			return
		}
		if len(out.Faults) > MaxFaults || len(out.Lines) > MaxLines*MaxWide {
			t.Fatalf("accepted %d faults, %d values", len(out.Faults), len(out.Lines))
		}
	})
}
