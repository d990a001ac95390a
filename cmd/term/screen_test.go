package term

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// obeyed returns the first character of a text that a terminal may obey, layout aside.
func obeyed(text string, layout bool) (rune, bool) {
	for _, r := range text {
		if !unicode.IsGraphic(r) && (!layout || r != '\n' && r != '\t') {
			return r, true
		}
	}
	return 0, !utf8.ValidString(text)
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"Café «José» 日本 👍 ñ": "Café «José» 日本 👍 ñ",
		"a\x1b[2Jb":          `a\u001b[2Jb`,
		"a\u202eb\u2066":     `a\u202eb\u2066`,
		"a\u009b2J\x7f":      `a\u009b2J\u007f`,
		"a\xff\x9bb\xe2\x80": `a\xff\x9bb\xe2\x80`,
		"a\r\nok\tb\u2028":   `a\r\nok\tb\u2028`,
		"\U000e0001":         `\U000e0001`,
		"":                   "",
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q is shown %q, want %q", text, got, want)
		}
	}
	if got := Lines("one\ntwo\x1b[A"); got != "one\n  two\\u001b[A" {
		t.Errorf("%q", got)
	}
}

type hostile string

func (h hostile) String() string { return string(h) }
func (h hostile) Error() string  { return string(h) }

// FuzzFprintf: whatever an argument contains, its line stays one line of graphic characters, and a Writer passes only
// layout, however a text is divided into writes; honest text is unchanged.
func FuzzFprintf(f *testing.F) {
	for _, text := range []string{"ana", "\x1b[2J", "a\nok", "\u202e\u009b", "\xff\t\v", "日本", "\xe6\x97",
		"\U000e0001\r"} {
		f.Add(text, 1)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		for _, v := range []any{text, []byte(text), hostile(text), error(hostile(text)), []string{text},
			map[string]string{text: text}, struct{ A string }{text}, &struct{ A any }{text}} {
			for _, verb := range []string{"%s", "%v", "%+v", "%-9s|", "%.3s", "%q"} {
				var b bytes.Buffer
				if _, err := Fprintf(&b, verb, v); err != nil {
					t.Fatal(err)
				}
				if r, bad := obeyed(b.String(), false); bad {
					t.Fatalf("%s of %T %q: %q reaches the terminal", verb, v, text, r)
				}
			}
		}
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		w := New(&write)
		text = text[:min(len(text), 4<<10)] // a pipe holds it
		cut = min(len(text), max(0, cut))
		for _, part := range []string{text[:cut], text[cut:], "\n"} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		write.Close()
		out, err := io.ReadAll(read)
		if err != nil {
			t.Fatal(err)
		}
		if r, bad := obeyed(string(out), true); bad {
			t.Fatalf("%q: %q reaches the terminal", text, r)
		}
		if _, bad := obeyed(text, true); !bad && string(out) != text+"\n" {
			t.Fatalf("%q became %q", text, out)
		}
	})
}

// Without text from outside, Fprintf formats as fmt does.
func TestFprintf(t *testing.T) {
	var b strings.Builder
	_, _ = Fprintf(&b, "%5d|%-5s|%05.1f|%x|%v|%t|%c|%.2s|%[1]d|%v", 42, "ab", 3.25, 255, nil, true, 'ñ', "abc", 7)
	if want := fmt.Sprintf("%5d|%-5s|%05.1f|%x|%v|%t|%c|%.2s|%[1]d|%v", 42, "ab", 3.25, 255, nil, true, 'ñ', "abc",
		7); b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
