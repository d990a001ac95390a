package pdf

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Book is a table of many rows with what the law wants on each folio of a VAT book (regulation of the Tax Code, art. 82): title,
// name and NRC of the taxpayer, month, number of the folio.
type Book struct {
	Title   string
	Heading []string // below the title: who, NRC, month
	Columns []string
	Right   []bool // columns of amounts
	Rows    [][]string
	Total   []string   // the line of totals; nil: it comes in a later volume
	Summary [][]string // behind the totals: a text, then amounts; a line of one empty text is a gap
	Folio   int        // number of the first page
	At      time.Time  // what the PDF says of its making; the same book gives the same bytes
}

// Measures of a book: legal size, across, in points.
const (
	bookW, bookH = 1008, 612
	bookMargin   = 36
	bookPad      = 3
	bookText     = 170 // a column of text is no wider; longer texts are wrapped
	bookSummary  = 230 // of the summary's texts
	bookAmount   = 90  // of its amounts
)

var (
	bookBody   = style{size: 6.4, ink: black}
	bookStrong = style{size: 6.4, bold: true, ink: black}
)

// Book draws a book and returns how many pages it has.
func (p *Printer) Book(w io.Writer, b Book) (pages int, err error) {
	c := &canvas{fonts: p.fonts, w: bookW, h: bookH, left: bookMargin, width: bookW - 2*bookMargin, bottom: bookH - bookMargin}
	d := &bookDrawer{Printer: p, b: b, c: c}
	d.measure()
	c.head = d.head
	c.newPage()
	c.room = c.bottom - c.y
	for _, row := range b.Rows {
		d.row(row, bookBody)
	}
	if b.Total != nil {
		d.rule()
		d.row(b.Total, bookStrong)
		d.rule()
		d.summary()
	}
	v := &view{title: b.Title, code: strings.Join(b.Heading, " · "), issued: b.At}
	if err := p.emit(w, v, c.pages, nil); err != nil {
		return 0, err
	}
	return len(c.pages), nil
}

type bookDrawer struct {
	*Printer
	b      Book
	c      *canvas
	widths []float64
}

// measure gives each column what its widest cell needs; where that is too much, columns of text wrap.
func (d *bookDrawer) measure() {
	n := len(d.b.Columns)
	need := make([]float64, n)
	see := func(cells []string, st style) {
		for i := 0; i < min(n, len(cells)); i++ {
			need[i] = max(need[i], d.fonts.width(d.cellText(i, cells[i]), st.size, st.bold))
		}
	}
	for _, row := range d.b.Rows {
		see(row, bookBody)
	}
	if d.b.Total != nil {
		see(d.b.Total, bookStrong)
	}
	sum := 0.0
	for i, name := range d.b.Columns {
		for word := range strings.FieldsSeq(d.fonts.clean(name)) {
			need[i] = max(need[i], d.fonts.width(word, bookStrong.size, true))
		}
		if !d.alignedRight(i) {
			need[i] = min(need[i], bookText)
		}
		need[i] += 2*bookPad + cellSlack
		sum += need[i]
	}
	for room := d.c.width; sum > room+0.01; { // the widest text gives way first
		widest := -1
		for i := range need {
			if !d.alignedRight(i) && (widest < 0 || need[i] > need[widest]) {
				widest = i
			}
		}
		if widest < 0 || need[widest] < 30 {
			break
		}
		cut := min(10, sum-room)
		need[widest] -= cut
		sum -= cut
	}
	if spare := d.c.width - sum; spare > 0 {
		for i := range need {
			need[i] += spare / float64(n)
		}
	}
	d.widths = need
}

func (d *bookDrawer) alignedRight(i int) bool { return i < len(d.b.Right) && d.b.Right[i] }

// cellText is a cell as it is drawn: amounts with their thousands apart.
func (d *bookDrawer) cellText(i int, cell string) string {
	if d.alignedRight(i) {
		cell = printed(cell, 0)
	}
	return d.fonts.clean(cell)
}

// head draws what stands on every folio.
func (d *bookDrawer) head() {
	c := d.c
	folio := fmt.Sprintf("Folio %d", d.b.Folio+len(c.pages)-1)
	c.text(c.left, bookMargin+10, d.fonts.clean(d.b.Title), style{11, true, d.ink})
	c.text(c.left+c.width-d.fonts.width(folio, 8, true), bookMargin+10, folio, style{8, true, black})
	c.text(c.left, bookMargin+22, c.ellipsis(d.fonts.clean(strings.Join(d.b.Heading, "   ·   ")), c.width, body), body)
	c.y = bookMargin + 30
	d.cells(d.b.Columns, bookStrong, d.ink.tint(0.1))
}

func (d *bookDrawer) row(cells []string, st style) { d.cells(cells, st, white) }

// cells draws a line of the table, as high as its highest cell.
func (d *bookDrawer) cells(cells []string, st style, ground rgb) {
	c := d.c
	lines := make([][]string, min(len(cells), len(d.widths)))
	most := 1
	for i := range lines {
		lines[i] = c.wrap(d.cellText(i, cells[i]), d.widths[i]-2*bookPad, 0, st)
		most = max(most, len(lines[i]))
	}
	h := float64(most)*st.size*leading + 2
	if ground == white { // else it is the head, which begins a page itself
		c.need(h)
	}
	if ground != white {
		c.fill(c.left, c.y, c.width, h, ground)
	}
	x := c.left
	for i, texts := range lines {
		for k, t := range texts {
			at := x + bookPad
			if d.alignedRight(i) {
				at = x + d.widths[i] - bookPad - c.fonts.width(t, st.size, st.bold)
			}
			c.text(at, c.y+1+st.size*ascent+float64(k)*st.size*leading, t, st)
		}
		x += d.widths[i]
	}
	c.y += h
	c.fill(c.left, c.y-0.25, c.width, 0.25, hair)
}

func (d *bookDrawer) rule() { d.c.fill(d.c.left, d.c.y, d.c.width, 0.7, black) }

// summary draws what follows the totals, and the line to sign on.
func (d *bookDrawer) summary() {
	c := d.c
	line := bookBody.size*leading + 2
	c.y += 8
	for i, cells := range d.b.Summary {
		if i+1 == len(d.b.Summary) { // the signature
			c.need(48)
			c.y += 32
			c.fill(c.left, c.y, bookSummary, 0.7, black)
			c.text(c.left, c.y+10, d.fonts.clean(cells[0]), bookBody)
			c.y += 14
			return
		}
		c.need(line)
		st := bookBody
		if len(cells) == 1 || i > 0 && len(d.b.Summary[i-1]) == 1 && d.b.Summary[i-1][0] == "" {
			st = bookStrong
		}
		for k, t := range cells {
			t = d.fonts.clean(t)
			if k == 0 {
				c.text(c.left, c.y+bookBody.size, c.ellipsis(t, bookSummary, st), st)
				continue
			}
			t = printed(t, 0)
			right := c.left + bookSummary + float64(k)*bookAmount
			c.text(right-c.fonts.width(t, st.size, st.bold), c.y+bookBody.size, t, st)
		}
		c.y += line
	}
}
