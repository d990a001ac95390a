package pdf

import (
	"slices"
	"strings"

	"dtegate/engine/pdf/view"
)

// partKind is what a part of a ticket is.
type partKind uint8

const (
	partText partKind = iota // left, or in the middle
	partPair                 // left and right ends of a line
	partBand                 // white on black, over the whole width
	partRule
	partSpace
	partLogo
	partQR
)

// tone is how a text of a ticket is set.
type tone uint8

const (
	toneNormal tone = iota
	toneSmall
	toneBold
	toneTitle
	toneTotal
)

// part is one piece of a ticket, from top to bottom. Both the PDF and the ESC/POS ticket are made of them.
type part struct {
	kind        partKind
	tone        tone
	middle      bool
	left, right string
}

// receipt is a document as a ticket.
func (p *Printer) receipt(v *view.View) []part {
	r := &receipt{}
	if p.logo != nil {
		r.add(part{kind: partLogo})
	}
	r.head(v)
	r.lines(v)
	r.sums(v)
	return r.parts
}

// head is who issues what to whom.
func (r *receipt) head(v *view.View) {
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

// lines are what was sold.
func (r *receipt) lines(v *view.View) {
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

// sums are the totals, how they are paid, and where the document is found.
func (r *receipt) sums(v *view.View) {
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

// rule adds a line unless one is there already.
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

func (r *receipt) fields(t tone, fields []view.Field) {
	for _, f := range fields {
		r.text(t, f.Label+": "+f.Value)
	}
}

func (r *receipt) block(heading string, fields []view.Field, texts []string) {
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

// marks is what a reader must not miss; a band repeats it at the end.
func (r *receipt) marks(v *view.View) {
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

// sale is a line of the document: what it is, how many and what it comes to, and other amounts of it.
func (r *receipt) sale(row view.Row) {
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

// full are the cells that say something.
func full(cells []string) []string {
	var out []string
	for _, c := range cells {
		if c != "" {
			out = append(out, c)
		}
	}
	return out
}
