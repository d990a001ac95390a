package pdf

import (
	"fmt"
	"strings"

	"dtegate/engine/pdf/sheet"
)

// Measures of the letter layout, in points.
const (
	letterW, letterH = 612, 792
	margin           = 40
	footing          = 30 // height of the foot above the lower margin
	qrSide           = 96 // 34 mm
	gutter           = 18
)

var (
	body  = sheet.Plain(8, sheet.Black)
	cells = sheet.Plain(7.4, sheet.Black) // texts of tables
	small = sheet.Plain(7, sheet.Grey)
	micro = sheet.Plain(6.2, sheet.Grey)
)

func (p *Printer) letter(v *View) []*sheet.Page {
	c := &sheet.Canvas{Fonts: p.fonts, W: letterW, H: letterH, Left: margin, Width: letterW - 2*margin}
	c.Bottom = letterH - margin - footing + 8
	l := &letterhead{p, v, c}
	c.Head, c.Room = l.first, c.Bottom-margin-36
	c.NewPage()
	c.Head = l.drawLaterHead

	l.identification()
	l.marks()
	l.parties()
	for _, g := range v.Groups {
		l.heading(g.Title)
		l.grid(g, c.Left, c.Width, nil, cells)
		c.Y += 8
	}
	if len(v.Items.Rows) > 0 {
		l.grid(v.Items, c.Left, c.Width, &p.ink, cells)
		c.Y += 8
	}
	l.closing()
	for i, pg := range c.Pages {
		l.foot(pg, i+1, len(c.Pages))
	}
	return c.Pages
}

type letterhead struct {
	printer *Printer
	v       *View
	c       *sheet.Canvas
}

func (l *letterhead) first() {
	c := l.c
	right := c.Left + c.Width
	c.Y = margin
	x := c.Left
	if l.printer.logo != nil {
		w, h := l.printer.logo.Fit(130, 52)
		c.Add(sheet.Op{Kind: sheet.OpLogo, X: x, Y: c.Y, W: w, H: h})
		x += w + 12
	}
	title, titleW := l.headline()
	c.Strip(title, right-titleW, c.Y, titleW)
	name := l.brand(right - titleW - gutter - x)
	c.Strip(name, x, c.Y, 0)
	least := 34.0
	if l.printer.logo != nil {
		least = 56
	}
	c.Y += max(least, sheet.Height(title), sheet.Height(name)) + 4
	c.Fill(c.Left, c.Y, c.Width, 2, l.printer.ink)
	c.Y += 10
}

func (l *letterhead) headline() ([]sheet.Line, float64) {
	const most = 232
	kind := sheet.Strong(7.5, sheet.Grey)
	st := sheet.Strong(12, sheet.Black)
	version := "Ver. " + l.printer.fonts.Ellipsis(l.v.Version, 60, small)
	title := l.printer.fonts.Ellipsis(l.v.Title, 2*most-80, st)
	w := min(most, max(l.printer.fonts.Width(version, small.Size, false), l.printer.fonts.Width(title, st.Size, true),
		l.printer.fonts.Width(l.v.Kind, kind.Size, true))+1)
	lines := l.printer.fonts.Para(l.v.Kind, w, 1, kind)
	lines = append(lines, sheet.Gap(2))
	lines = append(lines, l.printer.fonts.Para(title, w, 1, st)...)
	lines = append(lines, sheet.Gap(1))
	return append(lines, l.printer.fonts.Para(version, w, 1, small)...), w
}

// brand returns the emisor's names, the first in the largest letters that fit. Another block shows cut names in full.
func (l *letterhead) brand(w float64) []sheet.Line {
	name, sub := l.v.Emisor.Trade, l.v.Emisor.Name
	if name == "" {
		name, sub = sub, ""
	}
	st := sheet.Strong(15, l.printer.ink)
	for st.Size > 10 && l.printer.fonts.Width(name, st.Size, true) > w {
		st.Size--
	}
	lines := l.printer.fonts.Para(name, w, 0, st)
	if len(lines) > 2 {
		lines = l.printer.fonts.Para(l.printer.fonts.Ellipsis(name, w, st), w, 0, st)
	}
	if sub != "" {
		st = sheet.Plain(8, sheet.Grey)
		lines = append(lines, l.printer.fonts.Para(l.printer.fonts.Ellipsis(sub, w, st), w, 0, st)...)
	}
	return lines
}

// identification draws the codes and the facts in two columns, with the QR code to their right.
func (l *letterhead) identification() {
	c, v := l.c, l.v
	room := c.Width - qrSide - gutter
	wide := room * 0.56
	set := func(fields Fields, w float64, bold bool) (lines []sheet.Line) {
		for _, f := range fields {
			lines = append(lines, c.Fonts.Para(f.Label, w, 0, micro)...)
			lines = append(lines, c.Fonts.Para(f.Value, w, 0, sheet.Style{Size: 8.2, Bold: bold, Ink: sheet.Black})...)
			lines = append(lines, sheet.Gap(4))
		}
		return lines
	}
	x, y := c.Left+c.Width-qrSide, c.Y-6
	c.Add(sheet.Op{Kind: sheet.OpQR, X: x, Y: y, W: qrSide, H: qrSide})
	c.Strip(c.Fonts.Para(l.v.Consult, qrSide, 0.5, micro), x, y+qrSide, qrSide)
	c.DrawColumns(
		sheet.Column{X: c.Left, Width: wide - 10, Lines: append(set(v.Codes, wide-10, true), set(v.Received, wide-10,
			false)...)},
		sheet.Column{X: c.Left + wide, Width: room - wide, Lines: set(v.Facts, room-wide, false)},
	)
	if len(c.Pages) == 1 {
		c.Y = max(c.Y, y+qrSide+12)
	}
	c.Y += 4
}

func (l *letterhead) drawLaterHead() {
	c, v := l.c, l.v
	half := c.Width/2 - gutter/2
	c.Y = margin
	side := func(text string, x, align float64, st sheet.Style) {
		c.Strip(c.Fonts.Para(c.Fonts.Ellipsis(text, half, st), half, align, st), x, c.Y, half)
	}
	side(v.Emisor.Name, c.Left, 0, sheet.Strong(9, l.printer.ink))
	side(v.Title, c.Left+c.Width-half, 1, sheet.Strong(9, sheet.Black))
	codes := "Código de generación " + v.Code
	if v.Control != "" {
		codes += "   ·   Número de control " + v.Control
	}
	c.Strip(c.Fonts.Para(c.Fonts.Ellipsis(codes, c.Width, small), c.Width, 0, small), c.Left, c.Y+12, c.Width)
	c.Fill(c.Left, c.Y+24, c.Width, 1, l.printer.ink)
	c.Y += 36
}

// marks draws the marks that a reader must not miss: test document, contingency, invalidated document.
func (l *letterhead) marks() {
	c, v := l.c, l.v
	box := func(title string, text []string, ink sheet.RGB) {
		ground := ink.Tint(0.1)
		lines := []sheet.Line{sheet.Gap(5)}
		lines = append(lines, c.Fonts.Para(title, c.Width-20, 0, sheet.Strong(9, ink))...)
		for _, t := range text {
			lines = append(lines, c.Fonts.Para(t, c.Width-20, 0, sheet.Plain(7.5, sheet.Black))...)
		}
		lines = append(lines, sheet.Gap(5))
		c.Keep(inset(lines, 10, &ground), c.Left, c.Width)
		c.Y += 8
	}
	if v.Trial {
		box(isTrial, nil, sheet.RGB{R: 60, G: 66, B: 80})
	}
	switch v.State {
	case Contingency:
		box(inContingency+"  ·  MODELO DE FACTURACIÓN DIFERIDO", []string{v.Legend}, sheet.RGB{R: 150, G: 84, B: 0})
	case Invalidated:
		box(isVoid, v.Note, sheet.Red)
	}
}

func (l *letterhead) parties() {
	c, v := l.c, l.v
	half := (c.Width - gutter) / 2
	var columns []sheet.Column
	for i, p := range []Party{v.Emisor, v.Receptor} {
		lines := l.title(p.Heading, half)
		lines = append(lines, c.Fonts.Para(p.Name, half, 0, sheet.Strong(9, sheet.Black))...)
		if p.Trade != "" {
			lines = append(lines, c.Fonts.Para(p.Trade, half, 0, body)...)
		}
		lines = append(lines, sheet.Gap(2))
		for _, f := range p.Fields {
			lines = append(lines, c.Fonts.Labelled(f.Label, f.Value, half, sheet.Plain(7.6, sheet.Black))...)
		}
		columns = append(columns, sheet.Column{X: c.Left + float64(i)*(half+gutter), Width: half, Lines: lines})
	}
	c.DrawColumns(columns...)
	c.Y += 10
}

func (l *letterhead) title(s string, width float64) []sheet.Line {
	lines := l.printer.fonts.Para(strings.ToUpper(s), width, 0, sheet.Strong(7.2, l.printer.ink))
	return append(lines, sheet.Gap(1.5), sheet.Line{Height: 5, Rule: &sheet.Hair})
}

// heading draws a heading, on a new page if too little room is left for it and some text.
func (l *letterhead) heading(s string) {
	l.c.Need(64)
	l.c.Flow(l.title(s, l.c.Width), l.c.Left, l.c.Width)
}

// closing draws the amounts at the right, words and terms to their left, and the other blocks below.
func (l *letterhead) closing() {
	c, v := l.c, l.v
	const totalsW = 236
	leftW := c.Width - totalsW - gutter
	totals := l.totals(totalsW)
	var beside []sheet.Line
	limit := max(sheet.Height(totals), 120)
	blocks := []func(w float64) []sheet.Line{
		func(w float64) []sheet.Line { return l.block("Valor en letras", w, nil, v.Words) },
		func(w float64) []sheet.Line { return l.block("Condiciones", w, v.Terms) },
		func(w float64) []sheet.Line { return l.payments(w) },
		func(w float64) []sheet.Line { return l.block("Observaciones", w, nil, v.Observations...) },
		func(w float64) []sheet.Line { return l.block("Entrega", w, v.Delivery) },
		func(w float64) []sheet.Line { return l.block("Apéndice", w, v.Appendix) },
	}
	for len(blocks) > 0 {
		lines := blocks[0](leftW)
		if sheet.Height(beside)+sheet.Height(lines) > limit {
			break
		}
		beside = append(beside, lines...)
		blocks = blocks[1:]
	}
	c.DrawColumns(sheet.Column{X: c.Left, Width: leftW, Lines: beside}, sheet.Column{X: c.Left + leftW + gutter,
		Width: totalsW, Lines: totals})
	c.Y += 8
	for _, b := range blocks {
		if lines := b(c.Width); len(lines) > 0 {
			c.Keep(lines, c.Left, c.Width)
		}
	}
}

// block returns a heading and the fields or paragraphs below it; nil if all are empty.
func (l *letterhead) block(heading string, w float64, fields Fields, texts ...string) []sheet.Line {
	var lines []sheet.Line
	for _, f := range fields {
		lines = append(lines, l.printer.fonts.Labelled(f.Label, f.Value, w, body)...)
	}
	for _, t := range texts {
		if t != "" {
			lines = append(lines, l.printer.fonts.Para(t, w, 0, body)...)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return append(append(l.title(heading, w), lines...), sheet.Gap(8))
}

func (l *letterhead) payments(w float64) []sheet.Line {
	if len(l.v.Payments.Rows) == 0 {
		return nil
	}
	lines := l.title(l.v.Payments.Title, w)
	g := l.measure(l.v.Payments, w, body)
	lines = append(lines, g.header(nil)...)
	for _, r := range g.table.Rows {
		lines = append(lines, g.row(r)...)
	}
	return append(lines, sheet.Gap(8))
}

// totals returns the block of the amounts. The final amount has a background of the emisor's colour.
func (l *letterhead) totals(w float64) []sheet.Line {
	var lines []sheet.Line
	st := sheet.Plain(8.2, sheet.Black)
	for _, t := range l.v.Totals {
		lines = append(lines, l.amount(t.Label, t.Value, w, st, 13)...)
	}
	if l.v.Total.Label == "" {
		return lines
	}
	label := strings.ToUpper(l.v.Total.Label)
	st = sheet.Strong(11, l.printer.ink.ReadableInk())
	for st.Size > 8.5 && l.printer.fonts.Width(label+"  "+l.v.Total.Value, st.Size, true) > w-24 {
		st.Size -= 0.5
	}
	total := inset(l.amount(label, l.v.Total.Value, w, st, 22), 0, &l.printer.ink)
	total[0].Rule = nil
	return append(lines, total...)
}

// amount returns a label and an amount at the two ends of a line. A long label continues on further lines.
func (l *letterhead) amount(label, value string, w float64, st sheet.Style, least float64) []sheet.Line {
	const pad = 6
	vs := st
	if n := l.printer.fonts.Width(value, st.Size, st.Bold); n > w-2*pad { // use smaller letters, and then an ellipsis
		vs.Size = max(5, st.Size*(w-2*pad)/n)
	}
	value = l.printer.fonts.Ellipsis(value, w-2*pad, vs)
	vw := l.printer.fonts.Width(value, vs.Size, vs.Bold)
	room := w - 2*pad - vw - 8
	var lines []sheet.Line
	if room < 60 { // a very wide amount gets its own line
		lines = l.printer.fonts.Para(label, w-2*pad, 0, st)
		lines = append(lines, sheet.Line{Height: st.Size * sheet.Leading})
	} else {
		lines = l.printer.fonts.Para(label, room, 0, st)
	}
	last := &inset(lines, pad, nil)[len(lines)-1]
	last.Pieces = append(last.Pieces, sheet.Piece{DX: w - pad - vw, W: vw, Text: value, Style: vs})
	if len(lines) == 1 {
		lines[0].Height = least
	}
	lines[0].Rule = &sheet.Hair
	return lines
}

// inset moves the texts of lines to the right, gives the lines a background (nil: none), and returns the lines.
func inset(lines []sheet.Line, by float64, ground *sheet.RGB) []sheet.Line {
	for i := range lines {
		lines[i].Ground = ground
		for j := range lines[i].Pieces {
			lines[i].Pieces[j].DX += by
		}
	}
	return lines
}

func (l *letterhead) foot(pg *sheet.Page, n, total int) {
	c := *l.c
	c.Pages = []*sheet.Page{pg}
	y := letterH - margin - footing + 16.0
	c.Fill(c.Left, y, c.Width, 0.5, sheet.Hair)
	number := fmt.Sprintf("Página %d de %d", n, total)
	w := c.Fonts.Width(number, 7, true)
	c.Text(c.Left+c.Width-w, y+11, number, sheet.Strong(7, sheet.Grey))
	room := c.Width - w - gutter
	c.Text(c.Left, y+11, c.Fonts.Ellipsis("Representación gráfica de documento tributario electrónico  ·  "+l.v.Host,
		room, micro), micro)
	if l.v.Footer != "" {
		c.Text(c.Left, y+20, c.Fonts.Ellipsis(l.v.Footer, room, micro), micro)
	}
	if l.v.State == Invalidated {
		st := sheet.Strong(96, sheet.Red)
		c.Add(sheet.Op{Kind: sheet.OpStamp, Y: letterH/2 + 44, W: c.Fonts.Width("INVALIDADO", st.Size, true), H: 52,
			Text: "INVALIDADO", Style: st})
	}
}
