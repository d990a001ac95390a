package dte

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

func TestParseAmount(t *testing.T) {
	for text, want := range map[string]Amount{
		"0": 0, "-0": 0, "0.0": 0, "610": 610 * Scale, "580.5": 580*Scale + Scale/2, "25.88495575": 2588495575,
		"-20": -20 * Scale, "1e2": 100 * Scale, "1E+2": 100 * Scale, "1.5e-1": 15_000_000, "100e-2": Scale,
		"0.00000001": 1, "1.000000000000000000000000000000": Scale, "1e-8": 1, "0e999999999999": 0,
		"92000000000": MaxAmount, "-92000000000.00000000": -MaxAmount, "0.00014381": 14381,
		"9200000000000000000000000e-14": MaxAmount, "10000000000.00000001": 10_000_000_000*Scale + 1,
		"0.00000000000000000000001e20": Scale / 1000, "100000000000000000000000e-20": 1000 * Scale,
		"0.000000000000000000000000": 0,
	} {
		if got, err := ParseAmount(text); got != want || err != nil {
			t.Errorf("ParseAmount(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": ErrNumber, "-": ErrNumber, "+1": ErrNumber, "01": ErrNumber, "1.": ErrNumber, ".5": ErrNumber,
		"1e":  ErrNumber,
		"1e+": ErrNumber, "1,5": ErrNumber, " 1": ErrNumber, "1 ": ErrNumber, "0x10": ErrNumber, "NaN": ErrNumber,
		"1e1.5": ErrNumber,
		"--1":   ErrNumber, "1-": ErrNumber,
		"0.000000001": ErrPrecision, "1.123456789": ErrPrecision, "1e-9": ErrPrecision,
		"1e-999999999999999999999": ErrPrecision,
		"92000000000.00000001":     ErrRange, "-92000000001": ErrRange, "1e11": ErrRange, "1e999": ErrRange,
		"1e999999999999999999999": ErrRange, "99999999999": ErrRange, "123456789012345678901234567890": ErrRange,
		"18446744073709551617e-8": ErrRange, "100000000000000000000000000000001e-22": ErrPrecision, // 2^64 is 0
		"1844674407.3709551617": ErrPrecision, "-368934881474191032320e-8": ErrRange,
	} {
		if got, err := ParseAmount(text); !errors.Is(err, want) || got != 0 {
			t.Errorf("ParseAmount(%q) = %d, %v; want %v", text, got, err, want)
		}
	}
}

// A number with a million digits, or with an exponent of that size, must cost no more than reading it.
func TestParseAmount_IsCheap(t *testing.T) {
	start := time.Now()
	for _, text := range []string{"1e999999999", "1e-999999999", strings.Repeat("9", 1<<20), "0." + strings.Repeat("0",
		1<<20) + "1", "1" + strings.Repeat("0", 1<<20) + "1"} {
		if _, err := ParseAmount(text); err == nil {
			t.Errorf("took %.20q", text)
		}
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
}

func TestAmount_Text(t *testing.T) {
	for a, want := range map[Amount][2]string{
		0: {"0", "0.00"}, 610 * Scale: {"610", "610.00"}, 580*Scale + Scale/2: {"580.5", "580.50"},
		2588495575: {"25.88495575", "25.88"}, -20 * Scale: {"-20", "-20.00"}, 1: {"0.00000001", "0.00"},
		-1:      {"-0.00000001", "0.00"},
		500_000: {"0.005", "0.01"}, -500_000: {"-0.005", "-0.01"}, 499_999: {"0.00499999", "0.00"},
		MaxAmount:               {"92000000000", "92000000000.00"},
		100*Scale + 5*Scale/100: {"100.05", "100.05"},
	} {
		if got := [2]string{a.String(), a.Fixed2()}; got != want {
			t.Errorf("%d: %q, want %q", int64(a), got, want)
		}
	}
}

func TestAmount_AgreesWithDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Amount(rapid.Int64Range(int64(-MaxAmount), int64(MaxAmount)).Draw(t, "units"))
		if rapid.Bool().Draw(t, "round") {
			a = a / (Scale / 1000) * (Scale / 1000) // ties at the third decimal
		}
		d := decimal.New(int64(a), -8)
		if got := a.String(); got != d.String() {
			t.Fatalf("String %q, decimal %q", got, d)
		}
		if got := decimal.New(int64(a.Round2()), -8); !got.Equal(d.Round(2)) {
			t.Fatalf("Round2 %v, decimal %v", got, d.Round(2))
		}
		want := d.StringFixed(2)
		if want == "-0.00" {
			want = "0.00"
		}
		if got := a.Fixed2(); got != want {
			t.Fatalf("Fixed2 %q, decimal %q", got, want)
		}
		if back, err := ParseAmount(a.String()); err != nil || back != a {
			t.Fatalf("%q came back as %d, %v", a, back, err)
		}
	})
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// agree compares ParseAmount with exact rational arithmetic.
func agree(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) {
	t.Helper()
	got, err := ParseAmount(text)
	if !jsonNumber.MatchString(text) {
		if !errors.Is(err, ErrNumber) {
			t.Fatalf("ParseAmount(%q) = %d, %v for what is no JSON number", text, got, err)
		}
		return
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 5 {
		return // too large for exact arithmetic
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("big.Rat refuses %q", text)
	}
	limit := new(big.Rat).SetInt64(int64(MaxAmount / Scale))
	scaled := new(big.Rat).Mul(exact, new(big.Rat).SetInt64(Scale))
	large := new(big.Rat).Abs(exact).Cmp(limit) > 0
	switch {
	case large && !scaled.IsInt():
		if err == nil {
			t.Fatalf("ParseAmount(%q) = %d", text, got)
		}
	case large:
		if !errors.Is(err, ErrRange) {
			t.Fatalf("ParseAmount(%q) = %d, %v; want ErrRange", text, got, err)
		}
	case !scaled.IsInt():
		if !errors.Is(err, ErrPrecision) {
			t.Fatalf("ParseAmount(%q) = %d, %v; want ErrPrecision", text, got, err)
		}
	default:
		if err != nil || scaled.Num().Int64() != int64(got) {
			t.Fatalf("ParseAmount(%q) = %d, %v; want %v", text, got, err, scaled.Num())
		}
	}
}

func TestParseAmount_AgreesWithRationals(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,13})(\.[0-9]{1,10}0{0,4})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) { agree(t, number.Draw(t, "number")) })
}

func FuzzAmount(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "1e2", "92000000000", "92000000000.00000001", "1e-8", "123.456e-5", "01",
		"1.", "1e+", "00.1e1", "1e999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { agree(t, s) })
}
