package rules

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"dtegate/rules/abi"
	w "dtegate/rules/asmtest"
)

func TestDecode_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		out := abi.Output{Lines: rapid.SliceOfN(rapid.Int64(), 3*n, 3*n).Draw(t, "lines"), Summary: []int64{1, -2},
			Taxes:  []abi.Tax{{Tax: 0, Amount: 5}, {Tax: 7, Amount: -9}},
			Faults: []abi.Fault{{Code: 1, Line: -1, Column: 3}, {Code: 0, Line: 12, Column: -1}}}
		var got abi.Output
		if err := decode(w.Answer(&out, 3), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, out) {
			t.Fatalf("got %+v, want %+v", got, out)
		}
	})
}

// What a guest sends is never trusted: any bytes give an error or a value within the limits.
func FuzzDecode(f *testing.F) {
	f.Add(w.Answer(&abi.Output{Lines: []int64{1, 2}, Summary: []int64{3}, Taxes: []abi.Tax{{Tax: 1, Amount: 2}},
		Faults: []abi.Fault{{Code: 0, Line: -1, Column: -1}}}, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out abi.Output
		if err := decode(b, &out); err != nil {
			return
		}
		if len(out.Faults) > abi.MaxFaults || len(out.Lines) > abi.MaxLines*abi.MaxWide {
			t.Fatalf("accepted %d faults, %d values", len(out.Faults), len(out.Lines))
		}
	})
}

// TestCheckAnswer: only an answer that refuses the document may be incomplete; a warning refuses nothing.
func TestCheckAnswer(t *testing.T) {
	d := &abi.Description{LineOutputs: []abi.Field{{}}, Summary: []string{"x"},
		Faults: []abi.FaultText{{Warning: true}, {}}}
	for code, good := range []bool{false, true} {
		out := &abi.Output{Faults: []abi.Fault{{Code: code, Line: -1, Column: -1}}}
		if err := checkAnswer(&abi.Input{N: 1}, out, d); (err == nil) != good {
			t.Errorf("fault %d: %v", code, err)
		}
	}
}
