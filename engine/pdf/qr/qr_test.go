package qr

import (
	"strings"
	"testing"
	"unicode/utf8"

	"dtegate/engine/pdf/qr/qrtest"
)

func TestQR_Lengths(t *testing.T) {
	for n := 1; n <= 666; n += 5 {
		s := strings.Repeat("aZ9-/?&=é", 80)[:n]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		m, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		size := m.size + 2*Quiet
		got := qrtest.Decode(t, qrtest.Paint(size, func(x, y int) bool {
			x, y = x-Quiet, y-Quiet
			return x >= 0 && y >= 0 && x < m.size && y < m.size && m.dark[y*m.size+x]
		}))
		if got != s {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
	if _, err := Encode(strings.Repeat("x", 667)); err == nil {
		t.Error("667 bytes fit")
	}
}

// TestQR_Words compares the words that protect themselves with those of the standard; decoders forgive a wrong one.
func TestQR_Words(t *testing.T) {
	for mask, want := range []int{0x5412, 0x5125, 0x5E7C, 0x5B4B, 0x45F9, 0x40CE, 0x4F97, 0x4AA0} {
		if got := (mask<<10 | bch(mask, 10, formatCode)) ^ formatMask; got != want {
			t.Errorf("level M, mask %d: %#x, want %#x", mask, got, want)
		}
	}
	if got := 7<<12 | bch(7, 12, versionCode); got != 0x07C94 {
		t.Errorf("version 7: %#x", got)
	}
}
