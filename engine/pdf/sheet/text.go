package sheet

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a text of the document printable in one line: letters and marks joined (a name typed on some
// systems holds n and a tilde apart), whitespace and control characters as one space, invisible and
// direction-changing characters dropped, what the fonts lack as the visible missing box.
func (f *Fonts) Clean(s string) string {
	out := make([]byte, 0, len(s))
	space := false
	last := rune(0) // the letter written last, which a combining mark may join
	at := 0         // where it begins
	for _, r := range s {
		switch {
		case r <= ' ' || unicode.IsSpace(r) || unicode.Is(unicode.Cc, r):
			space = len(out) > 0
			continue
		case unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r):
			continue
		case !f.covers(r):
			r = missing
		}
		if joined, ok := compose(last, r); ok && !space {
			out, r = out[:at], joined
		} else if space {
			out, space = append(out, ' '), false
		}
		at, last = len(out), r
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// Paragraphs are the cleaned lines of a text whose line breaks count. Empty ones are dropped.
func (f *Fonts) Paragraphs(s string) []string {
	var out []string
	for _, l := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }) {
		if l = f.Clean(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// marks are the combining marks of Spanish and its neighbours, with the letters that they change.
var marks = map[rune][2]string{
	'\u0300': {"aeiouAEIOU", "àèìòùÀÈÌÒÙ"},
	'\u0301': {"aeiouyAEIOUY", "áéíóúýÁÉÍÓÚÝ"},
	'\u0302': {"aeiouAEIOU", "âêîôûÂÊÎÔÛ"},
	'\u0303': {"anoANO", "ãñõÃÑÕ"},
	'\u0308': {"aeiouyAEIOU", "äëïöüÿÄËÏÖÜ"},
	'\u0327': {"cC", "çÇ"},
}

func compose(letter, mark rune) (rune, bool) {
	m, ok := marks[mark]
	if !ok || letter == 0 {
		return 0, false
	}
	i := strings.IndexRune(m[0], letter) // ASCII, so the index counts letters too
	if i < 0 {
		return 0, false
	}
	return []rune(m[1])[i], true
}

// Style is how a text is set: size in points.
type Style struct {
	Size float64
	Bold bool
	Ink  RGB
}

// The font's extent above and below the baseline as part of the size, and the least distance between lines. Boxes
// of lines at this distance touch and never overlap.
const (
	Ascent  = 0.905
	Descent = 0.212
	Leading = 1.2
)

// Wrap breaks a cleaned text into lines of at most width points, the first one shorter by indent. It breaks at
// spaces; a word longer than a line breaks behind punctuation if it has any, else anywhere. A line never exceeds the
// width unless a single character does.
func (f *Fonts) Wrap(s string, width, indent float64, st Style) []string {
	var lines []string
	line, used := "", indent
	space := f.Width(" ", st.Size, st.Bold)
	for word := range strings.SplitSeq(s, " ") {
		if word == "" {
			continue
		}
		w := f.Width(word, st.Size, st.Bold)
		if line != "" && used+space+w <= width {
			line, used = line+" "+word, used+space+w
			continue
		}
		if line != "" || used+w > width && used > 0 && w <= width {
			lines, line, used = append(lines, line), "", 0
		}
		for used+w > width {
			cut := f.cut(word, width-used, st)
			if cut == len(word) {
				break
			}
			lines = append(lines, word[:cut])
			w -= f.Width(word[:cut], st.Size, st.Bold)
			word, used = word[cut:], 0
		}
		line, used = word, used+w
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

// cut is how many bytes of a word go into width: at least one character, preferably up to a punctuation mark.
func (f *Fonts) cut(word string, width float64, st Style) int {
	advance := f.faces[weight(st.Bold)].advance
	room := int(width * 1000 / st.Size)
	end, good := 0, 0
	for i, r := range word {
		if room -= int(advance[r]); room < 0 && i > 0 {
			break
		}
		end = i + len(string(r))
		if strings.ContainsRune("-/@._,;:", r) {
			good = end
		}
	}
	if end < len(word) && good > end/3 {
		return good
	}
	return end
}

// Ellipsis shortens a cleaned text to width points. It is for what is printed in full elsewhere.
func (f *Fonts) Ellipsis(s string, width float64, st Style) string {
	if f.Width(s, st.Size, st.Bold) <= width {
		return s
	}
	const dots = "…"
	room := width - f.Width(dots, st.Size, st.Bold)
	end := 0
	for i, r := range s {
		if room -= f.Width(string(r), st.Size, st.Bold); room < 0 {
			break
		}
		end = i + len(string(r))
	}
	return strings.TrimRight(s[:end], " ") + dots
}
