package view

import "testing"

func TestPrinted(t *testing.T) {
	for _, c := range []struct {
		literal  string
		decimals int
		want     string
	}{
		{"0", 2, "0.00"}, {"100", 2, "100.00"}, {"100.5", 2, "100.50"}, {"25.88495575", 2, "25.88495575"},
		{"2.00", 0, "2.00"}, {"12", 0, "12"}, {"-5", 2, "-5.00"}, {"1234", 2, "1,234.00"}, {"-1234567.8", 2, "-1,234,567.80"},
		{"999999999999.12345678", 2, "999,999,999,999.12345678"}, {"100000", 0, "100,000"},
		{"1.4381E-4", 2, "0.00014381"}, {"1e3", 2, "1,000.00"}, {"12.345e+1", 2, "123.45"}, {"12.345e1", 2, "123.45"},
		{"5e-1", 2, "0.50"}, {"1e400", 2, "1e400"}, {"-1e-400", 2, "-1e-400"}, {"", 2, ""}, {"0e0", 2, "0.00"}, {"0.10000000", 2, "0.10000000"},
	} {
		if got := Printed(c.literal, c.decimals); got != c.want {
			t.Errorf("printed(%q, %d) = %q, want %q", c.literal, c.decimals, got, c.want)
		}
	}
	for literal, zero := range map[string]bool{"0": true, "0.00": true, "-0.0": true, "0e9": true, "0.01": false, "1e-9": false} {
		if isZero(literal) != zero {
			t.Errorf("isZero(%q) = %v", literal, !zero)
		}
	}
}
