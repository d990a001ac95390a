package pdf

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/engine/pdf/sheet"
)

// paper has the measures of a ticket, in points; 1 mm is 2.835 points.
type paper struct {
	w, side float64    // width of the paper, and unprinted width at each side
	logo    float64    // greatest height
	qr      float64    // side
	sizes   [5]float64 // by tone
}

var papers = [...]paper{
	Ticket80: {w: 226.8, side: 11.4, logo: 70, qr: 130, sizes: [...]float64{7.8, 6.8, 7.8, 10.5, 12}},
	Ticket58: {w: 164.4, side: 14.2, logo: 56, qr: 118, sizes: [...]float64{7, 6.2, 7, 9, 10}},
}

// longest is the greatest length of a ticket's page: 3 m. PDF viewers allow at most 5 m.
const longest = 8504

// ticket lays out parts in black, on one page as long as they are or on several (see longest). It pauses after each.
func (p *Printer) ticket(parts []part, layout Layout, pause func()) []*sheet.Page {
	pp := papers[layout]
	c := &sheet.Canvas{Fonts: p.fonts, W: pp.w, Left: pp.side, Width: pp.w - 2*pp.side, Bottom: longest - 30,
		Room: longest - 60}
	c.Head = func() { c.Y = 12 }
	c.NewPage()
	for _, part := range parts {
		c.Keep(p.lines(part, pp, c.Width), c.Left, c.Width)
		pause()
	}
	for i, pg := range c.Pages {
		pg.H = longest
		if i == len(c.Pages)-1 {
			pg.H = c.Y + 14
		}
		if len(c.Pages) > 1 {
			s := fmt.Sprintf("Página %d de %d", i+1, len(c.Pages))
			st := sheet.Plain(pp.sizes[toneSmall], sheet.Black)
			pg.Ops = append(pg.Ops, sheet.Op{Kind: sheet.OpText, X: c.Left, Y: pg.H - 5, W: c.Fonts.Width(s, st.Size,
				false), H: st.Size, Text: s, Style: st})
		}
	}
	return c.Pages
}

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
		lines := append([]sheet.Line{sheet.Gap(2)}, append(p.fonts.Para(part.left, width-6, align, st),
			sheet.Gap(2.5))...)
		return append(append([]sheet.Line{sheet.Gap(2)}, inset(lines, 3, &sheet.RGB{})...), sheet.Gap(2.5))
	case partPair:
		return p.pair(part, st, width)
	}
	return p.fonts.Para(part.left, width, align, st)
}

// pair returns a text at the left, and an amount at the right end of its last line or on lines of its own.
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

type partKind uint8

const (
	partText partKind = iota // at the left or in the middle
	partPair                 // texts at both ends of a line
	partBand                 // white on black, in full width
	partRule
	partSpace
	partLogo
	partQR
)

type tone uint8

const (
	toneNormal tone = iota
	toneSmall
	toneBold
	toneTitle
	toneTotal
)

// part is one piece of a ticket. A list of parts, from top to bottom, makes the PDF and the ESC/POS ticket.
type part struct {
	kind        partKind
	tone        tone
	middle      bool
	left, right string
}

func (p *Printer) receipt(v *View) []part {
	r := &receipt{}
	if p.logo != nil {
		r.add(part{kind: partLogo})
	}
	r.head(v)
	r.lines(v)
	r.sums(v)
	return r.parts
}

func (r *receipt) head(v *View) {
	name, sub := v.Emisor.Trade, v.Emisor.Name
	if name == "" {
		name, sub = sub, ""
	}
	r.middle(toneTitle, name)
	r.middle(toneBold, sub)
	for _, f := range v.Emisor.Fields {
		r.middle(toneSmall, f.Label+": "+f.Value)
	}
	r.rule()
	r.middle(toneSmall, v.Kind)
	r.middle(toneTitle, v.Title)
	r.middle(toneSmall, "Ver. "+v.Version)
	if v.Trial {
		r.band(isTrial)
	}
	r.marks(v)
	r.rule()
	for _, f := range v.Codes {
		r.text(toneSmall, f.Label)
		r.text(toneBold, f.Value)
	}
	r.fields(toneSmall, v.Received)
	r.fields(toneSmall, v.Facts)
	r.rule()
	r.text(toneBold, v.Receptor.Heading+": "+v.Receptor.Name)
	r.text(toneNormal, v.Receptor.Trade)
	r.fields(toneSmall, v.Receptor.Fields)
	for _, g := range v.Groups {
		r.rule()
		r.text(toneBold, g.Title)
		for _, row := range g.Rows {
			r.text(toneSmall, strings.Join(full(row.Cells), " · "))
		}
	}
	r.rule()
}

func (r *receipt) lines(v *View) {
	for i, row := range v.Items.Rows {
		if i > 0 {
			r.add(part{kind: partSpace})
		}
		r.sale(row)
		v.Pause()
	}
	r.text(toneSmall, v.Key)
	r.rule()
}

func (r *receipt) sums(v *View) {
	for _, t := range v.Totals {
		r.pair(toneNormal, t.Label, t.Value)
	}
	if v.Total.Label != "" {
		r.pair(toneTotal, strings.ToUpper(v.Total.Label), v.Total.Value)
	}
	r.text(toneSmall, v.Words)
	r.rule()
	r.fields(toneNormal, v.Terms)
	for _, row := range v.Payments.Rows {
		last := len(row.Cells) - 1
		r.pair(toneNormal, strings.Join(full(row.Cells[:last]), " · "), row.Cells[last])
	}
	r.block("Observaciones", nil, v.Observations)
	r.block("Entrega", v.Delivery, nil)
	r.block("Apéndice", v.Appendix, nil)
	r.rule()
	r.add(part{kind: partQR})
	r.middle(toneSmall, v.Consult+": "+v.Host)
	switch v.State {
	case Contingency:
		r.band(inContingency)
	case Invalidated:
		r.band(isVoid)
	}
	r.middle(toneBold, v.Footer)
}

type receipt struct{ parts []part }

func (r *receipt) add(p part) { r.parts = append(r.parts, p) }

func (r *receipt) rule() {
	if n := len(r.parts); n > 0 && r.parts[n-1].kind != partRule {
		r.add(part{kind: partRule})
	}
}

func (r *receipt) text(t tone, s string) {
	if s != "" {
		r.add(part{tone: t, left: s})
	}
}

func (r *receipt) middle(t tone, s string) {
	if s != "" {
		r.add(part{tone: t, middle: true, left: s})
	}
}

func (r *receipt) pair(t tone, left, right string) {
	r.add(part{kind: partPair, tone: t, left: left, right: right})
}

func (r *receipt) band(s string) { r.add(part{kind: partBand, tone: toneBold, middle: true, left: s}) }

func (r *receipt) fields(t tone, fields Fields) {
	for _, f := range fields {
		r.text(t, f.Label+": "+f.Value)
	}
}

func (r *receipt) block(heading string, fields Fields, texts []string) {
	if len(fields)+len(texts) == 0 {
		return
	}
	r.rule()
	r.text(toneBold, heading)
	r.fields(toneSmall, fields)
	for _, t := range texts {
		r.text(toneSmall, t)
	}
}

const (
	inContingency = "TRANSMISIÓN POR CONTINGENCIA"
	isVoid        = "DOCUMENTO INVALIDADO"
	isTrial       = "AMBIENTE DE PRUEBAS, SIN VALIDEZ FISCAL"
)

// marks adds the marks that a reader must not miss. A band at the end of the ticket repeats them.
func (r *receipt) marks(v *View) {
	switch v.State {
	case Contingency:
		r.band(inContingency)
		r.middle(toneBold, "Modelo de facturación diferido")
		r.middle(toneSmall, v.Legend)
	case Invalidated:
		r.band(isVoid)
		for _, n := range v.Note {
			r.middle(toneSmall, n)
		}
	}
}

func (r *receipt) sale(row Row) {
	s := row.Sale
	r.text(toneNormal, s.Text)
	for _, n := range slices.Concat(s.About, row.Notes) {
		r.text(toneSmall, n)
	}
	r.pair(toneNormal, s.Sum, s.Amount)
	for _, f := range s.More {
		r.pair(toneSmall, f.Label, f.Value)
	}
}

func full(texts []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
}

// Slip is a ticket that is not a tax document, such as the closing of a day.
type Slip struct {
	Title, Issuer string
	Made          time.Time
	Trial         bool // a slip of the authority's test system
	Head          Fields
	Blocks        []Block // a block without rows is left out
	Total         Field
	Notes         []string
}

// Block is some rows of a slip under a title.
type Block struct {
	Title string
	Rows  Fields
}

func (p *Printer) slip(s Slip) []part {
	r := &receipt{}
	r.middle(toneTitle, p.fonts.Clean(s.Issuer))
	r.middle(toneTitle, p.fonts.Clean(s.Title))
	if s.Trial {
		r.band(isTrial)
	}
	r.rule()
	rows := func(t tone, list Fields) {
		for _, row := range list {
			r.pair(t, p.fonts.Clean(row.Label), p.fonts.Clean(row.Value))
		}
	}
	rows(toneSmall, s.Head)
	for _, b := range s.Blocks {
		if len(b.Rows) > 0 {
			r.rule()
			r.text(toneBold, p.fonts.Clean(b.Title))
			rows(toneNormal, b.Rows)
		}
	}
	r.rule()
	rows(toneTotal, Fields{s.Total})
	for _, n := range s.Notes {
		r.text(toneSmall, p.fonts.Clean(n))
	}
	return r.parts
}
