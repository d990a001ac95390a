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
	Total   []string   // the line of totals; nil: the totals are in a later volume
	Summary [][]string // lines after the totals: a text, then amounts; "" is a gap; the last line is for the signature
	Folio   int        // number of the first page
	At      time.Time  // creation date in the PDF; not the present time: the same book gives the same bytes
}

// Measures of a book in points: legal size, landscape.
const (
	bookW, bookH = 1008, 612
	bookMargin   = 36
	bookSummary  = 230 // width of the summary's texts
	bookAmount   = 90  // width of each of the summary's amounts
)

var (
	bookBody   = sheet.Plain(6.4, sheet.Black)
	bookStrong = sheet.Strong(6.4, sheet.Black)
)

// Book draws a book and returns how many pages it has.
func (p *Printer) Book(w io.Writer, b Book) (pages int, err error) {
	f := sheet.File{Title: b.Title + " " + strings.Join(b.Heading, " · "), Made: b.At, Pages: p.book(&b), Logo: p.logo,
		Pause: func() {}}
	return len(f.Pages), p.fonts.Write(w, f)
}

func (p *Printer) book(b *Book) []*sheet.Page {
	c := &sheet.Canvas{Fonts: p.fonts, W: bookW, H: bookH, Left: bookMargin, Width: bookW - 2*bookMargin,
		Bottom: bookH - bookMargin}
	l := &letterhead{p, new(View), c}
	c.Head = func() { // the head of every folio
		folio := fmt.Sprintf("Folio %d", b.Folio+len(c.Pages)-1)
		c.Text(c.Left, bookMargin+10, p.fonts.Clean(b.Title), sheet.Strong(11, p.ink))
		c.Text(c.Left+c.Width-p.fonts.Width(folio, 8, true), bookMargin+10, folio, sheet.Strong(8, sheet.Black))
		heading := p.fonts.Clean(strings.Join(b.Heading, "   ·   "))
		c.Text(c.Left, bookMargin+22, p.fonts.Ellipsis(heading, c.Width, body), body)
		c.Y = bookMargin + 30
	}
	c.NewPage()
	c.Room = c.Bottom - c.Y
	ground := p.ink.Tint(0.1)
	g := l.grid(b.table(p.fonts), c.Left, c.Width, &ground, bookBody)
	if b.Total != nil {
		g.st = bookStrong
		c.Keep(g.row(b.row(p.fonts, b.Total)), c.Left, c.Width)
		c.Fill(c.Left, c.Y, c.Width, 0.7, sheet.Black)
		l.reckoning(b.Summary)
	}
	return c.Pages
}

// table returns the rows of a book. The column with the longest text gets the rest of the width.
func (b *Book) table(fonts *sheet.Fonts) Table {
	t := Table{Cols: make([]Col, len(b.Columns)), Rows: make([]Row, len(b.Rows))}
	flex, longest := 0, -1
	for i, name := range b.Columns {
		t.Cols[i] = Col{Head: fonts.Clean(name), Numeric: i < len(b.Right) && b.Right[i]}
		for n := range b.Rows {
			if size := len(b.Rows[n][i]); !t.Cols[i].Numeric && size > longest {
				flex, longest = i, size
			}
		}
	}
	t.Cols[flex].Flex = true
	for n, cells := range b.Rows {
		t.Rows[n] = b.row(fonts, cells)
	}
	return t
}

// row returns the texts of a row as they are drawn. Amounts get commas between thousands.
func (b *Book) row(fonts *sheet.Fonts, cells []string) Row {
	r := Row{Cells: make([]string, len(cells))}
	for i, cell := range cells {
		if i < len(b.Right) && b.Right[i] {
			cell = Printed(cell, 0)
		}
		r.Cells[i] = fonts.Clean(cell)
	}
	return r
}

// reckoning draws the summary after the totals of a book, and the line for the signature.
func (l *letterhead) reckoning(summary [][]string) {
	c := l.c
	line := bookBody.Size*sheet.Leading + 2
	c.Y += 8
	for i, cells := range summary {
		if i+1 == len(summary) { // the signature
			c.Need(48)
			c.Y += 32
			c.Fill(c.Left, c.Y, bookSummary, 0.7, sheet.Black)
			c.Text(c.Left, c.Y+10, l.printer.fonts.Clean(cells[0]), bookBody)
			return
		}
		c.Need(line)
		st := bookBody
		if len(cells) == 1 || i > 0 && len(summary[i-1]) == 1 && summary[i-1][0] == "" {
			st = bookStrong
		}
		for k, t := range cells {
			t = l.printer.fonts.Clean(t)
			if k == 0 {
				c.Text(c.Left, c.Y+bookBody.Size, l.printer.fonts.Ellipsis(t, bookSummary, st), st)
				continue
			}
			t = Printed(t, 0)
			right := c.Left + bookSummary + float64(k)*bookAmount
			c.Text(right-l.printer.fonts.Width(t, st.Size, st.Bold), c.Y+bookBody.Size, t, st)
		}
		c.Y += line
	}
}

// Limits of a table's columns, in points.
const (
	cellPad   = 3
	cellSlack = 0.5 // lets a measured text fit despite rounding errors
	numberMax = 76  // a wider amount is drawn in a smaller size
	textMax   = 180 // a longer text is wrapped
	flexMin   = 110 // the smallest width of the flexible column
	flexPart  = 0.4 // the largest part of the table's width that the flexible column demands
	sizeMin   = 4.5 // smallest size of a letter
)

// grid is a table with its columns measured.
type grid struct {
	fonts  *sheet.Fonts
	table  Table
	st     sheet.Style
	widths []float64
}

// measure gives each column the width of its contents, within limits, and a flexible column the rest. If total is too
// small and there is a flexible column, the others shrink towards their longest words, and then all in proportion.
func (l *letterhead) measure(t Table, total float64, st sheet.Style) *grid {
	g := &grid{l.printer.fonts, t, st, make([]float64, len(t.Cols))}
	least := make([]float64, len(t.Cols))
	flex, want, used, slack := -1, float64(flexMin), 0.0, 0.0
	head := g.headStyle()
	for i, c := range t.Cols {
		if c.Flex {
			flex = i
			for _, r := range t.Rows {
				want = max(want, min(flexPart*total, g.fonts.Width(r.Cells[i], st.Size, false)+2*cellPad))
			}
			continue
		}
		for w := range strings.FieldsSeq(c.Head) {
			least[i] = max(least[i], g.fonts.Width(w, head.Size, true))
		}
		natural, most := g.fonts.Width(c.Head, head.Size, true), float64(textMax)
		if c.Numeric { // the heading of a numeric column is always wrapped
			natural, most = least[i], numberMax
		}
		for _, r := range t.Rows {
			natural = max(natural, min(most, g.fonts.Width(r.Cells[i], st.Size, false)))
			for w := range strings.FieldsSeq(r.Cells[i]) {
				least[i] = max(least[i], min(most, g.fonts.Width(w, st.Size, false)))
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
		cells = append(cells, g.fonts.Para(c.Head, g.widths[i]-2*cellPad, c.align(), st))
	}
	return inset(g.merge(cells, 2.5), 0, ground)
}

// row returns the lines of one row, as many as its longest cell has.
func (g *grid) row(r Row) []sheet.Line {
	var cells [][]sheet.Line
	for i, c := range g.table.Cols {
		w := g.widths[i] - 2*cellPad
		st := g.st
		if c.Numeric {
			if n := g.fonts.Width(r.Cells[i], st.Size, st.Bold); n > w {
				st.Size = max(sizeMin, st.Size*w/n*0.999)
			}
		}
		cell := g.fonts.Para(r.Cells[i], w, c.align(), st)
		if c.Flex {
			for _, n := range r.Notes {
				cell = append(cell, g.fonts.Para(n, w, 0, sheet.Plain(g.st.Size-1.1, sheet.Grey))...)
			}
		}
		cells = append(cells, cell)
	}
	out := g.merge(cells, 2)
	out[0].Rule = &sheet.Hair
	return out
}

// merge joins cells side by side into lines, with a space of pad above and below. A page may break between the lines.
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
func (l *letterhead) grid(t Table, x, width float64, ground *sheet.RGB, st sheet.Style) *grid {
	c := l.c
	g := l.measure(t, width, st)
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
	return g
}
