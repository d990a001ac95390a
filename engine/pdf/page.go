package pdf

// rgb is a colour, 8 bits a channel.
type rgb struct{ r, g, b uint8 }

var (
	black = rgb{17, 17, 17}
	white = rgb{255, 255, 255}
	grey  = rgb{96, 102, 110}
	hair  = rgb{208, 212, 218}
	red   = rgb{190, 24, 32}
)

// tint mixes c into white: 0 is white, 1 is c.
func (c rgb) tint(part float64) rgb {
	mix := func(v uint8) uint8 { return uint8(255 - (255-float64(v))*part) }
	return rgb{mix(c.r), mix(c.g), mix(c.b)}
}

// readableInk is the ink that can be read on a ground of c: white or black.
func (c rgb) readableInk() rgb {
	if 299*int(c.r)+587*int(c.g)+114*int(c.b) > 150_000 {
		return black
	}
	return white
}

type opKind uint8

const (
	opText opKind = iota // x is the left end, y the baseline
	opFill
	opStamp // a text across the page, its middle at y, turned by h degrees
	opLogo
	opQR
)

// op is one thing on a page. Lengths are in points from the top left corner.
type op struct {
	kind       opKind
	x, y, w, h float64
	text       string
	style      style
}

// page is what is drawn on one sheet, in this order. Pages are laid out entirely before the first byte of the
// PDF is written: the number of pages is known, and tests can ask what lies where.
type page struct {
	w, h float64
	ops  []op
}

// piece is a text within a line, dx points from the column's left side.
type piece struct {
	dx, w float64
	text  string
	style
}

// line is one line of a column. It is never broken across pages; whatever is longer is more lines.
type line struct {
	height float64
	pieces []piece
	ground *rgb    // behind the line, as wide as the column
	rule   *rgb    // a hairline at its upper end
	mark   opKind  // opLogo or opQR, in the middle of the column and as high as the line
	wide   float64 // of the mark
}

// canvas lays lines out on pages.
type canvas struct {
	*fonts
	pages       []*page
	w, h        float64 // of a page
	left, width float64 // of what is printed
	bottom      float64 // where what is printed ends
	room        float64 // between the head and the bottom of a page that continues another
	y           float64
	head        func() // draws the head of a page and leaves y below it
}

func (c *canvas) page() *page { return c.pages[len(c.pages)-1] }

func (c *canvas) add(o op) {
	p := c.page()
	p.ops = append(p.ops, o)
}

func (c *canvas) newPage() {
	c.pages = append(c.pages, &page{w: c.w, h: c.h})
	c.head()
}

// need starts a page unless h points are left on this one. What is higher than a page starts on a new one too, and
// is to be broken by the caller.
func (c *canvas) need(h float64) {
	if c.y+h > c.bottom {
		c.newPage()
	}
}

// text draws a cleaned text with its baseline at y.
func (c *canvas) text(x, y float64, s string, st style) {
	if s != "" {
		c.add(op{kind: opText, x: x, y: y, w: c.fonts.width(s, st.size, st.bold), h: st.size, text: s, style: st})
	}
}

func (c *canvas) fill(x, y, w, h float64, ink rgb) {
	c.add(op{kind: opFill, x: x, y: y, w: w, h: h, style: style{ink: ink}})
}

// drawLine puts one line at x, y.
func (c *canvas) drawLine(l line, x, y, width float64) {
	if l.ground != nil {
		c.fill(x, y, width, l.height+0.25, *l.ground) // no seam to the next line
	}
	if l.rule != nil {
		c.fill(x, y, width, 0.5, *l.rule)
	}
	if l.wide > 0 {
		c.add(op{kind: l.mark, x: x + (width-l.wide)/2, y: y, w: l.wide, h: l.height})
	}
	size := 0.0
	for _, p := range l.pieces {
		size = max(size, p.size)
	}
	baseline := y + (l.height-size*(ascent+descent))/2 + size*ascent
	for _, p := range l.pieces {
		if p.text != "" {
			c.add(op{kind: opText, x: x + p.dx, y: baseline, w: p.w, h: p.size, text: p.text, style: p.style})
		}
	}
}

// strip draws lines one below the other from y on, without regard to the page's end.
func (c *canvas) strip(lines []line, x, y, width float64) {
	for _, l := range lines {
		c.drawLine(l, x, y, width)
		y += l.height
	}
}

// flow draws lines at y, onto further pages where they do not fit.
func (c *canvas) flow(lines []line, x, width float64) {
	for _, l := range lines {
		c.need(l.height)
		c.drawLine(l, x, c.y, width)
		c.y += l.height
	}
}

// keep is flow that starts a page rather than break what would fit on one.
func (c *canvas) keep(lines []line, x, width float64) {
	if h := height(lines); h <= c.room {
		c.need(h)
	}
	c.flow(lines, x, width)
}

// column is a strip with its place beside others.
type column struct {
	x, width float64
	lines    []line
}

// drawColumns draws columns side by side. If they do not fit on any page they follow one another.
func (c *canvas) drawColumns(columns ...column) {
	highest := 0.0
	for _, col := range columns {
		highest = max(highest, height(col.lines))
	}
	if highest > c.room {
		for _, col := range columns {
			c.need(48)
			c.flow(col.lines, col.x, col.width)
		}
		return
	}
	c.need(highest)
	for _, col := range columns {
		c.strip(col.lines, col.x, c.y, col.width)
	}
	c.y += highest
}

func height(lines []line) float64 {
	h := 0.0
	for _, l := range lines {
		h += l.height
	}
	return h
}

// gap is an empty line.
func gap(h float64) line { return line{height: h} }

// para sets a cleaned text as lines, aligned left (0), in the middle (0.5) or right (1).
func (f *fonts) para(s string, width, align float64, st style) []line {
	var out []line
	for _, t := range f.wrap(s, width, 0, st) {
		w := f.width(t, st.size, st.bold)
		out = append(out, line{height: st.size * leading, pieces: []piece{{dx: max(0, (width-w)*align), w: w, text: t, style: st}}})
	}
	return out
}

// labelled sets "label: value" as one paragraph, the label in bold.
func (f *fonts) labelled(label, value string, width float64, st style) []line {
	strong := st
	strong.bold = true
	label += ":"
	w := f.width(label, st.size, true)
	indent := w + f.width(" ", st.size, false)
	if indent > width*0.6 {
		return append(f.para(label, width, 0, strong), f.para(value, width, 0, st)...)
	}
	var out []line
	for i, t := range f.wrap(value, width, indent, st) {
		l := line{height: st.size * leading}
		dx := 0.0
		if i == 0 {
			l.pieces = append(l.pieces, piece{w: w, text: label, style: strong})
			dx = indent
		}
		l.pieces = append(l.pieces, piece{dx: dx, w: f.width(t, st.size, st.bold), text: t, style: st})
		out = append(out, l)
	}
	return out
}
