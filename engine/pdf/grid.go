package pdf

import (
	"strings"

	"dtegate/engine/pdf/sheet"
	"dtegate/engine/pdf/view"
)

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
	*sheet.Fonts
	table  view.Table
	st     sheet.Style
	widths []float64
}

// measure gives each column the width that its contents ask for, within limits, and the rest to the flexible one. If
// too little is left for that, columns of text are wrapped down to their longest word, and then all give way.
func (l *letterhead) measure(t view.Table, total float64, st sheet.Style) *grid {
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
		if c.Numeric { // its heading is wrapped in any case
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
	return sheet.Style{Size: g.st.Size - 0.9, Bold: true, Ink: sheet.Grey}
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

// row is one row, as many lines as its longest cell.
func (g *grid) row(r view.Row) []sheet.Line {
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
				cell = append(cell, g.Para(n, w, 0, sheet.Style{Size: g.st.Size - 1.1, Ink: sheet.Grey})...)
			}
		}
		cells = append(cells, cell)
	}
	out := g.merge(cells, 2)
	out[0].Rule = &sheet.Hair
	return out
}

// merge sets cells beside each other as lines that can be broken between pages, with a space above and below.
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

// grid draws a table, its headings again on every page. A row that fits on a page is not broken.
func (l *letterhead) grid(t view.Table, x, width float64, ground *sheet.RGB) {
	c := l.c
	g := l.measure(t, width, sheet.Style{Size: 7.4, Ink: sheet.Black})
	header := g.header(ground)
	again := c.Head
	first := 0.0 // with the headings goes the first row
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
