package pdf

import (
	"fmt"
	"io"
	"strings"
	"time"

	"dtegate/engine/pdf/sheet"
)

// Book is a table of many rows with the heading that the law requires on each folio of a VAT book (regulation of the
// Tax Code, art. 82): title, name and NRC of the taxpayer, month, number of the folio.
type Book struct {
	Title   string
	Heading []string // below the title: taxpayer, NRC, month
	Columns []string
	Right   []bool // true for columns of amounts, aligned right
	Rows    [][]string
	Total   []string   // the line of totals; nil: it is in a later volume
	Summary [][]string // after the totals: a text, then amounts; a line of one empty text is a gap
	Folio   int        // number of the first page
	At      time.Time  // creation date in the PDF; the same book gives the same bytes
}

// Measures of a book in points: legal size, landscape.
const (
	bookW, bookH = 1008, 612
	bookMargin   = 36
	bookPad      = 3
	bookText     = 170 // greatest width of a column of text; longer texts are wrapped
	bookSummary  = 230 // width of the summary's texts
	bookAmount   = 90  // width of each of the summary's amounts
)

var (
	bookBody   = sheet.Plain(6.4, sheet.Black)
	bookStrong = sheet.Strong(6.4, sheet.Black)
)

// Book draws a book and returns how many pages it has.
func (p *Printer) Book(w io.Writer, b Book) (pages int, err error) {
	c := &sheet.Canvas{Fonts: p.fonts, W: bookW, H: bookH, Left: bookMargin, Width: bookW - 2*bookMargin,
		Bottom: bookH - bookMargin}
	d := &bookDrawer{Printer: p, b: b, c: c}
	d.measure()
	c.Head = d.head
	c.NewPage()
	c.Room = c.Bottom - c.Y
	for _, row := range b.Rows {
		d.row(row, bookBody)
	}
	if b.Total != nil {
		d.rule()
		d.row(b.Total, bookStrong)
		d.rule()
		d.summary()
	}
	f := sheet.File{Title: b.Title + " " + strings.Join(b.Heading, " · "), Made: b.At, Pages: c.Pages, Logo: p.logo,
		Pause: func() {}}
	if err := p.fonts.Write(w, f); err != nil {
		return 0, err
	}
	return len(c.Pages), nil
}

type bookDrawer struct {
	*Printer
	b      Book
	c      *sheet.Canvas
	widths []float64
}

// measure gives each column the width of its widest cell. If the sum is too wide, it narrows columns of text.
func (d *bookDrawer) measure() {
	n := len(d.b.Columns)
	need := make([]float64, n)
	see := func(cells []string, st sheet.Style) {
		for i := 0; i < min(n, len(cells)); i++ {
			need[i] = max(need[i], d.fonts.Width(d.cellText(i, cells[i]), st.Size, st.Bold))
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
		for word := range strings.FieldsSeq(d.fonts.Clean(name)) {
			need[i] = max(need[i], d.fonts.Width(word, bookStrong.Size, true))
		}
		if !d.alignedRight(i) {
			need[i] = min(need[i], bookText)
		}
		need[i] += 2*bookPad + cellSlack
		sum += need[i]
	}
	for room := d.c.Width; sum > room+0.01; { // narrow the widest column of text first
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
	if spare := d.c.Width - sum; spare > 0 {
		for i := range need {
			need[i] += spare / float64(n)
		}
	}
	d.widths = need
}

func (d *bookDrawer) alignedRight(i int) bool { return i < len(d.b.Right) && d.b.Right[i] }

// cellText returns the drawn text of a cell: amounts with separated thousands.
func (d *bookDrawer) cellText(i int, cell string) string {
	if d.alignedRight(i) {
		cell = Printed(cell, 0)
	}
	return d.fonts.Clean(cell)
}

// head draws the head of every folio.
func (d *bookDrawer) head() {
	c := d.c
	folio := fmt.Sprintf("Folio %d", d.b.Folio+len(c.Pages)-1)
	c.Text(c.Left, bookMargin+10, d.fonts.Clean(d.b.Title), sheet.Strong(11, d.ink))
	c.Text(c.Left+c.Width-d.fonts.Width(folio, 8, true), bookMargin+10, folio, sheet.Strong(8, sheet.Black))
	c.Text(c.Left, bookMargin+22, c.Fonts.Ellipsis(d.fonts.Clean(strings.Join(d.b.Heading, "   ·   ")), c.Width, body),
		body)
	c.Y = bookMargin + 30
	d.cells(d.b.Columns, bookStrong, d.ink.Tint(0.1))
}

func (d *bookDrawer) row(cells []string, st sheet.Style) { d.cells(cells, st, sheet.White) }

// cells draws a row of the table, as high as its highest cell.
func (d *bookDrawer) cells(cells []string, st sheet.Style, ground sheet.RGB) {
	c := d.c
	lines := make([][]string, min(len(cells), len(d.widths)))
	most := 1
	for i := range lines {
		lines[i] = c.Fonts.Wrap(d.cellText(i, cells[i]), d.widths[i]-2*bookPad, 0, st)
		most = max(most, len(lines[i]))
	}
	h := float64(most)*st.Size*sheet.Leading + 2
	if ground == sheet.White { // otherwise it is the head: the page has just begun
		c.Need(h)
	}
	if ground != sheet.White {
		c.Fill(c.Left, c.Y, c.Width, h, ground)
	}
	x := c.Left
	for i, texts := range lines {
		for k, t := range texts {
			at := x + bookPad
			if d.alignedRight(i) {
				at = x + d.widths[i] - bookPad - c.Fonts.Width(t, st.Size, st.Bold)
			}
			c.Text(at, c.Y+1+st.Size*sheet.Ascent+float64(k)*st.Size*sheet.Leading, t, st)
		}
		x += d.widths[i]
	}
	c.Y += h
	c.Fill(c.Left, c.Y-0.25, c.Width, 0.25, sheet.Hair)
}

func (d *bookDrawer) rule() { d.c.Fill(d.c.Left, d.c.Y, d.c.Width, 0.7, sheet.Black) }

// summary draws the lines after the totals, and the line for the signature.
func (d *bookDrawer) summary() {
	c := d.c
	line := bookBody.Size*sheet.Leading + 2
	c.Y += 8
	for i, cells := range d.b.Summary {
		if i+1 == len(d.b.Summary) { // the signature
			c.Need(48)
			c.Y += 32
			c.Fill(c.Left, c.Y, bookSummary, 0.7, sheet.Black)
			c.Text(c.Left, c.Y+10, d.fonts.Clean(cells[0]), bookBody)
			c.Y += 14
			return
		}
		c.Need(line)
		st := bookBody
		if len(cells) == 1 || i > 0 && len(d.b.Summary[i-1]) == 1 && d.b.Summary[i-1][0] == "" {
			st = bookStrong
		}
		for k, t := range cells {
			t = d.fonts.Clean(t)
			if k == 0 {
				c.Text(c.Left, c.Y+bookBody.Size, c.Fonts.Ellipsis(t, bookSummary, st), st)
				continue
			}
			t = Printed(t, 0)
			right := c.Left + bookSummary + float64(k)*bookAmount
			c.Text(right-c.Fonts.Width(t, st.Size, st.Bold), c.Y+bookBody.Size, t, st)
		}
		c.Y += line
	}
}

// Limits of a table's columns, in points.
const (
	cellPad   = 3
	cellSlack = 0.5 // against rounding errors: a measured text fits
	numberMax = 76  // a wider amount is drawn in a smaller size
	textMax   = 180 // a longer text is wrapped
	flexMin   = 110 // least width of the flexible column,
	flexPart  = 0.4 // which may claim this part of the table
	sizeMin   = 4.5 // smallest size of a letter
)

// grid is a table with its columns measured.
type grid struct {
	*sheet.Fonts
	table  Table
	st     sheet.Style
	widths []float64
}

// measure gives each column the width of its contents, within limits, and the rest to the flexible column. If the rest
// is too narrow, measure narrows columns of text down to their longest word, and then all columns.
func (l *letterhead) measure(t Table, total float64, st sheet.Style) *grid {
	g := &grid{l.fonts, t, st, make([]float64, len(t.Cols))}
	least := make([]float64, len(t.Cols))
	flex, want, used, slack := -1, float64(flexMin), 0.0, 0.0
	head := g.headStyle()
	for i, c := range t.Cols {
		if c.Flex {
			flex = i
			for _, r := range t.Rows {
				want = max(want, min(flexPart*total, g.Width(r.Cells[i], st.Size, false)+2*cellPad))
			}
			continue
		}
		for w := range strings.FieldsSeq(c.Head) {
			least[i] = max(least[i], g.Width(w, head.Size, true))
		}
		natural, most := g.Width(c.Head, head.Size, true), float64(textMax)
		if c.Numeric { // the heading of a numeric column is always wrapped
			natural, most = least[i], numberMax
		}
		for _, r := range t.Rows {
			natural = max(natural, min(most, g.Width(r.Cells[i], st.Size, false)))
			for w := range strings.FieldsSeq(r.Cells[i]) {
				least[i] = max(least[i], min(most, g.Width(w, st.Size, false)))
			}
		}
		g.widths[i], least[i] = natural+2*cellPad+cellSlack, least[i]+2*cellPad+cellSlack
		used += g.widths[i]
		slack += g.widths[i] - least[i]
	}
	if flex < 0 {
		return g
	}
	if over := used + want - total; over > 0 && slack > 0 {
		part := min(1, over/slack)
		for i := range g.widths {
			g.widths[i] -= (g.widths[i] - least[i]) * part
		}
		used -= slack * part
	}
	if room := total - flexMin; used > room {
		for i := range g.widths {
			g.widths[i] *= room / used
		}
		used = room
	}
	g.widths[flex] = total - used
	return g
}

func (g *grid) headStyle() sheet.Style {
	return sheet.Strong(g.st.Size-0.9, sheet.Grey)
}

func (g *grid) header(ground *sheet.RGB) []sheet.Line {
	st := g.headStyle()
	if ground != nil {
		st.Ink = ground.ReadableInk()
	}
	var cells [][]sheet.Line
	for i, c := range g.table.Cols {
		align := 0.0
		if c.Numeric {
			align = 1
		}
		cells = append(cells, g.Para(c.Head, g.widths[i]-2*cellPad, align, st))
	}
	out := g.merge(cells, 2.5)
	for i := range out {
		out[i].Ground = ground
	}
	return out
}

// row returns the lines of one row, as many as its longest cell has.
func (g *grid) row(r Row) []sheet.Line {
	var cells [][]sheet.Line
	for i, c := range g.table.Cols {
		w := g.widths[i] - 2*cellPad
		st := g.st
		align := 0.0
		if c.Numeric {
			align = 1
			if n := g.Width(r.Cells[i], st.Size, false); n > w {
				st.Size = max(sizeMin, st.Size*w/n*0.999)
			}
		}
		cell := g.Para(r.Cells[i], w, align, st)
		if c.Flex {
			for _, n := range r.Notes {
				cell = append(cell, g.Para(n, w, 0, sheet.Plain(g.st.Size-1.1, sheet.Grey))...)
			}
		}
		cells = append(cells, cell)
	}
	out := g.merge(cells, 2)
	out[0].Rule = &sheet.Hair
	return out
}

// merge joins cells side by side into lines, with a space above and below. A page may break between the lines.
func (g *grid) merge(cells [][]sheet.Line, pad float64) []sheet.Line {
	out := []sheet.Line{sheet.Gap(pad)}
	for n := 0; ; n++ {
		var l sheet.Line
		x := 0.0
		for i, cell := range cells {
			if n < len(cell) {
				l.Height = max(l.Height, cell[n].Height)
				for _, p := range cell[n].Pieces {
					p.DX += x + cellPad
					l.Pieces = append(l.Pieces, p)
				}
			}
			x += g.widths[i]
		}
		if l.Height == 0 {
			return append(out, sheet.Gap(pad))
		}
		out = append(out, l)
	}
}

// grid draws a table and repeats its headings on every page. A row that fits on a page is not broken.
func (l *letterhead) grid(t Table, x, width float64, ground *sheet.RGB) {
	c := l.c
	g := l.measure(t, width, sheet.Plain(7.4, sheet.Black))
	header := g.header(ground)
	again := c.Head
	first := 0.0 // the headings stay with the first row
	if len(t.Rows) > 0 {
		first = min(sheet.Height(g.row(t.Rows[0])), c.Room/2)
	}
	c.Need(sheet.Height(header) + first)
	c.Flow(header, x, width)
	c.Head = func() {
		again()
		c.Strip(header, x, c.Y, width)
		c.Y += sheet.Height(header)
	}
	room := c.Room
	c.Room -= sheet.Height(header)
	for _, r := range t.Rows {
		c.Keep(g.row(r), x, width)
		l.v.Pause()
	}
	c.Head, c.Room = again, room
	c.Need(1)
	c.Fill(x, c.Y, width, 0.5, sheet.Hair)
}
