package dte

import (
	"strings"
	"testing"
)

func TestFormat_People(t *testing.T) {
	for _, c := range []struct {
		how      func(string) string
		is, want string
	}{
		{FormatNIT, "06142907801123", "0614-290780-112-3"}, {FormatNIT, "0614-290780-112-3", "0614-290780-112-3"},
		{FormatNIT, "012345678", "01234567-8"},
		{FormatNIT, "614290780112", "614290780112"}, {FormatNIT, "", ""}, {FormatDUI, "012345678", "01234567-8"},
		{FormatDUI, "01234567 8", "01234567-8"},
		{FormatDUI, "A12345678", "A12345678"}, {FormatNRC, "1234567", "123456-7"}, {FormatNRC, "12", "1-2"},
		{FormatNRC, "1", "1"}, {FormatNRC, "12345678", "1234567-8"},
		{FormatNRC, "123456789", "123456789"}, {FormatPhone, "22222222", "2222-2222"}, {FormatPhone, "+50322222222",
			"+503 2222-2222"},
		{FormatPhone, "503 2222 2222", "+503 2222-2222"}, {FormatPhone, "+1 305 555 0100", "+1 305 555 0100"},
		{FormatPhone, "2222-2222 ext. 3", "2222-2222 ext. 3"},
		{func(s string) string { return FormatDocument("13", s) }, "012345678", "01234567-8"},
		{func(s string) string { return FormatDocument("36", s) }, "06142907801123", "0614-290780-112-3"},
		{func(s string) string { return FormatDocument("03", s) }, "012345678", "012345678"},
		{func(s string) string { return FormatDocument("", s) }, "06142907801123", "0614-290780-112-3"},
	} {
		if got := c.how(c.is); got != c.want {
			t.Errorf("%q: %q, want %q", c.is, got, c.want)
		}
	}
}

func TestDigits(t *testing.T) {
	for text, want := range map[string]string{"": "", "-": "", "0614-290780 112-3": "06142907801123", "1\u00a02": "12",
		"1\t2": "12", "1.2": "", "x": "", "12x": "", "x12": "", "0-9": "09", "١": ""} {
		if got := Digits(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzFormat_People: no digit is lost or moved, and a number already in the form for people does not change.
func FuzzFormat_People(f *testing.F) {
	for _, s := range []string{"06142907801123", "01234567-8", "1234567", "22222222", "+503 2222-2222", "ñ-1", "+-1",
		"  "} {
		f.Add(s)
	}
	only := func(s string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("+- ", r) {
				return -1
			}
			return r
		}, s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for i, how := range []func(string) string{FormatNIT, FormatDUI, FormatNRC, FormatPhone} {
			once := how(s)
			if only(once) != only(s) || how(once) != once {
				t.Errorf("%d: %q becomes %q, and then %q", i, s, once, how(once))
			}
		}
	})
}
