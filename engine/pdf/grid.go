package pdf

import "strings"

// Limits of a table's columns, in points.
const (
	cellPad   = 3
	cellSlack = 0.5 // against rounding: what was measured fits
	numberMax = 76  // a wider amount is set smaller
	textMax   = 180 // a longer text is wrapped
	flexMin   = 110 // of the column that takes the rest,
	flexPart  = 0.4 // which may ask for this part of the table
	sizeMin   = 4.5 // of a letter
)

// grid is a table with its columns measured.
type grid struct {
	*fonts
	table  table
	st     style
	widths []float64
}

// measure gives each column the width that its contents ask for, within limits, and the rest to the flexible one. If
// too little is left for that, columns of text are wrapped down to their longest word, and then all give way.
func (l *letterhead) measure(t table, total float64, st style) *grid {
	g := &grid{l.fonts, t, st, make([]float64, len(t.cols))}
	least := make([]float64, len(t.cols))
	flex, want, used, slack := -1, float64(flexMin), 0.0, 0.0
	head := g.headStyle()
	for i, c := range t.cols {
		if c.flex {
			flex = i
			for _, r := range t.rows {
				want = max(want, min(flexPart*total, g.width(r.cells[i], st.size, false)+2*cellPad))
			}
			continue
		}
		for w := range strings.FieldsSeq(c.head) {
			least[i] = max(least[i], g.width(w, head.size, true))
		}
		natural, most := g.width(c.head, head.size, true), float64(textMax)
		if c.numeric { // its heading is wrapped in any case
			natural, most = least[i], numberMax
		}
		for _, r := range t.rows {
			natural = max(natural, min(most, g.width(r.cells[i], st.size, false)))
			for w := range strings.FieldsSeq(r.cells[i]) {
				least[i] = max(least[i], min(most, g.width(w, st.size, false)))
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

func (g *grid) headStyle() style { return style{size: g.st.size - 0.9, bold: true, ink: grey} }

func (g *grid) header(ground *rgb) []line {
	st := g.headStyle()
	if ground != nil {
		st.ink = ground.readableInk()
	}
	var cells [][]line
	for i, c := range g.table.cols {
		align := 0.0
		if c.numeric {
			align = 1
		}
		cells = append(cells, g.para(c.head, g.widths[i]-2*cellPad, align, st))
	}
	out := g.merge(cells, 2.5)
	for i := range out {
		out[i].ground = ground
	}
	return out
}

// row is one row, as many lines as its longest cell.
func (g *grid) row(r row) []line {
	var cells [][]line
	for i, c := range g.table.cols {
		w := g.widths[i] - 2*cellPad
		st := g.st
		align := 0.0
		if c.numeric {
			align = 1
			if n := g.width(r.cells[i], st.size, false); n > w {
				st.size = max(sizeMin, st.size*w/n*0.999)
			}
		}
		cell := g.para(r.cells[i], w, align, st)
		if c.flex {
			for _, n := range r.notes {
				cell = append(cell, g.para(n, w, 0, style{size: g.st.size - 1.1, ink: grey})...)
			}
		}
		cells = append(cells, cell)
	}
	out := g.merge(cells, 2)
	out[0].rule = &hair
	return out
}

// merge sets cells beside each other as lines that can be broken between pages, with a space above and below.
func (g *grid) merge(cells [][]line, pad float64) []line {
	out := []line{gap(pad)}
	for n := 0; ; n++ {
		var l line
		x := 0.0
		for i, cell := range cells {
			if n < len(cell) {
				l.height = max(l.height, cell[n].height)
				for _, p := range cell[n].pieces {
					p.dx += x + cellPad
					l.pieces = append(l.pieces, p)
				}
			}
			x += g.widths[i]
		}
		if l.height == 0 {
			return append(out, gap(pad))
		}
		out = append(out, l)
	}
}

// grid draws a table, its headings again on every page. A row that fits on a page is not broken.
func (l *letterhead) grid(t table, x, width float64, ground *rgb) {
	c := l.c
	g := l.measure(t, width, style{size: 7.4, ink: black})
	header := g.header(ground)
	again := c.head
	first := 0.0 // with the headings goes the first row
	if len(t.rows) > 0 {
		first = min(height(g.row(t.rows[0])), c.room/2)
	}
	c.need(height(header) + first)
	c.flow(header, x, width)
	c.head = func() {
		again()
		c.strip(header, x, c.y, width)
		c.y += height(header)
	}
	room := c.room
	c.room -= height(header)
	for _, r := range t.rows {
		c.keep(g.row(r), x, width)
		l.v.pause()
	}
	c.head, c.room = again, room
	c.need(1)
	c.fill(x, c.y, width, 0.5, hair)
}
