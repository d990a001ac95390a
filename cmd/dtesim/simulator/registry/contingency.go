package registry

import (
	"time"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
)

// Deadlines (MF2 pp.19-20): the event must arrive within a day of the end of its cause, a refused event corrected
// within a day of its refusal, and the documents within three days of the event's seal.
const (
	eventTime    = 24 * time.Hour
	grace        = 24 * time.Hour
	documentTime = 72 * time.Hour
)

// cause is a contingency that a sealed event reported.
type cause struct {
	Event
	nit, ambiente string
	motive        string
	turn          int64 // of the seal
	told          bool  // an answer that the issuer could read was sent
}

// notice is a document as an event lists it.
type notice struct {
	*cause
	tipo string
}

// Tell records that the issuer can have read the answer to an event.
func (s *Registry) Tell(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.books.causes {
		c.told = c.told || c.Code == code
	}
}

// JudgeEvent processes a contingency event of the taxpayer nit as MH does.
func (s *Registry) JudgeEvent(d *document.Document, nit string) (seal string, _ *document.Refusal) {
	s.arrived(d)
	bad := document.Stranger("nit")
	if nit == d.Issuer.NIT {
		bad = s.reader.ExamineEvent(d)
		s.keep(d)
	}
	s.lock()
	defer s.mu.Unlock()
	if bad == nil {
		seal, bad = s.books.report(d)
	}
	if _, again := s.books.grace[d.Code]; bad != nil && !again && d.Payload != nil && s.books.records[d.Code] == nil {
		s.books.grace[d.Code] = d.At.Add(grace)
	}
	return seal, bad
}

// report checks an event against the books, and seals it.
func (b *books) report(d *document.Document) (seal string, _ *document.Refusal) {
	if r := b.unused(d); r != nil {
		return "", r
	}
	_, ended := d.Span()
	until := ended.Add(eventTime)
	if late := b.grace[d.Code]; late.After(until) {
		until = late
	}
	if d.At.After(until) {
		b.breach("event %s came after %s", d.Code, until.Format(time.DateTime))
		return "", document.NotAllowed("motivo.fFin/motivo.hFin", "El plazo para informar la contingencia terminó el "+
			until.Format(Stamp))
	}
	items := d.Root.Objects("detalleDTE")
	var known []string
	for i, it := range items {
		code := it.Text("codigoGeneracion")
		if b.records[code] != nil || b.announced[code] != nil {
			known = append(known, document.Detail(i, "codigoGeneracion "+code+" YA EXISTE"))
			b.breach("event %s lists %s, which was received before", d.Code, code)
		}
	}
	if known != nil {
		return "", &document.Refusal{Text: document.Exists("detalleDTE.codigoGeneracion").Text, Notes: known}
	}
	if b.hostility.Take(func(c *hostility.Chaos) *int { return &c.RejectEvents }) {
		return "", document.NotAllowed("motivo.motivoContingencia", Provoked)
	}
	sello := b.seal(d.At)
	a := accepted(d, sello, nil)
	b.announce(d, sello, b.enter(d, a).turn)
	b.write(d, a)
	return sello, nil
}

// announce enters the documents that a sealed event lists.
func (b *books) announce(d *document.Document, sello string, turn int64) *cause {
	m := d.Root.Object("motivo")
	began, ended := d.Span()
	c := &cause{nit: d.Issuer.NIT, ambiente: d.Ambiente, motive: m.Text("motivoContingencia"), turn: turn}
	c.Event = Event{Code: d.Code, Sello: sello, At: d.At, Began: began, Ended: ended,
		Kind: m.Integer("tipoContingencia")}
	for _, it := range d.Root.Objects("detalleDTE") {
		code := it.Text("codigoGeneracion")
		b.announced[code] = &notice{cause: c, tipo: it.Text("tipoDoc")}
		c.Documents = append(c.Documents, code)
	}
	b.causes = append(b.causes, c)
	b.counts.Events++
	return c
}

// listed compares a document issued in contingency with its event (MF2 pp.18-20). The event must be received before the
// document was sent, have the same kind and motive, and be at most three days old.
func (b *books) listed(d *document.Document) *document.Refusal {
	id := d.Root.Object("identificacion")
	if id.Integer("tipoOperacion") == 1 {
		return nil
	}
	n := b.announced[d.Code]
	if n == nil || n.nit != d.Issuer.NIT || n.ambiente != d.Ambiente || n.turn > d.Turn {
		b.breach("%s was sent before its event was received", d.Code)
		return document.Absent("identificacion.tipoContingencia",
			"El documento no figura en ningún evento de contingencia recibido")
	}
	if !n.told {
		b.breach("%s was sent before the seal of its event was answered", d.Code)
	}
	field := ""
	switch motive := id.Text("motivoContin"); {
	case n.tipo != d.Tipo && d.Tipo == "18":
		field = "tipoEvento"
	case n.tipo != d.Tipo:
		field = "tipoDte"
	case id.Integer("tipoContingencia") != n.Kind:
		field = "tipoContingencia"
	case motive != "" && motive != n.motive: // only kind 5 requires a motive
		field = "motivoContin"
	}
	if field != "" {
		b.breach("%s differs from its event in %s", d.Code, field)
		return document.NotAllowed("identificacion."+field, "No corresponde al evento de contingencia")
	}
	if until := n.At.Add(documentTime); d.At.After(until) {
		b.breach("%s came after %s", d.Code, until.Format(time.DateTime))
		return document.NotAllowed("identificacion.fecEmi", "El plazo para transmitir el documento terminó el "+
			until.Format(Stamp))
	}
	return nil
}
