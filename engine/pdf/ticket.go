package pdf

import "fmt"

// paper is the measure of a ticket, in points; 1 mm is 2.835.
type paper struct {
	w, side float64 // of the paper; unprinted at each side
	logo    float64 // greatest height
	qr      float64
	sizes   [5]float64 // by tone
}

var papers = [...]paper{
	Ticket80: {w: 226.8, side: 11.4, logo: 70, qr: 130, sizes: [...]float64{7.8, 6.8, 7.8, 10.5, 12}},
	Ticket58: {w: 164.4, side: 14.2, logo: 56, qr: 118, sizes: [...]float64{7, 6.2, 7, 9, 10}},
}

// sheet is the longest page of a ticket: 3 m. PDF viewers stop at 5.
const sheet = 8504

// ticket lays a document out on thermal paper: black only, one page as long as it takes.
func (p *Printer) ticket(v *view, layout Layout) []*page {
	pp := papers[layout]
	c := &canvas{fonts: p.fonts, w: pp.w, left: pp.side, width: pp.w - 2*pp.side, bottom: sheet - 30, room: sheet - 60}
	c.head = func() { c.y = 12 }
	c.newPage()
	for _, part := range p.receipt(v) {
		c.keep(p.lines(part, pp, c.width), c.left, c.width)
		v.pause()
	}
	for i, pg := range c.pages {
		pg.h = sheet
		if i == len(c.pages)-1 {
			pg.h = c.y + 14
		}
		if len(c.pages) > 1 {
			s := fmt.Sprintf("Página %d de %d", i+1, len(c.pages))
			st := style{size: pp.sizes[toneSmall], ink: black}
			pg.ops = append(pg.ops, op{kind: opText, x: c.left, y: pg.h - 5, w: c.fonts.width(s, st.size, false), h: st.size, text: s, style: st})
		}
	}
	return c.pages
}

// lines sets one part of a ticket.
func (p *Printer) lines(part part, pp paper, width float64) []line {
	st := style{size: pp.sizes[part.tone], bold: part.tone >= toneBold, ink: rgb{}}
	align := 0.0
	if part.middle {
		align = 0.5
	}
	switch part.kind {
	case partSpace:
		return []line{gap(2.5)}
	case partRule:
		return []line{gap(3), {height: 3.5, rule: &rgb{}}}
	case partLogo:
		w, h := p.logo.fit(width*0.8, pp.logo)
		return []line{{height: h, mark: opLogo, wide: w}, gap(5)}
	case partQR:
		return []line{gap(2), {height: pp.qr, mark: opQR, wide: pp.qr}}
	case partBand:
		st.ink = white
		lines := append([]line{gap(2)}, append(p.fonts.para(part.left, width-6, align, st), gap(2.5))...)
		for i := range lines {
			lines[i].ground = &rgb{}
			for j := range lines[i].pieces {
				lines[i].pieces[j].dx += 3
			}
		}
		return append(append([]line{gap(2)}, lines...), gap(2.5))
	case partPair:
		return p.pair(part, st, width)
	}
	return p.fonts.para(part.left, width, align, st)
}

// pair sets a text and an amount at the two ends. The amount stands on the last line of the text; where there is no
// room it has lines of its own.
func (p *Printer) pair(part part, st style, width float64) []line {
	f := p.fonts
	w := f.width(part.right, st.size, st.bold)
	room := width - w - 6
	if room < width/3 {
		return append(f.para(part.left, width, 0, st), f.para(part.right, width, 1, st)...)
	}
	lines := f.para(part.left, room, 0, st)
	last := &lines[len(lines)-1]
	last.pieces = append(last.pieces, piece{dx: width - w, w: w, text: part.right, style: st})
	if part.tone == toneTotal {
		lines = append([]line{gap(3)}, append(lines, gap(3))...)
	}
	return lines
}
