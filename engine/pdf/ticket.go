package pdf

import (
	"fmt"

	"dtegate/engine/pdf/sheet"
	"dtegate/engine/pdf/view"
)

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

// longest is the greatest length of a ticket's page: 3 m. PDF viewers stop at 5.
const longest = 8504

// ticket lays a document out on thermal paper: black only, one page as long as it takes.
func (p *Printer) ticket(v *view.View, layout Layout) []*sheet.Page {
	pp := papers[layout]
	c := &sheet.Canvas{Fonts: p.fonts, W: pp.w, Left: pp.side, Width: pp.w - 2*pp.side, Bottom: longest - 30, Room: longest - 60}
	c.Head = func() { c.Y = 12 }
	c.NewPage()
	for _, part := range p.receipt(v) {
		c.Keep(p.lines(part, pp, c.Width), c.Left, c.Width)
		v.Pause()
	}
	for i, pg := range c.Pages {
		pg.H = longest
		if i == len(c.Pages)-1 {
			pg.H = c.Y + 14
		}
		if len(c.Pages) > 1 {
			s := fmt.Sprintf("Página %d de %d", i+1, len(c.Pages))
			st := sheet.Style{Size: pp.sizes[toneSmall], Ink: sheet.Black}
			pg.Ops = append(pg.Ops, sheet.Op{Kind: sheet.OpText, X: c.Left, Y: pg.H - 5, W: c.Fonts.Width(s, st.Size, false), H: st.Size, Text: s, Style: st})
		}
	}
	return c.Pages
}

// lines sets one part of a ticket.
func (p *Printer) lines(part part, pp paper, width float64) []sheet.Line {
	st := sheet.Style{Size: pp.sizes[part.tone], Bold: part.tone >= toneBold, Ink: sheet.RGB{}}
	align := 0.0
	if part.middle {
		align = 0.5
	}
	switch part.kind {
	case partSpace:
		return []sheet.Line{sheet.Gap(2.5)}
	case partRule:
		return []sheet.Line{sheet.Gap(3), {Height: 3.5, Rule: &sheet.RGB{}}}
	case partLogo:
		w, h := p.logo.Fit(width*0.8, pp.logo)
		return []sheet.Line{{Height: h, Mark: sheet.OpLogo, Wide: w}, sheet.Gap(5)}
	case partQR:
		return []sheet.Line{sheet.Gap(2), {Height: pp.qr, Mark: sheet.OpQR, Wide: pp.qr}}
	case partBand:
		st.Ink = sheet.White
		lines := append([]sheet.Line{sheet.Gap(2)}, append(p.fonts.Para(part.left, width-6, align, st), sheet.Gap(2.5))...)
		for i := range lines {
			lines[i].Ground = &sheet.RGB{}
			for j := range lines[i].Pieces {
				lines[i].Pieces[j].DX += 3
			}
		}
		return append(append([]sheet.Line{sheet.Gap(2)}, lines...), sheet.Gap(2.5))
	case partPair:
		return p.pair(part, st, width)
	}
	return p.fonts.Para(part.left, width, align, st)
}

// pair sets a text and an amount at the two ends. The amount stands on the last line of the text; where there is no
// room it has lines of its own.
func (p *Printer) pair(part part, st sheet.Style, width float64) []sheet.Line {
	f := p.fonts
	w := f.Width(part.right, st.Size, st.Bold)
	room := width - w - 6
	if room < width/3 {
		return append(f.Para(part.left, width, 0, st), f.Para(part.right, width, 1, st)...)
	}
	lines := f.Para(part.left, room, 0, st)
	last := &lines[len(lines)-1]
	last.Pieces = append(last.Pieces, sheet.Piece{DX: width - w, W: w, Text: part.right, Style: st})
	if part.tone == toneTotal {
		lines = append([]sheet.Line{sheet.Gap(3)}, append(lines, sheet.Gap(3))...)
	}
	return lines
}
