package sdk

import (
	"encoding/json"
	"math/big"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"dtegate/rules/abi"
)

func TestJSON(t *testing.T) {
	d := &abi.Description{ABI: abi.Version, Name: `a "quoted" \ name`, Params: []abi.Param{{Name: "rate", Unit: "ratio"}}, Scalars: SaleScalars(),
		Columns: SaleColumns(Taxes), LineOutputs: SaleOutputs(), Summary: []string{"total"}, Taxes: Taxes, Faults: SaleFaults()}
	var got abi.Description
	if err := json.Unmarshal(JSON(d), &got); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(got)
	want, _ := json.Marshal(d)
	if string(again) != string(want) {
		t.Errorf("got %s\nwant %s", again, want)
	}
}

// An answer of the module's entry point, called natively: refused documents carry faults and no amounts.
func TestAnswer(t *testing.T) {
	Register(&abi.Description{LineOutputs: []abi.Field{{Name: "x"}}, Faults: []abi.FaultText{{Code: "A"}, {Code: "W", Warning: true}}}, func(in *abi.Input, out *abi.Output) {
		out.Lines = append(out.Lines, in.Lines...)
		out.Summary = append(out.Summary, 7)
		out.Faults = append(out.Faults, abi.Fault{Code: int(in.Scalars[0]), Line: -1, Column: -1})
	})
	if len(description) == 0 {
		t.Error("no description after Register")
	}
	for fault, lines := range map[int64]int{0: 0, 1: 2} {
		buffer := make([]byte, 4096)
		n := copy(buffer, abi.AppendInput(nil, &abi.Input{Scalars: []int64{fault}, Lines: []int64{1, 2}, N: 2}))
		var in abi.Input
		var out, got abi.Output
		length := answer(buffer, n, &in, &out)
		if err := abi.DecodeOutput(buffer[:length], &got); err != nil || len(got.Lines) != lines || !reflect.DeepEqual(got.Faults, []abi.Fault{{Code: int(fault), Line: -1, Column: -1}}) {
			t.Errorf("fault %d: %+v, %v", fault, got, err)
		}
	}
	if n := answer(make([]byte, 64), 65, new(abi.Input), new(abi.Output)); n != -1 {
		t.Errorf("a length beyond the buffer gave %d", n)
	}
}

// Money against exact fractions.
func TestMoney(t *testing.T) {
	amounts := rapid.Int64Range(0, Max)
	round := func(r *big.Rat, unit int64) *big.Int {
		half := new(big.Rat).Add(new(big.Rat).Quo(r, big.NewRat(unit, 1)), big.NewRat(1, 2))
		return new(big.Int).Mul(new(big.Int).Quo(half.Num(), half.Denom()), big.NewInt(unit))
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := amounts.Draw(t, "a"), amounts.Draw(t, "b"), rapid.Int64Range(1, 9e12).Draw(t, "c")
		exact := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c))
		for name, f := range map[string]struct {
			got  func(int64, int64, int64) (int64, bool)
			unit int64
		}{"MulDiv": {MulDiv, 1}, "Cents": {Cents, cent}} {
			want := round(exact, f.unit)
			got, ok := f.got(a, b, c)
			fits := want.IsInt64() && want.Int64() <= Max
			if ok && big.NewInt(got).Cmp(want) != 0 || !ok && fits {
				t.Fatalf("%s(%d, %d, %d) = %d, %v, want %v", name, a, b, c, got, ok, want)
			}
		}
		d := rapid.Int64Range(0, a).Draw(t, "d")
		less := new(big.Rat).Sub(big.NewRat(a, 1), new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(d), big.NewInt(13)), big.NewInt(113)))
		if got := LessPart(a, d, 13, 113); big.NewInt(got).Cmp(round(less, cent)) != 0 {
			t.Fatalf("LessPart(%d, %d) = %d, want %v", a, d, got, round(less, cent))
		}
		sum, ok := Add(a, -b)
		if !ok || sum != a-b {
			t.Fatalf("Add(%d, -%d) = %d, %v", a, b, sum, ok)
		}
		if _, ok := Add(a, b); ok != (a <= Max-b) {
			t.Fatalf("Add(%d, %d): %v", a, b, ok)
		}
	})
}
