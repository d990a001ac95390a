package sheet

import (
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	f, err := LoadFonts()
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
		if got := f.Clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestWrap: no text is lost, no line is too wide, and breaks are where a reader expects them.
func TestWrap(t *testing.T) {
	f, err := LoadFonts()
	if err != nil {
		t.Fatal(err)
	}
	st := Style{Size: 8}
	for _, s := range []string{
		"", "uno", "Café de altura molido, tueste medio, bolsa de una libra", strings.Repeat("W", 500),
		strings.Repeat("supercalifragilístico-", 40), "3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01", strings.Repeat("i ",
			300) + strings.Repeat("Ñ", 90) + " fin",
	} {
		for _, width := range []float64{9, 30, 80, 300} {
			for _, indent := range []float64{0, 5} {
				lines := f.Wrap(s, width, indent, st)
				if squeezed(strings.Join(lines, "")) != squeezed(s) {
					t.Fatalf("%q at %v lost text: %q", s, width, lines)
				}
				for i, l := range lines {
					room := width
					if i == 0 {
						room -= indent
					}
					if w := f.Width(l, st.Size, false); w > room+0.01 && len([]rune(l)) > 1 {
						t.Errorf("%q is %.1f wide, room is %.1f", l, w, room)
					}
				}
			}
		}
	}
	if got := f.Wrap("3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01", 100, 0, st); len(got) != 2 || !strings.HasSuffix(got[0],
		"-") {
		t.Errorf("a code breaks at a hyphen: %q", got)
	}
}

// TestLabelled: no text of a label and its value is lost, no line is too wide, and none is broken without need, however
// long either is.
func TestLabelled(t *testing.T) {
	f, err := LoadFonts()
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{"NIT", "Documento", strings.Repeat("Actividad económica ", 3),
		strings.Repeat("Larga ", 40)} {
		for _, value := range []string{"uno", strings.Repeat("Café de altura ", 20)} {
			for _, width := range []float64{60, 120, 300} {
				var text strings.Builder
				lines := f.Labelled(label, value, width, Style{Size: 8})
				if most := 3 + 2*(f.Width(label, 8, true)+f.Width(value, 8, false))/width; float64(len(lines)) > most {
					t.Errorf("%.20s, width %v: %d lines", label, width, len(lines))
				}
				for _, l := range lines {
					for _, p := range l.Pieces {
						text.WriteString(p.Text)
						if p.DX < 0 || p.DX+p.W > width+0.01 || l.Height <= 0 || p.W > f.Width(p.Text, p.Style.Size,
							p.Style.Bold)+0.01 {
							t.Errorf("%.20s, width %v: %+v", label, width, p)
						}
					}
				}
				if squeezed(text.String()) != squeezed(label+":"+value) {
					t.Errorf("%.20s, width %v: %q", label, width, text.String())
				}
			}
		}
	}
}

func squeezed(s string) string { return strings.Join(strings.Fields(s), "") }
