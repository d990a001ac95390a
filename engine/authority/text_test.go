package authority

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestTexts_Bounded: the client keeps no more of MH's texts than people read, and nothing that moves a terminal's
// cursor.
func TestTexts_Bounded(t *testing.T) {
	long := strings.Repeat("ñ", 1<<20)
	answer, err := json.Marshal(map[string]any{"descripcionMsg": "\x1b[2J" + long,
		"observaciones": append(make([]string, 0, 5000), strings.Split(strings.Repeat("a\nb|", 4999)+long, "|")...)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := readAnswer(answer)
	if err != nil {
		t.Fatal(err)
	}
	r := a.response()
	if len(r.Observaciones) != maxTexts+1 || r.Observaciones[maxTexts] != "y 4900 observaciones más" ||
		r.Observaciones[0] != "a b" {
		t.Errorf("%d observations, the last %.80q", len(r.Observaciones), r.Observaciones[len(r.Observaciones)-1])
	}
	if n := utf8.RuneCountInString(r.DescripcionMsg); n != maxText || !strings.HasSuffix(r.DescripcionMsg, "ñ…") ||
		strings.ContainsFunc(r.DescripcionMsg, unicode.IsControl) {
		t.Errorf("%d characters: %.20q", n, r.DescripcionMsg)
	}
}
