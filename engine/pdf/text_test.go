package pdf

import (
	"strings"
	"testing"
)

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
		if got := printed(c.literal, c.decimals); got != c.want {
			t.Errorf("printed(%q, %d) = %q, want %q", c.literal, c.decimals, got, c.want)
		}
	}
	for literal, zero := range map[string]bool{"0": true, "0.00": true, "-0.0": true, "0e9": true, "0.01": false, "1e-9": false} {
		if isZero(literal) != zero {
			t.Errorf("isZero(%q) = %v", literal, !zero)
		}
	}
}

func TestClean(t *testing.T) {
	f, err := loadFonts()
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"  Ana \t\n Núñez ":                 "Ana Núñez",
		"N\u0303andu\u0301 y Pin\u0303a":    "Ñandú y Piña",
		"a\u200bb\u202ec\u00add\ufeff":      "abcd",
		"日本 \U0001F600!":                    "□□ □!",
		"Łódź Ωμέγα Жук שלום":               "Łódź Ωμέγα Жук שלום",
		"a\u00a0b\u2003c":                   "a b c",
		"\u0301x":                           "\u0301x",
		"\x00\x1b\u0085":                    "",
		"o\u0308 \u0301":                    "ö \u0301",
		strings.Repeat("n\u0303", 3) + "\n": "ñññ",
	} {
		if got := f.clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestWrap asks that no text is lost, no line is too wide, and breaks are where a reader expects them.
func TestWrap(t *testing.T) {
	f, err := loadFonts()
	if err != nil {
		t.Fatal(err)
	}
	st := style{size: 8}
	for _, s := range []string{
		"", "uno", "Café de altura molido, tueste medio, bolsa de una libra", strings.Repeat("W", 500),
		strings.Repeat("supercalifragilístico-", 40), "3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01", strings.Repeat("i ", 300) + strings.Repeat("Ñ", 90) + " fin",
	} {
		for _, width := range []float64{9, 30, 80, 300} {
			for _, indent := range []float64{0, 5} {
				lines := f.wrap(s, width, indent, st)
				if squeeze(strings.Join(lines, "")) != squeeze(s) {
					t.Fatalf("%q at %v lost text: %q", s, width, lines)
				}
				for i, l := range lines {
					room := width
					if i == 0 {
						room -= indent
					}
					if w := f.width(l, st.size, false); w > room+0.01 && len([]rune(l)) > 1 {
						t.Errorf("%q is %.1f wide, room is %.1f", l, w, room)
					}
				}
			}
		}
	}
	if got := f.wrap("3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01", 100, 0, st); len(got) != 2 || !strings.HasSuffix(got[0], "-") {
		t.Errorf("a code breaks at a hyphen: %q", got)
	}
}

// TestLabelled: of a label and its value no text is lost, no line is too wide, and none is broken without need, however long either is.
func TestLabelled(t *testing.T) {
	f, err := loadFonts()
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{"NIT", "Documento", strings.Repeat("Actividad económica ", 3), strings.Repeat("Larga ", 40)} {
		for _, value := range []string{"uno", strings.Repeat("Café de altura ", 20)} {
			for _, width := range []float64{60, 120, 300} {
				var text strings.Builder
				lines := f.labelled(label, value, width, style{size: 8})
				if most := 3 + 2*(f.width(label, 8, true)+f.width(value, 8, false))/width; float64(len(lines)) > most {
					t.Errorf("%.20s, width %v: %d lines", label, width, len(lines))
				}
				for _, l := range lines {
					for _, p := range l.pieces {
						text.WriteString(p.text)
						if p.dx < 0 || p.dx+p.w > width+0.01 || l.height <= 0 || p.w > f.width(p.text, p.style.size, p.style.bold)+0.01 {
							t.Errorf("%.20s, width %v: %+v", label, width, p)
						}
					}
				}
				if squeeze(text.String()) != squeeze(label+":"+value) {
					t.Errorf("%.20s, width %v: %q", label, width, text.String())
				}
			}
		}
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

func TestStyle(t *testing.T) {
	for name, s := range map[string]Style{
		"color": {Color: "blue"}, "short color": {Color: "#fff"}, "logo": {Logo: []byte("no picture")},
		"large logo": {Logo: make([]byte, 600<<10)},
	} {
		if _, err := New(Options{Style: s}); err == nil || !strings.Contains(err.Error(), "Style.") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
