package sdk

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"dtegate/rules/abi"
	"dtegate/rules/asmtest"
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
		out.Summary = append(out.Summary, in.Params...)
		out.Faults = append(out.Faults, abi.Fault{Code: int(in.Scalars[0]), Line: -1, Column: -1})
	})
	if len(description) == 0 {
		t.Error("no description after Register")
	}
	for fault, lines := range map[int64][]int64{0: nil, 1: {1, 2}} {
		message := make([]int64, 512)
		buffer := unsafe.Slice((*byte)(unsafe.Pointer(&message[0])), 8*len(message))
		n := copy(buffer, abi.AppendInput(nil, &abi.Input{Params: []int64{7}, Scalars: []int64{fault}, Lines: []int64{1, 2}, N: 2}))
		var in abi.Input
		var out abi.Output
		length := answer(message, n, &in, &out)
		want := abi.Output{Lines: lines, Faults: []abi.Fault{{Code: int(fault), Line: -1, Column: -1}}}
		if lines != nil {
			want.Summary = []int64{7}
		}
		if !bytes.Equal(buffer[:length], asmtest.Answer(&want, 1)) {
			t.Errorf("fault %d: %x", fault, buffer[:length])
		}
	}
}

// What makes no sense is answered so, and not read.
func TestAnswer_Refuses(t *testing.T) {
	good := func() []int64 {
		return append([]int64{abi.Magic | abi.Version<<32, pair(1, 1), pair(2, 3), 0}, make([]int64, 8)...)
	}
	var in abi.Input
	if !read(good(), 96, &in) || in.N != 3 || len(in.Lines) != 6 {
		t.Fatalf("the message itself is refused: %+v", in)
	}
	for name, c := range map[string]struct {
		length int
		change func(m []int64)
	}{
		"beyond the buffer": {104, func([]int64) {}},
		"shorter":           {88, func([]int64) {}},
		"no header":         {24, func([]int64) {}},
		"negative":          {-8, func([]int64) {}},
		"another version":   {96, func(m []int64) { m[0] += 1 << 32 }},
		"more params":       {96, func(m []int64) { m[1]++ }},
		"many columns":      {96, func(m []int64) { m[2] = pair(math.MaxUint32, 3) }},
		"many lines":        {96, func(m []int64) { m[2] = pair(0, abi.MaxLines+1) }},
	} {
		m := good()
		c.change(m)
		if read(m, c.length, &in) {
			t.Errorf("%s: read as %+v", name, in)
		}
	}
	if n := write(make([]int64, headerWords), &abi.Output{Summary: []int64{1}}, 0); n != -1 {
		t.Errorf("an answer that does not fit: %d", n)
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
		}{"MulDiv": {MulDiv, 1}, "Cents": {Cents, Cent}} {
			want := round(exact, f.unit)
			got, ok := f.got(a, b, c)
			fits := want.IsInt64() && want.Int64() <= Max
			if ok && big.NewInt(got).Cmp(want) != 0 || !ok && fits {
				t.Fatalf("%s(%d, %d, %d) = %d, %v, want %v", name, a, b, c, got, ok, want)
			}
		}
		want := round(new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(One)), 1)
		got, ok := Times(a, b)
		if fits := want.IsInt64() && want.Int64() <= Max; ok != fits || ok && got != want.Int64() {
			t.Fatalf("Times(%d, %d) = %d, %v, want %v", a, b, got, ok, want)
		}
		if negative, ok2 := Times(-a, b); ok2 != ok || ok && negative != -got {
			t.Fatalf("Times(-%d, %d) = %d, %v", a, b, negative, ok2)
		}
		d := rapid.Int64Range(0, a).Draw(t, "d")
		less := new(big.Rat).Sub(big.NewRat(a, 1), new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(d), big.NewInt(13)), big.NewInt(113)))
		if got := LessPart(a, d, 13, 113); big.NewInt(got).Cmp(round(less, Cent)) != 0 {
			t.Fatalf("LessPart(%d, %d) = %d, want %v", a, d, got, round(less, Cent))
		}
		part := rapid.Int64Range(0, c).Draw(t, "part")
		lines := []int64{a, 7, b, 7}
		sum := Shares(lines, 2, 0, 1, part, c)
		if x, _ := MulDiv(a, part, c); lines[1] != x {
			t.Fatalf("Shares of %d by %d/%d is %d, want %d", a, part, c, lines[1], x)
		}
		if lines[0] != a || lines[2] != b || sum != lines[1]+lines[3] {
			t.Fatalf("Shares left %v and added up to %d", lines, sum)
		}
		sum, ok = Add(a, -b)
		if !ok || sum != a-b {
			t.Fatalf("Add(%d, -%d) = %d, %v", a, b, sum, ok)
		}
		if _, ok := Add(a, b); ok != (a <= Max-b) {
			t.Fatalf("Add(%d, %d): %v", a, b, ok)
		}
	})
}

// TestSale_Close: taxes and the amount to pay are the exact sums of what makes them, of either sign, or the sale is refused because one is
// beyond 64 bits; each amount counts, on the short way and on the long one.
func TestSale_Close(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{1000 * Cent, 1 << 58, Max}).Draw(t, "most")
		amount := func(name string, least int64) int64 { return rapid.Int64Range(least, most).Draw(t, name) }
		s := Sale{SubTotal: amount("subtotal", 0), NoGravado: amount("no gravado", -most), Named: rapid.SampledFrom([]int64{0, 1 << TaxIVA, 1 << 7}).Draw(t, "named")}
		named := 6 // levies of a rule's own are behind these, and named when there are any
		if s.Named == 1<<7 {
			named = MaxTaxes
		}
		perci, rete := amount("perci", 0), amount("rete", 0)
		taxes, pay := new(big.Int), new(big.Int)
		for i := range named {
			if i == TaxExport {
				continue // of nothing
			}
			s.Taxes[i] = amount("tax", 0)
			taxes.Add(taxes, big.NewInt(s.Taxes[i]))
		}
		for _, n := range []int64{s.SubTotal, perci, -rete, s.NoGravado} {
			pay.Add(pay, big.NewInt(n))
		}
		pay.Add(pay, taxes)
		var out abi.Output
		gotTaxes, gotPay, ok := s.Close(&out, perci, rete)
		switch {
		case ok && (taxes.Cmp(big.NewInt(gotTaxes)) != 0 || pay.Cmp(big.NewInt(gotPay)) != 0):
			t.Fatalf("taxes %d, to pay %d; %v and %v", gotTaxes, gotPay, taxes, pay)
		case ok != (len(out.Faults) == 0):
			t.Fatalf("%v with faults %v", ok, out.Faults)
		case !ok && most < 1<<55:
			t.Fatal("small amounts are refused")
		}
	})
}

// TestSale_Discounts: a global discount is in cents, not negative, and at most the total that it is of.
func TestSale_Discounts(t *testing.T) {
	for _, c := range []struct {
		discount int64
		fault    int
	}{{0, -1}, {1 * Cent, -1}, {100 * Cent, -1}, {101 * Cent, FaultGlobalDiscount}, {-1 * Cent, FaultGlobalDiscount}, {Cent / 2, FaultCents}, {-Cent / 2, FaultGlobalDiscount}} {
		for column := ScaDescuGravada; column < ScaDescuGravada+3; column++ {
			in := abi.Input{Scalars: make([]int64, len(SaleScalars()))}
			for i := range in.Scalars {
				in.Scalars[i] = abi.Absent
			}
			in.Scalars[column] = c.discount
			s, out := Sale{Gravada: 100 * Cent, Exenta: 100 * Cent, NoSuj: 100 * Cent}, abi.Output{}
			global, ok := s.discounts(&in, &out)
			if c.fault < 0 && (!ok || global != c.discount) || c.fault >= 0 && (ok || len(out.Faults) != 1 || out.Faults[0].Code != c.fault || out.Faults[0].Column != column) {
				t.Errorf("%d in column %d: %d, %v, %+v", c.discount, column, global, ok, out.Faults)
			}
		}
	}
}

// TestPayments: payments that name amounts are what is to be paid, neither more nor less.
func TestPayments(t *testing.T) {
	for _, c := range []struct {
		sum, pay int64
		ok       bool
	}{{abi.Absent, 100 * Cent, true}, {100 * Cent, 100 * Cent, true}, {99 * Cent, 100 * Cent, false}, {101 * Cent, 100 * Cent, false}, {0, 0, true}, {0, Cent, false}} {
		in, out := abi.Input{Scalars: make([]int64, len(SaleScalars()))}, abi.Output{}
		in.Scalars[ScaPagos] = c.sum
		if ok := Payments(&in, &out, c.pay); ok != c.ok || ok != (len(out.Faults) == 0) {
			t.Errorf("%d of %d: %v, %+v", c.sum, c.pay, ok, out.Faults)
		}
	}
}
