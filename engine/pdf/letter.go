package pdf

import (
	"fmt"
	"strings"
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
	body  = style{size: 8, ink: black}
	small = style{size: 7, ink: grey}
	micro = style{size: 6.2, ink: grey}
)

// letter lays a document out on letter-size pages.
func (p *Printer) letter(v *view) []*page {
	c := &canvas{fonts: p.fonts, w: letterW, h: letterH, left: margin, width: letterW - 2*margin}
	c.bottom = letterH - margin - footing + 8
	l := &letterhead{p, v, c}
	c.head, c.room = l.first, c.bottom-margin-36
	c.newPage()
	c.head = l.drawLaterHead

	l.identification()
	l.marks()
	l.parties()
	for _, g := range v.groups {
		l.heading(g.title)
		l.grid(g, c.left, c.width, nil)
		c.y += 8
	}
	if len(v.items.rows) > 0 {
		l.grid(v.items, c.left, c.width, &p.ink)
		c.y += 8
	}
	l.closing()
	for i, pg := range c.pages {
		l.foot(pg, i+1, len(c.pages))
	}
	return c.pages
}

// letterhead draws what is particular to the letter layout.
type letterhead struct {
	*Printer
	v *view
	c *canvas
}

// first draws the head of the first page: who, and what.
func (l *letterhead) first() {
	c := l.c
	right := c.left + c.width
	c.y = margin
	x := c.left
	if l.logo != nil {
		w, h := l.logo.fit(130, 52)
		c.add(op{kind: opLogo, x: x, y: c.y, w: w, h: h})
		x += w + 12
	}
	title, titleW := l.headline()
	c.strip(title, right-titleW, c.y, titleW)
	name := l.brand(right - titleW - gutter - x)
	c.strip(name, x, c.y, 0)
	least := 34.0
	if l.logo != nil {
		least = 56
	}
	c.y += max(least, height(title), height(name)) + 4
	c.fill(c.left, c.y, c.width, 2, l.ink)
	c.y += 10
}

// headline is the type of the document, aligned right, and the width it takes.
func (l *letterhead) headline() ([]line, float64) {
	const most = 232
	kind := style{7.5, true, grey}
	st := style{12, true, black}
	version := "Ver. " + l.fonts.ellipsis(l.v.version, 60, small)
	title := l.fonts.ellipsis(l.v.title, 2*most-80, st)
	w := min(most, max(l.fonts.width(version, small.size, false), l.fonts.width(title, st.size, true), l.fonts.width(l.v.kind, kind.size, true))+1)
	lines := l.fonts.para(l.v.kind, w, 1, kind)
	lines = append(lines, gap(2))
	lines = append(lines, l.fonts.para(title, w, 1, st)...)
	lines = append(lines, gap(1))
	return append(lines, l.fonts.para(version, w, 1, small)...), w
}

// brand is the emisor's name, as large as it fits. It is in full in the emisor's own block.
func (l *letterhead) brand(w float64) []line {
	name, sub := l.v.emisor.trade, l.v.emisor.name
	if name == "" {
		name, sub = sub, ""
	}
	st := style{15, true, l.ink}
	for st.size > 10 && l.fonts.width(name, st.size, true) > w {
		st.size--
	}
	lines := l.fonts.para(name, w, 0, st)
	if len(lines) > 2 {
		lines = l.fonts.para(l.fonts.ellipsis(name, w, st), w, 0, st)
	}
	if sub != "" {
		st = style{8, false, grey}
		lines = append(lines, l.fonts.para(l.fonts.ellipsis(sub, w, st), w, 0, st)...)
	}
	return lines
}

// identification draws the codes and the facts in two columns, and the QR code beside them.
func (l *letterhead) identification() {
	c, v := l.c, l.v
	room := c.width - qrSide - gutter
	wide := room * 0.56
	set := func(fields []field, w float64, bold bool) (lines []line) {
		for _, f := range fields {
			lines = append(lines, c.para(f.label, w, 0, micro)...)
			lines = append(lines, c.para(f.value, w, 0, style{8.2, bold, black})...)
			lines = append(lines, gap(4))
		}
		return lines
	}
	x, y := c.left+c.width-qrSide, c.y-6
	c.add(op{kind: opQR, x: x, y: y, w: qrSide, h: qrSide})
	c.strip(c.para(l.v.consult, qrSide, 0.5, micro), x, y+qrSide, qrSide)
	c.drawColumns(
		column{c.left, wide - 10, append(set(v.codes, wide-10, true), set(v.received, wide-10, false)...)},
		column{c.left + wide, room - wide, set(v.facts, room-wide, false)},
	)
	if len(c.pages) == 1 {
		c.y = max(c.y, y+qrSide+12)
	}
	c.y += 4
}

// drawLaterHead draws the head of every page but the first.
func (l *letterhead) drawLaterHead() {
	c, v := l.c, l.v
	half := c.width/2 - gutter/2
	c.y = margin
	name := c.ellipsis(v.emisor.name, half, style{9, true, l.ink})
	title := c.ellipsis(v.title, half, style{9, true, black})
	c.strip(c.para(name, half, 0, style{9, true, l.ink}), c.left, c.y, half)
	c.strip(c.para(title, half, 1, style{9, true, black}), c.left+c.width-half, c.y, half)
	codes := "Código de generación " + v.code
	if v.control != "" {
		codes += "   ·   Número de control " + v.control
	}
	c.strip(c.para(c.ellipsis(codes, c.width, small), c.width, 0, small), c.left, c.y+12, c.width)
	c.fill(c.left, c.y+24, c.width, 1, l.ink)
	c.y += 36
}

// marks draws what a reader must not miss: a trial, contingency, and a document that is void.
func (l *letterhead) marks() {
	c, v := l.c, l.v
	box := func(title string, text []string, ink rgb) {
		ground := ink.tint(0.1)
		lines := []line{gap(5)}
		lines = append(lines, c.para(title, c.width-20, 0, style{9, true, ink})...)
		for _, t := range text {
			lines = append(lines, c.para(t, c.width-20, 0, style{7.5, false, black})...)
		}
		lines = append(lines, gap(5))
		for i := range lines {
			lines[i].ground = &ground
			for j := range lines[i].pieces {
				lines[i].pieces[j].dx += 10
			}
		}
		c.keep(lines, c.left, c.width)
		c.y += 8
	}
	if v.trial {
		box(isTrial, nil, rgb{60, 66, 80})
	}
	switch v.state {
	case Contingency:
		box(inContingency+"  ·  MODELO DE FACTURACIÓN DIFERIDO", []string{v.legend}, rgb{150, 84, 0})
	case Invalidated:
		box(isVoid, v.note, red)
	}
}

// parties draws who sells and who buys, side by side.
func (l *letterhead) parties() {
	c, v := l.c, l.v
	half := (c.width - gutter) / 2
	var columns []column
	for i, p := range []party{v.emisor, v.receptor} {
		lines := l.title(p.heading, half)
		lines = append(lines, c.para(p.name, half, 0, style{9, true, black})...)
		if p.trade != "" {
			lines = append(lines, c.para(p.trade, half, 0, body)...)
		}
		lines = append(lines, gap(2))
		for _, f := range p.fields {
			lines = append(lines, c.labelled(f.label, f.value, half, style{7.6, false, black})...)
		}
		columns = append(columns, column{c.left + float64(i)*(half+gutter), half, lines})
	}
	c.drawColumns(columns...)
	c.y += 10
}

// title is the heading of a block.
func (l *letterhead) title(s string, width float64) []line {
	lines := l.fonts.para(strings.ToUpper(s), width, 0, style{7.2, true, l.ink})
	rule := line{height: 5, rule: &hair}
	return append(append(lines, gap(1.5)), rule)
}

// heading draws a heading that stays with what follows.
func (l *letterhead) heading(s string) {
	l.c.need(64)
	l.c.flow(l.title(s, l.c.width), l.c.left, l.c.width)
}

// closing draws what is below the lines: the amounts at the right, words and terms beside them, the rest below
// over the whole width.
func (l *letterhead) closing() {
	c, v := l.c, l.v
	const totalsW = 236
	leftW := c.width - totalsW - gutter
	totals := l.totals(totalsW)
	var beside []line
	limit := max(height(totals), 120)
	blocks := []func(w float64) []line{
		func(w float64) []line { return l.block("Valor en letras", w, nil, v.words) },
		func(w float64) []line { return l.block("Condiciones", w, v.terms) },
		func(w float64) []line { return l.payments(w) },
		func(w float64) []line { return l.block("Observaciones", w, nil, v.observations...) },
		func(w float64) []line { return l.block("Entrega", w, v.delivery) },
		func(w float64) []line { return l.block("Apéndice", w, v.appendix) },
	}
	for len(blocks) > 0 {
		lines := blocks[0](leftW)
		if height(beside)+height(lines) > limit {
			break
		}
		beside = append(beside, lines...)
		blocks = blocks[1:]
	}
	c.drawColumns(column{c.left, leftW, beside}, column{c.left + leftW + gutter, totalsW, totals})
	c.y += 8
	for _, b := range blocks {
		if lines := b(c.width); len(lines) > 0 {
			c.keep(lines, c.left, c.width)
		}
	}
}

// block is a heading over fields or paragraphs; nothing when there are none.
func (l *letterhead) block(heading string, w float64, fields []field, texts ...string) []line {
	var lines []line
	for _, f := range fields {
		lines = append(lines, l.fonts.labelled(f.label, f.value, w, body)...)
	}
	for _, t := range texts {
		if t != "" {
			lines = append(lines, l.fonts.para(t, w, 0, body)...)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return append(append(l.title(heading, w), lines...), gap(8))
}

func (l *letterhead) payments(w float64) []line {
	if len(l.v.payments.rows) == 0 {
		return nil
	}
	lines := l.title(l.v.payments.title, w)
	g := l.measure(l.v.payments, w, body)
	lines = append(lines, g.header(nil)...)
	for _, r := range g.table.rows {
		lines = append(lines, g.row(r)...)
	}
	return append(lines, gap(8))
}

// totals is the block of the amounts, the last one on a ground of the emisor's colour.
func (l *letterhead) totals(w float64) []line {
	var lines []line
	st := style{8.2, false, black}
	for _, t := range l.v.totals {
		lines = append(lines, l.amount(t.label, t.value, w, st, 13)...)
	}
	if l.v.total.label == "" {
		return lines
	}
	label := strings.ToUpper(l.v.total.label)
	st = style{11, true, l.ink.readableInk()}
	for st.size > 8.5 && l.fonts.width(label+"  "+l.v.total.value, st.size, true) > w-24 {
		st.size -= 0.5
	}
	total := l.amount(label, l.v.total.value, w, st, 22)
	for i := range total {
		total[i].ground, total[i].rule = &l.ink, nil
	}
	return append(lines, total...)
}

// amount is a label and an amount at the two ends of a line; the label goes on below where it is long.
func (l *letterhead) amount(label, value string, w float64, st style, least float64) []line {
	const pad = 6
	value, vs := l.shrunk(value, w-2*pad, st)
	vw := l.fonts.width(value, vs.size, vs.bold)
	room := w - 2*pad - vw - 8
	var lines []line
	if room < 60 { // an amount as wide as the block stands alone
		lines = l.fonts.para(label, w-2*pad, 0, st)
		lines = append(lines, line{height: st.size * leading})
	} else {
		lines = l.fonts.para(label, room, 0, st)
	}
	for i := range lines {
		for j := range lines[i].pieces {
			lines[i].pieces[j].dx += pad
		}
	}
	last := &lines[len(lines)-1]
	last.pieces = append(last.pieces, piece{dx: w - pad - vw, w: vw, text: value, style: vs})
	if len(lines) == 1 {
		lines[0].height = least
	}
	lines[0].rule = &hair
	return lines
}

// shrunk sets a text smaller until it fits, and shortens it when it does not at 5 points.
func (l *letterhead) shrunk(s string, w float64, st style) (string, style) {
	if n := l.fonts.width(s, st.size, st.bold); n > w {
		st.size = max(5, st.size*w/n)
	}
	return l.fonts.ellipsis(s, w, st), st
}

// foot draws the foot of page n of all.
func (l *letterhead) foot(pg *page, n, all int) {
	c := *l.c
	c.pages = []*page{pg}
	y := letterH - margin - footing + 16.0
	c.fill(c.left, y, c.width, 0.5, hair)
	number := fmt.Sprintf("Página %d de %d", n, all)
	w := c.fonts.width(number, 7, true)
	c.text(c.left+c.width-w, y+11, number, style{7, true, grey})
	room := c.width - w - gutter
	c.text(c.left, y+11, c.ellipsis("Representación gráfica de documento tributario electrónico  ·  "+l.v.host, room, micro), micro)
	if l.v.footer != "" {
		c.text(c.left, y+20, c.ellipsis(l.v.footer, room, micro), micro)
	}
	if l.v.state == Invalidated {
		st := style{96, true, red}
		c.add(op{kind: opStamp, y: letterH/2 + 44, w: c.fonts.width("INVALIDADO", st.size, true), h: 52, text: "INVALIDADO", style: st})
	}
}
