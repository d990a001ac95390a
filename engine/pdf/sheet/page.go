package sheet

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// RGB is a colour with 8 bits for each channel.
type RGB struct{ R, G, B uint8 }

// The colours of all layouts. Hair is the colour of thin rules.
var (
	Black = RGB{R: 17, G: 17, B: 17}
	White = RGB{R: 255, G: 255, B: 255}
	Grey  = RGB{R: 96, G: 102, B: 110}
	Hair  = RGB{R: 208, G: 212, B: 218}
	Red   = RGB{R: 190, G: 24, B: 32}
)

// Tint mixes c into white: 0 is white, 1 is c.
func (c RGB) Tint(part float64) RGB {
	mix := func(v uint8) uint8 { return uint8(255 - (255-float64(v))*part) }
	return RGB{R: mix(c.R), G: mix(c.G), B: mix(c.B)}
}

// ReadableInk returns the ink that is readable on a background of c: white or black.
func (c RGB) ReadableInk() RGB {
	if 299*int(c.R)+587*int(c.G)+114*int(c.B) > 150_000 {
		return Black
	}
	return White
}

// OpKind is the kind of thing that an Op draws.
type OpKind uint8

const (
	OpText OpKind = iota // X is the left end, Y is the baseline
	OpFill
	OpStamp // a text across the page, with its middle at Y, turned by H degrees
	OpLogo
	OpQR
)

// Op is one element on a page. Lengths are in points from the top left corner.
type Op struct {
	Kind       OpKind
	X, Y, W, H float64
	Text       string
	Style      Style
}

// Page is the content of one sheet, in the order of drawing. All pages are laid out before the PDF is written, so that
// their number is known, and tests can check the place of each element.
type Page struct {
	W, H float64
	Ops  []Op
}

// Piece is a text within a line, DX points from the column's left side.
type Piece struct {
	DX, W float64
	Text  string
	Style Style
}

// Line is one line of a column. A line is never broken across pages; longer content needs more lines.
type Line struct {
	Height float64
	Pieces []Piece
	Ground *RGB    // background of the line, as wide as the column
	Rule   *RGB    // a hairline at its upper end
	Mark   OpKind  // OpLogo or OpQR, in the middle of the column and as high as the line
	Wide   float64 // width of the mark
}

// Canvas lays lines out on pages.
type Canvas struct {
	Fonts       *Fonts
	Pages       []*Page
	W, H        float64 // of a page
	Left, Width float64 // of the printed area
	Bottom      float64 // the lower end of the printed area
	Room        float64 // height between the head and the bottom of a later page
	Y           float64
	Head        func() // draws the head of a page and sets Y below the head
}

// Add puts an Op on the current page.
func (c *Canvas) Add(o Op) {
	p := c.Pages[len(c.Pages)-1]
	p.Ops = append(p.Ops, o)
}

// NewPage starts a page, with its head.
func (c *Canvas) NewPage() {
	c.Pages = append(c.Pages, &Page{W: c.W, H: c.H})
	c.Head()
}

// Need starts a page unless h points are left. The caller must break content higher than a page.
func (c *Canvas) Need(h float64) {
	if c.Y+h > c.Bottom {
		c.NewPage()
	}
}

// Text draws a cleaned text with its baseline at y.
func (c *Canvas) Text(x, y float64, s string, st Style) {
	if s != "" {
		c.Add(Op{Kind: OpText, X: x, Y: y, W: c.Fonts.Width(s, st.Size, st.Bold), H: st.Size, Text: s, Style: st})
	}
}

// Fill draws a rectangle.
func (c *Canvas) Fill(x, y, w, h float64, ink RGB) {
	c.Add(Op{Kind: OpFill, X: x, Y: y, W: w, H: h, Style: Style{Ink: ink}})
}

func (c *Canvas) drawLine(l Line, x, y, width float64) {
	if l.Ground != nil {
		c.Fill(x, y, width, l.Height+0.25, *l.Ground) // overlaps the next line, to leave no visible gap
	}
	if l.Rule != nil {
		c.Fill(x, y, width, 0.5, *l.Rule)
	}
	if l.Wide > 0 {
		c.Add(Op{Kind: l.Mark, X: x + (width-l.Wide)/2, Y: y, W: l.Wide, H: l.Height})
	}
	size := 0.0
	for _, p := range l.Pieces {
		size = max(size, p.Style.Size)
	}
	baseline := y + (l.Height-size*(Ascent+Descent))/2 + size*Ascent
	for _, p := range l.Pieces {
		if p.Text != "" {
			c.Add(Op{Kind: OpText, X: x + p.DX, Y: baseline, W: p.W, H: p.Style.Size, Text: p.Text, Style: p.Style})
		}
	}
}

// Strip draws lines one below the other from y on. It ignores the end of the page.
func (c *Canvas) Strip(lines []Line, x, y, width float64) {
	for _, l := range lines {
		c.drawLine(l, x, y, width)
		y += l.Height
	}
}

// Flow draws lines from c.Y on, and continues on further pages if they do not fit.
func (c *Canvas) Flow(lines []Line, x, width float64) {
	for _, l := range lines {
		c.Need(l.Height)
		c.drawLine(l, x, c.Y, width)
		c.Y += l.Height
	}
}

// Keep is Flow, but keeps the lines on one page if they fit on one.
func (c *Canvas) Keep(lines []Line, x, width float64) {
	if h := Height(lines); h <= c.Room {
		c.Need(h)
	}
	c.Flow(lines, x, width)
}

// Column is a strip of lines with its place on the page.
type Column struct {
	X, Width float64
	Lines    []Line
}

// DrawColumns draws columns side by side. If a column is higher than a page, all columns follow one another.
func (c *Canvas) DrawColumns(columns ...Column) {
	highest := 0.0
	for _, col := range columns {
		highest = max(highest, Height(col.Lines))
	}
	if highest > c.Room {
		for _, col := range columns {
			c.Need(48)
			c.Flow(col.Lines, col.X, col.Width)
		}
		return
	}
	c.Need(highest)
	for _, col := range columns {
		c.Strip(col.Lines, col.X, c.Y, col.Width)
	}
	c.Y += highest
}

// Height returns the total height of lines one below the other.
func Height(lines []Line) float64 {
	h := 0.0
	for _, l := range lines {
		h += l.Height
	}
	return h
}

// Gap returns an empty line.
func Gap(h float64) Line { return Line{Height: h} }

// Para breaks a cleaned text into lines, aligned left (0), in the middle (0.5) or right (1).
func (f *Fonts) Para(s string, width, align float64, st Style) []Line {
	var out []Line
	for _, t := range f.Wrap(s, width, 0, st) {
		w := f.Width(t, st.Size, st.Bold)
		out = append(out, Line{Height: st.Size * Leading, Pieces: []Piece{{DX: max(0, (width-w)*align), W: w, Text: t,
			Style: st}}})
	}
	return out
}

// Labelled returns "label: value" as one paragraph with the label in bold.
func (f *Fonts) Labelled(label, value string, width float64, st Style) []Line {
	strong := st
	strong.Bold = true
	label += ":"
	w := f.Width(label, st.Size, true)
	indent := w + f.Width(" ", st.Size, false)
	if indent > width*0.6 {
		return append(f.Para(label, width, 0, strong), f.Para(value, width, 0, st)...)
	}
	var out []Line
	for i, t := range f.Wrap(value, width, indent, st) {
		l := Line{Height: st.Size * Leading}
		dx := 0.0
		if i == 0 {
			l.Pieces = append(l.Pieces, Piece{W: w, Text: label, Style: strong})
			dx = indent
		}
		l.Pieces = append(l.Pieces, Piece{DX: dx, W: f.Width(t, st.Size, st.Bold), Text: t, Style: st})
		out = append(out, l)
	}
	return out
}

// Clean makes a text of the document printable in one line. It joins letters and combining marks, because some systems
// store n and a tilde separately, writes runs of whitespace and control characters as one space, and removes invisible
// and direction-changing characters. A character that the fonts lack becomes a box (missing).
func (f *Fonts) Clean(s string) string {
	out := make([]byte, 0, len(s))
	space := false
	last := rune(0) // the last written letter, which a combining mark may change
	at := 0         // where last begins in out
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

// Paragraphs returns the cleaned lines of a text. It keeps the text's line breaks, and leaves out empty lines.
func (f *Fonts) Paragraphs(s string) []string {
	var out []string
	for _, l := range strings.FieldsFunc(s, func(r rune) bool {
		return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029'
	}) {
		if l = f.Clean(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// marks are the combining marks of Spanish and similar languages, with the letters that they change.
var marks = map[rune][2]string{
	'\u0300': {"aeiouAEIOU", "àèìòùÀÈÌÒÙ"},
	'\u0301': {"aeiouyAEIOUY", "áéíóúýÁÉÍÓÚÝ"},
	'\u0302': {"aeiouAEIOU", "âêîôûÂÊÎÔÛ"},
	'\u0303': {"anoANO", "ãñõÃÑÕ"},
	'\u0308': {"aeiouyAEIOU", "äëïöüÿÄËÏÖÜ"},
	'\u0327': {"cC", "çÇ"},
}

func compose(letter, mark rune) (rune, bool) {
	m := marks[mark]
	i := strings.IndexRune(m[0], letter) // ASCII: the index in bytes is the index in letters
	if i < 0 {
		return 0, false
	}
	return []rune(m[1])[i], true
}

// Style is the size (in points), weight and colour of a text.
type Style struct {
	Size float64
	Bold bool
	Ink  RGB
}

// Plain returns a style with regular letters. Strong returns a style with bold letters.
func Plain(size float64, ink RGB) Style  { return Style{Size: size, Ink: ink} }
func Strong(size float64, ink RGB) Style { return Style{Size: size, Bold: true, Ink: ink} }

// The font's extent above and below the baseline, and the least distance between lines, as multiples of the size. At
// this distance, the boxes of two lines touch and do not overlap.
const (
	Ascent  = 0.905
	Descent = 0.212
	Leading = 1.2
)

// Wrap breaks a cleaned text into lines of at most width points; the first line is shorter by indent. It breaks at
// spaces. A word longer than a line is broken after punctuation if possible, otherwise anywhere. A line exceeds the
// width only if a single character does.
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

// cut returns how many bytes of a word to write on a line of the given width: at least one character. It prefers to end
// after a punctuation mark.
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

// Ellipsis shortens a cleaned text to width points. Use it only for a text that is printed in full elsewhere.
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
