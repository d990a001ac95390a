package pdf

import (
	"slices"
	"strings"
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
func (p *Printer) receipt(v *view) []part {
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
func (r *receipt) head(v *view) {
	name, sub := v.emisor.trade, v.emisor.name
	if name == "" {
		name, sub = sub, ""
	}
	r.middle(toneTitle, name)
	r.middle(toneBold, sub)
	for _, f := range v.emisor.fields {
		r.middle(toneSmall, f.label+": "+f.value)
	}
	r.rule()
	r.middle(toneSmall, v.kind)
	r.middle(toneTitle, v.title)
	r.middle(toneSmall, "Ver. "+v.version)
	if v.trial {
		r.band(isTrial)
	}
	r.marks(v)
	r.rule()
	for _, f := range v.codes {
		r.text(toneSmall, f.label)
		r.text(toneBold, f.value)
	}
	r.fields(toneSmall, v.received)
	r.fields(toneSmall, v.facts)
	r.rule()
	r.text(toneBold, v.receptor.heading+": "+v.receptor.name)
	r.text(toneNormal, v.receptor.trade)
	r.fields(toneSmall, v.receptor.fields)
	for _, g := range v.groups {
		r.rule()
		r.text(toneBold, g.title)
		for _, row := range g.rows {
			r.text(toneSmall, strings.Join(full(row.cells), " · "))
		}
	}
	r.rule()
}

// lines are what was sold.
func (r *receipt) lines(v *view) {
	for i, row := range v.items.rows {
		if i > 0 {
			r.add(part{kind: partSpace})
		}
		r.sale(row)
		v.pause()
	}
	r.text(toneSmall, v.key)
	r.rule()
}

// sums are the totals, how they are paid, and where the document is found.
func (r *receipt) sums(v *view) {
	for _, t := range v.totals {
		r.pair(toneNormal, t.label, t.value)
	}
	if v.total.label != "" {
		r.pair(toneTotal, strings.ToUpper(v.total.label), v.total.value)
	}
	r.text(toneSmall, v.words)
	r.rule()
	r.fields(toneNormal, v.terms)
	for _, row := range v.payments.rows {
		last := len(row.cells) - 1
		r.pair(toneNormal, strings.Join(full(row.cells[:last]), " · "), row.cells[last])
	}
	r.block("Observaciones", nil, v.observations)
	r.block("Entrega", v.delivery, nil)
	r.block("Apéndice", v.appendix, nil)
	r.rule()
	r.add(part{kind: partQR})
	r.middle(toneSmall, v.consult+": "+v.host)
	switch v.state {
	case Contingency:
		r.band(inContingency)
	case Invalidated:
		r.band(isVoid)
	}
	r.middle(toneBold, v.footer)
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

func (r *receipt) fields(t tone, fields []field) {
	for _, f := range fields {
		r.text(t, f.label+": "+f.value)
	}
}

func (r *receipt) block(heading string, fields []field, texts []string) {
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
func (r *receipt) marks(v *view) {
	switch v.state {
	case Contingency:
		r.band(inContingency)
		r.middle(toneBold, "Modelo de facturación diferido")
		r.middle(toneSmall, v.legend)
	case Invalidated:
		r.band(isVoid)
		for _, n := range v.note {
			r.middle(toneSmall, n)
		}
	}
}

// sale is a line of the document: what it is, how many and what it comes to, and other amounts of it.
func (r *receipt) sale(row row) {
	s := row.sale
	r.text(toneNormal, s.text)
	for _, n := range slices.Concat(s.about, row.notes) {
		r.text(toneSmall, n)
	}
	r.pair(toneNormal, s.sum, s.amount)
	for _, f := range s.more {
		r.pair(toneSmall, f.label, f.value)
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
